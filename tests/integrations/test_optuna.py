"""DMSSampler: what it proposes, from which trials, and what it does when others ask at the same time."""

from __future__ import annotations

import importlib
import math
import pickle
import sys
import warnings
from dataclasses import replace

import numpy as np
import optuna
import pytest
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from forked import run
from modeseek import Categorical, DMSConfig, Float, Int, Linear, ModeseekWarning, Normal, Optimizer, Space, dms
from modeseek.design import sobol
from modeseek.errors import (
    CollapseWarning,
    ConfigError,
    DeviceError,
    FitWarning,
    IndependentSamplingWarning,
    MissingExtraError,
    ParameterError,
    SpaceError,
)
from modeseek.integrations import optuna as integration
from modeseek.integrations.optuna import DMSSampler
from modeseek.integrations.optuna_asked import takes_all
from modeseek.settings import generator
from shared import SMALLEST, TRAINED

FAIR = DMSConfig(m=128, S=64, epochs=30, steps=10, hidden=32)
SQUARE = {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.0, 1.0)}


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture
def seen(monkeypatch):
    """The arguments of each call of the model."""
    calls = []
    suggest = dms.suggest

    def listening(X, Y, config, generator, state, pending, constraints, *rest, **options):
        calls.append({"X": X[0].numpy(), "Y": Y[0].numpy(), "pending": pending[0].numpy(), "state": state})
        calls[-1]["constraints"] = None if constraints is None else constraints[0].numpy()
        return suggest(X, Y, config, generator, state, pending, constraints, *rest, **options)

    monkeypatch.setattr(dms, "suggest", listening)
    return calls


def sampler(**settings) -> DMSSampler:
    return DMSSampler(**{"seed": 0, "config": SMALLEST, "n_startup_trials": 3} | settings)


def bowl(trial: optuna.Trial) -> float:
    return (trial.suggest_float("x", 0, 1) - 0.3) ** 2 + (trial.suggest_float("y", 0, 1) - 0.6) ** 2


def study_of(own: DMSSampler, n: int = 0, objective=bowl, **settings) -> optuna.Study:
    study = optuna.create_study(sampler=own, **settings)
    study.optimize(objective, n_trials=n)
    return study


def add(study: optuna.Study, x: float, y: float, value: float | None = None, **settings) -> None:
    study.add_trial(optuna.create_trial(params={"x": x, "y": y}, distributions=SQUARE, value=value, **settings))


def points(study: optuna.Study) -> list[dict]:
    return [trial.params for trial in study.trials]


# What it finds


@pytest.mark.parametrize("seed", [0, 1])
def test_better_than_random_search_on_a_smooth_function(seed):
    own = study_of(sampler(seed=seed, config=FAIR, n_startup_trials=8), 25)
    random = study_of(optuna.samplers.RandomSampler(seed=seed), 25)
    assert own.best_value < 1e-3
    assert own.best_value < random.best_value / 5


def test_a_study_that_maximizes_mirrors_one_that_minimizes():
    low = study_of(sampler(), 8)
    high = study_of(sampler(), 8, lambda trial: -bowl(trial), direction="maximize")
    assert points(low) == points(high)


def test_same_data_same_suggestions_as_the_optimizer():
    space = Space({"x": Float(-5.0, 5.0), "lr": Float(1e-4, 1.0, log=True), "k": Int(0, 20, step=2)})
    distributions = {
        "x": FloatDistribution(-5.0, 5.0),
        "lr": FloatDistribution(1e-4, 1.0, log=True),
        "k": IntDistribution(0, 20, step=2),
    }
    opt, study = Optimizer(space, seed=7, config=SMALLEST), study_of(sampler(seed=7))
    rng = np.random.default_rng(0)

    def value(params):
        return params["x"] ** 2 + params["lr"] + params["k"]

    for _ in range(10):
        params = space.decode(rng.random(3))
        opt.tell_params(params, value(params))
        study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=value(params)))
    for _ in range(4):
        ours, theirs = opt.ask(), study.ask(distributions)
        assert theirs.params == ours.params
        opt.tell(ours, value(ours.params))
        study.tell(theirs, value(ours.params))


def test_a_sobol_sequence_until_complete_and_running_trials_suffice(seen):
    study = study_of(sampler(n_startup_trials=4), 1)
    asked = [study.ask(SQUARE).params for _ in range(3)]
    sequence = sobol(4, 2, generator(0, 0))
    assert [list(params.values()) for params in asked] == sequence[1:].tolist()
    assert seen == []
    study.ask(SQUARE)
    assert len(seen) == 1


# Spaces

KINDS = {
    "float": FloatDistribution(-1.5, 2.5),
    "log": FloatDistribution(1e-7, 1.0, log=True),
    "tenths": FloatDistribution(-0.3, 0.9, step=0.1),
    "thirds": FloatDistribution(0.1, 7.3, step=0.3),
    "int": IntDistribution(-3, 3),
    "even": IntDistribution(0, 10, step=2),
    "logint": IntDistribution(1, 1000, log=True),
    "mixed": CategoricalDistribution((None, True, 1.5, "a", 7)),
    "equal": CategoricalDistribution((1, True, "1")),
    "one": IntDistribution(4, 4),
}


