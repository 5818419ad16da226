"""Known constraints and fixed values: what is proposed, told, stored, recommended."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import modeseek as ms
from modeseek import Categorical, Float, Int, Linear, Optimizer, Space
from modeseek.history import History
from modeseek.polytope import nearest_on_lattice
from modeseek.proposer import Proposer, propose_all
from modeseek.region import Region, spread_out
from modeseek.settings import Settings
from shared import SMALLEST, generator, run

NAMES = [f"a{i}" for i in range(7)]
SHARES = Space({name: Float(0, 1) for name in NAMES}, constraints=[Linear({name: 1 for name in NAMES}, equals=1)])
MIXED = Space(
    {"n": Int(1, 8), "x": Float(0, 4), "y": Float(0, 4, step=0.25), "kind": Categorical(["a", "b"]), "z": Float(0, 1)},
    constraints=[Linear({"n": 1, "x": 2, "y": 1}, upper=9), Linear({"x": 1, "y": 1, "n": 0.5}, equals=5)],
)


def spread(params: dict[str, Any]) -> float:
    return sum((value - 0.1 * i) ** 2 for i, value in enumerate(params.values()) if not isinstance(value, str))


def meets_mixed(p: dict[str, Any]) -> bool:
    return p["n"] + 2 * p["x"] + p["y"] <= 9 and abs(p["x"] + p["y"] + 0.5 * p["n"] - 5) < 1e-9


def ring(p: dict[str, Any]) -> bool:
    """Not convex; a fifth of the square."""
    return 0.3**2 < (p["x"] - 0.5) ** 2 + (p["y"] - 0.5) ** 2 < 0.4**2


RING = Space({"x": Float(0, 1), "y": Float(0, 1)}, constraints=[ring])


def optimizer(space: Space, **settings: Any) -> Optimizer:
    return Optimizer(space, seed=0, config=SMALLEST, **{"n_initial": 3, **settings})


def test_shares_sum_to_one() -> None:
    opt = run(optimizer(SHARES), 6, spread)
    opt.ask(2)
    assert {trial.origin for trial in opt.trials} == {"initial", "model"}
    assert len({trial.unit for trial in opt.trials}) == 8
    for trial in opt.trials:
        assert abs(sum(trial.params.values()) - 1) < 1e-9
        assert min(trial.params.values()) >= 0


def test_the_optimum_on_the_border_is_found() -> None:
    """Three of five shares are 0 there. Random shares come as close as 0.05 once in ten thousand times."""
    names = NAMES[:5]
    goal = {"a0": 0.7, "a1": 0.3}
    space = Space({name: Float(0, 1) for name in names}, constraints=[Linear({name: 1 for name in names}, equals=1)])
    config = ms.DMSConfig(m=64, K=3, S=32, epochs=1, steps=2, hidden=16)
    opt = Optimizer(space, seed=1, config=config, n_initial=6)
    run(opt, 16, lambda p: sum((v - goal.get(name, 0)) ** 2 for name, v in p.items()))
    assert opt.best is not None
    assert opt.best.value < 0.05**2


def test_whole_numbers_in_constraints_until_none_is_left() -> None:
    space = Space({name: Int(0, 3) for name in "abc"}, constraints=[Linear({"a": 1, "b": 1, "c": 1}, equals=3)])
    assert space.size == 10
    opt = run(optimizer(space, n_initial=6), 10, spread)
    asked = sorted(tuple(trial.params.values()) for trial in opt.trials)
    assert asked == [p for p in itertools.product(range(4), repeat=3) if sum(p) == 3]
    with pytest.raises(ms.SpaceExhausted):
        opt.ask()


def test_whole_numbers_that_round_alike_are_settled_by_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the hundreds of points that are at hand for a proposal few differ once they are rounded."""
    limits = [Linear({"a": 2, "b": 3}, equals=12)]
    space = Space({"a": Int(0, 6), "b": Int(0, 6), "x": Float(0, 1)}, constraints=limits)
    first, second = (Region(space) for _ in range(2))
    points = np.random.default_rng(0).random((100, 3))
    alone = np.concatenate([first.settle(point[None]) for point in points[::-1]])[::-1]
    solved: list[Any] = []

    def count(*arguments: Any) -> Any:
        solved.append(arguments)
        return nearest_on_lattice(*arguments)

    monkeypatch.setattr("modeseek.lattice.nearest_on_lattice", count)
    together = second.settle(points)
    np.testing.assert_array_equal(together[:, :2], alone[:, :2])
    np.testing.assert_allclose(together[:, 2], alone[:, 2], rtol=0, atol=1e-12)
    assert 0 < len(solved) <= 10


