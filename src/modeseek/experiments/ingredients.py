"""What each ingredient of our default is worth: the default with one of them removed, beside the default itself."""

from __future__ import annotations

import math

import numpy as np

from modeseek.experiments.tables import (
    LEVEL,
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
}


def methods() -> list[str]:
    """The names of all methods that are compared, the default first."""
    return [DEFAULT, *WITHOUT]


def table(runs: Gathered) -> Table:
    """Final regret: a line a task, a column a missing ingredient, * and † where it differs from the default.

    The last line has the geometric mean, over the tasks that both ran on, of mean final regret over the default's,
    each of the replications that both have.
    """
    rows = [_row(of[method], of.get(DEFAULT)) for method in methods() for of in runs.values() if method in of]
    present = [method for method in methods() if any(method in of for of in runs.values())]
    by_place = {(row["task"], row["method"]): row for row in rows}
    cells = [[task, *(_cell(by_place[task, m]) if (task, m) in by_place else "" for m in present)] for task in runs]
    cells.append(["mean ratio", *(_mean_ratio([row for row in rows if row["method"] == m]) for m in present)])
    return Table(["without", *map(_title, present)], cells, rows)


def _mean_ratio(rows: list[Row]) -> str:
    logs = [x for row in rows if not math.isnan(x := float(row["log10 ratio"]))]
    return f"×{10 ** np.mean(logs):.2f}" if logs else ""


def _title(method: str) -> str:
    return WITHOUT.get(method, "(nothing)")


def _row(runs: Runs, default: Runs | None) -> Row:
    mean, error = mean_and_error(runs.final)
    return {
        "task": runs.task,
        "without": _title(runs.method),
        "method": runs.method,
        "replications": len(runs.replications),
        "final": mean,
        "final error": error,
        "log10 ratio": math.nan if default is None else _log_ratio(runs, default),
        f"p against {DEFAULT}": math.nan if default is None else p_value(runs, default),
        f"p against {DEFAULT}, all along": math.nan if default is None else p_value(runs, default, "area"),
    }


def _log_ratio(runs: Runs, default: Runs) -> float:
    """Of the means over common replications, which share their initial designs; NaN where there are none."""
    pairs = paired(runs, default)
    if not len(pairs[0]):
        return math.nan
    regret, of_default = (max(float(final.mean()), REGRET_FLOOR) for final in pairs)
    return math.log10(regret / of_default)


def _cell(row: Row) -> str:
    text = plus_minus(float(row["final"]), float(row["final error"]))
    at_the_end, all_along = (float(row[f"p against {DEFAULT}{when}"]) < LEVEL for when in ("", ", all along"))
    return text + " *" * at_the_end + " †" * all_along