@pytest.mark.parametrize("startup", [0, 1000], ids=["model", "sobol"])
def test_every_kind_of_parameter_gets_legal_values(startup):
    study = study_of(sampler(n_startup_trials=startup))
    rng = np.random.default_rng(0)
    for _ in range(12):
        trial = study.ask(KINDS)
        for name, distribution in KINDS.items():
            value = trial.params[name]
            assert distribution._contains(distribution.to_internal_repr(value)), (name, value)
            if isinstance(distribution, CategoricalDistribution):
                assert any(value is choice for choice in distribution.choices)
            else:
                assert type(value) is (int if isinstance(distribution, IntDistribution) else float)
        study.tell(trial, rng.random())
    assert trial.relative_params.keys() == KINDS.keys() - {"one"}


def test_what_our_spaces_do_not_have_is_drawn_independently():
    def objective(trial):
        n = trial.suggest_int("n", 0, 2**60)
        return trial.suggest_float("x", 0, 1) + trial.suggest_int("big", 1, 2**45, log=True) / 2**45 + n / 2**60

    study = study_of(sampler(), 6, objective)
    trial = study.ask()
    assert study.sampler.infer_relative_search_space(study, trial._cached_frozen_trial).keys() == {"x"}


def test_in_a_conditional_space_the_model_covers_all_branches(seen):
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return x + trial.suggest_float("depth", 0, 1)
        return x + trial.suggest_int("width", 1, 9)

    study = study_of(sampler(), 12, objective)
    assert {trial.params["kind"] for trial in study.trials} == {"a", "b"}
    assert seen[-1]["X"].shape == (11, 4)
    assert seen[-1]["X"][:, 3].tolist() == [trial.params["x"] for trial in study.trials[:-1]]
    assert seen[-1]["X"][:, 0].tolist() == [trial.params.get("depth", 0.5) for trial in study.trials[:-1]]


def test_a_common_part_with_few_values_is_repeated_with_other_parameters():
    def objective(trial):
        a = trial.suggest_int("a", 0, 29)
        return abs(a - 20) + trial.suggest_float("p" if a % 2 else "q", 0, 1)

    study = study_of(sampler(config=FAIR), 24, objective)
    tried = [trial.params["a"] for trial in study.trials]
    assert tried.count(20) > 1
    assert len(set(tried)) < 20


def test_a_continuous_common_part_is_never_repeated():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        return x + trial.suggest_float("p" if trial.number % 2 else "q", 0, 0.01)

    study = study_of(sampler(config=FAIR), 12, objective)
    tried = [trial.params["x"] for trial in study.trials]
    assert 0.0 in tried
    assert len(set(tried)) == 12


def test_a_range_that_changes_is_modelled_as_the_newest(seen):
    study = study_of(sampler(), 5)
    study.optimize(lambda t: t.suggest_float("x", 0, 2) + t.suggest_float("y", 0, 1), n_trials=4)
    assert seen[-1]["X"].shape == (8, 2)
    assert seen[-1]["X"][:, 0].tolist() == [trial.params["x"] / 2 for trial in study.trials[:-1]]
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)


def test_a_finite_space_is_used_up_without_repetition_and_then_repeated_without_an_error():
    def objective(trial):
        return (
            trial.suggest_int("a", 0, 3) + 2 * trial.suggest_categorical("b", [0, 1, 2]) + trial.suggest_int("c", 0, 0)
        )

    study = study_of(sampler(), 17, objective)
    configurations = [(trial.params["a"], trial.params["b"]) for trial in study.trials]
    assert len(set(configurations[:12])) == 12
    assert set(configurations[12:]) == {(0, 0)}


def test_other_samplers_can_wrap_it():
    study = study_of(sampler(), 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.sampler = optuna.samplers.PartialFixedSampler({"y": 0.25}, study.sampler)
    study.optimize(bowl, n_trials=3)
    assert [trial.params["y"] for trial in study.trials[4:]] == [0.25] * 3
    assert len({trial.params["x"] for trial in study.trials}) == 7


# What is data


def test_only_complete_trials_with_a_finite_value_are_data(seen):
    study = study_of(sampler())
    add(study, 0.1, 0.2, 1.0)
    add(study, 0.2, 0.3, math.inf)
    add(study, 0.3, 0.4, -math.inf)
    add(study, 0.4, 0.5, state=TrialState.FAIL)
    add(study, 0.5, 0.6, 7.0, state=TrialState.PRUNED, intermediate_values={1: 7.0})
    add(study, 0.6, 0.7, 2.0)
    add(study, 0.7, 0.8, 3.0)
    results = iter([math.nan, 4.0])
    study.optimize(lambda trial: next(results) + 0 * bowl(trial), n_trials=2)
    failed = study.trials[-2]
    assert failed.state == TrialState.FAIL
    assert seen[-1]["X"][:, 0].tolist() == pytest.approx([0.1, 0.6, 0.7])
    assert seen[-1]["Y"].tolist() == [-1.0, -2.0, -3.0]


def test_an_objective_that_raises_or_prunes_does_not_stop_the_others():
    def objective(trial):
        value = bowl(trial)
        if trial.number % 4 == 1:
            raise RuntimeError
        if trial.number % 4 == 2:
            raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=16, catch=(RuntimeError,))
    assert len(study.get_trials(states=[TrialState.COMPLETE])) == 8
    assert len({tuple(params.values()) for params in points(study)}) == 16


