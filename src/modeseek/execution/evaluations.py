"""Where an objective is evaluated: here, in processes that may die, or in an executor of concurrent.futures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, Protocol

from modeseek.errors import ConfigError
from modeseek.execution.evaluate import Catch, Evaluated, evaluate
from modeseek.execution.pool import Death, Pool, no_setup
from modeseek.execution.shipping import for_executor

Finished = list[tuple[int, Evaluated]]


class Evaluations(Protocol):
    """Evaluations side by side, each by the number of its trial.

    Attributes:
        isolated: an evaluation that ends its process leaves this one alone.
    """

    isolated: bool

    def submit(self, number: int, params: Any) -> None:
        """Begin an evaluation."""

    def wait(self) -> Finished:
        """Wait until one is over; all that are."""

    def finished(self) -> Finished:
        """Those that are over by now."""


@contextmanager
def evaluations(
    f: Any, catch: Catch, n: int, executor: Literal["process", "thread"] | Executor, objectives: int = 1
) -> Iterator[Evaluations]:
    """A place for n evaluations at a time, ended on the way out; after an error none is waited for."""
    work = partial(evaluate, f, catch, objectives=objectives)
    if isinstance(executor, Executor):
        yield _Futures(for_executor("the objective", work, executor), executor)
    elif executor not in ("process", "thread"):
        raise ConfigError(f"executor must be 'process', 'thread' or a concurrent.futures.Executor, not {executor!r}")
    elif n == 1:
        yield _Here(work)
    elif executor == "process":
        with Pool[int, Evaluated](no_setup(work), n, what="the objective") as pool:
            yield _Processes(pool)
    else:
        threads = ThreadPoolExecutor(n, thread_name_prefix="modeseek")
        try:
            yield _Futures(work, threads)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)  # a thread cannot be ended
            raise
        threads.shutdown()


class _Here:
    """In the caller's thread, when it is waited for."""

    isolated = False

    def __init__(self, work: Callable[[Any], Evaluated]) -> None:
        self._evaluate = work
        self._submitted: list[tuple[int, Any]] = []

    def submit(self, number: int, params: Any) -> None:
        self._submitted.append((number, params))

    def wait(self) -> Finished:
        number, params = self._submitted.pop(0)
        return [(number, self._evaluate(params))]

    def finished(self) -> Finished:
        return []


class _Futures:
    """In an executor. Whether it survives the death of a worker is its own affair: concurrent.futures' does not."""

    isolated = False

    def __init__(self, work: Callable[[Any], Evaluated], executor: Executor) -> None:
        self._evaluate, self._executor = work, executor
        self._running: dict[Future[Evaluated], int] = {}

    def submit(self, number: int, params: Any) -> None:
        self._running[self._executor.submit(self._evaluate, params)] = number

    def wait(self) -> Finished:
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        good = [future for future in done if future.exception() is None]
        if not good:
            done.pop().result()  # raises: the executor is broken
        return self._take(good)

    def finished(self) -> Finished:
        """Calls off what has not begun."""
        done = [future for future in self._running if not future.cancel() and future.done() and not future.exception()]
        return self._take(done)

    def _take(self, done: list[Future[Evaluated]]) -> Finished:
        return sorted((self._running.pop(future), future.result()) for future in done)


class _Processes:
    """In worker processes; an evaluation that has ended two of them is a failed one."""

    isolated = True

    def __init__(self, pool: Pool[int, Evaluated]) -> None:
        self._pool = pool

    def submit(self, number: int, params: Any) -> None:
        self._pool.submit(number, params)

    def wait(self) -> Finished:
        return _outcomes(self._pool.wait())

    def finished(self) -> Finished:
        return _outcomes(self._pool.finished())


def _outcomes(over: list[tuple[int, Evaluated | Death]]) -> Finished:
    return sorted((number, Evaluated(error=str(a)) if isinstance(a, Death) else a) for number, a in over)
