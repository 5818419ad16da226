"""The measurements of the reproduction, one by one: which rows of which file each makes, whether they are there, how
long it may take, and making them.

    piece.is_stored(read(path)) or piece.run(results)

A row is found by the same values that its file's `save` replaces rows by. Seconds are a device's own, and are measured
on each; what else is measured is so wherever.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from modeseek.bench.campaign.replication import fixed_threads
from modeseek.bench.measure import cost, distribution, seconds, theory
from modeseek.bench.measure.measurements import Measurement, machine, read
from modeseek.bench.measure.seconds import PAPER_DEVICE, PAPER_ITERATIONS
from modeseek.bench.methods.variants import BASELINES, DEFAULT, PRESET, PRINTED, TOO_EXPENSIVE
from modeseek.bench.tasks import find_task
from modeseek.errors import ModeseekError

Key = tuple[tuple[str, Any], ...]

REPEATS_OF_DRAWS, REPEATS = 5, 3
THREADS = 1
# Rows that lack a value are older than it.
EARLIER_ROWS: dict[str, Measurement] = {
    "theory": {"task": theory.TASK, "method": PRESET, "w": 0.0},
    "distribution": {"task": distribution.TASK, "method": PRESET, "replication": 0},
}
# The paper's seconds of an iteration, as rows; with its acquisition functions as BoTorch optimizes them.
OF_THE_PAPER: list[Measurement] = [
    {"task": task, "method": name if name == PRESET else f"{name}-botorch", "seconds": mean, "device": PAPER_DEVICE}
    for task, methods in PAPER_ITERATIONS.items()
    for name, (mean, _) in methods.items()
]
# How much a row says about the seconds of another, by what both have in common.
LIKENESS = {"method": 8, "task": 5, "device": 4, "S": 1, "size": 1, "value": 1, "batch": 1}


@dataclass(frozen=True)
class Piece:
    """One measurement, which makes one row of a file or a few.

    Args:
        part: of the reproduction, as plans list it.
        file: `results/<file>.json`.
        device: where it runs, as in "cuda".
        place: the device whose rows count: its name, or CPU or GPU for any; None where all are alike.
        keys: what tells its rows apart from others.
        measure: makes the rows and stores them, given the file.
        calls: how often what the seconds of a row are of is called.
        limit: seconds of a call from which one is enough.
        terms: what a row must have to count, which older ones may lack.
    """

    part: str
    file: str
    device: str
    place: str | None
    keys: tuple[Key, ...]
    measure: Callable[[Path], None] = field(compare=False, repr=False)
    calls: int = 1
    limit: float = math.inf
    terms: tuple[str, ...] = ()

    @property
    def task(self) -> str | None:
        """That it is about, if it is about one."""
        task: str | None = self._value("task")
        return task

    @property
    def method(self) -> str | None:
        """Likewise."""
        method: str | None = self._value("method")
        return method

    @property
    def group(self) -> str:
        """What it has in common with its neighbours in a plan, besides part and device."""
        return self.task or f"batch of {self._value('batch')}"

    @property
    def what(self) -> str:
        """What it is about in its group."""
        return self.method or f"{self._value('size')}"

    @property
    def name(self) -> str:
        """In words."""
        settings = [f"{k} = {v}" for k, v in self.keys[0] if k not in ("task", "method", "size", "batch")]
        return f"{self.part}: {', '.join([self.group, self.what, *settings])} ({self.device})"

    @property
    def key(self) -> str:
        """What tells it apart from other pieces, and from replications."""
        return json.dumps([self.file, self.place, self.keys])

    def _value(self, name: str) -> Any:
        return dict(self.keys[0]).get(name)

    def rows(self, results: Path) -> list[Measurement]:
        """What its file has."""
        return read(results / f"{self.file}.json")

    def is_stored(self, rows: Iterable[Measurement]) -> bool:
        """Whether all of its rows are among these."""
        here = [row for row in rows if (self.place is None or self._is_here(row)) and all(t in row for t in self.terms)]
        known = [EARLIER_ROWS.get(self.file, {}) | row for row in here]
        return all(any(all(row.get(k) == v for k, v in key) for row in known) for key in self.keys)

    def _is_here(self, row: Measurement) -> bool:
        device, threads = str(row.get("device")), row.get("threads")
        kind = "CPU" if device.startswith("CPU") else "GPU"
        return threads == THREADS and self.place in (kind, device)

    def expected(self, rows: Sequence[Measurement]) -> float:
        """The seconds that it may take, by the rows that are most alike; NaN where none tells."""
        on_cpu = self.device == "cpu"

        def likeness(row: Measurement) -> int:
            same = {k for k, v in self.keys[0] if row.get(k) == v}
            if str(row.get("device")).startswith("CPU") == on_cpu:
                same.add("device")
            return sum(LIKENESS.get(name, 0) for name in same)

        of_paper = OF_THE_PAPER if self.file == "seconds" else []
        timed = [(likeness(row), _mean(row["seconds"])) for row in [*rows, *of_paper] if row.get("seconds")]
        best = max((like for like, _ in timed), default=0)  # of the method elsewhere before others' here
        if best == 0:
            return math.nan
        call = statistics.mean(taken for like, taken in timed if like == best)
        return call if call > self.limit else call * self.calls

    def run(self, results: Path) -> None:
        """Make its rows; ModeseekError where that gave none."""
        with fixed_threads(THREADS):
            self.measure(results / f"{self.file}.json")
        if not self.is_stored(self.rows(results)):
            raise ModeseekError("nothing was measured; the warnings say why")


def _mean(taken: float | list[float]) -> float:
    return statistics.mean(taken) if isinstance(taken, list) else taken


def pieces(device: str, *, whichever: bool = False) -> list[Piece]:
    """All measurements with seconds of this device, and those that are the same on any.

    Args:
        device: as in "cuda"; where it is not there, as in a plan that is made elsewhere, any of its kind will do.
        whichever: any of its kind will do.
    """
    return [*timed_pieces(device, whichever=whichever), *_of_distributions(), *_of_theory(device)]


def timed_pieces(device: str, *, whichever: bool = False) -> list[Piece]:
    """The measurements of seconds alone: the paper's Tables 3 and 4, and how the seconds grow."""
    place = _place(device, whichever)
    return [*_of_draws(device, place), *_of_iterations(device, place), *_of_growth(device, place)]


