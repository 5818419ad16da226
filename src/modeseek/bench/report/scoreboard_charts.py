"""The scoreboard's charts: data for the page, where `web/scoreboard.js` draws what is selected, and a figure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from modeseek.bench.report import figures, page
from modeseek.bench.report.charts import rounded
from modeseek.bench.report.curves import LEVEL, REFERENCE, Verdict
from modeseek.bench.report.figures import Style
from modeseek.bench.report.ranking import Ranking, nemenyi_quantile
from modeseek.bench.report.scoreboard import COVERAGE, TITLES, Board
from modeseek.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 70  # of an ECDF
LETTER: dict[Verdict, str] = {"better": "+", "level": "=", "worse": "-"}
FUNCTIONS = {  # of COCO's functions
    "f01": "sphere",
    "f02": "ellipsoid, separable",
    "f04": "Büche–Rastrigin",
    "f05": "linear slope",
    "f07": "step ellipsoid",
    "f09": "Rosenbrock, rotated",
    "f11": "discus",
    "f12": "bent cigar",
    "f13": "sharp ridge",
    "f14": "different powers",
    "f16": "Weierstrass",
    "f18": "Schaffers F7, ill-conditioned",
    "f19": "Griewank–Rosenbrock",
    "f20": "Schwefel",
    "f23": "Katsuura",
}


def html(board: Board) -> str:
    """The scoreboard of the page."""
    return f'<div class="scoreboard">{page.style_data(styles_of(board))}{page.data("board", content(board))}</div>'


def styles_of(board: Board) -> dict[str, Style]:
    """As in all figures."""
    return figures.styles_of(board.methods)


def content(board: Board) -> dict[str, Any]:
    """What `scoreboard.js` reads. Selections are keyed "suite|d", with nothing for all dimensions."""
    parts = {f"{suite}|{'' if d is None else d}": board.select(suite, d) for suite, d in board.selections}
    functions = board.functions
    return {
        "methods": list(board.methods),
        "reference": REFERENCE,
        "suites": [{"name": name, "title": TITLES.get(name, name)} for name in board.suites],
        "functions": [{"suite": suite, "name": name, "title": FUNCTIONS.get(name, "")} for suite, name in functions],
        "problems": [
            [functions.index((place.suite, place.function)), place.d, *_dense(row)]
            for place, row in zip(board.places, board.final, strict=True)
        ],
        "parts": {key: _part(board, part) for key, part in parts.items()},
        "coverage": COVERAGE,
        "quantiles": [0, 0, *rounded(nemenyi_quantile(k) for k in range(2, len(board.methods) + 1))],
        "friedman": [0, 0, *rounded(float(stats.chi2.isf(LEVEL, k - 1)) for k in range(2, len(board.methods) + 1))],
    }


def _dense(losses: Array) -> list[int]:
    """Which place a method has on a problem, from 1 on; equal losses share it, and 0 stands for no run."""
    places = np.unique(losses[np.isfinite(losses)], return_inverse=True)[1] + 1
    found = np.zeros(len(losses), dtype=int)
    found[np.isfinite(losses)] = places
    return [int(place) for place in found]


def _part(board: Board, part: Board) -> dict[str, Any]:
    """ECDFs, seconds, the reference beside each method; for each function and method the others with verdicts."""
    grid = _grid(part)
    number = {method: i for i, method in enumerate(board.methods)}
    rivals = {}
    for suite, function in part.functions:
        of = part.select(suite, function=function).rivals
        listed = {
            m: [[number[other], LETTER[verdict]] for other, verdict in others] for m, others in of.items() if others
        }
        rivals[function] = {str(number[m]): others for m, others in listed.items()}
    return {
        "grid": rounded(grid),
        "solved": {str(number[m]): rounded(part.solved(m, grid)) for m in part.methods},
        "seconds": {str(number[m]): seconds_of(part, m) for m in part.methods},
        "beside": {str(number[m]): beside_reference(part, m) for m in part.methods},
        "rivals": rivals,
    }


def seconds_of(part: Board, method: str) -> str:
    """Seconds per suggestion and what they were measured on, for a cell."""
    seconds = part.median_seconds(method)
    return "" if math.isnan(seconds) else f"{seconds:.2g} ({part.devices[method]})"


def beside_reference(part: Board, method: str) -> str:
    """Functions on which the reference is better / level / worse than a method, and what the test says, for a cell."""
    if REFERENCE not in part.methods or method == REFERENCE:
        return ""
    found = part.beside(REFERENCE, method)
    if not found.better + found.level + found.worse:
        return ""
    counts = f"{found.better} / {found.level} / {found.worse}"
    return counts if found.verdict in (None, "level") else f"{counts}, {found.verdict}"


def _grid(part: Board) -> Array:
    """Evaluations over d, evenly on a logarithmic axis up to where the last target was reached."""
    times = part.reached[np.isfinite(part.reached)]
    last = float(times.max()) if len(times) else 10.0
    return np.asarray(np.geomspace(min(1.0, last / 10), last, POINTS))


def draw(board: Board, path: Path) -> list[Path]:
    """Per suite and dimension, ECDFs over the diagram of critical differences."""
    selections = board.selections
    columns = min(4, len(selections))
    rows = -(-len(selections) // columns)
    figure = figures.blank(4.2 * columns, 5.6 * rows + 0.5)
    panels = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[3, 2.6] * rows)
    style = styles_of(board)
    for number in range(rows * columns):
        row, column = divmod(number, columns)
        above, below = panels[2 * row, column], panels[2 * row + 1, column]
        below.set_axis_off()
        if number >= len(selections):
            above.set_axis_off()
            continue
        suite, d = selections[number]
        part = board.select(suite, d)
        _draw_ecdf(above, part, style)
        above.set_title(f"{TITLES.get(suite, suite)}, {'all dimensions' if d is None else f'd = {d}'}")
        _draw_ranking(below, part.ranking(), style)
    handles = {h.get_label(): h for panel in panels[::2].ravel() for h in panel.get_lines()}
    named = [label for label in map(figures.plain, style) if label in handles]
    figure.legend([handles[n] for n in named], named, loc="outside lower center", ncols=2 * columns, frameon=False)
    return figures.save(figure, path)


def _draw_ecdf(axes: Axes, part: Board, style: dict[str, Style]) -> None:
    grid = _grid(part)
    comparable = part.ranked()  # others ran easier or harder problems
    for method in reversed(comparable if len(comparable) > 1 else part.methods):
        of = style[method]
        width = 2.2 if of.thick else 1.1
        label = figures.plain(method)
        axes.plot(grid, part.solved(method, grid), color=of.colour, linestyle=of.line, linewidth=width, label=label)
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set(xscale="log", xlim=(grid[0], grid[-1]), ylim=(0, None))
    axes.set(xlabel="evaluations / d", ylabel="share of targets solved")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


def _draw_ranking(axes: Axes, ranking: Ranking, style: dict[str, Style]) -> None:
    """Demsar's diagram, on its side: a line per method, the best on top, and bars over those that are level."""
    k = len(ranking.methods)
    if not ranking.n or k < 2:
        return
    for i, (method, rank) in enumerate(zip(ranking.methods, ranking.ranks, strict=True)):
        axes.plot([1, rank], [i, i], color="#ccc", linewidth=0.8)
        axes.plot([rank], [i], "o", color=style[method].colour, markersize=4)
        axes.annotate(f"{figures.plain(method)}  {rank:.2f}", (0.8, i), ha="right", va="center", fontsize=7)
    for number, (first, last) in enumerate(ranking.groups):
        axes.plot([k + 0.6 + 0.5 * number] * 2, [first - 0.25, last + 0.25], color="#333", linewidth=2.5)
    axes.set(xlim=(-0.35 * k, k + 1 + 0.5 * len(ranking.groups)), ylim=(k + 0.6, -1.2))
    difference = ranking.critical_difference
    axes.plot([1, 1 + difference], [-0.9, -0.9], color="#333", linewidth=1.2)
    axes.annotate(f"critical difference, {ranking.n} problems", (1.2 + difference, -0.9), fontsize=7, va="center")
