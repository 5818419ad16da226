"""What the report's figures have in common, by matplotlib, and regret over evaluations.

Names of tasks and methods are drawn as they are: a method may be called `$\\frac{$`, which is not a formula.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from modeseek.bench.methods import method_names
from modeseek.bench.report.curves import REGRET_FLOOR, Curves, Gathered, in_order
from modeseek.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = (
    *("#d62728", "#ff7f0e", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#7f7f7f"),
    *("#bcbd22", "#4055c8", "#0f7b6c"),
)
# What most charts are about: these get the solid lines, as far as there are colours.
PROMINENT = (
    *(
        "dms",
        "logei",
        "ucb",
        "cma",
        "vizier",
        "turbo",
        "gpsampler",
        "hebo",
        "sobol",
        "ax",
        "smac-hpo",
        "tpe-multivariate",
    ),
    *("smac-bb", "qlognei", "nevergrad", "random", "tpe"),
)


class Style(NamedTuple):
    """Of a method's line; DMS is thick."""

    colour: str
    line: str  # "-", "--", ":" or "-."
    thick: bool


class Band(NamedTuple):
    """Mean regret and one standard error on either side, from the end of the initial design on."""

    number: Array  # of evaluations
    mean: Array
    low: Array
    high: Array


def band(curves: Curves) -> Band:
    """The curve of a method; on a logarithmic axis nothing is under the floor."""
    curve = curves.regret[:, curves.n_initial - 1 :]
    mean = curve.mean(axis=0)
    error = curve.std(axis=0, ddof=1) / np.sqrt(len(curve)) if len(curve) > 1 else np.zeros_like(mean)
    mean, low, high = (np.maximum(values, REGRET_FLOOR) for values in (mean, mean - error, mean + error))
    return Band(np.arange(curves.n_initial, curves.regret.shape[1] + 1), mean, low, high)


def limits(bands: Sequence[Band]) -> tuple[float, float]:
    """Of an axis that shows the means: an error as large as its mean would reach down without end."""
    low, high = min(float(b.mean.min()) for b in bands), max(float(b.high.max()) for b in bands)
    room = max((high / low) ** 0.06, 1.05)
    return low / room, high * room


def styles(gathered: Gathered) -> dict[str, Style]:
    """A style per method, the same in every panel and figure."""
    return styles_of({name for methods in gathered.values() for name in methods})


def styles_of(methods: Collection[str]) -> dict[str, Style]:
    """A style per method; those that find no colour left are dashed or dotted."""
    present = in_order(methods)
    names = dict.fromkeys(
        [*PROMINENT, *in_order(method_names()), *present]
    )  # those that are not here keep their colours
    free = [(colour, line) for line in ("-", "--", ":", "-.") for colour in PALETTE]
    lines = dict(zip(names, itertools.cycle(free), strict=False))
    return {name: Style(*lines[name], thick=name.startswith("dms")) for name in present}


def draw_regret(gathered: Gathered, path: Path) -> list[Path]:
    """Mean simple regret and one standard error over evaluations, one panel per task: PNG and PDF."""
    columns = min(4, len(gathered))
    rows = -(-len(gathered) // columns)
    figure = blank(3.6 * columns, 3.0 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    style = styles(gathered)
    for panel, (task, methods) in zip(panels, gathered.items(), strict=False):
        for name, c in methods.items():
            draw_band(panel, band(c), plain(name), style[name])
        panel.set(title=f"{plain(task)} (n = {counts(methods)})", xlabel="evaluations")
        scale(panel, limits([band(c) for c in methods.values()]))
    for panel in panels[len(gathered) :]:
        panel.set_axis_off()
    handles = {h.get_label(): h for panel in panels[: len(gathered)] for h in panel.get_lines()}
    named = [label for label in map(plain, style) if label in handles]
    entries = [handles[label] for label in named]
    figure.supylabel("mean simple regret ± standard error", fontsize=11)
    figure.legend(entries, named, loc="outside lower center", ncols=2 * columns, frameon=False)
    return save(figure, path)


def plain(name: str) -> str:
    """A name as matplotlib draws it to the letter."""
    return name.replace("$", r"\$")


def draw_band(axes: Axes, b: Band, label: str, style: Style) -> None:
    """A curve and its error."""
    axes.plot(
        b.number,
        b.mean,
        color=style.colour,
        linestyle=style.line,
        linewidth=2.2 if style.thick else 1.1,
        zorder=3 if style.thick else 2,
        label=label,
    )
    axes.fill_between(b.number, b.low, b.high, color=style.colour, alpha=0.13, linewidth=0)


def scale(axes: Axes, of_regret: tuple[float, float]) -> None:
    """A logarithmic axis of regret, with plain numbers."""
    from matplotlib.ticker import LogLocator

    low, high = of_regret
    axes.set(yscale="log", ylim=(low, high))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axes.yaxis.set_minor_formatter("{x:g}" if high < 50 * low else "")


def counts(methods: dict[str, Curves]) -> str:
    """How many replications the methods have."""
    found = sorted({len(c.replications) for c in methods.values()})
    return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"


def blank(width: float, height: float) -> Figure:
    """A figure of this size in inches, with nothing in it."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF; the files, the PNG first."""
    written = [path.with_name(path.name + suffix) for suffix in (".png", ".pdf")]
    for file in written:
        figure.savefig(file, dpi=150)
    return written
