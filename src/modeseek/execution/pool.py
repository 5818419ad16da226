"""Worker processes with a pipe each: one that dies takes nothing but its own job with it.

The pool of concurrent.futures breaks as a whole when a worker dies, and does not say which job killed it. Here the
job is tried once more in a new process; then its answer is a `Death`, and the others never notice.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, Self, TypeVar

from modeseek.errors import WorkerError
from modeseek.execution.shipping import (
    as_portable,
    in_one_line,
    not_found,
    ship,
    ship_whole,
    without_main_that_is_no_file,
)

Key = TypeVar("Key")
Answer = TypeVar("Answer")

TICK = 1.0  # seconds between looks at whether processes live: a child of a dead worker may hold its pipe open
PATIENCE = 10.0  # seconds that idle workers have to end by themselves

WORKER = "modeseek worker"  # name of the processes
UNGUARDED = 97  # exit code of one whose import of the main script would start the run over again

_log = logging.getLogger(__name__)
_at_work = False  # in a worker process: whether it has imported the main script


@dataclass(frozen=True)
class Death:
    """In place of an answer: the process that had the job ended, in every attempt."""

    pid: int
    exitcode: int | None
    attempts: int

    def __str__(self) -> str:
        times = "" if self.attempts == 1 else f", in each of {self.attempts} attempts"
        return f"the worker process ended {_how(self.exitcode)}{times}"


def _how(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"with exit code {exitcode}"
    with suppress(ValueError):
        name = signal.Signals(-exitcode).name
        return f"by signal {name}" + (", possibly out of memory" if name == "SIGKILL" else "")
    return f"by signal {-exitcode}"


@dataclass
class _Job(Generic[Key]):
    key: Key
    payload: Any
    data: bytes
    deaths: int = 0


@dataclass(frozen=True)
class _Ready:
    """A worker's first word."""


@dataclass(frozen=True)
class _Refusal:
    """A worker's first and last word: it could not be set up."""

    error: str
    found: bool = True  # what it was to be set up with


@dataclass(frozen=True)
class _Raised:
    """What a job raised."""

    error: Exception