def test_without_one_finite_value_the_sobol_sequence_goes_on(seen):
    study = study_of(sampler(n_startup_trials=0), 6, lambda trial: math.inf + 0 * bowl(trial))
    assert seen == []
    assert len({trial.params["x"] for trial in study.trials}) == 6


def test_values_out_of_range_are_no_data(seen):
    study = study_of(sampler(), 4)
    study.enqueue_trial({"x": 5.0, "y": 0.5})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.optimize(bowl, n_trials=2)
    assert study.trials[4].params["x"] == 5.0
    assert len(seen[-1]["X"]) == 4


def test_pruners_that_divide_a_study_work_too():
    study = optuna.create_study(sampler=sampler(), pruner=optuna.pruners.HyperbandPruner(max_resource=3))
    study.optimize(bowl, n_trials=20)
    assert len({tuple(params.values()) for params in points(study)}) == 20


# Other workers


def test_running_trials_are_pending_from_the_moment_they_are_sampled(seen):
    study = study_of(sampler(), 4)
    first = study.ask()
    x = first.suggest_float("x", 0, 1)  # and not yet y
    study.enqueue_trial({"x": 0.125, "y": 0.25})
    study.ask()  # and nothing of it suggested
    study.enqueue_trial({"x": 0.5, "y": 0.75})  # and waiting still
    study.sampler.sample_relative(study, new_trial(study), SQUARE)
    assert seen[-1]["pending"].tolist() == [[x, first.relative_params["y"]], [0.125, 0.25]]


def new_trial(study: optuna.Study) -> optuna.trial.FrozenTrial:
    return study._storage.get_trial(study._storage.create_new_trial(study._study_id))


def test_workers_with_one_seed_and_no_trials_yet_draw_different_points():
    storage = optuna.storages.InMemoryStorage()
    optuna.create_study(study_name="shared", storage=storage)
    asked = []
    for _ in range(4):
        trial = optuna.load_study(study_name="shared", storage=storage, sampler=sampler()).ask()
        asked.append((trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)))
    assert len({x for x, _ in asked}) == 4
    assert all(x != y for x, y in asked)


@pytest.mark.parametrize("constrained", [False, True])
def test_workers_that_ask_at_the_same_time_do_not_climb_the_same_optimum(monkeypatch, constrained):
    def objective(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        if constrained:
            trial.storage.set_trial_system_attr(trial._trial_id, "constraints", [x + y - 1])
        return -x - y / 2 if constrained else bowl(trial)

    storage = optuna.storages.InMemoryStorage()
    study = study_of(sampler(config=FAIR), 5, objective, storage=storage)
    rival = optuna.load_study(study_name=study.study_name, storage=storage, sampler=sampler(config=FAIR, seed=1))
    suggest, alone, theirs = dms.suggest, [], []

    def slow(*args, **options):
        monkeypatch.setattr(dms, "suggest", suggest)
        suggestion = suggest(*args, **options)
        alone.extend(suggestion.x_next[0].tolist())
        theirs.extend(rival.ask(SQUARE).params.values())
        return suggestion

    monkeypatch.setattr(dms, "suggest", slow)
    mine = study.ask(SQUARE).params.values()
    assert alone == pytest.approx(theirs, abs=1e-2)
    assert max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) > 0.03
    assert not constrained or sum(mine) < 1.1


@pytest.mark.parametrize("startup", [0, 1000], ids=["model", "sobol"])
@pytest.mark.parametrize("free", [1, 2])
def test_of_two_that_announce_the_same_point_one_moves(monkeypatch, startup, free):
    space = {"a": IntDistribution(0, 4)}
    study = study_of(sampler(n_startup_trials=startup))
    for a in range(5 - free):
        study.add_trial(optuna.create_trial(params={"a": a}, distributions=space, value=float(a)))
    rivals = []

    def too_late(study, trial, internal):
        if not rivals:
            rivals.append(internal)
            announce(study, new_trial(study), internal)
        announce(study, trial, internal)

    announce = integration.announce
    monkeypatch.setattr(integration, "announce", too_late)
    mine = study.ask(space).params
    assert (mine["a"] == rivals[0]["a"]) == (free == 1)
    assert mine["a"] >= 5 - free


def test_threads_of_one_process_share_it():
    study = optuna.create_study(sampler=sampler(n_startup_trials=8))
    study.optimize(bowl, n_trials=16, n_jobs=2)
    assert len({tuple(params.values()) for params in points(study)}) == 16
    design = study_of(sampler(), 3)
    assert study.trials[2].params == design.trials[2].params


def test_names_of_any_kind_and_number(tmp_path):
    names = [f"'; DROP TABLE trials; -- {i} \N{SNOWMAN}/%s{{}}" for i in range(120)]
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(storage=storage, sampler=sampler(n_startup_trials=0))
    space = {name: FloatDistribution(0.0, 1.0) for name in names}
    for _ in range(2):
        trial = study.ask(space)
        study.tell(trial, sum(trial.params.values()))
    first = study.ask()
    announced = first.relative_params
    assert announced.keys() == space.keys()
    assert study.get_trials()[2].system_attrs["modeseek:params"] == announced


# Constraints


