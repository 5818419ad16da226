"""The paper's five ablations (App. B.7), and one of ours: the paper's preset with one setting changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from modeseek.bench.methods.variants import PRESET, SETTINGS, TAKEN_APART, WITHOUT, ablation, ablations, values
from modeseek.bench.report import departures, figures
from modeseek.bench.report.curves import Curves, Gathered, is_known, p_value, unbeaten, verdict
from modeseek.bench.report.table import Row, Table, mean_and_error, plus_minus

TITLES = {
    "train_on": "training data",
    "rho": "ρ, weight of σ",
    "K": "K, steps of L-BFGS",
    "m": "m, pseudo-dataset",
    "S": "S, candidates",
    "keep_apart": "K by the data (ours)",
}


class Variant(NamedTuple):
    """Curves with one value of a setting."""

    value: Any
    curves: Curves

    @property
    def is_preset(self) -> bool:
        """Whether this is the paper's value for the task."""
        return self.curves.method == PRESET


class Split(NamedTuple):
    """Curves by what they are for; the preset's and the default's are both compared and beside their variants."""

    compared: Gathered
    ablated: Gathered  # tasks with variants of the preset
    removed: Gathered  # tasks with variants of the default
    departed: Gathered  # tasks with variants between the presets


def split(gathered: Gathered) -> Split:
    """The curves that a comparison of methods is about, those of ablations, and those of missing ingredients."""
    ablated = {task: set(ablations(task)) - {PRESET} if is_known(task) else set[str]() for task in gathered}
    removed = {task: set(WITHOUT) for task in gathered}
    apart = {task: ablated[task] | removed[task] | departures.only_here(task) for task in gathered}
    compared = {task: {n: c for n, c in of.items() if n not in apart[task]} for task, of in gathered.items()}
    return Split(
        {task: of for task, of in compared.items() if of},
        _beside(gathered, PRESET, ablated),
        _beside(gathered, TAKEN_APART, removed),
        departures.beside(gathered),
    )


def _beside(gathered: Gathered, base: str, variants: dict[str, set[str]]) -> Gathered:
    """The base and its variants, of the tasks that have variants."""
    return {
        task: {n: c for n, c in of.items() if n == base or n in variants[task]}
        for task, of in gathered.items()
        if not variants[task].isdisjoint(of)
    }


def variants_of(gathered: Gathered, task: str, setting: str) -> list[Variant]:
    """What there is of an ablation, by value; nothing where only the preset was run."""
    found = [
        Variant(value, gathered[task][name])
        for value in values(task, setting)
        if (name := ablation(task, setting, value)) in gathered[task]
    ]
    return [] if all(variant.is_preset for variant in found) else found


def table(gathered: Gathered) -> Table:
    """Final regret: a line per value, a column per task, with the verdicts of tests against the preset.

    In bold what no other value of the setting is significantly better than.
    """
    rows: list[Row] = []
    cells = []
    for setting, title in TITLES.items():
        by_task = {task: {v.value: v for v in variants_of(gathered, task, setting)} for task in gathered}
        for value in sorted({value for found in by_task.values() for value in found}):
            present = {task: found[value] for task, found in by_task.items() if value in found}
            of_value = {task: _row(setting, v, gathered[task].get(PRESET)) for task, v in present.items()}
            for task, row in of_value.items():
                row["unbeaten"] = int(present[task].curves.method in _unbeaten(by_task[task]))
            rows += of_value.values()
            texts = [_cell(of_value[t], present[t]) if t in present else "" for t in gathered]
            cells.append([title, str(value), *texts])
    return Table(["setting", "value", *gathered], cells, rows)


def _unbeaten(variants: dict[Any, Variant]) -> set[str]:
    return unbeaten({v.curves.method: v.curves for v in variants.values()}, "final")


def _row(setting: str, variant: Variant, preset: Curves | None) -> Row:
    mean, error = mean_and_error(variant.curves.final)
    tested = preset is not None and not variant.is_preset
    return {
        "task": variant.curves.task,
        "setting": setting,
        "value": variant.value,
        "replications": len(variant.curves.replications),
        "final": mean,
        "final error": error,
        f"p against {PRESET}": p_value(variant.curves, preset) if preset and tested else float("nan"),
        f"beside {PRESET}": (verdict(variant.curves, preset, "final") or "") if preset and tested else "",
    }


def _cell(row: Row, variant: Variant) -> str:
    text = plus_minus(float(row["final"]), float(row["final error"]))
    text = f"**{text}**" if row["unbeaten"] else text
    judged = row[f"beside {PRESET}"]
    return text + (" (paper)" if variant.is_preset else f" {judged}" if judged in ("better", "worse") else "")


def draw(gathered: Gathered, path: Path) -> list[Path]:
    """A row per task, a column per setting, a curve per value; the preset's is thick."""
    settings = [s for s in SETTINGS if any(variants_of(gathered, task, s) for task in gathered)]
    figure = figures.blank(3.2 * len(settings), 2.9 * len(gathered))
    panels = figure.subplots(len(gathered), len(settings), squeeze=False)
    for row, task in zip(panels, gathered, strict=True):
        for panel, setting in zip(row, settings, strict=True):
            found = variants_of(gathered, task, setting)
            if not found:
                panel.set_axis_off()
                continue
            others = iter(figures.PALETTE[1:])
            for variant in found:
                label = f"{variant.value} (paper)" if variant.is_preset else str(variant.value)
                colour = figures.PALETTE[0] if variant.is_preset else next(others)
                style = figures.Style(colour, "-", variant.is_preset)
                figures.draw_band(panel, figures.band(variant.curves), label, style)
            figures.scale(panel, figures.limits([figures.band(variant.curves) for variant in found]))
            panel.set_title(f"{task}\n{TITLES[setting]}", fontsize=9)
            panel.legend(fontsize=8, framealpha=0.7, edgecolor="none")
    figure.supxlabel("evaluations", fontsize=11)
    figure.supylabel("mean simple regret ± standard error", fontsize=11)
    return figures.save(figure, path)
