"""The study: whether it is the one asked for, what counts toward its budget, and which of its trials still run.

User attributes of trials: `worker`, the machine and process that runs it; `error`, why the objective failed;
`heartbeat`, where the storage has no table of its own for that; `retry of`, the number of a failed trial at the same
point; `late`, the number of the trial whose result this is (see `own_trials`); `known`, where an evaluation is
from that was known beforehand (see `known`). A failed trial without an error was not evaluated to its end: it was
interrupted, or its process died.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import sys
import time
from collections.abc import Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.trial import FrozenTrial, TrialState

from modeseek.commands.optimize.spaces import check_space
from modeseek.commands.optimize.storage import STALE
from modeseek.digits import spreads_of
from modeseek.errors import StudyError
from modeseek.execution.evaluate import Evaluated
from modeseek.fronts import MOST
from modeseek.integrations.optuna_trials import CONSTRAINTS, SEM, constraints_of
from modeseek.outcomes import Measured, counted
from modeseek.space import Space
from modeseek.trials import Direction

WORKER, ERROR, HEARTBEAT, LATE, RETRY_OF, KNOWN = "worker", "error", "heartbeat", "late", "retry of", "known"
SEED = "seed"
SPACE = "space"  # of the study, where there are known constraints
SEED_PATIENCE = 2.0  # seconds

_log = logging.getLogger(__name__)


def open_study(
    storage: BaseStorage, name: str, direction: Sequence[Direction] | None, space: Space, seed: int | None = None
) -> tuple[optuna.Study, int]:
    """The study of this name, made when there is none, and its seed, where none is given.

    All workers, and all runs, walk along one Sobol sequence. StudyError when the study has another direction or another
    space; but one of which all trials have failed is begun anew with the direction that is asked for.
    """
    study = _made_or_loaded(storage, name, direction, seed)
    check_objectives(study)
    there = directions_of(study)
    if direction is not None and list(direction) != there:
        if {trial.state for trial in study.get_trials(deepcopy=False)} == {TrialState.FAIL}:
            print(f"study {name!r} has no complete trial and is begun anew: {','.join(direction)}", file=sys.stderr)
            optuna.delete_study(study_name=name, storage=storage)
            return open_study(storage, name, direction, space, seed)
        own, asked = ",".join(there), ",".join(direction)
        raise StudyError(f"study {name!r} exists with direction {own}, not {asked}; use --direction {own}")
    check_space(study, space)
    if (space.constraints or SPACE in study.user_attrs) and study.user_attrs.get(SPACE) != space.to_dict():
        study.set_user_attr(SPACE, space.to_dict())  # for `--show`
    if seed is not None and SEED not in study.user_attrs:
        study.set_user_attr(SEED, seed)
    return study, _seed(study) if seed is None else seed


def _made_or_loaded(
    storage: BaseStorage, name: str, direction: Sequence[Direction] | None, seed: int | None
) -> optuna.Study:
    try:
        study = optuna.create_study(storage=storage, study_name=name, directions=direction or ["minimize"])
        study.set_user_attr(SEED, _draw_seed() if seed is None else seed)
    except DuplicatedStudyError:
        study = optuna.load_study(study_name=name, storage=storage)
    return study


def _draw_seed() -> int:
    return secrets.randbits(53)  # what JavaScript, in the dashboard, shows without rounding


def _seed(study: optuna.Study) -> int:
    """The study's own seed; that of a new study is there a moment later than the study, if its maker lives."""
    until = time.monotonic() + SEED_PATIENCE
    while SEED not in study.user_attrs and not study.get_trials(deepcopy=False) and time.monotonic() < until:
        time.sleep(0.02)
    if SEED not in study.user_attrs:  # another program has made the study
        study.set_user_attr(SEED, _draw_seed())
    return int(study.user_attrs[SEED])


def load_study(storage: BaseStorage, name: str | None) -> optuna.Study:
    """The study of this name, or the only one; StudyError says which there are."""
    names = optuna.get_all_study_names(storage)
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        problem = "no study was named" if name is None else f"there is no study {name!r}"
        raise StudyError(f"{problem}; choose one with --study: {', '.join(map(repr, names)) or 'none exists yet'}")
    study = optuna.load_study(study_name=name, storage=storage)
    check_objectives(study)
    return study


