"""Whose trial is still running: processes that died, other containers, and results that come late."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

import modeseek as ms
from forked import Forked
from modeseek.commands import main
from modeseek.commands.optimize import own_trials, store
from modeseek.commands.optimize.own_trials import OwnTrials
from modeseek.commands.optimize.storage import STALE, open_storage
from modeseek.outcomes import Measured
from shared import until

SPACE = ms.Space({"x": ms.Float(0, 1), "k": ms.Categorical(["a", "b"])})
SPACE_FILE = """
[x]
type = "float"
low = 0.0
high = 1.0

[k]
type = "categorical"
choices = ["a", "b"]
"""
WAITING = """
import time
from pathlib import Path

def f(params):
    Path("evaluating").touch()
    end = time.monotonic() + 120
    while not Path("go").exists() and time.monotonic() < end:
        time.sleep(0.02)
    return params["x"]
"""
RUN = ["optimize", "waiting:f", "--space", "space.toml", "--startup", "100", "--seed", "0"]

pytestmark = pytest.mark.filterwarnings("ignore:Heartbeat of storage")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "waiting", raising=False)
    Path("space.toml").write_text(SPACE_FILE)
    Path("waiting.py").write_text(WAITING)
    return tmp_path


@pytest.fixture(params=["sqlite:///study.db", "study.journal"])
def location(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(location: str) -> optuna.Study:
    return optuna.create_study(study_name="waiting:f", storage=open_storage(location), load_if_exists=True)


def states(location: str) -> Counter[str]:
    return Counter(trial.state.name for trial in made(location).trials)


def go_silent(study: optuna.Study, trial_id: int) -> None:
    """The last heartbeat was long ago."""
    storage: Any = study._storage
    if isinstance(storage, optuna.storages._CachedStorage):
        with storage._backend.engine.begin() as connection:
            connection.execute(sqlalchemy.text("UPDATE trial_heartbeats SET heartbeat = '2020-01-01 00:00:00'"))
    else:
        storage.set_trial_user_attr(trial_id, store.HEARTBEAT, time.time() - STALE - 1)


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process is in another container of the same name."""
    here = store.machine()
    monkeypatch.setattr(store, "machine", lambda: here + "1")


