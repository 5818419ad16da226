"""Spaces with choices beside other samplers (`python -m studies.mixed`).

Toys of choices and numbers, each as it is and stretched to 10^(c·f) − 1, which gives it a heavy tail: 40 trials, 10
seeds, mean and standard error of the best value; the optimum of all is 0. "labels alone" chooses by μ + ρσ, as with
numbers (`choose_by="label"`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import modeseek as ms
from studies.conditional import OURS, Toy, compare
from studies.prior import mixed


def training() -> Toy:
    """A learning rate, a width and two choices of three, which interact."""
    task = mixed()
    return task.space, task.f


def additive() -> Toy:
    """Four times five choices, each of which adds a number, and three numbers."""
    rng = np.random.default_rng(1)
    added = [dict(zip("abcde", rng.permutation(5) * 0.1, strict=True)) for _ in range(4)]
    optimum = (0.2, 0.65, 0.8)
    parameters: dict[str, Any] = {f"c{i}": ms.Categorical(list("abcde")) for i in range(4)}
    parameters |= {f"x{i}": ms.Float(0, 1) for i in range(3)}

    def f(p: dict[str, Any]) -> float:
        bowl = sum(2 * (p[f"x{i}"] - best) ** 2 for i, best in enumerate(optimum))
        return float(bowl + sum(table[p[f"c{i}"]] for i, table in enumerate(added)))

    return ms.Space(parameters), f


def own_optima() -> Toy:
    """Six choices, each with an optimum of its own in three dimensions."""
    rng = np.random.default_rng(2)
    optima = {choice: rng.random(3) for choice in "abcdef"}
    least = dict(zip("abcdef", (0.0, 0.05, 0.1, 0.3, 0.3, 0.5), strict=True))
    numbers = {f"x{i}": ms.Float(0, 1) for i in range(3)}

    def f(p: dict[str, Any]) -> float:
        x = np.array([p[name] for name in numbers])
        return float(least[p["c"]] + 3 * np.square(x - optima[p["c"]]).sum())

    return ms.Space({"c": ms.Categorical(list(optima)), **numbers}), f


def whole_numbers() -> Toy:
    """Four whole numbers of eleven values, three choices and a number that follows one of them."""
    optimum = (3, 7, 1, 9)
    numbers = {f"n{i}": ms.Int(0, 10) for i in range(4)}

    def f(p: dict[str, Any]) -> float:
        bowl = 0.05 * sum((p[f"n{i}"] - best) ** 2 for i, best in enumerate(optimum))
        return float({"u": 0.0, "v": 0.4, "w": 0.8}[p["c"]] + bowl + (p["x"] - 0.7 - 0.05 * p["n0"]) ** 2)

    return ms.Space({**numbers, "c": ms.Categorical(["u", "v", "w"]), "x": ms.Float(-2, 2)}), f


def switches() -> Toy:
    """Six switches that interact in pairs, and two numbers."""
    rng = np.random.default_rng(3)
    alone, pairs = rng.normal(size=6), 0.5 * rng.normal(size=(6, 6))

    def energy(on: Any) -> float:
        b = np.array(on, dtype=float)
        return float(alone @ b + b @ pairs @ b)

    least = min(energy(on) for on in itertools.product((0, 1), repeat=6))
    parameters: dict[str, Any] = {f"b{i}": ms.Categorical([False, True]) for i in range(6)}
    parameters |= {f"x{i}": ms.Float(0, 1) for i in range(2)}

    def f(p: dict[str, Any]) -> float:
        bowl = 2 * (p["x0"] - 0.3) ** 2 + 2 * (p["x1"] - 0.3 - 0.4 * p["b0"]) ** 2
        return energy([p[f"b{i}"] for i in range(6)]) - least + bowl

    return ms.Space(parameters), f


def stretched(toy: Callable[[], Toy], c: float) -> Callable[[], Toy]:
    """The same with a heavy tail."""

    def make() -> Toy:
        space, f = toy()
        return space, lambda p: 10 ** (c * f(p)) - 1

    return make


TOYS: dict[str, Callable[[], Toy]] = {
    **{toy.__name__: toy for toy in (training, additive, own_optima, whole_numbers, switches)},
    "training, stretched": stretched(training, 3),
    "additive, stretched": stretched(additive, 2),
    "own_optima, stretched": stretched(own_optima, 2),
    "switches, stretched": stretched(switches, 1),
}

if __name__ == "__main__":
    ours = {**OURS, "labels alone": ms.DMSConfig(choose_by="label")}
    compare(__doc__, TOYS, ours, ["GPSampler", "TPE, multivariate, grouped"])
