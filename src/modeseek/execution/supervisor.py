"""A command that goes on after its own end: the work is done in a fork, which is made again if an evaluation ends it.

For a command that evaluates in its own process, where `print` and a debugger work as usual. A fork costs no time: the
libraries are loaded already, and what is loaded is shared. It is made before any thread is started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_EVALUATING, _NOT = b"1", b"0"
_PR_SET_PDEATHSIG = 1  # of Linux's prctl
_report: int | None = None  # where a fork says whether it is evaluating


@contextmanager
def evaluation() -> Iterator[None]:
    """Around an evaluation, whose end may be the process's end."""
    _say(_EVALUATING)
    try:
        yield
    finally:
        _say(_NOT)


def supervised(work: Callable[[float], int]) -> int:
    """The exit status of the work, which is begun again as often as an evaluation ends its process.

    Args:
        work: gets the seconds that have passed since the first beginning. What it has done must be stored by then, and
            so must be how often an evaluation was begun, or it would go on for ever.
    """
    if os.name != "posix":
        return work(0.0)
    began = time.monotonic()
    while True:
        report, to_report = os.pipe()
        alive, to_stay_alive = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(report)
            os.close(to_stay_alive)
            _in_fork(work, time.monotonic() - began, to_report, alive)
        os.close(to_report)
        os.close(alive)
        was_evaluating, status = _watch(child, report)
        os.close(report)
        os.close(to_stay_alive)
        if not was_evaluating:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        print(f"modeseek: an evaluation ended the process ({_text(status)}); going on in a new one", file=sys.stderr)


def _in_fork(work: Callable[[float], int], seconds: float, to_report: int, alive: int) -> None:
    global _report
    _report = to_report
    _end_at_once_with_supervisor()
    threading.Thread(target=_end_with_supervisor, args=(alive,), daemon=True).start()
    code = 1
    try:
        code = work(seconds)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # what was registered to be done at the end is the supervisor's to do


def _end_at_once_with_supervisor() -> None:
    """Where the kernel can do it; elsewhere, and in an evaluation that lets no other thread run, it takes longer."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_with_supervisor(alive: int) -> None:
    os.read(alive, 1)  # returns when the other end is closed, however that came about
    os._exit(1)


def _watch(child: int, report: int) -> tuple[bool, int]:
    """Wait for the fork's end: whether it was evaluating, and its status. Signals are passed on to it."""

    def pass_on(number: int, _: object) -> None:
        os.kill(child, number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        last = _NOT
        while said := os.read(report, 64):
            last = said[-1:]
        return last == _EVALUATING, os.waitpid(child, 0)[1]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(what: bytes) -> None:
    if _report is not None:
        os.write(_report, what)


def _text(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}, possibly out of memory"
