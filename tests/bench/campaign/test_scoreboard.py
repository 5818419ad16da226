"""The scoreboard's plan: which instances run, in which order, and that a second call resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from modeseek.bench.campaign import pack, scoreboard
from modeseek.bench.campaign.plan import Plan
from modeseek.bench.campaign.records import Store
from modeseek.bench.methods import method_names, peer_names
from modeseek.bench.tasks import suites
from modeseek.commands import main
from modeseek.errors import ConfigError

pytest.importorskip("cocoex")  # of the extra `bench`


def test_every_method_and_suite_is_known() -> None:
    assert set(scoreboard.METHODS) <= {*method_names(), *peer_names()}
    assert set(peer_names()) <= set(scoreboard.METHODS)
    assert scoreboard.INSTANCES.keys() <= set(scoreboard.METHODS)


def test_slow_methods_run_fewer_instances_unless_told_otherwise() -> None:
    cheap, slow = scoreboard.cells(["bbob-d5"], ["cma", "hebo"])
    assert (len(cheap.tasks), len(slow.tasks)) == (75, 15)
    assert set(slow.tasks) == {name for name in suites()["bbob-d5"] if "-i1-" in name}
    assert {len(cell.tasks) for cell in scoreboard.cells(["bbob-d5"], ["cma", "hebo"], 2)} == {30}
    (table,) = scoreboard.cells(["hpo"], ["hebo"], 3)
    assert len(table.works("cpu")) == 11 * 3
    assert len(scoreboard.cells(["hpo"], ["cma"])[0].works("cpu")) == 11 * 5


def test_cheap_methods_come_first_and_what_is_not_installed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    methods = list(dict.fromkeys(cell.method for cell in scoreboard.cells(["bbob-d2"])))
    assert methods == [method for method in scoreboard.METHODS if method in methods]
    left_out = [method for method in scoreboard.METHODS if method not in methods]
    assert set(left_out) <= set(peer_names())
    said = capsys.readouterr().err
    assert all(f"{method} is left out" in said for method in left_out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["bbob-d6"], None, None), "did you mean 'bbob-d"),
        ((["hpo"], ["cms"], None), "unknown method"),
        ((["hpo"], ["cma"], 6), "from 1 to 5"),
    ],
)
def test_what_is_not_there_is_refused(arguments: tuple[list[str], list[str] | None, int | None], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scoreboard.cells(*arguments)


def test_the_command_runs_what_is_missing_and_then_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "scoreboard", "--suite", "bbob-d2", "--method", "random", "--instances", "1"]
    main([*command, "--out", str(tmp_path), "--plan"])
    assert "15 replications are missing" in capsys.readouterr().out
    main([*command, "--out", str(tmp_path)])
    assert "15 replications run, 0 failed" in capsys.readouterr().out
    records = list(Store(tmp_path))
    assert {record.task for record in records} == {cell for cell in suites()["bbob-d2"] if "-i1-" in cell}
    assert all(len(record.iterations) == 20 and record.stages["acquire"] > 0 for record in records)
    main([*command, "--out", str(tmp_path)])
    assert "0 replications run" in capsys.readouterr().out
    both = scoreboard.cells(["bbob-d2"], ["random"], 2)
    assert sum(Plan.of(Store(tmp_path), "cpu", both).missing.values()) == 15
    (packed,) = pack.pack(tmp_path, tmp_path, inputs="none")
    assert packed.name == "scoreboard.parquet"
    values = {record.task: record.values for record in records}
    assert all(record.values == pytest.approx(values[record.task], rel=1e-6) for record in pack.read(packed))