def existing_directions(storage: BaseStorage, name: str) -> list[str] | None:
    """The directions of the study of this name; None where there is none."""
    if name not in optuna.get_all_study_names(storage):
        return None
    return directions_of(optuna.load_study(study_name=name, storage=storage))


def check_objectives(study: optuna.Study) -> None:
    """StudyError for a study of more objectives than there can be."""
    if len(study.directions) > MOST:
        raise StudyError(f"study {study.study_name!r} has {len(study.directions)} objectives, and {MOST} at the most")


def directions_of(study: optuna.Study) -> list[str]:
    """Of each objective, minimize or maximize."""
    return [direction.name.lower() for direction in study.directions]


def known_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that were known beforehand."""
    return [trial for trial in study.get_trials(deepcopy=False) if KNOWN in trial.user_attrs]


def known_points(study: optuna.Study) -> int:
    """Points that only trials known beforehand have."""
    points: dict[bool, set[str]] = {True: set(), False: set()}
    for trial in study.get_trials(deepcopy=False):
        points[KNOWN in trial.user_attrs].add(repr(sorted(trial.params.items())))
    return len(points[True] - points[False])


def evaluated(study: optuna.Study) -> int:
    """Trials that count toward the budget: complete, pruned, or failed by the objective itself and not tried again."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if KNOWN not in trial.user_attrs]
    done = sum(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in trials)
    return done + len(_failed(trials))


def _failed(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that the objective failed, but for those that have been tried again, or are queued for that."""
    again = {trial.user_attrs.get(RETRY_OF) for trial in trials}
    return [t for t in trials if t.state is TrialState.FAIL and ERROR in t.user_attrs and t.number not in again]


def retry_failed_trials(study: optuna.Study) -> int:
    """Queue the points of failed trials, which then do not count any more; how many there are."""
    failed = [trial for trial in _failed(study.get_trials(deepcopy=False)) if trial.params]
    for trial in failed:
        _queue_again(study, trial)
    return len(failed)


def _queue_again(study: optuna.Study, trial: FrozenTrial) -> None:
    study.enqueue_trial(trial.params, user_attrs={RETRY_OF: trial.number})


def checked(study: optuna.Study, outcome: Evaluated) -> Evaluated:
    """The same, or a failed one where it has not as many constraints as the study's complete trials."""
    done = next(iter(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))), None)
    if outcome.measured is None or done is None:
        return outcome
    there, here = len(constraints_of(done)), len(outcome.measured.constraints)
    if there == here:
        return outcome
    known = f" (known: {done.user_attrs[KNOWN]})" if KNOWN in done.user_attrs else ""
    error = (
        f"there {counted(here, 'constraint')}, but trial {done.number}{known} has {there}; every trial needs as many"
    )
    return Evaluated(error=error, never_a_number=True)


def attributes_of(found: Measured) -> dict[str, Any]:
    """The system attributes in which Optuna keeps constraints, and `DMSSampler` finds a standard error."""
    constraints: dict[str, Any] = {CONSTRAINTS: list(found.constraints)} if found.constraints else {}
    sem = list(found.sem) if isinstance(found.sem, tuple) else found.sem
    return constraints if sem is None else {**constraints, SEM: sem}


def has_complete(study: optuna.Study, *, known: bool = True) -> bool:
    """Whether there is a complete trial, feasible or not; without those known beforehand where `known` is False."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return any(known or KNOWN not in trial.user_attrs for trial in done)


def best_value(study: optuna.Study) -> float | None:
    """The best feasible value so far; None before there is one, and where there are several objectives."""
    if len(study.directions) > 1:
        return None
    try:
        return study.best_value
    except ValueError:
        return None


def spreads(study: optuna.Study) -> list[float]:
    """By how much the values of each objective differ; none before a trial is complete."""
    return spreads_of(trial.values for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


def machine() -> str:
    """Where process numbers mean the same: the host's name, its boot, and its namespace of process numbers.

    Containers may share all but the last; where there is no such thing (not Linux), only the host's name is used.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def worker_name(pid: int | None = None) -> str:
    """This machine and a process of it, by default this one."""
    return f"{machine()}:{os.getpid() if pid is None else pid}"


def fail_trials_of(study: optuna.Study, worker: str) -> None:
    """Mark the trials that a worker has left running as interrupted: failed, and not counted."""
    for trial in _trials_of(study, worker):
        _fail(study, trial)