def _place(device: str, whichever: bool) -> str:
    if device.partition(":")[0] == "cpu":
        return "CPU"
    return str(machine(torch.device(device))["device"]) if torch.cuda.is_available() and not whichever else "GPU"


def _key(**values: Any) -> Key:
    return tuple(values.items())


def _save_all(save: Callable[[Path, Any], None], measured: Callable[[], Iterable[Any]], path: Path) -> None:
    for measurement in measured():
        save(path, measurement)


def _of_draws(device: str, place: str) -> Iterator[Piece]:
    for task in seconds.DRAW_TASKS:
        for S in seconds.DRAW_SIZES:
            for method, names in seconds.DRAWN.items():
                keys = tuple(_key(task=task, method=name, S=S) for name in names)
                measured = partial(
                    seconds.measure_draws, [task], [S], [method], repeats=REPEATS_OF_DRAWS, device=device
                )
                measure = partial(_save_all, seconds.save, measured)
                yield Piece("Table 3", "draws", device, place, keys, measure, REPEATS_OF_DRAWS + 1)


def _of_iterations(device: str, place: str) -> Iterator[Piece]:
    for task in seconds.TASKS:
        left_out = TOO_EXPENSIVE.get(find_task(task).d, ())
        baselines = [name for name in BASELINES if name not in left_out]
        for method in (PRINTED, PRESET, DEFAULT, *baselines, *(f"{name}-botorch" for name in baselines)):
            measured = partial(seconds.measure_iterations, [task], [method], repeats=REPEATS, device=device)
            measure = partial(_save_all, seconds.save, measured)
            keys = (_key(task=task, method=method),)
            yield Piece("Table 4", "seconds", device, place, keys, measure, REPEATS + 1, seconds.LIMIT)


def _of_growth(device: str, place: str) -> Iterator[Piece]:
    for batch in cost.growth_batches(device):
        for size, values in cost.GRID.items():
            for value in values:
                measured = partial(cost.measure_growth, {size: (value,)}, batch=batch, repeats=REPEATS, device=device)
                measure = partial(_save_all, cost.save, measured)
                keys = (_key(size=size, value=value, batch=batch),)
                yield Piece("growth", "growth", device, place, keys, measure, REPEATS + 1)


def _of_distributions() -> Iterator[Piece]:
    """They are drawn on a CPU."""
    for method in distribution.METHODS:
        for replication in range(distribution.REPLICATIONS):
            each = ({"method": method, "replication": replication, "iteration": i} for i in distribution.ITERATIONS)
            keys = tuple(_key(task=distribution.TASK, **of) for of in each)
            measured = partial(distribution.take_samples, method=method, replication=replication)
            measure = partial(_save_all, distribution.save, measured)
            yield Piece("distribution", "distribution", "cpu", None, keys, measure)


def _of_theory(device: str) -> Iterator[Piece]:
    for task, method in product(theory.TASKS, theory.METHODS):
        for settings in theory.planned():
            keys = (_key(task=task, method=method, **settings),)
            measure = partial(_measure_theory, task, method, settings, device)
            yield Piece("theory", "theory", device, None, keys, measure, terms=theory.TERMS)


def _measure_theory(task: str, method: str, settings: dict[str, Any], device: str, path: Path) -> None:
    theory.save(path, theory.measure(task, **settings, method=method, device=device), task, device)