def test_a_second_container_leaves_the_firsts_trial_alone(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 35, with a real first process; its number is not one of this namespace."""
    run = [*RUN, "--storage", location]
    first = Forked("-m", "modeseek", *run, "--trials", "1")
    try:
        until(Path("evaluating").exists)
        with monkeypatch.context() as patch:
            elsewhere(patch)
            patch.setattr(os, "kill", lambda pid, number: pytest.fail("asked about a process elsewhere"))
            study = made(location)
            assert store.fail_abandoned_trials(study) == []
            with OwnTrials(study, SPACE) as trials:
                trials.finish(trials.begin()[0], Measured((0.5,)))
        assert states(location) == {"RUNNING": 1, "COMPLETE": 1}
        Path("go").touch()
        _, complaint = first.communicate(timeout=60)
    finally:
        first.kill()
    assert first.returncode == 0, complaint
    assert states(location) == {"COMPLETE": 2}


def test_a_result_that_comes_late_is_kept(location: str) -> None:
    """Fault 35: the trial was marked as failed while its process evaluated."""
    run = [*RUN, "--storage", location, "--trials", "1"]
    first = Forked("-m", "modeseek", *run)
    try:
        until(Path("evaluating").exists)
        study = made(location)
        study.tell(0, state=TrialState.FAIL)
        Path("go").touch()
        _, said = first.communicate(timeout=60)
    finally:
        first.kill()
    assert first.returncode == 0, said
    assert "trial 0 had been marked as failed while it ran; its result is kept" in said
    given_up, late = study.get_trials()
    assert (given_up.state, late.state) == (TrialState.FAIL, TrialState.COMPLETE)
    assert late.params == given_up.params
    assert late.distributions == given_up.distributions
    assert late.value == given_up.params["x"]
    assert late.user_attrs["late"] == 0
    assert store.evaluated(study) == 1


def test_a_late_result_is_kept_once_and_a_late_failure_counts(location: str) -> None:
    study = made(location)
    with OwnTrials(study, SPACE) as trials:
        for value, error in ((0.25, None), (None, "ZeroDivisionError")):
            trial, params = trials.begin()
            study.tell(trial.number, state=TrialState.FAIL)
            for _ in range(2):  # as after a lost answer
                trials.finish(trial, None if value is None else Measured((value,)), error)
            kept = [t for t in study.get_trials() if t.user_attrs.get("late") == trial.number]
            assert [(t.value, t.user_attrs.get("error"), t.params) for t in kept] == [(value, error, params)]
    assert store.evaluated(study) == 2
    assert states(location) == {"FAIL": 3, "COMPLETE": 1}


def test_a_result_told_twice_is_one_trial(location: str) -> None:
    """The first answer may have been lost with the connection."""
    study = made(location)
    with OwnTrials(study, SPACE) as trials:
        for value, error in ((0.1, None), (None, "no")):
            trial, _ = trials.begin()
            for _ in range(2):
                trials.finish(trial, None if value is None else Measured((value,)), error)
    assert states(location) == {"COMPLETE": 1, "FAIL": 1}


def test_a_killed_process_is_known_to_be_gone_at_once(location: str) -> None:
    run = [*RUN, "--storage", location, "--trials", "1"]
    with Forked("-m", "modeseek", *run) as first:
        until(Path("evaluating").exists)
        study = made(location)
        assert store.fail_abandoned_trials(study) == [], "it lives"
        first.kill()
    gone: list[int] = []
    until(lambda: gone.extend(store.fail_abandoned_trials(study)) or gone, 20)  # its worker ends a moment later
    assert gone == [0]
    assert states(location) == {"FAIL": 1, "WAITING": 1}, "its point is queued"
    Path("go").touch()
    assert main(run) == 0
    assert states(location) == {"FAIL": 1, "COMPLETE": 1}


def test_a_silent_process_elsewhere_is_given_up_after_a_while(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = made(location)
    theirs = OwnTrials(study, SPACE)
    trial, _ = theirs.begin()
    elsewhere(monkeypatch)
    assert store.fail_abandoned_trials(study) == [], "a sign of life has just been there"
    go_silent(study, trial._trial_id)
    assert store.fail_abandoned_trials(study) == [trial.number]
    assert store.evaluated(study) == 0
    theirs.finish(trial, Measured((0.5,)))
    assert [t.value for t in study.trials if t.state.is_finished()] == [None, 0.5]
    assert store.evaluated(study) == 1


def test_trials_of_other_programs_are_left_alone(location: str) -> None:
    """Also those with a heartbeat of their own, which may be slower than this one."""
    study = made(location)
    trial = study.ask()
    store.beat(study, trial._trial_id)
    go_silent(study, trial._trial_id)
    study.ask().set_user_attr("worker", "elsewhere:1")
    study.ask().set_user_attr("worker", f"{store.machine()}:strange")
    study.ask().set_user_attr("worker", f"{store.machine()}:{os.getppid()}")
    assert store.fail_abandoned_trials(study) == []
    assert states(location) == {"RUNNING": 4}


def test_the_trials_of_this_process_are_its_own(location: str) -> None:
    """One of the same number that died before, as in a container that was started again, has left the others."""
    study = made(location)
    study.ask().set_user_attr("worker", store.worker_name())
    with OwnTrials(study, SPACE) as trials:
        first, _ = trials.begin()
        second, _ = trials.begin()
        assert [t.state.name for t in study.trials] == ["FAIL", "RUNNING", "RUNNING"]
        trials.finish(first, Measured((1.0,)))
        trials.interrupt(second)
    assert [t.state.name for t in study.trials] == ["FAIL", "COMPLETE", "FAIL"]
    assert store.evaluated(study) == 1


def test_signs_of_life_go_on_while_a_trial_runs(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_trials, "HEARTBEAT", 0.02)
    study = made(location)
    with OwnTrials(study, SPACE) as trials:
        trial, _ = trials.begin()
        go_silent(study, trial._trial_id)
        until(lambda: not store._silent(study))
        study.tell(trial.number, state=TrialState.FAIL)  # the heart goes on beating for the others
        other, _ = trials.begin()
        go_silent(study, other._trial_id)
        until(lambda: not store._silent(study))
        trials.finish(other, Measured((0.5,)))
    assert not trials._heart.is_alive()


def test_points_given_up_in_a_finite_space_are_queued_again(monkeypatch: pytest.MonkeyPatch) -> None:
    space = ms.Space({"k": ms.Int(0, 3)})
    study = made("sqlite:///study.db")
    lost, params = OwnTrials(study, space).begin()
    elsewhere(monkeypatch)
    go_silent(study, lost._trial_id)
    with OwnTrials(study, space) as trials:
        assert trials.begin()[1] == params


def test_process_numbers_mean_nothing_across_boots_and_namespaces() -> None:
    machine = store.machine()
    if sys.platform == "linux":
        _, boot, namespace = machine.rsplit("/", 2)
        assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert os.readlink("/proc/self/ns/pid") == f"pid:[{namespace}]"
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert store.is_gone(f"{machine}:{ended.pid}")
    assert not store.is_gone(f"{machine}0:{ended.pid}")
    assert not store.is_gone(f"{machine}:{os.getppid()}")


def test_a_study_made_by_many_has_one_seed(location: str) -> None:
    """Whoever makes the study draws it; the others take what is there."""
    seeds = {store.open_study(open_storage(location), "s", None, SPACE)[1] for _ in range(3)}
    assert len(seeds) == 1
    study, seed = store.open_study(open_storage(location), "s", None, SPACE, seed=7)
    assert seed == 7
    assert {study.user_attrs["seed"]} == seeds


def test_a_study_of_another_program_gets_a_seed(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SEED_PATIENCE", 0.05)
    study = made(location)
    _, seed = store.open_study(open_storage(location), study.study_name, None, SPACE)
    assert study.user_attrs["seed"] == seed
