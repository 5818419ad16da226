"""A parameter that is one of a list: Categorical, to and from one coordinate of the unit cube.

Symbols: u in [0, 1], a coordinate; n, number of values, each with a bin of the same width; k, a value's index.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from modeseek.conditions import When, checked_when, text_of, when_to_json
from modeseek.errors import SpaceError
from modeseek.typing import Array

Choice: TypeAlias = bool | int | float | str | Enum | None

_SCALARS = (type(None), bool, int, float, str, Enum)


def bin_of(u: Any, n: int) -> Any:
    """The index k of the bin that u lies in."""
    return np.minimum(np.floor(np.asarray(u) * n), n - 1)


def centre_of(k: Any, n: int) -> Any:
    """The coordinate in the middle of bin k."""
    return (k + 0.5) / n


def plain(value: Any) -> Any:
    """A NumPy scalar, or a 0-d array or tensor, as the Python value in it."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


@dataclass(frozen=True, repr=False)
class Categorical:
    """One of several choices, kept in the order given.

    They have no order, and one is as far from any other as from the next, unless `ordered=True` says that neighbours
    are alike: `Categorical([16, 32, 64, 128], ordered=True)`, `Categorical(["low", "medium", "high"], ordered=True)`.

    A choice is a string, a number, a bool, None, or a member of an Enum: `Categorical(list(Activation))`. The objective
    gets a member as itself. Where a value is told, whatever is equal to a choice stands for it, as "relu" does for a
    StrEnum's member of that value. Files hold a member by its name; what reads them never imports a class, so a saved
    run with such choices is loaded with its space: `Optimizer.load(path, space=space)`, or `minimize` as before.

    `when={"model": "svm"}`: it exists only where the parameter "model" is "svm"; see docs/conditional.md.
    """

    choices: Sequence[Choice]
    ordered: bool = field(default=False, kw_only=True)
    when: When | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", checked_when(self.when))
        if not isinstance(self.ordered, bool):
            raise SpaceError(f"ordered must be True or False, not {self.ordered!r}")
        if isinstance(self.choices, str | bytes) or not isinstance(self.choices, Sequence | np.ndarray):
            raise SpaceError(f"choices must be a list, not {self.choices!r}")
        choices = tuple(_scalar(choice) for choice in self.choices)
        if not choices:
            raise SpaceError("choices must not be empty")
        seen: set[Any] = set()
        for choice in choices:
            if not isinstance(choice, _SCALARS) or not isinstance(choice, Hashable):
                raise SpaceError(
                    f"a choice must be None, a bool, a number, a string or a member of an Enum, not {choice!r}; "
                    "use its name"
                )
            if isinstance(choice, float) and not math.isfinite(choice):
                raise SpaceError(f"a choice must not be {choice!r}; use a string for it")
            if choice in seen:
                raise SpaceError(f"choice {choice!r} is there twice; choices must differ (1, 1.0 and True are equal)")
            seen.add(choice)
        object.__setattr__(self, "choices", choices)
        if len(self._members) < sum(isinstance(choice, Enum) for choice in choices):
            raise SpaceError("two members of different Enums have one name; rename one of the classes")

    @cached_property
    def _index(self) -> dict[Choice, int]:
        return {choice: k for k, choice in enumerate(self.choices)}

    @cached_property
    def _members(self) -> dict[str, Choice]:
        return {_name(choice): choice for choice in self.choices if isinstance(choice, Enum)}

    @property
    def size(self) -> int:
        """Number of choices."""
        return len(self.choices)

    def check(self, value: Any) -> Choice:
        """The choice equal to this value; ValueError when there is none."""
        value = _scalar(value)
        if isinstance(value, _SCALARS) and value in self._index:
            choice = self.choices[self._index[value]]
            if isinstance(choice, bool) == isinstance(value, bool):
                return choice
        raise ValueError(f"{value!r:.60} is not one of {list(self.choices)!r:.200}")

    def encode(self, value: Choice) -> float:
        """A checked value to its coordinate."""
        return float(centre_of(self._index[value], self.size))

    def decode(self, u: float) -> Choice:
        """A coordinate in [0, 1] to a choice."""
        return self.choices[int(bin_of(u, self.size))]

    def snap(self, u: Array) -> Array:
        """Coordinates to the coordinates of choices: u: n -> n."""
        return np.asarray(centre_of(bin_of(u, self.size), self.size))

    def centres(self) -> Array:
        """The coordinates of all choices."""
        return np.asarray(centre_of(np.arange(self.size), self.size))

    def borders(self) -> Array:
        """The coordinates between neighbouring choices, one fewer than there are choices."""
        return np.arange(1, self.size) / self.size

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON-able values."""
        ordered = {"ordered": True} if self.ordered else {}
        when = {} if self.when is None else {"when": when_to_json(self.when)}
        return {"choices": [self.to_json(choice) for choice in self.choices], **ordered, **when}

    def __repr__(self) -> str:
        return text_of(self)

    def to_json(self, choice: Choice) -> Any:
        """A choice as it stands in a file; a member by its name, since its value may be anything."""
        return {"enum": _name(choice)} if isinstance(choice, Enum) else choice

    def from_json(self, stored: Any) -> Any:
        """The choice that a file means; what is none of them comes back as it is, for `check` to refuse."""
        return self._members.get(str(stored.get("enum")), stored) if isinstance(stored, dict) else stored


def _name(member: Enum) -> str:
    return f"{type(member).__qualname__}.{member.name}"


def _scalar(value: Any) -> Any:
    """A choice as it is kept: of a subclass of str, int or float that is no Enum, the plain value."""
    value = plain(value)
    if not isinstance(value, Enum | bool):
        for kind in (int, float, str):
            if isinstance(value, kind):
                return getattr(kind, f"__{kind.__name__}__")(value)  # not kind(value), which a subclass may redefine
    return value
