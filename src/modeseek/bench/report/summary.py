"""Tables of the comparison of methods: final regret, the area under its logarithm, and the default against each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from modeseek.bench.report.curves import (
    MEASURES,
    MIN_PAIRS,
    REFERENCE,
    VERDICTS,
    Curves,
    Gathered,
    Measure,
    difference,
    in_order,
    is_known,
    judged,
    p_value,
    ranks,
    standing,
    unbeaten,
    verdict,
)
from modeseek.bench.report.table import Row, Table, mean_and_error, plus_minus
from modeseek.bench.tasks import find_task

BEST_OF_OTHERS = "the best of the others"


def against_table(groups: dict[str, Gathered]) -> Table:
    """For each method, on how many tasks of each group DMS is better, level and worse; and where it is worse. In
    brackets, on how many it still is with Holm's correction for the tasks of the cell.

    The last line has them against the best of the other methods, which differs from task to task.
    """
    names = in_order({name for of in groups.values() for methods in of.values() for name in methods} - {REFERENCE})
    rivals: dict[str, Callable[[dict[str, Curves], Measure], Curves | None]] = {
        **{name: partial(_named, name) for name in names},
        BEST_OF_OTHERS: _best_of_others,
    }
    rows: list[Row] = []
    cells = []
    for name, rival in rivals.items():
        texts, lost = [], dict[str, str]()
        for group, gathered in groups.items():
            tested = {task: of for task, of in gathered.items() if REFERENCE in of}
            for what, label in MEASURES.items():
                present = {task: c for task, of in tested.items() if (c := rival(of, what)) is not None}
                found = judged({task: difference(tested[task][REFERENCE], c, what) for task, c in present.items()})
                counts: Row = {v: found.count(v) for v in VERDICTS}
                counts |= {f"{v} by Holm": found.count(v, corrected=True) for v in VERDICTS}
                texts.append(str(found))
                worse = [task for task, v in found.verdicts.items() if v == "worse"]
                lost |= {task: task if what == "final" else f"{task} ({label})" for task in worse if task not in lost}
                rows.append({"method": name, "tasks": group, "measure": label, **counts, "worse on": ", ".join(worse)})
        if any(texts):
            cells.append([name, *texts, ", ".join(lost.values())])
    header = [f"{group}, {label}" for group in groups for label in MEASURES.values()]
    return Table(["method", *header, "worse on"], cells, rows)


def _named(name: str, methods: dict[str, Curves], what: Measure) -> Curves | None:
    return methods.get(name)


def _best_of_others(methods: dict[str, Curves], what: Measure) -> Curves | None:
    """The lowest among the non-DMS methods that have enough replications in common with it."""
    others = {name: c for name, c in methods.items() if not name.startswith("dms")}
    enough = [name for name, c in others.items() if len(difference(c, methods[REFERENCE], what)) >= MIN_PAIRS]
    return others[min(enough, key=standing(methods, what).__getitem__)] if enough else None


def out_of_reach(task: str) -> float | None:
    """How far the best value there is lies below the one that regret is measured against; None if it is not known."""
    if not is_known(task):
        return None
    problem = find_task(task)
    return None if problem.true_optimum is None else problem.optimum - problem.true_optimum


def summary_rows(gathered: Gathered) -> list[Row]:
    """A row per task and method: final regret and area under log regret, with ranks and tests."""
    rows: list[Row] = []
    for task, methods in gathered.items():
        offset = out_of_reach(task)
        columns = {what: _judged(methods, what) for what in MEASURES}
        for name, c in methods.items():
            row: Row = {"task": task, "method": name, "replications": len(c.replications)}
            for what in MEASURES:
                row |= columns[what][name]
            row["final from the best"] = "" if offset is None else max(float(row["final"]) - offset, 0.0)
            rows.append(row)
    return rows


def _judged(methods: dict[str, Curves], what: Measure) -> dict[str, Row]:
    """What a row has of one measure, by method."""
    rank, best, reference = ranks(methods, what), unbeaten(methods, what), methods.get(REFERENCE)
    columns = {}
    for name, c in methods.items():
        mean, error = mean_and_error(getattr(c, what))
        row: Row = {
            what: mean,
            f"{what} error": error,
            f"{what} rank": rank.get(name, ""),
            f"{what} unbeaten": int(name in best),
            f"{what} p against {REFERENCE}": float("nan"),
            f"{what} beside {REFERENCE}": "",
        }
        if reference is not None and c is not reference:
            row[f"{what} p against {REFERENCE}"] = p_value(c, reference, what)
            row[f"{what} beside {REFERENCE}"] = verdict(c, reference, what) or ""
        columns[name] = row
    return columns


def summary_table(gathered: Gathered, what: Measure) -> Table:
    """Final regret or area: mean ± standard error, rank, unbeaten methods in bold, and who is worse or better than DMS.

    Where the best value there is falls short of the optimum, final regret has a second line, measured from that value.
    The last line has mean ranks among the methods that are ranked on every task, if there are several.
    """
    names = in_order({name for methods in gathered.values() for name in methods})
    rows = summary_rows(gathered)
    cells = []
    for task in gathered:
        of_task = {row["method"]: row for row in rows if row["task"] == task}
        most = max(int(row["replications"]) for row in of_task.values())
        cells.append([task, *(_cell(of_task[name], what, most) if name in of_task else "" for name in names)])
        if what == "final" and out_of_reach(task):
            from_best = [_cell_from_best(of_task[name]) if name in of_task else "" for name in names]
            cells.append([f"{task}, from its best", *from_best])
    everywhere = [name for name in names if all(name in ranks(methods, what) for methods in gathered.values())]
    by_task = [ranks({name: methods[name] for name in everywhere}, what) for methods in gathered.values()]
    means = {name: float(np.mean([of_task[name] for of_task in by_task])) for name in everywhere}
    if len(everywhere) > 1:
        cells.append(["mean rank", *(f"{means[name]:.2f}" if name in means else "" for name in names)])
    return Table(["task", *names], cells, rows)


def _cell(row: Row, what: Measure, most: int) -> str:
    text = plus_minus(float(row[what]), float(row[f"{what} error"]))
    text = f"**{text}**" if row[f"{what} unbeaten"] else text
    fewer = f"n={row['replications']}" if int(row["replications"]) < most else ""
    places = ", ".join(filter(None, [str(row[f"{what} rank"]), fewer]))
    judged = row[f"{what} beside {REFERENCE}"]
    return f"{text}{f' ({places})' if places else ''}{f' {judged}' if judged in ('better', 'worse') else ''}"


def _cell_from_best(row: Row) -> str:
    return plus_minus(float(row["final from the best"]), float(row["final error"]))