def corner(trial: optuna.Trial) -> float:
    """Best at (1, 1), which is not feasible: x + y <= 1."""
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
    if hasattr(trial, "set_constraint"):
        trial.set_constraint("sum", x + y - 1)
    return x + 2 * y


@pytest.mark.parametrize("way", ["set_constraint", "constraints_func"])
def test_constraints_are_honoured(way, seen):
    if way == "constraints_func":
        own = sampler(config=FAIR, constraints_func=lambda trial: [trial.params["x"] + trial.params["y"] - 1])
        study = study_of(
            own, 25, lambda t: t.suggest_float("x", 0, 1) + 2 * t.suggest_float("y", 0, 1), direction="maximize"
        )
    elif hasattr(optuna.trial.Trial, "set_constraint"):
        study = study_of(sampler(config=FAIR), 25, corner, direction="maximize")
    else:
        pytest.skip("Trial.set_constraint is of Optuna 5")
    feasible = [trial for trial in study.trials if sum(trial.params.values()) <= 1]
    assert max(trial.value for trial in feasible) > 1.9  # of 2
    assert len([trial for trial in feasible if trial.number >= 10]) >= 2, "the optimum is on the border"
    sums = [sum(trial.params.values()) - 1 for trial in study.trials[:-1]]
    assert seen[-1]["constraints"][:, 0].tolist() == pytest.approx(sums)


def test_a_constraint_that_was_not_set_counts_as_met(seen):
    study = study_of(sampler())
    add(study, 0.1, 0.1, 1.0, system_attrs={"constraints:a": -2.0, "constraints:b": 3.0})
    add(study, 0.2, 0.2, 1.5, system_attrs={"constraints:a": -4.0})
    add(study, 0.3, 0.3, 1.5, system_attrs={"constraints": None})
    add(study, 0.4, 0.4, 2.5, system_attrs={"constraints:a": math.inf, "constraints:b": -math.inf})
    study.ask(SQUARE)
    largest = sys.float_info.max
    assert seen[-1]["constraints"].tolist() == [[-2, 3], [-4, -largest], [-3, -largest], [largest, -largest]]


# Seeds, processes, copies


def test_the_seed_decides():
    assert points(study_of(sampler(), 7)) == points(study_of(sampler(), 7))
    other = points(study_of(sampler(seed=1), 7))
    assert not any(a == b for a, b in zip(points(study_of(sampler(), 7)), other, strict=True))
    assert DMSSampler().seed != DMSSampler().seed


def test_the_order_of_parameters_changes_nothing():
    def swapped(trial):
        y = trial.suggest_float("y", 0, 1)
        return (trial.suggest_float("x", 0, 1) - 0.3) ** 2 + (y - 0.6) ** 2

    assert points(study_of(sampler(), 7, swapped)) == points(study_of(sampler(), 7))


def test_reseeding_changes_what_comes_next_and_reaches_the_independent_sampler():
    unpolished = replace(SMALLEST, polish=False)  # polish may lead both to one optimum
    one, two = (study_of(sampler(config=unpolished, independent_sampler=Witness()), 5) for _ in range(2))
    two.sampler.reseed_rng()
    one.optimize(bowl, n_trials=4)
    two.optimize(bowl, n_trials=4)
    assert points(one)[:5] == points(two)[:5]
    assert points(one)[5:] != points(two)[5:]  # any one of them may be the same corner of the box
    assert two.sampler._independent_sampler.heard == ["before", "after"] * 5 + ["reseed"] + ["before", "after"] * 4


class Witness(optuna.samplers.RandomSampler):
    def __init__(self) -> None:
        super().__init__(seed=0)
        self.heard: list[str] = []

    def before_trial(self, study, trial) -> None:
        self.heard.append("before")

    def after_trial(self, study, trial, state, values) -> None:
        self.heard.append("after")

    def reseed_rng(self) -> None:
        self.heard.append("reseed")


def test_a_pickled_copy_goes_on_as_the_original_would():
    study = study_of(sampler(), 6)
    copy = optuna.create_study(study_name=study.study_name, sampler=pickle.loads(pickle.dumps(study.sampler)))
    copy.add_trials(study.trials)
    assert copy.ask(SQUARE).params == study.ask(SQUARE).params


def test_the_next_iteration_starts_where_the_last_of_its_study_and_space_ended(seen):
    own = sampler()
    study, other = study_of(own, 5), study_of(own, 5)
    assert [call["state"] is None for call in seen] == [True, False] * 2
    study.optimize(bowl, n_trials=1)
    assert seen[-1]["state"] is not None
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    assert [call["state"] is None for call in seen[-2:]] == [False, True]
    assert len(other.trials) == 5


def test_studies_of_one_name_in_different_storages_are_not_mixed_up():
    own = sampler()
    optuna.create_study(study_name="same", sampler=own).optimize(bowl, n_trials=4)
    study = optuna.create_study(study_name="same", sampler=own)
    study.optimize(lambda trial: trial.suggest_int("x", 0, 9) + trial.suggest_float("z", 0, 1), n_trials=4)
    assert study.ask().relative_params.keys() == {"x", "z"}


RESUMED = """
import sys
import optuna
from test_optuna import bowl, sampler
study = optuna.create_study(study_name="s", storage=sys.argv[1], sampler=sampler(), load_if_exists=True)
study.optimize(bowl, n_trials=5)
"""


