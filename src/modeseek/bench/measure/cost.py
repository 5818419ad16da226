"""What an iteration of DMS costs: in batches of replications beside its floor, and how it grows with each of its sizes.

The floor of an iteration is the time that a device would need for its arithmetic, or for its traffic with memory where
that is more, at the speeds that it reaches on large matrices in the same run. Only what cannot be left out is counted:
one pass over a tensor for each step that needs it, of L-BFGS one evaluation per step, of the choice of the outcomes'
shape one evaluation for either shape, and of the mean shift one step.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from modeseek.bench.measure.measurements import Measurement, add, machine
from modeseek.bench.measure.seconds import TASKS, clocked, many_optima
from modeseek.bench.tasks import find_task
from modeseek.checks import device_of
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.diffusion.network import parameter_count
from modeseek.dms import STAGES, suggest
from modeseek.fitting import EVIDENCE_SIZE
from modeseek.map_fit import ENOUGH, FEW
from modeseek.surrogate import MANY

BATCHES = (1, 8, 30, 128)
TOGETHER = 128  # replications with which a GPU is bound by arithmetic or memory; alone one is bound by launches
BASE = {"d": 10, "n": 200, "m": 800, "S": 300, "E": 20, "L": 15, "H": 256}
GRID = {
    "d": (2, 5, 10, 20, 50, 100, 200),
    "n": (20, 50, 100, 200, 500, 1000, 2000),
    "m": (100, 200, 400, 800, 1600, 3200, 6400),
    "S": (50, 100, 200, 400, 800, 1600),
    "E": (5, 10, 20, 40, 80, 160, 320),
    "L": (5, 10, 20, 40, 80, 160, 320),
    "H": (32, 64, 128, 256, 512, 1024, 2048),
}
IN_WORDS = ", ".join(f"{size} = {value}" for size, value in BASE.items())
STARTS = 2  # of a GP fit that has a last one to start from


class Speed(NamedTuple):
    """What a device reaches on large matrices."""

    float32: float  # operations per second
    float64: float
    memory: float  # bytes per second


class IterationWork(NamedTuple):
    """What cannot be left out of one replication's iteration, by stage."""

    fit: float  # operations in float64
    pseudo: float  # likewise
    training: float  # operations in float32
    sampling: float  # likewise
    mode: float  # operations in float64
    traffic: float  # bytes of memory that training reads and writes

    @property
    def float32(self) -> float:
        """Operations of the network."""
        return self.training + self.sampling

    @property
    def float64(self) -> float:
        """Operations of the Gaussian process and of the mean shift."""
        return self.fit + self.pseudo + self.mode

    def floors(self, speed: Speed) -> dict[str, float]:
        """The seconds that a device of this speed needs for each stage."""
        training = max(self.training / speed.float32, self.traffic / speed.memory)
        in_float64 = [work / speed.float64 for work in (self.fit, self.pseudo, self.mode)]
        fit, pseudo, mode = in_float64
        return dict(zip(STAGES, (fit, pseudo, training, self.sampling / speed.float32, mode), strict=True))

    def seconds(self, speed: Speed) -> float:
        """The floor of the whole."""
        return sum(self.floors(speed).values())


def measure_batches(
    tasks: Sequence[str] = TASKS,
    batches: Sequence[int] = BATCHES,
    *,
    repeats: int = 3,
    device: str = "cpu",
) -> Iterator[Measurement]:
    """Seconds per iteration of batches of replications, by stage, with the observations of half the budget."""
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
                    "work": work._asdict() | {"float32": work.float32, "float64": work.float64},
                    "floor": work.seconds(speed) * b,
                    "speed": speed._asdict(),
                } | machine(place)


def measure_growth(
    grid: Mapping[str, Sequence[int]] = GRID, *, batch: int = 1, repeats: int = 3, device: str = "cpu"
) -> Iterator[Measurement]:
    """Seconds per iteration of the default with one size changed at a time, the model trained in each."""
    place = device_of(device)
    for size, values in grid.items():
        for value in values:
            at = BASE | {size: value}
            observed = _observed(batch, at["n"] + repeats, at["d"], place)
            config = DMSConfig(m=at["m"], S=at["S"], epochs=at["E"], steps=at["L"], hidden=at["H"], one_hill=0.0)
            runs = _iterations(observed, config, repeats)
            yield {
                "size": size,
                "value": value,
                "batch": batch,
                "seconds": statistics.median(run["seconds"] for run in runs),
                "stages": {stage: statistics.median(run["stages"][stage] for run in runs) for stage in STAGES},
            } | machine(place)


def growth_batches(device: str) -> tuple[int, ...]:
    """Replications side by side with which growth is measured on a device."""
    return (1,) if device.partition(":")[0] == "cpu" else (1, TOGETHER)


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
        evaluations = out.gp.evaluations
        runs.append({"seconds": seconds, "stages": out.seconds, "evaluations": evaluations, "fell back": fell_back})
    return runs[1:]


def work_of(d: int, n: int, config: DMSConfig, evaluations: float) -> IterationWork:
    """The work of one replication's iteration, given the evaluations of its GP fit."""
    m, K, S = config.sizes(d)
    P, H = parameter_count(d, config.hidden), config.hidden
    steps = config.epochs * math.ceil(m / config.batch_size)
    conditions = 1 if config.w == 0 else 2

    def evaluation(n: int) -> float:
        """Of a fit's objective: the inverse of a covariance, and products with the inputs."""
        return n**3 + 4 * n * n * d

    fit = evaluations * (STARTS * evaluation(n) if n <= MANY else evaluation(FEW)) + n**3
    shapes = 2 * evaluation(min(n, EVIDENCE_SIZE)) if config.warp not in ("never", "always") else 0.0
    climbed = min(n, ENOUGH)  # with more observations a sketch is climbed on, whose size is a constant
    return IterationWork(
        fit=fit + shapes,
        pseudo=(K + 1) * m * (2 * climbed * climbed + 4 * climbed * d),
        training=config.epochs * m * 6 * P,
        sampling=2 * config.steps * conditions * S * 2 * P,
        mode=4 * S * S * d,
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


def save(path: Path, measurement: Measurement) -> None:
    """Add a measurement, in the place of one of the same thing."""
    add(path, measurement, ("task", "method", "batch", "size", "value", "device", "threads"))
