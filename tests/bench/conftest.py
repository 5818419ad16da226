"""Records as a campaign would have written them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from modeseek.bench import tasks
from modeseek.bench.campaign.records import Record
from modeseek.bench.tasks import find_task


@pytest.fixture
def shorten(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], None]:
    """Give a known task another n_initial and budget, in this process."""

    def to(name: str, n_initial: int, budget: int) -> None:
        short = dataclasses.replace(find_task(name), n_initial=n_initial, budget=budget)
        monkeypatch.setitem(tasks._PROBLEMS, name, short)

    return to


@pytest.fixture
def section() -> Callable[[Path, str], str]:
    """A section of the `report.md` in a folder, by its title."""

    def of(folder: Path, title: str) -> str:
        text = (folder / "report.md").read_text()
        (found,) = re.findall(rf"^## {re.escape(title)}\n\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
        return str(found).strip()

    return of


@pytest.fixture
def make_record() -> Callable[[str, str, int, float], Record]:
    return _make


def _make(task: str, method: str, replication: int, level: float) -> Record:
    """A replication whose regret falls from 10 to about `level`."""
    problem = find_task(task)
    rng = np.random.default_rng([replication, len(method)])
    count = problem.n_initial + problem.budget
    regret = np.geomspace(10, level * (0.8 + 0.4 * rng.random()), count)
    values = problem.optimum - regret[rng.permutation(count)] if method == "sobol" else problem.optimum - regret
    return Record(
        task=task,
        method=method,
        replication=replication,
        status="complete",
        version="0.1.0",
        config=None,
        seed=0,
        device="cpu",
        batch=2 if method == "dms" else 1,
        n_initial=problem.n_initial,
        observed=values.tolist(),
        values=values.tolist(),
        iterations=[0.4] * problem.budget,
        stages={},
    )
