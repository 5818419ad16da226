"""The Python of docs/optuna.md and docs/distributed.md, run as it stands with fewer trials."""

from __future__ import annotations

import re
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
    worker, clearing = blocks("distributed.md", 6)
    monkeypatch.setattr(sys, "argv", ["worker.py", f"sqlite:///{tmp_path / 'study.db'}"])
    scope: dict = {"__name__": "__main__"}
    for _ in range(2):
        exec(worker, scope)
    study = scope["study"]
    assert len(study.trials) == 12
    with pytest.warns(UserWarning, match="Heartbeat"):
        study.ask()
    exec(clearing, scope)
    assert study.trials[-1].state == optuna.trial.TrialState.FAIL
