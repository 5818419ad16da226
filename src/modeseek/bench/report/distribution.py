"""Table and figure of `modeseek bench distribution`: x* by the GP and by the diffusion model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from modeseek.bench.measure.distribution import TASK, OptimumSamples, energy_distance, load, spread
from modeseek.bench.measure.measurements import as_written
from modeseek.bench.report import figures
from modeseek.bench.report.section import Section
from modeseek.bench.report.table import Row, Table, mean_and_error, plus_minus
from modeseek.bench.tasks import find_task
from modeseek.errors import ConfigError
from modeseek.typing import Array

LEARNED_ROW = "GP to a model of (x*, y*)"

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def sections(results: Path) -> list[Section]:
    """What there is of it."""
    path = results / "distribution.json"
    if not (taken := load(path)):
        return []
    return [
        Section(
            "distribution",
            "Distribution of x*: GP and diffusion model",
            "Styblinski-Tang-2, the paper's presets (its App. C), means ± standard errors over replications; the "
            "figure has the first of each. Energy distance of the GP's samples (maxima of posterior paths) to the "
            "diffusion model's candidates, to samples of a model that is trained on the optima (x*, y*) of such paths, "
            "to a second set of the GP's and to uniform points. Spread: root mean squared distance from the mean. Both "
            "on the unit square. Iterations without a model, where all pseudo-inputs were one point or the model gave "
            "nothing finite, are counted apart, and left out of what is said of the diffusion model.",
            as_written(path)(table)(taken),
            as_written(path)(partial(draw, taken)),
        )
    ]


def table(taken: Sequence[OptimumSamples]) -> Table:
    """Energy distances and spreads: a line per preset and iteration in the mean, a row per replication."""
    rows: list[Row] = [
        {
            "method": s.method,
            "replication": s.replication,
            "iteration": s.iteration,
            "without a model": int(s.fell_back),
            "GP to diffusion": energy_distance(s.gp, s.diffusion),
            **({} if s.learned is None else {LEARNED_ROW: energy_distance(s.gp, s.learned)}),
            "GP to GP (floor)": energy_distance(s.gp, s.gp_again),
            "GP to uniform": energy_distance(s.gp, s.uniform),
            "spread, GP": spread(s.gp),
            "spread, diffusion": spread(s.diffusion),
        }
        for s in taken
    ]
    measured = ["GP to diffusion", LEARNED_ROW, "GP to GP (floor)", "GP to uniform", "spread, GP", "spread, diffusion"]
    measured = [name for name in measured if any(name in row for row in rows)]
    cells = []
    for method, iteration in dict.fromkeys((s.method, s.iteration) for s in taken):
        of = [row for row in rows if (row["method"], row["iteration"]) == (method, iteration)]
        means = []
        for name in measured:
            kept = [float(row[name]) for row in of if name in row and not (row["without a model"] and "diff" in name)]
            means.append(plus_minus(*mean_and_error(np.array(kept))) if kept else "")
        without = sum(int(row["without a model"]) for row in of)
        cells.append([method, str(iteration), str(len(of)), str(without), *means])
    return Table(["method", "iteration", "replications", "without a model", *measured], cells, rows)


def draw(taken: Sequence[OptimumSamples], path: Path) -> list[Path]:
    """Samples of x* over the objective's contours, from the GP and from the diffusion model, and their marginals.

    Of each preset the first replication is drawn.
    """
    first: dict[str, int] = {}
    for s in taken:
        first[s.method] = min(s.replication, first.get(s.method, s.replication))
    shown = [s for s in taken if s.replication == first[s.method]]
    figure = figures.blank(14, 3.5 * len(shown) + 0.3)
    edges = space_units(np.linspace([0, 0], [1, 1], 41))
    for row, s in zip(figure.subplots(len(shown), 4, squeeze=False), shown, strict=True):
        samples = (("GP", "#1f77b4", space_units(s.gp)), ("diffusion model", "#d62728", space_units(s.diffusion)))
        for axes, (by, colour, x) in zip(row[:2], samples, strict=True):
            _draw_contours(axes)
            axes.scatter(*space_units(s.observed).T, s=16, marker="x", linewidth=1, color="black", label="observed")
            axes.scatter(*x.T, s=10, color=colour, alpha=0.6, label=f"x* by the {by}")
            axes.set(title=by, xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
        row[0].set_ylabel(f"{s.method}, iteration {s.iteration}\n$x_2$")
        for i, axes in enumerate(row[2:]):
            for _, colour, x in samples:
                axes.hist(x[:, i], bins=edges[:, i], color=colour, alpha=0.5)
            axes.set(title=f"marginal of $x_{i + 1}$", xlabel=f"$x_{i + 1}$", ylabel="samples")
    handles = {h.get_label(): h for axes in row[:2] for h in axes.get_legend_handles_labels()[0]}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
    return figures.save(figure, path)


def _draw_contours(axes: Axes) -> None:
    problem = find_task(TASK)
    if problem.values is None:
        raise ConfigError(f"the contours of {TASK!r} are drawn from its values, which it does not have")
    u = torch.cartesian_prod(*[torch.linspace(0, 1, 150, dtype=torch.float64)] * 2)
    x, y = (c.reshape(150, 150) for c in space_units(u.numpy()).T)
    axes.contourf(x, y, problem.values(u).reshape(150, 150).numpy(), levels=20, cmap="Greys_r", alpha=0.6)


def space_units(u: Array) -> Array:
    """Points of the unit cube (n x 2) in the task's own units."""
    decode = find_task(TASK).space.decode
    return np.array([decode(point) for point in u])
