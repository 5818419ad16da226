"""What an iteration of DMS costs: in batches of replications beside its floor, and how it grows with d, n, m and S.

The floor of an iteration is the time that a device would need for its arithmetic, or for its traffic with memory where
that is more, at the speeds that it reaches on large matrices in the same run. Only what cannot be left out is counted:
one pass over a tensor for each step that needs it, and of L-BFGS one evaluation a step.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from modeseek import problems
from modeseek.diffusion.network import parameter_count
from modeseek.dms import STAGES, DMSConfig, suggest
from modeseek.experiments.measurements import Measurement, add, machine, where
from modeseek.experiments.records import Record
from modeseek.experiments.seconds import PAPER_ITERATIONS, TASKS, clocked
from modeseek.experiments.tables import Row, Table, in_order, tasks_in_order
from modeseek.pseudo import sobol
from modeseek.settings import device_of

BATCHES = (1, 8, 30, 128)
BASE = {"d": 10, "n": 200, "m": 800, "S": 300}
GRID = {
    "d": (2, 5, 10, 20, 50, 100, 200),
    "n": (20, 50, 100, 200, 500, 1000, 2000),
    "m": (100, 200, 400, 800, 1600, 3200, 6400),
    "S": (50, 100, 200, 400, 800, 1600),
}
STARTS = 2  # of a GP fit that has a last one to start from


class Speed(NamedTuple):
    """What a device reaches on large matrices."""

    float32: float  # operations a second
    float64: float
    memory: float  # bytes a second


def measure_batches(
    tasks: Sequence[str] = TASKS,
    batches: Sequence[int] = BATCHES,
    *,
    repeats: int = 3,
    device: str = "cpu",
) -> Iterator[Measurement]:
    """Seconds an iteration of batches of replications, by stage, with the observations of half a run."""
    place = device_of(device)
    speed = speed_of(place)
    for task in tasks:
        problem = problems.get(task)
        for method, config in (("dms-paper", problem.config()), ("dms", DMSConfig())):
            for b in batches:
                n = problem.n_initial + problem.budget // 2
                runs = _iterations(_observed(b, n + repeats, problem.d, place), config, repeats)
                stages = {stage: statistics.median(run["stages"][stage] for run in runs) for stage in STAGES}
                evaluations = statistics.median(run["evaluations"] for run in runs)
                yield {
                    "task": task,
                    "method": method,
                    "batch": b,
                    "n": n,
                    "seconds": statistics.median(run["seconds"] for run in runs),
                    "stages": stages,
                    "evaluations": evaluations,
                    "collapsed": float(np.mean([run["fell back"] for run in runs])),
                    "floor": floor_of(problem.d, n, config, evaluations, speed) * b,
                    "speed": speed._asdict(),
                } | machine(place)


def measure_growth(
    grid: Mapping[str, Sequence[int]] = GRID, *, batch: int = 1, repeats: int = 3, device: str = "cpu"
) -> Iterator[Measurement]:
    """Seconds an iteration of the default with one size changed at a time."""
    place = device_of(device)
    for size, values in grid.items():
        for value in values:
            at = BASE | {size: value}
            observed = _observed(batch, at["n"] + repeats, at["d"], place)
            runs = _iterations(observed, DMSConfig(m=at["m"], S=at["S"]), repeats)
            yield {
                "size": size,
                "value": value,
                "batch": batch,
                "seconds": statistics.median(run["seconds"] for run in runs),
                "stages": {stage: statistics.median(run["stages"][stage] for run in runs) for stage in STAGES},
            } | machine(place)


def _observed(b: int, n: int, d: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Sobol points (b x n x d) and outcomes of a function with so many optima that no pseudo-set collapses (b x n)."""
    X = sobol(n, d, torch.Generator().manual_seed(0), (b,)).to(device)
    return X, (9 * X).sin().sum(-1) - (X - 0.3).square().sum(-1)


def _iterations(observed: tuple[torch.Tensor, torch.Tensor], config: DMSConfig, repeats: int) -> list[dict[str, Any]]:
    """Successive iterations on one observation more each; the first, which starts cold, is not counted."""
    (X, Y), runs, state = observed, [], None
    for i in range(repeats + 1):
        n = X.shape[-2] - repeats + i
        began = time.perf_counter()
        out = suggest(X[..., :n, :], Y[..., :n], config, torch.Generator().manual_seed(i), state)
        out.x_next.cpu()
        seconds, state = time.perf_counter() - began, out.state
        fell_back = float(out.fell_back.double().mean())
        evaluations = out.gp.evaluations  # type: ignore[union-attr]
        runs.append({"seconds": seconds, "stages": out.seconds, "evaluations": evaluations, "fell back": fell_back})
    return runs[1:]