def lose_trials_of(study: optuna.Study, worker: str, error: str) -> dict[int, str | None]:
    """Mark the trials of a worker that died as failed, each by its number with its error.

    A trial may have ended its process itself: its point is queued once more (no error, it does not count), and the
    second time it is failed for good.
    """
    return _lose(study, _trials_of(study, worker), error)


def _trials_of(study: optuna.Study, worker: str) -> list[FrozenTrial]:
    return [trial for trial in running(study) if trial.user_attrs.get(WORKER) == worker]


def _lose(study: optuna.Study, trials: list[FrozenTrial], error: str) -> dict[int, str | None]:
    lost: dict[int, str | None] = {}
    for trial in trials:
        before = trial.user_attrs.get(RETRY_OF)
        again = before is None or ERROR in study.get_trials(deepcopy=False)[before].user_attrs
        why = None if again else f"{error}; so it did in trial {before}, at the same point"
        if _fail(study, trial, why):
            lost[trial.number] = why
            if again and trial.params:
                _queue_again(study, trial)
    return lost


def fail_abandoned_trials(study: optuna.Study, mine: Set[int] = frozenset(), *, by_process: bool = True) -> list[int]:
    """Mark as failed the trials whose process is gone, or has given no sign of life for a while; their numbers.

    A process of this machine is known to be gone at once; of other processes, and in other containers, only the
    heartbeat tells. Trials of other programs are left alone.

    Args:
        study: theirs.
        mine: the ids of the trials that this process runs.
        by_process: whether a process that is not there any more is enough. Not for a worker: the command that started
            it sees to the trials of the others, and two that do would try a point once too often.
    """
    silent = _silent(study)
    gone = [
        trial
        for trial in running(study)
        if trial._trial_id not in mine
        and WORKER in trial.user_attrs
        and (trial._trial_id in silent or (by_process and is_gone(str(trial.user_attrs[WORKER]))))
    ]
    lost = _lose(study, gone, ended := "its process ended, or gave no sign of life")
    for number, error in lost.items():
        _log.warning("trial %d: %s", number, error or f"{ended}; its point is tried again")
    return list(lost)


def beat(study: optuna.Study, trial_id: int) -> None:
    """Leave a sign of life of a running trial."""
    storage = study._storage
    if isinstance(storage, BaseHeartbeat):
        storage.record_heartbeat(trial_id)  # by the database's clock
    else:
        storage.set_trial_user_attr(trial_id, HEARTBEAT, time.time())


def _silent(study: optuna.Study) -> set[int]:
    """The ids of running trials whose last heartbeat is too long ago; of those that never had one nothing is known."""
    storage = study._storage
    if isinstance(storage, BaseHeartbeat):
        return set(storage._get_stale_trial_ids(study._study_id))
    latest = time.time() - STALE
    return {t._trial_id for t in running(study) if float(t.user_attrs.get(HEARTBEAT, math.inf)) < latest}


def _fail(study: optuna.Study, trial: FrozenTrial, error: str | None = None) -> bool:
    """Mark a trial as failed, unless another process was faster; only with an error does it count as evaluated."""
    with suppress(UpdateFinishedTrialError):
        if error is not None:
            study._storage.set_trial_user_attr(trial._trial_id, ERROR, error)
        return bool(study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL))
    return False


def enqueue_interrupted_trials(study: optuna.Study) -> None:
    """Queue the points of trials that were not evaluated to their end, where no other trial has been since."""
    interrupted: list[dict[str, Any]] = []
    tried: list[dict[str, Any]] = []
    for trial in study.get_trials(deepcopy=False):
        cut_short = trial.state is TrialState.FAIL and ERROR not in trial.user_attrs
        (interrupted if cut_short else tried).append(trial.system_attrs.get("fixed_params", {}) | trial.params)
    for params in interrupted:
        if params and params not in tried:
            study.enqueue_trial(params)
            tried.append(params)


def running(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that run, here or elsewhere, or whose process died."""
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def is_gone(worker: str) -> bool:
    """Whether a process is known to have ended: it was on this machine, and is not there any more."""
    where, _, pid = worker.rpartition(":")
    if where != machine() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid():  # one of the same number, before a restart: this process knows its own trials
        return True
    if os.name != "posix":  # elsewhere signal 0 is not harmless
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
