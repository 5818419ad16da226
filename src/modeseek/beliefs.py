"""A belief where the optimum is, in the user's words, and as a density on the unit cube.

Of each parameter by itself; what is not named is believed to be anywhere. In the parameter's own units:

    Normal(1e-3, 0.5)      around 1e-3; the standard deviation is in the parameter's units, of log=True in decades
    1e-3                   near 1e-3: a standard deviation of NEAR of the range, of log=True of its decades
    (1e-4, 1e-2)           between these: flat in between, with normal tails of a quarter of that width on either side
    {"relu": 3, "tanh": 1} how probable each choice of a Categorical is, up to a common factor
    "relu", ["relu", "gelu"]     this choice, or these: each ODDS times as probable as any other
    scipy.stats.beta(2, 5)       any frozen distribution of scipy.stats

On the cube a belief is a table of logarithms of its density at GRID + 1 coordinates per parameter, 0 at the highest; in
between it is linear, so that it has a slope. What proposals make of it is in informed.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modeseek.checks import did_you_mean
from modeseek.choices import bin_of
from modeseek.errors import ConfigError
from modeseek.parameters import Categorical, Float, Int, Parameter
from modeseek.space import Space
from modeseek.typing import Array

GRID = 1024
NEAR = 0.1  # the standard deviation of a single value, on the unit interval
NARROWEST = 0.01  # and the least of any belief: no more is known of an optimum beforehand
ODDS = 7.0
LEAST = -30.0  # the logarithm of a density that is called impossible, over that of its maximum

Stored = dict[str, Any]  # a belief about one parameter as JSON-able values, one of the kinds in `_TABLES`


@dataclass(frozen=True)
class Normal:
    """A belief: normal around `mean`, with the standard deviation `std`, cut at the parameter's bounds.

    Both in the parameter's own units, but for `std` where log=True: there it is in decades, so that
    `Normal(1e-3, 0.5)` has 1e-3 · 10^±0.5, from 3e-4 to 3e-3, within one standard deviation.
    """

    mean: float
    std: float

    def __post_init__(self) -> None:
        """Refuse what makes no sense, by name."""
        for name in ("mean", "std"):
            if not _is_number(getattr(self, name)):
                raise ConfigError(f"Normal: {name} must be a finite number, not {getattr(self, name)!r:.60}")
        if self.std <= 0:
            raise ConfigError(f"Normal: std must be above 0, not {self.std!r}")


def checked(space: Space, prior: Any) -> dict[str, Stored]:
    """A user's beliefs by name, as JSON-able values; ConfigError names the parameter that is wrong."""
    if not isinstance(prior, Mapping):
        raise ConfigError(f"prior must be a dict, as in prior={{'lr': Normal(1e-3, 0.5)}}, not {prior!r:.60}")
    stored = {}
    for name, belief in prior.items():
        if name not in space.names:
            raise ConfigError(f"prior: {name!r} is not one of {space.names}{did_you_mean(name, space.names)}")
        try:
            stored[name] = _stored(space[name], belief)
        except ValueError as error:
            raise ConfigError(f"prior: parameter {name!r}: {error}") from error
    tables(space, stored)
    return stored


def tables(space: Space, stored: Mapping[str, Stored]) -> Array:
    """The logarithms of the densities, by coordinate of the cube: d x (GRID + 1), each with the maximum 0."""
    rows = np.zeros((space.d, GRID + 1))
    for name, belief in stored.items():
        kind, value = next(iter(belief.items()))
        row = _TABLES[kind](space[name], value)
        finite = row[np.isfinite(row)]
        if not len(finite):
            raise ConfigError(f"prior: parameter {name!r}: the belief leaves nothing within the bounds")
        row = np.nan_to_num(row, nan=-np.inf, posinf=finite.max(), neginf=-np.inf)
        rows[space.coordinates.index(name)] = np.maximum(row - finite.max(), LEAST)
    return rows