def floor_of(d: int, n: int, config: DMSConfig, evaluations: float, speed: Speed) -> float:
    """Seconds that one replication's iteration takes at least, given the evaluations of its GP fit."""
    m, K, S = config.sizes(d)
    P, H = parameter_count(d, config.hidden), config.hidden
    steps = config.epochs * math.ceil(m / config.batch_size)
    conditions = 1 if config.w == 0 else 2
    fit = evaluations * STARTS * (n**3 + 4 * n * n * d) / speed.float64
    refine = (K + 1) * m * (2 * n * n + 4 * n * d) / speed.float64
    train = config.epochs * m * 6 * P / speed.float32
    # AdamW reads and writes θ and two moments and reads the gradient; two layers' activations go there and back.
    traffic = (steps * 7 * P + config.epochs * m * 8 * H) * 4 / speed.memory
    sample = 2 * config.steps * conditions * S * 2 * P / speed.float32
    return fit + refine + max(train, traffic) + sample


def speed_of(device: torch.device, size: int = 4096, repeats: int = 5) -> Speed:
    """Measured on products of square matrices, and on a copy."""
    size = size if device.type == "cuda" else size // 4

    def best(work: Callable[[], object]) -> float:
        return min(clocked(work, device) for _ in range(repeats + 1))  # the first also loads kernels

    single, double = (torch.rand(size, size, dtype=t, device=device) for t in (torch.float32, torch.float64))
    big = torch.zeros(size * size * 4, device=device)
    return Speed(
        2 * size**3 / best(lambda: single @ single),
        2 * size**3 / best(lambda: double @ double),
        2 * 4 * big.numel() / best(big.clone),
    )


def batches_table(measurements: Sequence[Measurement]) -> Table:
    """Seconds an iteration of one replication, alone and in batches, beside the paper's."""
    cells = []
    for m in measurements:
        share = m["seconds"] / m["batch"]
        stages = [f"{m['stages'][stage]:.3f}" for stage in STAGES]
        paper = PAPER_ITERATIONS.get(m["task"], {}).get(m["method"])
        faster = f"{paper / share:.0f}" if paper else ""
        ratio = f"{m['seconds'] / m['floor']:.1f}"
        total, each = f"{m['seconds']:.3f}", f"{share:.4f}"
        cells.append([m["task"], m["method"], where(m), str(m["batch"]), total, each, *stages, ratio, faster])
    header = ["task", "method", "measured on", "batch", "seconds", "a replication", *STAGES, "over floor", "× paper"]
    rows: list[Row] = [{**m, **m["stages"]} for m in measurements]
    for row in rows:
        del row["stages"], row["speed"]
    return Table(header, cells, rows)


def campaign_table(records: Iterable[Record]) -> Table:
    """Minutes that whole campaigns of DMS took on a GPU, beside what the paper's seconds an iteration come to."""
    spent: dict[tuple[str, str], list[float]] = {}  # minutes of each replication
    for record in records:
        if record.status == "complete" and record.device.startswith("cuda"):
            of_method = spent.setdefault((record.task, record.method), [])
            of_method.append(sum(record.iterations) / record.batch / 60)
    cells = []
    for task in tasks_in_order({task for task, _ in spent}):
        for method in in_order([m for t, m in spent if t == task and "[" not in m]):
            minutes, iteration = spent[task, method], PAPER_ITERATIONS.get(task, {}).get(method)
            papers = "" if iteration is None else f"{iteration * problems.get(task).budget * len(minutes) / 60:.1f}"
            cells.append([task, method, str(len(minutes)), f"{sum(minutes):.1f}", papers])
    variants = [sum(minutes) for (_, method), minutes in spent.items() if "[" in method]
    if variants:
        cells.append(["", "variants", "", f"{sum(variants):.1f}", ""])
    cells.append(["all", "", "", f"{sum(map(sum, spent.values())):.1f}", ""])
    return Table(["task", "method", "replications", "minutes", "paper's minutes"], cells)


def exponents(measurements: Sequence[Measurement]) -> dict[str, float]:
    """The slope of log seconds over the log of each size, in the upper half of its values."""
    slopes = {}
    for size in dict.fromkeys(m["size"] for m in measurements):
        points = sorted((m["value"], m["seconds"]) for m in measurements if m["size"] == size)
        upper = np.log(np.array(points[(len(points) - 1) // 2 :]))
        slopes[size] = float(np.polyfit(upper[:, 0], upper[:, 1], 1)[0])
    return slopes


def growth_table(measurements: Sequence[Measurement]) -> Table:
    """The exponents, a line a device and batch."""
    groups: dict[tuple[str, int], list[Measurement]] = {}
    for m in measurements:
        groups.setdefault((where(m), m["batch"]), []).append(m)
    cells, rows = [], list[Row]()
    for (place, batch), group in groups.items():
        slopes = exponents(group)
        cells.append([place, str(batch), *(f"{slopes[size]:.2f}" if size in slopes else "" for size in GRID)])
        rows.append({"measured on": place, "batch": batch, **slopes})
    return Table(["measured on", "batch", *GRID], cells, rows)


def save(path: Path, measurement: Measurement) -> None:
    """Add a measurement, in the place of one of the same thing."""
    add(path, measurement, ("task", "method", "batch", "size", "value", "device", "threads"))
