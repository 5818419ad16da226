"""The demonstration, as `modeseek demo` runs it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from botorch.test_functions.synthetic import Branin

import modeseek
from modeseek.commands import main
from modeseek.commands.demo import HIGH, LOW, OPTIMUM, f


def test_the_demo_finds_a_good_point_and_writes_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "deep" / "demo.png"
    assert main(["demo", "--budget", "16", "--seed", "1", "--out", str(picture)]) == 0
    said = capsys.readouterr()
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert str(picture) in said.out
    regret = float(re.search(r"regret of the best point, without noise: (\S+)", said.out)[1])
    assert 0 <= regret < 1, "so good is the best of 16 random points in one case of four"
    assert "What 16 evaluations say of the minimum" in said.out
    assert "16/16" in said.err, "the progress bar"


def test_a_budget_too_small_for_the_demo_is_said_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--budget", "3"]) == 1
    assert "budget" in capsys.readouterr().err


def test_the_demos_function_is_botorchs() -> None:
    x = np.random.default_rng(0).uniform(LOW, HIGH, (7, 3, 2))
    theirs = Branin().double()
    np.testing.assert_allclose(f(x), theirs(torch.from_numpy(x)), rtol=1e-12)
    assert pytest.approx(theirs.optimal_value, rel=1e-5) == OPTIMUM
    for x in ((-np.pi, 12.275), (np.pi, 2.275), (3 * np.pi, 2.475)):
        assert pytest.approx(OPTIMUM, rel=1e-9) == float(f(np.array(x)))


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"modeseek {modeseek.__version__}"
