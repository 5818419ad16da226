"""The Python of docs/optuna.md and docs/distributed.md, run as it stands with fewer trials."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import optuna
import pytest

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = [
    pytest.mark.skipif(not hasattr(optuna.trial.Trial, "set_constraint"), reason="the pages show Optuna 5"),
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]


def blocks(page: str, n_trials: int) -> list[str]:
    text = re.sub(r"n_trials=\d+", f"n_trials={n_trials}", (DOCS / page).read_text())
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_the_page_on_optuna():
    usage, constraint = blocks("optuna.md", 12)
    scope: dict = {}
    exec(usage, scope)
    assert len(scope["study"].trials) == 12
    exec(constraint, scope)
    scope["study"] = optuna.create_study(sampler=scope["DMSSampler"](seed=0))
    scope["study"].optimize(scope["objective"], n_trials=12)
    assert all("sum" in trial.constraints for trial in scope["study"].trials)


def test_the_page_on_workers(monkeypatch, tmp_path):
    """Its commands as printed, on SQLite and with fewer trials; two workers start together."""
    worker, clearing = blocks("distributed.md", 4)
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    (tmp_path / "worker.py").write_text(worker)
    (commands,) = re.findall(r"```sh\n(.*?)```", (DOCS / "distributed.md").read_text(), flags=re.DOTALL)
    _, create, work = re.sub("STORAGE=.*", f"STORAGE={storage}", commands).strip().splitlines()
    monkeypatch.setenv("STORAGE", storage)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    subprocess.run(create, shell=True, check=True, cwd=tmp_path)
    workers = [subprocess.Popen(work, shell=True, cwd=tmp_path) for _ in range(2)]
    assert [process.wait() for process in workers] == [0, 0]
    study = optuna.load_study(study_name="mine", storage=storage)
    assert len(study.trials) == 8
    study.ask()
    exec(clearing, {"study": study, "optuna": optuna})
    assert study.trials[-1].state == optuna.trial.TrialState.FAIL
