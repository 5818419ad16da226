"""Figures of a report, by matplotlib: regret over evaluations, the ablations, the distributions of x*."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from modeseek.bench.measure import distribution
from modeseek.bench.measure.distribution import Snapshot
from modeseek.bench.measure.measurements import where
from modeseek.bench.methods import method_names
from modeseek.bench.report import ablations
from modeseek.bench.report.tables import REGRET_FLOOR, Gathered, Runs, in_order
from modeseek.bench.tasks import find_task
from modeseek.dms import STAGES
from modeseek.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#d62728", "#ff7f0e", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#7f7f7f")


class Style(NamedTuple):
    """Of a method's line; DMS is thick."""

    colour: str
    dashed: bool
    thick: bool


class Band(NamedTuple):
    """Mean regret and one standard error on either side, from the end of the initial design on."""

    number: Array  # of evaluations
    mean: Array
    low: Array
    high: Array


def band(runs: Runs) -> Band:
    """The curve of a method; on a logarithmic axis nothing is under the floor."""
    curve = runs.regret[:, runs.n_initial - 1 :]
    mean = curve.mean(axis=0)
    error = curve.std(axis=0, ddof=1) / np.sqrt(len(curve)) if len(curve) > 1 else np.zeros_like(mean)
    mean, low, high = (np.maximum(values, REGRET_FLOOR) for values in (mean, mean - error, mean + error))
    return Band(np.arange(runs.n_initial, runs.regret.shape[1] + 1), mean, low, high)


def limits(bands: Sequence[Band]) -> tuple[float, float]:
    """Of an axis that shows the means: an error as large as its mean would reach down without end."""
    return 0.6 * min(float(b.mean.min()) for b in bands), 1.2 * max(float(b.high.max()) for b in bands)


def styles(runs: Gathered) -> dict[str, Style]:
    """A style a method, the same in every panel and figure; those that find no colour left are dashed."""
    present = in_order({name for methods in runs.values() for name in methods})
    names = dict.fromkeys([*in_order(method_names()), *present])  # those that are not here keep their colours
    solid, dashed = ((colour, False) for colour in PALETTE), ((colour, True) for colour in PALETTE[2:])
    lines = dict(zip(names, itertools.cycle([*solid, *dashed]), strict=False))
    return {name: Style(*lines[name], thick=name.startswith("dms")) for name in present}


