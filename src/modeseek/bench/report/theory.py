"""Table and figure of `modeseek bench theory`: the terms of Lemma 1 over n, m, t0 and w."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from modeseek.bench.measure.measurements import as_written
from modeseek.bench.measure.theory import TASK, TASKS, Suboptimality, load
from modeseek.bench.report import figures
from modeseek.bench.report.section import Section
from modeseek.bench.report.table import Row, Table, mean_and_error

ROUNDING = 2e-5  # of four stored terms, each under ten and to six digits


def sections(results: Path) -> list[Section]:
    """What there is of it."""
    path = results / "theory.json"
    return [_section(task, found, path) for task in TASKS if (found := load(path, task))]


def _section(task: str, found: dict[str, list[Suboptimality]], path: Path) -> Section:
    name, on = ("theory", "") if task == TASK else (f"theory-{task}", f": {task}")
    return Section(
        name,
        f"Sub-optimality of the learned distribution{on}",
        f"The terms of the paper's Lemma 1 on {task}, mean ± standard error over seeds, in standard "
        "deviations of the outcomes. a is the best pseudo-label; E1 is what the surrogate gets wrong under P_a, E2 "
        "what the diffusion model does, W1 how far apart the two distributions are on the unit cube (sliced "
        "Wasserstein). A model is trained whatever the pseudo-inputs. The lemma's proof takes the mean of f̂ under P_a "
        "for a, but at the best label it lies under a, by the gap: the inequality as printed fails by at most that, "
        "and SubOpt ≤ E1 + E2 + gap always holds.",
        as_written(path)(table)(found),
        as_written(path)(partial(draw, found)),
    )


def table(results: dict[str, list[Suboptimality]]) -> Table:
    """Mean ± standard error over seeds of every term, and how often the inequality held."""
    cells, rows = [], list[Row]()
    for varied, found in results.items():
        for r in found:
            terms = {"SubOpt": r.subopt, "E1": r.e1, "E2": r.e2, "gap": r.gap, "W1": r.w1}
            held, with_gap = (_count(r.subopt <= r.e1 + r.e2 + more + ROUNDING) for more in (0.0, r.gap))
            place: Row = {"varied": varied, "n": r.n, "m": r.m, "t0": r.t0, "w": r.w, "seeds": len(r.subopt)}
            texts = ["{:.3f} ± {:.3f}".format(*mean_and_error(term)) if len(term) else "" for term in terms.values()]
            cells.append([varied, str(r.n), str(r.m), f"{r.t0:g}", f"{r.w:g}", *texts, held, with_gap])
            rows.append(place | {name: float(term.mean()) if len(term) else "" for name, term in terms.items()})
    header = ["varied", "n", "m", "t0", "w", "SubOpt", "E1", "E2", "gap", "W1", "SubOpt ≤ E1 + E2", "with the gap"]
    return Table(header, cells, rows)


def _count(held: np.ndarray) -> str:
    return f"{int(held.sum())} of {len(held)}"


def draw(results: dict[str, list[Suboptimality]], path: Path) -> list[Path]:
    """The terms over n, m, t0 and w, a panel each."""
    figure = figures.blank(3.5 * len(results), 3.6)
    panels = figure.subplots(1, len(results), squeeze=False)[0]
    for axes, (varied, found) in zip(panels, results.items(), strict=True):
        x = [getattr(r, varied) for r in found]
        for label, terms, colour in (
            ("SubOpt", [r.subopt for r in found], figures.PALETTE[0]),
            ("E1", [r.e1 for r in found], figures.PALETTE[2]),
            ("E2", [r.e2 for r in found], figures.PALETTE[3]),
            ("E1 + E2", [r.e1 + r.e2 for r in found], figures.PALETTE[8]),
        ):
            mean, error = np.array([mean_and_error(term) for term in terms]).T
            dashes = "--" if label == "E1 + E2" else "-"  # on which SubOpt mostly lies
            axes.errorbar(x, mean, error, marker="o", markersize=3, color=colour, label=label, linestyle=dashes)
        axes.set(xscale="linear" if varied == "w" else "log", xlabel=varied)
    panels[0].set_ylabel("standard deviations of the outcomes")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figures.save(figure, path)
