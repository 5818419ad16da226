"""All campaigns of the reproduction in one order: what is missing of them, how long that takes, and running it.

Baselines and the paper's own presets come first and our default last, since that is what may still change. Methods that
run side by side do so on a GPU; everything else runs in local processes. What is stored is never run again, so that the
order of parts and a stop at any moment lose nothing, and several commands may share a folder.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from modeseek.bench.campaign.campaign import Engine, run_campaign
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.replication import Work, parse_method
from modeseek.bench.methods import side_by_side_names, variants
from modeseek.bench.tasks import find_task, task_names
from modeseek.execution.progress import progress_bar

BASELINES = ("ucb", "pi", "ei", "ts", "gibbon", "jes", "pes")  # the paper's
# On tasks that train networks, where a replication is a process of its own: BoTorch's, whose records were there first,
# but for those that take it minutes per iteration.
BASELINES_ALONE = ("ucb-botorch", "pi-botorch", "ei-botorch", "ts-botorch", "gibbon-botorch", "jes", "pes")
MOST_NAMED = 6  # tasks in one line
TOO_EXPENSIVE = {20: ("pes",), 50: ("pes", "jes")}  # left out by the paper, by the number of dimensions
OF_THE_PAPER, OURS = (variants.PRESET, variants.PRINTED), variants.DEFAULT


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
        return ", ".join(self.tasks) if len(self.tasks) <= MOST_NAMED else f"{len(self.tasks)} tasks"

    def engine(self, device: str) -> Engine:
        """How it runs: training a network is work for processes, whatever chooses its settings."""
        side_by_side = parse_method(self.method)[0] in side_by_side_names()
        return "batch" if device != "cpu" and side_by_side and not trains_networks(self.tasks[0]) else "local"


def trains_networks(task: str) -> bool:
    """Whether an evaluation trains a network, in seconds of a CPU."""
    return "sklearn" in find_task(task).requires


def cells() -> list[Cell]:
    """Figures 1 and 2, the way from the text to the default, and the ablations, in the order in which they run."""
    by_size = _by_size(task_names())
    of_figure_1 = [tasks for tasks in by_size if find_task(tasks[0]).values is not None]
    of_figure_2 = [tasks for tasks in by_size if tasks not in of_figure_1]
    listed: list[Cell] = []

    def add(part: str, groups: Iterable[tuple[str, ...]], methods: Sequence[str]) -> None:
        for tasks in groups:
            left_out = TOO_EXPENSIVE.get(find_task(tasks[0]).d, ())
            listed.extend(Cell(part, tasks, method) for method in methods if method not in left_out)

    add("Figure 1", of_figure_1, [*BASELINES, *OF_THE_PAPER])
    for task in variants.DEPARTURE_TASKS:
        add("departures", [(task,)], [m for m in variants.departures(task) if m.startswith(variants.PRINTED)])
    for task in variants.ABLATION_TASKS:
        add("ablations", [(task,)], variants.ablations(task))
    for tasks in of_figure_2:
        baselines = BASELINES_ALONE if trains_networks(tasks[0]) else BASELINES
        add("Figure 2", [tasks], [*OF_THE_PAPER, *baselines])
    add("default", by_size, [OURS])
    for task in variants.DEPARTURE_TASKS:
        add("departures", [(task,)], list(variants.departures(task)))
    return list(dict.fromkeys(listed))


def _by_size(tasks: Iterable[str]) -> list[tuple[str, ...]]:
    """Tasks that can share tensors together, the others alone, few dimensions first."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for task in tasks:
        problem = find_task(task)
        alone = () if problem.values is not None else (task,)
        groups.setdefault((problem.d, problem.n_initial, problem.budget, *alone), []).append(task)
    return [tuple(groups[size]) for size in sorted(groups, key=lambda size: (len(size), size[0]))]


@dataclass
class Plan:
    """The cells with missing replications, and what is known of the seconds that a replication's suggestions take."""

    missing: dict[Cell, int]
    seconds: dict[tuple[str, str], list[float]]  # per replication, by task and method

    @classmethod
    def of(cls, store: Store, device: str, only: Sequence[Cell]) -> Plan:
        """What a store leaves to be run, in its order."""
        records = [record for record in store if record.status == "complete"]
        known = {record.key for record in records}
        missing = {}
        for cell in only:  # a replication counts to the first that has it
            keys = {work.key for work in cell.works(device)} - known
            missing[cell] = len(keys)
            known |= keys
        plan = cls({cell: count for cell, count in missing.items() if count}, {})
        plan.learn(record for record in records if record.device == device)
        return plan

    def learn(self, records: Iterable[Record]) -> None:
        """Take their seconds into account."""
        for record in records:
            self.seconds.setdefault((record.task, record.method), []).append(sum(record.iterations) / record.batch)

    def per_replication(self, cell: Cell) -> float:
        """What is expected of a cell: as its records, else as its method elsewhere, as others on its tasks, as all.

        Methods differ by more than tasks do: from a thousandth of a second a suggestion to several seconds.
        """
        of_cell = [s for task in cell.tasks for s in self.seconds.get((task, cell.method), [])]
        of_method = [s for (_, method), seconds in self.seconds.items() if method == cell.method for s in seconds]
        of_tasks = [s for (task, _), seconds in self.seconds.items() if task in cell.tasks for s in seconds]
        everything = [s for seconds in self.seconds.values() for s in seconds]
        return statistics.mean(of_cell or of_method or of_tasks or everything or [float("nan")])

    def left(self) -> float:
        """Seconds until all is done; NaN where nothing is known."""
        return sum(count * self.per_replication(cell) for cell, count in self.missing.items())


def run_missing(
    store: Store, plan: Plan, *, device: str, workers: int, seconds: float | None = None
) -> Iterator[Record]:
    """Run what is missing, cell by cell, with a bar over all replications; no new cell begins after so many seconds."""
    began = time.monotonic()
    with progress_bar(sum(plan.missing.values()), unit="rep") as bar:
        for cell, count in list(plan.missing.items()):
            if seconds is not None and time.monotonic() - began > seconds:
                return
            bar.set_postfix_str(f"{cell.part}: {cell.tasks_in_words}, {cell.method}; {duration(plan.left())} left")
            engine = cell.engine(device)
            on = device if engine == "batch" else "cpu"
            records = run_campaign(
                cell.tasks,
                [cell.method],
                store,
                reps=cell.replications,
                engine=engine,
                workers=workers,
                device=on,
                progress=False,
            )
            yield from records
            plan.learn(records)
            del plan.missing[cell]
            bar.update(count)


def duration(seconds: float) -> str:
    """Hours and minutes, for people."""
    if seconds != seconds:
        return "an unknown time"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
