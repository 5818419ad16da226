"""The tuning problems: Bayesmark's protocol, the data sets that come with the package, one real training each."""

from __future__ import annotations

import math
import re
import sys
import warnings
from importlib import resources
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from modeseek.bench.tasks import Problem, find_task
from modeseek.bench.tasks.real import cross_validated_accuracy, training_part
from modeseek.errors import ModeseekError, ParameterError

TASKS = {"wine": ("wine", 5), "vehicle": ("vehicle", 5), "image-segmentation": ("segment", 15)}
GOOD = {"alpha": 1e-3, "learning_rate_init": 1e-2, "hidden_layer_sizes": 60, "batch_size": 100}


@pytest.fixture(params=TASKS)
def problem(request: pytest.FixtureRequest) -> Problem:
    return find_task(request.param)


def csv(data: str) -> tuple[np.ndarray, np.ndarray]:
    path = resources.files("modeseek.bench.tasks") / "data" / f"{data}.csv"
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").split("\n")[1:] if line]
    return np.array([row[:-1] for row in rows], dtype=float), np.array([row[-1] for row in rows])


def test_facts_are_the_papers(problem: Problem) -> None:
    config = problem.config()
    assert (config.m, config.K, config.S) == (500, TASKS[problem.name][1], 200)
    assert (problem.n_initial, problem.budget, problem.replications) == (10, 60, 30)
    assert (problem.optimum, problem.true_optimum, problem.noise, problem.values) == (1.0, None, 0.0, None)
    low, high = (problem.space.decode(np.full(4, u)) for u in (0.0, 1.0))
    assert low == {"alpha": 1e-5, "learning_rate_init": 1e-5, "hidden_layer_sizes": 50, "batch_size": 10}
    assert high == {"alpha": 10.0, "learning_rate_init": 0.1, "hidden_layer_sizes": 200, "batch_size": 250}
    middle = problem.space.decode(np.full(4, 0.5))
    assert middle["alpha"] == pytest.approx(1e-2)
    assert middle["learning_rate_init"] == pytest.approx(1e-3)


@pytest.mark.parametrize(("data", "n", "features", "classes"), [("vehicle", 846, 18, 4), ("segment", 2310, 19, 7)])
def test_the_shipped_data_are_whole_and_scaled(data: str, n: int, features: int, classes: int) -> None:
    X, y = csv(data)
    assert X.shape == (n, features)
    assert len(np.unique(y)) == classes
    assert np.isfinite(X).all()
    train, labels = training_part(data)
    assert train.shape == (n - math.ceil(0.2 * n), features)
    assert sorted(np.unique(labels)) == list(range(classes))

    # The scaling, from its definition: median 0, and the range of the middle 86 % as wide as a Gaussian's.
    spread = np.quantile(X, 0.93, axis=0) - np.quantile(X, 0.07, axis=0)
    spread[spread == 0] = 1
    scaled = (X - np.median(X, axis=0)) / spread * (norm.ppf(0.93) - norm.ppf(0.07))
    expected = {row.tobytes() for row in np.round(scaled.clip(-100, 100), 6) + 0.0}
    assert {row.tobytes() for row in np.round(train, 6) + 0.0} <= expected


def test_wine_is_scikit_learns_own_data() -> None:
    X, y = training_part("wine")
    assert X.shape == (142, 13)
    assert np.unique(y).tolist() == [0, 1, 2]
    assert X.max() > 1000  # as Bayesmark takes it: not scaled


def test_a_real_training_is_a_function_without_warnings() -> None:
    problem = find_task("wine")
    params = {**GOOD, "batch_size": 250}  # more than a fold has
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = problem.value(params)
    assert 0 < value < 1
    assert problem.value(params) == value
    assert problem.evaluate(params, np.random.default_rng(0)) == value
    assert problem.regret(params) == 1 - value


@pytest.mark.parametrize(("name", "least"), [("vehicle", 0.7), ("image-segmentation", 0.9)])
def test_good_parameters_learn_and_bad_ones_do_not(name: str, least: float) -> None:
    problem = find_task(name)
    assert problem.value(GOOD) > least
    assert problem.value({**GOOD, "learning_rate_init": 1e-5, "batch_size": 250}) < 0.5


def test_the_value_is_the_mean_of_five_stratified_folds() -> None:
    from sklearn.model_selection import StratifiedKFold
    from sklearn.neural_network import MLPClassifier

    X, y = training_part("vehicle")
    short: dict[str, Any] = {"max_iter": 3}
    scores = []
    for train, test in StratifiedKFold(5).split(X, y):
        model = MLPClassifier(solver="adam", early_stopping=True, random_state=0, **GOOD, **short)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores.append((model.fit(X[train], y[train]).predict(X[test]) == y[test]).mean())
    assert cross_validated_accuracy("vehicle", GOOD, **short) == pytest.approx(np.mean(scores), abs=1e-12)


@pytest.mark.parametrize(
    "bad", [{"batch_size": 9}, {"hidden_layer_sizes": 50.5}, {"alpha": 0.0}, {"learning_rate_init": float("nan")}]
)
def test_parameters_outside_the_space_are_refused(problem: Problem, bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(bad))):
        problem.value({**GOOD, **bad})


def test_without_scikit_learn_the_error_says_what_to_install(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for call in (problem.check_installed, lambda: problem.value(GOOD)):
        with pytest.raises(ModeseekError, match=re.escape('pip install -c constraints.txt ".[bench]"')):
            call()
