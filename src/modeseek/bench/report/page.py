"""The HTML page of a report: one file with everything in it, that opens without a network."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Sequence
from pathlib import Path

from modeseek.bench.report.curves import Gathered
from modeseek.bench.report.figures import band, limits, styles
from modeseek.bench.report.table import Table

WIDE = 8  # columns


def page(sections: Sequence[str], titles: Sequence[tuple[str, str]]) -> str:
    """The whole page from its sections, with links to them on top."""
    from plotly.offline import get_plotlyjs

    links = " · ".join(f'<a href="#{name}">{html.escape(title)}</a>' for name, title in titles)
    return _PAGE.format(script=get_plotlyjs(), links=links, sections="\n".join(sections))


def section(name: str, title: str, note: str, *parts: str) -> str:
    """A headline, a note on what is shown, and the parts."""
    paragraphs = (f"<p>{html.escape(paragraph)}</p>" for paragraph in note.split("\n\n"))
    return "\n".join([f'<h2 id="{name}">{html.escape(title)}</h2>', *paragraphs, *parts])


def image(path: Path, title: str) -> str:
    """A picture, inside the page."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{data}">'


def table(content: Table) -> str:
    """A table; columns of words are flush left, and the cells of many columns have a line for each of their numbers."""
    of_words = [not any(re.match(r"\W*\d", line[i]) for line in content.cells) for i in range(len(content.header))]
    is_wide = len(content.header) > WIDE
    rows = []
    for number, line in enumerate([content.header, *content.cells]):
        tag = "td" if number else "th"
        cells = [_html(cell, break_lines=is_wide and not words) for cell, words in zip(line, of_words, strict=True)]
        classes = (" class=words" if words else "" for words in of_words)
        rows.append("".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(classes, cells, strict=True)))
    return '<div class="table"><table>' + "".join(f"<tr>{row}</tr>" for row in rows) + "</table></div>"


def _html(markdown: str, break_lines: bool) -> str:
    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(markdown))
    return bold.replace(" ± ", "<br>± ").replace(" (", "<br>(") if break_lines else bold


def regret_plots(gathered: Gathered) -> str:
    """Interactive curves of mean regret, one plot per task."""
    import plotly.graph_objects as go

    style = styles(gathered)
    plots = []
    for task, methods in gathered.items():
        figure = go.Figure()
        bands = {name: band(c) for name, c in methods.items()}
        for name, b in bands.items():
            edge = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
            figure.add_scatter(x=b.number, y=b.low, legendgroup=name, **edge)
            fill = {"fill": "tonexty", "fillcolor": _faint(style[name].colour)}
            figure.add_scatter(x=b.number, y=b.high, legendgroup=name, **fill, **edge)
        for name, b in bands.items():  # over all bands
            line = {
                "color": style[name].colour,
                "width": 3 if style[name].thick else 1.5,
                "dash": {"-": "solid", "--": "dash", ":": "dot"}[style[name].line],
            }
            label = f"{name} ({len(methods[name].replications)})"
            figure.add_scatter(x=b.number, y=b.mean, mode="lines", name=label, line=line, legendgroup=name)
        low, high = limits(list(bands.values()))
        figure.update_yaxes(type="log", title="simple regret", range=[math.log10(low), math.log10(high)])
        figure.update_xaxes(title="evaluations")
        figure.update_layout(
            title=task,
            template="plotly_white",
            height=420,
            margin={"t": 50, "b": 50, "l": 60, "r": 10},
            legend={"tracegroupgap": 0, "font": {"size": 11}},
        )
        plots.append(figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False}))
    return '<div class="plots">' + "\n".join(plots) + "</div>"


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>modeseek: results</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:1240px;margin:2em auto;padding:0 1em;color:#222}}
.table{{overflow-x:auto}} table{{border-collapse:collapse;font-size:12.5px;line-height:1.35;margin:1em 0}}
th,td{{border-bottom:1px solid #ddd;padding:.3em .5em;text-align:right;vertical-align:top;white-space:nowrap}}
.words{{text-align:left}}
h2{{margin-top:2em}} p{{max-width:55em}} img{{max-width:100%}}
.plots{{display:grid;grid-template-columns:repeat(auto-fill,minmax(560px,1fr));gap:1em}}</style>
<script>{script}</script></head><body>
<h1>Results</h1>
<p>{links}</p>
{sections}
</body></html>
"""
