"""`minimize` and `maximize`: the whole loop, from the objective to a Result."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any, Literal, TypeAlias

from tqdm import tqdm

from modeseek import checkpoint as checkpoints
from modeseek.checks import whole_number
from modeseek.config import DMSConfig
from modeseek.errors import AllTrialsFailed, CheckpointError, ConfigError, SpaceExhausted, TrialFailedWarning
from modeseek.execution.workers import Outcome, evaluate, workers
from modeseek.optimizer import Optimizer
from modeseek.result import Result, Stopped
from modeseek.space import Space
from modeseek.trials import Direction, Trial, TrialState
from modeseek.typing import Params

Objective: TypeAlias = Callable[[Params], Any]
Callback: TypeAlias = Callable[[Optimizer, Trial], Any]
Catch: TypeAlias = type[Exception] | tuple[type[Exception], ...]


def minimize(
    f: Objective,
    space: Space,
    budget: int,
    *,
    seed: int | None = None,
    config: DMSConfig | None = None,
    n_initial: int = 10,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
    timeout: float | None = None,
    catch: Catch = (),
    checkpoint: checkpoints.StrPath | None = None,
    n_workers: int = 1,
    executor: Literal["process", "thread"] | Executor = "process",
    progress: bool = True,
    max_failures: int = 10,
) -> Result:
    """Find parameters with a small f(params), from at most `budget` evaluations.

    Args:
        f: the objective: a dict of parameters (an array for a box) to a number. A value that is no finite number makes
            a failed trial.
        space: what to search.
        budget: total number of evaluations, the initial design, failed ones and those before a resume included.
        seed, config, n_initial, device: see `Optimizer`.
        callbacks: each is called as callback(optimizer, trial) after every trial; returning True ends the run.
        timeout: seconds after which no new trial begins.
        catch: exception types of f that only fail the trial; any other is raised again, after the trial is kept.
        checkpoint: a file to save to after every step, and to resume from when it exists. Trials that ran when it was
            written are evaluated again first.
        n_workers: evaluations side by side.
        executor: "process" (f must pickle), "thread", or your own concurrent.futures.Executor, which stays open.
        progress: a progress bar on standard error.
        max_failures: AllTrialsFailed when so many trials, or all of the budget, have failed and none succeeded.

    Ctrl-C ends the run and returns the Result, with stopped="interrupted"; trials that ran are still RUNNING in it and
    in the checkpoint.
    """
    settings = dict(seed=seed, config=config, n_initial=n_initial, device=device)
    with _Run("minimize", f, space, budget, settings, callbacks, timeout, catch, checkpoint, max_failures) as run:
        return run(n_workers, executor, progress)


def maximize(
    f: Objective,
    space: Space,
    budget: int,
    *,
    seed: int | None = None,
    config: DMSConfig | None = None,
    n_initial: int = 10,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
    timeout: float | None = None,
    catch: Catch = (),
    checkpoint: checkpoints.StrPath | None = None,
    n_workers: int = 1,
    executor: Literal["process", "thread"] | Executor = "process",
    progress: bool = True,
    max_failures: int = 10,
) -> Result:
    """Find parameters with a large f(params), from at most `budget` evaluations; all else as in `minimize`."""
    settings = dict(seed=seed, config=config, n_initial=n_initial, device=device)
    with _Run("maximize", f, space, budget, settings, callbacks, timeout, catch, checkpoint, max_failures) as run:
        return run(n_workers, executor, progress)


class _Run:
    """One call of minimize or maximize: what is fixed in it, and the optimizer that it drives."""

    def __init__(
        self,
        direction: Direction,
        f: Objective,
        space: Space,
        budget: int,
        settings: dict[str, Any],
        callbacks: Sequence[Callback],
        timeout: Any,
        catch: Catch,
        checkpoint: Any,
        max_failures: int,
    ) -> None:
        if not callable(f):
            raise ConfigError(f"the objective must be callable, not {f!r}")
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise ConfigError(f"timeout must be at least 0 seconds, not {timeout!r}")
        if checkpoint is not None and (not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint)):
            raise ConfigError(f"checkpoint must be a path, not {checkpoint!r}")
        self.began = time.monotonic()
        self.f, self.timeout = f, timeout
        self.callbacks, self.catch = _callbacks(callbacks), _exception_types(catch)
        self.budget = whole_number("budget", budget, 1)
        self.max_failures = whole_number("max_failures", max_failures, 1)
        self.checkpoint = None if checkpoint is None else checkpoints.resolve(checkpoint)
        self.optimizer = _open(self.checkpoint, direction, space, settings)
        self.again = deque(self.optimizer.pending)
        self.stopped: Stopped | None = None
        self.error: Exception | None = None  # the first one to raise again

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.optimizer.close()

    def __call__(self, n_workers: int, executor: Literal["process", "thread"] | Executor, progress: bool) -> Result:
        opt = self.optimizer
        try:
            with (
                workers(self.f, whole_number("n_workers", n_workers, 1), executor) as pool,
                tqdm(total=self.budget, initial=self._told(), disable=not progress, file=sys.stderr) as bar,
            ):
                self._loop(pool, n_workers, bar)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
            self._save()
        if self.stopped in ("budget", "space exhausted"):
            self._check_failures(limit=1)
        return Result(
            best=opt.best,
            recommended=opt.recommend(),
            trials=opt.trials,
            space=opt.space,
            direction=opt.direction,
            seed=opt.seed,
            config=opt.config,
            stopped=self.stopped or "budget",
            seconds=time.monotonic() - self.began,
        )

    def _loop(self, pool: Executor, n_workers: int, bar: Any) -> None:
        running: dict[Future[Outcome], Trial] = {}
        try:
            while True:
                while len(running) < n_workers and (trial := self._next(len(running))) is not None:
                    running[pool.submit(evaluate, self.f, trial.params)] = trial
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda future: running[future].number):
                    outcome = future.result()
                    self._finish(running.pop(future), outcome, bar)
                if self.error is not None:
                    raise self.error
                self._check_failures(self.max_failures)
        except BrokenExecutor as error:
            error.add_note(
                "A worker process ended: killed, or the objective cannot be imported there. Define it in a module, "
                'guard a script by `if __name__ == "__main__":`, or use executor="thread". No told value is lost.'
            )
            raise
        finally:
            self._rescue(running)

    def _rescue(self, running: dict[Future[Outcome], Trial]) -> None:
        """On the way out with an error: what others have finished by then is told, the rest is called off."""
        finished = [future for future in running if not future.cancel() and future.done() and not future.exception()]
        for future in finished:
            self._tell(running[future], future.result())
        if finished:
            self._save()

    def _next(self, running: int) -> Trial | None:
        """The next trial to evaluate; None, and why in `stopped`, when there is none."""
        if self.stopped is None and self._told() + running >= self.budget:
            self.stopped = "budget"
        if self.stopped is None and self.timeout is not None and time.monotonic() - self.began >= self.timeout:
            self.stopped = "timeout"
        if self.stopped is not None:
            return None
        if self.again:
            return self.again.popleft()
        try:
            trial = self.optimizer.ask()
        except SpaceExhausted:
            self.stopped = "space exhausted"
            return None
        self._save()
        return trial

    def _tell(self, trial: Trial, outcome: Outcome) -> Trial:
        if outcome.error is None:
            return self.optimizer.tell(trial, outcome.value)
        return self.optimizer.tell(trial, failed=True, error=outcome.error)

    def _finish(self, trial: Trial, outcome: Outcome, bar: Any) -> None:
        opt = self.optimizer
        told = self._tell(trial, outcome)
        self._save()
        if opt.best is not None:
            bar.set_postfix_str(f"best={opt.best.value:.6g}", refresh=False)
        bar.update()
        if [callback for callback in self.callbacks if callback(opt, told)]:
            self.stopped = "callback"
        if outcome.exception is not None and not isinstance(outcome.exception, self.catch):
            outcome.exception.add_note(f"in trial {trial.number}, params={trial.params!r}; `catch=` goes on after it")
            self.error = self.error or outcome.exception
        if outcome.exception is None and outcome.error is not None:
            warnings.warn(f"trial {trial.number} failed: {outcome.error}", TrialFailedWarning, stacklevel=5)

    def _check_failures(self, limit: int) -> None:
        trials = self.optimizer.trials
        failed = [trial for trial in trials if trial.state is TrialState.FAILED]
        if self.optimizer.best is None and len(failed) >= limit:
            raise AllTrialsFailed(
                f"all {len(failed)} trials failed; the last one: {failed[-1].error}\n"
                "Every trial is kept in this error's .trials, and in the checkpoint if there is one.",
                trials,
            )

    def _told(self) -> int:
        """Evaluations that are over; what came from `tell_params` was not one of ours."""
        return sum(t.state is not TrialState.RUNNING and t.origin != "told" for t in self.optimizer.trials)

    def _save(self) -> None:
        if self.checkpoint is not None:
            self.optimizer.save(self.checkpoint)


def _callbacks(callbacks: Any) -> tuple[Callback, ...]:
    if not isinstance(callbacks, Iterable) or not all(map(callable, callbacks := tuple(callbacks))):
        raise ConfigError(f"callbacks must be a list of functions, not {callbacks!r}")
    return tuple(callbacks)


def _exception_types(catch: Any) -> tuple[type[Exception], ...]:
    types = tuple(catch) if isinstance(catch, Iterable) else (catch,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in types):
        raise ConfigError(f"catch must be exception types, as in catch=(ValueError,), not {catch!r}")
    return types


def _open(path: str | None, direction: Direction, space: Space, settings: dict[str, Any]) -> Optimizer:
    """A new optimizer, or the one of the checkpoint, which it then holds."""
    new = Optimizer(space, direction=direction, **settings)
    if path is None:
        return new
    lock = checkpoints.acquire(path)  # before looking: two runs must not both find no file
    try:
        if not os.path.exists(path):
            new._hold(path, lock)
            return new
        old = Optimizer.load(path, device=settings["device"])
        for name in ("direction", "space", "seed", "config", "n_initial"):
            asked = settings.get(name, True) is not None  # seed=None and config=None mean: as it was
            if asked and getattr(old, name) != getattr(new, name):
                raise CheckpointError(
                    f"{path} is of another run: its {name} is {getattr(old, name)!r}, not {getattr(new, name)!r}; "
                    "give the same settings, or another path"
                )
        old._hold(path, lock)
        return old
    except BaseException:
        lock.release()
        raise
