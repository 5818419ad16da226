"""Functions inside of what users pickle: a lambda must not keep a whole result from being kept."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from modeseek.errors import SpaceNeeded
from modeseek.linear import name_of


@dataclass(frozen=True)
class Packed:
    """A function as bytes, by pickle, or where that cannot do it by cloudpickle; None where neither can."""

    name: str
    data: bytes | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Packed:
        """The function for another program."""
        return cls(name_of(function), _dumped(function))

    def unpacked(self) -> Callable[..., Any]:
        """The function, or where it is not found here, a `Missing`."""
        try:
            function = None if self.data is None else pickle.loads(self.data)
        except Exception:  # its module, or cloudpickle, is not here, or has changed
            function = None
        return function if callable(function) else Missing(self.name)


class Missing:
    """In place of a constraint that could not be pickled, or is not found where it is read."""

    def __init__(self, name: str) -> None:
        self.__qualname__ = name  # by which it is shown and compared

    def __call__(self, params: Any) -> NoReturn:
        """SpaceNeeded: there is nothing to call."""
        raise SpaceNeeded(
            f"the constraint {self.__qualname__!r:.100} was not pickled, or is not found here: define it at the top of "
            "a module that both programs import, or install cloudpickle in both"
        )

    def __repr__(self) -> str:
        return f"<constraint {self.__qualname__!r}, not found>"


def _dumped(function: Callable[..., Any]) -> bytes | None:
    try:
        return pickle.dumps(function)
    except Exception:  # a lambda, or one that is defined in another function
        try:
            import cloudpickle  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            return None
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception:  # it holds what nothing can pickle, as a lock
        return None
