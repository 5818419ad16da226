"""What each ingredient of our default is worth: the default with one of them removed, beside the default itself."""

from __future__ import annotations

import math

import numpy as np

from modeseek.bench.report.tables import (
    MEASURES,
    REFERENCE,
    REGRET_FLOOR,
    Gathered,
    Row,
    Runs,
    Table,
    mean_and_error,
    p_value,
    paired,
    plus_minus,
    verdict,
)

DEFAULT = REFERENCE
WITHOUT = {  # another setting than the default's, mostly the paper's, and the ingredient that is missing then
    f"{DEFAULT}[warp=never]": "warped outcomes",
    f"{DEFAULT}[warp=always]": "a power transform only where the surrogate wants it",
    f"{DEFAULT}[rho_far=null]": "iterations with a larger ρ",
    f"{DEFAULT}[polish=false]": "polished mode",
    f"{DEFAULT}[refine=point]": "one step size for all pseudo-inputs",
    f"{DEFAULT}[w=2;p_drop=0.15]": "samples without guidance",
    f"{DEFAULT}[K=25]": "few steps of L-BFGS",
    f"{DEFAULT}[epochs=100;steps=50]": "short training",
    f"{DEFAULT}[train_on=nothing]": "the diffusion model",
}
# How the default without an ingredient does, by how the default does beside it; None, with too few pairs, says nothing.
WITHOUT_IT: dict[str | None, str] = {"better": "worse", "level": "level", "worse": "better"}


def methods() -> list[str]:
    """The names of all methods that are compared, the default first."""
    return [DEFAULT, *WITHOUT]


def table(runs: Gathered) -> Table:
    """Final regret: a line a task, a column a missing ingredient, and in words where it differs from the default.

    Then on how many tasks it is worse, level and better, and the geometric mean of its final regret over the default's,
    over the replications that both have and then over tasks.
    """
    present = [method for method in methods() if any(method in of for of in runs.values())]
    rows = [_row(of[method], of.get(DEFAULT)) for method in present for of in runs.values() if method in of]
    by_place = {(row["task"], row["method"]): row for row in rows}
    most = {task: max(len(r.replications) for r in of.values()) for task, of in runs.items()}
    cells = [
        [task, *(_cell(by_place[task, m], most[task]) if (task, m) in by_place else "" for m in present)]
        for task in runs
    ]
    columns = [[row for row in rows if row["method"] == m] for m in present]
    for when in MEASURES.values():
        cells.append([f"{when}: worse / level / better", *(_counts(column, when) for column in columns)])
    cells.append(["mean ratio", *map(_mean_ratio, columns)])
    return Table(["without", *map(_title, present)], cells, rows)


def _title(method: str) -> str:
    return WITHOUT.get(method, "(nothing)")


def _row(runs: Runs, default: Runs | None) -> Row:
    mean, error = mean_and_error(runs.final)
    row: Row = {
        "task": runs.task,
        "without": _title(runs.method),
        "method": runs.method,
        "replications": len(runs.replications),
        "final": mean,
        "final error": error,
        "log10 ratio": math.nan if default is None else _log_ratio(runs, default),
    }
    for what, when in MEASURES.items():
        row[f"p against {DEFAULT}, {when}"] = math.nan if default is None else p_value(runs, default, what)
        row[when] = "" if default is None else WITHOUT_IT.get(verdict(runs, default, what), "")
    return row


def _log_ratio(runs: Runs, default: Runs) -> float:
    """Mean log10 of the ratio of common replications, which share their initial designs; NaN where there are none."""
    final, of_default = (np.log10(np.maximum(final, REGRET_FLOOR)) for final in paired(runs, default))
    return float((final - of_default).mean()) if len(final) else math.nan


def _cell(row: Row, most: int) -> str:
    text = plus_minus(float(row["final"]), float(row["final error"]))
    fewer = f" (n={row['replications']})" if int(row["replications"]) < most else ""
    differs = [f"{row[when]} {when}" for when in MEASURES.values() if row[when] in ("worse", "better")]
    return ", ".join([text + fewer, *differs])


def _counts(column: list[Row], when: str) -> str:
    found = [row[when] for row in column]
    of_default = all(row["method"] == DEFAULT for row in column)
    return "" if of_default or not any(found) else " / ".join(str(found.count(v)) for v in WITHOUT_IT.values())


def _mean_ratio(column: list[Row]) -> str:
    logs = [x for row in column if not math.isnan(x := float(row["log10 ratio"]))]
    return f"×{10 ** np.mean(logs):.2f}" if logs else ""
