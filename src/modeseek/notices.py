"""Warnings that point at the user's line, and each of them once."""

from __future__ import annotations

import sys
import warnings

from modeseek.errors import ModeseekWarning

_PASSED_OVER = ("modeseek", "optuna", "ax", "ray")  # packages between a user's line and ours


def warn(message: str, category: type[ModeseekWarning]) -> None:
    """Warn with the first line outside of this package, and of those that call it, as the place."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class WarnOnce:
    """Says each kind of warning once."""

    def __init__(self) -> None:
        self._said: set[type[ModeseekWarning]] = set()

    def __call__(self, message: str, category: type[ModeseekWarning]) -> None:
        """Warn, unless this kind of warning has been said."""
        if category not in self._said:
            self._said.add(category)
            warn(f"{message} (shown once)", category)
