"""The whole reproduction as one list of campaigns: what is in it, what is missing, and running it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from modeseek.bench.campaign import campaign, paper
from modeseek.bench.campaign import plan as planned
from modeseek.bench.campaign.plan import Cell, Plan, duration
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.measure import cost
from modeseek.bench.measure.pieces import Piece
from modeseek.bench.methods import variants
from modeseek.bench.tasks import find_task, task_names
from modeseek.commands import main
from modeseek.errors import ModeseekError

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
    assert plan.left() == (pytest.approx(40 * seconds), 0)
    assert duration(40 * seconds) == "32 min"
    plan.seconds["shekel-4", "ts", "cpu"] = [3.0, 5.0]
    assert plan.left().seconds == pytest.approx(10 * seconds + 30 * 4.0), "its own elsewhere before others' here"
    assert duration(3 * 3600 + 120) == "3 h 2 min"
    assert duration(0.2) == "1 s"
    assert Plan.of(store, "cpu", cells, workers=4).left().seconds == pytest.approx(10 * seconds)


def test_seconds_are_those_of_the_device_that_a_cell_runs_on(tmp_path: Path, make_record: Make) -> None:
    """Networks are trained on the CPU, whatever the device that is asked for."""
    store = Store(tmp_path)
    for device, method, taken in (("cpu", "ei-botorch", 3.0), ("cuda:0", "ei", 0.002)):
        record = make_record("levy-10", method, 0, 0.1)
        store.append(replace(record, device=device, iterations=[taken] * 60))
    wine, levy = Cell("Figure 2", ("wine",), "ts-botorch", 4), Cell("Figure 1", ("levy-10",), "ts", 1)
    plan = Plan.of(store, "cuda", [wine, levy], workers=2)
    evaluations = 70 * find_task("wine").seconds
    assert evaluations > 5, "of 70 networks"
    assert plan.per_replication(wine) == pytest.approx(180 + evaluations)
    assert plan.expected(wine).seconds == pytest.approx(2 * (180 + evaluations)), "two at once"
    assert plan.expected(levy).seconds == pytest.approx(0.12), "a batch has no use for workers"


def test_an_unknown_time_leaves_the_known_one_known(tmp_path: Path, make_record: Make) -> None:
    store = Store(tmp_path)
    store.append(make_record("levy-10", "ei-botorch", 0, 0.1))
    cells = [Cell("Figure 1", ("levy-10",), "dms", 5), Cell("Figure 1", ("levy-10",), "ts-botorch", 5)]
    plan = Plan.of(store, "cuda", cells)
    assert str(plan.expected(cells[0])) == "an unknown time", "nothing ran on such a device"
    assert str(plan.left()) == "4 min and 5 of unknown time"
    assert plan.total() == "10 replications are missing, 4 min and 5 of unknown time"


def test_measurements_are_steps_like_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planned, run where they are missing, stopped between two of them, and left out when they fail."""
    measured: list[int] = []

    def measure(grid: dict[str, tuple[int, ...]], **settings: object) -> Iterator[dict[str, object]]:
        ((size, (value,)),) = grid.items()
        measured.append(value)
        if value == 5:
            raise ModeseekError("too large")
        place = {"device": "CPU (x)", "threads": 1}
        yield {"size": size, "value": value, "batch": settings["batch"], "seconds": 15.0, **place}

    monkeypatch.setattr(cost, "measure_growth", measure)
    monkeypatch.setattr(cost, "GRID", {"d": (2, 5), "n": (20,)})
    command = ["bench", "paper", "--part", "growth", "--out", str(tmp_path)]
    assert main([*command, "--plan"]) == 0
    line = "growth on cpu: batch of 1, d, n: 3 measurements"
    of_growth = "0 replications and 3 measurements are missing, an unknown time"
    assert capsys.readouterr().out.splitlines() == [f"{line}, an unknown time", of_growth]
    assert main([*command]) == 1
    out, err = capsys.readouterr()
    assert measured == [2, 5, 20], "those after a failure, too"
    assert "2 measurements made, 1 failed" in out
    assert "failed: growth: batch of 1, d, value = 5 (cpu): too large" in err
    assert main([*command, "--plan"]) == 0
    assert "growth on cpu: batch of 1, d: 1 measurement, 1 min" in capsys.readouterr().out
    assert main([*command]) == 1
    assert measured[3:] == [5], "what is stored is not measured again"

    clock = iter([0.0, 0.0, 99.0])
    monkeypatch.setattr(planned.time, "monotonic", lambda: next(clock))
    pieces = [piece for piece in paper.steps("cpu") if piece.part == "growth"]
    plan = Plan.of(Store(tmp_path / "other"), "cpu", pieces)
    assert list(planned.run_missing(Store(tmp_path / "other"), plan, seconds=10)) == []
    assert plan.measurements == 2, "none begins after the timeout"


def test_a_measurement_that_another_command_has_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "measure_growth", lambda *_, **__: pytest.fail("it is another's"))
    piece = next(piece for piece in paper.steps("cpu") if piece.part == "growth")
    store = Store(tmp_path)
    with store.claims() as others:
        assert isinstance(piece, Piece)
        assert others.take(piece.key)
        plan = Plan.of(store, "cpu", [piece])
        assert list(planned.run_missing(store, plan)) == []
    assert not plan.missing
    assert (plan.made, plan.failures) == (0, [])


def test_the_measurements_of_a_gpu_come_before_what_trains_networks_and_the_cpus_last() -> None:
    steps = paper.steps("cuda")
    order = [step.device if isinstance(step, Piece) else step.part for step in steps]
    first = next(i for i, of in enumerate(order) if of == "cuda")
    assert order[first - 1] == "ablations"
    assert order[len(order) - 1] == "cpu"
    assert order.index("Figure 2") > max(i for i, of in enumerate(order) if of == "cuda")
    keys = [step.key for step in steps if isinstance(step, Piece)]
    assert len(set(keys)) == len(keys)
    assert {step.part for step in steps} == {
        "Figure 1", "Figure 2", "Table 3", "Table 4", "ablations", "default", "departures", "distribution", "growth",
        "theory",
    }  # fmt: skip
    of_tables = [step for step in paper.steps("cpu") if isinstance(step, Piece) and step.part == "Table 4"]
    assert {"ei", "ei-botorch", "dms-printed", "jes"} <= {piece.method for piece in of_tables}
    assert ("levy-20", "pes") not in {(piece.task, piece.method) for piece in of_tables}


def test_a_part_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "paper", "--plan", "--part", "Table 5", "--out", str(tmp_path)]) == 1
    assert "there is no part 'Table 5'; did you mean 'Table" in capsys.readouterr().err


def test_the_command_runs_what_is_missing_in_order(
    tmp_path: Path, make_record: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, ...]] = []

    def run(tasks: tuple[str, ...], methods: list[str], store: Store, **options: object) -> list[Record]:
        asked.append((*tasks, *methods, str(options["engine"])))
        return [make_record(task, methods[0], 0, 0.1) for task in tasks]

    monkeypatch.setattr(planned, "run_campaign", run)
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
