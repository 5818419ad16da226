"""Known constraints: what a configuration must satisfy, said before anything is evaluated.

`Linear({"a": 1, "b": 2}, upper=3)` is an inequality, `Linear({"a": 1, "b": 1, "c": 1}, equals=1)` an equality. Anything
else is a function `feasible(params) -> bool`. Where in the unit cube they leave room for a search is region.py's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from modeseek.checks import did_you_mean
from modeseek.errors import SpaceError
from modeseek.parameters import Categorical, Parameter, as_real
from modeseek.typing import Array, Params

# How far told parameters may miss a bound, by the size of the sum: shares that were rounded to float32 still add up.
TOLERANCE = 1e-6

Feasible: TypeAlias = Callable[[Params], Any]
Constraint: TypeAlias = "Linear | Feasible"


@dataclass(frozen=True)
class Linear:
    """lower ≤ Σ coefficient · parameter ≤ upper, or Σ coefficient · parameter = equals.

    Parameters are numbers on a linear scale: Float and Int, with or without a step, of a box x0, x1, ...

    Args:
        coefficients: by the parameter's name.
        lower, upper: one of them, or both.
        equals: instead of these.
    """

    coefficients: Mapping[str, float]
    lower: float | None = None
    upper: float | None = None
    equals: float | None = None

    def __post_init__(self) -> None:
        given: Any = self.coefficients  # checked, whatever the annotation says
        if not isinstance(given, Mapping) or not given:
            raise SpaceError(
                f'Linear needs a dict of coefficients, as in Linear({{"a": 1, "b": 2}}, upper=3): {given!r}'
            )
        coefficients = {}
        for name, value in given.items():
            coefficients[name] = _number(f"the coefficient of {name!r}", value)
        if not any(coefficients.values()):
            raise SpaceError("Linear: all coefficients are 0")
        object.__setattr__(self, "coefficients", coefficients)
        for name in ("lower", "upper", "equals"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _number(name, getattr(self, name)))
        if self.equals is not None and not (self.lower is None and self.upper is None):
            raise SpaceError("Linear: equals goes without lower and upper")
        if self.equals is None and self.lower is None and self.upper is None:
            raise SpaceError("Linear: give lower=, upper= or equals=")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise SpaceError(f"Linear: lower={self.lower} is above upper={self.upper}")

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound; infinite where there is none, the same for an equality."""
        if self.equals is not None:
            return self.equals, self.equals
        return (
            -math.inf if self.lower is None else self.lower,
            math.inf if self.upper is None else self.upper,
        )

    def total(self, values: Mapping[str, Any]) -> float:
        """Σ coefficient · parameter."""
        return math.fsum(a * values[name] for name, a in self.coefficients.items())

    def is_met(self, values: Mapping[str, Any]) -> bool:
        """Whether these parameters satisfy it, but for rounding."""
        lower, upper = self.bounds
        slack = TOLERANCE * max(1.0, math.fsum(abs(a * values[name]) for name, a in self.coefficients.items()))
        return lower - slack <= self.total(values) <= upper + slack

    def on_cube(self, coordinates: Sequence[str], parameters: Mapping[str, Parameter]) -> tuple[Array, float, float]:
        """The same for points u of the cube: lower ≤ row·u ≤ upper; row: d, of length 1."""
        row, constant = np.zeros(len(coordinates)), []
        for name, a in self.coefficients.items():
            base, slope = _affine(parameters[name])
            row[coordinates.index(name)] = a * slope
            constant.append(a * base)
        length = float(np.linalg.norm(row)) or 1.0
        lower, upper = (math.fsum([bound, *(-c for c in constant)]) / length for bound in self.bounds)
        return row / length, lower, upper

    def check_fits(self, parameters: Mapping[str, Parameter]) -> None:
        """SpaceError, naming the parameter, where the constraint is not one of these parameters."""
        for name in self.coefficients:
            if name not in parameters:
                raise SpaceError(
                    f"constraint {self}: there is no parameter {name!r}{did_you_mean(str(name), parameters)}"
                )
            parameter = parameters[name]
            kind = "a Categorical" if isinstance(parameter, Categorical) else "on a log scale" if parameter.log else ""
            kind = "not always there (when=)" if getattr(parameter, "when", None) else kind
            if kind:
                raise SpaceError(
                    f"constraint {self}: parameter {name!r} is {kind}, and a Linear needs numbers on a linear scale "
                    "that always exist; write it as a function feasible(params) -> bool"
                )
            if not all(map(math.isfinite, _affine(parameter))):
                raise SpaceError(f"constraint {self}: the range of parameter {name!r} is too wide")

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON-able values, by the parameters' names in order."""
        bounds = {name: getattr(self, name) for name in ("lower", "upper", "equals")}
        return {
            "coefficients": dict(sorted(self.coefficients.items())),
            **{name: bound for name, bound in bounds.items() if bound is not None},
        }

    def __str__(self) -> str:
        terms = " + ".join(f"{'' if a == 1 else f'{a:g} '}{name}" for name, a in self.coefficients.items())
        if self.equals is not None:
            return f"{terms.replace('+ -', '- ')} = {self.equals:g}"
        left = "" if self.lower is None else f"{self.lower:g} <= "
        return f"{left}{terms.replace('+ -', '- ')}{'' if self.upper is None else f' <= {self.upper:g}'}"

    def __hash__(self) -> int:
        return hash(str(self))


def violated(constraints: Sequence[Constraint], params: Params, values: Mapping[str, Any]) -> str | None:
    """What the first constraint that is not met says; None where all are.

    Args:
        params: what a function is called with; it gets a copy.
        values: the same by name.
    """
    for constraint in constraints:
        if isinstance(constraint, Linear):
            if not constraint.is_met(values):
                return f"{constraint} is not met: the sum is {constraint.total(values):.10g}"
        elif not is_feasible(constraint, params):
            return f"{name_of(constraint)}(params) says that it is not feasible"
    return None


def is_feasible(feasible: Feasible, params: Params) -> bool:
    """What a user's function says; SpaceError where that is neither true nor false, or where it raises."""
    try:
        answer = feasible(params.copy())
    except SpaceError:  # of a function around it, or of one that is not found here
        raise
    except Exception as error:
        raise SpaceError(
            f"the constraint {name_of(feasible)}(params) must return True or False, but raised "
            f"{type(error).__name__}: {error}; params={params!r}"
        ) from error
    if isinstance(answer, bool | np.bool_):
        return bool(answer)
    raise SpaceError(f"the constraint {name_of(feasible)}(params) must return True or False, not {answer!r:.60}")


def name_of(feasible: Feasible) -> str:
    """By which a function goes in messages and files."""
    return str(getattr(feasible, "__qualname__", type(feasible).__qualname__))


def _affine(parameter: Parameter) -> tuple[float, float]:
    """Base and slope of a parameter's values over its coordinate; with a step, they are right at the bins' centres."""
    if isinstance(parameter, Categorical):
        raise TypeError("a Categorical has no order")
    low, step = float(parameter.low), parameter.step
    if step is None:
        return low, float(parameter.high) - low
    return low - 0.5 * step, float(parameter.size) * step


def _number(what: str, value: Any) -> float:
    try:
        return as_real(value)
    except ValueError as error:
        raise SpaceError(f"Linear: {what} {error}") from error
