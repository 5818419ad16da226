"""Ctrl-C where it does no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """A signal ends at once what runs inside `allowed`, and is kept for later elsewhere: no record is cut short.

    Args:
        number: the signal; SIGINT is Ctrl-C. Python handles signals in the main thread only: in others this does
            nothing.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        self._number = number
        self._seen = self._allowed = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(self._number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(self._number, self._before)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Where KeyboardInterrupt may be raised, also for a signal that came before."""
        self._allowed = True
        try:
            self.check()
            yield
        finally:
            self._allowed = False

    def check(self) -> None:
        """KeyboardInterrupt when the signal has come."""
        if self._seen:
            raise KeyboardInterrupt

    def _handle(self, *_: object) -> None:
        self._seen = True
        if self._allowed:
            self._allowed = False
            raise KeyboardInterrupt
