"""What is said where some values are given: the best of them, what is known of their optimum, and when to stop."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import modeseek as ms

FAST = ms.DMSConfig.fast()
BOX = ms.Space({"x": ms.Float(0, 1), "y": ms.Float(0, 1)})
MACHINES = ms.Space({"machine": ms.Categorical(["A", "B"]), "x": ms.Float(0, 1)})


def output(params: dict[str, Any]) -> float:
    """Simple on machine A; on B higher, and with another minimum, 2.05 at 0.52."""
    on_b = 5 + 3 * math.sin(9 * params["x"])
    return float((params["x"] - 0.3) ** 2 + (on_b if params["machine"] == "B" else 0))


def test_a_run_with_fixed_values_is_judged_by_those(tmp_path: Path) -> None:
    settings: dict[str, Any] = dict(seed=0, config=FAST, progress=False, checkpoint=tmp_path / "run.modeseek")
    ms.minimize(output, MACHINES, 14, fixed={"machine": "A"}, **settings)
    result = ms.minimize(output, MACHINES, 40, fixed={"machine": "B"}, stop=ms.WhenSure(regret=0.05), **settings)
    on_b = result.best_for(machine="B")
    assert on_b is not None
    assert on_b.params["machine"] == "B"
    assert on_b.value < 2.1  # A is known well after 14 trials, which says little of B
    assert result.best is not None
    assert result.best.params["machine"] == "A"
    assert f"best with machine='B': value {on_b.value:.6g}" in str(result)
    on_a = result.best_for({"machine": "A"})
    assert on_a is not None
    assert on_a.trial == result.best
    assert "best with" not in str(ms.minimize(output, MACHINES, 3, fixed={"machine": "A"}, config=FAST, progress=False))


def test_a_result_and_its_optimizer_say_the_same_of_given_values() -> None:
    made: list[ms.Optimizer] = []
    result = ms.minimize(
        output, MACHINES, 12, seed=0, config=FAST, progress=False, callbacks=[lambda opt, _: made.append(opt)]
    )
    opt = ms.Optimizer(MACHINES, seed=0, config=FAST)
    for trial in result.trials:
        opt.tell_params(trial.params, trial.value)
    for values in ({"machine": "B"}, {"x": 0.123}, {"machine": "A", "x": 0.5}, {}):
        of_result, of_run, of_opt = (source.best_for(values) for source in (result, made[-1], opt))
        assert of_result is not None
        assert of_run is not None
        assert of_opt is not None
        assert type(of_result) is type(of_run)
        assert of_result.trial == of_run.trial
        assert (of_result.params, of_result.value, of_result.std) == (of_opt.params, of_opt.value, of_opt.std)
    new = result.best_for(x=0.123)
    assert new is not None
    assert new.trial is None
    assert new.params == {"machine": "A", "x": 0.123}
    assert new.std is not None
    with pytest.raises(ms.ConfigError, match="best_for takes values by name"):
        result.best_for("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 12])
def test_equal_outcomes_are_no_certainty(count: int) -> None:
    opt = ms.Optimizer(BOX, seed=0, config=FAST)
    for trial in opt.ask(count):
        opt.tell(trial, 3.0)
    mean, std = opt.predict({"x": 0.9, "y": 0.9})
    assert mean == pytest.approx(3.0)
    assert std == math.inf
    assert opt.optimum().regret(0.95) == math.inf
    assert opt.optimum().probability_of_regret_below(1e9) == 0
    assert "all values so far are equal" in str(opt.optimum())
    assert not ms.WhenSure(regret=1.0)(opt, opt.trials[-1])


def test_what_is_unlikely_to_be_feasible_is_not_recommended_as_if_it_were() -> None:
    """x + y must be 1.2 at least: with y = 0.1 nothing is, and x = 1 is least violated."""
    opt = ms.Optimizer(BOX, seed=0, config=FAST)
    for trial in opt.ask(16):
        opt.tell(trial, trial.params["x"], constraints=[1.2 - trial.params["x"] - trial.params["y"]])
    nowhere, somewhere = opt.best_for(y=0.1), opt.best_for(y=0.5)
    assert nowhere is not None
    assert nowhere.feasible < 0.1
    assert nowhere.params["x"] == pytest.approx(1.0, abs=0.05)
    assert somewhere is not None
    assert somewhere.feasible >= 0.5
    assert somewhere.params["x"] == pytest.approx(0.7, abs=0.05)
    with pytest.raises(ms.TrialError, match="likely to be feasible"):
        opt.optimum(fixed={"y": 0.1})


@pytest.mark.parametrize("noise", ["none", "fitted"])
def test_the_optimum_is_compared_with_what_is_recommended(noise: Any) -> None:
    opt = ms.Optimizer(BOX, seed=0, config=FAST, noise=noise)
    for _ in range(18):
        trial = opt.ask()
        opt.tell(trial, 10 * (trial.params["x"] - 0.3) ** 2 + math.sin(12 * trial.params["y"]))
    recommended = opt.recommend()
    assert recommended is not None
    assert opt.optimum(draws=8).recommended == recommended.params


def test_a_point_that_is_fixed_as_a_whole_comes_again() -> None:
    opt = ms.Optimizer(BOX, seed=0, config=FAST)
    for _ in range(3):
        trial = opt.ask(fixed={"x": 0.5, "y": 0.25})
        assert trial.params == {"x": 0.5, "y": 0.25}
        opt.tell(trial, 1.0)
    assert len(opt.ask(2, fixed={"x": 0.5, "y": 0.25})) == 2


def test_a_point_that_an_equality_makes_of_fixed_values_comes_again() -> None:
    shares = {"a": ms.Float(0, 1), "b": ms.Float(0, 1)}
    opt = ms.Optimizer(ms.Space(shares, [ms.Linear({"a": 1, "b": 1}, equals=1)]), seed=0, config=FAST)
    for _ in range(2):
        assert opt.ask(fixed={"a": 0.25}).params == {"a": 0.25, "b": 0.75}


def test_a_point_without_the_parameters_of_other_branches_comes_again() -> None:
    """Also where a parameter has one value only, and there is nothing to choose."""
    parameters = {
        "model": ms.Categorical(["svm", "forest"]),
        "C": ms.Float(0.1, 10, when={"model": "svm"}),
        "kind": ms.Categorical(["only"]),
        "x": ms.Float(0, 1),
        "y": ms.Float(0, 1),
    }
    chosen = {"model": "forest", "x": 0.25}
    for limits in ([], [ms.Linear({"x": 1, "y": 1}, equals=1)]):
        opt = ms.Optimizer(ms.Space(parameters, limits), seed=0, config=FAST)
        fixed = chosen if limits else {**chosen, "y": 0.75}
        asked = [*opt.ask(2, fixed=fixed), opt.ask(fixed=fixed)]
        assert all(trial.params == {**chosen, "y": 0.75, "kind": "only"} for trial in asked)
        assert len(asked) == 3
        svm = [opt.ask(fixed={**fixed, "model": "svm"}).params["C"] for _ in range(2)]
        assert svm[0] != svm[1]


def test_used_up_values_are_named() -> None:
    space = ms.Space({"machine": ms.Categorical(["A", "B"]), "k": ms.Int(1, 3)})
    opt = ms.Optimizer(space, seed=0, config=FAST)
    for trial in opt.ask(3, fixed={"machine": "A"}):
        opt.tell(trial, trial.params["k"])
    with pytest.raises(ms.SpaceExhausted, match="'machine': 'A'"):
        opt.ask(fixed={"machine": "A"})
    assert opt.ask().params["machine"] == "B"


def test_wrong_arguments_are_named() -> None:
    opt = ms.Optimizer(BOX, seed=0, config=FAST)
    opt.tell_params({"x": 0.1, "y": 0.1}, 1.0)
    with pytest.raises(ms.ConfigError, match="best_for"):
        opt.best_for("x")  # type: ignore[arg-type]
    with pytest.raises(ms.ConfigError, match="probability"):
        opt.optimum(draws=4).regret("a")  # type: ignore[arg-type]
