"""Tables from stored records: final regret and the area under its logarithm, with ranks and tests.

Regret is simple regret without noise over evaluations: the optimum minus the best value so far (Sec. 5.1).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy import stats

from modeseek.bench.campaign.records import Record
from modeseek.bench.methods import method_names
from modeseek.bench.tasks import find_task, task_names, validation_names
from modeseek.errors import ConfigError, ModeseekError
from modeseek.typing import Array

REFERENCE = "dms"  # whom the others are tested against
LEVEL = 0.05
MIN_PAIRS = 6  # of a test, and of a rank: with five pairs no result can be significant at 5 %
BEST_OF_OTHERS = "the best of the others"
Measure = Literal["final", "area"]  # final regret, area under its logarithm
MEASURES: dict[Measure, str] = {"final": "at the end", "area": "all along"}
REGRET_FLOOR = 1e-6  # of the logarithm: regret of exactly zero has none

Row = dict[str, str | float | int]


@dataclass(frozen=True)
class Table:
    """What a reader sees, in Markdown, and the numbers behind it."""

    header: Sequence[str]
    cells: Sequence[Sequence[str]]
    rows: Sequence[Row] = ()

    def markdown(self) -> str:
        """As Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.cells]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def csv(self) -> str:
        """The numbers as CSV."""
        out = io.StringIO()
        writer = csv.DictWriter(out, fieldnames=list(dict.fromkeys(name for row in self.rows for name in row)))
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


@dataclass(frozen=True)
class Runs:
    """The complete replications of a method on a task, all of one DMS configuration."""

    task: str
    method: str
    replications: tuple[int, ...]
    regret: Array  # replications x evaluations
    n_initial: int

    @property
    def final(self) -> Array:
        """Regret at the end of each replication."""
        return np.asarray(self.regret[:, -1])

    @property
    def area(self) -> Array:
        """Mean log10 regret after the initial design, of each replication: lower is better all along."""
        curve = self.regret[:, self.n_initial :]
        return np.asarray(np.log10(np.maximum(curve, REGRET_FLOOR)).mean(axis=1))


Gathered = dict[str, dict[str, Runs]]  # by task and method


def gather(records: Iterable[Record]) -> Gathered:
    """Runs by task and method, from complete records.

    ConfigError where configurations of DMS are mixed, ModeseekError where runs have different lengths.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.status == "complete":
            groups.setdefault((record.task, record.method), []).append(record)
    runs: Gathered = {}
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
        runs.setdefault(task, {})[method] = Runs(
            task=task,
            method=method,
            replications=tuple(record.replication for record in same),
            regret=np.maximum(find_task(task).optimum - np.maximum.accumulate(values, axis=1), 0.0),
            n_initial=same[0].n_initial,
        )
    return {task: {method: runs[task][method] for method in in_order(runs[task])} for task in tasks_in_order(runs)}


def tasks_in_order(tasks: Iterable[str]) -> list[str]:
    """The paper's tasks, as it has them, then those for validation; ConfigError for one that nobody knows."""
    order = [*task_names(), *validation_names()]
    return sorted(tasks, key=lambda task: order.index(find_task(task).name))


def in_order(methods: Collection[str]) -> list[str]:
    """DMS first, then the others as `method_names()` has them, then those that it does not have.

    A variant stands after what it varies.
    """
    order = list(dict.fromkeys(["dms", "dms-fast", "dms-paper", *method_names()]))

    def place(method: str) -> int:
        base = method.partition("[")[0]
        return order.index(base) if base in order else len(order)

    return sorted(methods, key=lambda method: (place(method), method))


def p_value(runs: Runs, reference: Runs, what: Measure = "final") -> float:
    """Two-sided Wilcoxon signed-rank test, paired by replication; NaN with fewer than MIN_PAIRS."""
    difference = _difference(runs, reference, what)
    if len(difference) < MIN_PAIRS:
        return float("nan")
    return 1.0 if not difference.any() else float(stats.wilcoxon(difference).pvalue)


