"""Tuning a neural network on three data sets (App. B.2), by the protocol of Bayesmark's MLP-adam.

Four parameters are tuned and the others keep scikit-learn's defaults, with early stopping. The data are split 80/20,
and the value is the mean accuracy of a 5-fold cross-validation on the 80 %. Bayesmark leaves the network's weights to
chance; here `random_state=0` makes the value a function of the parameters.
"""

from __future__ import annotations

import csv
import warnings
from functools import lru_cache, partial
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modeseek.bench.tasks.problem import Problem
from modeseek.parameters import Float, Int
from modeseek.space import Space
from modeseek.typing import Array, Params

SPACE = Space(
    {
        "alpha": Float(1e-5, 10.0, log=True),
        "learning_rate_init": Float(1e-5, 0.1, log=True),
        "hidden_layer_sizes": Int(50, 200),
        "batch_size": Int(10, 250),
    }
)
CLIP = 100.0  # Bayesmark's bound on scaled features


def cross_validated_accuracy(data: str, params: Params, **settings: Any) -> float:
    """Mean accuracy over the five folds; `settings` go to scikit-learn's MLPClassifier."""
    from sklearn.model_selection import cross_val_score
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    X, y = training_part(data)
    model = MLPClassifier(solver="adam", early_stopping=True, random_state=0, **params, **settings)
    # The matrices are small: more threads only wait for each other, and would change the last digits.
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        # A batch may be larger than a fold, which scikit-learn then clips, and training may stop at its 200 epochs.
        warnings.simplefilter("ignore", UserWarning)
        return float(cross_val_score(model, X, y, scoring="accuracy", cv=5).mean())


@lru_cache
def training_part(data: str) -> tuple[Array, NDArray[np.int64]]:
    """The 80 % of a data set that are trained on: features, classes."""
    from sklearn.datasets import load_wine
    from sklearn.model_selection import train_test_split

    X, y = load_wine(return_X_y=True) if data == "wine" else _scaled_csv(data)
    X_train, _, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=0, shuffle=True)
    return X_train, y_train


def _scaled_csv(data: str) -> tuple[Array, NDArray[np.int64]]:
    """A data set of this package, scaled as Bayesmark does: by median and the 86 % range, to a Gaussian's width 1."""
    from sklearn.preprocessing import RobustScaler

    with resources.files("modeseek.bench.tasks").joinpath("data", f"{data}.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    X = RobustScaler(quantile_range=(7.0, 93.0), unit_variance=True).fit_transform([row[:-1] for row in rows])
    _, y = np.unique([row[-1] for row in rows], return_inverse=True)
    return np.clip(X, -CLIP, CLIP), y


def _problem(name: str, title: str, data: str, seconds: float, K: int | None = None) -> Problem:
    return Problem(
        name=name,
        title=title,
        space=SPACE,
        f=partial(cross_validated_accuracy, data),
        optimum=1.0,
        n_initial=10,
        budget=10 * SPACE.d + 20,
        K=K,
        requires=("sklearn", "threadpoolctl"),
        seconds=seconds,
    )


PROBLEMS = (
    _problem("wine", "Wine", "wine", 0.15),
    _problem("vehicle", "Vehicle", "vehicle", 0.5),
    _problem("image-segmentation", "Image Segmentation", "segment", 2.0, K=15),
)
