"""The scoreboard's numbers: methods on public suites, by what COCO's users know.

A problem is a task of a suite from one initial design: a function, its instance and dimension, and a replication. All
methods start from the same design on it.

| | |
|---|---|
| `final` | N x k: final simple regret of each method on each problem; NaN where it was not run |
| `reached` | N x k x 51: evaluations over d until regret is at most a target; infinite where it never is |
| `seconds` | N x k: mean seconds per suggestion |

COCO's targets are 10^2, 10^1.8, ..., 10^-8 above the best value. Regret under the last one is zero to all intents, and
methods that get there are level.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from modeseek.bench.campaign.records import DIGITS, Record
from modeseek.bench.methods import EARLIER
from modeseek.bench.report.curves import LEVEL, Verdict, gather, in_order, signed_rank_test
from modeseek.bench.report.ranking import Ranking, rank
from modeseek.bench.tasks import find_task, suites
from modeseek.typing import Array

TARGETS = 10.0 ** np.linspace(2, -8, 51)
COVERAGE = 0.2  # share of the problems of each suite and dimension that a method must have to be ranked
NEARLY_ALL = 0.8  # the same, of a ranking on more problems among fewer methods
MIN_SHARED = 5  # problems of a function: five of five in one direction have p = 1/16, which counts here
OPPOSITE: dict[Verdict, Verdict] = {"better": "worse", "level": "level", "worse": "better"}

TITLES = {"bbob": "COCO bbob", "bbob-mixint": "COCO bbob-mixint", "hpo": "HPO tables", "discrete": "discrete"}


class Place(NamedTuple):
    """Where a problem stands."""

    suite: str  # whatever the dimension
    function: str
    d: int


def place_of(task: str) -> Place | None:
    """The suite, function and dimension of a task; None where it is not of the scoreboard."""
    return _places().get(task)


@cache
def _places() -> dict[str, Place]:
    found = {}
    for name, tasks in suites().items():
        of_dimension = re.fullmatch(r"(.+)-d(\d+)", name)
        for task in tasks:
            if of_dimension:
                found[task] = Place(of_dimension[1], task.split("-")[1], int(of_dimension[2]))
            else:
                found[task] = Place(name, task, find_task(task).d)
    return found


class Beside(NamedTuple):
    """One method beside another."""

    better: int  # functions, each dimension by itself
    level: int
    worse: int
    verdict: Verdict | None  # of all of them together, by Wilcoxon's signed-rank test; None: too few


@dataclass(frozen=True)
class Board:
    """Methods on problems; see the table above."""

    methods: tuple[str, ...]
    places: tuple[Place, ...]
    final: Array
    reached: Array
    seconds: Array
    devices: dict[str, str]  # by method: what its suggestions ran on

    def select(self, suite: str | None = None, d: int | None = None, function: str | None = None) -> Board:
        """Some of the problems, and the methods that were run on any of them; made once, since tables share it."""
        wanted = suite, d, function
        if wanted not in self._selected:
            self._selected[wanted] = self._select([i for i, place in enumerate(self.places) if _is(place, *wanted)])
        return self._selected[wanted]

    @cached_property
    def _selected(self) -> dict[tuple[str | None, int | None, str | None], Board]:
        return {}

    def _select(self, rows: list[int]) -> Board:
        columns = [j for j in range(len(self.methods)) if np.isfinite(self.final[rows, j]).any()]
        return Board(
            methods=tuple(self.methods[j] for j in columns),
            places=tuple(self.places[i] for i in rows),
            final=self.final[np.ix_(rows, columns)],
            reached=self.reached[np.ix_(rows, columns)],
            seconds=self.seconds[np.ix_(rows, columns)],
            devices=self.devices,
        )

    @property
    def functions(self) -> list[tuple[str, str]]:
        """Suite and function, in the order of the suites."""
        return sorted({(p.suite, p.function) for p in self.places}, key=lambda f: (self.suites.index(f[0]), f[1]))

    @property
    def suites(self) -> list[str]:
        """Their names, in their order."""
        present = {p.suite for p in self.places}
        return [name for name in dict.fromkeys(place.suite for place in _places().values()) if name in present]

    @property
    def selections(self) -> list[tuple[str, int | None]]:
        """Suites and dimensions; a suite of several dimensions also as a whole, with None, if methods compare there."""
        found: list[tuple[str, int | None]] = []
        for suite in self.suites:
            ds = sorted({p.d for p in self.places if p.suite == suite})
            compare = len(ds) > 1 and len(self.select(suite).ranked()) > 1
            found += [*((suite, d) for d in ds), *([(suite, None)] if compare else [])]
        return found

    def count(self, method: str) -> int:
        """The problems that a method has."""
        return int(np.isfinite(self.final[:, self.methods.index(method)]).sum())

    def ranked(self, coverage: float = COVERAGE) -> list[str]:
        """The methods that have at least this share of the problems of every suite and dimension here."""
        cells = {(p.suite, p.d) for p in self.places}
        of = {cell: [i for i, p in enumerate(self.places) if (p.suite, p.d) == cell] for cell in cells}
        has = np.isfinite(self.final)
        least = {cell: coverage * len(rows) - 1e-9 for cell, rows in of.items()}
        return [
            method
            for j, method in enumerate(self.methods)
            if all(has[rows, j].sum() >= least[cell] for cell, rows in of.items())
        ]

    def ranking(self, coverage: float = COVERAGE) -> Ranking:
        """These methods on the problems that all of them have."""
        methods = self.ranked(coverage)
        losses = self.final[:, [self.methods.index(m) for m in methods]]
        return rank(methods, losses[np.isfinite(losses).all(axis=1)])

    def solved(self, method: str, evaluations: float | Array = np.inf) -> Array:
        """The share of a method's pairs of problem and target that are solved within so many evaluations over d (ECDF).

        Of the problems that it has. Without `evaluations` those that are solved at the end.
        """
        j = self.methods.index(method)
        times = np.sort(self.reached[np.isfinite(self.final[:, j]), j].ravel())
        within = np.searchsorted(times[np.isfinite(times)], np.asarray(evaluations), side="right")
        return np.asarray(within / len(times))

    def median_seconds(self, method: str) -> float:
        """Per suggestion, over problems."""
        return float(np.nanmedian(self.seconds[:, self.methods.index(method)]))

    @cached_property
    def rivals(self) -> dict[str, list[tuple[str, Verdict]]]:
        """By method: the others with enough problems in common, the best first, and how the method does beside each.

        The best has the lowest mean of log regret on the problems in common.
        """
        found: dict[str, list[tuple[float, str, Verdict]]] = {method: [] for method in self.methods}
        logs = np.log10(self.final)
        for (i, a), (j, b) in combinations(enumerate(self.methods), 2):
            differences = logs[:, i] - logs[:, j]
            differences = differences[np.isfinite(differences)]
            if len(differences) >= MIN_SHARED:
                mean, verdict = float(differences.mean()), judge(differences)
                found[a].append((-mean, b, verdict))
                found[b].append((mean, a, OPPOSITE[verdict]))
        return {method: [(other, verdict) for _, other, verdict in sorted(of)] for method, of in found.items()}

    def beside(self, method: str, other: str) -> Beside:
        """On how many functions one method is better, level and worse than another, over the problems of both.

        By the mean of log regret over a function's problems, which are alike and count as one in the test.
        """
        means = []
        for place in dict.fromkeys(self.places):
            part = self.select(place.suite, place.d, place.function)
            if {method, other} <= set(part.methods):
                a, b = (np.log10(part.final[:, part.methods.index(name)]) for name in (method, other))
                differences = (a - b)[np.isfinite(a - b)]
                means += [differences.mean()] if len(differences) else []
        better, level, worse = (int((np.sign(means) == sign).sum()) for sign in (-1, 0, 1))
        return Beside(better, level, worse, judge(np.array(means)) if len(means) > MIN_SHARED else None)


def _is(place: Place, suite: str | None, d: int | None, function: str | None) -> bool:
    return suite in (None, place.suite) and d in (None, place.d) and function in (None, place.function)


def judge(differences: Array) -> Verdict:
    """What paired differences say, lower is better: Wilcoxon's signed-rank test, or five of five in one direction."""
    signs = np.sign(differences)
    if (signs == signs[0]).all() and signs[0] != 0:
        return "better" if signs[0] < 0 else "worse"
    if not signs.any() or len(signs) <= MIN_SHARED or signed_rank_test(differences) >= LEVEL:
        return "level"
    return "better" if (stats.rankdata(np.abs(differences)) * signs).sum() < 0 else "worse"


