"""COCO's problems: as cocoex gives them, with their optimum, in spaces like COCO's, and none of those kept apart."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest
import torch

from modeseek import Float, Int
from modeseek.bench.campaign.replication import observe, observe_all
from modeseek.bench.tasks import coco, find_task, suites
from modeseek.errors import ConfigError

cocoex: Any = pytest.importorskip("cocoex")  # of the extra `bench`

OF_COCO = [name for suite in suites().values() for name in suite if coco.NAME.fullmatch(name)]
FEW = OF_COCO[::23]  # of every function, instance and number of dimensions


def direct(name: str) -> Any:
    """COCO's own problem, chosen from its whole suite by its number of dimensions, function and instance."""
    f: Any = find_task(name).f
    suite = cocoex.Suite(f.suite, "instances: 1-5", f"dimensions: {f.d} function_indices: {f.function}")
    for problem in suite:
        if problem.id_triple == (f.function, f.d, f.instance):
            return suite, problem
    raise LookupError(name)


def test_names_are_of_all_functions_but_those_kept_apart() -> None:
    assert sorted((*coco.FUNCTIONS, *coco.APART)) == list(range(1, 25))
    assert len(OF_COCO) == len(set(OF_COCO)) == (4 + 2) * 15 * 5
    assert len(suites()["bbob-d20"]) == 75
    assert "mixint-f23-i5-d10" in suites()["bbob-mixint-d10"]
    assert all(find_task(name).name == name for name in OF_COCO)


@pytest.mark.parametrize("function", coco.APART)
def test_functions_kept_apart_are_refused(function: int) -> None:
    for suite in ("bbob", "mixint"):
        with pytest.raises(ConfigError, match="kept apart"):
            find_task(f"{suite}-f{function:02d}-i1-d5")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("bbob-f25-i1-d5", "function"),
        ("bbob-f01-i6-d5", "instance"),
        ("bbob-f01-i1-d3", "parameters"),
        ("mixint-f01-i1-d20", "parameters"),
    ],
)
def test_what_is_not_there_is_refused(name: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        find_task(name)


def test_evaluations_as_the_suites_ask_for() -> None:
    sizes = {d: coco.sizes(d) for d in (2, 5, 10, 20)}
    assert sizes == {2: (6, 20), 5: (12, 50), 10: (22, 100), 20: (42, 158)}


@pytest.mark.parametrize("name", FEW)
def test_values_are_cocos_below_its_optimum(name: str) -> None:
    problem, (_, theirs) = find_task(name), direct(name)
    f_opt = problem.f.f_opt  # type: ignore[attr-defined]
    U = np.random.default_rng(0).random((6, problem.d))
    params = [problem.space.decode(u) for u in U]
    x = [np.array(list(p.values()) if isinstance(p, dict) else p, dtype=float) for p in params]
    expected = np.array([f_opt - theirs(point) for point in x])
    assert [problem.value(p) for p in params] == expected.tolist()
    batched = problem.values(torch.from_numpy(U).reshape(2, 3, -1))  # type: ignore[misc]
    np.testing.assert_allclose(batched.flatten().numpy(), expected, rtol=1e-12)
    assert expected.max() < 0 == problem.optimum
    seen, values = observe_all(problem, U, [0] * len(U), 0)
    np.testing.assert_allclose(seen, [-theirs(point) for point in x], rtol=1e-12)
    assert (seen[0], values[0]) == pytest.approx(observe(problem, U[0], 0, 0), rel=1e-12)
    assert problem.evaluate(params[0], np.random.default_rng(0)) == pytest.approx(seen[0], rel=1e-12)


def test_the_optimum_is_cocos_and_attained_where_coco_says(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # COCO writes the point into a file of the current folder
    for name in OF_COCO[::4]:
        f: Any = find_task(name).f
        theirs = coco._cocoex(f)
        theirs._best_parameter("print")
        best = np.loadtxt("._bbob_problem_best_parameter.txt")
        assert f.f_opt == pytest.approx(theirs(best), abs=1e-9), name
        space = find_task(name).space
        params = best if space.is_box else dict(zip(space.names, best.tolist(), strict=True))
        if not space.is_box:
            params = {n: int(v) if isinstance(space[n], Int) else v for n, v in params.items()}
        assert find_task(name).regret(params) == pytest.approx(0.0, abs=1e-9), name


def test_f_opt_of_bbob_is_what_coco_calls_the_best_value() -> None:
    for function in coco.FUNCTIONS:
        for instance in coco.INSTANCES:
            theirs = cocoex.BareProblem("bbob", function, 5, instance).best_value()
            assert coco.Function("bbob", function, instance, 5).f_opt == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("d", [5, 10])
def test_mixed_spaces_are_cocos(d: int) -> None:
    name = f"mixint-f01-i1-d{d}"
    space, (_, theirs) = find_task(name).space, direct(name)
    parameters = [space[name] for name in space.names]
    assert [p.low for p in parameters] == theirs.lower_bounds.tolist()  # type: ignore[union-attr]
    assert [p.high for p in parameters] == theirs.upper_bounds.tolist()  # type: ignore[union-attr]
    assert [isinstance(p, Int) for p in parameters] == [True] * (4 * d // 5) + [False] * (d // 5)
    assert theirs.number_of_integer_variables == 4 * d // 5
    assert all(isinstance(p, Int | Float) for p in parameters)
    assert space.coordinates == space.names


def test_a_problem_pickles_and_is_found_without_cocoex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cocoex", None)  # an import would raise
    coco.find.cache_clear()
    problem = find_task("bbob-f07-i2-d2")
    assert pickle.loads(pickle.dumps(problem.f)) == problem.f
    coco._cocoex.cache_clear()
    with pytest.raises(ImportError):
        problem.f([0.0, 0.0])
