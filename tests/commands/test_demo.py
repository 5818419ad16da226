"""The demonstration, as `modeseek demo` runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import modeseek
from modeseek.commands import main


def test_the_demo_finds_a_good_point_and_writes_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "deep" / "demo.png"
    assert main(["demo", "--budget", "30", "--seed", "1", "--out", str(picture)]) == 0
    said = capsys.readouterr()
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert str(picture) in said.out
    regret = float(re.search(r"regret of the best point, without noise: (\S+)", said.out)[1])
    assert 0 <= regret < 15, "the second-best of four valleys lies 14.1 above the best"
    assert "30/30" in said.err, "the progress bar"


def test_a_budget_too_small_for_the_demo_is_said_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--budget", "3"]) == 1
    assert "budget" in capsys.readouterr().err


def test_help_and_version_come_without_drawing_anything() -> None:
    code = "import sys; from modeseek.commands import main; main(['--version'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == f"modeseek {modeseek.__version__}"
    code = (
        "import sys, modeseek; sys.exit(any(m in sys.modules for m in ('matplotlib', 'pandas', 'sklearn', 'optuna')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
