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

from modeseek.bench.campaign.records import Record
from modeseek.bench.measure.measurements import Measurement, add, machine, where
from modeseek.bench.measure.seconds import PAPER_ITERATIONS, TASKS, clocked, many_optima
from modeseek.bench.report.tables import Row, Table, in_order, tasks_in_order
from modeseek.bench.tasks import find_task
from modeseek.checks import device_of
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.diffusion.network import parameter_count
from modeseek.dms import STAGES, suggest

BATCHES = (1, 8, 30, 128)
BASE = {"d": 10, "n": 200, "m": 800, "S": 300}
GRID = {
    "d": (2, 5, 10, 20, 50, 100, 200),
    "n": (20, 50, 100, 200, 500, 1000, 2000),
    "m": (100, 200, 400, 800, 1600, 3200, 6400),
    "S": (50, 100, 200, 400, 800, 1600),
}
MIN_POINTS = 3  # of a slope
STARTS = 2  # of a GP fit that has a last one to start from


class Speed(NamedTuple):
    """What a device reaches on large matrices."""

    float32: float  # operations a second
    float64: float
    memory: float  # bytes a second


class IterationWork(NamedTuple):
    """What cannot be left out of one replication's iteration."""

    float64: float  # operations of the Gaussian process
    training: float  # operations in float32
    sampling: float  # likewise
    traffic: float  # bytes of memory that training reads and writes

    @property
    def float32(self) -> float:
        """Operations of the network."""
        return self.training + self.sampling

    def seconds(self, speed: Speed) -> float:
        """The floor: the time that a device of this speed needs for it."""
        training = max(self.training / speed.float32, self.traffic / speed.memory)
        return self.float64 / speed.float64 + training + self.sampling / speed.float32


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
        problem = find_task(task)
        for method, config in (("dms-paper", problem.config()), ("dms", DMSConfig())):
            for b in batches:
                n = problem.n_initial + problem.budget // 2
                runs = _iterations(_observed(b, n + repeats, problem.d, place), config, repeats)
                stages = {stage: statistics.median(run["stages"][stage] for run in runs) for stage in STAGES}
                evaluations = statistics.median(run["evaluations"] for run in runs)
                work = work_of(problem.d, n, config, evaluations)
                yield {
                    "task": task,
                    "method": method,
                    "batch": b,
                    "n": n,
                    "seconds": statistics.median(run["seconds"] for run in runs),
                    "stages": stages,
                    "evaluations": evaluations,
                    "collapsed": float(np.mean([run["fell back"] for run in runs])),
                    "work": work._asdict(),
                    "floor": work.seconds(speed) * b,
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
    """Sobol points (b x n x d) and their outcomes (b x n)."""
    X = sobol(n, d, torch.Generator().manual_seed(0), (b,)).to(device)
    return X, many_optima(X)


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


def work_of(d: int, n: int, config: DMSConfig, evaluations: float) -> IterationWork:
    """The work of one replication's iteration, given the evaluations of its GP fit; without the choice of a warp."""
    m, K, S = config.sizes(d)
    P, H = parameter_count(d, config.hidden), config.hidden
    steps = config.epochs * math.ceil(m / config.batch_size)
    conditions = 1 if config.w == 0 else 2
    fit = evaluations * STARTS * (n**3 + 4 * n * n * d)
    refine = (K + 1) * m * (2 * n * n + 4 * n * d)
    return IterationWork(
        float64=fit + refine,
        training=config.epochs * m * 6 * P,
        sampling=2 * config.steps * conditions * S * 2 * P,
        # AdamW reads and writes θ and two moments and reads the gradient; two layers' activations go there and back.
        traffic=(steps * 7 * P + config.epochs * m * 8 * H) * 4,
    )


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
    """Seconds an iteration of one replication, alone and in batches, beside its work, its floor and the paper's."""
    cells, rows = [], list[Row]()
    for m in measurements:
        share = m["seconds"] / m["batch"]
        stages = [f"{m['stages'][stage]:.3f}" for stage in STAGES]
        paper = PAPER_ITERATIONS.get(m["task"], {}).get(m["method"])
        faster = f"{paper / share:.0f}" if paper else ""
        work = IterationWork(**m["work"])
        flops, traffic = _giga(work.float32, work.float64), _giga(work.traffic)
        floor = f"{m['seconds'] / m['floor']:.1f} × {m['floor']:.2g}"
        total, each = f"{m['seconds']:.3f}", f"{share:.4f}"
        place = [m["task"], m["method"], where(m), str(m["batch"])]
        cells.append([*place, total, each, *stages, flops, traffic, floor, faster])
        plain = {name: value for name, value in m.items() if name not in ("stages", "speed", "work")}
        rows.append(
            plain
            | m["stages"]
            | {
                "GFLOP in float32": work.float32 / 1e9,
                "GFLOP in float64": work.float64 / 1e9,
                "GB": work.traffic / 1e9,
            }
        )
    header = ["task", "method", "measured on", "batch", "seconds", "a replication", *STAGES]
    return Table([*header, "GFLOP", "GB", "over floor", "× paper"], cells, rows)


def _giga(*amounts: float) -> str:
    return " + ".join(f"{amount / 1e9:.3g}" for amount in amounts)


def campaign_table(records: Iterable[Record]) -> Table:
    """Minutes that whole campaigns of DMS took on a GPU, beside what the paper's seconds an iteration come to.

    At the end the sums of the lines where the paper has a number, and of all. No lines where none ran there.
    """
    spent: dict[tuple[str, str], list[float]] = {}  # minutes of each replication
    for record in records:
        if record.status == "complete" and record.config is not None and record.device.startswith("cuda"):
            of_method = spent.setdefault((record.task, record.method), [])
            of_method.append(sum(record.iterations) / record.batch / 60)
    cells, ours, of_paper = [], list[float](), list[float]()
    for task in tasks_in_order({task for task, _ in spent}):
        for method in in_order([m for t, m in spent if t == task and "[" not in m]):
            minutes, iteration = spent[task, method], PAPER_ITERATIONS.get(task, {}).get(method)
            if iteration is not None:
                ours.append(sum(minutes))
                of_paper.append(iteration * find_task(task).budget * len(minutes) / 60)
            papers = "" if iteration is None else f"{of_paper[-1]:.1f}"
            cells.append([task, method, str(len(minutes)), f"{sum(minutes):.1f}", papers])
    variants = [sum(minutes) for (_, method), minutes in spent.items() if "[" in method]
    if variants:
        cells.append(["", "variants", "", f"{sum(variants):.1f}", ""])
    if spent:
        if of_paper:
            cells.append(["all that the paper timed", "", "", f"{sum(ours):.1f}", f"{sum(of_paper):.1f}"])
        cells.append(["all", "", "", f"{sum(map(sum, spent.values())):.1f}", ""])
    return Table(["task", "method", "replications", "minutes", "paper's minutes"], cells)


def exponents(measurements: Sequence[Measurement]) -> dict[str, float]:
    """The slope of log seconds over the log of each size, in the upper half of its values, of three at least.

    Sizes with fewer values have none.
    """
    slopes = {}
    for size in dict.fromkeys(m["size"] for m in measurements):
        points = sorted((m["value"], m["seconds"]) for m in measurements if m["size"] == size)
        if len(points) < MIN_POINTS:
            continue
        upper = np.log(np.array(points[min((len(points) - 1) // 2, len(points) - MIN_POINTS) :]))
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
        rows.append({"measured on": place, "batch": batch, **{size: slopes.get(size, "") for size in GRID}})
    return Table(["measured on", "batch", *GRID], cells, rows)


def save(path: Path, measurement: Measurement) -> None:
    """Add a measurement, in the place of one of the same thing."""
    add(path, measurement, ("task", "method", "batch", "size", "value", "device", "threads"))
