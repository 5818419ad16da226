"""Seconds to draw samples of x* (the paper's Table 3) and seconds per iteration (its Table 4), measured in one process.

Both start from the same Sobol points for every method, as many as there are half way through the paper's budget. (A
run's own points crowd around the optimum, and differ between methods.) Samples are drawn given the task's outcomes. An
iteration is that of `many_optima` in the task's box: Levy's Sobol points say so little that the paper's 25 steps may
end in one point, and then no model is trained.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modeseek.bench.campaign.replication import (
    DESIGN,
    Work,
    fixed_threads,
    observe,
    parse_method,
    seed_of,
    stream,
)
from modeseek.bench.measure.measurements import Measurement, add, machine
from modeseek.bench.methods import make_method, method_names
from modeseek.bench.methods.botorch_methods import posterior_optima
from modeseek.bench.methods.method import tensors
from modeseek.bench.tasks import find_task
from modeseek.checks import device_of
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.dms import seek
from modeseek.errors import ConfigError, ModeseekError, ModeseekWarning
from modeseek.history import History
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.paths import optima
from modeseek.surrogate import GP

DRAW_TASKS = ("styblinski-tang-2", "levy-10")
DRAW_SIZES = (100, 200, 300)
TASKS = ("styblinski-tang-2", "levy-10", "levy-20", "levy-50")
ON_CPU = ("sobol", "tpe", "gpsampler", "cmaes")  # whatever the device
TOO_LONG = {"levy-20": ("pes-botorch",), "levy-50": ("pes-botorch", "jes-botorch")}  # as in the paper, unless asked for
OUR_PATHS = "PES, our paths"
PAPERS_DMS = "DMS, the paper's settings"
DRAWN = {  # what is timed for Table 3, and the rows that each makes
    "DMS": ("DMS", "DMS, sampling alone"),
    PAPERS_DMS: (PAPERS_DMS,),
    "PES": ("PES",),
    OUR_PATHS: (OUR_PATHS,),
}
PAPER_DEVICE = "RTX 4090 (paper)"
PAPER_ITERATIONS: dict[str, dict[str, tuple[float, float]]] = {  # Table 4: mean and standard deviation
    "styblinski-tang-2": {
        "ei": (0.34, 0.11), "gibbon": (0.29, 0.13), "ucb": (0.20, 0.08), "dms-paper": (2.13, 0.20), "pi": (0.43, 0.09),
        "pes": (8.90, 2.50), "ts": (0.23, 0.12),
    },
    "levy-10": {
        "ei": (0.70, 0.37), "gibbon": (2.04, 0.15), "ucb": (0.50, 0.16), "dms-paper": (4.07, 0.40), "pi": (3.20, 1.05),
        "pes": (390.20, 23.40), "ts": (0.47, 0.18),
    },
    "levy-20": {
        "ei": (1.70, 0.67), "gibbon": (4.26, 2.39), "ucb": (1.20, 0.43), "dms-paper": (8.16, 1.71), "pi": (3.82, 1.58),
        "ts": (1.07, 0.67),
    },
    "levy-50": {
        "ei": (2.74, 0.56), "gibbon": (6.85, 1.86), "ucb": (3.64, 1.85), "dms-paper": (12.23, 2.38), "pi": (3.98, 0.88),
        "ts": (5.99, 2.18),
    },
}  # fmt: skip
LIMIT = 120.0  # seconds of a call from which one is enough


def many_optima(X: torch.Tensor) -> torch.Tensor:
    """A function on the unit box with so many optima that no pseudo-set collapses."""
    return (9 * X).sin().sum(-1) - (X - 0.3).square().sum(-1)


def inputs(task: str) -> np.ndarray:
    """The initial design and half the budget of a task, all of it Sobol points."""
    problem = find_task(task)
    generator = torch.Generator().manual_seed(seed_of(stream(task, 0, DESIGN)))
    return problem.space.snap(sobol(problem.n_initial + problem.budget // 2, problem.d, generator).numpy())


def measure_draws(
    tasks: Sequence[str] = DRAW_TASKS,
    sizes: Sequence[int] = DRAW_SIZES,
    methods: Sequence[str] = tuple(DRAWN),
    *,
    repeats: int = 5,
    device: str = "cpu",
    threads: int = 1,
) -> Iterator[Measurement]:
    """Seconds that DMS and PES take for S samples of x*, given a fitted GP.

    DMS trains and samples on a pseudo-dataset that is there; PES maximizes posterior paths drawn by Matheron's rule, by
    BoTorch and by our own code, which climbs all of them at once.
    DMS is the default, and the paper's preset with so many samples. Either is trained whatever the pseudo-dataset: the
    paper's 25 steps on Levy-10 may end in one point, which is not what is to be timed.
    """
    place = device_of(device)
    with fixed_threads(threads):
        for task in tasks:
            problem, X = find_task(task), inputs(task)
            outcomes = np.array([observe(problem, u, 0, i)[0] for i, u in enumerate(X)])
            X_seen, Y = tensors(History.of(X, outcomes), place)
            gp = fit(X_seen, standardize(Y))
            for S in sizes:
                posterior_optima(gp, 2, seed=0)  # the first calls also load kernels
                optima(gp, 2, torch.Generator().manual_seed(0))
                for method in methods:
                    for name, values in _seconds_of_draws(method, gp, problem.config(), S, repeats, place).items():
                        yield {"task": task, "method": name, "S": S, "seconds": values} | machine(place)


def _seconds_of_draws(
    method: str, gp: GP, of_paper: DMSConfig, S: int, repeats: int, place: torch.device
) -> dict[str, list[float]]:
    """The rows of one of `DRAWN`."""
    if method == "DMS":
        stages = _stages(gp, DMSConfig(S=S, one_hill=0), repeats)
        return {
            "DMS": [of["train"] + of["sample"] for of in stages],
            "DMS, sampling alone": [of["sample"] for of in stages],
        }
    if method == PAPERS_DMS:
        stages = _stages(gp, replace(of_paper, S=S, skip_collapsed=False), repeats)
        return {method: [of["train"] + of["sample"] for of in stages]}
    draws: dict[str, Callable[[int], Any]] = {
        "PES": lambda seed: posterior_optima(gp, S, seed),
        OUR_PATHS: lambda seed: optima(gp, S, torch.Generator().manual_seed(seed)),
    }
    return {method: [clocked(partial(draws[method], seed), place) for seed in range(repeats)]}


def _stages(gp: GP, config: DMSConfig, repeats: int) -> list[dict[str, float]]:
    """Seconds of iterations by stage, after a first one that does not count."""
    return [seek(gp, config, torch.Generator().manual_seed(seed)).seconds for seed in range(repeats + 1)][1:]


def measure_iterations(
    tasks: Sequence[str] = TASKS,
    methods: Sequence[str] | None = None,
    *,
    repeats: int = 3,
    device: str = "cpu",
    threads: int = 1,
    limit: float = LIMIT,
) -> Iterator[Measurement]:
    """Seconds of a call of each method, as in a campaign: a first that does not count, then one per new observation.

    A method whose first call takes longer than `limit` is not called again, and that call counts.

    Args:
        methods: None for all that the paper ran on a task and, on a GPU, that use it.
    """
    place = device_of(device)
    of_task = {task: _methods_for(task, place) if methods is None else methods for task in tasks}
    for name in set().union(*of_task.values()):
        parse_method(name)
    for task in tasks:
        most = len(inputs(task)) - 1  # the first call needs an observation, each of the others one more
        if repeats > most:
            raise ConfigError(f"repeats must be at most {most} for {task!r}, not {repeats}")
    with fixed_threads(threads):
        for task in tasks:
            X = inputs(task)
            history = History.of(X, many_optima(torch.from_numpy(X)).numpy())
            for name in of_task[task]:
                try:
                    seconds = _seconds_of_calls(task, name, history, repeats, str(place), limit)
                except ModeseekError as error:
                    warnings.warn(f"{name} left out: {error}", ModeseekWarning, stacklevel=2)
                    continue
                yield {"task": task, "method": name, "seconds": seconds} | machine(place)


def _methods_for(task: str, device: torch.device) -> list[str]:
    left_out = TOO_LONG.get(task, ()) + (ON_CPU if device.type == "cuda" else ())
    return [name for name in method_names() if name not in left_out]


def _seconds_of_calls(task: str, name: str, history: History, repeats: int, device: str, limit: float) -> list[float]:
    work = Work(task, name, 0)
    space = find_task(task).space
    method = make_method(parse_method(name)[0], space, seed=0, config=work.config, device=device)
    seconds = []
    for n in range(len(history.Y) - repeats, len(history.Y) + 1):
        seen = History.of(history.X[:n], history.Y[:n])
        seconds.append(clocked(partial(method, seen)))
        if seconds[0] > limit:
            return seconds
    return seconds[1:]


def clocked(work: Callable[[], Any], device: torch.device | None = None) -> float:
    """The seconds of a call, to the end of what it has asked of a GPU."""
    began = time.perf_counter()
    work()
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def save(path: Path, measurement: Measurement) -> None:
    """Add a measurement, in the place of one of the same thing on the same device with as many threads."""
    rounded = measurement | {"seconds": [float(f"{s:.4g}") for s in measurement["seconds"]]}
    add(path, rounded, ("task", "method", "S", "device", "threads"))
