"""The study: where it is kept, whether it is the one asked for, what counts toward its budget.

Two user attributes are set on trials: `worker`, the machine and process that runs it, and `error`, why the objective
failed. A failed trial without the second was never evaluated to its end: it was interrupted, or its process was killed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.engine import make_url

from modeseek.errors import StudyError
from modeseek.integrations.optuna_trials import distribution
from modeseek.parameters import Categorical, Int, Parameter
from modeseek.space import Space
from modeseek.trials import Direction

WORKER, ERROR = "worker", "error"
JOURNALS = ".log", ".journal"
SQLITE_PATIENCE = 60.0  # seconds that a process waits while others write; the driver's 5 are few for many workers


def open_storage(location: str, *, existing: bool = False) -> BaseStorage:
    """The storage of an Optuna URL, or of a journal file, known by its name's end; `existing` makes no new file."""
    file, options = None, {}
    if "://" not in location:
        if not location.endswith(JOURNALS):
            ends = ", ".join(JOURNALS)
            raise StudyError(f"storage {location!r} is no URL, as sqlite:///{location} is, nor a journal file ({ends})")
        file = location
    elif location.startswith("sqlite"):
        file, options = make_url(location).database, {"connect_args": {"timeout": SQLITE_PATIENCE}}
    if existing and file is not None and not os.path.exists(file):
        raise StudyError(f"there is no study at {location}: the file does not exist")
    return JournalStorage(JournalFileBackend(location)) if file == location else RDBStorage(location, options)


def open_study(storage: BaseStorage, name: str, direction: Direction | None, space: Space) -> optuna.Study:
    """The study of this name, made when there is none; StudyError when it has another direction or another space."""
    study = optuna.create_study(
        storage=storage, study_name=name, direction=direction or "minimize", load_if_exists=True
    )
    check_single_objective(study)
    there = study.direction.name.lower()
    if direction not in (None, there):
        raise StudyError(f"study {name!r} exists, to {there} and not to {direction}; use --direction {there}")
    _check_space(study, space)
    return study


def load_study(storage: BaseStorage, name: str | None) -> optuna.Study:
    """The study of this name, or the only one; StudyError says which there are."""
    names = optuna.get_all_study_names(storage)
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        wanted = "name one by --study" if name is None else f"study {name!r} is not there"
        raise StudyError(f"{wanted}; there {'are ' + ', '.join(map(repr, names)) if names else 'is none'}")
    study = optuna.load_study(study_name=name, storage=storage)
    check_single_objective(study)
    return study


def check_single_objective(study: optuna.Study) -> None:
    """StudyError for a study of several objectives."""
    if len(study.directions) != 1:
        raise StudyError(f"study {study.study_name!r} has {len(study.directions)} objectives; modeseek optimizes one")


def _check_space(study: optuna.Study, space: Space) -> None:
    here = {name: distribution(space[name]) for name in space}
    for trial in study.get_trials(deepcopy=False):
        there = trial.distributions
        names = here.keys() | there.keys() if trial.state is TrialState.COMPLETE else there.keys()
        for name in sorted(names):
            if here.get(name) != there.get(name):
                raise StudyError(
                    f"study {study.study_name!r} exists with another space: in trial {trial.number} parameter {name!r} "
                    f"is {there.get(name, 'missing')}, and here {here.get(name, 'missing')}; "
                    "give its space, or another --study"
                )


def suggest(trial: Trial, space: Space) -> dict[str, Any]:
    """A trial's parameters, by name and in the space's order."""
    return {name: _suggest(trial, name, space[name]) for name in space}


def _suggest(trial: Trial, name: str, parameter: Parameter) -> Any:
    if isinstance(parameter, Categorical):
        return trial.suggest_categorical(name, parameter.choices)
    ask: Any = trial.suggest_int if isinstance(parameter, Int) else trial.suggest_float
    return ask(name, parameter.low, parameter.decode(1.0), log=parameter.log, step=parameter.step)


def evaluated(study: optuna.Study) -> int:
    """Trials that count toward the budget: complete, pruned, or failed by the objective itself."""
    return sum(
        trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
        or (trial.state is TrialState.FAIL and ERROR in trial.user_attrs)
        for trial in study.get_trials(deepcopy=False)
    )


def best_value(study: optuna.Study) -> float | None:
    """The best value so far; None before there is one."""
    try:
        return study.best_value
    except ValueError:
        return None


def worker_name(pid: int | None = None) -> str:
    """This machine and a process of it, by default this one."""
    return f"{socket.gethostname()}:{os.getpid() if pid is None else pid}"


def fail_trials_of(study: optuna.Study, worker: str, error: str | None = None) -> list[FrozenTrial]:
    """Mark the trials that a worker has left running as failed; only with an error do they count as evaluated."""
    left = [trial for trial in _running(study) if trial.user_attrs.get(WORKER) == worker]
    for trial in left:
        if error is not None:
            study._storage.set_trial_user_attr(trial._trial_id, ERROR, error)
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
    return left


def fail_abandoned_trials(study: optuna.Study) -> None:
    """Mark as failed the trials whose process was on this machine and is gone, as after a kill or a crash."""
    workers: Iterable[str] = {str(trial.user_attrs.get(WORKER, "")) for trial in _running(study)}
    for worker in workers:
        machine, _, pid = worker.rpartition(":")
        if machine == socket.gethostname() and pid.isdecimal() and _is_gone(int(pid)):
            fail_trials_of(study, worker)


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


def _running(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def _is_gone(pid: int) -> bool:
    if pid == os.getpid():  # in a container that was started again; this process has no trial yet
        return True
    if os.name != "posix":  # elsewhere signal 0 is not harmless
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
