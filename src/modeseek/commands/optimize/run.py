"""Trials until the budget is used up: here, or in several processes that share the study.

The storage is all that processes have in common; this one only says who may begin another trial, and marks the trial
of a worker that died.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

import optuna
import torch
from optuna.storages import BaseStorage
from tqdm import tqdm

from modeseek.checks import device_of
from modeseek.commands.optimize import store
from modeseek.commands.optimize.objective import find_objective
from modeseek.commands.optimize.own_trials import OwnTrials
from modeseek.commands.optimize.storage import open_storage, patiently
from modeseek.errors import AllTrialsFailed, ModeseekError
from modeseek.execution.workers import Outcome, evaluate
from modeseek.integrations.optuna import DMSSampler
from modeseek.space import Space
from modeseek.trials import Direction

MAX_FAILURES = 10  # when the first trials all fail, so will the rest
LONGEST_ERROR = 2000  # characters of a traceback that are kept, its end
GRACE = 10.0  # seconds that workers have to end, and after Ctrl-C to mark their trials as failed


@dataclass(frozen=True)
class Settings:
    """What is optimized, how, and where the trials are kept; it goes to worker processes as it is.

    Attributes:
        objective: `module:function`, of a dict of parameters.
        space: what to search.
        storage: an Optuna storage URL, or a journal file (.log, .journal).
        study: the study's name.
        seed, n_startup_trials, device: see `DMSSampler`; the seed None is the study's, which a new study draws.
    """

    objective: str
    space: Space
    storage: str
    study: str
    seed: int | None = None
    n_startup_trials: int = 10
    device: str = "cpu"


class Report(NamedTuple):
    """How a trial ended: `error` is None when it is complete."""

    number: int
    error: str | None


def optimize(
    settings: Settings,
    *,
    trials: int,
    direction: Direction | None = None,
    workers: int = 1,
    timeout: float | None = None,
) -> optuna.Study:
    """Run the study until it has so many evaluated trials, those of earlier runs included.

    Args:
        settings: what, how and where.
        trials: the total; interrupted trials do not count, failed ones do.
        direction: None is the study's own, "minimize" for a new one.
        workers: processes side by side; 1 evaluates in this one.
        timeout: seconds after which no new trial begins.
    """
    find_objective(settings.objective)  # before anything is made
    device_of(settings.device)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # the bar says it shorter
    storage = open_storage(settings.storage)
    study, seed = store.open_study(storage, settings.study, direction, settings.space, settings.seed)
    store.fail_abandoned_trials(study)
    if settings.space.size <= trials:  # the run is over when every point has been evaluated; the sampler repeats none
        store.enqueue_interrupted_trials(study)
    settings = replace(settings, seed=seed)
    with _Interrupts() as interrupts, _Run(study, min(trials, settings.space.size), timeout) as run:
        if workers == 1:
            with _Evaluator(settings, storage, interrupts) as evaluator:
                while run.may_begin():
                    run.finished(evaluator.run_trial())
                    interrupts.check()
        else:
            _Crew(settings, run, interrupts)(workers)
    if store.best_value(study) is None and store.evaluated(study):
        raise _all_failed(study)
    return study


def _all_failed(study: optuna.Study) -> AllTrialsFailed:
    errors = [error for trial in study.get_trials(deepcopy=False) if (error := trial.user_attrs.get(store.ERROR))]
    if not errors:  # the trials are another program's
        return AllTrialsFailed("there is no best trial: the trials were pruned, or none meets its constraints")
    return AllTrialsFailed(f"all {len(errors)} trials failed; the last one:\n{errors[-1]}")


class _Interrupts:
    """Ctrl-C ends at once what runs inside `allowed`, and is kept for later elsewhere: no storage is cut short."""

    def __init__(self) -> None:
        self._seen = self._allowed = False

    def __enter__(self) -> _Interrupts:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        self._allowed = True
        try:
            self.check()
            yield
        finally:
            self._allowed = False

    def check(self) -> None:
        """KeyboardInterrupt when Ctrl-C has been pressed."""
        if self._seen:
            raise KeyboardInterrupt

    def _handle(self, *_: object) -> None:
        self._seen = True
        if self._allowed:
            self._allowed = False
            raise KeyboardInterrupt


class _Evaluator:
    """Runs one trial after the other in this process."""

    def __init__(self, settings: Settings, storage: BaseStorage, interrupts: _Interrupts) -> None:
        sampler = DMSSampler(seed=settings.seed, n_startup_trials=settings.n_startup_trials, device=settings.device)
        study = optuna.load_study(study_name=settings.study, storage=storage, sampler=sampler)
        self.trials = OwnTrials(study, settings.space, interrupts.check)
        self.f, self.interrupts = find_objective(settings.objective), interrupts

    def __enter__(self) -> _Evaluator:
        self.trials.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.trials.__exit__(*error)

    def run_trial(self) -> Report:
        trial, params = self.trials.begin()
        try:
            outcome = self._evaluate(params)
        except BaseException:
            self.trials.interrupt(trial)
            raise
        error = None if outcome.error is None else outcome.error[-LONGEST_ERROR:]
        self.trials.finish(trial, outcome.value, error)
        return Report(trial.number, outcome.error)

    def _evaluate(self, params: dict[str, Any]) -> Outcome:
        with self.interrupts.allowed():
            try:
                return evaluate(self.f, params)
            except SystemExit as error:
                return Outcome(error=f"SystemExit: {error}")


class _Run:
    """The budget and the bar: how far the study is, and whether another trial may begin."""

    def __init__(self, study: optuna.Study, total: float, timeout: float | None) -> None:
        self.study, self.total, self.timeout = study, int(total), timeout
        self.began = time.monotonic()
        self.failures = 0

    def __enter__(self) -> _Run:
        there = store.evaluated(self.study)
        if there:
            print(f"study {self.study.study_name!r} has {there} of {self.total} trials", file=sys.stderr)
        self.bar = tqdm(total=self.total, initial=min(there, self.total), file=sys.stderr)
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def missing(self) -> int:
        return max(self.total - patiently(lambda: store.evaluated(self.study)), 0)

    def timed_out(self) -> bool:
        return self.timeout is not None and time.monotonic() - self.began >= self.timeout

    def may_begin(self, running: int = 0) -> bool:
        return self.missing() > running and not self.timed_out()

    def finished(self, report: Report) -> None:
        if report.error is not None:
            self.failures += 1
            self.bar.write(f"trial {report.number} failed: {report.error.strip().splitlines()[-1]}", file=sys.stderr)
        self._show()
        if self.failures >= MAX_FAILURES and store.best_value(self.study) is None:
            raise _all_failed(self.study)

    def _show(self) -> None:
        best = patiently(lambda: store.best_value(self.study))
        notes = [] if best is None else [f"best={best:.6g}"]
        notes += [f"failed={self.failures}"] if self.failures else []
        self.bar.set_postfix_str(", ".join(notes), refresh=False)
        self.bar.n = self.total - self.missing()
        self.bar.refresh()


class _Crew:
    """Worker processes: each asks over its connection whether it may begin another trial."""

    def __init__(self, settings: Settings, run: _Run, interrupts: _Interrupts) -> None:
        self.settings, self.run, self.interrupts = settings, run, interrupts
        self.processes: list[SpawnProcess] = []
        self.workers: dict[Connection, SpawnProcess] = {}  # those that are not dismissed or dead
        self.evaluating: set[Connection] = set()

    def __call__(self, n: int) -> None:
        try:
            for _ in range(min(n, self.run.missing())):
                self._hire()
            while self.workers:
                with self.interrupts.allowed():
                    ready = wait(list(self.workers))
                for connection in [connection for connection in self.workers if connection in ready]:
                    self._hear(connection)
        finally:
            self._end()
        if self.run.may_begin():
            raise ModeseekError("all worker processes have ended before the trials were done; see their errors above")

    def _hire(self) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        # Not a daemon: those may have no children, and many objectives do (data loaders, joblib).
        process = context.Process(target=_work, args=(self.settings, there))
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: no traceback while the worker imports
        try:
            process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        there.close()
        self.processes.append(process)
        self.workers[here] = process

    def _hear(self, connection: Connection) -> None:
        self.evaluating.discard(connection)
        try:
            report = connection.recv()
        except (EOFError, ConnectionError):
            self._bury(connection)
            return
        if report is not None:
            self.run.finished(report)
        if self.run.may_begin(len(self.evaluating)):
            with suppress(ConnectionError):  # it has died since; the next `wait` says so
                connection.send(True)
            self.evaluating.add(connection)
        else:
            connection.close()
            del self.workers[connection]

    def _bury(self, connection: Connection) -> None:
        """Mark the trial of a worker that died as failed; only a worker that had one is replaced."""
        process = self.workers.pop(connection)
        process.join()
        error = f"the worker process ended with exit code {process.exitcode}"
        for trial in store.fail_trials_of(self.run.study, store.worker_name(process.pid), error):
            self.run.finished(Report(trial.number, error))
            if self.run.may_begin(len(self.evaluating)):
                self._hire()

    def _end(self) -> None:
        """See that all processes end; those still at work, after Ctrl-C or an error, are interrupted like this one."""
        for connection, process in self.workers.items():
            connection.close()
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGINT)
        until = time.monotonic() + GRACE
        for process in self.processes:
            process.join(max(until - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
                process.join()
            store.fail_trials_of(self.run.study, store.worker_name(process.pid))


def _work(settings: Settings, connection: Connection) -> None:
    """A worker's life: report, and go on as long as the answer is yes."""
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    report = None
    with (
        _Interrupts() as interrupts,
        suppress(KeyboardInterrupt),
        _Evaluator(settings, open_storage(settings.storage), interrupts) as evaluator,
    ):
        while _may_go_on(connection, report):
            report = evaluator.run_trial()
            interrupts.check()


def _may_go_on(connection: Connection, report: Report | None) -> bool:
    try:
        connection.send(report)
        return bool(connection.recv())
    except (EOFError, ConnectionError):  # nobody is there any more
        return False
