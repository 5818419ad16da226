"""Every method through the one interface: inside the cube, deterministic, and leaving global state alone."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from threadpoolctl import threadpool_info

from modeseek import Categorical, ConfigError, DMSConfig, Float, Int, ModeseekError, ParameterError, Space, paths
from modeseek.bench.methods import botorch_methods as bo
from modeseek.bench.methods import information, make_method, method_names, optuna_methods
from modeseek.bench.methods.method import not_known
from modeseek.history import History
from shared import CHEAP

FEW: dict[str, Any] = {"optima": 4, "path_restarts": 2, "path_raw_samples": 16, "num_restarts": 2, "raw_samples": 16}
MIXED = Space(
    {
        "lr": Float(1e-5, 1e-1, log=True),
        "momentum": Float(0.0, 0.95, step=0.1),
        "units": Int(50, 200, step=7),
        "depth": Int(1, 64, log=True),
        "act": Categorical(["relu", None, 3, False]),
        "fixed": Int(4, 4),
    }
)
SPACES = {"1": Space.box([-3], [2]), "2": Space.box([0, -5], [1, 5]), "6": Space.box([0] * 6, [1] * 6), "mixed": MIXED}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few samples of the optimum, which need not be exact."""
    monkeypatch.setattr(information, "OPTIMA", 4)
    monkeypatch.setattr(information, "CANDIDATES", 200)
    for name, value in (("SPREAD", 64), ("NEAR", 32), ("THOROUGH", paths.THOROUGH._replace(long=10))):
        monkeypatch.setattr(paths, name, value)


def small(name: str, space: Space, seed: int = 0) -> Any:
    """The method with sizes for tests where the real ones take seconds."""
    if name in ("pes-botorch", "jes-botorch"):
        return {"pes-botorch": bo.PES, "jes-botorch": bo.JES}[name](space, seed, **FEW)
    if name == "gibbon-botorch":
        return bo.GIBBON(space, seed, candidates=200)
    return make_method(name, space, seed, config=CHEAP if name.startswith("dms") else None)


def history(space: Space, n: int, seed: int = 0) -> History:
    rng = np.random.default_rng(seed)
    X = space.snap(rng.random((n, space.d)))
    return History.of(X, -np.square(X - 0.3).sum(1) + 0.01 * rng.standard_normal(n))


def extended(h: History, space: Space, u: np.ndarray, y: float) -> History:
    return History.of(np.vstack([h.X, space.snap(u[None])]), np.append(h.Y, y))


def test_the_names_are_the_papers_methods_and_the_outside_ones() -> None:
    assert method_names() == [
        *("dms", "dms-fast", "dms-paper", "dms-printed", "dms-v3", "dms-v3-fast", "dms-v2", "dms-v1", "dms-v1-fast"),
        *("pi", "ei", "logei", "ucb", "ts", "pes", "gibbon", "jes"),
        *("sobol", "tpe", "gpsampler", "cmaes"),
        *("pi-botorch", "ei-botorch", "logei-botorch", "ucb-botorch"),
        *("ts-botorch", "pes-botorch", "gibbon-botorch", "jes-botorch"),
    ]
    for name in method_names():
        make_method(name, SPACES["2"], seed=0)


SLOW = ("pes", "jes", "gibbon")


@pytest.mark.parametrize(
    ("name", "where"),
    [
        (name, where)
        for name in method_names()
        for where in (("mixed",) if name in SLOW or "-botorch" in name else SPACES)
    ],
)
def test_a_finite_point_in_the_cube_from_one_observation_on(name: str, where: str) -> None:
    space = SPACES[where]
    for n in (1, 12):
        method, h = small(name, space), history(space, n)
        for step in range(2):
            u = method(h)
            assert u.shape == (space.d,)
            assert u.dtype == np.float64
            assert np.isfinite(u).all()
            assert (u >= 0).all()
            assert (u <= 1).all()
            assert method.seconds
            assert all(seconds >= 0 for seconds in method.seconds.values())
            h = extended(h, space, u, 0.1 * step)