def paired(runs: Runs, reference: Runs, what: Measure = "final") -> tuple[Array, Array]:
    """The method's and the reference's, of each replication that both have."""
    common = sorted(set(runs.replications) & set(reference.replications))
    a, b = (getattr(r, what)[[r.replications.index(i) for i in common]] for r in (runs, reference))
    return a, b


def _difference(runs: Runs, reference: Runs, what: Measure) -> Array:
    """The method minus the reference, of each replication that both have."""
    a, b = paired(runs, reference, what)
    return np.asarray(a - b)


def verdict(runs: Runs, reference: Runs, what: Measure) -> Literal["better", "level", "worse"] | None:
    """How the reference does beside a method, by Wilcoxon's test; None with too few pairs for one."""
    p = p_value(runs, reference, what)
    if np.isnan(p):
        return None
    if p >= LEVEL:
        return "level"
    difference = _difference(runs, reference, what)
    signed_ranks = stats.rankdata(np.abs(difference)) * np.sign(difference)
    return "better" if signed_ranks.sum() > 0 else "worse"


def against_table(groups: dict[str, Gathered]) -> Table:
    """For each method, on how many tasks of each group DMS is better, level and worse; and where it is worse.

    The last line has them against the best of the other methods, which differs from task to task.
    """
    names = in_order({name for runs in groups.values() for methods in runs.values() for name in methods} - {REFERENCE})
    rivals: dict[str, Callable[[dict[str, Runs], Measure], Runs | None]] = {
        **{name: partial(_named, name) for name in names},
        BEST_OF_OTHERS: _best_of_others,
    }
    rows: list[Row] = []
    cells = []
    for name, rival in rivals.items():
        texts, lost = [], dict[str, str]()
        for group, runs in groups.items():
            tested = {task: of for task, of in runs.items() if REFERENCE in of}
            for what, label in MEASURES.items():
                present = {task: r for task, of in tested.items() if (r := rival(of, what)) is not None}
                verdicts = {task: verdict(r, tested[task][REFERENCE], what) for task, r in present.items()}
                counts = {v: list(verdicts.values()).count(v) for v in ("better", "level", "worse")}
                texts.append(" / ".join(map(str, counts.values())) if any(counts.values()) else "")
                worse = [task for task, v in verdicts.items() if v == "worse"]
                lost |= {task: task if what == "final" else f"{task} ({label})" for task in worse if task not in lost}
                rows.append({"method": name, "tasks": group, "measure": label, **counts, "worse on": ", ".join(worse)})
        if any(texts):
            cells.append([name, *texts, ", ".join(lost.values())])
    header = [f"{group}, {label}" for group in groups for label in MEASURES.values()]
    return Table(["method", *header, "worse on"], cells, rows)


def _named(name: str, methods: dict[str, Runs], what: Measure) -> Runs | None:
    return methods.get(name)


def _best_of_others(methods: dict[str, Runs], what: Measure) -> Runs | None:
    """The lowest among the methods that are no DMS and have enough replications in common with it."""
    others = {name: r for name, r in methods.items() if not name.startswith("dms")}
    enough = [name for name, r in others.items() if len(_difference(r, methods[REFERENCE], what)) >= MIN_PAIRS]
    return others[min(enough, key=_standing(methods, what).__getitem__)] if enough else None


def _standing(methods: dict[str, Runs], what: Measure) -> dict[str, float]:
    """What methods are ordered by, lower is better: the mean difference from DMS over replications that both have.

    Replications differ in their initial designs, so that means over different ones do not compare. Without any in
    common it is the difference of the means, and without DMS the mean.
    """
    reference = methods.get(REFERENCE)
    if reference is None:
        return {name: float(getattr(r, what).mean()) for name, r in methods.items()}
    offset = getattr(reference, what).mean()
    differences = {name: _difference(r, reference, what) for name, r in methods.items()}
    return {
        name: float(differences[name].mean() if len(differences[name]) else getattr(r, what).mean() - offset)
        for name, r in methods.items()
    }


def mean_and_error(sample: Array) -> tuple[float, float]:
    """Mean and standard error."""
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else float("nan")


