"""Regret curves from stored records, and how two methods compare on one task.

Regret is simple regret without noise over evaluations: the optimum minus the best value so far (Sec. 5.1).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from modeseek.bench.campaign.records import Record
from modeseek.bench.loading import is_file_name
from modeseek.bench.methods import method_names
from modeseek.bench.tasks import find_task, task_names, validation_names
from modeseek.errors import ConfigError, ModeseekError
from modeseek.typing import Array

REFERENCE = "dms"  # what the others are tested against
LEVEL = 0.05
MIN_PAIRS = 6  # of a test, and of a rank: with five pairs no result can be significant at 5 %
ENUMERATED = 13  # differences, up to which SciPy counts all sign patterns
Measure = Literal["final", "area", "late"]  # final regret, area under its logarithm, and its fall at the end
MEASURES: dict[Measure, str] = {"final": "at the end", "area": "all along"}
REGRET_FLOOR = 1e-6  # of the logarithm: regret of exactly zero has none
LAST = 3 / 4  # of the budget, after which it is late
Verdict = Literal["better", "level", "worse"]
VERDICTS: tuple[Verdict, ...] = ("better", "level", "worse")


@dataclass(frozen=True)
class Curves:
    """The complete replications of a method on a task, all of one DMS configuration."""

    task: str
    method: str
    replications: tuple[int, ...]
    regret: Array  # replications x evaluations
    n_initial: int
    without_model: float = math.nan  # share of iterations without a diffusion model; NaN: not DMS, or not recorded

    @property
    def final(self) -> Array:
        """Regret at the end of each replication."""
        return np.asarray(self.regret[:, -1])

    @property
    def area(self) -> Array:
        """Mean log10 regret after the initial design, of each replication: lower is better all along."""
        curve = self.regret[:, self.n_initial :]
        return np.asarray(np.log10(np.maximum(curve, REGRET_FLOOR)).mean(axis=1))

    @property
    def late(self) -> Array:
        """Log10 regret at the end minus that at three quarters of the budget: the lower, the further it still fell."""
        budget = self.regret.shape[1] - self.n_initial
        ends = self.regret[:, [self.n_initial + int(budget * LAST) - 1, -1]]
        return np.asarray(np.diff(np.log10(np.maximum(ends, REGRET_FLOOR)), axis=1)[:, 0])


Gathered = dict[str, dict[str, Curves]]  # by task and method


def gather(records: Iterable[Record]) -> Gathered:
    """Curves by task and method, from complete records.

    ConfigError where configurations of DMS are mixed, ModeseekError where replications have different lengths.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.status == "complete":
            groups.setdefault((record.task, record.method), []).append(record)
    found: Gathered = {}
    for (task, method), group in groups.items():
        if any(record.config != group[0].config for record in group):
            raise ConfigError(f"the records of {method} on {task} are of several configurations; keep them apart")
        lengths = sorted({len(record.values) for record in group})
        if len(lengths) > 1:
            raise ModeseekError(
                f"the records of {method} on {task} have different numbers of evaluations "
                f"({', '.join(map(str, lengths))}); keep them apart"
            )
        same = sorted(group, key=lambda record: record.replication)
        values = np.array([record.values for record in same])
        found.setdefault(task, {})[method] = Curves(
            task=task,
            method=method,
            replications=tuple(record.replication for record in same),
            regret=np.maximum(_optimum(same[0]) - np.maximum.accumulate(values, axis=1), 0.0),
            n_initial=same[0].n_initial,
            without_model=_without_model(same),
        )
    return {task: {method: found[task][method] for method in in_order(found[task])} for task in tasks_in_order(found)}


def _without_model(records: Iterable[Record]) -> float:
    known = [fell_back for record in records for fell_back in record.fell_back or ()]
    return sum(known) / len(known) if known else math.nan


def tasks_in_order(tasks: Iterable[str]) -> list[str]:
    """The paper's tasks, as it has them, then those for validation, then others by name."""
    order = [*task_names(), *validation_names()]
    return sorted(tasks, key=lambda task: (order.index(task) if task in order else len(order), task))


def is_known(task: str) -> bool:
    """Whether the package knows a task by this name; a record's word is never taken for a file to be run."""
    return task in task_names() or task in validation_names()


def _optimum(record: Record) -> float:
    """What regret is measured against; ConfigError for a task that neither the package nor the record knows."""
    if record.optimum is not None:
        return record.optimum
    if is_file_name(record.task):
        raise ConfigError(
            f"there are records of {record.task!r}, which is not a task of this package, without its optimum; "
            "run them again, or move them away"
        )
    return find_task(record.task).optimum


def in_order(methods: Collection[str]) -> list[str]:
    """DMS first, then the others as `method_names()` has them, then those that it does not have.

    A variant stands after what it varies, and BoTorch's way to optimize an acquisition function beside ours.
    """
    order = method_names()

    def place(method: str) -> int:
        base = method.partition("[")[0].removesuffix("-botorch")
        return order.index(base) if base in order else len(order)

    return sorted(methods, key=lambda method: (place(method), method))