def test_a_fresh_process_goes_on_with_the_study(tmp_path):
    storages = [f"sqlite:///{tmp_path / name}.db" for name in "ab"]
    (tmp_path / "resumed.py").write_text(RESUMED)
    for storage in storages:
        for _ in range(2):
            run(tmp_path / "resumed.py", storage).check_returncode()
    one, two = (optuna.load_study(study_name="s", storage=storage) for storage in storages)
    assert points(one) == points(two)
    assert len({tuple(params.values()) for params in points(one)}) == 10
    # The first process goes as one that is never interrupted; the second begins without the network of the first.
    whole = study_of(sampler(), 6)
    assert points(one)[:5] == points(whole)[:5]


# Bad settings, warnings


def test_a_study_with_too_many_objectives_is_refused():
    study = optuna.create_study(directions=["minimize"] * 6, sampler=sampler())
    with pytest.raises(ConfigError, match="at most 5 objectives, this one has 6; use Optuna's NSGAIIISampler"):
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1),) * 6, n_trials=1)


@pytest.mark.parametrize(
    "settings",
    [{"seed": -1}, {"seed": 0.5}, {"config": {"m": 3}}, {"n_startup_trials": -1}, {"independent_sampler": "random"}],
    ids=str,
)
def test_settings_that_make_no_sense(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        DMSSampler(**settings)


def test_a_device_that_is_not_there():
    with pytest.raises(DeviceError, match="device="):
        DMSSampler(device="cuda:99")


def test_each_warning_comes_once(monkeypatch):
    suggest = dms.suggest

    def failing(*args, **options):
        suggestion = suggest(*args, **options)
        object.__setattr__(suggestion, "diverged", torch.tensor([True]))
        object.__setattr__(suggestion.gp, "fit_failed", torch.tensor([True]))
        return suggestion

    monkeypatch.setattr(dms, "suggest", failing)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        study_of(sampler(), 6)
    kinds = [warning.category for warning in said if issubclass(warning.category, CollapseWarning | FitWarning)]
    assert sorted(kinds, key=str) == [CollapseWarning, FitWarning]
    assert {warning.filename for warning in said if warning.category in kinds} == {__file__}  # not one of Optuna's


def test_without_optuna_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna.distributions", None)
    monkeypatch.delitem(sys.modules, "modeseek.integrations.optuna")
    with pytest.raises(MissingExtraError, match=r'DMSSampler needs Optuna: pip install .* "\.\[optuna\]"'):
        importlib.import_module("modeseek.integrations.optuna")


def test_pruned_and_failed_trials_are_left_behind():
    """A pruned trial has no outcome; a sampler that forgot it would propose its neighbours until the budget ends."""

    def objective(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        if x + y > 1.5:
            raise optuna.TrialPruned
        if min(x, y) < 0.05:
            return float("nan")
        return (x - 0.4) ** 2 + (y - 0.4) ** 2 - 0.3 * (x + y > 1.4)

    study = optuna.create_study(sampler=DMSSampler(seed=0, n_startup_trials=8, config=TRAINED))
    study.optimize(objective, n_trials=35)
    lost = [t for t in study.trials if t.state != optuna.trial.TrialState.COMPLETE]
    assert 0 < len(lost) <= 14
    assert len({tuple(t.params.values()) for t in study.trials}) == 35


MIXTURE = Space(
    {"a": Float(0, 1), "b": Float(0, 1), "kind": Categorical(["x", "y"])},
    constraints=[Linear({"a": 1, "b": 1}, equals=1), lambda p: p["kind"] == "x" or p["a"] > 0.5],
)


def mixture(trial: optuna.Trial) -> float:
    a, b = trial.suggest_float("a", 0, 1), trial.suggest_float("b", 0, 1)
    return (a - 0.7) ** 2 + b + 0.1 * (trial.suggest_categorical("kind", ["x", "y"]) == "x")


def test_known_constraints_of_a_space_hold_from_the_first_trial_on() -> None:
    study = optuna.create_study(sampler=sampler(space=MIXTURE))
    study.optimize(mixture, n_trials=6)
    assert {trial.params["kind"] for trial in study.trials} == {"x", "y"}
    for trial in study.trials:
        assert abs(trial.params["a"] + trial.params["b"] - 1) < 1e-9
        assert trial.params["kind"] == "x" or trial.params["a"] > 0.5
    for params in study.sampler.optimum(study, draws=8).samples:
        assert abs(params["a"] + params["b"] - 1) < 1e-9


def test_choices_with_an_order_are_searched_as_their_indices_are() -> None:
    sizes, others = [16, 32, 64, 128], {"kind": Categorical(["x", "y"])}

    def run(ordered: bool) -> list[dict[str, object]]:
        size = Categorical(sizes, ordered=True) if ordered else Int(0, 3)
        study = optuna.create_study(sampler=sampler(space=Space({"size": size, **others})))

        def f(trial: optuna.Trial) -> float:
            i = sizes.index(trial.suggest_categorical("size", sizes)) if ordered else trial.suggest_int("size", 0, 3)
            return (i - 2) ** 2 + (trial.suggest_categorical("kind", ["x", "y"]) == "x")

        study.optimize(f, n_trials=7)
        assert {str(params["size"]) for params in study.sampler.optimum(study, draws=8).samples} <= set(
            map(str, sizes if ordered else range(4))
        )
        return [trial.params for trial in study.trials]

    assert run(True) == [{**params, "size": sizes[params["size"]]} for params in run(False)]


def test_values_that_a_trial_is_queued_with_are_what_the_others_are_chosen_for() -> None:
    study = optuna.create_study(sampler=sampler(space=MIXTURE))
    study.optimize(mixture, n_trials=4)
    study.enqueue_trial({"a": 0.25})
    study.optimize(mixture, n_trials=1)
    assert study.trials[4].params == {"a": 0.25, "b": 0.75, "kind": "x"}


def test_fixed_values_of_a_sampler() -> None:
    study = optuna.create_study(sampler=sampler(space=MIXTURE, fixed={"kind": "y", "a": 0.1 + 0.5}))
    study.optimize(mixture, n_trials=2)
    assert study.trials[0].params == {"a": 0.1 + 0.5, "b": pytest.approx(0.4), "kind": "y"}
    assert study.trials[1].params == study.trials[0].params, "nothing else is left"
    with pytest.raises(ConfigError, match="space=space"):
        sampler(fixed={"a": 1})


@pytest.mark.parametrize(
    ("fixed", "message"),
    [({"z": 1}, "'z' is unknown"), ({"a": 3.0}, "'a': 3.0 is not in"), ({"a": 1.0, "b": 1.0}, "no configuration with")],
)
def test_fixed_values_that_make_no_sense_are_refused_with_the_sampler(fixed: dict[str, object], message: str) -> None:
    """They were left out, or violated the constraints, in silence."""
    with pytest.raises(ValueError, match=message):
        sampler(space=MIXTURE, fixed=fixed)


def test_fixed_choices_that_a_function_refuses_are_named_as_they_are() -> None:
    def small(params: dict[str, object]) -> bool:
        return params["kind"] == "x"

    space = Space({"a": Float(0, 1), "kind": Categorical(["x", "y"])}, [small])
    study = optuna.create_study(sampler=sampler(space=space, fixed={"kind": "y"}))
    with pytest.raises(SpaceError, match=r"points with \{'kind': 'y'\} is allowed by .*small"):
        study.ask({"a": optuna.distributions.FloatDistribution(0, 1)})


def test_the_reference_point_of_several_objectives() -> None:
    """In the study's own units, as in `Optimizer`."""
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler(reference=[0.3, 0.0]))
    optimizer = Optimizer(Space({"x": Float(0, 1)}), direction=["minimize", "maximize"], reference=[0.3, 0.0])
    for x in (0.1, 0.4, 0.8):
        study.add_trial(
            optuna.trial.create_trial(
                params={"x": x}, distributions={"x": optuna.distributions.FloatDistribution(0, 1)}, values=[x, x]
            )
        )
        optimizer.tell_params({"x": x}, [x, x])
    own = study.sampler._codec(study, study.sampler.infer_relative_search_space(study, None)).read(study)
    known = optimizer._trials.history(optimizer.direction, optimizer.reference)
    assert own.reference is not None
    assert own.reference == pytest.approx(known.reference)
    one = optuna.create_study(sampler=sampler(reference=[0.3, 0.0]))
    with pytest.raises(ConfigError, match="reference is for several objectives"):
        one.ask().suggest_float("x", 0, 1)
    with pytest.raises(ConfigError, match="finite numbers"):
        sampler(reference=[math.nan, 1])
    three = optuna.create_study(directions=["minimize"] * 3, sampler=sampler(reference=[0.3, 0.0]))
    with pytest.raises(ConfigError, match="3 finite numbers"):
        three.ask().suggest_float("x", 0, 1)


def test_a_dict_is_not_a_space() -> None:
    with pytest.raises(ConfigError, match="wrap a dict as Space"):
        sampler(space={"a": Float(0, 1)})


@pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")
def test_a_partial_fixed_sampler_around_it() -> None:
    base = sampler(n_startup_trials=2)
    study = optuna.create_study(sampler=optuna.samplers.PartialFixedSampler({"x": 0.25}, base))
    study.optimize(bowl, n_trials=4)
    assert {trial.params["x"] for trial in study.trials} == {0.25}
    assert len({trial.params["y"] for trial in study.trials}) == 4


def test_a_prior_is_used_from_the_first_trial_with_a_space_and_from_the_second_without():
    space = Space({"x": Float(0, 1), "k": Categorical(["a", "b", "c"])})
    prior = {"x": Normal(0.9, 0.02), "k": {"a": 1, "b": 0, "c": 0}}

    def objective(trial: optuna.Trial) -> float:
        return trial.suggest_float("x", 0, 1) + len(trial.suggest_categorical("k", ["a", "b", "c"]))

    for given in (space, None):
        own = sampler(prior=prior, space=given, n_startup_trials=4)
        study = optuna.create_study(sampler=own)
        study.optimize(objective, n_trials=5)
        first = study.trials[0 if given is not None else 3].params  # each third one; the first of all is at random
        assert first["x"] == pytest.approx(0.9, abs=0.06)
        assert first["k"] == "a"
        (proposer,) = own._proposers.values()
        assert proposer.suggestion.gp.conviction is not None
        pickle.loads(pickle.dumps(own))


def test_a_prior_that_names_what_no_trial_has_is_said_once():
    study = optuna.create_study(sampler=sampler(prior={"z": 1.0}))
    with pytest.warns(ModeseekWarning, match=r"no complete trial has the parameters \['z'\]"):
        study.optimize(bowl, n_trials=4)
    with pytest.raises(ConfigError, match="'z' is not one of"):
        sampler(prior={"z": 1.0}, space=Space({"x": Float(0, 1)}))


def test_earlier_studies_of_optunas_and_of_ours():
    earlier = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    earlier.optimize(lambda trial: -bowl(trial), n_trials=20)
    pairs = [(trial.params, -trial.value) for trial in earlier.trials]
    found = []
    for transfer in (earlier, [earlier], pairs):
        study = optuna.create_study(sampler=sampler(transfer=transfer, n_startup_trials=6))
        study.optimize(bowl, n_trials=8)
        found.append([trial.params for trial in study.trials])
        assert study.trials[3].params == earlier.best_params  # number 0 is at random, then every third one
    assert found[0] == found[1] == found[2]
    several = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler(transfer=earlier))
    several.enqueue_trial({"x": 0.1, "y": 0.2})
    with pytest.raises(ConfigError, match="one objective"):
        several.optimize(lambda trial: (bowl(trial), 1.0), n_trials=3)
    with pytest.raises(ConfigError, match="2 objectives"):
        sampler(transfer=several)


