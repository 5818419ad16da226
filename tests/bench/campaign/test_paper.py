"""The whole reproduction as one list of campaigns: what is in it, what is missing, and running it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from modeseek.bench.campaign import campaign, paper
from modeseek.bench.campaign.paper import Cell, Plan
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.methods import variants
from modeseek.bench.tasks import task_names
from modeseek.commands import main

Make = Callable[[str, str, int, float], Record]


def test_every_cell_of_both_figures_is_there_once_and_the_default_last() -> None:
    cells = paper.cells()
    pairs = [(task, cell.method) for cell in cells for task in cell.tasks]
    of_figures = {(t, m.removesuffix("-botorch")) for t, m in pairs if "[" not in m}
    assert {t for t, _ in of_figures} == set(task_names())
    left_out = {
        ("ackley-20", "pes"),
        ("levy-20", "pes"),
        *((f"{t}-50", m) for t in ("ackley", "levy") for m in ("pes", "jes")),
    }
    methods = ("pi", "ei", "ucb", "ts", "pes", "gibbon", "jes", "dms")
    assert {(t, m) for t in task_names() for m in methods} - of_figures == left_out
    assert sum(m in methods for _, m in of_figures) == 122, "as many as the paper's figures have curves"
    assert {(t, m) for t in task_names() for m in ("dms-paper", "dms-printed")} <= of_figures
    first_default = next(i for i, cell in enumerate(cells) if cell.method == "dms")
    assert not {"ucb", "jes", "dms-paper"} & {
        cell.method for cell in cells[first_default:] if cell.part != "departures"
    }
    for task in variants.DEPARTURE_TASKS:
        assert {(task, m) for m in variants.departures(task)} <= set(pairs)


def test_tasks_that_can_share_tensors_do_and_networks_are_trained_in_processes() -> None:
    cells = paper.cells()
    assert (
        Cell("Figure 1", ("levy-10", "michalewicz-10"), "ei") in cells
        or Cell("Figure 1", ("michalewicz-10", "levy-10"), "ei") in cells
    )
    engines = {(task, cell.method): cell.engine("cuda") for cell in cells for task in cell.tasks}
    assert engines["levy-50", "ei"] == engines["protein-structure", "jes"] == "batch"
    assert engines["wine", "dms"] == engines["wine", "ei-botorch"] == "local"
    assert {cell.engine("cpu") for cell in cells} == {"local"}


def test_what_is_stored_is_not_missing_and_says_how_long_the_rest_takes(tmp_path: Path, make_record: Make) -> None:
    store = Store(tmp_path)
    for replication in range(20):
        store.append(make_record("levy-10", "ei", replication, 0.1))
    cells = [Cell("Figure 1", ("levy-10",), m) for m in ("ei", "ts")] + [Cell("again", ("levy-10",), "ts")]
    plan = Plan.of(store, "cpu", cells)
    assert list(plan.missing.values()) == [10, 30], "the last has nothing that the second does not have"
    seconds = 0.4 * 120
    assert plan.left() == pytest.approx(40 * seconds)
    assert paper.duration(40 * seconds) == "32 min"
    plan.seconds["shekel-4", "ts"] = [3.0, 5.0]
    assert plan.left() == pytest.approx(10 * seconds + 30 * 4.0), "its own seconds on another task before others' here"
    assert paper.duration(3 * 3600 + 120) == "3 h 2 min"


def test_the_command_runs_what_is_missing_in_order(
    tmp_path: Path, make_record: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, ...]] = []

    def run(tasks: tuple[str, ...], methods: list[str], store: Store, **options: object) -> list[Record]:
        asked.append((*tasks, *methods, str(options["engine"])))
        return [make_record(task, methods[0], 0, 0.1) for task in tasks]

    monkeypatch.setattr(paper, "run_campaign", run)
    only = ["--task", "griewank-3,shekel-4", "--method", "ei,ts,dms"]
    assert main(["bench", "paper", "--out", str(tmp_path), *only]) == 0
    wanted = [
        ("griewank-3", "ei"),
        ("griewank-3", "ts"),
        ("shekel-4", "ei"),
        ("shekel-4", "ts"),
        ("griewank-3", "dms"),
        ("shekel-4", "dms"),
    ]
    assert asked == [(*cell, "local") for cell in wanted]
    assert "6 replications run, 0 failed" in capsys.readouterr().out
    assert main(["bench", "paper", "--plan", "--out", str(tmp_path), *only]) == 0
    assert "Figure 1: griewank-3, ei: 30 replications" in capsys.readouterr().out
    assert campaign.run_campaign is not run
