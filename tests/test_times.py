"""When trials began and how long they took: in the trials, in the table, in checkpoints."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from modeseek import CheckpointError, Optimizer, Trial, TrialState, minimize
from modeseek.document import to_document, trials_of
from shared import BOX, SMALLEST, sphere

QUIET = {"progress": False, "config": SMALLEST, "seed": 0}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that a test sets: its last entry is the time now."""
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[-1])
    monkeypatch.setattr(time, "perf_counter", lambda: now[-1])
    return now


def times(trials: list[Trial]) -> list[tuple[float | None, float | None]]:
    return [(trial.started, trial.seconds) for trial in trials]


def test_ask_and_tell_take_the_time_between_them(clock: list[float]) -> None:
    opt = Optimizer(BOX, seed=0)
    first, second, third = opt.ask(3)
    clock.append(1002.5)
    opt.tell(second, 1.0)
    clock.append(1004.0)
    opt.tell(first, failed=True)
    clock.append(900.0)  # set back
    opt.tell(third, 2.0)
    opt.tell_params([0.0, 0.0], 3.0)
    assert times(opt.trials) == [(1000.0, 4.0), (1000.0, 2.5), (1000.0, 0.0), (None, None)]


def test_a_run_times_its_evaluations_and_keeps_the_times(clock: list[float], tmp_path: Path) -> None:
    def slow(x: np.ndarray) -> float:
        clock.append(clock[-1] + 2.0)
        if len(clock) == 3:
            raise ValueError
        return sphere(x)

    result = minimize(slow, BOX, 3, catch=(ValueError,), checkpoint=tmp_path / "run", **QUIET)
    assert times(result.trials) == [(1000.0, 2.0), (1002.0, 2.0), (1004.0, 2.0)]
    assert times(Optimizer.load(tmp_path / "run").trials) == times(result.trials)
    again = minimize(slow, BOX, 3, retry_failed=True, checkpoint=tmp_path / "run", **QUIET)
    assert times(again.trials)[1] == (1006.0, 2.0), "a trial that is evaluated again begins again"


def test_the_table_has_them_in_utc(clock: list[float]) -> None:
    pd = pytest.importorskip("pandas")
    clock.append(0.0)
    result = minimize(sphere, BOX, 2, known=[([1.0, 1.0], 2.0)], **QUIET)
    table = result.to_dataframe()
    assert table["started"].tolist() == [pd.NaT, *2 * [pd.Timestamp(0, tz="UTC")]]
    assert table["seconds"].isna().tolist() == [True, False, False]
    assert table["seconds"].sum() == 0


def test_a_checkpoint_from_before_there_were_times_loads() -> None:
    opt = Optimizer(BOX, seed=0)
    opt.tell(opt.ask(), 1.0)
    opt.ask()
    records = json.loads(json.dumps(to_document(opt._snapshot())))["trials"]
    assert all("started" in record for record in records)
    old = [{name: value for name, value in record.items() if name not in ("started", "seconds")} for record in records]
    loaded = list(trials_of(BOX, old))
    assert loaded == opt.trials
    assert times(loaded) == [(None, None)] * 2


@pytest.mark.parametrize("wrong", [-1.0, 1e300, "yesterday", True])
def test_a_time_that_is_none_is_refused(wrong: object) -> None:
    record = {"params": [0.0, 0.0], "origin": "initial", "state": TrialState.RUNNING.value, "value": None}
    with pytest.raises((CheckpointError, ValueError), match="started is"):
        trials_of(BOX, [{**record, "error": None, "started": wrong}])
