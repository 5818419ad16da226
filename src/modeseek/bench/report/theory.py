"""Tables and figures of `modeseek bench theory`: the terms of Lemma 1 over n, m, t0 and w, and their rates."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from modeseek.bench.measure.measurements import as_written
from modeseek.bench.measure.theory import BASE, METHODS, SWEEPS, TASK, TASKS, TERMS, Suboptimality, load, sweep
from modeseek.bench.report import figures
from modeseek.bench.report.rates import RULE, named, rate
from modeseek.bench.report.section import Section
from modeseek.bench.report.table import Row, Table, mean_and_error
from modeseek.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDING = 2e-5  # of four stored terms, each under ten and to six digits
NAMES = dict(zip(TERMS, ("SubOpt", "E1", "E2", "gap", "W1", "ε²", "ε²(a)", "wrong noise"), strict=True))
CLAIMED = {("n", "e1"): -0.5, ("m", "e2"): -0.5, ("t0", "e2"): -2.0, ("m", "diff"): -0.5, ("t0", "diff"): -2.0}
RATED = {  # terms that change with a setting
    "n": ("subopt", "e1", "e2"),
    "m": ("subopt", "e2", "w1", "diff", "diff_a", "wrong"),
    "t0": ("subopt", "e2", "w1", "diff", "diff_a", "wrong"),
}

ByMethod = dict[str, list[Suboptimality]]


def sections(results: Path) -> list[Section]:
    """What there is of it."""
    path = results / "theory.json"
    of = {task: {m: found for m in METHODS if (found := load(path, task, m))} for task in TASKS}
    of = {task: by_method for task, by_method in of.items() if by_method}
    rated = as_written(path)(rates_table)(of)
    rates = Section("theory-rates", "How the terms of the bound change", RULE, rated)
    return [*(_section(task, by_method, path) for task, by_method in of.items()), *([rates] if rated.cells else [])]


def _section(task: str, found: ByMethod, path: Path) -> Section:
    name, on = ("theory", "") if task == TASK else (f"theory-{task}", f": {task}")
    base = ", ".join(f"{setting} = {value:g}" for setting, value in BASE.items())
    return Section(
        name,
        f"Sub-optimality of the learned distribution{on}",
        f"The terms of the paper's Lemma 1 on {task}, mean ± standard error over seeds, in standard deviations of the "
        "outcomes. a is the best pseudo-label; E1 is what the surrogate gets wrong under P_a, E2 what the diffusion "
        "model does, W1 how far apart the two distributions are on the unit cube (sliced Wasserstein). ε² is the "
        "diffusion error, the mean squared error of the learned score against the exact one of the weighted "
        "pseudo-inputs, over times from t0 to 1 and over labels, in the coordinates of the network; ε²(a) that at the "
        "label a. Times near t0 decide on both. Wrong noise is the share of the noise in noisy inputs that the score "
        "gets wrong, over all times alike and over labels, 1 for a score of zero. A model is trained whatever the "
        "pseudo-inputs. The lemma's proof takes the mean of f̂ under P_a for a, but at the best label it lies under a, "
        "by the gap: the inequality as printed fails by at most that, and SubOpt ≤ E1 + E2 + gap always holds. "
        f"{base} is one measurement, which stands in every sweep.",
        as_written(path)(table)(found),
        as_written(path)(partial(draw, found)),
    )


def table(found: ByMethod) -> Table:
    """Mean ± standard error over seeds of every term, and how often the inequality held; as numbers each once."""
    cells = [
        [method, varied, *_cells(r)] for method, of in found.items() for varied in SWEEPS for r in sweep(of, varied)
    ]
    rows: list[Row] = [
        {"method": method}
        | {setting: value for setting, value in r.settings.items()}
        | {"seeds": len(r.subopt), "diverged": r.diverged}
        | {name: float(term.mean()) if len(term) else "" for name, term in _terms(r).items()}
        for method, of in found.items()
        for r in of
    ]
    settings = ["n", "m", "t0", "w"]
    header = ["method", "varied", *settings, *NAMES.values(), "SubOpt ≤ E1 + E2", "with the gap"]
    return Table(header, cells, rows)


def _terms(r: Suboptimality) -> dict[str, Array]:
    """Of the seeds that have them."""
    return {name: term[np.isfinite(term)] for key, name in NAMES.items() for term in [getattr(r, key)]}


def _cells(r: Suboptimality) -> list[str]:
    texts = ["{:.3f} ± {:.3f}".format(*mean_and_error(term)) if len(term) else "" for term in _terms(r).values()]
    held = [f"{count} of {measured}" for count, measured in (counts(r), counts(r, with_gap=True))]
    return [f"{r.n}", f"{r.m}", f"{r.t0:g}", f"{r.w:g}", *texts, *held]


def counts(r: Suboptimality, with_gap: bool = False) -> tuple[int, int]:
    """Seeds for which the inequality held, and seeds that were measured, which are those with a model."""
    held = r.subopt <= r.e1 + r.e2 + (r.gap if with_gap else 0) + ROUNDING
    return int(held.sum()), int(np.isfinite(r.subopt).sum())


def rates_table(of: dict[str, ByMethod]) -> Table:
    """Fitted exponents of the terms, a line each."""
    cells, rows = [], list[Row]()
    for task, by_method in of.items():
        for method, found in by_method.items():
            for varied, terms in RATED.items():
                for term in terms:
                    r = rate(sweep(found, varied), varied, term)
                    if r is None:
                        continue
                    claimed = CLAIMED.get((varied, term))
                    names: Row = {"task": task, "method": method, "term": NAMES[term], "varied": varied}
                    found_here = [f"{r.exponent:+.2f} ± {r.error:.2f}", f"{r.low:+.2f} to {r.high:+.2f}"]
                    bound = "" if claimed is None else f"{claimed:+.1f}"
                    cells.append(
                        [*map(str, names.values()), *found_here, r.direction, named(r.falling), named(r.rising), bound]
                    )
                    rows.append(
                        names
                        | {"exponent": r.exponent, "error": r.error, "low": r.low, "high": r.high}
                        | {
                            "falls": named(r.falling),
                            "rises": named(r.rising),
                            "bound": "" if claimed is None else claimed,
                        }
                    )
    header = [
        "task",
        "method",
        "term",
        "varied",
        "exponent",
        "95 %",
        "direction",
        "falls from",
        "rises from",
        "in the bound",
    ]
    return Table(header, cells, rows)


def draw(found: ByMethod, path: Path) -> list[Path]:
    """The terms over n, m, t0 and w, a panel each, and a row of them for each method."""
    figure = figures.blank(3.5 * len(SWEEPS), 0.6 + 3 * len(found))
    rows = figure.subplots(len(found), len(SWEEPS), squeeze=False)
    for panels, (method, of) in zip(rows, found.items(), strict=True):
        for axes, varied in zip(panels, SWEEPS, strict=True):
            _draw_sweep(axes, sweep(of, varied), varied)
        panels[0].set_ylabel(f"{method}\nstandard deviations of the outcomes")
    figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figures.save(figure, path)


def _draw_sweep(axes: Axes, found: list[Suboptimality], varied: str) -> None:
    x = [getattr(r, varied) for r in found]
    for label, terms, colour in (
        ("SubOpt", [r.subopt for r in found], figures.PALETTE[0]),
        ("E1", [r.e1 for r in found], figures.PALETTE[2]),
        ("E2", [r.e2 for r in found], figures.PALETTE[3]),
        ("E1 + E2", [r.e1 + r.e2 for r in found], figures.PALETTE[8]),
    ):
        mean, error = np.array([mean_and_error(term[np.isfinite(term)]) for term in terms]).reshape(-1, 2).T
        dashes = "--" if label == "E1 + E2" else "-"  # on which SubOpt mostly lies
        axes.errorbar(x, mean, error, marker="o", markersize=3, color=colour, label=label, linestyle=dashes)
    axes.set(xscale="linear" if varied == "w" else "log", xlabel=varied)