def make_board(records: Iterable[Record]) -> Board:
    """From complete records of the scoreboard's tasks, without those of earlier defaults, which are nobody's rivals."""
    complete = [record for record in records if record.status == "complete" and record.method not in EARLIER]
    gathered = gather(complete)
    methods = in_order({method for of in gathered.values() for method in of})
    rows = [
        (task, replication)
        for task, of in gathered.items()
        for replication in sorted({i for curves in of.values() for i in curves.replications})
    ]
    number = {row: i for i, row in enumerate(rows)}
    places = [place for task, _ in rows if (place := place_of(task)) is not None]
    rounding = {record.task: _rounding(record) for record in complete}
    final, seconds = np.full((2, len(rows), len(methods)), np.nan)
    reached = np.full((len(rows), len(methods), len(TARGETS)), np.inf)
    for task, of in gathered.items():
        for method, curves in of.items():
            at = [number[task, i] for i in curves.replications], methods.index(method)
            regret = np.where(curves.regret > rounding[task], curves.regret, 0.0)
            final[at] = np.maximum(regret[:, -1], TARGETS[-1])
            reached[at] = evaluations_until(regret, TARGETS) / places[at[0][0]].d
    for record in complete:
        at_record = number[record.task, record.replication], methods.index(record.method)
        seconds[at_record] = np.mean(record.iterations) / record.batch if record.iterations else np.nan
    return Board(tuple(methods), tuple(places), final, reached, seconds, _devices(complete))


def evaluations_until(regret: Array, targets: Sequence[float] | Array) -> Array:
    """When regret is at most a target for the first time: runs x evaluations -> runs x targets; infinite if never."""
    within = np.minimum.accumulate(regret, axis=1)[:, :, None] <= np.asarray(targets)
    return np.where(within.any(axis=1), within.argmax(axis=1) + 1, np.inf)


def _rounding(record: Record) -> float:
    """How far a stored value may be from the optimum for its digits' sake alone."""
    optimum = find_task(record.task).optimum if record.optimum is None else record.optimum
    return abs(optimum) * 0.5 * 10.0 ** (1 - DIGITS)


def _devices(records: Iterable[Record]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for record in records:
        found.setdefault(record.method, set()).add("GPU" if record.device.startswith("cuda") else "CPU")
    return {method: " and ".join(sorted(kinds)) for method, kinds in found.items()}
