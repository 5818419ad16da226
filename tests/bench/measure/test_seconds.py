"""Seconds of draws and of iterations: what is measured, kept and shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from modeseek.bench.measure import seconds
from modeseek.bench.measure.measurements import read
from modeseek.bench.measure.seconds import PAPERS_DMS, Measurement, measure_draws, measure_iterations
from modeseek.bench.methods.sobol_search import SobolSearch
from modeseek.bench.tasks import find_task
from modeseek.checks import missing_extra
from modeseek.commands import main
from modeseek.errors import ConfigError, ModeseekError, ModeseekWarning
from modeseek.history import History

MACHINE = {"device": "CPU (x)", "threads": 1, "torch": "2", "botorch": "0", "modeseek": "0"}


def measurement(task: str, method: str, *values: float, **more: object) -> Measurement:
    return {"task": task, "method": method, "seconds": list(values)} | MACHINE | more


def test_draws_of_dms_and_pes_are_timed_on_one_gp() -> None:
    rows = list(measure_draws(["styblinski-tang-2"], [4], repeats=2))
    by_method = {row["method"]: row["seconds"] for row in rows}
    assert list(by_method) == ["DMS", "DMS, sampling alone", PAPERS_DMS, "PES", "PES, our paths"]
    assert all(len(values) == 2 and min(values) > 0 for values in by_method.values())
    pairs = zip(by_method["DMS"], by_method["DMS, sampling alone"], strict=True)
    assert all(whole > sampling for whole, sampling in pairs)
    assert min(by_method[PAPERS_DMS]) > max(by_method["DMS"]), "100 epochs instead of 20, 50 steps instead of 15"
    assert rows[0]["threads"] == 1
    assert rows[0]["torch"] == torch.__version__


def test_iterations_are_calls_on_a_history_that_grows_to_half_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    original = SobolSearch.__call__

    def count(self: SobolSearch, history: History, left: int | None = None) -> object:
        sizes.append(len(history.Y))
        return original(self, history, left)

    monkeypatch.setattr(SobolSearch, "__call__", count)
    problem = find_task("styblinski-tang-2")
    (row,) = measure_iterations([problem.name], ["sobol"], repeats=2)
    n = problem.n_initial + problem.budget // 2
    assert sizes == [n - 2, n - 1, n]
    assert len(row["seconds"]) == 2

    sizes.clear()
    (row,) = measure_iterations([problem.name], ["sobol"], repeats=2, limit=0)
    assert len(sizes) == len(row["seconds"]) == 1, "one call of a slow method is enough"


def test_methods_that_the_paper_could_not_afford_run_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seconds, "_seconds_of_calls", lambda *_: [1.0])
    usual = {row["method"] for row in measure_iterations(["levy-50"])}
    assert {"ei", "gibbon", "dms-paper", "sobol"} <= usual
    assert usual.isdisjoint({"pes-botorch", "jes-botorch"})
    assert [row["method"] for row in measure_iterations(["levy-50"], ["pes-botorch"])] == ["pes-botorch"]


def test_a_method_whose_package_is_missing_is_left_out_and_an_unknown_one_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: object) -> list[float]:
        raise missing_extra("this baseline needs optuna", "bench")

    monkeypatch.setattr(seconds, "_seconds_of_calls", missing)
    with pytest.warns(ModeseekWarning, match="tpe left out: .*pip install"):
        assert list(measure_iterations(["levy-10"], ["tpe"])) == []
    with pytest.raises(ConfigError, match="did you mean 'ucb'"):
        list(measure_iterations(["levy-10"], ["ucbb"]))


def test_a_measurement_takes_the_place_of_the_same_one_before(tmp_path: Path) -> None:
    path = tmp_path / "draws.json"
    for values, more in (
        ((1.0,), {"S": 100}),
        ((2.0,), {"S": 200}),
        ((3.0,), {"S": 100}),
        ((4.0,), {"S": 100, "threads": 2}),
    ):
        seconds.save(path, measurement("levy-10", "PES", *values, **more))
    assert [(row["S"], row["threads"], row["seconds"]) for row in read(path)] == [
        (200, 1, [2.0]),
        (100, 1, [3.0]),
        (100, 2, [4.0]),
    ]
    path.write_text("[")
    with pytest.raises(ModeseekError, match=r"draws.json is not what `modeseek bench draws` wrote"):
        read(path)


def test_the_command_keeps_what_it_measured_for_the_report(tmp_path: Path, section: Callable[[Path, str], str]) -> None:
    task = ["--task", "styblinski-tang-2", "--method", "sobol", "--repeats", "1"]
    assert main(["bench", "seconds", *task, "--out", str(tmp_path)]) == 0
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report")]) == 0
    text = section(tmp_path / "report", "Seconds per iteration")
    assert "styblinski-tang-2" in text
    assert "Levy" not in text, "nothing is said of tasks that were not measured"


def test_more_repeats_than_observations_are_refused_with_the_most_there_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = find_task("styblinski-tang-2")
    most = problem.n_initial + problem.budget // 2 - 1
    (row,) = measure_iterations([problem.name], ["sobol"], repeats=most)
    assert len(row["seconds"]) == most
    options = ["--task", problem.name, "--method", "sobol", "--repeats", str(most + 1), "--out", str(tmp_path)]
    assert main(["bench", "seconds", *options]) == 1
    out, err = capsys.readouterr()
    assert f"repeats must be at most {most} for 'styblinski-tang-2', not {most + 1}" in err
    assert not out


def test_no_file_is_named_that_was_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.warns(ModeseekWarning, match="tpe left out"):
        assert main(["bench", "seconds", "--task", "levy-10", "--method", "tpe", "--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "nothing was measured" in err
    assert not out


def test_the_command_line_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "modeseek", "bench", "draws", "--help"]
    assert "--device" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