def test_more_whole_numbers_than_can_be_listed() -> None:
    names = "abcd"
    limits = [Linear({name: 1 for name in names}, equals=100), Linear({"a": 3, "b": -2}, lower=1, upper=2)]
    opt = run(optimizer(Space({name: Int(0, 100) for name in names}, constraints=limits)), 5, spread)
    for trial in opt.trials:
        p = trial.params
        assert sum(p.values()) == 100
        assert 1 <= 3 * p["a"] - 2 * p["b"] <= 2


def test_continuous_and_whole_numbers_in_one_constraint() -> None:
    opt = run(optimizer(MIXED), 6, spread)
    assert all(meets_mixed(trial.params) for trial in opt.trials)
    assert len({trial.params["n"] for trial in opt.trials}) > 1
    assert all(meets_mixed(params) for params in opt.optimum(draws=8).samples)


def test_an_inequality_of_continuous_and_whole_numbers_holds_exactly() -> None:
    limit = Linear({"x": 0.5, "y": -0.4, "n": -1.4}, upper=-13.6)
    space = Space({"x": Float(-0.69, 0.7), "y": Float(1.22, 1.93), "n": Float(3.75, 12.36, step=0.1)}, [limit])
    over = {"x": -0.02134213109571992, "y": 1.5983223361300718, "n": 9.25}
    assert limit.total(over) > -13.6  # by 1e-13: on the cube, within the last digits
    lattice = Region(space).lattice
    assert lattice is not None
    placed = lattice.nearest(space.encode(over))  # the last step of `settle`
    assert placed is not None
    assert limit.total(space.decode(placed)) <= -13.6
    assert space.decode(placed) == pytest.approx(over)


