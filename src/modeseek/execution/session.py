"""One call of `minimize` or `maximize`: ask, evaluate, tell, save, until the budget is spent."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor
from typing import Any, Literal, TypeAlias

import numpy as np

from modeseek import checkpoint as checkpoints
from modeseek.checks import whole_number
from modeseek.digits import rounded, spreads_of
from modeseek.errors import (
    AllTrialsFailed,
    CheckpointError,
    CheckpointNotSaved,
    CheckpointWarning,
    ConfigError,
    ObjectiveTypeError,
    ParameterError,
    SpaceExhausted,
    TrialError,
    TrialFailedWarning,
)
from modeseek.execution.arguments import callback_functions, exception_types, pairs
from modeseek.execution.budget import Budget
from modeseek.execution.evaluate import Evaluated, type_error
from modeseek.execution.evaluations import Evaluations, evaluations
from modeseek.execution.progress import progress_bar
from modeseek.execution.resume import opened
from modeseek.notices import warn
from modeseek.optimizer import Optimizer
from modeseek.outcomes import measured, never_measures
from modeseek.result import Result, Stopped
from modeseek.space import Space
from modeseek.stopping import WhenSure
from modeseek.trials import Direction, Trial, TrialState, goal_of, signs
from modeseek.typing import Params

Objective: TypeAlias = Callable[[Params], Any]
Callback: TypeAlias = Callable[[Optimizer, Trial], Any]

ATTEMPTS = 2  # evaluations of a point that may end the process before it is given up

_log = logging.getLogger(__name__)


class Session:
    """What is fixed in one call, and the optimizer that it drives; the arguments are those of `minimize`."""

    def __init__(
        self,
        direction: Direction | Sequence[Direction],
        f: Objective,
        space: Space,
        budget: int,
        *,
        settings: dict[str, Any],
        callbacks: Sequence[Callback],
        timeout: Any,
        stop: Any,
        fixed: Any,
        known: Any,
        catch: Any,
        checkpoint: Any,
        max_failures: int,
        retry_failed: bool,
    ) -> None:
        if not callable(f):
            raise ConfigError(f"the objective must be callable, not {f!r}")
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise ConfigError(f"timeout must be at least 0 seconds, not {timeout!r}")
        if checkpoint is not None and (not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint)):
            raise ConfigError(f"checkpoint must be a path, not {checkpoint!r}")
        if stop is not None and not isinstance(stop, WhenSure):
            raise ConfigError(f"stop must be a modeseek.WhenSure, not {stop!r}")
        if stop is not None and isinstance(goal_of(direction), tuple):
            raise ConfigError("stop=WhenSure(...) is for one objective; use budget, timeout or a callback")
        self.f, self.callbacks, self.catch, self.stop = f, callback_functions(callbacks), exception_types(catch), stop
        known, self.fixed = pairs(known, len(signs(goal_of(direction)))), fixed
        self.budget = Budget(whole_number("budget", budget, 1), timeout)
        self.max_failures = whole_number("max_failures", max_failures, 1)
        self.checkpoint = None if checkpoint is None else checkpoints.resolve(checkpoint)
        self.optimizer = opened(self.checkpoint, direction, space, settings)
        try:
            self._tell_known(known)
        except BaseException:
            self.optimizer.close()
            raise
        if retry_failed:
            self._reopen_failed()
        self.again = deque(self.optimizer.pending)
        self.over: deque[tuple[int, Evaluated]] = deque()  # evaluated and not told yet
        self.evaluated = 0
        self.stopped: Stopped | None = None
        self.error: Exception | None = None  # the first one to raise again
        self.unsaved: CheckpointError | None = None  # why the last save failed
        if self.optimizer.trials:
            _log.info("resuming with %d trials told and %d to evaluate again", self._told(), len(self.again))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.optimizer.close()
        if error is not None and self.unsaved is not None and not isinstance(error, CheckpointNotSaved):
            error.add_note(f"The last evaluations are not in the checkpoint: {self.unsaved}")

    def __call__(self, n_workers: int, executor: Literal["process", "thread"] | Executor, progress: bool) -> Result:
        """Evaluate until the budget is spent, and give what there is."""
        n = whole_number("n_workers", n_workers, 1)
        try:
            with (
                evaluations(self.f, self.catch, n, executor, self.optimizer._trials.objectives) as place,
                progress_bar(self.budget.total, done=self._told(), show=progress) as self.bar,
            ):
                self._loop(place, n)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
            self._save()
        if self.stopped in ("budget", "space exhausted"):
            self._check_failures(limit=1)
        result = self._result()
        if self.unsaved is not None:
            raise CheckpointNotSaved(
                f"{self.unsaved}\nThe run is over ({self.stopped}). All of it is in this error's .result; "
                ".optimizer.save(path) writes it once there is space.",
                result,
                self.optimizer,
            )
        return result

    def _loop(self, place: Evaluations, n: int) -> None:
        running: dict[int, Trial] = {}
        broken = False
        try:
            while True:
                while len(running) < n and (trial := self._next(len(running), place)) is not None:
                    running[trial.number] = trial
                    place.submit(trial.number, trial.params)
                if not running:
                    return
                self.over.extend(place.wait())
                while self.over:
                    number, outcome = self.over.popleft()
                    self._finish(running.pop(number), outcome)
                if self.error is not None:
                    raise self.error
                self._check_failures(self.max_failures)
        except BrokenExecutor as error:
            broken = True  # by one of the running evaluations; nobody knows by which
            error.add_note(
                "A worker of your executor ended: killed, or the objective cannot be imported there. No told value is "
                'lost. executor="process" survives that.'
            )
            raise
        finally:
            self._leave(place, running, broken)

    def _leave(self, place: Evaluations, running: dict[int, Trial], broken: bool) -> None:
        """On the way out with an error: what is finished by then is told, the rest may begin as if it never had."""
        self.over.extend(place.finished())
        changed = bool(self.over)
        while self.over:
            number, outcome = self.over.popleft()
            self._tell(running.pop(number), outcome)
        if not place.isolated and not broken:
            for trial in running.values():
                self.optimizer._trials.count_start(trial, -1)
                changed = True
        if changed:
            self._save()

    def _next(self, running: int, place: Evaluations) -> Trial | None:
        """The next trial to evaluate; None, and why in `stopped`, when there is none."""
        while self.stopped is None:
            begun = self._told() + running
            self.stopped = self.budget.spent(begun)
            if self.stopped is not None:
                break
            if not self.again:
                return self._ask(self.budget.total - begun, place)
            trial = self.again.popleft()
            if place.isolated or trial.starts < ATTEMPTS:
                return self._begin(trial, place)
            error = (
                f"the program ended {trial.starts} times while it evaluated this point (a crash, or killed, possibly "
                "out of memory): given up; retry_failed=True tries it again"
            )
            _log.warning("trial %d: %s", trial.number, error)
            self._finish(trial, Evaluated(error=error))
        return None

    def _ask(self, left: int, place: Evaluations) -> Trial | None:
        try:
            return self._begin(self.optimizer.ask(left=left, fixed=self.fixed), place)
        except SpaceExhausted:
            self.stopped = "space exhausted"
            return None

    def _begin(self, trial: Trial, place: Evaluations) -> Trial:
        if not place.isolated:  # if this evaluation ends the program, the next one sees it in the checkpoint
            trial = self.optimizer._trials.count_start(trial)
        trial = self.optimizer._trials.timed(trial, started=time.time())
        self._save()
        _log.debug("trial %d begins: %r", trial.number, trial.params)
        return trial

    def _tell(self, trial: Trial, outcome: Evaluated) -> Trial:
        self.evaluated += 1
        trials = self.optimizer._trials
        if outcome.measured is not None:
            told = trials.record(trial, outcome.measured)
        else:
            told = self.optimizer.tell(trial, failed=True, error=outcome.error)
        return trials.timed(told, started=told.started, seconds=outcome.seconds)

    def _finish(self, trial: Trial, outcome: Evaluated) -> None:
        opt = self.optimizer
        first = not any(t.state is TrialState.COMPLETE and t.origin != "told" for t in opt.trials)
        outcome = self._checked(outcome)
        told = self._tell(trial, outcome)
        self._save()
        self.bar.set_postfix_str(self._so_far(), refresh=False)
        self.bar.update()
        if [callback for callback in self.callbacks if _is_true(callback(opt, told))]:
            self.stopped = "callback"
        if self.stop is not None and self.stopped is None and self.stop(opt, told, self.fixed):
            self.stopped = "sure"
        exception = outcome.exception
        if outcome.never_a_number and first:
            exception = type_error(outcome.error, opt._trials.objectives)
        if exception is not None:
            exception.add_note(f"in trial {trial.number}, params={trial.params!r}; `catch=` goes on after it")
            self.error = self.error or exception
        elif outcome.error is not None and not outcome.caught:
            warn(f"trial {trial.number} failed: {outcome.error}", TrialFailedWarning)

    def _checked(self, outcome: Evaluated) -> Evaluated:
        """The same, or a failed one where it has not as many constraints as those before."""
        try:
            self.optimizer._trials.check_constraints(() if outcome.measured is None else outcome.measured.constraints)
        except TrialError as error:
            if outcome.measured is not None:
                never = not issubclass(ObjectiveTypeError, self.catch)
                if (there := self._constraints_known()) is not None:
                    mistake = _unlike_known(there, len(outcome.measured.constraints))
                    return Evaluated(error=str(mistake), exception=mistake if never else None)
                return Evaluated(error=str(error), never_a_number=never)
        return outcome

    def _constraints_known(self) -> int | None:
        """How many constraints `known=` has, as long as no evaluation has given a number; None: it has no say."""
        done = [trial for trial in self.optimizer.trials if trial.constraints is not None]
        only_known = bool(done) and all(trial.origin == "told" for trial in done)
        return len(done[0].constraints or ()) if only_known else None

    def _so_far(self) -> str:
        opt = self.optimizer
        if isinstance(opt.direction, tuple):
            if front := opt.front:
                return f"front of {len(front)}"
        elif opt.best is not None and opt.best.values is not None:
            return f"best={rounded(*opt.best.values, *spreads_of(trial.values for trial in opt.trials))}"
        return "nothing feasible yet" if self.optimizer.least_violated is not None else ""

    def _check_failures(self, limit: int) -> None:
        trials = self.optimizer.trials
        failed = [trial for trial in trials if trial.state is TrialState.FAILED and trial.origin != "told"]
        if len(failed) >= limit and not any(trial.state is TrialState.COMPLETE for trial in trials):
            raise AllTrialsFailed(
                f"all {len(failed)} trials failed; the last one: {failed[-1].error}\n"
                "Every trial is kept in this error's .trials, and in the checkpoint if there is one.",
                trials,
            )

    def _told(self) -> int:
        """Evaluations that are over; what came from `tell_params` was not one of ours."""
        return sum(t.state is not TrialState.RUNNING and t.origin != "told" for t in self.optimizer.trials)

    def _tell_known(self, known: list[tuple[Params, Any]]) -> None:
        """What was measured before; a run that is resumed has it already."""
        opt = self.optimizer
        there = {(t.unit, t.values, t.constraints) for t in opt.trials if t.origin == "told"}
        outside = [trial.params for trial in opt.trials if trial.origin == "told" and not trial.in_space]
        for params, value in known:
            if any(np.array_equal(params, kept) if opt.space.is_box else params == kept for kept in outside):
                continue
            told: tuple[Any, ...] = (None, None)
            try:
                told = measured(value, opt._trials.objectives)[:2]
            except ValueError as error:
                if never_measures(value, opt._trials.objectives):
                    raise ConfigError(
                        f"known= has {params!r:.200}: {error}; leave out what has no value, or give NaN for an "
                        "evaluation that failed"
                    ) from error
            try:
                unit = tuple(opt.space.encode(params).tolist())
            except ParameterError as error:
                raise ParameterError(f"known= has {params!r:.200}: {error}") from error
            if (unit, *told) not in there:
                self.optimizer.tell_params(params, value)

    def _reopen_failed(self) -> None:
        for trial in self.optimizer.trials:
            if trial.state is TrialState.FAILED and trial.origin != "told" and trial.in_space:
                self.optimizer._trials.reopen(trial)

    def _save(self) -> None:
        """Write the checkpoint. Once an evaluation is in memory only, no error of the disk may lose it."""
        if self.checkpoint is None:
            return
        try:
            self.optimizer.save(self.checkpoint)
        except CheckpointError as error:
            if not self.evaluated:
                raise
            before, self.unsaved = self.unsaved, error
            if before is None:
                warn(f"{error}. The run goes on in memory and saves as soon as it can", CheckpointWarning)
        else:
            if self.unsaved is not None:
                _log.info("%s is saved again", self.checkpoint)
            self.unsaved = None

    def _result(self) -> Result:
        opt = self.optimizer
        several = isinstance(opt.direction, tuple)
        recommended = None if several else opt.recommend()
        noisy = recommended is not None and (recommended != opt.best or opt._is_noisy())
        return Result(
            best=None if several else opt.best,
            recommended=recommended,
            trials=opt.trials,
            space=opt.space,
            direction=opt.direction,
            seed=opt.seed,
            config=opt.config,
            stopped=self.stopped or "budget",
            seconds=self.budget.seconds,
            noise=opt.noise,
            reference=opt.reference,
            expected=opt.predict(recommended.params) if recommended is not None and noisy else None,
            fixed=self.fixed,
        )


def _is_true(answer: Any) -> bool:
    """Whether a callback says stop: True, or NumPy's True from a comparison; nothing else that is truthy."""
    return isinstance(answer, bool | np.bool_) and bool(answer)


def _unlike_known(known: int, returned: int) -> ObjectiveTypeError:
    """The error where the objective returns another number of constraints than `known=` has."""
    there, here = (f"{n or 'no'} constraint{'' if n == 1 else 's'}" for n in (known, returned))
    return ObjectiveTypeError(
        f"known= has {there} with its values, and the objective returns {here}; give known= as many, as in "
        "known=[(params, (value, [g1, g2]))], or leave it out"
    )