def test_a_standard_error_is_an_attribute_of_its_trial():
    study = optuna.create_study(sampler=sampler())
    for x, attribute in ((0.1, 0.5), (0.2, None), (0.3, "much"), (0.4, -1.0), (0.5, 0)):
        attributes = {} if attribute is None else {"modeseek:sem": attribute}
        distributions = {"x": FloatDistribution(0, 1)}
        study.add_trial(
            optuna.create_trial(value=x, params={"x": x}, distributions=distributions, user_attrs=attributes)
        )
    history = study.sampler._codec(study, distributions).read(study)
    np.testing.assert_array_equal(history.sem, [0.5, np.nan, np.nan, np.nan, 0.0])


def study_with_sems(*sems: object, **settings) -> optuna.Study:
    study = optuna.create_study(sampler=sampler(), **settings)
    for i, sem in enumerate(sems):
        add(study, 0.1 * i, 0.5, values=[1.0] * len(study.directions), user_attrs={"modeseek:sem": sem})
    return study


@pytest.mark.parametrize("sem", ["much", True, [0.1], -1.0, math.inf], ids=repr)
def test_a_standard_error_that_is_none_is_said_once(sem):
    study = study_with_sems(0.1, sem, "more")
    with pytest.warns(ModeseekWarning) as said:
        study.optimize(bowl, n_trials=2)
    (message,) = [str(warning.message) for warning in said if "modeseek:sem" in str(warning.message)]
    assert f"trial 1: its attribute 'modeseek:sem' is ignored, since {sem!r} is not a finite number" in message