def test_many_whole_numbers_and_a_continuous_one_need_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integer programs take minutes here."""
    monkeypatch.setattr("modeseek.lattice.nearest_on_lattice", None)
    most = 10**7
    limits = [Linear({"n": 1, "k": 1, "x": 1}, equals=most), Linear({"n": 1, "k": -3}, upper=0)]
    space = Space({"n": Int(0, most), "k": Int(0, most), "x": Float(0, 1)}, constraints=limits)
    points = np.random.default_rng(0).random((20, 3))
    settled = Region(space).settle(points)
    assert len(settled) == 20
    for point in settled:
        p = space.decode(point)
        assert sum(p.values()) == pytest.approx(most, rel=1e-15)
        assert p["n"] <= 3 * p["k"]


def test_a_function_is_never_violated() -> None:
    opt = run(optimizer(RING), 8, spread)
    assert all(ring(trial.params) for trial in opt.trials)
    angle = [np.arctan2(t.params["y"] - 0.5, t.params["x"] - 0.5) for t in opt.trials[:3]]
    assert np.ptp(angle) > 1, "the initial design goes around"
    assert all(map(ring, opt.optimum(draws=8).samples))


def test_a_function_beside_linear_constraints_on_a_box() -> None:
    limits = [Linear({"x0": 1, "x1": 1, "x2": 1}, equals=1), lambda x: x[0] > x[1]]
    space = Space.box([0, 0, 0], [1, 1, 1], constraints=limits)
    opt = run(optimizer(space), 6, lambda x: float(np.square(x).sum()))
    for trial in opt.trials:
        assert abs(trial.params.sum() - 1) < 1e-9
        assert trial.params[0] > trial.params[1]


def test_fault_48_a_region_that_is_hard_to_hit() -> None:
    """One in a thousand; around what is found there is more."""
    thin = Space({"x": Float(0, 1), "y": Float(0, 1)}, constraints=[lambda p: abs(p["x"] - p["y"]) < 5e-4])
    opt = run(optimizer(thin), 5, spread)
    assert len({trial.unit for trial in opt.trials}) == 5


@pytest.mark.parametrize("number", [1, 4])
def test_values_that_are_fixed_this_time(number: int) -> None:
    """Also those whose coordinate would come back rounded, and within constraints."""
    opt = run(optimizer(MIXED, n_initial=3), number, spread)
    trial = opt.ask(fixed={"kind": "b", "z": 0.1 + 0.2, "n": 5})
    assert (trial.params["kind"], trial.params["z"], trial.params["n"]) == ("b", 0.1 + 0.2, 5)
    assert meets_mixed(trial.params)
    several = opt.ask(2, fixed={"kind": "a"})
    assert {one.params["kind"] for one in several} == {"a"}


def test_fixed_values_of_a_box_are_named_as_in_constraints() -> None:
    opt = optimizer(Space.box([0, 0], [2, 2]))
    for _ in range(4):
        trial = opt.ask(fixed={"x1": 0.7})
        assert trial.params[1] == 0.7
        opt.tell(trial, float(trial.params[0]))
    assert len({trial.params[0] for trial in opt.trials}) == 4


def test_the_model_learns_across_fixed_values() -> None:
    """What is known of x from one machine is used on the other, which is shifted a little."""
    space = Space({"machine": Categorical(["A", "B"]), "x": Float(0, 1)})
    opt = Optimizer(space, seed=0, config=ms.DMSConfig(m=64, K=5, S=32, epochs=1, steps=2, hidden=16), n_initial=3)
    goal = {"A": 0.6, "B": 0.65}
    for i in range(12):
        trial = opt.ask(fixed={"machine": "A" if i < 10 else "B"})
        opt.tell(trial, (trial.params["x"] - goal[trial.params["machine"]]) ** 2)
    assert min(abs(trial.params["x"] - 0.65) for trial in opt.trials[10:]) < 0.15


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"machine": 1}, "'machine' is unknown"),
        ({"kind": "c"}, "'kind': 'c' is not one of"),
        ({"n": 2.5}, "'n': must be an integer"),
        ({"x": 5.0}, "'x': 5.0 is not in"),
        (["n"], "must be a dict"),
    ],
)
def test_what_cannot_be_fixed(fixed: Any, message: str) -> None:
    opt = optimizer(MIXED)
    with pytest.raises(ms.ParameterError, match=message):
        opt.ask(fixed=fixed)
    assert opt.trials == []
    assert opt.ask().number == 0


def test_fault_48_fixed_values_that_leave_nothing() -> None:
    with pytest.raises(ms.SpaceError, match=r"no configuration with \{'x': 4.0\}.*x \+ y \+ 0.5 n = 5"):
        optimizer(MIXED).ask(fixed={"x": 4.0})
    opt = optimizer(Space({"a": Int(0, 1), "b": Int(0, 1)}))
    opt.ask(2, fixed={"a": 1})
    with pytest.raises(ms.SpaceExhausted):
        opt.ask(fixed={"a": 1})
    assert opt.ask(fixed={"a": 0}).params["a"] == 0


def test_fault_48_fixed_values_that_a_function_refuses() -> None:
    opt = optimizer(RING)
    with pytest.raises(ms.SpaceError, match=r"\{'x': 0.5, 'y': 0.5\} is not allowed by ring"):
        opt.ask(fixed={"x": 0.5, "y": 0.5})
    with pytest.raises(ms.SpaceError, match=r"points with \{'x': 0.01\} is allowed by ring"):
        opt.ask(fixed={"x": 0.01})
    assert opt.trials == []
    assert opt.ask(fixed={"x": 0.5, "y": 0.85}).params == {"x": 0.5, "y": 0.85}


def test_fault_48_a_function_refuses_what_an_equality_makes_of_fixed_values() -> None:
    def little(p: dict[str, float]) -> bool:
        return p["b"] < 0.5

    opt = optimizer(Space({"a": Float(0, 1), "b": Float(0, 1)}, [Linear({"a": 1, "b": 1}, equals=1), little]))
    with pytest.raises(ms.SpaceError, match=r"\{'a': 0.25\} is not allowed by .*little"):
        opt.ask(fixed={"a": 0.25})
    assert opt.ask(fixed={"a": 0.75}).params == {"a": 0.75, "b": 0.25}


def test_more_whole_numbers_than_integer_programs_tell_apart() -> None:
    most = 10**9
    opt = optimizer(Space({"a": Int(0, most), "b": Int(0, most)}, constraints=[Linear({"a": 1, "b": 1}, equals=most)]))
    assert all(sum(trial.params.values()) == most for trial in run(opt, 8, lambda p: (p["a"] / most - 0.3) ** 2).trials)
    with pytest.raises(ms.SpaceError, match="may be missed: use larger steps, or a Float"):
        Space({name: Int(0, most) for name in "ab"}, constraints=[Linear({"a": 2, "b": 4}, equals=most - 1)])


def test_the_best_for_given_values() -> None:
    space = Space({"machine": Categorical(["A", "B", "C"]), "x": Float(0, 1)})
    opt = optimizer(space, direction="maximize")
    assert opt.best_for(machine="A") is None
    for machine, x, value in [("A", 0.2, 1.0), ("A", 0.4, 2.0), ("B", 0.4, 5.0), ("B", 0.9, 0.0)]:
        opt.tell_params({"machine": machine, "x": x}, value)
    seen = opt.best_for(machine="A")
    assert seen is not None
    assert (seen.params, seen.value, seen.std) == ({"machine": "A", "x": 0.4}, 2.0, None)
    assert seen.trial == opt.trials[1]
    assert opt.best_for({"machine": "B"}).trial == opt.trials[2]  # type: ignore[union-attr]
    new = opt.best_for(machine="C")
    assert new is not None
    assert new.trial is None
    assert new.params["machine"] == "C"
    assert new.std is not None
    assert (new.value, new.std) == opt.predict(new.params)
    others = [opt.predict({"machine": "C", "x": x})[0] for x in np.linspace(0, 1, 21)]
    # It is the best by the fit; a prediction also counts other hyperparameters.
    assert new.value >= max(others) - 0.02 * new.std, "no other is expected to be better"
    assert len(opt.trials) == 4
    with pytest.raises(ms.ParameterError, match="machin"):
        opt.best_for(machin="A")


def test_told_parameters_must_meet_the_constraints() -> None:
    opt = optimizer(MIXED)
    good = {"n": 4, "x": 1.0, "y": 2.0, "kind": "a", "z": 0.0}
    opt.tell_params(good, 1.0)
    with pytest.raises(ms.ParameterError, match=re.escape("x + y + 0.5 n = 5 is not met: the sum is 5.5")):
        opt.tell_params({**good, "x": 1.5}, 1.0)
    with pytest.raises(ms.ParameterError, match=re.escape("n + 2 x + y <= 9 is not met: the sum is 11")):
        opt.tell_params({**good, "n": 2, "x": 4.0, "y": 1.0}, 1.0)
    with pytest.raises(ms.ParameterError, match=r"ring\(params\) says"):
        optimizer(RING).tell_params({"x": 0.5, "y": 0.5}, 1.0)
    assert len(opt.trials) == 1


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([Linear({"x": 1, "y": 1}, lower=9)], "no configuration within the bounds meets all constraints: 9 <= x + y"),
        ([Linear({"n": 2}, equals=5)], "no configuration"),
        ([Linear({"n": 2}, lower=4.5, upper=5.5)], "no configuration"),
        ([Linear({"q": 1}, upper=1)], "there is no parameter 'q'"),
        ([Linear({"kind": 1}, upper=1)], "'kind' is a Categorical"),
        ([Linear({"rate": 1}, upper=1)], "'rate' is on a log scale"),
        (
            [Linear({"z": 1}, upper=1)],
            "'z' is not always there (when=), and a Linear needs numbers on a linear scale that",
        ),
        ([3], "must be a Linear or a function"),
        (Linear({"x": 1}, upper=1), "must be a list"),
    ],
)
def test_fault_48_constraints_that_make_no_space(constraints: Any, message: str) -> None:
    parameters = {
        "n": Int(0, 9),
        "x": Float(0, 4),
        "y": Float(0, 4),
        "kind": Categorical(["a", "b"]),
        "rate": Float(1e-3, 1, log=True),
        "z": Float(0, 4, when={"kind": "a"}),
    }
    with pytest.raises(ms.SpaceError, match=re.escape(message)):
        Space(parameters, constraints=constraints)


@pytest.mark.parametrize(
    "arguments",
    [
        {"upper": None},
        {"equals": 1, "upper": 2},
        {"lower": 2, "upper": 1},
        {"upper": float("nan")},
        {"upper": "1"},
        {"coefficients": {}},
        {"coefficients": {"x": 0}},
        {"coefficients": {"x": None}},
    ],
)
def test_what_is_no_linear_constraint(arguments: dict[str, Any]) -> None:
    given = {"coefficients": {"x": 1}, **({"upper": 1} if "coefficients" in arguments else {}), **arguments}
    with pytest.raises(ms.SpaceError, match="Linear"):
        Linear(**given)


def test_fault_48_functions_that_allow_nothing_or_say_nothing() -> None:
    with pytest.raises(ms.SpaceError, match=r"none of .* points is allowed by .*tell_params"):
        optimizer(Space({"x": Float(0, 1)}, constraints=[lambda p: False])).ask()
    with pytest.raises(ms.SpaceError, match="must return True or False, not None"):
        optimizer(Space({"x": Float(0, 1)}, constraints=[lambda p: None])).ask()


@pytest.mark.parametrize(
    ("names", "parameter", "limits"),
    [
        ("abcd", Float(0, 1), [Linear({"a": 1, "b": 1, "c": 1}, equals=1), Linear({"a": 1, "d": -1}, upper=0)]),
        ("abc", Int(0, 100), [Linear({"a": 1, "b": 1, "c": 1}, equals=100), Linear({"a": 1, "b": -1}, upper=5)]),
        ("ab", Int(0, 5), [Linear({"a": 1, "b": 1}, equals=5), Linear({"a": 1}, lower=1)]),
        ("ab", Float(0, 1), [Linear({"a": 1, "b": 1}, equals=1), Linear({"a": 1, "b": -1}, equals=0)]),
    ],
)
def test_fault_48_a_function_that_allows_nothing_beside_linear_constraints(
    names: str, parameter: Any, limits: list[Linear], tmp_path: Path
) -> None:
    def never(p: dict[str, Any]) -> bool:
        return False

    space, evaluated = Space(dict.fromkeys(names, parameter), [*limits, never]), []
    message = r"none of .* that meet the linear constraints is allowed by .*never\(params\)"
    with pytest.raises(ms.SpaceError, match=message):
        optimizer(space).ask()
    with pytest.raises(ms.SpaceError, match=message):
        ms.minimize(evaluated.append, space, 5, seed=0, checkpoint=tmp_path / "run", progress=False)
    assert evaluated == []


def test_fault_48_a_function_that_refuses_what_whole_numbers_are_rounded_to() -> None:
    """Points between the whole numbers round to an odd sum now and then; those that meet the constraint never do."""

    def odd(p: dict[str, int]) -> bool:
        return sum(p.values()) % 2 == 1

    space = Space({name: Int(0, 1000) for name in "ab"}, [Linear({"a": 1, "b": 1}, equals=1000), odd])
    with pytest.raises(ms.SpaceError, match=r"none of .* is allowed by .*odd"):
        optimizer(space).ask()


def test_fault_48_a_function_that_raises_is_named_with_the_parameters() -> None:
    def fits(p: dict[str, Any]) -> bool:
        return bool(p["width"] < 1)

    with pytest.raises(ms.SpaceError, match=r"fits\(params\).*KeyError: 'width'; params=\{'x': 0") as raised:
        optimizer(Space({"x": Float(0, 1)}, constraints=[fits])).ask()
    assert isinstance(raised.value.__cause__, KeyError)


def test_fixed_values_that_contradict_each_other() -> None:
    space = Space({"model": Categorical(["svm", "rf"]), "C": Float(0, 1, when={"model": "svm"})})
    with pytest.raises(ms.ParameterError, match="where model is 'svm'; but model is fixed to 'rf': leave C out"):
        optimizer(space).ask(fixed={"C": 0.5, "model": "rf"})
    with pytest.raises(ms.ParameterError, match="fix that, too"):
        optimizer(space).ask(fixed={"C": 0.5})


def test_a_function_cannot_change_what_is_evaluated() -> None:
    def greedy(p: dict[str, Any]) -> bool:
        p["x"] = 7.0
        return True

    assert optimizer(Space({"x": Float(0, 1)}, constraints=[greedy])).ask().params["x"] <= 1


def test_a_run_with_linear_constraints_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    opt = run(optimizer(MIXED), 4, spread)
    opt.save(tmp_path / "run")
    opt.close()
    other = Optimizer.load(tmp_path / "run")
    assert other.space == MIXED
    assert other.space.constraints == MIXED.constraints
    assert other.ask(fixed={"kind": "a"}) == opt.ask(fixed={"kind": "a"})
    assert other.ask() == opt.ask()


def test_a_run_with_a_function_is_loaded_with_its_space(tmp_path: Path) -> None:
    opt = run(optimizer(RING), 2, spread)
    opt.save(tmp_path / "run")
    opt.close()
    with pytest.raises(ms.CheckpointError, match=r"nothing wrong.*'ring' is a function.*space=space") as raised:
        Optimizer.load(tmp_path / "run")
    assert "not a valid" not in str(raised.value)
    free = Space({"x": Float(0, 1), "y": Float(0, 1)})
    with pytest.warns(ms.SpaceChangedWarning, match="all 2 trials"):
        assert Optimizer.load(tmp_path / "run", space=free).space == free
    assert Optimizer.load(tmp_path / "run", space=RING).ask() == opt.ask()


def test_the_order_of_names_changes_nothing() -> None:
    limits = [Linear({"b": 2, "a": 1}, upper=1)]
    one = Space({"a": Float(0, 1), "b": Float(0, 1)}, constraints=limits)
    other = Space({"b": Float(0, 1), "a": Float(0, 1)}, constraints=[Linear({"a": 1, "b": 2}, upper=1)])
    assert one == other
    assert one != Space({"a": Float(0, 1), "b": Float(0, 1)})
    asked = [run(optimizer(space), 4, lambda p: p["a"] ** 2 - p["b"]).ask() for space in (one, other)]
    assert asked[0].params == asked[1].params


def test_problems_side_by_side_are_as_each_alone() -> None:
    rng = np.random.default_rng(0)
    histories = [History.of(rng.dirichlet(np.ones(7), 5), rng.normal(size=5)) for _ in range(2)]

    def proposers() -> list[Proposer]:
        return [Proposer(SHARES, Settings.of(seed=seed, config=SMALLEST, n_initial=2)) for seed in range(2)]

    together = propose_all(proposers(), histories, 5)
    alone = [proposer.propose(history, 5) for proposer, history in zip(proposers(), histories, strict=True)]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.point, other.point, atol=1e-3)
        assert abs(one.point.sum() - 1) < 1e-9


def test_minimize_within_constraints() -> None:
    result = ms.minimize(spread, SHARES, 5, seed=0, config=SMALLEST, n_initial=3, progress=False)
    assert all(abs(sum(trial.params.values()) - 1) < 1e-9 for trial in result.trials)
    fixed = ms.maximize(spread, SHARES, 3, seed=0, n_initial=3, fixed={"a2": 0.3}, progress=False)
    assert {trial.params["a2"] for trial in fixed.trials} == {0.3}


def test_a_design_spreads_from_its_first_points_on() -> None:
    """Closer to all points, by the mean distance to the nearest, than the first ones in random order."""
    points = torch.rand(200, 3, dtype=torch.float64, generator=generator())
    chosen, first = points[spread_out(points, 10)], points[:10]
    assert torch.cdist(points, chosen).amin(-1).mean() < 0.95 * torch.cdist(points, first).amin(-1).mean()
