"""The HTML page of a report: one file with everything in it, that opens without a network.

Its looks and its charts are in `web/`; the charts are drawn from data in the page.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from modeseek.bench.report.figures import Style
from modeseek.bench.report.table import Table

WIDE = 8  # columns
LONG, LONG_NAME = 40, 26  # characters of cells, and of those in the first column, that are broken into lines
DASHES = {"-": "none", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}
SCRIPTS = ("charts.js", "scoreboard.js")


def page(sections: Sequence[str], titles: Sequence[tuple[str, str]]) -> str:
    """The whole page from its sections, with links to them on top."""
    links = "".join(f'<li><a href="#{name}">{html.escape(title)}</a></li>' for name, title in titles)
    return _PAGE.format(
        style=_file("page.css"),
        links=links,
        sections="\n".join(sections),
        script="\n".join(map(_file, SCRIPTS)),
    )


def _file(name: str) -> str:
    return files("modeseek.bench.report").joinpath("web", name).read_text()


def section(name: str, title: str, note: str, *parts: str) -> str:
    """A headline, a note on what is shown, and the parts."""
    return "\n".join([f'<h2 id="{name}">{html.escape(title)}</h2>', _paragraphs(note), *parts])


def folded(title: str, text: str) -> str:
    """Text that is shown when its title is clicked."""
    return f"<details><summary>{html.escape(title)}</summary>{_paragraphs(text)}</details>"


def _paragraphs(text: str) -> str:
    return "\n".join(f"<p>{_inline(paragraph)}</p>" for paragraph in text.split("\n\n"))


def image(path: Path, title: str) -> str:
    """A picture, inside the page."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{data}">'


def table(content: Table) -> str:
    """A table; columns of words are flush left, and the cells of many columns have a line for each of their numbers."""
    columns = list(zip(*content.cells, strict=True)) or [()] * len(content.header)
    of_words = [not any(re.match(r"\W*\d", cell) for cell in column) for column in columns]
    is_wide = len(content.header) > WIDE
    kinds = []
    for number, (column, words) in enumerate(zip(columns, of_words, strict=True)):
        is_long = max(map(len, column), default=0) > (LONG if number else LONG_NAME)
        if is_long and is_wide and not words:
            kinds.append(' class="wrapped"')
        else:
            names = [name for name, applies in (("words", words or is_long), ("long", is_long)) if applies]
            kinds.append(f' class="{" ".join(names)}"' if names else "")
    rows = ["".join(f"<th{kind}>{_html(name, False)}</th>" for kind, name in zip(kinds, content.header, strict=True))]
    for line in content.cells:
        cells = [_html(cell, break_lines=is_wide and not words) for cell, words in zip(line, of_words, strict=True)]
        rows.append("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, cells, strict=True)))
    return '<div class="table"><table>' + "".join(f"<tr>{row}</tr>" for row in rows) + "</table></div>"


def _html(markdown: str, break_lines: bool) -> str:
    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", _inline(markdown))
    return bold.replace(" ± ", "<br>± ").replace(" (", "<br>(") if break_lines else bold


def _inline(text: str) -> str:
    """Text with its code marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def data(kind: str, content: Any) -> str:
    """Data for the page's scripts; no text in it can end the element that it stands in."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", r"\u003c")
    return f'<script type="application/json" class="{kind}">{text}</script>'


def style_data(styles: Mapping[str, Style]) -> str:
    """The lines of methods, as the scripts know them."""
    lines = {
        name: {"colour": s.colour, "dash": DASHES[s.line], "width": 2.6 if s.thick else 1.4}
        for name, s in styles.items()
    }
    return data("styles", lines)


def charts(content: Sequence[dict[str, Any]], styles: Mapping[str, Style]) -> str:
    """Charts side by side, which `charts.js` draws."""
    return f'<div class="plots">{style_data(styles)}{data("charts", content)}</div>'


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>modeseek: results</title>
<style>{style}</style></head><body>
<h1>modeseek: results</h1>
<ul class="contents">{links}</ul>
<noscript><p>The charts of this page need JavaScript; the report's folder has them as pictures.</p></noscript>
<p>One legend for all charts: click a method to hide it, double-click to see it alone.</p>
<div id="legend" role="group" aria-label="methods"></div>
{sections}
<script>{script}</script>
</body></html>
"""