def plus_minus(mean: float, error: float) -> str:
    """For a cell; of a single run there is no error."""
    return f"{mean:.3g}" if np.isnan(error) else f"{mean:.3g} ± {error:.2g}"


def out_of_reach(task: str) -> float | None:
    """How far the best value there is lies below the one that regret is measured against; None if it is not known."""
    problem = find_task(task)
    return None if problem.true_optimum is None else problem.optimum - problem.true_optimum


def summary_rows(runs: Gathered) -> list[Row]:
    """A row a task and method: final regret and area under log regret with ranks, and the test against DMS."""
    rows: list[Row] = []
    for task, methods in runs.items():
        ranks = {what: _ranks(methods, what) for what in MEASURES}
        offset = out_of_reach(task)
        for name, r in methods.items():
            mean, error = mean_and_error(r.final)
            area, area_error = mean_and_error(r.area)
            tested = name != REFERENCE and REFERENCE in methods
            rows.append(
                {
                    "task": task,
                    "method": name,
                    "replications": len(r.replications),
                    "final": mean,
                    "final error": error,
                    "final rank": ranks["final"].get(name, ""),
                    "final from the best": "" if offset is None else max(mean - offset, 0.0),
                    "area": area,
                    "area error": area_error,
                    "area rank": ranks["area"].get(name, ""),
                    f"p against {REFERENCE}": p_value(r, methods[REFERENCE]) if tested else float("nan"),
                    f"p against {REFERENCE}, all along": (
                        p_value(r, methods[REFERENCE], "area") if tested else float("nan")
                    ),
                }
            )
    return rows


def _ranks(methods: dict[str, Runs], what: Measure) -> dict[str, int]:
    """Ranks among the methods with enough replications for a test; where none has, among all."""
    ranked = {name: r for name, r in methods.items() if len(r.replications) >= MIN_PAIRS} or methods
    standing = _standing(ranked, what)
    return dict(zip(standing, stats.rankdata(list(standing.values()), method="min").astype(int).tolist(), strict=True))


def summary_table(runs: Gathered, what: Measure) -> Table:
    """Final regret or area: mean ± standard error and rank, the best in bold, * where it differs from DMS.

    Where the best value there is falls short of the optimum, final regret has a second line, measured from that value.
    The last line has mean ranks among the methods that are ranked on every task, if there are several.
    """
    names = in_order({name for methods in runs.values() for name in methods})
    rows = summary_rows(runs)
    cells = []
    for task in runs:
        of_task = {row["method"]: row for row in rows if row["task"] == task}
        most = max(int(row["replications"]) for row in of_task.values())
        cells.append([task, *(_cell(of_task[name], what, most) if name in of_task else "" for name in names)])
        if what == "final" and out_of_reach(task):
            from_best = [_cell_from_best(of_task[name]) if name in of_task else "" for name in names]
            cells.append([f"{task}, from its best", *from_best])
    everywhere = [name for name in names if all(name in _ranks(methods, what) for methods in runs.values())]
    ranks = [_ranks({name: methods[name] for name in everywhere}, what) for methods in runs.values()]
    means = {name: float(np.mean([of_task[name] for of_task in ranks])) for name in everywhere}
    if len(everywhere) > 1:
        cells.append(["mean rank", *(f"{means[name]:.2f}" if name in means else "" for name in names)])
    return Table(["task", *names], cells, rows)


def _cell(row: Row, what: str, most: int) -> str:
    text = plus_minus(float(row[what]), float(row[f"{what} error"]))
    rank = row[f"{what} rank"]
    text = f"**{text}**" if rank == 1 else text
    differs = what == "final" and float(row[f"p against {REFERENCE}"]) < LEVEL
    fewer = f"n={row['replications']}" if int(row["replications"]) < most else ""
    return f"{text} ({', '.join(filter(None, [str(rank), fewer]))}){' *' if differs else ''}"


def _cell_from_best(row: Row) -> str:
    return plus_minus(float(row["final from the best"]), float(row["final error"]))
