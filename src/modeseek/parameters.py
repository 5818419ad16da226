"""One parameter of a space: Float, Int, Categorical, each to and from one coordinate of the unit cube."""

from __future__ import annotations

import dataclasses
import math
import numbers
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from modeseek.checks import is_whole
from modeseek.choices import Categorical, Choice, bin_of, centre_of, plain
from modeseek.conditions import When, checked_when, text_of, when_to_json
from modeseek.errors import SpaceError
from modeseek.typing import Array

__all__ = ["Categorical", "Choice", "Float", "Int", "Parameter", "has_no_order"]

# (k + 1/2) / n must come back as k after rounding; beyond 2^50 bins float64 has no room for the half.
_MOST_VALUES = 2**50
# With log=True the round trip goes through exp(log(k)), whose error grows with k: below 1/100 up to here.
_MOST_LOG = 2**40


def as_real(value: Any) -> float:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"must be a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"must be finite, not {value!r}")
    return number


def _whole(value: Any) -> int:
    value = plain(value)
    if not is_whole(value):
        raise ValueError(f"must be an integer, not {value!r}")
    return int(value)


class _Bounds:
    """Range checks that Float and Int share."""

    low: Any
    high: Any
    log: bool

    def _convert(self, kind: Any, *names: str) -> None:
        for name in names:
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except ValueError as error:
                raise SpaceError(f"{name} {error}") from error

    def _check_log(self, stepped: bool) -> None:
        if not isinstance(self.log, bool):
            raise SpaceError(f"log must be True or False, not {self.log!r}")
        if self.log and self.low <= 0:
            raise SpaceError(f"log=True needs low > 0, not {self.low}; raise low, or use log=False")
        if self.log and stepped:
            raise SpaceError("log and step do not combine; drop one of them")

    def _inside(self, value: Any) -> Any:
        if not self.low <= value <= self.high:
            raise ValueError(f"{value!r} is not in [{self.low}, {self.high}]")
        return value

    def __repr__(self) -> str:
        return text_of(self)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON-able values; no condition where there is none."""
        fields: dict[str, Any] = dataclasses.asdict(self)  # type: ignore[call-overload]
        when = fields.pop("when")
        return fields if when is None else {**fields, "when": when_to_json(when)}


@dataclass(frozen=True, repr=False)
class Float(_Bounds):
    """A real parameter in [low, high]; `log=True` spreads it by its logarithm, `step` keeps to low + k * step.

    With low = high it has one value.

    `when={"model": "svm"}`: it exists only where the parameter "model" is "svm"; see docs/conditional.md.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    when: When | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", checked_when(self.when))
        self._convert(as_real, "low", "high")
        if self.low > self.high:
            raise SpaceError(f"low must not be above high, not low={self.low}, high={self.high}")
        self._check_log(self.step is not None)
        if self.step is not None:
            self._convert(as_real, "step")
            if self.step <= 0:
                raise SpaceError(f"step must be above 0, not {self.step}; leave it out for a continuous parameter")
            if self.size > _MOST_VALUES:
                raise SpaceError(f"step={self.step} makes too many values; leave it out for a continuous parameter")
            if self.step < 4 * math.ulp(max(-self.low, self.high)):
                raise SpaceError(
                    f"step={self.step} is finer than floating-point numbers between {self.low} and {self.high}; "
                    "leave it out, subtract an offset in the objective, or use an Int"
                )

    @property
    def size(self) -> int | float:
        """Number of values: infinite without a step, unless there is one."""
        if self.low == self.high:
            return 1
        if self.step is None:
            return math.inf
        return int((_exact(self.high) - _exact(self.low)) // _exact(self.step)) + 1

    def check(self, value: Any) -> float:
        """The value as a float, on its step; ValueError when it is none of this parameter's."""
        number = float(self._inside(as_real(value)))
        if self.step is None:
            return number
        k = min(round((_exact(number) - _exact(self.low)) / _exact(self.step)), int(self.size) - 1)
        if abs(self._value(k) - number) > min(1e-6 * self.step + 2 * math.ulp(number), self.step / 4):
            raise ValueError(f"{number!r} is not low + k * step with low={self.low}, step={self.step}")
        return self._value(k)

    def encode(self, value: float) -> float:
        """A checked value to its coordinate."""
        if self.low == self.high:
            return float(centre_of(0, 1))
        if self.step is not None:
            k = round((_exact(value) - _exact(self.low)) / _exact(self.step))
            return float(centre_of(k, int(self.size)))
        low, high, x = self.low, self.high, value
        if self.log:
            low, high, x = math.log(low), math.log(high), math.log(x)
            if low == high:  # neighbours whose logarithms round to one number
                return float(value > self.low)
        elif math.isinf(high - low):
            low, high, x = low / 2, high / 2, x / 2
        return min(max((x - low) / (high - low), 0.0), 1.0)

    def decode(self, u: float) -> float:
        """A coordinate in [0, 1] to a value, always inside."""
        if self.low == self.high:
            return self.low
        if self.step is not None:
            return self._value(int(bin_of(u, int(self.size))))
        if u in (0.0, 1.0):
            return self.high if u else self.low
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            x = math.exp(min(low + u * (high - low), high))
        elif math.isinf(self.high - self.low):
            x = self.low * (1 - u) + self.high * u
        else:
            x = self.low + u * (self.high - self.low)
        return min(max(x, self.low), self.high)

    def snap(self, u: Array) -> Array:
        """Coordinates to the coordinates of values: u: n -> n."""
        n = self.size
        return u if math.isinf(n) else np.asarray(centre_of(bin_of(u, int(n)), int(n)))

    def centres(self) -> Array:
        """The coordinates of all values, when there are finitely many."""
        return np.asarray(centre_of(np.arange(self.size), int(self.size)))

    def borders(self) -> Array:
        """The coordinates between neighbouring values, when there are finitely many."""
        return np.arange(1, self.size) / self.size

    def _value(self, k: int) -> float:
        # Exact decimal arithmetic: 0 + 3 * 0.1 is 0.3 and not 0.30000000000000004.
        return float(_exact(self.low) + k * _exact(self.step))


def _exact(x: float | None) -> Fraction:
    return Fraction(repr(x))


@dataclass(frozen=True, repr=False)
class Int(_Bounds):
    """An integer parameter in low, low + step, ..., high; `log=True` spreads it by its logarithm.

    `when={"model": "svm"}`: it exists only where the parameter "model" is "svm"; see docs/conditional.md.
    """

    low: int
    high: int
    log: bool = False
    step: int = 1
    when: When | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", checked_when(self.when))
        self._convert(_whole, "low", "high", "step")
        if self.low > self.high:
            raise SpaceError(f"low must not be above high, not low={self.low}, high={self.high}")
        if self.step < 1:
            raise SpaceError(f"step must be at least 1, not {self.step}")
        self._check_log(self.step != 1)
        if self.size > _MOST_VALUES or (self.log and self.high > _MOST_LOG):
            raise SpaceError(
                f"at most 2**50 values (2**40 with log=True), not {self.size}; use a Float or a larger step"
            )

    @property
    def size(self) -> int:
        """Number of values."""
        return (self.high - self.low) // self.step + 1

    @property
    def is_exact_as_float(self) -> bool:
        """Whether float64 tells all values apart, as a storage needs that keeps numbers in it: Optuna's does."""
        return max(-self.low, self.high) <= 2**53

    def check(self, value: Any) -> int:
        """The value as an int; ValueError when it is none of this parameter's."""
        number = int(self._inside(_whole(value)))
        if (number - self.low) % self.step:
            raise ValueError(f"{number} is not low + k * step with low={self.low}, step={self.step}")
        return number

    def encode(self, value: int) -> float:
        """A checked value to its coordinate."""
        return float(self._coordinate(np.float64((value - self.low) // self.step)))

    def decode(self, u: float) -> int:
        """A coordinate in [0, 1] to a value, always inside."""
        return self.low + int(self._index(np.float64(u))) * self.step

    def snap(self, u: Array) -> Array:
        """Coordinates to the coordinates of values: u: n -> n."""
        return np.asarray(self._coordinate(self._index(u)))

    def centres(self) -> Array:
        """The coordinates of all values."""
        return np.asarray(self._coordinate(np.arange(self.size)))

    def borders(self) -> Array:
        """The coordinates between neighbouring values."""
        if not self.log:
            return np.arange(1, self.size) / self.size
        low, high = self._log_edges()
        return np.asarray((np.log(np.arange(1, self.size) + self.low - 0.5) - low) / (high - low))

    def _index(self, u: Any) -> Any:
        if not self.log:
            return bin_of(u, self.size)
        low, high = self._log_edges()
        value = np.floor(np.exp(low + u * (high - low)) + 0.5)
        return np.clip(value, self.low, self.high) - self.low

    def _coordinate(self, k: Any) -> Any:
        if not self.log:
            return centre_of(k, self.size)
        low, high = self._log_edges()
        value = k + self.low
        centre = (np.log(value - 0.5) + np.log(value + 0.5)) / 2
        return (centre - low) / (high - low)

    def _log_edges(self) -> tuple[float, float]:
        # Half a step beyond each end, so that the first and the last value have whole bins.
        return math.log(self.low - 0.5), math.log(self.high + 0.5)


Parameter: TypeAlias = Float | Int | Categorical


def has_no_order(parameter: Parameter) -> TypeGuard[Categorical]:
    """Whether a value is as unlike its neighbour as any other."""
    return isinstance(parameter, Categorical) and not parameter.ordered