def quantiles(tables: Array, u: Array) -> Array:
    """Where the densities have these quantiles: u (n x d, in [0, 1]) to n x d."""
    grid = np.linspace(0, 1, GRID + 1)
    points = np.empty_like(u)
    for i, row in enumerate(tables):
        density = np.exp(row)
        mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        points[:, i] = np.interp(u[:, i], mass / mass[-1], grid)
    return points


def modes(tables: Array) -> Array:
    """The middle of where each density is highest: d."""
    top = tables >= tables.max(1, keepdims=True) - 1e-9
    grid = np.linspace(0, 1, GRID + 1)
    return np.array([np.median(grid[row]) for row in top])


def _stored(parameter: Parameter, belief: Any) -> Stored:
    """What a user said of one parameter; ValueError, without its name, where it says nothing."""
    if hasattr(belief, "dist") and hasattr(belief, "kwds"):
        if isinstance(parameter, Categorical):
            raise ValueError("a Categorical takes weights, a choice or a list of choices")
        return _stored_scipy(belief)
    if isinstance(parameter, Categorical):
        return {"weights": [[parameter.to_json(choice), w] for choice, w in _weights(parameter, belief).items()]}
    if isinstance(belief, Mapping) and belief.keys() == {"mean", "std"}:  # as files have it
        belief = Normal(**belief)
    if isinstance(belief, Normal):
        return {"normal": [_within(parameter, belief.mean), float(belief.std)]}
    if _is_number(belief):
        return {"near": _within(parameter, belief)}
    if isinstance(belief, tuple | list) and len(belief) == 2 and all(map(_is_number, belief)):
        low, high = (_within(parameter, end) for end in belief)
        if low >= high:
            raise ValueError(f"the lower end comes first, not {belief!r}")
        return {"between": [low, high]}
    raise ValueError(
        f"{belief!r:.60} is no belief about a number: say Normal(mean, std) (in a file {{mean = ..., std = ...}}), a "
        "value, (low, high), or a frozen distribution of scipy.stats"
    )


def _weights(parameter: Categorical, belief: Any) -> dict[Any, float]:
    """By choice, how probable it is over the most probable one."""
    if isinstance(belief, Mapping):
        named = {str(choice): choice for choice in parameter.choices}  # files have names for numbers, too
        by_choice = {parameter.check(named.get(choice, choice)): weight for choice, weight in belief.items()}
        if missing := [choice for choice in parameter.choices if choice not in by_choice]:
            raise ValueError(f"every choice needs a weight; {missing!r:.100} is missing")
        weights = by_choice.values()
        if not all(_is_number(weight) and weight >= 0 for weight in weights) or not any(weights):
            raise ValueError(f"weights must be finite numbers, none below 0 and one above it, not {belief!r:.100}")
        return {choice: float(by_choice[choice] / max(weights)) for choice in parameter.choices}
    several = list(belief) if isinstance(belief, list | tuple) else [belief]
    if not several:
        raise ValueError("an empty list is no belief; leave the parameter out, or name the choices")
    chosen = [parameter.check(choice) for choice in several]
    return {choice: 1.0 if choice in chosen else 1 / ODDS for choice in parameter.choices}


def _within(parameter: Float | Int, value: Any) -> float:
    if not parameter.low <= value <= parameter.high:
        raise ValueError(f"{value!r} is not in [{parameter.low}, {parameter.high}]")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _stored_scipy(belief: Any) -> Stored:
    name, args, kwds = getattr(belief.dist, "name", None), belief.args, belief.kwds
    numbers = [*args, *kwds.values()]
    if not isinstance(name, str) or not all(map(_is_number, numbers)):
        raise ValueError(f"{belief!r:.60} is not a frozen distribution of scipy.stats with numbers as parameters")
    stored: Stored = {"scipy": [name, list(map(float, args)), {key: float(value) for key, value in kwds.items()}]}
    _frozen(*stored["scipy"])
    return stored