def draw_regret(runs: Gathered, path: Path) -> list[Path]:
    """Mean simple regret and one standard error over evaluations, a panel a task: PNG and PDF."""
    columns = min(4, len(runs))
    rows = -(-len(runs) // columns)
    figure = _figure(3.6 * columns, 3.0 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    style = styles(runs)
    for panel, (task, methods) in zip(panels, runs.items(), strict=False):
        for name, r in methods.items():
            _draw_band(panel, band(r), name, style[name])
        panel.set(title=f"{task} ({_counts(methods)} runs)", xlabel="evaluations")
        _scale(panel, limits([band(r) for r in methods.values()]))
    for panel in panels[len(runs) :]:
        panel.set_axis_off()
    handles = {h.get_label(): h for panel in panels[: len(runs)] for h in panel.get_lines()}
    named = [name for name in style if name in handles]
    entries = [handles[name] for name in named]
    figure.supylabel("mean simple regret ± standard error", fontsize=11)
    figure.legend(entries, named, loc="outside lower center", ncols=2 * columns, frameon=False)
    return _save(figure, path)


def draw_ablations(runs: Gathered, path: Path) -> list[Path]:
    """A row a task, a column a setting, a curve a value; the preset's is thick."""
    settings = [s for s in ablations.SETTINGS if any(ablations.curves(runs, task, s) for task in runs)]
    figure = _figure(3.2 * len(settings), 2.9 * len(runs))
    panels = figure.subplots(len(runs), len(settings), squeeze=False)
    for row, task in zip(panels, runs, strict=True):
        for panel, setting in zip(row, settings, strict=True):
            found = ablations.curves(runs, task, setting)
            if not found:
                panel.set_axis_off()
                continue
            others = iter(PALETTE[1:])
            for curve in found:
                label = f"{curve.value} (paper)" if curve.is_preset else str(curve.value)
                style = Style(PALETTE[0] if curve.is_preset else next(others), False, curve.is_preset)
                _draw_band(panel, band(curve.runs), label, style)
            _scale(panel, limits([band(curve.runs) for curve in found]))
            panel.set_title(f"{task}\n{ablations.TITLES[setting]}", fontsize=9)
            panel.legend(fontsize=8, framealpha=0.7, edgecolor="none")
    figure.supxlabel("evaluations", fontsize=11)
    figure.supylabel("mean simple regret ± standard error", fontsize=11)
    return _save(figure, path)


def draw_distribution(taken: Sequence[Snapshot], path: Path) -> list[Path]:
    """Samples of x* over the objective's contours, from the GP and from the diffusion model, and their marginals."""
    figure = _figure(14, 3.5 * len(taken) + 0.3)
    edges = space_units(np.linspace([0, 0], [1, 1], 41))
    for row, s in zip(figure.subplots(len(taken), 4, squeeze=False), taken, strict=True):
        samples = (("GP", "#1f77b4", space_units(s.gp)), ("diffusion model", "#d62728", space_units(s.diffusion)))
        for axes, (by, colour, x) in zip(row[:2], samples, strict=True):
            _draw_contours(axes)
            axes.scatter(*space_units(s.observed).T, s=16, marker="x", linewidth=1, color="black", label="observed")
            axes.scatter(*x.T, s=10, color=colour, alpha=0.6, label=f"x* by the {by}")
            axes.set(title=f"iteration {s.iteration}, {by}", xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
        for i, axes in enumerate(row[2:]):
            for _, colour, x in samples:
                axes.hist(x[:, i], bins=edges[:, i], color=colour, alpha=0.5)
            axes.set(title=f"iteration {s.iteration}, marginal of $x_{i + 1}$", xlabel=f"$x_{i + 1}$", ylabel="samples")
    handles = {h.get_label(): h for axes in row[:2] for h in axes.get_legend_handles_labels()[0]}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
    return _save(figure, path)


def draw_growth(measurements: Sequence[dict[str, Any]], path: Path) -> list[Path]:
    """Seconds an iteration over d, n, m and S, on logarithmic axes, in all and by stage: a row a line of the table."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for m in measurements:
        groups.setdefault((where(m), m["batch"]), []).append(m)
    figure = _figure(14, 3.3 * len(groups) + 0.5)
    sizes = list(dict.fromkeys(m["size"] for m in measurements))
    for row, ((place, batch), group) in zip(
        figure.subplots(len(groups), len(sizes), squeeze=False, sharey="row"), groups.items(), strict=True
    ):
        for axes, size in zip(row, sizes, strict=True):
            points = sorted((m for m in group if m["size"] == size), key=lambda m: m["value"])
            values = [m["value"] for m in points]
            for stage, colour in zip(STAGES, PALETTE[1:], strict=False):
                axes.plot(values, [m["stages"][stage] for m in points], color=colour, linewidth=1.1, label=stage)
            axes.plot(values, [m["seconds"] for m in points], "o-", color=PALETTE[0], linewidth=2.2, label="all")
            axes.set(xscale="log", yscale="log", xlabel=size, title=f"{place}, batch of {batch}")
            axes.title.set_fontsize(9)
        row[0].set_ylabel("seconds an iteration")
    handles = {h.get_label(): h for h in row[0].get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, frameon=False)
    return _save(figure, path)


def _draw_contours(axes: Axes) -> None:
    problem = find_task(distribution.TASK)
    assert problem.values is not None
    u = torch.cartesian_prod(*[torch.linspace(0, 1, 150, dtype=torch.float64)] * 2)
    x, y = (c.reshape(150, 150) for c in space_units(u.numpy()).T)
    axes.contourf(x, y, problem.values(u).reshape(150, 150).numpy(), levels=20, cmap="Greys_r", alpha=0.6)


def space_units(u: Array) -> Array:
    """Points of the unit cube (n x 2) in the task's own units."""
    decode = find_task(distribution.TASK).space.decode
    return np.array([decode(point) for point in u])


def _draw_band(axes: Axes, b: Band, label: str, style: Style) -> None:
    axes.plot(
        b.number,
        b.mean,
        color=style.colour,
        linestyle="--" if style.dashed else "-",
        linewidth=2.2 if style.thick else 1.1,
        zorder=3 if style.thick else 2,
        label=label,
    )
    axes.fill_between(b.number, b.low, b.high, color=style.colour, alpha=0.13, linewidth=0)


def _scale(axes: Axes, of_regret: tuple[float, float]) -> None:
    from matplotlib.ticker import LogLocator

    low, high = of_regret
    axes.set(yscale="log", ylim=(low, high))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axes.yaxis.set_minor_formatter("{x:g}" if high < 50 * low else "")


def _counts(methods: dict[str, Runs]) -> str:
    counts = sorted({len(r.replications) for r in methods.values()})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: Path) -> list[Path]:
    written = [path.with_suffix(suffix) for suffix in (".png", ".pdf")]
    for file in written:
        figure.savefig(file, dpi=150)
    return written
