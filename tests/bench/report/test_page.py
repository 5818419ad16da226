"""The report's page in a real browser, as wide as a desk's and as a phone's; skipped where no browser is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser import MISSING, Browser, find
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.report import figures
from modeseek.bench.report.report import write_report

METHODS = ("dms", "dms-paper", "pi", "ei", "logei", "ucb", "ts", "gibbon", "jes", "sobol", "tpe", "gpsampler", "cmaes")
HIDDEN = "ei"
WIDTHS = {1280: 900, 390: 844}

# In the page: where each table's box and cells are, before and after it is scrolled to its end.
TABLES = """[...document.querySelectorAll("table")].map(table => {
    const box = table.closest(".table"), row = table.rows[table.rows.length - 1];
    const edges = cell => (({ left, right }) => ({ left, right }))(cell.getBoundingClientRect());
    const before = { first: edges(row.cells[0]), last: edges(row.cells[row.cells.length - 1]) };
    box.scrollLeft = box.scrollWidth;
    const after = { first: edges(row.cells[0]), last: edges(row.cells[row.cells.length - 1]) };
    box.scrollLeft = 0;
    return { box: edges(box), before, after, scrolls: box.scrollWidth > box.clientWidth };
})"""
PICTURES = """[...document.querySelectorAll("figure svg, img")].map(e => e.getBoundingClientRect())
    .map(({ left, right, height }) => ({ left, right, height }))"""
SHOWN = """name => [...document.querySelectorAll(".curve")].filter(e => e.dataset.method === name)
    .map(e => e.getClientRects().length > 0)"""


@pytest.fixture
def report(tmp_path: Path, make_record: Callable[[str, str, int, float], Record], monkeypatch: Any) -> Path:
    """A report with many methods, tasks of two sets and names that are not HTML."""
    monkeypatch.setattr(figures, "save", _blank)  # the page draws these charts itself
    store = Store(tmp_path / "results")
    for i, method in enumerate((*METHODS, "<b>own")):
        for task in ("styblinski-tang-2", "griewank-3", "branin-2"):
            for replication in range(6):
                store.append(make_record(task, method, replication, 0.1 * (i + 1)))
    write_report(tmp_path / "results", tmp_path / "report")
    return tmp_path / "report" / "report.html"


def _blank(figure: object, path: Path) -> list[Path]:
    return [path.with_suffix(".png")]


@pytest.mark.skipif(find() is None, reason=MISSING)
def test_the_page_in_a_browser(report: Path) -> None:
    assert report.stat().st_size < 3e6
    with Browser() as browser:
        for width, height in WIDTHS.items():
            browser.resize(width, height)
            browser.open(report)
            assert browser.errors == []
            everything_fits(browser, width)
            tables_scroll_in_their_boxes(browser, is_narrow=width < 700)
            one_legend_hides_a_method_in_all_charts(browser)
            assert browser.errors == []


def everything_fits(browser: Browser, width: int) -> None:
    assert browser.run("innerWidth") == width, "a phone shows the page at its own width"
    assert browser.run("document.documentElement.scrollWidth") <= width
    pictures = browser.run(PICTURES)
    assert len(pictures) >= 3
    for place in pictures:
        assert 0 <= place["left"] < place["right"] <= width
        assert place["height"] > 100


def tables_scroll_in_their_boxes(browser: Browser, is_narrow: bool) -> None:
    tables = browser.run(TABLES)
    assert any(table["scrolls"] for table in tables)
    assert is_narrow or not all(table["scrolls"] for table in tables)
    for table in tables:
        assert table["after"]["last"]["right"] <= table["box"]["right"] + 1, "the last column can be reached"
        assert table["after"]["first"] == pytest.approx(table["before"]["first"]), "the first column stays"
        if table["scrolls"]:
            assert table["after"]["last"]["left"] < table["before"]["last"]["left"]


def one_legend_hides_a_method_in_all_charts(browser: Browser) -> None:
    def shown(name: str) -> list[bool]:
        return list(browser.run(f"({SHOWN})({json.dumps(name)})"))

    def press(name: str) -> None:
        button = f"[...document.querySelectorAll('#legend button')].find(b => b.textContent === {json.dumps(name)})"
        browser.run(f"{button}.click()")

    charts = shown(HIDDEN)
    assert len(charts) >= 3
    assert all(charts)
    press(HIDDEN)
    assert not any(shown(HIDDEN))
    assert all(shown("dms"))
    assert all(shown("<b>own"))
    press("show all")
    assert shown(HIDDEN) == charts
