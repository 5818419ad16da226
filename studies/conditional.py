"""Conditional spaces beside other samplers (`python -m studies.conditional`).

Toys with a choice of model that has parameters of its own, a number of layers with a width each, a schedule under an
optimizer: 40 trials, 10 seeds, mean and standard error of the best value; the optimum of all is 0. All samplers see the
same define-by-run objective, except `modeseek.Optimizer`, which is told the space.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna

import modeseek as ms
from modeseek.history import History
from modeseek.integrations.optuna import DMSSampler
from modeseek.proposer import Proposer, propose_all
from modeseek.settings import Settings

Toy = tuple[ms.Space, Callable[[dict[str, Any]], float]]


def two_models() -> Toy:
    """A support-vector machine or a random forest; the forest is better, after tuning."""
    space = ms.Space(
        {
            "model": ms.Categorical(["svm", "forest"]),
            "C": ms.Float(1e-3, 1e3, log=True, when={"model": "svm"}),
            "gamma": ms.Float(1e-4, 1e1, log=True, when={"model": "svm"}),
            "depth": ms.Int(1, 20, when={"model": "forest"}),
            "trees": ms.Int(10, 500, log=True, when={"model": "forest"}),
            "share": ms.Float(0.1, 1.0, when={"model": "forest"}),
        }
    )

    def f(p: dict[str, Any]) -> float:
        if p["model"] == "svm":
            return 0.15 + 0.1 * (math.log10(p["C"]) - 1) ** 2 + 0.2 * (math.log10(p["gamma"]) + 2) ** 2
        return 0.01 * (p["depth"] - 13) ** 2 + 0.3 * math.log10(p["trees"] / 200) ** 2 + 2 * (p["share"] - 0.35) ** 2

    return space, f


def three_models() -> Toy:
    """Three models of two parameters each in one range, with other optima; the best is the narrowest."""
    models = {"a": (0.3, (0.2, 0.8), 2.0), "b": (0.1, (0.7, 0.6), 4.0), "c": (0.0, (0.85, 0.15), 8.0)}
    parameters: dict[str, Any] = {"model": ms.Categorical(list(models))}
    for name in models:
        parameters |= {f"{name}{i}": ms.Float(0, 1, when={"model": name}) for i in range(2)}

    def f(p: dict[str, Any]) -> float:
        base, optimum, steepness = models[p["model"]]
        return base + steepness * sum((p[f"{p['model']}{i}"] - o) ** 2 for i, o in enumerate(optimum))

    return ms.Space(parameters), f


def shared_rate() -> Toy:
    """A learning rate that all share, an optimizer with parameters of its own, and a schedule with its own."""
    space = ms.Space(
        {
            "lr": ms.Float(1e-5, 1.0, log=True),
            "optimizer": ms.Categorical(["sgd", "adam", "lbfgs"]),
            "momentum": ms.Float(0.0, 0.99, when={"optimizer": "sgd"}),
            "beta": ms.Float(0.8, 0.999, when={"optimizer": "adam"}),
            "memory": ms.Int(1, 50, when={"optimizer": "lbfgs"}),
            "schedule": ms.Categorical(["none", "step", "cosine"], when={"optimizer": ["sgd", "adam"]}),
            "decay": ms.Float(0.01, 1.0, log=True, when={"schedule": "step"}),
            "warmup": ms.Float(0.0, 0.5, when={"schedule": "cosine"}),
        }
    )
    rates = {"sgd": -1.0, "adam": -2.5, "lbfgs": -0.5}

    def f(p: dict[str, Any]) -> float:
        value = 0.15 * (math.log10(p["lr"]) - rates[p["optimizer"]]) ** 2
        if p["optimizer"] == "sgd":
            value += 0.5 * (p["momentum"] - 0.9) ** 2
        elif p["optimizer"] == "adam":
            value += 0.1 + 5 * (p["beta"] - 0.95) ** 2
        else:
            return value + 0.25 + 0.0001 * (p["memory"] - 20) ** 2
        if p["schedule"] == "step":
            return value + 0.05 + 0.2 * (math.log10(p["decay"]) + 1) ** 2
        return value + (2 * (p["warmup"] - 0.1) ** 2 if p["schedule"] == "cosine" else 0.2)

    return space, f


def layers() -> Toy:
    """One to four layers, each with a width of its own that exists with the layer."""
    parameters: dict[str, Any] = {"layers": ms.Int(1, 4), "lr": ms.Float(1e-5, 1e-1, log=True)}
    for i in range(1, 5):
        parameters[f"units{i}"] = ms.Int(8, 512, log=True, when={"layers": list(range(i, 5))})

    def f(p: dict[str, Any]) -> float:
        widths = [math.log2(p[f"units{i}"]) for i in range(1, p["layers"] + 1)]
        value = 0.1 * (math.log10(p["lr"]) + 3) ** 2 + 0.1 * abs(p["layers"] - 3)
        return value + sum(0.04 * (w - o) ** 2 for w, o in zip(widths, (8, 6, 5, 4), strict=False))

    return ms.Space(parameters), f


def rugged() -> Toy:
    """Four models, each with a wavy valley of its own; two share a parameter."""
    parameters: dict[str, Any] = {
        "model": ms.Categorical(["knn", "tree", "net", "boost"]),
        "rate": ms.Float(1e-4, 1.0, log=True, when={"model": ["net", "boost"]}),
        "k": ms.Int(1, 50, log=True, when={"model": "knn"}),
        "leaf": ms.Int(1, 30, when={"model": "tree"}),
        "depth": ms.Int(1, 12, when={"model": ["tree", "boost"]}),
        "dropout": ms.Float(0.0, 0.9, when={"model": "net"}),
        "width": ms.Int(4, 1024, log=True, when={"model": "net"}),
    }

    def wave(x: float) -> float:
        return x * x + 0.15 * (1 - math.cos(3 * math.pi * x))

    def f(p: dict[str, Any]) -> float:
        if p["model"] == "knn":
            return 0.45 + 0.3 * wave(math.log10(p["k"] / 7))
        if p["model"] == "tree":
            return 0.35 + 0.4 * wave((p["depth"] - 6) / 6) + 0.2 * wave((p["leaf"] - 5) / 15)
        rate = 0.3 * wave((math.log10(p["rate"]) + (2.5 if p["model"] == "net" else 1.0)) / 1.5)
        if p["model"] == "boost":
            return 0.1 + rate + 0.5 * wave((p["depth"] - 4) / 6)
        return rate + 0.5 * wave((p["dropout"] - 0.3) / 0.5) + 0.3 * wave(math.log2(p["width"] / 200) / 3)

    return ms.Space(parameters), f


TOYS = {toy.__name__: toy for toy in (two_models, three_models, shared_rate, layers, rugged)}
SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "DMSSampler": lambda seed: DMSSampler(seed=seed),
    "GPSampler": lambda seed: optuna.samplers.GPSampler(seed=seed),
    "TPE": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "TPE, multivariate, grouped": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}
OURS: dict[str, ms.DMSConfig | None] = {"modeseek.Optimizer": None}


def suggest(trial: optuna.Trial, space: ms.Space) -> dict[str, Any]:
    """What the trial has of a space, one parameter after the other, as an objective would ask for them."""
    params: dict[str, Any] = {}
    for name in space.conditions.order:
        parameter = space[name]
        if not space.conditions.exists(name, params):
            continue
        if isinstance(parameter, ms.Categorical):
            params[name] = trial.suggest_categorical(name, parameter.choices)
        elif isinstance(parameter, ms.Int):
            params[name] = trial.suggest_int(name, parameter.low, parameter.high, log=parameter.log)
        else:
            params[name] = trial.suggest_float(name, parameter.low, parameter.high, log=parameter.log)
    return params


def sampled(method: str, toy: Toy, seed: int, trials: int) -> list[float]:
    """The values of a study."""
    space, f = toy
    study = optuna.create_study(sampler=SAMPLERS[method](seed))
    study.optimize(lambda trial: f(suggest(trial, space)), n_trials=trials)
    return [float(trial.value or 0.0) for trial in study.trials]


def side_by_side(toy: Toy, seeds: int, trials: int, config: ms.DMSConfig | None) -> list[list[float]]:
    """The values of as many runs of `Optimizer`, which share the tensors of each proposal."""
    space, f = toy
    proposers = [Proposer(space, Settings.of(seed=seed, config=config)) for seed in range(seeds)]
    points: list[list[Any]] = [[] for _ in proposers]
    values: list[list[float]] = [[] for _ in proposers]
    for i in range(trials):
        histories = [History.of(x, -np.array(y), d=space.d) for x, y in zip(points, values, strict=True)]
        for x, y, proposal in zip(points, values, propose_all(proposers, histories, i), strict=True):
            x.append(proposal.point)
            y.append(f(space.decode(proposal.point)))
    return values


def compare(
    description: str | None, toys: dict[str, Callable[[], Toy]], ours: dict[str, ms.DMSConfig | None], others: list[str]
) -> None:
    """Print a row per toy and method, of those that the command line asks for."""
    methods = [*ours, *others]
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--toys", nargs="+", default=list(toys), choices=toys)
    parser.add_argument("--methods", nargs="+", default=methods, choices=methods)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    print("| toy | method | half way | end | seconds per trial |\n|---|---|---|---|---|")
    for name in args.toys:
        for method in args.methods:
            start, toy = time.perf_counter(), toys[name]()
            if method in ours:
                values = side_by_side(toy, args.seeds, args.trials, ours[method])
            else:
                values = [sampled(method, toy, seed, args.trials) for seed in range(args.seeds)]
            curves = np.minimum.accumulate(np.array(values), axis=1)
            seconds = (time.perf_counter() - start) / curves.size
            half, end = (
                f"{at.mean():.4f} ± {at.std(ddof=1) / math.sqrt(len(at)):.4f}"
                for at in (curves[:, args.trials // 2 - 1], curves[:, -1])
            )
            print(f"| {name} | {method} | {half} | {end} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    compare(__doc__, TOYS, OURS, list(SAMPLERS))
