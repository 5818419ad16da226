"""Processes that have loaded torch before they begin: forks of one that does it once, two seconds less for each.

They are processes as any others, with a number, pipes, signals and an exit status of their own; only the start of the
interpreter is not theirs. Where that start is what a test is about, it takes subprocess.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import Self

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["modeseek.optimizer", "modeseek.commands.optimize.run", "modeseek.integrations.optuna"])


class Forked:
    """As subprocess.Popen of this Python: a script, or `-m module`, with its arguments; what it says comes as text."""

    def __init__(self, *arguments: str | Path, cwd: str | Path | None = None, start_new_session: bool = False) -> None:
        (out, to_out), (err, to_err) = _forks.Pipe(duplex=False), _forks.Pipe(duplex=False)
        call = (
            [str(argument) for argument in arguments],
            os.path.abspath(cwd or ""),
            start_new_session,
            to_out,
            to_err,
        )
        self._process = _forks.Process(target=_become, args=call)
        self._process.start()
        to_out.close()
        to_err.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(pipe.fileno())) for pipe in (out, err))
        out.close()
        err.close()
        self.pid = self._process.pid or 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.join()
        self._close()

    def _close(self) -> None:
        self.stdout.close()
        self.stderr.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired(str(self._process), timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it says from here on to its end; it is killed when that takes longer."""
        said: list[str] = []
        listener = threading.Thread(target=lambda: said.append(self.stderr.read()), daemon=True)
        listener.start()
        killer = threading.Timer(timeout or 300, self.kill)
        killer.start()
        out = self.stdout.read()
        self._process.join()
        killer.cancel()
        listener.join()
        self._close()
        return out, said[0]


def run(*arguments: str | Path, cwd: str | Path | None = None, timeout: float = 250) -> CompletedProcess[str]:
    """As subprocess.run."""
    with Forked(*arguments, cwd=cwd) as process:
        out, err = process.communicate(timeout)
    return CompletedProcess(list(arguments), process.wait(), out, err)


def _become(arguments: Sequence[str], cwd: str, session: bool, out: Connection, err: Connection) -> None:
    if session:
        os.setsid()
    os.chdir(cwd)
    for number, pipe in ((1, out), (2, err)):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.process._parent_process = None  # type: ignore[attr-defined]  # it is nobody's worker
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        sys.path.insert(0, cwd)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        script = os.path.join(cwd, arguments[0])
        sys.argv = [script, *arguments[1:]]
        sys.path.insert(0, os.path.dirname(script))
        runpy.run_path(script, run_name="__main__")
