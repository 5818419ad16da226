"""The paper's five ablations (App. B.7): the paper's preset with one setting changed.

The values are the paper's where it prints them, as for the training data, ρ and m. Of K and S it prints none: here
they are all that occur in its Tables 2 and 3, and K = 0. Where the preset of a task has another value, that is added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from modeseek.bench.report import ingredients
from modeseek.bench.report.tables import LEVEL, Gathered, Row, Runs, Table, mean_and_error, p_value, plus_minus
from modeseek.bench.tasks import find_task

TASKS = ("styblinski-tang-2", "levy-10")
PRESET = "dms-paper"
SETTINGS: dict[str, tuple[Any, ...]] = {
    "train_on": ("pseudo", "observed"),
    "rho": (0, 1, 2, 3),
    "K": (0, 5, 15, 25),
    "m": (100, 500, 1000),
    "S": (100, 200, 300, 400),
}
TITLES = {
    "train_on": "training data",
    "rho": "ρ, weight of σ",
    "K": "K, steps of L-BFGS",
    "m": "m, pseudo-dataset",
    "S": "S, candidates",
}


class Curve(NamedTuple):
    """Runs with one value of a setting."""

    value: Any
    runs: Runs

    @property
    def is_preset(self) -> bool:
        """Whether this is the paper's value for the task."""
        return self.runs.method == PRESET


def methods(task: str) -> list[str]:
    """The names of all methods that the ablations of a task need, the preset first."""
    return list(dict.fromkeys([PRESET, *(_method(task, s, value) for s in SETTINGS for value in _values(task, s))]))


class Split(NamedTuple):
    """Runs by what they are for; the preset's and the default's are both compared and beside their variants."""

    compared: Gathered
    ablated: Gathered  # tasks with variants of the preset
    removed: Gathered  # tasks with variants of the default


def split(runs: Gathered) -> Split:
    """The runs that a comparison of methods is about, those of ablations, and those of missing ingredients."""
    ablated = {task: set(methods(task)) - {PRESET} for task in runs}
    removed = {task: set(ingredients.WITHOUT) for task in runs}
    compared = {
        task: {n: r for n, r in of.items() if n not in ablated[task] | removed[task]} for task, of in runs.items()
    }
    return Split(
        {task: of for task, of in compared.items() if of},
        _beside(runs, PRESET, ablated),
        _beside(runs, ingredients.DEFAULT, removed),
    )


def _beside(runs: Gathered, base: str, variants: dict[str, set[str]]) -> Gathered:
    """The base and its variants, of the tasks that have variants."""
    return {
        task: {n: r for n, r in of.items() if n == base or n in variants[task]}
        for task, of in runs.items()
        if not variants[task].isdisjoint(of)
    }


def curves(runs: Gathered, task: str, setting: str) -> list[Curve]:
    """What there is of an ablation, by value; nothing where only the preset was run."""
    found = [
        Curve(value, runs[task][name])
        for value in _values(task, setting)
        if (name := _method(task, setting, value)) in runs[task]
    ]
    return [] if all(curve.is_preset for curve in found) else found


def table(runs: Gathered) -> Table:
    """Final regret: a line a value, a column a task, the best of a setting in bold, * where the preset differs."""
    rows: list[Row] = []
    cells = []
    for setting, title in TITLES.items():
        by_task = {task: {curve.value: curve for curve in curves(runs, task, setting)} for task in runs}
        for value in sorted({value for found in by_task.values() for value in found}):
            present = {task: found[value] for task, found in by_task.items() if value in found}
            of_value = {task: _row(setting, curve, runs[task].get(PRESET)) for task, curve in present.items()}
            rows += of_value.values()
            best = {task: min(c.runs.final.mean() for c in by_task[task].values()) for task in present}
            texts = [_cell(of_value[t], best[t], present[t]) if t in present else "" for t in runs]
            cells.append([title, str(value), *texts])
    return Table(["setting", "value", *runs], cells, rows)


def _row(setting: str, curve: Curve, preset: Runs | None) -> Row:
    mean, error = mean_and_error(curve.runs.final)
    return {
        "task": curve.runs.task,
        "setting": setting,
        "value": curve.value,
        "replications": len(curve.runs.replications),
        "final": mean,
        "final error": error,
        f"p against {PRESET}": float("nan") if preset is None or curve.is_preset else p_value(curve.runs, preset),
    }


def _cell(row: Row, best: float, curve: Curve) -> str:
    text = plus_minus(float(row["final"]), float(row["final error"]))
    text = f"**{text}**" if row["final"] == best else text
    return text + (" (paper)" if curve.is_preset else " *" if float(row[f"p against {PRESET}"]) < LEVEL else "")


def _values(task: str, setting: str) -> list[Any]:
    return sorted({*SETTINGS[setting], getattr(find_task(task).config(), setting)})


def _method(task: str, setting: str, value: Any) -> str:
    is_preset = getattr(find_task(task).config(), setting) == value
    return PRESET if is_preset else f"{PRESET}[{setting}={value}]"
