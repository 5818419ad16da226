"""Where objectives are evaluated: here, in threads, or in processes that end with this one."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from modeseek.errors import ConfigError
from modeseek.trials import as_number


@dataclass(frozen=True)
class Outcome:
    """What one evaluation came to: a value, or an error and, when the objective raised, the exception."""

    value: float | None = None
    error: str | None = None
    exception: Exception | None = None


def evaluate(f: Callable[[Any], Any], params: Any) -> Outcome:
    """f(params) as plain data, so that neither a GPU tensor nor a strange exception has to leave a worker."""
    try:
        value = f(params)
    except Exception as error:
        return Outcome(error=traceback.format_exc(), exception=_portable(error))
    try:
        return Outcome(value=as_number(value))
    except ValueError as error:
        return Outcome(error=str(error))


def _portable(error: Exception) -> Exception:
    """The exception itself, or a RuntimeError of the same text where it would break the way to another process."""
    if multiprocessing.parent_process() is None:
        return error
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


class _Here(Executor):
    """Evaluates at once, in the caller's thread."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def workers(f: Any, n: int, executor: Literal["process", "thread"] | Executor) -> Iterator[Executor]:
    """An executor with n workers, ended on the way out; running evaluations are not waited for after an error."""
    if isinstance(executor, Executor):
        yield executor
        return
    if executor not in ("process", "thread"):
        raise ConfigError(f"executor must be 'process', 'thread' or a concurrent.futures.Executor, not {executor!r}")
    if n == 1:
        yield _Here()
        return
    pool: Executor
    if executor == "thread":
        pool = ThreadPoolExecutor(n, thread_name_prefix="modeseek")
    else:
        _check_pickles(f)
        # Spawned, not forked: a fork after torch or CUDA has started threads can hang.
        pool = ProcessPoolExecutor(n, multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        pool.shutdown(wait=executor == "process", cancel_futures=True)  # a thread cannot be ended
        raise
    pool.shutdown()


def _check_pickles(f: Any) -> None:
    try:
        pickle.dumps(f)
    except Exception as error:
        raise ConfigError(
            f"the objective cannot go to other processes ({error}): define it at the top of a module, "
            'or use executor="thread"'
        ) from error


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent answers for all
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
