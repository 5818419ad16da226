"""Parameters that exist only under a choice: `Float(1e-3, 1e3, log=True, when={"model": "svm"})`.

A condition names parents and, of each, the values under which the parameter exists; all parents must exist and have one
of them. In the cube the coordinate of a parameter that does not exist is ABSENT, whatever it was before, so that two
points that differ only there are one configuration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from modeseek.errors import SpaceError
from modeseek.typing import Array

if TYPE_CHECKING:
    from modeseek.parameters import Parameter

When: TypeAlias = Mapping[str, Any]  # a parent's name -> one of its values, or several

ABSENT = 0.5  # the coordinate of a parameter that does not exist
SAME_VALUE = 1e-9  # coordinates of a parent's value, computed in two ways
MOST_PARENT_VALUES = 1000


def checked_when(when: Any) -> dict[str, tuple[Any, ...]] | None:
    """A condition with a tuple of values per parent; SpaceError for what is none."""
    if when is None:
        return None
    if not isinstance(when, Mapping) or not when:
        raise SpaceError(
            f'when must be a dict of another parameter and its values, as in {{"model": "svm"}}, not {when!r}'
        )
    checked = {}
    for parent, values in when.items():
        if not isinstance(parent, str):
            raise SpaceError(f"when: a parameter's name must be a string, not {parent!r}")
        checked[parent] = tuple(values) if isinstance(values, list | tuple | set | frozenset | range) else (values,)
        if not checked[parent]:
            raise SpaceError(f"when: {parent!r} needs at least one value")
    return checked


def when_to_json(when: When) -> dict[str, list[Any]]:
    """A condition as JSON-able values; members of an Enum by name, as in `Categorical.to_dict`."""
    return {
        parent: [{"enum": f"{type(v).__qualname__}.{v.name}"} if isinstance(v, Enum) else v for v in values]
        for parent, values in sorted(when.items())
    }


def text_of(parameter: Parameter) -> str:
    """A parameter as it was made; no condition where there is none, and no order."""
    settings = {field.name: getattr(parameter, field.name) for field in fields(parameter)}
    shown = ", ".join(
        f"{name}={value!r}" for name, value in settings.items() if name not in ("when", "ordered") or value
    )
    return f"{type(parameter).__name__}({shown})"


class Conditions:
    """The conditions of one space, checked.

    Attributes:
        parameters: with conditions as `checked_when` has them, their values in the parents' own order.
        order: all names, parents before their children, otherwise as in the cube.
    """

    def __init__(self, parameters: Mapping[str, Parameter], coordinates: Sequence[str]) -> None:
        self.parameters: dict[str, Parameter] = dict(parameters)
        for name, parameter in parameters.items():
            if parameter.when is not None:
                when = {parent: self._values(name, parent, v) for parent, v in parameter.when.items()}
                self.parameters[name] = replace(parameter, when=when)
        self._columns = {name: i for i, name in enumerate(coordinates)}
        self.order = self._ordered(coordinates)

    def __bool__(self) -> bool:
        return any(parameter.when is not None for parameter in self.parameters.values())

    def exists(self, name: str, values: Mapping[str, Any]) -> bool:
        """Whether a parameter exists beside these values of its parents."""
        when = self.parameters[name].when or {}
        return all(parent in values and values[parent] in allowed for parent, allowed in when.items())

    def reason(self, name: str) -> str:
        """Where a parameter exists, in words."""
        when = self.parameters[name].when or {}
        return " and ".join(f"{parent} is {' or '.join(map(repr, values))}" for parent, values in when.items())

    def existing(self, points: Array) -> NDArray[np.bool_]:
        """Which parameters exist at points of the cube whose parents are on their values: n x d -> n x d, bool."""
        exists = np.ones(points.shape, dtype=bool)
        for name in self.order:
            for parent, coordinates in self.parents(name):
                at = points[:, self._columns[parent], None]
                met = (np.abs(at - coordinates) < SAME_VALUE).any(-1)
                exists[:, self._columns[name]] &= exists[:, self._columns[parent]] & met
        return exists

    def parents(self, name: str) -> Iterator[tuple[str, Array]]:
        """Each parent of a parameter with the coordinates of the values under which the parameter exists."""
        for parent, values in (self.parameters[name].when or {}).items():
            yield parent, np.array([self.parameters[parent].encode(value) for value in values])

    def allowed(self, name: str, parent: str) -> NDArray[np.bool_]:
        """Under which of a parent's values, in its order, a parameter exists: bool."""
        centres, coordinates = self.parameters[parent].centres(), dict(self.parents(name))[parent]
        return np.asarray((np.abs(centres[:, None] - coordinates) < SAME_VALUE).any(-1))

    def grid(self) -> Array:
        """Every configuration of a finite space: size x d."""
        rows = np.full((1, len(self.order)), ABSENT)
        for name in self.order:
            column, centres = self._columns[name], self.parameters[name].centres()
            exists = self.existing(rows)[:, column]
            counts = np.where(exists, len(centres), 1)
            there = np.repeat(exists, counts)
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            rows = np.repeat(rows, counts, axis=0)
            rows[there, column] = centres[within[there]]
        return rows

    def size(self) -> int | float:
        """Number of configurations; infinite where a continuous parameter can exist.

        Parents are enumerated; one whose last child has been counted is forgotten, so that independent ones multiply.
        """
        last = {parent: i for i, name in enumerate(self.order) for parent in self.parameters[name].when or {}}
        counts: dict[tuple[tuple[str, Any], ...], int | float] = {(): 1}
        for i, name in enumerate(self.order):
            parameter, after = self.parameters[name], dict[tuple[tuple[str, Any], ...], int | float]()
            for state, count in counts.items():
                known = dict(state)
                there = self.exists(name, known)
                kept = {parent: value for parent, value in known.items() if last[parent] > i}
                options: list[dict[str, Any]] = [{}]
                if not there:
                    pass
                elif name in last:
                    options = [{name: parameter.decode(float(u))} for u in parameter.centres()]
                else:
                    count = count * parameter.size
                for option in options:
                    key = tuple(sorted((kept | option).items(), key=lambda item: item[0]))
                    after[key] = after.get(key, 0) + count
            counts = after
        return math.inf if math.inf in counts.values() else sum(counts.values())

    def _values(self, name: str, parent: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """A parent's values under which a parameter exists, checked and in the parent's order."""
        if parent not in self.parameters:
            known = list(self.parameters)
            raise SpaceError(f"parameter {name!r}: when names {parent!r}, which is unknown; the space has {known}")
        other = self.parameters[parent]
        if math.isinf(other.size) or other.size > MOST_PARENT_VALUES:
            raise SpaceError(
                f"parameter {name!r}: when names {parent!r}, which must be a Categorical, or an Int or a stepped "
                f"Float of at most {MOST_PARENT_VALUES} values"
            )
        try:
            checked = {other.encode(v): v for v in map(other.check, values)}  # type: ignore[arg-type]
        except ValueError as error:
            raise SpaceError(f"parameter {name!r}: when={{{parent!r}: ...}}: {error}") from error
        return tuple(checked[u] for u in sorted(checked))

    def _ordered(self, coordinates: Sequence[str]) -> list[str]:
        order: list[str] = []
        left = list(coordinates)
        while left:
            ready = [name for name in left if all(p in order for p in self.parameters[name].when or {})]
            if not ready:
                raise SpaceError(f"the conditions (when=) of {left} wait for each other; one of them must come first")
            order += ready
            left = [name for name in left if name not in ready]
        return order
