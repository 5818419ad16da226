"""How much of the reproduction is there: by part, cells of a task and a method that are full, partly so, or missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from modeseek.bench.campaign.plan import Step
from modeseek.bench.campaign.records import Store
from modeseek.bench.campaign.replication import Work
from modeseek.bench.measure.pieces import Piece


@dataclass
class Part:
    """What there is of a part, by its cells: of how many replications, or measurements, and how many are there."""

    name: str
    cells: dict[tuple[str, str], tuple[int, int]] = field(
        default_factory=dict
    )  # by task, or what stands for it; method

    def add(self, task: str, method: str, there: int, wanted: int) -> None:
        """Some more of a cell."""
        before = self.cells.get((task, method), (0, 0))
        self.cells[task, method] = before[0] + there, before[1] + wanted

    @property
    def full(self) -> int:
        """Cells with all of it."""
        return sum(there == wanted for there, wanted in self.cells.values())

    @property
    def missing(self) -> int:
        """Cells with nothing."""
        return sum(there == 0 for there, _ in self.cells.values())

    @property
    def partly(self) -> int:
        """Cells with some of it."""
        return len(self.cells) - self.full - self.missing

    def which(self) -> str:
        """What is not there: methods, and the tasks of each, with what there is where it is not nothing."""
        lacking: dict[str, list[str]] = {}
        for method in dict.fromkeys(method for _, method in self.cells):
            of = {task: counts for (task, other), counts in self.cells.items() if other == method}
            tasks = [_with_count(task, *counts) for task, counts in of.items() if counts[0] < counts[1]]
            if tasks:
                everywhere = len(of) > 1 and not any(there for there, _ in of.values())
                lacking.setdefault("everywhere" if everywhere else f"on {', '.join(tasks)}", []).append(method)
        return "; ".join(f"{', '.join(f'`{m}`' for m in methods)} {where}" for where, methods in lacking.items())


def _with_count(task: str, there: int, wanted: int) -> str:
    return f"{task} ({there} of {wanted})" if there else task


def parts(store: Store, steps: Sequence[Step]) -> list[Part]:
    """The parts of a list of steps; a cell counts to the first that has it."""
    known = {record.key for record in store if record.status == "complete"}
    rows = {step.file: step.rows(store.folder) for step in steps if isinstance(step, Piece)}
    found: dict[str, Part] = {}
    taken: dict[tuple[str, str], str] = {}
    for step in steps:
        if isinstance(step, Piece):
            where = {"CPU": " on a CPU", None: ""}.get(step.place, " on a GPU")
            part = found.setdefault(step.part + where, Part(step.part + where))
            part.add(step.group, step.what, int(step.is_stored(rows[step.file])), 1)
            continue
        part = found.setdefault(step.part, Part(step.part))
        for task, keys in _keys_by_task(step.works("cpu")):
            if taken.setdefault((task, step.method), step.part) == step.part and (task, step.method) not in part.cells:
                part.add(task, step.method, len(keys & known), len(keys))
    return list(found.values())


def _keys_by_task(works: Iterable[Work]) -> Iterator[tuple[str, set[str]]]:
    by_task: dict[str, set[str]] = {}
    for work in works:
        by_task.setdefault(work.task_name, set()).add(work.key)
    yield from by_task.items()
