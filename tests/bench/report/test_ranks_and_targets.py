"""The scoreboard's numbers beside published ones, independent computations and definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from modeseek.bench.campaign import pack
from modeseek.bench.campaign.records import Record
from modeseek.bench.report import figures, ranking, scoreboard_charts, scoreboard_section
from modeseek.bench.report.scoreboard import MIN_SHARED, TARGETS, Board, evaluations_until, judge, make_board, place_of
from modeseek.bench.tasks import find_task
from modeseek.commands import main

# Table 6 of Demsar (2006), by its ranks: C4.5, with m, with cf, with both, on 14 data sets.
DEMSAR = np.array(
    [
        [4, 3, 2, 1],
        [1, 2, 3, 4],
        [4, 1, 2, 3],
        [4, 1, 3, 2],
        [4, 2, 3, 1],
        [1, 2.5, 4, 2.5],
        [3, 2, 4, 1],
        [2.5, 2.5, 4, 1],
        [4, 3, 2, 1],
        [2.5, 2.5, 2.5, 2.5],
        [4, 2.5, 1, 2.5],
        [3, 2, 4, 1],
        [4, 1, 2, 3],
        [3, 1, 4, 2],
    ]
)
NAMES = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")


def test_ranks_and_critical_differences_are_those_that_demsar_published() -> None:
    found = ranking.rank(NAMES, DEMSAR)
    published = {"C4.5": 3.143, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
    assert dict(zip(found.methods, found.ranks, strict=True)) == pytest.approx(published, abs=6e-4)
    assert found.methods[0] == "C4.5+m+cf"
    assert found.critical_difference == pytest.approx(1.25, abs=0.005)
    assert ranking.critical_difference(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)
    table_5 = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    assert [ranking.nemenyi_quantile(k) for k in range(2, 11)] == pytest.approx(table_5, abs=1.1e-3)
    # The paper's statistic, 9.28, is without the correction for ties.
    ties = sum(count**3 - count for row in DEMSAR for count in np.unique(row, return_counts=True)[1])
    corrected = 9.28 / (1 - ties / (14 * 4 * (4**2 - 1)))
    assert found.p == pytest.approx(stats.chi2.sf(corrected, 3), rel=0.01)
    assert found.groups == [(0, 3)], "1.179 is less than the critical difference"
    assert replace(found, critical_difference=1.12).groups == [(0, 2), (2, 3)], "as the paper says for 10 %"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(1, 9), min_size=2, max_size=8), st.floats(0.1, 4))
def test_groups_are_the_maximal_runs_of_level_methods(ranks: list[float], difference: float) -> None:
    found = ranking.Ranking(tuple("abcdefgh"[: len(ranks)]), np.sort(ranks), 10, 0.001, difference)
    level = {
        (i, j) for i, j in itertools.combinations(range(len(ranks)), 2) if found.ranks[j] < found.ranks[i] + difference
    }
    within = {(a, b) for i, j in found.groups for a, b in itertools.combinations(range(i, j + 1), 2)}
    assert within == level
    assert all(not (a <= i and j <= b) for (i, j), (a, b) in itertools.permutations(found.groups, 2))


def test_methods_that_friedmans_test_does_not_tell_apart_are_level() -> None:
    same = ranking.rank(("a", "b", "c"), np.ones((9, 3)))
    assert (same.p, same.groups, list(same.ranks)) == (1.0, [(0, 2)], [2, 2, 2])
    none = ranking.rank(("a", "b"), np.ones((0, 2)))
    assert none.groups == []
    assert np.isnan(none.ranks).all()


def test_a_target_is_reached_at_the_first_evaluation_that_is_as_good() -> None:
    regret = np.array([[50.0, 200.0, 1e-3, 1e-9], [300.0, 300.0, 300.0, 100.0]])
    found = evaluations_until(regret, [100.0, 1e-3, 1e-8, 1e-10])
    np.testing.assert_array_equal(found, [[1, 3, 4, np.inf], [4, np.inf, np.inf, np.inf]])
    assert len(TARGETS) == 51
    assert (TARGETS[0], TARGETS[5], TARGETS[-1]) == pytest.approx((100.0, 10.0, 1e-8))


Finals = Mapping[str, Mapping[str, float]]  # by task and method
MakeBoard = Callable[[Finals], Board]


@pytest.fixture
def board_of(make_record: Callable[[str, str, int, float], Record]) -> MakeBoard:
    """A board of runs that jump to their final regret at the sixth of ten evaluations."""

    def make(finals: Finals) -> Board:
        base = make_record("levy-10", "dms", 0, 1.0)
        records = []
        for task, of in finals.items():
            for method, final in of.items():
                values = [-1e3] * 5 + [-final] * 5
                run = replace(base, task=task, method=method, values=values, observed=values, optimum=0.0, n_initial=2)
                records.append(replace(run, iterations=[0.5] * 8, batch=2, device="cuda:0"))
        return make_board(records)

    return make


def tasks(function: str, d: int, instances: int) -> list[str]:
    return [f"bbob-{function}-i{i + 1}-d{d}" for i in range(instances)]


def test_the_ecdf_is_the_share_of_problems_and_targets(board_of: MakeBoard) -> None:
    board = board_of({"bbob-f01-i1-d2": {"dms": 1e-9, "sobol": 1.0}, "bbob-f02-i1-d2": {"dms": 1e3}})
    assert board.solved("dms") == pytest.approx(0.5)
    assert board.solved("sobol") == pytest.approx(11 / 51), "of the one problem that it has"
    np.testing.assert_allclose(board.solved("dms", np.array([1.0, 2.9, 3.0, 9.0])), [0, 0, 0.5, 0.5])
    assert board.final[0, 0] == TARGETS[-1], "nothing is told apart below the last target"
    assert board.median_seconds("dms") == 0.25
    assert board.devices == {"dms": "GPU", "sobol": "GPU"}


def test_ranks_are_over_the_problems_that_all_ranked_methods_have(board_of: MakeBoard) -> None:
    finals = {task: {"dms": 1.0, "logei": 2.0, "ucb": 3.0} for task in tasks("f01", 5, 5)}
    finals |= {"bbob-f01-i1-d5": {"dms": 2.0, "logei": 3.0, "ucb": 4.0, "hebo": 1.0}}
    finals |= {task: {"dms": 1.0, "logei": 2.0} for task in tasks("f01", 20, 5)}
    board = board_of(finals)
    few = board.select("bbob", 5)
    assert few.ranking().methods == ("hebo", "dms", "logei", "ucb")
    assert (few.ranking().n, few.count("hebo"), few.count("dms")) == (1, 1, 5)
    assert few.ranking(0.8).methods == ("dms", "logei", "ucb")
    assert few.ranking(0.8).n == 5
    assert board.ranked() == ["dms", "logei"], "the others have nothing in 20 dimensions"
    assert board.select("bbob", 20).methods == ("dms", "logei")
    assert board.selections == [("bbob", 5), ("bbob", 20), ("bbob", None)]
    alone = board_of({**finals, **{task: {"dms": 1.0} for task in tasks("f01", 20, 5)}})
    assert alone.selections == [("bbob", 5), ("bbob", 20)], "nothing to compare with in all dimensions"
    assert scoreboard_section.ranks_table(alone).cells[0][2] == "(5 of 5)", "one alone has no rank"


def test_a_method_is_judged_beside_the_best_other_that_shares_enough_problems(board_of: MakeBoard) -> None:
    names = tasks("f07", 2, 5)
    finals = {t: {"dms": 1.0, "logei": 0.1, "sobol": 10.0} for t in names}
    finals[names[0]]["hebo"] = 1e-3  # the best by far, on one problem
    finals[names[1]]["logei"] = 1.0
    of = board_of(finals).rivals
    assert of["dms"] == [("logei", "level"), ("sobol", "better")], "four of five, one tied, is no proof"
    assert of["sobol"] == [("logei", "worse"), ("dms", "worse")]
    assert of["hebo"] == []


def test_one_method_beside_another_is_counted_in_functions_over_the_problems_of_both(board_of: MakeBoard) -> None:
    functions = [f"f{i:02}" for i in (1, 2, 5, 7, 9, 11, 12)]
    finals = {task: {"dms": 1.0, "logei": 2.0} for f in functions for task in tasks(f, 5, 2)}
    finals["bbob-f01-i1-d5"] = {"dms": 1e3, "logei": 1.0}  # outweighs the other instance of its function
    finals["bbob-f02-i1-d5"] = finals["bbob-f02-i2-d5"] = {"dms": 2.0, "logei": 2.0}
    finals["bbob-f05-i1-d5"]["hebo"] = 0.1
    board = board_of(finals)
    assert board.beside("dms", "logei") == (5, 1, 1, "level")
    assert board.beside("logei", "dms") == (1, 1, 5, "level")
    assert board.beside("dms", "hebo") == (0, 0, 1, None), "one function says nothing"
    assert {line[0]: line[1] for line in scoreboard_section.beside_table(board).cells} == {
        "dms": "",
        "logei": "5 / 1 / 1",
        "hebo": "0 / 0 / 1",
    }
    beside = scoreboard_charts.content(board)["parts"]["bbob|5"]["beside"]
    assert [beside[str(board.methods.index(m))] for m in ("dms", "logei", "hebo")] == ["", "5 / 1 / 1", "0 / 0 / 1"]
    finals["bbob-f01-i1-d5"] = {"dms": 1.0, "logei": 2.0}
    assert board_of(finals).beside("dms", "logei") == (6, 1, 0, "better")
    again = {task.replace("-d5", "-d10"): of for task, of in finals.items()}
    assert board_of(finals | again).beside("dms", "logei") == (12, 2, 0, "better"), "in each dimension"


def test_curves_are_of_methods_with_enough_problems_to_have_a_rank(board_of: MakeBoard) -> None:
    finals = {task: {"dms": 1.0, "logei": 2.0} for f in ("f01", "f02") for task in tasks(f, 5, 5)}
    finals["bbob-f01-i1-d5"]["hebo"] = 1e-9
    board = board_of(finals)
    axes = figures.blank(3, 3).subplots()
    scoreboard_charts._draw_ecdf(axes, board, scoreboard_charts.styles_of(board))
    assert {line.get_label() for line in axes.get_lines()} == {"dms", "logei"}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-6, 6), min_size=MIN_SHARED, max_size=12))
def test_verdicts_are_wilcoxons_and_turn_with_the_sign(numbers: list[int]) -> None:
    differences = np.array(numbers, dtype=float)
    found = judge(differences)
    assert judge(-differences) == {"better": "worse", "worse": "better", "level": "level"}[found]
    signed = stats.rankdata(np.abs(differences[differences != 0])) * np.sign(differences[differences != 0])
    null = [abs(np.dot(s, np.abs(signed))) for s in itertools.product((-1, 1), repeat=len(signed))]
    p = np.mean([value >= abs(signed.sum()) - 1e-9 for value in null])
    assert (found != "level") == (p <= 1 / 16 if len(numbers) == MIN_SHARED else p < 0.05)
    assert found == "level" or (found == "better") == (signed.sum() < 0)


def test_a_tables_best_value_solves_every_target_though_records_round_it(
    make_record: Callable[[str, str, int, float], Record],
) -> None:
    name = "nasbench201-imagenet"
    best = find_task(name).optimum
    stored = float(f"{best - 1e-9:.7g}")
    assert best - stored > TARGETS[-1]
    record = replace(make_record("levy-10", "dms", 0, 1.0), task=name, n_initial=1)
    board = make_board([replace(record, values=[stored - 0.02, stored], observed=[0.0, 0.0])])
    assert board.solved("dms") == 1.0
    assert board.solved("dms", 1 / 6) == pytest.approx(19 / 51)


def test_earlier_defaults_are_no_rivals(board_of: MakeBoard) -> None:
    board = board_of({"bbob-f01-i1-d2": {"dms": 1.0, "dms-v3": 0.1, "dms-v1-fast": 0.1, "sobol": 2.0}})
    assert set(board.methods) == {"dms", "sobol"}


def test_places_of_tasks() -> None:
    assert place_of("bbob-f07-i1-d5") == ("bbob", "f07", 5)
    assert place_of("mixint-f23-i5-d10") == ("bbob-mixint", "f23", 10)
    assert place_of("nasbench201-cifar10") == ("hpo", "nasbench201-cifar10", 6)
    assert place_of("levy-10") is None
    assert place_of("my_file.py:problem") is None


def test_the_tables_say_who_wins_loses_and_how_many_problems_each_has(board_of: MakeBoard) -> None:
    finals = {t: {"dms": 0.1, "logei": 1.0, "sobol": 9.0} for t in tasks("f01", 5, 5)}
    finals |= {t: {"dms": 3.0, "logei": 2.0, "sobol": 9.0} for t in tasks("f20", 5, 5)}
    finals["bbob-f20-i1-d5"]["hebo"] = 1e-3
    board = board_of(finals)
    ranks = {line[0]: line[1] for line in scoreboard_section.ranks_table(board).cells}
    assert ranks == {
        "dms": "**1.50**",
        "logei": "**1.50**",
        "sobol": "3.00",
        "hebo": "(1 of 10)",
        "ranked on": "10 of 10",
        "critical difference": f"{ranking.critical_difference(3, 10):.2f}",
    }
    assert [line[1] for line in scoreboard_section.verdicts_table(board).cells] == [
        "1 / 0 / 1",
        "1 / 0 / 1",
        "0 / 0 / 2",
        "",
    ]
    assert scoreboard_section.losses_table(board).cells == [["COCO bbob, d = 5", "f01 (logei)", "0", "f20 (logei)"]]
    rows = {row["method"]: row for row in scoreboard_section.ranks_table(board).rows}
    assert [rows["dms"][name] for name in ("problems", "worse on", "seconds per suggestion")] == [10, "f20", 0.25]
    assert rows["hebo"]["mean rank"] == ""
    assert scoreboard_section.solved_table(board).cells[0][1] == f"{(5 * 16 + 5 * 8) / (10 * 51):.3f}"


def test_records_of_the_scoreboard_are_in_its_section_alone(
    tmp_path: Path,
    make_record: Callable[[str, str, int, float], Record],
    section: Callable[[Path, str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figures, "save", lambda figure, path: [])
    other = make_record("levy-10", "dms", 0, 1.0)
    pack.write(tmp_path / "a.parquet", [other])
    assert main(["report", str(tmp_path / "a.parquet"), "--out", str(tmp_path / "a")]) == 0
    assert "`modeseek bench scoreboard` makes them" in section(tmp_path / "a", "Scoreboard")
    assert not (tmp_path / "a" / "scoreboard.csv").exists()
    runs = [replace(other, task=f"bbob-f01-i1-d{d}", optimum=0.0, config=None, method="logei") for d in (2, 5)]
    pack.write(tmp_path / "b.parquet", [other, *runs, replace(runs[0], method="sobol", status="failed", error="x")])
    assert main(["report", str(tmp_path / "b.parquet"), "--out", str(tmp_path / "b")]) == 0
    text = section(tmp_path / "b", "Scoreboard")
    assert "| logei | (1 of 1) | (1 of 1) |" in text
    assert "Failed runs, not counted: 1." in text
    assert "bbob" not in section(tmp_path / "b", "Final simple regret")
    assert "Own tasks" not in (tmp_path / "b" / "report.md").read_text()
    lines = (tmp_path / "b" / "scoreboard.csv").read_text().splitlines()
    assert [line.split(",")[:4] for line in lines[1:]] == [["bbob", d, "logei", "1"] for d in ("2", "5")]
