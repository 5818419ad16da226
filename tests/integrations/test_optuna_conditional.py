"""Define-by-run studies: what decides where a parameter is asked for, and ranges that change."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import optuna
import pytest
from tests.shared import SMALLEST

from modeseek.errors import IndependentSamplingWarning
from modeseek.integrations.optuna import DMSSampler
from modeseek.integrations.optuna_spaces import search_space_of
from modeseek.integrations.optuna_trials import Codec

optuna.logging.set_verbosity(optuna.logging.ERROR)


def study_of(objective: Callable[[optuna.Trial], float], n: int, sampler: Any = None) -> optuna.Study:
    study = optuna.create_study(sampler=sampler or optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=n)
    return study


def nested(trial: optuna.Trial) -> float:
    lr = trial.suggest_float("lr", 1e-3, 1.0, log=True)
    model = trial.suggest_categorical("model", ["svm", "net", "none"])
    if model == "svm":
        return lr * trial.suggest_float("C", 0.1, 10)
    if model == "none":
        return lr
    total = 0.0
    for i in range(trial.suggest_int("layers", 1, 3)):
        total += trial.suggest_int(f"units{i}", 1, 64, log=True)
    return total * lr


def test_conditions_are_found_in_the_trials() -> None:
    known = search_space_of(study_of(nested, 40).trials)
    assert known.when == {
        "C": {"model": (0,)},
        "layers": {"model": (1,)},
        "units0": {"model": (1,)},
        "units1": {"layers": (2, 3)},
        "units2": {"layers": (3,)},
    }
    assert not known.unexplained
    space = Codec(known.distributions, known.when).shown
    assert space["C"].when == {"model": ("svm",)}


def test_every_complete_trial_has_its_point_and_comes_back() -> None:
    study = study_of(nested, 40)
    known = search_space_of(study.trials)
    codec = Codec(known.distributions, known.when)
    for trial in study.trials:
        point = codec.unit(trial)
        assert point is not None
        assert codec.params(point) == pytest.approx(trial.params)


def test_branches_are_proposed_as_a_whole_without_a_warning() -> None:
    sampler = DMSSampler(seed=0, config=SMALLEST, n_startup_trials=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndependentSamplingWarning)
        study = study_of(nested, 15, sampler)
    for trial in study.trials[12:]:
        announced = trial.system_attrs["modeseek:params"]
        assert announced.keys() == trial.params.keys()
    assert sampler.optimum(study, draws=8).samples


def test_what_nothing_decides_on_is_drawn_at_random_with_a_warning() -> None:
    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        return x + (trial.suggest_float("y", 0, 1) if (1000 * x) % 2 < 1 else 0)

    with pytest.warns(IndependentSamplingWarning, match="'y' is drawn at random"):
        study_of(objective, 12, DMSSampler(seed=0, config=SMALLEST, n_startup_trials=4))


def test_wider_bounds_hold_from_the_next_trial_on() -> None:
    high = [1.0]

    def objective(trial: optuna.Trial) -> float:
        return -trial.suggest_float("x", 0, high[0]) * trial.suggest_int("n", 1, 3)

    sampler = DMSSampler(seed=0, config=SMALLEST, n_startup_trials=4)
    study = study_of(objective, 6, sampler)
    high[0] = 4.0
    study.optimize(objective, n_trials=3)
    space = sampler.infer_relative_search_space(study, None)
    assert space["x"] == optuna.distributions.FloatDistribution(0, 4)
    assert len(Codec(space).read(study).X) == 9


def test_a_bound_that_another_parameter_sets_leaves_all_trials_as_data() -> None:
    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        return x - trial.suggest_float("y", 0, x + 0.01)

    study = study_of(objective, 20)
    while study.trials[-1].distributions["y"].high > 0.2:  # type: ignore[union-attr]
        study.optimize(objective, n_trials=1)
    codec = Codec(search_space_of(study.trials).distributions)
    assert len(codec.read(study).X) == len(study.trials)


def test_a_queued_choice_gets_its_own_parameters_from_the_model() -> None:
    sampler = DMSSampler(seed=0, config=SMALLEST, n_startup_trials=12)
    study = study_of(nested, 14, sampler)
    study.enqueue_trial({"model": "svm"})
    study.optimize(nested, n_trials=1)
    trial = study.trials[-1]
    assert trial.params["model"] == "svm"
    assert trial.system_attrs["modeseek:params"]["C"] == trial.params["C"]