def _frozen(name: str, args: list[float], kwds: Mapping[str, float]) -> Any:
    """The distribution of scipy.stats of this name, which may come from a file; ValueError where there is none."""
    from scipy import stats  # here: it takes as long to load as all else that a worker process needs

    kind = getattr(stats, name, None)
    if not isinstance(kind, stats.rv_continuous | stats.rv_discrete):
        raise ValueError(f"scipy.stats has no distribution {name!r:.60}")
    return kind(*args, **kwds)


class _Axis:
    """One number on [0, 1]: linear, or in its logarithm; a discrete one with half a step beyond either end."""

    def __init__(self, parameter: Parameter) -> None:
        if isinstance(parameter, Categorical):
            raise ValueError("a Categorical takes weights, a choice or a list of choices")
        low, high = float(parameter.low), float(parameter.high)
        if not math.isinf(parameter.size):
            half = (parameter.step or (low if parameter.log else max(1.0, abs(low)))) / 2
            low, high = low - half, low + (2 * parameter.size - 1) * half
        self.log = parameter.log
        self.low, self.high = (math.log(low), math.log(high)) if self.log else (low / 2, high / 2)

    def position(self, value: float) -> float:
        return ((math.log(value) if self.log else value / 2) - self.low) / (self.high - self.low)

    def width(self, std: float) -> float:
        return max((std * math.log(10) if self.log else std / 2) / (self.high - self.low), NARROWEST)

    def values(self) -> Array:
        """At the coordinates of the table."""
        at = self.low + np.linspace(0, 1, GRID + 1) * (self.high - self.low)
        return np.asarray(np.exp(at) if self.log else 2 * at)


def _flat(low: float, high: float, std: float) -> Array:
    """0 from low to high on [0, 1], with tails of a normal density."""
    u = np.linspace(0, 1, GRID + 1)
    return np.asarray(-0.5 * np.square(np.maximum(np.maximum(low - u, u - high), 0) / std))


def _of_normal(parameter: Parameter, value: list[float]) -> Array:
    axis, (mean, std) = _Axis(parameter), value
    return _flat(axis.position(mean), axis.position(mean), axis.width(std))


def _of_near(parameter: Parameter, value: float) -> Array:
    at = _Axis(parameter).position(value)
    return _flat(at, at, NEAR)


def _of_between(parameter: Parameter, value: list[float]) -> Array:
    low, high = map(_Axis(parameter).position, value)
    return _flat(low, high, max((high - low) / 4, NARROWEST))


def _of_weights(parameter: Parameter, value: list[list[Any]]) -> Array:
    """Choices that a space has got since then are as probable as the least probable one."""
    if not isinstance(parameter, Categorical):
        raise ValueError("weights are for a Categorical")
    known = {parameter.check(parameter.from_json(choice)): float(weight) for choice, weight in value}
    weights = [max(known.get(choice, min(known.values())), math.exp(LEAST)) for choice in parameter.choices]
    return np.asarray(np.log(weights)[bin_of(np.linspace(0, 1, GRID + 1), parameter.size).astype(int)])


def _of_scipy(parameter: Parameter, value: list[Any]) -> Array:
    """The density of the coordinate: that of the value, times the value where the axis is logarithmic."""
    axis, frozen = _Axis(parameter), _frozen(*value)
    values = axis.values()
    with np.errstate(all="ignore"):
        if hasattr(frozen, "logpmf") and not hasattr(frozen.dist, "pdf"):
            values = np.clip(np.round(values), parameter.low, parameter.high)  # type: ignore[union-attr]
            return np.asarray(frozen.logpmf(values) + (np.log(values) if axis.log else 0.0))
        inside = np.clip(values, parameter.low, parameter.high)  # type: ignore[union-attr]
        return np.asarray(frozen.logpdf(inside) + (np.log(inside) if axis.log else 0.0))


_TABLES: dict[str, Callable[[Parameter, Any], Array]] = {
    "normal": _of_normal,
    "near": _of_near,
    "between": _of_between,
    "weights": _of_weights,
    "scipy": _of_scipy,
}
