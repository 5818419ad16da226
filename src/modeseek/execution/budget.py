"""How much there is to do: a number of evaluations, and seconds."""

from __future__ import annotations

import time
from typing import Literal


class Budget:
    """So many evaluations in all, none of them begun after the timeout.

    Args:
        total: evaluations, those of earlier runs included.
        timeout: seconds from now after which none begins; None: no limit.
    """

    def __init__(self, total: int, timeout: float | None) -> None:
        self.total, self.timeout = total, timeout
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def spent(self, begun: int) -> Literal["budget", "timeout"] | None:
        """Why no evaluation may begin after so many, finished or not; None when one may."""
        if begun >= self.total:
            return "budget"
        if self.timeout is not None and self.seconds >= self.timeout:
            return "timeout"
        return None