@pytest.mark.parametrize("name", method_names())
def test_equal_observations_are_survived(name: str) -> None:
    h = history(SPACES["2"], 12)
    h = History.of(np.repeat(h.X[:1], 12, axis=0), np.full(12, 7.0))
    u = small(name, SPACES["2"])(h)
    assert ((u >= 0) & (u <= 1)).all()


@pytest.mark.parametrize("name", method_names())
def test_deterministic_in_the_seed(name: str) -> None:
    h = history(SPACES["2"], 12)

    def two_points(seed: int) -> np.ndarray:
        method = small(name, SPACES["2"], seed)
        first = method(h)
        return np.stack([first, method(extended(h, SPACES["2"], first, 0.5))])

    np.testing.assert_array_equal(two_points(3), two_points(3))
    if name in ("sobol", "ts", "pes", "tpe", "cmaes"):
        assert np.abs(two_points(3) - two_points(4)).max() > 1e-3


@pytest.mark.parametrize("name", method_names())
def test_global_state_is_left_alone(name: str) -> None:
    method, h = small(name, SPACES["2"]), history(SPACES["2"], 12)
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002 - the legacy generator is the one to protect
    random.seed(7)

    def state() -> tuple[object, ...]:
        return (
            torch.get_rng_state().tolist(),
            np.random.get_state()[1].tolist(),  # noqa: NPY002
            random.getstate(),
            torch.get_num_threads(),
            torch.get_default_dtype(),
            [pool["num_threads"] for pool in threadpool_info()],
            optuna.logging.get_verbosity(),
        )

    before = state()
    X, Y = h.X.copy(), h.Y.copy()
    method(h)
    assert state() == before
    np.testing.assert_array_equal(h.X, X)
    np.testing.assert_array_equal(h.Y, Y)


def quadratic_regret(name: str, seed: int, steps: int) -> float:
    """The simple regret on a quadratic after three random points and so many of the method."""
    space, best = SPACES["2"], np.array([0.62, 0.27])
    method, X = small(name, space, seed), history(space, 3, seed).X
    for _ in range(steps):
        X = np.vstack([X, method(History.of(X, -np.square(X - best).sum(1)))])
    return float(np.square(X - best).sum(1).min())


@pytest.mark.parametrize("name", [name for name in method_names() if name != "sobol" and "-botorch" not in name])
def test_better_than_sobol_on_a_quadratic(name: str) -> None:
    steps, seeds = (60, 6) if name in ("tpe", "cmaes") else (12, 1)  # these two begin with random points
    ours = np.mean([quadratic_regret(name, seed, steps) for seed in range(seeds)])
    sobol = np.mean([quadratic_regret("sobol", seed, steps) for seed in range(10)])
    assert ours < 0.2 * sobol


def test_sobol_search_is_one_sequence() -> None:
    method, h = make_method("sobol", SPACES["2"], seed=5), history(SPACES["2"], 8)
    points = []
    for _ in range(56):
        points.append(method(h))
        h = extended(h, SPACES["2"], points[-1], 0.0)
    columns = np.stack(points).T
    for column in columns:  # equidistribution: points 8..63 of the sequence, seven in each eighth
        assert (np.histogram(column, 8, (0, 1))[0] == 7).all()


def test_dms_paper_takes_the_tasks_settings() -> None:
    config = DMSConfig(name="dms-paper", m=40, S=20, epochs=3, steps=5, hidden=16, polish=False)
    method: Any = make_method("dms-paper", SPACES["2"], seed=0, config=config)
    method(history(SPACES["2"], 5))
    assert set(method.seconds) == {"fit", "pseudo", "train", "sample", "mode"}


def test_cmaes_learns_from_what_it_asked_for() -> None:
    method, h = optuna_methods.CMAES(SPACES["6"], seed=0), history(SPACES["6"], 5)
    for _ in range(25):
        u = method(h)
        h = extended(h, SPACES["6"], u, float(-np.square(u - 0.3).sum()))
    assert method._study is not None
    generations = [trial.system_attrs.get("cma:generation", -1) for trial in method._study.trials]
    assert len(method._study.trials) == 30
    assert max(generations) >= 2
    assert np.square(h.X[-8:] - 0.3).sum(1).mean() < np.square(h.X[5:13] - 0.3).sum(1).mean()


