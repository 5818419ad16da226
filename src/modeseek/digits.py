"""Numbers in texts: a few digits, and more of them where what is to be told apart lies far from 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from modeseek.choices import Categorical

if TYPE_CHECKING:
    from modeseek.parameters import Parameter

MOST = 17  # significant digits; more than float64 has
LEAST = 6  # unless a text says otherwise


def rounded(value: float, spread: float = 0.0, *, least: int = LEAST, of_spread: int = 3) -> str:
    """A number with at least so many significant digits, and so many of `spread`, by which such numbers differ.

    101325.0002 is 101325; where values differ by 0.003 it is 101325.0002.
    """
    digits = least
    if value and math.isfinite(value) and 0 < spread < math.inf:
        digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(spread)) + of_spread
    return f"{value:.{min(max(digits, least), MOST)}g}"


def with_error(value: float, std: float, *, least: int = LEAST) -> str:
    """A number to the last digit of its standard deviation, and that: "101325.00012 ± 0.00033"."""
    return f"{rounded(value, std, least=least, of_spread=2)} ± {std:.2g}"


def of_parameter(parameter: Parameter, value: Any) -> str:
    """A value of a parameter: of a continuous one a few digits of its range, else the whole value."""
    if isinstance(parameter, Categorical) or not isinstance(value, float) or parameter.step is not None:
        return repr(value)
    return in_range(value, parameter.low, parameter.high)


def in_range(value: float, low: float, high: float) -> str:
    """A number between two others, with as many digits as if the range began at 0."""
    return repr(value) if low == high else rounded(value, high - low, of_spread=LEAST)


def spread_of(values: Iterable[float]) -> float:
    """By how much most values differ: from quartile to quartile, or all of them where those are equal."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    quarter = len(ordered) // 4
    return (ordered[-1 - quarter] - ordered[quarter]) or (ordered[-1] - ordered[0])


def spreads_of(rows: Iterable[Sequence[float] | None]) -> list[float]:
    """`spread_of` of each objective, of the values of trials; None of those that have none."""
    return [spread_of(column) for column in zip(*filter(None, rows), strict=True)]