def test_a_standard_error_that_is_not_known_is_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModeseekWarning)
        study_with_sems(0.1, 0, None, math.nan).optimize(bowl, n_trials=1)
        several = study_with_sems([0.1, 0], [None, 0.2], None, math.nan, directions=["minimize", "minimize"])
        several.optimize(lambda trial: (bowl(trial), 1.0), n_trials=1)


@pytest.mark.parametrize("sem", ["much", 0.1, [0.1], [0.1, -1.0], [0.1, "a"], [0.1, True]], ids=repr)
def test_standard_errors_of_several_objectives(sem):
    study = study_with_sems([0.1, 0.2], [None, 0.3], sem, directions=["minimize", "maximize"])
    search_space = study.sampler.infer_relative_search_space(study, None)
    history = study.sampler._codec(study, search_space).read(study)
    np.testing.assert_array_equal(history.sem, [[0.1, 0.2], [np.nan, 0.3], [np.nan, np.nan]])
    with pytest.warns(ModeseekWarning) as said:
        study.optimize(lambda trial: (bowl(trial), 1.0), n_trials=2)
    (message,) = [str(warning.message) for warning in said if "modeseek:sem" in str(warning.message)]
    assert f"trial 2: its attribute 'modeseek:sem' is ignored, since {sem!r} is not a list of 2 finite" in message
    assert "trial.set_user_attr('modeseek:sem', [0.1, 0.1])" in message


# Objectives that ask for something else than the space says

SHARES = Space({"a": Float(0, 1), "b": Float(0, 1)}, constraints=[Linear({"a": 1, "b": 1}, equals=1)])
PLAIN = Space({"a": Float(0, 1), "b": Float(0, 1)})


def asking(evaluated: list | None = None, **ask):
    """An objective of "a", asked for with these bounds and step, and of "b" in [0, 1]."""

    def objective(trial: optuna.Trial) -> float:
        a, b = trial.suggest_float("a", **ask), trial.suggest_float("b", 0, 1)
        if evaluated is not None:
            evaluated.append(a + b)
        return a + b

    return objective


