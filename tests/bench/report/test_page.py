"""The report's page in a real browser, as wide as a desk's and as a phone's; skipped where no browser is installed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from browser import MISSING, Browser, find
from modeseek.bench.campaign import pack
from modeseek.bench.campaign.records import Record
from modeseek.bench.report import figures
from modeseek.bench.report.report import write_report
from modeseek.bench.report.scoreboard import Board, make_board, place_of
from modeseek.bench.report.scoreboard_charts import beside_reference
from modeseek.bench.report.scoreboard_section import VERDICTS, functions_beside_best

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
def records(make_record: Callable[[str, str, int, float], Record]) -> list[Record]:
    """Many methods on tasks of two sets and of the scoreboard, one of them with fewer instances than the others."""
    rng = np.random.default_rng(0)
    found = [
        make_record(task, method, replication, 0.1 * (i + 1))
        for i, method in enumerate((*METHODS, "<b>own"))
        for task in ("styblinski-tang-2", "griewank-3", "branin-2")
        for replication in range(6)
    ]
    for task in (f"bbob-f{f:02d}-i{i}-d{d}" for f in (1, 7) for i in range(1, 6) for d in (2, 5)):
        for method in METHODS[:6] if "-i1-" in task else METHODS[:5]:
            values = (-np.geomspace(10, 10.0 ** rng.integers(-9, 2), 30)).tolist()  # of few levels, so with ties
            run = make_record("branin-2", method, 0, 1.0)
            found.append(dataclasses.replace(run, task=task, values=values, observed=values, optimum=0.0))
    mixed = [record for record in found if record.task.startswith("bbob") and record.task.endswith("5")]
    return [*found, *(dataclasses.replace(r, task=r.task.replace("bbob", "mixint")) for r in mixed)]


@pytest.fixture
def report(tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(figures, "save", _blank)  # the page draws these charts itself
    pack.write(tmp_path / "all.parquet", records, "none")
    write_report(tmp_path / "all.parquet", tmp_path / "report")
    return tmp_path / "report" / "report.html"


def _blank(figure: object, path: Path) -> list[Path]:
    return [path.with_suffix(".png")]


@pytest.mark.skipif(find() is None, reason=MISSING)
def test_the_page_in_a_browser(report: Path, records: list[Record]) -> None:
    on_board = [record for record in records if place_of(record.task) is not None]
    with Browser() as browser:
        for width, height in WIDTHS.items():
            browser.resize(width, height)
            browser.open(report)
            assert browser.errors == []
            everything_fits(browser, width)
            tables_scroll_in_their_boxes(browser, is_narrow=width < 700)
            one_legend_hides_a_method_in_all_charts(browser)
            the_scoreboard_follows_its_filters(browser, on_board)
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


def press(browser: Browser, name: str) -> None:
    button = f"[...document.querySelectorAll('#legend button')].find(b => b.textContent === {json.dumps(name)})"
    browser.run(f"{button}.click()")


def one_legend_hides_a_method_in_all_charts(browser: Browser) -> None:
    def shown(name: str) -> list[bool]:
        return list(browser.run(f"({SHOWN})({json.dumps(name)})"))

    charts = shown(HIDDEN)
    assert len(charts) == 4, "on three tasks and among the ECDFs"
    assert all(charts)
    press(browser, HIDDEN)
    assert not any(shown(HIDDEN))
    assert all(shown("dms"))
    assert all(shown("<b>own"))
    press(browser, "show all")
    assert shown(HIDDEN) == charts


def the_scoreboard_follows_its_filters(browser: Browser, records: list[Record]) -> None:
    """The page ranks what it shows, as Python does."""

    def choose(name: str, value: str) -> None:
        select = f"document.querySelector('.scoreboard [name={name}]')"
        browser.run(f"{select}.value = '{value}', {select}.dispatchEvent(new Event('change'))")

    def shown() -> dict[str, list[str]]:
        rows = "[...document.querySelectorAll('.methods tr')].slice(1).map(r => [...r.cells].map(c => c.textContent))"
        return {line[0]: line[1:] for line in browser.run(rows)}

    def agrees(board: Board) -> None:
        ranking, found = board.ranking(), shown()
        means = {m: f"{mean:.2f}" for m, mean in zip(ranking.methods, ranking.ranks, strict=True)}
        assert {m: line[0] for m, line in found.items()} == {**dict.fromkeys(board.methods, ""), **means}
        bold = browser.run("[...document.querySelectorAll('.methods b')].map(b => b.closest('tr').dataset.name)")
        assert set(bold) == ranking.level_with_best
        difference = browser.run("document.querySelector('.ranks svg text').textContent")
        assert difference == f"critical difference {ranking.critical_difference:.2f}"
        counts = {m: [found[m][i] for i in (3, 4, 5)] for m in board.methods}
        assert {m: found[m][6] for m in board.methods} == {m: beside_reference(board, m) for m in board.methods}
        verdicts = {m: functions_beside_best(board, m) for m in board.methods}
        assert counts == {m: [str(len(of[v]) or "") for v in VERDICTS] for m, of in verdicts.items()}

    board = make_board(records)
    agrees(board.select("bbob"))
    assert shown()["ucb"][1] == "4 of 20"
    choose("d", "5")
    agrees(board.select("bbob", 5))
    press(browser, HIDDEN)
    fewer = make_board([record for record in records if record.method != HIDDEN])
    agrees(fewer.select("bbob", 5))
    choose("suite", "bbob-mixint")
    agrees(fewer.select("bbob-mixint"))
    functions = "document.querySelectorAll('.functions [data-function]').length"
    assert browser.run(functions) == 2
    press(browser, "show all")
    choose("suite", "bbob")
