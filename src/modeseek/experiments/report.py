"""`modeseek report`: figures, tables and one HTML page from stored records."""

from __future__ import annotations

import html
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from modeseek import problems
from modeseek.errors import ModeseekError
from modeseek.experiments.records import Store
from modeseek.experiments.tables import REGRET_FLOOR, Runs, gather, seconds_table, summary_rows, summary_table, to_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Gathered = dict[str, dict[str, Runs]]


def write_report(results: Path, out: Path) -> list[Path]:
    """Write everything that the records allow into `out`, and return the files."""
    runs = gather(Store(results))
    if not runs:
        raise ModeseekError(f"{results.resolve()} holds no complete record; `modeseek bench run` makes them")
    out.mkdir(parents=True, exist_ok=True)
    files = {
        "summary.md": summary_table(runs) + "\n",
        "summary.csv": to_csv(summary_rows(runs)),
        "seconds.md": seconds_table(runs) + "\n",
        "report.html": html_page(runs),
    }
    for name, text in files.items():
        (out / name).write_text(text)
    written = [out / name for name in files]
    for name, real in (("figure1", False), ("figure2", True)):
        chosen = {task: methods for task, methods in runs.items() if (problems.get(task).values is None) == real}
        if chosen:
            written += draw_regret(chosen, out / name)
    return written


def draw_regret(runs: Gathered, path: Path) -> list[Path]:
    """Mean simple regret and one standard error over evaluations, a panel a task: PNG and PDF."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ModeseekError('figures need matplotlib: pip install "modeseek[plots]"') from error
    columns = min(4, len(runs))
    rows = -(-len(runs) // columns)
    figure = Figure(figsize=(3.6 * columns, 3.0 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    colours = _colours(runs)
    for panel, (task, methods) in zip(panels, runs.items(), strict=False):
        _draw_panel(panel, task, methods, colours)
    for panel in panels[len(runs) :]:
        panel.set_axis_off()
    handles = {h.get_label(): h for panel in panels[: len(runs)] for h in panel.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=8, frameon=False)
    written = [path.with_suffix(suffix) for suffix in (".png", ".pdf")]
    for file in written:
        figure.savefig(file, dpi=150)
    return written


def _draw_panel(axes: Axes, task: str, methods: dict[str, Runs], colours: dict[str, str]) -> None:
    for name, r in methods.items():
        number, mean, error = _curve(r)
        is_ours = name.startswith("dms")
        axes.plot(number, mean, color=colours[name], linewidth=2 if is_ours else 1.1, label=name)
        low = np.maximum(mean - error, REGRET_FLOOR)
        axes.fill_between(number, low, mean + error, color=colours[name], alpha=0.15, linewidth=0)
    replications = sorted({len(r.replications) for r in methods.values()})
    axes.set(title=f"{task} ({'–'.join(map(str, replications))} runs)", xlabel="evaluations", yscale="log")
    axes.set_ylabel("simple regret")


def _curve(r: Runs) -> tuple[Any, Any, Any]:
    """Evaluations from the end of the initial design on, mean regret and its standard error there."""
    curve = r.regret[:, r.n_initial - 1 :]
    error = curve.std(axis=0, ddof=1) / np.sqrt(len(curve)) if len(curve) > 1 else np.zeros(curve.shape[1])
    return np.arange(r.n_initial, r.regret.shape[1] + 1), np.maximum(curve.mean(axis=0), REGRET_FLOOR), error


def _colours(runs: Gathered) -> dict[str, str]:
    """A colour a method, the same in every panel; DMS has the first ones."""
    names = sorted({name for methods in runs.values() for name in methods}, key=lambda n: (not n.startswith("dms"), n))
    return dict(zip(names, itertools.cycle(_PALETTE), strict=False))


def html_page(runs: Gathered) -> str:
    """One page with interactive regret curves and the tables; opens without a network."""
    try:
        import plotly.graph_objects as go
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ModeseekError('the HTML report needs Plotly: pip install "modeseek[bench]"') from error
    colours = _colours(runs)
    sections = []
    for task, methods in runs.items():
        figure = go.Figure()
        for name, r in methods.items():
            number, mean, spread = _curve(r)
            line = {"color": colours[name], "width": 3 if name.startswith("dms") else 1.5}
            low, high = np.maximum(mean - spread, REGRET_FLOOR), mean + spread
            band = {
                "mode": "lines",
                "line": {"width": 0},
                "showlegend": False,
                "hoverinfo": "skip",
                "legendgroup": name,
            }
            figure.add_scatter(x=number, y=low, **band)
            figure.add_scatter(x=number, y=high, fill="tonexty", fillcolor=_faint(colours[name]), **band)
            figure.add_scatter(x=number, y=mean, mode="lines", name=name, line=line, legendgroup=name)
        figure.update_yaxes(type="log", title="simple regret")
        figure.update_xaxes(title="evaluations")
        figure.update_layout(title=task, template="plotly_white", height=420, margin={"t": 50, "b": 50})
        sections.append(figure.to_html(full_html=False, include_plotlyjs=False))
    return _PAGE.format(
        script=get_plotlyjs(),
        summary=_html_table(summary_table(runs)),
        seconds=_html_table(seconds_table(runs)),
        figures="\n".join(sections),
    )


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"


def _html_table(markdown: str) -> str:
    rows = [line.strip("| ").split(" | ") for line in markdown.splitlines() if not line.startswith("| ---")]
    out = []
    for i, row in enumerate(rows):
        tag = "th" if i == 0 else "td"
        cells = (f"<b>{html.escape(c.replace('**', ''))}</b>" if "**" in c else html.escape(c) for c in row)
        out.append("<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>")
    return "<table>" + "".join(out) + "</table>"


_PALETTE = [
    "#d62728", "#ff7f0e", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2",
    "#7f7f7f", "#bcbd22", "#17becf", "#393b79", "#637939", "#8c6d31", "#843c39",
]  # fmt: skip

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>modeseek: results</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}}
th,td{{border-bottom:1px solid #ddd;padding:.3em .6em;text-align:right;white-space:nowrap}}
th:first-child,td:first-child{{text-align:left}}</style>
<script>{script}</script></head><body>
<h1>Results</h1>
<h2>Final simple regret</h2>
<p>Mean ± standard error; the best mean of a task is bold; * differs from dms (Wilcoxon signed-rank, 5 %).</p>
{summary}
<h2>Seconds an iteration</h2>
<p>Of one replication, mean ± standard deviation; in a batch, the batch's seconds over its replications.</p>
{seconds}
<h2>Regret over evaluations</h2>
<p>Mean and one standard error. Click a name to hide it, double-click to see it alone.</p>
{figures}
</body></html>
"""
