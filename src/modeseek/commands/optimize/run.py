"""Trials until the budget is used up: here, or in several processes that share the study.

The storage is all that processes have in common; this one only says who may begin another trial, and marks the trial
of a worker that died.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import optuna
from optuna.storages import BaseStorage

from modeseek.checks import device_of
from modeseek.commands.optimize import store
from modeseek.commands.optimize.evaluator import Job, Report, evaluator, worker
from modeseek.commands.optimize.known import add_known, directions_for, read_known, read_transfer
from modeseek.commands.optimize.objective import find_function
from modeseek.commands.optimize.storage import open_storage, patiently
from modeseek.digits import rounded
from modeseek.errors import AllTrialsFailed, ConfigError, WorkerError
from modeseek.execution.budget import Budget
from modeseek.execution.evaluate import type_error
from modeseek.execution.interrupts import Interrupts
from modeseek.execution.pool import Death, Pool
from modeseek.execution.progress import progress_bar
from modeseek.fronts import as_reference
from modeseek.stopping import WhenSure, caveat
from modeseek.trials import Direction

if TYPE_CHECKING:
    from modeseek.integrations.optuna import StopWhenSure

MAX_FAILURES = 10  # when the first trials all fail, so will the rest
MAX_IDLE_DEATHS = 3  # of workers that had no trial yet, one after the other
GRACE = 10.0  # seconds that workers have after Ctrl-C to mark their trials as interrupted

_log = logging.getLogger(__name__)


def optimize(
    settings: Job,
    *,
    trials: int,
    direction: Sequence[Direction] | None = None,
    workers: int = 1,
    timeout: float | None = None,
    retry_failed: bool = False,
    stop: WhenSure | None = None,
    known: Sequence[str] = (),
    transfer: Sequence[str] = (),
) -> optuna.Study:
    """Run the study until it has this many evaluated trials, those of earlier runs included.

    Args:
        settings: what, how and where.
        trials: the total; interrupted trials do not count, failed ones do.
        direction: of each objective; None is the study's own, "minimize" for a new one.
        workers: processes side by side; 1 evaluates in this one.
        timeout: seconds after which no new trial begins.
        retry_failed: evaluate the points of failed trials again instead of counting them.
        stop: end once so little is left to be gained.
        known: earlier evaluations of this objective: CSV files, studies of the storage, checkpoints.
        transfer: earlier studies on related tasks: studies of the storage, checkpoints.
    """
    find_function(settings.objective)  # before anything is made
    if settings.space.size == 0 and (region := settings.space.region()) is not None:
        raise region.nothing_allowed()
    if settings.device != "cpu":
        device_of(settings.device)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # the bar says it shorter
    storage = open_storage(settings.storage)
    study, settings = _opened(storage, settings, direction, known, transfer)
    if stop is not None and len(study.directions) > 1:
        raise ConfigError("--stop-regret is for one objective; use --trials or --timeout")
    store.fail_abandoned_trials(study)
    if retry_failed:
        _log.info("study %r: %d failed trials are tried again", settings.study, store.retry_failed_trials(study))
    if settings.space.size <= trials:  # the run is over when every point has been evaluated; the sampler repeats none
        store.enqueue_interrupted_trials(study)
    settings = replace(settings, n_trials=trials + len(store.known_trials(study)))
    budget = Budget(int(min(trials, settings.space.size - store.known_points(study))), timeout)
    sure = None if stop is None else _when_sure(stop, settings)
    with Interrupts() as interrupts, _Tally(study, budget, interrupts.check, sure) as tally:
        if workers == 1:
            with evaluator(settings, storage, interrupts) as run_trial:
                while tally.may_begin():
                    tally.finished(run_trial())
                    interrupts.check()
        else:
            _run_crew(settings, workers, tally, interrupts)
    if not store.has_complete(study) and store.evaluated(study):
        raise _all_failed(study)
    return study


def _opened(
    storage: BaseStorage,
    settings: Job,
    direction: Sequence[Direction] | None,
    known: Sequence[str],
    transfer: Sequence[str],
) -> tuple[optuna.Study, Job]:
    """The study, with what was known beforehand in it, and the settings with its seed and the earlier studies."""
    name, space = settings.study, settings.space
    sources = read_known(known, storage, name, space)
    told = read_transfer(transfer, storage, name, space)
    directions = directions_for(storage, name, direction, sources)
    if told and len(directions) > 1:
        raise ConfigError("--transfer is for one objective; leave it out")
    if settings.reference is not None:
        as_reference(settings.reference, len(directions))  # which says how many numbers it takes
    study, seed = store.open_study(storage, name, directions, space, settings.seed)
    add_known(study, space, sources)
    return study, replace(settings, seed=seed, transfer=told)


def _all_failed(study: optuna.Study) -> AllTrialsFailed:
    errors = [error for trial in study.get_trials(deepcopy=False) if (error := trial.user_attrs.get(store.ERROR))]
    if not errors:  # the trials are another program's
        return AllTrialsFailed("there is no best trial: all trials were pruned")
    return AllTrialsFailed(f"all {len(errors)} trials failed; the last one:\n{errors[-1]}")


class _Tally:
    """How far the study is: whether another trial may begin, and what the bar says."""

    def __init__(
        self, study: optuna.Study, budget: Budget, check: Callable[[], None], stop: StopWhenSure | None = None
    ) -> None:
        self.study, self.budget, self._check = study, budget, check
        self._stop = stop
        self._sure = False
        self.failures = 0

    def __enter__(self) -> _Tally:
        there, total = self._evaluated(), self.budget.total
        if there:
            _log.info("study %r goes on with %d of %d trials", self.study.study_name, there, total)
            print(f"study {self.study.study_name!r} has {there} of {total} trials", file=sys.stderr)
        self.bar = progress_bar(total, done=min(there, total))
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def may_begin(self, running: int = 0) -> bool:
        return not self._sure and self.budget.spent(self._evaluated() + running) is None

    def finished(self, report: Report) -> None:
        """Show how a trial ended; AllTrialsFailed or ObjectiveTypeError when there is no sense in another."""
        if report.error is not None:
            self.failures += 1
            self.say(f"trial {report.number} failed: {report.error.strip().splitlines()[-1]}")
        self._show()
        if self._stop is not None and report.error is None and not self._sure and self._stop.is_sure(self.study):
            self._sure = True
            but = caveat(store.directions_of(self.study)[0])
            self.say(f"sure enough: the best point is within {self._stop.when.regret:g} of the optimum, {but}")
        if report.error is None:
            return
        if report.never_a_number and not store.has_complete(self.study, known=False):
            raise type_error(report.error, len(self.study.directions))
        if store.has_complete(self.study):
            return
        if self.failures >= MAX_FAILURES:
            raise _all_failed(self.study)

    def say(self, text: str) -> None:
        """A line above the bar."""
        self.bar.write(text, file=sys.stderr)

    def _evaluated(self) -> int:
        return patiently(lambda: store.evaluated(self.study), self._check)

    def _show(self) -> None:
        best = patiently(lambda: store.best_value(self.study), self._check)
        notes = [] if best is None else [f"best={rounded(best, *store.spreads(self.study))}"]
        if best is None and store.has_complete(self.study):
            front = len(self.study.best_trials) if len(self.study.directions) > 1 else 0
            notes = [f"front of {front}" if front else "nothing feasible yet"]
        notes += [f"failed={self.failures}"] if self.failures else []
        self.bar.set_postfix_str(", ".join(notes), refresh=False)
        self.bar.n = min(self._evaluated(), self.budget.total)
        self.bar.refresh()


def _when_sure(stop: WhenSure, settings: Job) -> StopWhenSure:
    from modeseek.integrations.optuna import DMSSampler, StopWhenSure

    space, fixed, exact = settings.space, settings.fixed, settings.noise == "none"
    if not (space.constraints or fixed or exact):
        return StopWhenSure(stop)
    return StopWhenSure(stop, DMSSampler(seed=0, space=space, fixed=fixed, deterministic_objective=exact))


def _run_crew(settings: Job, n: int, tally: _Tally, interrupts: Interrupts) -> None:
    """Trials in n processes. One that dies costs its trial an attempt, and another takes its place."""
    pool = Pool[None, Report](
        partial(worker, settings), n, what="the objective", retries=0, grace=GRACE, allowed=interrupts.allowed
    )
    idle_deaths = 0
    try:
        with pool:
            while True:
                while len(pool) < n and tally.may_begin(len(pool)):
                    pool.submit(None, None)
                if not len(pool):
                    return
                for _, answer in pool.wait():
                    if isinstance(answer, Death):
                        had_a_trial = _bury(answer, tally)
                        idle_deaths = 0 if had_a_trial else idle_deaths + 1
                    else:
                        tally.finished(answer)
                        idle_deaths = 0
                if idle_deaths >= MAX_IDLE_DEATHS:
                    raise WorkerError(f"{answer} before it had a trial, {idle_deaths} times; see the errors above")
    finally:
        for pid in pool.pids:
            store.fail_trials_of(tally.study, store.worker_name(pid))


def _bury(death: Death, tally: _Tally) -> bool:
    """Whether the worker had a trial, which is tried once more or failed."""
    lost = store.lose_trials_of(tally.study, store.worker_name(death.pid), str(death))
    for number, error in lost.items():
        if error is None:
            tally.say(f"trial {number}: {death}; its point is tried again")
        else:
            tally.finished(Report(number, error))
    return bool(lost)