def paired(curves: Curves, reference: Curves, what: Measure = "final") -> tuple[Array, Array]:
    """The method's and the reference's, of each replication that both have."""
    common = sorted(set(curves.replications) & set(reference.replications))
    a, b = (getattr(c, what)[[c.replications.index(i) for i in common]] for c in (curves, reference))
    return a, b


def difference(curves: Curves, reference: Curves, what: Measure) -> Array:
    """The method minus the reference, of each replication that both have."""
    a, b = paired(curves, reference, what)
    return np.asarray(a - b)


def p_value(curves: Curves, reference: Curves, what: Measure = "final") -> float:
    """Two-sided Wilcoxon signed-rank test, paired by replication; NaN with fewer than MIN_PAIRS."""
    return p_of(difference(curves, reference, what))


def p_of(differences: Array) -> float:
    """The same of differences."""
    if len(differences) < MIN_PAIRS:
        return float("nan")
    return 1.0 if not differences.any() else signed_rank_test(differences)


def signed_rank_test(differences: Array) -> float:
    """The p-value of `scipy.stats.wilcoxon`, which asks for the statistic of each sign pattern where few are tied."""
    size = np.abs(differences)
    untied = len(np.unique(size)) == len(size) and size.all()
    if untied or len(size) > ENUMERATED:
        return float(stats.wilcoxon(differences).pvalue)
    rank = stats.rankdata(size[size > 0])
    patterns = np.arange(2 ** len(rank))[:, None] >> np.arange(len(rank)) & 1
    null, found = (2 * patterns - 1) @ rank, (np.sign(differences[size > 0]) * rank).sum()
    return float(np.mean(np.abs(null) >= abs(found) - 1e-9))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values as Holm (1979) corrects them, so that the chance of any false one among all stays at the level."""
    order = np.argsort(p_values)
    stepped = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(p) for p in corrected]


def verdict(curves: Curves, reference: Curves, what: Measure) -> Verdict | None:
    """How a method does beside the reference, by the direction of Wilcoxon's test; None with too few pairs for one.

    A mean may point the other way, where one replication of many was stuck.
    """
    return verdict_of(difference(curves, reference, what))


def verdict_of(differences: Array) -> Verdict | None:
    """The same of differences, the method minus the reference."""
    p = p_of(differences)
    if np.isnan(p):
        return None
    if p >= LEVEL:
        return "level"
    signed_ranks = stats.rankdata(np.abs(differences)) * np.sign(differences)
    return "better" if signed_ranks.sum() < 0 else "worse"


@dataclass(frozen=True)
class Comparison:
    """A method against a rival, by task or whatever else tells several tests apart."""

    verdicts: dict[Any, Verdict]
    corrected: dict[Any, Verdict]  # by Holm's correction
    replications: dict[Any, int]  # that each has

    def count(self, which: Verdict, corrected: bool = False) -> int:
        """Tasks with this verdict."""
        return list((self.corrected if corrected else self.verdicts).values()).count(which)

    def __str__(self) -> str:
        """For a cell."""
        if not self.verdicts:
            return ""
        counts = " / ".join(str(self.count(v)) for v in VERDICTS)
        return f"{counts} ({self.count('better', True)} / {self.count('worse', True)})"


def judged(differences: Mapping[Any, Array]) -> Comparison:
    """Verdicts on differences, of those that are enough for a test, also with Holm's correction for all of them."""
    found = {key: v for key, of_key in differences.items() if (v := verdict_of(of_key)) is not None}
    corrected = holm([p_of(differences[key]) for key in found])
    return Comparison(
        found,
        {key: v if p < LEVEL else "level" for (key, v), p in zip(found.items(), corrected, strict=True)},
        {key: len(differences[key]) for key in found},
    )


def unbeaten(methods: dict[str, Curves], what: Measure) -> set[str]:
    """The methods that no other one is significantly better than, of those with enough replications for a test."""
    able = {name: c for name, c in methods.items() if len(c.replications) >= MIN_PAIRS}
    placed = standing(able, what)
    likely_first = sorted(able.values(), key=lambda c: placed[c.method])  # few tests settle most methods
    return {name for name, c in able.items() if all(verdict(other, c, what) != "better" for other in likely_first)}


def standing(methods: dict[str, Curves], what: Measure) -> dict[str, float]:
    """What methods are ordered by, lower is better: the mean difference from DMS over replications that both have.

    Replications differ in their initial designs, so that means over different ones do not compare. Without any in
    common it is the difference of the means, and without DMS the mean.
    """
    reference = methods.get(REFERENCE)
    if reference is None:
        return {name: float(getattr(c, what).mean()) for name, c in methods.items()}
    offset = getattr(reference, what).mean()
    differences = {name: difference(c, reference, what) for name, c in methods.items()}
    return {
        name: float(differences[name].mean() if len(differences[name]) else getattr(c, what).mean() - offset)
        for name, c in methods.items()
    }


def ranks(methods: dict[str, Curves], what: Measure) -> dict[str, int]:
    """Ranks among the methods with enough replications for a test; where none has, among all."""
    ranked = {name: c for name, c in methods.items() if len(c.replications) >= MIN_PAIRS} or methods
    placed = standing(ranked, what)
    return dict(zip(placed, stats.rankdata(list(placed.values()), method="min").astype(int).tolist(), strict=True))
