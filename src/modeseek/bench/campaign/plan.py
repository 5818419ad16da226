"""A list of cells and measurements: what is missing of it, how long that may take, and running it.

Methods that run side by side do so on a GPU; everything else runs in local processes. What is stored is never run
again, so that the order and a stop at any moment lose nothing, and several commands may share a folder.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch

from modeseek.bench.campaign.campaign import Engine, run_campaign
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.replication import Work, parse_method
from modeseek.bench.measure.measurements import Measurement
from modeseek.bench.measure.pieces import Piece
from modeseek.bench.methods import side_by_side_names
from modeseek.bench.tasks import find_task
from modeseek.errors import ModeseekError
from modeseek.execution.progress import progress_bar

MOST_NAMED = 7  # tasks, methods or sizes in one line


@dataclass(frozen=True)
class Cell:
    """Replications that run together: of one method, on tasks that can share tensors."""

    part: str
    tasks: tuple[str, ...]
    method: str
    replications: int | None = None  # of each task; None: the paper's number

    def works(self, device: str) -> list[Work]:
        """The replications."""
        counts = {task: self.replications or find_task(task).replications for task in self.tasks}
        return [Work(task, self.method, r, device) for task, count in counts.items() for r in range(count)]

    @property
    def tasks_in_words(self) -> str:
        """Their names, or how many they are."""
        return in_words(self.tasks, "tasks")

    def engine(self, device: str) -> Engine:
        """How it runs: training a network is work for processes, whatever chooses its settings."""
        side_by_side = parse_method(self.method)[0] in side_by_side_names()
        return "batch" if device != "cpu" and side_by_side and not trains_networks(self.tasks[0]) else "local"

    def runs_on(self, device: str) -> str:
        """The device that it runs on, where this one is asked for."""
        return device if self.engine(device) == "batch" else "cpu"


def trains_networks(task: str) -> bool:
    """Whether an evaluation trains a network, in seconds of a CPU."""
    return "sklearn" in find_task(task).requires


def in_words(names: Iterable[str], kind: str) -> str:
    """Names, or how many they are."""
    each = list(dict.fromkeys(names))
    return (
        ("; " if any("," in name for name in each) else ", ").join(each)
        if len(each) <= MOST_NAMED
        else f"{len(each)} {kind}"
    )


Step: TypeAlias = Cell | Piece


class Left(NamedTuple):
    """How long something takes."""

    seconds: float  # of what something is known of
    unknown: int = 0  # replications and measurements that nothing is known of

    def __str__(self) -> str:
        if self.unknown and not self.seconds:
            return "an unknown time"
        return duration(self.seconds) + (f" and {self.unknown} of unknown time" if self.unknown else "")


@dataclass
class Plan:
    """The steps with what is missing of each, and what is known of the seconds that they take."""

    missing: dict[Step, int]  # replications of a cell; a measurement is one
    device: str = "cpu"
    workers: int = 1
    # Per replication, by task, method and kind of device; of suggestions alone.
    seconds: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    rows: dict[str, list[Measurement]] = field(default_factory=dict)  # of each file of measurements
    made: int = 0  # measurements by this command
    failures: list[str] = field(default_factory=list)  # measurements that it could not make

    @classmethod
    def of(cls, store: Store, device: str, only: Sequence[Step], workers: int = 1) -> Plan:
        """What a store, and the files of measurements beside it, leave to be run, in the order given."""
        records = [record for record in store if record.status == "complete"]
        known = {record.key for record in records}
        plan = cls({}, device, workers)
        for step in only:
            if isinstance(step, Piece):
                plan.rows.setdefault(step.file, step.rows(store.folder))
                count = int(not step.is_stored(plan.rows[step.file]))
            else:  # a replication counts to the first that has it
                keys = {work.key for work in step.works(device)} - known
                count = len(keys)
                known |= keys
            if count:
                plan.missing[step] = count
        plan.learn(records)
        return plan

    @property
    def replications(self) -> int:
        """How many are missing."""
        return sum(count for step, count in self.missing.items() if isinstance(step, Cell))

    @property
    def measurements(self) -> int:
        """How many are missing."""
        return sum(isinstance(step, Piece) for step in self.missing)

    def learn(self, records: Iterable[Record]) -> None:
        """Take their seconds into account."""
        for record in records:
            at = record.task, record.method, _kind(record.device)
            self.seconds.setdefault(at, []).append(sum(record.iterations) / record.batch)

    def per_replication(self, cell: Cell) -> float:
        """What is expected of a cell, evaluations included; NaN where nothing is known.

        Suggestions take as long as in its records, else as its method's elsewhere, as others' on its tasks, as all, on
        the device that it runs on. Methods differ by more than tasks do: from a thousandth of a second a suggestion to
        several seconds.
        """
        kind = _kind(cell.runs_on(self.device))
        here = {(task, method): seconds for (task, method, on), seconds in self.seconds.items() if on == kind}
        of_cell = [s for task in cell.tasks for s in here.get((task, cell.method), [])]
        of_method = [s for (_, method), seconds in here.items() if method == cell.method for s in seconds]
        of_tasks = [s for (task, _), seconds in here.items() if task in cell.tasks for s in seconds]
        everything = [s for seconds in here.values() for s in seconds]
        suggestions = statistics.mean(of_cell or of_method or of_tasks or everything or [math.nan])
        problems = [find_task(task) for task in cell.tasks]
        return suggestions + statistics.mean((p.n_initial + p.budget) * p.seconds for p in problems)

    def expected(self, step: Step) -> Left:
        """What is missing of a step."""
        count = self.missing[step]
        if isinstance(step, Piece):
            seconds = step.expected(self.rows.get(step.file, []))
        else:
            at_once = min(self.workers, count) if step.engine(self.device) == "local" else 1
            seconds = count * self.per_replication(step) / at_once
        return Left(0.0, count) if math.isnan(seconds) else Left(seconds)

    def left(self) -> Left:
        """All that is missing."""
        return _sum(self.expected(step) for step in self.missing)

    def lines(self) -> list[str]:
        """What is missing, in words: a line for each cell, and for measurements that have task and device in common."""
        groups: dict[tuple[str, ...], list[Step]] = {}
        for step in self.missing:
            of = (step.part, step.group, step.device) if isinstance(step, Piece) else (str(len(groups)), "cell")
            groups.setdefault(of, []).append(step)
        return [self._line(steps) for steps in groups.values()]

    def _line(self, steps: Sequence[Step]) -> str:
        first, time_left = steps[0], _sum(map(self.expected, steps))
        if isinstance(first, Cell):
            what = f"{first.part}: {first.tasks_in_words}, {first.method}: {self.missing[first]} replications"
        else:
            kind = "sizes" if first.method is None else "methods"
            each = in_words((step.what for step in steps if isinstance(step, Piece)), kind)
            what = f"{first.part} on {first.device}: {first.group}, {each}: {_count(len(steps), 'measurement')}"
        return f"{what}, {time_left}"

    def total(self) -> str:
        """What is missing in all, in words."""
        measurements = f" and {_count(self.measurements, 'measurement')}" if self.measurements else ""
        return f"{self.replications} replications{measurements} are missing, {self.left()}"


def _kind(device: str) -> str:
    """Cuda or cpu."""
    return device.partition(":")[0]


def _sum(of: Iterable[Left]) -> Left:
    each = list(of)
    return Left(sum(left.seconds for left in each), sum(left.unknown for left in each))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def run_missing(store: Store, plan: Plan, *, seconds: float | None = None) -> Iterator[Record]:
    """Run what is missing, step by step, with a bar over all of it; none begins after so many seconds.

    A measurement that cannot be made is left out, and said in `plan.failures`.
    """
    began = time.monotonic()
    unit = "step" if plan.measurements else "rep"
    with progress_bar(sum(plan.missing.values()), unit=unit) as bar:
        for step, count in list(plan.missing.items()):
            if seconds is not None and time.monotonic() - began > seconds:
                return
            about = step.name if isinstance(step, Piece) else f"{step.part}: {step.tasks_in_words}, {step.method}"
            bar.set_postfix_str(f"{about}; {plan.left()} left")
            if isinstance(step, Piece):
                _measure(step, store, plan)
            else:
                records = _run(step, store, plan)
                yield from records
                plan.learn(records)
            del plan.missing[step]
            bar.update(count)


def _run(cell: Cell, store: Store, plan: Plan) -> list[Record]:
    return run_campaign(
        cell.tasks,
        [cell.method],
        store,
        reps=cell.replications,
        engine=cell.engine(plan.device),
        workers=plan.workers,
        device=cell.runs_on(plan.device),
        progress=False,
    )


def _measure(piece: Piece, store: Store, plan: Plan) -> None:
    """Make a measurement, unless another command has it, or has made it since."""
    with store.claims() as claims:
        if not claims.take(piece.key):
            return
        if not piece.is_stored(piece.rows(store.folder)):
            try:
                piece.run(store.folder)
                plan.made += 1
            except (ModeseekError, torch.cuda.OutOfMemoryError) as error:
                plan.failures.append(f"{piece.name}: {error}")
    plan.rows[piece.file] = piece.rows(store.folder)


def duration(seconds: float) -> str:
    """Hours and minutes, or seconds, for people."""
    if seconds < 59.5:
        return f"{math.ceil(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
