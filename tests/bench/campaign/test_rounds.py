"""Campaigns in rounds of several evaluations at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modeseek import Space, dms
from modeseek.bench.campaign.batch import run_batches
from modeseek.bench.campaign.records import Store
from modeseek.bench.campaign.replication import Work, run_replication
from modeseek.bench.methods import make_method
from modeseek.bench.report.curves import gather
from modeseek.bench.tasks import find_task, problem
from modeseek.history import History
from shared import SMALLEST

TASK = "branin-2@q3"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "ROUNDS", 2)
    monkeypatch.setattr(problem, "EVALUATIONS", 6)
    monkeypatch.setattr(Work, "config", property(lambda self: SMALLEST if self.method == "dms" else None))


def test_a_name_says_how_many_at_once() -> None:
    plain, many = find_task("branin-2"), find_task("branin-2@q30")
    assert (plain.q, many.q, many.name) == (1, 30, "branin-2@q30")
    assert (many.n_initial, many.budget) == (30, 60)
    assert find_task(TASK).n_initial == 7
    for name in ("branin-2@q0", "branin-2@q", "branin-2@q12345"):
        with pytest.raises(ValueError, match="no problem"):
            find_task(name)


@pytest.mark.parametrize("method", ["dms", "ucb"])
def test_a_batch_of_replications_is_the_replications(method: str, tmp_path: Path) -> None:
    works = [Work(TASK, method, replication) for replication in range(2)]
    together, alone = list(run_batches(works, tmp_path)), [run_replication(work) for work in works]
    for one, other in zip(together, alone, strict=True):
        assert one.error is None
        assert len(one.values) == 13
        assert len(one.iterations) == 2
        np.testing.assert_allclose(one.inputs, other.inputs, atol=1e-4)


def test_a_method_sees_the_outcomes_of_whole_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    fit = dms.fit_surrogate

    def noting(X: object, Y: object, *rest: object) -> object:
        seen.append(Y.shape[-1])  # type: ignore[attr-defined]
        return fit(X, Y, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(dms, "fit_surrogate", noting)
    assert run_replication(Work(TASK, "dms", 0)).error is None
    assert set(seen) == {7, 10}


@pytest.mark.parametrize("method", ["sobol", "logei-botorch", "gibbon-botorch", "tpe"])
def test_methods_of_others_propose_several_points(method: str) -> None:
    space = Space.box([0, 0], [1, 1])
    X = np.random.default_rng(0).random((6, 2))
    points = make_method(method, space, 0).batch(History.of(X, -X.sum(-1)), 3)  # type: ignore[attr-defined]
    assert points.shape == (3, 2)
    assert len(np.unique(points.round(6), axis=0)) == 3


def test_a_method_that_cannot_says_so() -> None:
    assert "one point at a time" in str(run_replication(Work(TASK, "ei-botorch", 0)).error)


def test_records_stay_apart_from_those_of_single_evaluations(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(run_replication(Work(TASK, "sobol", 0)))
    (curves,) = gather(store)[TASK].values()
    assert curves.regret.shape == (1, 13)
    assert curves.regret.min() >= 0
