"""When to stop, what is known before, and the optimum through every door: optimizer, result, Optuna."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import optuna
import pytest

import modeseek as ms
from modeseek.integrations.optuna import DMSSampler, StopWhenSure

FAST = ms.DMSConfig(m=64, S=32, epochs=2, steps=5, hidden=16, train_on="nothing")
LINE = ms.Space({"x": ms.Float(-2.0, 2.0)})


def bowl(params: dict[str, Any]) -> float:
    return (params["x"] - 0.5) ** 2


def test_a_run_ends_when_the_best_point_is_surely_good_enough() -> None:
    settings: dict[str, Any] = {"budget": 40, "seed": 0, "config": FAST, "n_initial": 5, "progress": False}
    result = ms.minimize(bowl, LINE, stop=ms.WhenSure(regret=0.05), **settings)
    assert result.stopped == "sure"
    assert 5 <= len(result.trials) < 40
    assert result.best is not None
    assert result.best.value is not None
    assert result.best.value < 0.05
    assert "sees no narrow valley that no evaluation has touched" in str(result)
    assert "sees no narrow valley" in result._repr_html_()
    careful = ms.minimize(bowl, LINE, stop=ms.WhenSure(regret=1e-12), **{**settings, "budget": 8})
    assert careful.stopped == "budget"
    assert "narrow" not in str(careful)
    top = ms.maximize(lambda p: -bowl(p), LINE, stop=ms.WhenSure(regret=0.05), **settings)
    assert "sees no narrow peak that" in str(top)


def test_the_initial_design_is_never_enough() -> None:
    opt = ms.Optimizer(LINE, seed=0, config=FAST, n_initial=4)
    for _ in range(3):
        opt.tell(opt.ask(), 1.0)
    assert not ms.WhenSure(regret=1e6)(opt, opt.trials[-1])
    opt.tell(opt.ask(), 2.0)
    assert ms.WhenSure(regret=1e6)(opt, opt.trials[-1])


def test_what_may_be_ripples_rather_than_noise_is_not_enough_unless_it_is_known_to_be_noise() -> None:
    """A bowl with ripples of 0.5, finer than the points are close: what is left of them looks like noise."""
    rippled = lambda x: (x - 0.5) ** 2 + 0.5 * math.sin(300 * x)  # noqa: E731
    told = [(x, rippled(x)) for x in np.linspace(-2, 2, 31)]
    when = ms.WhenSure(regret=0.35)
    enough = {}
    for sem in (None, 0.35):
        opt = ms.Optimizer(LINE, seed=0, config=FAST)
        for x, value in told:
            opt.tell_params({"x": x}, value, sem=sem)
        optimum = opt.optimum(draws=64)
        enough[sem] = when.satisfied_by(optimum)
        assert optimum.probability_of_regret_below(0.35) >= 0.95, "if it is noise"
    assert enough == {None: False, 0.35: True}


@pytest.mark.parametrize(
    "wrong", [{"regret": 0}, {"regret": -1.0}, {"regret": "a"}, {"regret": 0.1, "probability": 1.0}, {"regret": True}]
)
def test_what_makes_no_sense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ms.ConfigError, match=list(wrong)[-1]):
        ms.WhenSure(**wrong)
    with pytest.raises(ms.ConfigError, match="stop must be"):
        ms.minimize(bowl, LINE, 3, stop=0.1)  # type: ignore[arg-type]
    with pytest.raises(ms.ConfigError, match=r"when must be a modeseek.WhenSure.*not 0\.1"):
        StopWhenSure(0.1)  # type: ignore[arg-type]


def test_what_was_measured_before_counts_toward_the_design_and_not_the_budget(tmp_path: Any) -> None:
    known = [({"x": x}, (x - 0.5) ** 2) for x in (-1.0, 0.0, 1.0)]
    settings: dict[str, Any] = {"seed": 0, "config": FAST, "n_initial": 4, "progress": False, "known": known}
    path = tmp_path / "run.modeseek"
    result = ms.minimize(bowl, LINE, 3, checkpoint=path, **settings)
    assert [trial.origin for trial in result.trials] == ["told"] * 3 + ["initial", "model", "model"]
    more = ms.minimize(bowl, LINE, 4, checkpoint=path, **settings)
    assert [trial.origin for trial in more.trials].count("told") == 3, "a resumed run has them already"
    with pytest.raises(ms.ConfigError, match="known must be"):
        ms.minimize(bowl, LINE, 3, known=[1.0, 2.0])  # type: ignore[list-item]
    with pytest.raises(ms.ParameterError, match="'x'"):
        ms.minimize(bowl, LINE, 3, known=[({"x": 7.0}, 1.0)])


def test_the_optimum_of_an_optimizer_and_of_its_result_say_the_same() -> None:
    result = ms.minimize(bowl, LINE, 9, seed=0, config=FAST, n_initial=5, progress=False)
    opt = ms.Optimizer(LINE, seed=0, config=FAST)
    for trial in result.trials:
        opt.tell_params(trial.params, trial.value)
    ours, again = result.optimum, opt.optimum()
    assert ours.recommended == again.recommended
    low, high = again.interval(0.9)["x"]
    assert low <= 0.5 <= high
    assert high - low < 1.0
    mean, std = opt.predict({"x": 0.5})
    assert abs(mean) < 4 * std + 0.05
    assert "minimum" in str(ours)
    before = len(opt.trials)
    assert opt.optimum().recommended == again.recommended, "it changes nothing"
    assert len(opt.trials) == before


def test_nothing_told_is_an_error_that_says_so() -> None:
    opt = ms.Optimizer(LINE)
    for question in (opt.optimum, lambda: opt.predict({"x": 0.0})):
        with pytest.raises(ms.TrialError, match="no completed trial"):
            question()


def test_a_study_knows_its_optimum_with_choices_as_they_are() -> None:
    def objective(trial: optuna.Trial) -> float:
        kind = trial.suggest_categorical("kind", ["a", (1, 2)])
        return (trial.suggest_float("x", 0, 1) - 0.3) ** 2 + (kind == "a")

    sampler = DMSSampler(seed=0, config=FAST, n_startup_trials=5)
    study = optuna.create_study(sampler=sampler)
    with pytest.raises(ms.TrialError, match="no complete trials"):
        sampler.optimum(study)
    study.optimize(objective, n_trials=12)
    optimum = sampler.optimum(study, draws=32)
    assert len(optimum.samples) == 32
    assert {p["kind"] for p in optimum.samples} <= {"0: 'a'", "1: (1, 2)"}
    assert abs(optimum.recommended["x"] - 0.3) < 0.2


def test_a_study_stops_when_sure() -> None:
    study = optuna.create_study(sampler=DMSSampler(seed=0, config=FAST, n_startup_trials=5))
    callback = StopWhenSure(ms.WhenSure(regret=0.05))
    study.optimize(lambda trial: (trial.suggest_float("x", -2, 2) - 0.5) ** 2, n_trials=40, callbacks=[callback])
    assert 5 <= len(study.trials) < 40
    assert study.best_value < 0.05


def test_the_bound_on_the_regret_holds_on_functions_like_those_that_the_surrogate_expects() -> None:
    """Smooth functions of one parameter, known at eight points: the true regret is within the bound nearly always."""
    rng, held = np.random.default_rng(0), 0
    grid = np.linspace(0, 1, 400)
    for _ in range(12):
        a, b, phase = rng.uniform(2, 7), rng.uniform(0.5, 2), rng.uniform(0, 2 * math.pi)
        f = lambda x, a=a, b=b, phase=phase: np.sin(a * x + phase) * b + 0.3 * x  # noqa: E731
        opt = ms.Optimizer(ms.Space.box([0], [1]), seed=0, config=FAST)
        for x in (np.arange(8) + rng.random(8)) / 8:
            opt.tell_params([x], float(f(x)))
        optimum = opt.optimum(draws=64)
        regret = float(f(optimum.recommended[0]) - f(grid).min())
        held += regret <= optimum.regret(0.95) + 1e-6
    assert held >= 10


def test_a_study_with_fixed_values_stops_by_those() -> None:
    """Machine A is well known; with B, of whose optimum A says nothing, the study goes on until that is."""
    space = ms.Space({"machine": ms.Categorical(["A", "B"]), "x": ms.Float(0, 1)})

    def objective(trial: optuna.Trial) -> float:
        machine, x = trial.suggest_categorical("machine", ["A", "B"]), trial.suggest_float("x", 0, 1)
        return (x - 0.3) ** 2 + (5 + 3 * math.sin(9 * x) if machine == "B" else 0)

    study = optuna.create_study()
    for machine in ("A", "B"):
        sampler = DMSSampler(seed=0, config=FAST, space=space, fixed={"machine": machine})
        study.sampler = sampler
        assert not StopWhenSure(ms.WhenSure(regret=0.05)).is_sure(study)
        if machine == "B":
            with pytest.raises(ms.TrialError, match="no feasible trial with"):
                sampler.optimum(study)
        study.optimize(objective, n_trials=30, callbacks=[StopWhenSure(ms.WhenSure(regret=0.05))])
    on_b = [trial for trial in study.trials if trial.params["machine"] == "B"]
    assert 10 <= len(on_b) < 30
    assert min(trial.value or 0 for trial in on_b) < 2.1
    optimum = sampler.optimum(study, draws=8)
    assert optimum.recommended["machine"] == "B"
    assert {sample["machine"] for sample in optimum.samples} == {"B"}