@pytest.mark.parametrize(
    "ask", [{"low": 0, "high": 0.3}, {"low": 0, "high": 1, "step": 0.1}, {"low": 0.3, "high": 0.3}], ids=str
)
@pytest.mark.parametrize("seed", range(3))
def test_with_constraints_an_objective_that_does_not_take_all_is_refused_before_it_violates_them(ask, seed):
    study, evaluated = optuna.create_study(sampler=sampler(space=SHARES, seed=seed)), []
    with pytest.raises(ParameterError, match=r"asks for 'a' as FloatDistribution\(.*says FloatDistribution\(high=1.0"):
        study.optimize(asking(evaluated, **ask), n_trials=4)
    assert len(study.trials) == 1, "whether a value is taken is luck, the error is not"
    assert evaluated == pytest.approx([1.0] * len(evaluated))


def test_a_range_that_took_a_value_by_luck_is_refused_when_its_trial_ends():
    study = optuna.create_study(sampler=sampler(space=SHARES))
    trial = study.ask()
    value = asking(low=0, high=0.999)(trial)
    with pytest.raises(ParameterError, match="cannot keep to its constraints; ask for the same in the objective"):
        study.tell(trial, value)
    assert study.trials[0].value == value == pytest.approx(1.0), "which is kept"


def test_a_range_of_one_value_for_which_no_sampler_is_asked():
    study = optuna.create_study(sampler=sampler(space=SHARES))
    with pytest.raises(ParameterError, match=r"low=0\.3"):
        study.optimize(lambda t: t.suggest_float("b", 0, 1) + t.suggest_float("a", 0.3, 0.3), n_trials=3)
    assert len(study.trials) == 1


def test_an_error_of_the_objective_comes_before_what_it_asked_for():
    def objective(trial: optuna.Trial) -> float:
        asking(low=0, high=0.999)(trial)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        optuna.create_study(sampler=sampler(space=SHARES)).optimize(objective, n_trials=1)


def test_fixed_values_that_an_objective_does_not_take_are_refused():
    for ask in ({"low": 0, "high": 0.3}, {"low": 0.3, "high": 0.3}):
        study = optuna.create_study(sampler=sampler(space=PLAIN, fixed={"a": 0.5}))
        with pytest.raises(ParameterError, match=r"asks for 'a' .* cannot keep to its fixed values"):
            study.optimize(asking(**ask), n_trials=2)
    for ask in ({"low": 0, "high": 0.6}, {"low": 0.5, "high": 0.5}):
        study = optuna.create_study(sampler=sampler(space=PLAIN, fixed={"a": 0.5}))
        study.optimize(asking(**ask), n_trials=2)
        assert [trial.params["a"] for trial in study.trials] == [0.5, 0.5]


def test_a_wider_range_takes_all_that_is_proposed():
    study = optuna.create_study(sampler=sampler(space=SHARES))
    study.optimize(asking(low=-1, high=2), n_trials=5)
    assert [trial.value for trial in study.trials] == pytest.approx([1.0] * 5)


def test_queued_values_are_taken_in_any_range():
    study = optuna.create_study(sampler=sampler(space=SHARES))
    study.enqueue_trial({"a": 0.25})
    study.enqueue_trial({"a": 0.2, "b": 0.1})
    study.optimize(asking(low=0, high=0.3), n_trials=2)
    assert points(study) == [{"a": 0.25, "b": 0.75}, {"a": 0.2, "b": 0.1}]


@pytest.mark.parametrize("warns", [True, False])
def test_without_constraints_a_narrower_range_goes_on_with_one_warning(warns):
    study = optuna.create_study(sampler=sampler(space=PLAIN, warn_independent_sampling=warns))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        study.optimize(asking(low=0, high=0.3), n_trials=6)
    assert all(trial.params["a"] <= 0.3 for trial in study.trials)
    messages = [str(warning.message) for warning in said if warning.category is IndependentSamplingWarning]
    assert len(messages) == warns
    assert all("asks for 'a' as FloatDistribution(high=0.3" in message for message in messages)


@pytest.mark.parametrize(
    ("asked", "known", "expected"),
    [
        (FloatDistribution(0, 1), FloatDistribution(0, 1), True),
        (FloatDistribution(0, 2), FloatDistribution(0, 1, step=0.1), True),
        (FloatDistribution(0, 1, step=0.1), FloatDistribution(0, 1), False),
        (FloatDistribution(0, 1, step=0.1), FloatDistribution(0.2, 0.8, step=0.3), True),
        (FloatDistribution(0, 1, step=0.1), FloatDistribution(0, 1, step=0.25), False),
        (FloatDistribution(0.1, 2, log=True), FloatDistribution(0.1, 1), False),
        (IntDistribution(0, 9), IntDistribution(1, 9, step=2), True),
        (IntDistribution(0, 8, step=2), IntDistribution(0, 8), False),
        (IntDistribution(0, 8, step=2), IntDistribution(1, 7, step=2), False),
        (IntDistribution(0, 1), FloatDistribution(0, 1), False),
        (CategoricalDistribution(["x", "y"]), CategoricalDistribution(["x", "y"]), True),
        (CategoricalDistribution(["x", "y", "z"]), CategoricalDistribution(["x", "y"]), False),
    ],
    ids=str,
)
def test_which_distributions_take_all_values_of_another(asked, known, expected):
    assert takes_all(asked, known) is expected