class _Worker(Generic[Key]):
    """The parent's side of a process."""

    def __init__(self, start: bytes) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork after torch or CUDA has started threads can hang
        self.start = start
        self.connection, there = spawn.Pipe()
        # Not a daemon: those may have no children, and many objectives do (data loaders, joblib).
        self.process = spawn.Process(target=_work, args=(there, start), name=WORKER)
        with _without_interrupts(), without_main_that_is_no_file():
            self.process.start()
        there.close()
        self.pid = self.process.pid or 0
        self.ready = False
        self.job: _Job[Key] | None = None

    def end(self, until: float) -> None:
        """Wait for the process, until this time; then kill it."""
        self.process.join(max(until - time.monotonic(), 0))
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Pool(Generic[Key, Answer]):
    """Up to n processes, started when there is work for them; a context manager that leaves none behind.

    Args:
        start: called once in each process; a context manager that gives the function from a job to its answer.
        n: processes at a time.
        what: what goes to the processes, for messages.
        retries: how often a job is tried again whose process died.
        grace: seconds after SIGTERM before a busy process is killed, when the pool is left by an error.
        allowed: the context in which it waits, as of `Interrupts.allowed`.
    """

    def __init__(
        self,
        start: Callable[[], AbstractContextManager[Callable[[Any], Answer]]],
        n: int,
        *,
        what: str = "the work",
        retries: int = 1,
        grace: float = 1.0,
        allowed: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        end_if_unguarded()
        self.pids: list[int] = []  # of all processes there ever were
        self._what, self._n, self._retries, self._grace, self._allowed = what, n, retries, grace, allowed
        self._payload, self._start = start, ship(what, start)
        self._unfound = ""  # why workers do not find what goes there by its name
        self._workers: dict[Connection, _Worker[Key]] = {}
        self._waiting: deque[_Job[Key]] = deque()
        self._over: list[tuple[Key, Answer | Death]] = []
        self._error: Exception | None = None  # raised when all that is over has been given back

    def __len__(self) -> int:
        """Jobs that have been submitted and not been given back."""
        return len(self._waiting) + sum(w.job is not None for w in self._workers.values()) + len(self._over)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        workers = self._workers.values()
        for worker in workers:
            worker.connection.close()  # an idle worker ends by that
            if kind is not None or worker.job is not None or not worker.ready:
                worker.process.terminate()
        until = time.monotonic() + (PATIENCE if kind is None else self._grace)
        for worker in workers:
            worker.end(until)
        self._workers = {}

    def submit(self, key: Key, job: Any) -> None:
        """Queue a job; its answer comes from `wait`, with the key."""
        self._waiting.append(_Job(key, job, self._shipped(job)))
        self._assign()

    def _shipped(self, payload: Any) -> bytes:
        return ship_whole(self._what, payload, self._unfound) if self._unfound else ship(self._what, payload)

    def wait(self) -> list[tuple[Key, Answer | Death]]:
        """Wait until a job is over; those that are, with their answers. WorkerError when processes cannot start."""
        while len(self) and not self._over and self._error is None:
            self._assign()
            with self._allowed():
                ready = wait(list(self._workers), TICK)
            self._hear(ready)
        if not self._over and self._error is not None:
            raise self._error
        return self.finished()

    def finished(self) -> list[tuple[Key, Answer | Death]]:
        """The jobs that are over and not given back yet; waits for none."""
        self._hear(wait(list(self._workers), 0) if self._workers else [])
        over, self._over = self._over, []
        return over

    def _assign(self) -> None:
        self._hear([])  # one that has died while it was idle gets no job
        workers = list(self._workers.values())
        for worker in workers:
            if worker.ready and worker.job is None and self._waiting:
                worker.job = self._waiting.popleft()
                with suppress(OSError):  # it has died since; `_hear` sees that
                    worker.connection.send_bytes(worker.job.data)
        free = sum(not worker.ready for worker in workers)
        for _ in range(min(len(self._waiting) - free, self._n - len(workers))):
            worker = _Worker[Key](self._start)
            _log.debug("worker process %d started", worker.pid)
            self.pids.append(worker.pid)
            self._workers[worker.connection] = worker

    def _hear(self, ready: list[Any]) -> None:
        for connection, worker in list(self._workers.items()):
            ended = worker.process.exitcode is not None  # asked first: by now all that it said is in the pipe
            if connection in ready or (ended and connection.poll()):
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    self._bury(worker)
                else:
                    self._understand(worker, message)
            elif ended:
                self._bury(worker)

    def _understand(self, worker: _Worker[Key], message: Any) -> None:
        if isinstance(message, _Ready):
            worker.ready = True
        elif isinstance(message, _Refusal) and message.found:
            self._fail(WorkerError(f"{self._what} cannot be set up in a worker process:\n{message.error}"))
        elif isinstance(message, _Refusal):
            self._send_whole(worker, message.error)
        elif worker.job is not None:
            job, worker.job = worker.job, None
            if isinstance(message, _Raised):
                self._fail(message.error)
            else:
                self._over.append((job.key, message))

    def _send_whole(self, worker: _Worker[Key], reason: str) -> None:
        """Start again with the code of what this worker does not find: it may stand under the guard of a script."""
        self._drop(worker)
        if worker.start is not self._start:
            return  # it was sent before
        if self._unfound:
            self._fail(WorkerError(not_found(self._what, reason)))
            return
        self._unfound = reason
        self._start = self._shipped(self._payload)
        for job in self._waiting:
            job.data = self._shipped(job.payload)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error

    def _drop(self, worker: _Worker[Key]) -> None:
        worker.end(time.monotonic() + PATIENCE)
        del self._workers[worker.connection]
        worker.connection.close()

    def _bury(self, worker: _Worker[Key]) -> None:
        self._drop(worker)
        job, exitcode = worker.job, worker.process.exitcode
        if exitcode == UNGUARDED and not worker.ready:
            text = "worker processes import your script, which would run all of it again: put what it runs under "
            self._fail(WorkerError(text + '`if __name__ == "__main__":`'))
            return
        if not worker.ready:
            text = f"worker processes cannot start, they end {_how(exitcode)}; see their errors above. A script needs "
            self._fail(WorkerError(text + 'the guard `if __name__ == "__main__":` around what it runs'))
            return
        again = job is not None and job.deaths < self._retries
        _log.warning(
            "worker process %d ended %s%s", worker.pid, _how(exitcode), "; its job is tried again" if again else ""
        )
        if job is None:
            return
        job.deaths += 1
        if again:
            self._waiting.appendleft(job)
        else:
            self._over.append((job.key, Death(worker.pid, exitcode, job.deaths)))


def end_if_unguarded() -> None:
    """End a worker process that imports its main script and gets to what the script runs; the parent says why.

    At once and without a word: else each worker would begin the run again, and end in a traceback of multiprocessing.
    """
    if not _at_work and multiprocessing.current_process().name == WORKER:
        os._exit(UNGUARDED)


def no_setup(answer: Callable[[Any], Answer]) -> Callable[[], AbstractContextManager[Callable[[Any], Answer]]]:
    """The `start` of a pool whose processes need no preparation."""
    return partial(_no_setup, answer)


def _no_setup(answer: Callable[[Any], Answer]) -> AbstractContextManager[Callable[[Any], Answer]]:
    return nullcontext(answer)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C in this thread, and so at first in a process started from it: no traceback while it imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # multiprocessing would start it in `start`, and unblock the signal after that
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, start: bytes) -> None:
    """A worker's life."""
    global _at_work
    _at_work = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent answers for all
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # These say that the parent has closed the pipe, or ended this job.
    with suppress(EOFError, OSError, KeyboardInterrupt), ExitStack() as stack:
        try:
            begin = pickle.loads(start)
        except Exception as error:
            connection.send(_Refusal(in_one_line(error), found=False))
            return
        try:
            answer = stack.enter_context(begin())
        except Exception:
            connection.send(_Refusal(traceback.format_exc()))
            return
        connection.send(_Ready())
        while True:
            connection.send_bytes(_reply(answer, connection.recv_bytes()))


def _reply(answer: Callable[[Any], Any], job: bytes) -> bytes:
    try:
        return pickle.dumps(answer(pickle.loads(job)))
    except Exception as error:
        text = traceback.format_exc()
        portable = as_portable(error)
        portable.add_note("in a worker process:\n" + text)
        return pickle.dumps(_Raised(portable))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