def test_a_point_nobody_evaluated_and_a_new_history_do_no_harm() -> None:
    method, h = optuna_methods.TPE(MIXED, seed=0), history(MIXED, 12)
    method(h)
    other = extended(h, MIXED, np.full(MIXED.d, 0.99), 1.0)
    method(other)
    assert method._study is not None
    assert [trial.state.name for trial in method._study.trials].count("FAIL") == 1
    assert len(method._study.get_trials(states=[optuna.trial.TrialState.COMPLETE])) == 13
    again = method(history(MIXED, 12, seed=5))
    np.testing.assert_array_equal(again, optuna_methods.TPE(MIXED, seed=0)(history(MIXED, 12, seed=5)))


def test_optuna_sees_the_values_of_the_history() -> None:
    for space in SPACES.values():
        method, h = optuna_methods.TPE(space, seed=0), history(space, 20)
        method(h)
        assert method._study is not None
        told = method._study.trials[:20]
        for trial, x, y in zip(told, h.X, h.Y, strict=True):
            params = np.array([trial.params[k] for k in space.names]) if space.is_box else trial.params
            np.testing.assert_allclose(space.encode(params), x, atol=1e-9)
            assert trial.value == y


@pytest.mark.parametrize(("name", "package"), [("tpe", "optuna"), ("gpsampler", "optuna"), ("cmaes", "cmaes")])
def test_a_missing_package_is_named_with_the_command(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModeseekError, match=rf'{package}: pip install .* "\.\[bench\]"'):
        make_method(name, SPACES["2"], seed=0)


def test_an_unknown_name_gets_the_nearest_and_the_list() -> None:
    with pytest.raises(
        ConfigError,
        match=r"did you mean 'logei'\?.*dms, dms-fast, dms-paper, dms-printed, dms-v3, dms-v3-fast, dms-v2, dms-v1, "
        "dms-v1-fast, pi",
    ):
        make_method("log-ei", SPACES["2"], seed=0)


@pytest.mark.parametrize(("given", "name"), [("UCB", "ucb"), ("EI", "ei"), ("DMS", "dms"), ("CMA-ES", "cmaes")])
def test_a_name_in_capitals_gets_the_one_that_is_meant(given: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{name}'"):
        make_method(given, SPACES["2"], seed=0)


def test_a_history_must_fit_its_space() -> None:
    for X, Y in [
        (np.zeros((3, 2)), np.zeros(2)),
        (np.zeros((3, 2)), np.array([0, np.nan, 1])),
        (np.full((3, 2), np.nan), np.zeros(3)),
    ]:
        with pytest.raises(ParameterError, match=r"outcomes|points"):
            History.of(X, Y)
    for wrong in (History.of(np.zeros((3, 1)), np.zeros(3)), History.of([], [], d=2)):
        for name in ("sobol", "ei", "ucb", "tpe", "dms"):
            with pytest.raises(ConfigError, match="2 parameters"):
                small(name, SPACES["2"])(wrong)


FEW_POINTS = Space({"a": Int(0, 3), "b": Categorical(["x", "y", "z"])})


@pytest.mark.parametrize("name", [n for n in method_names() if n not in SLOW and "-botorch" not in n])
def test_no_method_repeats_a_configuration_of_a_discrete_space(name: str) -> None:
    """Twelve configurations, two known at first: ten calls give the ten others."""
    method, h = small(name, FEW_POINTS), history(FEW_POINTS, 1, seed=1)
    for _ in range(11):
        u = FEW_POINTS.snap(method(h)[None])[0]
        h = extended(h, FEW_POINTS, u, float(-np.square(u - 0.3).sum()))
    assert len(np.unique(h.X, axis=0)) == 12


def test_the_other_point_is_the_best_by_the_methods_own_function() -> None:
    space = Space({"a": Int(0, 9)})
    h = History.of(space.snap(np.array([[0.55]])), [1.0])
    point = not_known(space, h.X[0], h, lambda points: -np.abs(points[:, 0] - 0.66), seed=0)
    assert space.decode(point) == {"a": 6}
    continuous = Space.box([0], [1])
    assert not_known(continuous, h.X[0], h, lambda points: points[:, 0], seed=0) == h.X[0]
