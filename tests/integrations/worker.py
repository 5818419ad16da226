"""Workers of a shared study, a process each: `python worker.py STORAGE STUDY LOG ...`, used by test_workers.py.

Each writes what it has measured to its LOG. The first hangs in its third trial, waiting to be killed. They are forked,
so that torch is imported once. When all have ended, their exit codes are printed.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from modeseek import DMSConfig
from modeseek.integrations.optuna import DMSSampler

CHEAP = DMSConfig(m=32, S=16, epochs=3, steps=3, hidden=8)
TRIALS = 24
TICK = 0.5  # seconds; all workers end a trial, and ask again, almost at the same moment
LAG = 0.015  # seconds between them: SQLite does not lock rows, so that two may take one waiting trial


def open_storage(where: str) -> BaseStorage:
    if where.endswith(".journal"):
        return JournalStorage(JournalFileBackend(where))
    retry = getattr(optuna.storages, "RetryHeartbeatStaleTrialCallback", None)
    if retry is not None:
        return RDBStorage(where, heartbeat_interval=1, grace_period=5, heartbeat_stale_trial_callback=retry())
    retry = optuna.storages.RetryFailedTrialCallback()  # its name before Optuna 4.9
    return RDBStorage(where, heartbeat_interval=1, grace_period=5, failed_trial_callback=retry)


def measure(x: float, y: float, k: int) -> float:
    """Best in a corner: all workers are drawn to one point."""
    return x + y + 0.1 * k


def is_over(study: optuna.Study) -> bool:
    trials = study.get_trials(deepcopy=False)
    enough = sum(trial.state == TrialState.COMPLETE for trial in trials) >= TRIALS
    stale = any("hanging" in trial.user_attrs and trial.state == TrialState.RUNNING for trial in trials)
    return enough and not (stale and isinstance(study._storage, optuna.storages._CachedStorage))


def work(where: str, name: str, log: Path, index: int) -> None:
    study = optuna.load_study(study_name=name, storage=open_storage(where), sampler=DMSSampler(seed=0, config=CHEAP))
    mine: list[int] = []

    def objective(trial: Trial) -> float:
        x, y, k = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1), trial.suggest_int("k", 0, 5)
        if index == 0 and len(mine) == 2:
            trial.set_user_attr("hanging", os.getpid())
            log.with_suffix(".hangs").touch()
            time.sleep(600)
        time.sleep(TICK - time.time() % TICK + LAG * index)
        value = measure(x, y, k)
        mine.append(trial.number)
        return value

    def after(study: optuna.Study, trial: FrozenTrial) -> None:
        with log.open("a") as file:
            file.write(f"{trial.number} {trial.value!r}\n")
        if is_over(study):
            study.stop()

    while not is_over(study):
        try:
            study.optimize(objective, callbacks=[after])
        except ValueError as error:  # SQLite does not lock rows: another took the same waiting trial
            if not (where.startswith("sqlite") and "Cannot tell a COMPLETE trial" in str(error)):
                raise


def main(where: str, name: str, logs: list[Path]) -> None:
    children = []
    for index, log in enumerate(logs):
        children.append(os.fork())
        if children[-1] == 0:
            try:
                work(where, name, log, index)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [Path(log) for log in sys.argv[3:]])
