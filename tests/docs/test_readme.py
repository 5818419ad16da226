"""The README's Python, run as it stands, and its tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.readme import filled

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_examples_run_and_find_the_optimum(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    assert len(blocks) == 3
    assert len(blocks[0].strip().splitlines()) <= 25
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, "readme.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    value = float(re.search(r"best value (\S+)", done.stdout)[1])
    assert value < 0.05, "the optimum is 0, at lr = 1e-3, 120 units and relu"
    assert (tmp_path / "run.modeseek").exists()
    assert abs(float(re.search(r"\{'x': (\S+)\}", done.stdout)[1]) - 2) < 0.1, "Optuna's study"


def test_the_tables_of_regret_are_the_reports() -> None:
    text = README.read_text()
    assert filled(text) == text, "python -m benchmarks.readme"
    assert filled(text.replace("the best of the others |", "nobody |")) == text
