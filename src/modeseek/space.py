"""Search spaces: named parameters, or a plain box, to and from the unit cube.

One coordinate per parameter (Section 2 of the paper works on the unit cube). A continuous parameter fills [0, 1],
linearly or in its logarithm. A discrete one divides [0, 1] into one bin per value and sits at its bin's centre, so
that the surrogate sees the point that was really evaluated.

Symbols: d, number of parameters; u in [0, 1]^d, a point of the cube; n, number of points or of values; k, a value's
index.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modeseek import html
from modeseek.conditions import ABSENT, Conditions
from modeseek.errors import ParameterError, SpaceError, SpaceNeeded
from modeseek.linear import Constraint, Linear, name_of, violated
from modeseek.packing import Packed
from modeseek.parameters import Categorical, Float, Int, Parameter
from modeseek.typing import Array, Params

if TYPE_CHECKING:
    from modeseek.region import Region

__all__ = ["Categorical", "Float", "Int", "Linear", "Space"]

LISTABLE = 100_000  # finite spaces up to this size are searched whole for what is left

KINDS: dict[str, type[Float] | type[Int] | type[Categorical]] = {
    "float": Float,
    "int": Int,
    "categorical": Categorical,
}


class Space:
    """A search space: `Space({"lr": Float(1e-5, 1e-1, log=True), "units": Int(50, 200)})`.

    Parameters are dicts in the order given here. Coordinates of the cube are ordered by name, so that the order of
    the dict never changes a suggestion. `Space.box(lower, upper)` makes an unnamed box, whose parameters are arrays.

    Args:
        parameters: by name.
        constraints: what configurations must satisfy, known beforehand: `Linear`, or functions
            feasible(params) -> bool. Nothing else is ever proposed, and what is told must satisfy them.
    """

    def __init__(self, parameters: Mapping[str, Parameter], constraints: Sequence[Constraint] = ()) -> None:
        given: Any = parameters  # checked, whatever the annotation says
        if not isinstance(given, Mapping) or not given:
            raise SpaceError("a space needs at least one parameter: pass a dict of name -> Float, Int or Categorical")
        for name, parameter in given.items():
            if not isinstance(name, str) or not name:
                raise SpaceError(f"a parameter's name must be a non-empty string, not {name!r}")
            if not isinstance(parameter, Float | Int | Categorical):
                raise SpaceError(f"parameter {name!r} must be a Float, Int or Categorical, not {parameter!r}")
        self._coordinates = sorted(given)
        self._conditions = Conditions(given, self._coordinates)
        self._parameters: dict[str, Parameter] = self._conditions.parameters
        self._box = False
        self._constrain(constraints)

    @classmethod
    def box(cls, lower: ArrayLike, upper: ArrayLike, constraints: Sequence[Constraint] = ()) -> Space:
        """An unnamed box: lower, upper: d. Its parameters are float64 arrays of shape d, in the box's own units.

        In Linear constraints they are named x0, x1, ...
        """
        try:
            lo, hi = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise SpaceError(f"the bounds of a box must be two sequences of numbers: {error}") from error
        if lo.ndim != 1 or lo.shape != hi.shape:
            raise SpaceError(f"the bounds of a box must be two sequences of one length, not {lo.shape} and {hi.shape}")
        space = cls({f"x{i}": _edge(i, a, b) for i, (a, b) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True))})
        space._coordinates = list(space._parameters)  # "x10" sorts before "x2"; a box keeps its own order
        space._conditions = Conditions(space._parameters, space._coordinates)
        space._box = True
        space._constrain(constraints)
        return space

    def _constrain(self, constraints: Sequence[Constraint]) -> None:
        given: Any = constraints
        if isinstance(given, Linear) or callable(given) or not isinstance(given, Sequence):
            raise SpaceError("constraints must be a list of Linear and of functions feasible(params) -> bool")
        for constraint in given:
            if isinstance(constraint, Linear):
                constraint.check_fits(self._parameters)
            elif not callable(constraint):
                raise SpaceError(
                    f"a constraint must be a Linear or a function of the parameters, not {constraint!r:.60}"
                )
        self._constraints: tuple[Constraint, ...] = tuple(given)
        self._feasible_grid: Array | None = None
        self._region = _region_of(self) if given else None

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What configurations must satisfy."""
        return self._constraints

    def region(self, fixed: Mapping[str, Any] | None = None) -> Region | None:
        """Where in the cube to search when some values are fixed; None where that is all of it."""
        return _region_of(self, fixed) if fixed else self._region

    @property
    def d(self) -> int:
        """Number of parameters, and of coordinates."""
        return len(self._parameters)

    @property
    def names(self) -> list[str]:
        """The parameters' names in the user's order; x0, x1, ... for a box."""
        return list(self._parameters)

    @property
    def coordinates(self) -> list[str]:
        """The parameters' names in the order of the cube's coordinates."""
        return list(self._coordinates)

    @property
    def is_box(self) -> bool:
        """Whether parameters are arrays (made by `Space.box`) and not dicts."""
        return self._box

    @property
    def conditions(self) -> Conditions:
        """Which parameters exist where; false where all exist everywhere."""
        return self._conditions

    @property
    def size(self) -> int | float:
        """Number of configurations; `math.inf` when a parameter is continuous.

        Those that constraints rule out are not counted, unless there are too many to list.
        """
        return len(self.grid()) if self._constraints and self._all <= LISTABLE else self._all

    @cached_property
    def _all(self) -> int | float:
        """Number of configurations, those that constraints rule out included."""
        if self._conditions:
            return self._conditions.size()
        return math.prod(p.size for p in self._parameters.values())

    def is_list(self, params: Params | Sequence[Params]) -> bool:
        """Whether these are the parameters of several points: a list, of a box also an array with a row each."""
        if isinstance(params, np.ndarray) and self._box:
            return params.ndim > 1
        if not isinstance(params, list | tuple):
            return False
        return not self._box or (len(params) > 0 and np.ndim(params[0]) > 0)

    def validate(self, params: Params) -> Params:
        """The same parameters as plain Python values (or a new array); ParameterError names what is wrong."""
        values = self._as_dict(params)
        checked: dict[str, Any] = {}
        for name in self._conditions.order:
            if self._conditions.exists(name, checked):
                checked[name] = self._checked(name, values)
            elif name in values:
                raise ParameterError(f"parameter {name!r} exists only where {self._conditions.reason(name)}")
        valid = self._as_params(checked)
        if (reason := violated(self._constraints, valid, checked)) is not None:
            raise ParameterError(f"constraint {reason}")
        return valid

    def _checked(self, name: str, values: Mapping[str, Any]) -> Any:
        if name not in values:
            raise ParameterError(f"parameter {name!r} is missing")
        try:
            return self._parameters[name].check(values[name])
        except ValueError as error:
            raise ParameterError(f"parameter {name!r}: {error}") from error
        except Exception as error:  # what a foreign object raises when it is looked at
            kind = type(values[name]).__name__
            raise ParameterError(f"parameter {name!r}: an object of type {kind} is not a value of it") from error

    def _as_params(self, values: dict[str, Any]) -> Params:
        """In the user's order, or as an array for a box."""
        ordered = {name: values[name] for name in self._parameters if name in values}
        return np.array(list(ordered.values()), dtype=np.float64) if self._box else ordered

    def encode(self, params: Params) -> Array:
        """Parameters to the cube: -> u: d. Raises ParameterError, naming the parameter, when they are not inside."""
        values = self._as_dict(self.validate(params))
        return np.array(
            [self._parameters[name].encode(values[name]) if name in values else ABSENT for name in self._coordinates]
        )

    def decode(self, u: ArrayLike) -> Params:
        """A point of the cube to parameters that are always inside the space. u: d."""
        point = self._points(u, ndim=1).tolist()
        at = dict(zip(self._coordinates, point, strict=True))
        values: dict[str, Any] = {}
        for name in self._conditions.order:
            if self._conditions.exists(name, values):
                values[name] = self._parameters[name].decode(at[name])
        return self._as_params(values)

    def snap(self, U: ArrayLike) -> Array:  # noqa: N803
        """Discrete coordinates to their bin's centre, continuous ones untouched, those without a parameter to ABSENT.

        U: n x d -> n x d.
        """
        points = self._points(U, ndim=2)
        snapped = np.stack(
            [self._parameters[name].snap(u) for name, u in zip(self._coordinates, points.T, strict=True)], 1
        )
        return np.where(self._conditions.existing(snapped), snapped, ABSENT) if self._conditions else snapped

    def grid(self) -> Array:
        """Every configuration of a finite space that meets the constraints, as points of the cube: size x d."""
        if math.isinf(self._all):
            raise SpaceError("a space with a continuous parameter has no grid")
        if self._feasible_grid is None:
            points = self._conditions.grid()
            self._feasible_grid = points if self._region is None else self._region.allowed(points)
        return self._feasible_grid.copy()

    def to_dict(self) -> dict[str, Any]:
        """The space as JSON-able values; `Space.from_dict` reads it back."""
        kinds = {kind: name for name, kind in KINDS.items()}
        return {
            "box": self._box,
            "parameters": [
                {"name": name, "type": kinds[type(p)], **p.to_dict()} for name, p in self._parameters.items()
            ],
            **({"constraints": [_stored_constraint(c) for c in self._constraints]} if self._constraints else {}),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Space:
        """The space that `to_dict` described; SpaceError when it describes none."""
        try:
            box, entries = document["box"], [dict(entry) for entry in document["parameters"]]
            for entry in entries:
                if any(isinstance(choice, dict) for choice in entry.get("choices", ())):
                    raise SpaceNeeded(
                        f"choices of {entry['name']!r} are members of an Enum, which only your code has: give the "
                        "space as well, as in Optimizer.load(path, space=space)"
                    )
            parameters = {entry.pop("name"): KINDS[entry.pop("type")](**entry) for entry in entries}
            constraints = [_meant_constraint(stored) for stored in document.get("constraints", ())]
        except SpaceError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise SpaceError(f"this does not describe a space: {type(error).__name__}: {error}") from error
        if len(parameters) != len(entries) or not isinstance(box, bool):
            raise SpaceError("this does not describe a space: two parameters of one name, or 'box' is not a bool")
        if not box:
            return cls(parameters, constraints)
        edges = [p for p in parameters.values() if isinstance(p, Float)]
        boxed = cls.box([edge.low for edge in edges], [edge.high for edge in edges], constraints)
        if boxed._parameters != parameters:
            raise SpaceError("this does not describe a box: its parameters are Floats x0, x1, ... without log or step")
        return boxed

    def describes(self, document: Mapping[str, Any]) -> bool:
        """Whether `to_dict` of an equal space gave this."""
        return _key(document) == self._key()

    def to_json(self, params: Params) -> Any:
        """Parameters of this space as JSON-able values."""
        return params.tolist() if self._box else {name: self._stored(name, value) for name, value in params.items()}

    def from_json(self, stored: Any) -> Any:
        """The parameters that `to_json` gave; others come back as they are, for `validate` to refuse."""
        if self._box or not isinstance(stored, dict):
            return stored
        return {name: self._meant(name, value) for name, value in stored.items()}

    def _stored(self, name: str, value: Any) -> Any:
        parameter = self._parameters[name]
        return parameter.to_json(value) if isinstance(parameter, Categorical) else value

    def _meant(self, name: str, stored: Any) -> Any:
        parameter = self._parameters.get(name)
        return parameter.from_json(stored) if isinstance(parameter, Categorical) else stored

    def _as_dict(self, params: Params) -> Mapping[str, Any]:
        if self._box:
            values = list(params) if isinstance(params, Sequence) or hasattr(params, "shape") else []
            if len(values) != self.d or isinstance(params, str | bytes):
                raise ParameterError(f"parameters of this box must be an array of {self.d} numbers, not {params!r}")
            return dict(zip(self._parameters, values, strict=True))
        if not isinstance(params, Mapping):
            raise ParameterError(f"parameters must be a dict with the names {self.names}, not {params!r}")
        for name in params:
            if name not in self._parameters:
                raise ParameterError(f"parameter {name!r} is unknown; the space has {self.names}")
        return params

    def _points(self, u: ArrayLike, ndim: int) -> Array:
        points: NDArray[np.float64] = np.asarray(u, dtype=np.float64)
        if points.ndim != ndim or points.shape[-1] != self.d:
            raise ParameterError(f"points of the cube must have {self.d} coordinates; got shape {points.shape}")
        if not np.isfinite(points).all():
            raise ParameterError("points of the cube must be finite")
        return np.clip(points, 0.0, 1.0)

    def _key(self) -> str:
        return _key(self.to_dict())

    def __getstate__(self) -> dict[str, Any]:
        """The attributes; functions on their own, so that one that does not pickle is no obstacle to the rest."""
        packed = [c if isinstance(c, Linear) else Packed.of(c) for c in self._constraints]
        derived = {"_region": None, "_feasible_grid": None}
        return {**self.__dict__, **derived, "_constraints": packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As it was; a function that is not found here is a `Missing`."""
        self.__dict__.update(state)
        self._constraints = tuple(c.unpacked() if isinstance(c, Packed) else c for c in state["_constraints"])
        if self._constraints:
            self._region = _region_of(self)

    def __deepcopy__(self, memo: object) -> Space:
        """Itself: a space never changes."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __len__(self) -> int:
        return self.d

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    @property
    def constraint_texts(self) -> list[str]:
        """The constraints as they are shown."""
        return [_shown(constraint) for constraint in self._constraints]

    def _repr_html_(self) -> str:
        return html.of_space(self)

    def __repr__(self) -> str:
        limits = f", constraints=[{'; '.join(self.constraint_texts)}]" if self._constraints else ""
        if not self._box:
            return f"Space({self._parameters!r}{limits})"
        edges: Sequence[Any] = list(self._parameters.values())
        return f"Space.box({[e.low for e in edges]}, {[e.high for e in edges]}{limits})"


def _key(document: Mapping[str, Any]) -> str:
    if not document["box"]:
        document = {**document, "parameters": sorted(document["parameters"], key=lambda entry: entry["name"])}
    return json.dumps(document, sort_keys=True)  # tells 1 from True and 1.0, which `==` does not


def _shown(constraint: Constraint) -> str:
    return str(constraint) if isinstance(constraint, Linear) else name_of(constraint)


def _stored_constraint(constraint: Constraint) -> dict[str, Any]:
    return constraint.to_dict() if isinstance(constraint, Linear) else {"function": name_of(constraint)}


def _meant_constraint(stored: Mapping[str, Any]) -> Linear:
    if "function" in stored:
        raise SpaceNeeded(
            f"its constraint {stored['function']!r:.60} is a function, which only your code has: give the space as "
            "well, as in Optimizer.load(path, space=space)"
        )
    return Linear(**stored)


def _edge(i: int, low: float, high: float) -> Float:
    try:
        return Float(low, high)
    except SpaceError as error:
        raise SpaceError(f"coordinate {i} of the box: {error}") from error


def _region_of(space: Space, fixed: Mapping[str, Any] | None = None) -> Region:
    from modeseek.region import Region  # here: a space without constraints has no need of torch

    return Region(space, fixed)
