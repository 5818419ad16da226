"""The scoreboard as a part of the report: tables for `report.md`, numbers for `scoreboard.csv`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from modeseek.bench.campaign.records import Record
from modeseek.bench.report import scoreboard_charts
from modeseek.bench.report.curves import REFERENCE, Verdict, in_order
from modeseek.bench.report.ranking import Ranking
from modeseek.bench.report.scoreboard import MIN_SHARED, NEARLY_ALL, TITLES, Board, make_board
from modeseek.bench.report.section import Section
from modeseek.bench.report.table import Row, Table

TITLE = "Scoreboard"
EMPTY = "There are no records of the scoreboard here yet: `modeseek bench scoreboard` makes them."
NOTE = (
    "Peers as their own users run them, on public suites: the share of COCO's targets that they solve, mean ranks of "
    "their final regret with critical differences, the functions that they win and lose, and seconds per suggestion."
)
EXPLAINED = (
    "A problem is a function, an instance of it and a dimension (of a table: an initial design), the same for all "
    "methods; a method that ran fewer is compared on those that it has.\n\n"
    "Targets solved: the share of pairs of problem and target, over evaluations / d. COCO's 51 targets lie 10² to 10⁻⁸ "
    "above the best value; of a table, above the best one in it. Curves are of methods that have a rank.\n\n"
    "Mean rank: by final simple regret, over the problems that all methods shown have; lower is better. Methods that "
    "are joined by a bar are level with each other, and bold ones with the best: their mean ranks are less than "
    "Nemenyi's critical difference apart (5 %, after Friedman's test; Demsar 2006). Instances of a function count as "
    "problems of their own. A method with fewer than a fifth of the problems of a suite and dimension has no rank "
    "there.\n\n"
    "Better, level, worse: than the best of the other methods, on how many functions (Wilcoxon's signed-rank test over "
    "a function's problems, 5 %; of five, all five). The best other is one with at least "
    f"{MIN_SHARED} problems of the function in common, and the same problems choose it, which favours it.\n\n"
    f"{REFERENCE} beside each method: on how many functions its mean of log regret, over the problems of both, is "
    "better, level and worse. Here the instances of a function count as one; the word after the numbers is what "
    "Wilcoxon's signed-rank test over the functions says, at 5 % and not corrected for the number of methods.\n\n"
    "Seconds per suggestion are medians, on what the method ran on."
)
VERDICTS: tuple[Verdict, ...] = ("better", "level", "worse")


def sections(records: Iterable[Record]) -> list[Section]:
    """One section, which says how to make records where there are none."""
    records = list(records)
    if not any(record.status == "complete" for record in records):
        return [Section("scoreboard", TITLE, EMPTY)]
    board = make_board(records)
    failed = sum(record.status == "failed" for record in records)
    return [
        Section(
            "scoreboard",
            TITLE,
            NOTE + (f"\n\nFailed runs, not counted: {failed}." if failed else ""),
            draw=partial(scoreboard_charts.draw, board),
            explained=EXPLAINED,
            interactive=partial(scoreboard_charts.html, board),
            more=(
                ("Mean ranks of final regret", ranks_table(board)),
                (
                    f"Mean ranks among the methods with at least {100 * NEARLY_ALL:.0f} % of the problems",
                    full_table(board),
                ),
                ("Functions: better / level / worse than the best other", verdicts_table(board)),
                (f"{REFERENCE} beside each method, in functions: better / level / worse", beside_table(board)),
                (f"Where {REFERENCE} is better and worse than the best other", losses_table(board)),
                ("Share of targets solved at the end", solved_table(board)),
                ("Seconds per suggestion", seconds_table(board)),
            ),
        )
    ]


def titled(suite: str, d: int | None) -> str:
    """A selection, for a reader."""
    return f"{TITLES.get(suite, suite)}, {'all d' if d is None else f'd = {d}'}"


def ranks_table(board: Board) -> Table:
    """Mean ranks, a column per suite and dimension; `rows` has all numbers of the scoreboard."""
    return _rankings(board, [(s, board.select(*s), board.select(*s).ranking()) for s in board.selections], _rows(board))


def full_table(board: Board) -> Table:
    """The same among the methods that have nearly all problems."""
    return _rankings(board, [(s, board.select(*s), board.select(*s).ranking(NEARLY_ALL)) for s in board.selections])


def _rankings(
    board: Board, columns: list[tuple[tuple[str, int | None], Board, Ranking]], rows: list[Row] | None = None
) -> Table:
    lines = []
    for method in board.methods:
        cells = []
        for _, part, ranking in columns:
            if method not in ranking.methods or not ranking.n or len(ranking.methods) < 2:
                cells.append(f"({part.count(method)} of {len(part.places)})" if method in part.methods else "")
                continue
            text = f"{ranking.ranks[ranking.methods.index(method)]:.2f}"
            text = f"**{text}**" if method in ranking.level_with_best else text
            fewer = part.count(method) < len(part.places)
            cells.append(text + (f" ({part.count(method)} of {len(part.places)})" if fewer else ""))
        if any(cells):
            lines.append([method, *cells])
    lines += [
        ["ranked on", *(f"{ranking.n} of {len(part.places)}" for _, part, ranking in columns)],
        ["critical difference", *(_number(ranking.critical_difference) for *_, ranking in columns)],
    ]
    return Table(["method", *(titled(*s) for s, *_ in columns)], lines, rows or ())


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else ""


def _by_selection(board: Board, cell: Callable[[Board, str], str]) -> Table:
    """A line per method, a column per suite and dimension."""
    parts = [(s, board.select(*s)) for s in board.selections]
    lines = [[m, *(cell(part, m) if m in part.methods else "" for _, part in parts)] for m in board.methods]
    return Table(["method", *(titled(*s) for s, _ in parts)], lines)


def solved_table(board: Board) -> Table:
    """The end of each ECDF."""
    return _by_selection(board, lambda part, method: f"{part.solved(method):.3f}")


def seconds_table(board: Board) -> Table:
    """Medians, with the device."""
    return _by_selection(board, scoreboard_charts.seconds_of)


def functions_beside_best(part: Board, method: str) -> dict[Verdict, list[tuple[str, str]]]:
    """The functions by verdict, each with the best other method."""
    found: dict[Verdict, list[tuple[str, str]]] = {verdict: [] for verdict in VERDICTS}
    for suite, function in part.functions:
        of = part.select(suite, function=function).rivals.get(method)
        if of:
            rival, verdict = of[0]
            found[verdict].append((function, rival))
    return found


def verdicts_table(board: Board) -> Table:
    """Better / level / worse than the best other method, in functions."""

    def cell(part: Board, method: str) -> str:
        found = functions_beside_best(part, method)
        return " / ".join(str(len(found[v])) for v in VERDICTS) if any(found.values()) else ""

    return _by_selection(board, cell)


def beside_table(board: Board) -> Table:
    """The reference beside each other method, in functions."""
    return _by_selection(board, scoreboard_charts.beside_reference)


def losses_table(board: Board) -> Table:
    """Where the reference wins and loses, and to whom."""
    lines = []
    for selection in board.selections:
        found = functions_beside_best(board.select(*selection), REFERENCE)
        if any(found.values()):
            won, lost = (", ".join(f"{f} ({rival})" for f, rival in found[v]) for v in ("better", "worse"))
            lines.append([titled(*selection), won, str(len(found["level"])), lost])
    return Table(["problems", "better than the best other on", "level on", "worse on"], lines)


def _rows(board: Board) -> list[Row]:
    """A row per suite, dimension and method."""
    rows: list[Row] = []
    for suite, d in board.selections:
        part = board.select(suite, d)
        ranking, full = part.ranking(), part.ranking(NEARLY_ALL)
        for method in in_order(part.methods):
            found = functions_beside_best(part, method)
            rows.append(
                {
                    "suite": suite,
                    "d": "all" if d is None else d,
                    "method": method,
                    "problems": part.count(method),
                    "problems of all methods": len(part.places),
                    **_place(ranking, method, ""),
                    **_place(full, method, " among nearly complete"),
                    "targets solved": float(part.solved(method)),
                    **{v: len(found[v]) for v in VERDICTS},
                    "worse on": ", ".join(f for f, _ in found["worse"]),
                    "seconds per suggestion": part.median_seconds(method),
                    "device": board.devices[method],
                }
            )
    return rows


def _place(ranking: Ranking, method: str, among: str) -> Row:
    if method not in ranking.methods or not ranking.n:
        return {f"{name}{among}": "" for name in ("mean rank", "ranked on", "critical difference", "level with best")}
    return {
        f"mean rank{among}": float(ranking.ranks[ranking.methods.index(method)]),
        f"ranked on{among}": ranking.n,
        f"critical difference{among}": ranking.critical_difference,
        f"level with best{among}": int(method in ranking.level_with_best),
    }
