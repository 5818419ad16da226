"""From the paper's text to our default, one point at a time: which departures matter."""

from __future__ import annotations

import math

from modeseek.bench.methods.variants import PRINTED, departures
from modeseek.bench.report.curves import LEVEL, VERDICTS, Curves, Gathered, holm, is_known, p_value, verdict
from modeseek.bench.report.table import Row, Table, mean_and_error, percent, plus_minus

NOTE = (
    f"From `{PRINTED}`, the paper's text to the letter, by way of `dms-paper`, its usual reading, to the default: each "
    "line has one point more than the line above it. Final regret, mean ± standard error; better, worse: than the line "
    "above (Wilcoxon signed-rank over replications, 5 %); a star, and a count in brackets, where that holds with "
    "Holm's correction for all tests of the table. Without a model: the share of iterations, task by task, that "
    "evaluated the best pseudo-input because the model's loss or samples were not finite, all pseudo-inputs "
    "were one point, or one hill (a dash: not recorded, or no step on that task). Points that make no difference on a "
    "task have no step: on continuous tasks rounded pseudo-inputs and choices by expected improvement, in short runs "
    "the local search."
)


def beside(gathered: Gathered) -> Gathered:
    """The methods on the way, in its order, of the tasks that have one between the presets."""
    found = {}
    for task, of in gathered.items():
        way = [method for method in (departures(task) if is_known(task) else ()) if method in of]
        if any("[" in method for method in way):
            found[task] = {method: of[method] for method in way}
    return found


def only_here(task: str) -> set[str]:
    """The methods of a task that are on the way and nowhere else."""
    return {method for method in departures(task) if "[" in method} if is_known(task) else set()


def table(gathered: Gathered) -> Table:
    """Final regret: a line per point, a column per task, each beside the one before it; then counts of verdicts."""
    rows = [row for task, of in gathered.items() for row in _rows(task, of)]
    tested = [row for row in rows if not math.isnan(float(row["p"]))]
    for row, p in zip(tested, holm([float(row["p"]) for row in tested]), strict=True):
        row["p by Holm"] = p
    points = list(dict.fromkeys(str(row["point"]) for row in rows))
    by_place = {(row["point"], row["task"]): row for row in rows}
    cells = []
    for point in points:
        of_point = [by_place.get((point, task)) for task in gathered]
        judged = [row for row in of_point if row is not None and row["beside the one before"]]
        counts = {v: [row for row in judged if row["beside the one before"] == v] for v in VERDICTS}
        sure = [sum(float(row["p by Holm"]) < LEVEL for row in counts[v]) for v in ("better", "worse")]
        total = f"{' / '.join(str(len(of_v)) for of_v in counts.values())} ({sure[0]} / {sure[1]})" if judged else ""
        without = " / ".join(percent(float(row["without a model"]) if row else math.nan) for row in of_point)
        cells.append([point, *map(_cell, of_point), total, without])
    return Table(["with", *gathered, "better / level / worse", "without a model, %"], cells, rows)


def _rows(task: str, of: dict[str, Curves]) -> list[Row]:
    rows: list[Row] = []
    before: Curves | None = None
    for method, point in departures(task).items():
        if method not in of:
            before = None  # a step that was not run would be counted to the next
            continue
        curves = of[method]
        mean, error = mean_and_error(curves.final)
        rows.append(
            {
                "task": task,
                "point": point,
                "method": method,
                "replications": len(curves.replications),
                "final": mean,
                "final error": error,
                "p": math.nan if before is None else p_value(curves, before),
                "beside the one before": "" if before is None else verdict(curves, before, "final") or "",
                "p by Holm": math.nan,
                "without a model": curves.without_model,
            }
        )
        before = curves
    return rows


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    judged = row["beside the one before"]
    star = "*" if float(row["p by Holm"]) < LEVEL else ""
    return plus_minus(float(row["final"]), float(row["final error"])) + (
        f" {judged}{star}" if judged in ("better", "worse") else ""
    )
