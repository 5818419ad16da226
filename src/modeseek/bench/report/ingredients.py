"""What each ingredient of our default is worth: the default with one of them removed, beside the default itself."""

from __future__ import annotations

import math

import numpy as np

from modeseek.bench.methods.variants import TAKEN_APART, WITHOUT, ingredients
from modeseek.bench.report.curves import MEASURES, REGRET_FLOOR, Curves, Gathered, p_value, paired, verdict
from modeseek.bench.report.table import Row, Table, mean_and_error, plus_minus


def table(gathered: Gathered) -> Table:
    """Final regret: a line per task, a column per missing ingredient, and in words where it differs from the default.

    Then on how many tasks it is worse, level and better, and the geometric mean of its final regret over the default's,
    over the replications that both have and then over tasks.
    """
    present = [method for method in ingredients() if any(method in of for of in gathered.values())]
    rows = [_row(of[method], of.get(TAKEN_APART)) for method in present for of in gathered.values() if method in of]
    by_place = {(row["task"], row["method"]): row for row in rows}
    most = {task: max(len(c.replications) for c in of.values()) for task, of in gathered.items()}
    cells = [
        [task, *(_cell(by_place[task, m], most[task]) if (task, m) in by_place else "" for m in present)]
        for task in gathered
    ]
    columns = [[row for row in rows if row["method"] == m] for m in present]
    for when in MEASURES.values():
        cells.append([f"{when}: worse / level / better", *(_counts(column, when) for column in columns)])
    cells.append(["mean ratio", *map(_mean_ratio, columns)])
    return Table(["without", *map(_title, present)], cells, rows)


def _title(method: str) -> str:
    return WITHOUT.get(method, "(nothing)")


def _row(curves: Curves, default: Curves | None) -> Row:
    mean, error = mean_and_error(curves.final)
    row: Row = {
        "task": curves.task,
        "without": _title(curves.method),
        "method": curves.method,
        "replications": len(curves.replications),
        "final": mean,
        "final error": error,
        "log10 ratio": math.nan if default is None else _log_ratio(curves, default),
    }
    for what, when in MEASURES.items():
        row[f"p against {TAKEN_APART}, {when}"] = math.nan if default is None else p_value(curves, default, what)
        row[when] = "" if default is None else verdict(curves, default, what) or ""
    return row


def _log_ratio(curves: Curves, default: Curves) -> float:
    """Mean log10 of the ratio of common replications, which share their initial designs; NaN where there are none."""
    final, of_default = (np.log10(np.maximum(final, REGRET_FLOOR)) for final in paired(curves, default))
    return float((final - of_default).mean()) if len(final) else math.nan


def _cell(row: Row, most: int) -> str:
    text = plus_minus(float(row["final"]), float(row["final error"]))
    fewer = f" (n={row['replications']})" if int(row["replications"]) < most else ""
    differs = [f"{row[when]} {when}" for when in MEASURES.values() if row[when] in ("worse", "better")]
    return ", ".join([text + fewer, *differs])


def _counts(column: list[Row], when: str) -> str:
    found = [row[when] for row in column]
    of_default = all(row["method"] == TAKEN_APART for row in column)
    return "" if of_default or not any(found) else " / ".join(str(found.count(v)) for v in ("worse", "level", "better"))


def _mean_ratio(column: list[Row]) -> str:
    logs = [x for row in column if not math.isnan(x := float(row["log10 ratio"]))]
    return f"×{10 ** np.mean(logs):.2f}" if logs else ""
