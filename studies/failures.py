"""Where evaluations fail: how many do, and what is found all the same.

    python -m studies.failures [--seeds 5] [--cases trend,one]

    trend     fails where the learning rate is above 1e-2, and is better the nearer it comes to that
    one       the same in one dimension, a quadratic with its minimum in what fails
    memory    fails where batch · layers > 600, and is better with more of both
    beside    Branin; two ninths of the box fail, none of the three minima
    holes     Branin; squares around two of the three minima fail
    random    Branin; every fifth evaluation fails, wherever it is

The table: failed evaluations of the run, and the regret of the best one that did not fail, by seed.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import modeseek as ms

Params = dict[str, Any]


class Failed(Exception):
    """The evaluation has no outcome."""


def trend(p: Params) -> float:
    if p["lr"] > 1e-2:
        raise Failed
    return float(-math.log10(p["lr"]) + (p["wd"] - 0.3) ** 2)


def one(p: Params) -> float:
    if p["x"] > 0.5:
        raise Failed
    return float((p["x"] - 0.9) ** 2)


def memory(p: Params) -> float:
    if p["batch"] * p["layers"] > 600:
        raise Failed
    return float((math.log10(p["lr"]) + 3) ** 2 - 0.5 * math.log2(p["batch"]) - 0.1 * p["layers"])


def branin(p: Params) -> float:
    x, y = p["x"], p["y"]
    bowl = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return float(bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10)


def beside(p: Params) -> float:
    if p["x"] > 5 and p["y"] > 5:
        raise Failed
    return branin(p)


def holes(p: Params) -> float:
    if any(abs(p["x"] - x) < 1.5 and abs(p["y"] - y) < 1.5 for x, y in ((-math.pi, 12.275), (math.pi, 2.275))):
        raise Failed
    return branin(p)


def at_random(seed: int) -> Callable[[Params], float]:
    chance = np.random.default_rng(seed)

    def f(p: Params) -> float:
        if chance.random() < 0.2:
            raise Failed
        return branin(p)

    return f


class Case(NamedTuple):
    """An objective for each seed, its space, how often it is evaluated, and the best that does not fail."""

    objective: Callable[[int], Callable[[Params], float]]
    space: ms.Space
    budget: int
    best: float


SQUARE = ms.Space({"x": ms.Float(-5, 10), "y": ms.Float(0, 15)})
RATES = ms.Space({"lr": ms.Float(1e-5, 1, log=True), "wd": ms.Float(0, 1)})
SIZES = ms.Space({"batch": ms.Int(8, 512, log=True), "layers": ms.Int(1, 40), "lr": ms.Float(1e-6, 1e-1, log=True)})
BRANIN = 10 / (8 * math.pi)
CASES = {
    "trend": Case(lambda _: trend, RATES, 40, 2.0),
    "one": Case(lambda _: one, ms.Space({"x": ms.Float(0, 1)}), 30, 0.16),
    "memory": Case(lambda _: memory, SIZES, 50, min(-0.5 * math.log2(600 // n) - 0.1 * n for n in range(2, 41))),
    "beside": Case(lambda _: beside, SQUARE, 40, BRANIN),
    "holes": Case(lambda _: holes, SQUARE, 40, BRANIN),
    "random": Case(at_random, SQUARE, 40, BRANIN),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ms.ModeseekWarning)
    for name in options.cases.split(","):
        case, failed, regrets = CASES[name], [], []
        for seed in range(options.seeds):
            f = case.objective(seed)
            run = ms.minimize(f, case.space, budget=case.budget, seed=seed, catch=(Failed,), progress=False)
            failed.append(sum(trial.value is None for trial in run.trials))
            regrets.append(run.best.value - case.best)
        print(f"{name:8} of {case.budget} failed {failed}, regret {[float(f'{r:.2g}') for r in regrets]}", flush=True)


if __name__ == "__main__":
    main()
