"""Seconds per suggestion of Optuna's samplers on Levy-10 after 100 trials, as ratios to BoTorchSampler, in one run.

    make bench                            # or: python -m benchmarks.samplers --repeats 9 --threads 2

Every method starts from the same 100 Sobol points with noise, then proposes and is told, the methods taking turns. The
median counts; the first round warms up. `Optimizer.ask` is what DMSSampler does without Optuna: with one seed both
propose the same points.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
import optuna
import torch
from botorch.test_functions import Levy
from optuna.distributions import FloatDistribution
from optuna.samplers import BaseSampler, GPSampler, TPESampler
from optuna.trial import create_trial
from optuna_integration import BoTorchSampler
from threadpoolctl import threadpool_limits

import modeseek as ms
from modeseek.design import sobol
from modeseek.integrations.optuna import DMSSampler

D, N, NOISE, SEED = 10, 100, 0.1, 0
BASE = "BoTorchSampler"
LEVY = Levy(dim=D).double()
LOW, HIGH = LEVY.bounds[:, 0].tolist()
SAMPLERS: dict[str, Callable[[], BaseSampler]] = {
    "DMSSampler": lambda: DMSSampler(seed=SEED),
    "DMSSampler, DMSConfig.fast()": lambda: DMSSampler(seed=SEED, config=ms.DMSConfig.fast()),
    BASE: lambda: BoTorchSampler(seed=SEED),
    "GPSampler": lambda: GPSampler(seed=SEED),
    "TPESampler": lambda: TPESampler(seed=SEED),
}

Params = dict[str, float]


def value(params: Params, number: int) -> float:
    """Levy's function with the noise of this trial."""
    x = torch.tensor([params[f"x{i}"] for i in range(D)], dtype=torch.float64)
    return float(LEVY(x)) + NOISE * np.random.default_rng(number).standard_normal()


def initial() -> list[Params]:
    points = LOW + (HIGH - LOW) * sobol(N, D, torch.Generator().manual_seed(SEED))
    return [{f"x{i}": x for i, x in enumerate(point)} for point in points.tolist()]


def of_study(sampler: BaseSampler) -> Callable[[], float]:
    """A study with N trials; each call makes one more and returns the seconds of its suggestion."""
    study = optuna.create_study(sampler=sampler)
    distributions = {f"x{i}": FloatDistribution(LOW, HIGH) for i in range(D)}
    for number, params in enumerate(initial()):
        study.add_trial(create_trial(params=params, distributions=distributions, value=value(params, number)))

    def step() -> float:
        began = time.perf_counter()
        trial = study.ask(distributions)
        seconds = time.perf_counter() - began
        study.tell(trial, value(trial.params, trial.number))
        return seconds

    return step


def of_optimizer() -> Callable[[], float]:
    """The same without Optuna."""
    optimizer = ms.Optimizer(ms.Space({f"x{i}": ms.Float(LOW, HIGH) for i in range(D)}), seed=SEED)
    for number, params in enumerate(initial()):
        optimizer.tell_params(params, value(params, number))

    def step() -> float:
        began = time.perf_counter()
        trial = optimizer.ask()
        seconds = time.perf_counter() - began
        optimizer.tell(trial, value(trial.params, trial.number))
        return seconds

    return step


def measure(repeats: int, threads: int) -> dict[str, float]:
    """The median seconds of every method."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with threadpool_limits(threads):
        steps = {name: of_study(sampler()) for name, sampler in SAMPLERS.items()}
        steps["modeseek.Optimizer.ask"] = of_optimizer()
        rounds = [{name: step() for name, step in steps.items()} for _ in range(repeats + 1)][1:]
    return {name: statistics.median(times[name] for times in rounds) for name in steps}


def table(medians: dict[str, float]) -> str:
    """A Markdown table, one row per method."""
    rows = [f"| {name} | {seconds:.3f} | {seconds / medians[BASE]:.3f} |" for name, seconds in medians.items()]
    overhead = medians["DMSSampler"] / medians["modeseek.Optimizer.ask"] - 1
    return "\n".join(
        [
            f"| method | seconds | / {BASE} |",
            "|---|---|---|",
            *rows,
            "",
            f"DMSSampler over Optimizer.ask: {overhead:+.1%}",
        ]
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    print(
        f"Levy-{D} after {N} trials, {args.threads} thread{'s' * (args.threads > 1)}, Optuna {optuna.__version__}, "
        f"torch {torch.__version__}, median of {args.repeats}\n"
    )
    print(table(measure(args.repeats, args.threads)))


if __name__ == "__main__":
    main()
