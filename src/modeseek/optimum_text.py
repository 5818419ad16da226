"""What is known of the optimum in five lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from modeseek.digits import of_parameter, rounded, with_error
from modeseek.parameters import Categorical
from modeseek.typing import Params

if TYPE_CHECKING:
    from modeseek.optimum import Optimum

MOST_NAMED = 4  # parameters in a line of text


def summary(optimum: Optimum) -> str:
    """The best point, where the optimum is, in which regions, and how much better it may be."""
    intervals = optimum.interval(0.9)
    ranges = ", ".join(f"{name} {_interval_text(optimum, name, ends)}" for name, ends in _some(intervals))
    masses = [f"{100 * mode.mass:.0f} %" for mode in optimum.modes[:2]]
    where = [f"around {_text(optimum, mode.params, intervals)}" for mode in optimum.modes[:2]]
    regions = f"it is in one region, {where[0]}"
    if len(optimum.modes) > 1:
        likely = "; ".join(map(" ".join, zip(masses, where, strict=True)))
        more = f"; and {len(optimum.modes) - 2} more" if len(optimum.modes) > 2 else ""
        regions = f"it is in one of {len(optimum.modes)} regions, with a probability of {likely}{more}"
    gain = (
        f"it is better than the best point so far by less than {optimum.regret(0.5):.2g} with 50 % probability, "
        f"and by less than {optimum.regret(0.95):.2g} with 95 %"
    )
    if math.isinf(optimum.regret(0.5)):
        gain = "all values so far are equal, so that nothing is known of how much better it is"
    best = f"{_text(optimum, optimum.recommended, intervals)}; value {with_error(optimum.value, optimum.std, least=4)}"
    what = "minimum" if optimum.direction == "minimize" else "maximum"
    failed = f", and {optimum._failed} without an outcome," if optimum._failed else ""
    said = f"1 evaluation{failed} says" if optimum._trials == 1 else f"{optimum._trials} evaluations{failed} say"
    return "\n".join(
        [
            f"What {said} of the {what}:",
            f"  best point so far: {best}",
            f"  where the {what} lies, each with 90 % probability: {ranges}{_and_more(len(intervals))}",
            f"  {regions}",
            f"  {gain}",
        ]
    )


def _text(optimum: Optimum, params: Params, intervals: dict[str, Any]) -> str:
    names = optimum.space.names if optimum.space.is_box else list(params)
    named = {name: optimum.column(name, [params])[0] for name in names}
    said = (f"{name} = {_short(optimum, name, value, intervals.get(name, ()))}" for name, value in _some(named))
    return ", ".join(said) + _and_more(len(named))


def _and_more(count: int) -> str:
    return f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""


def _some(named: dict[str, Any]) -> list[tuple[str, Any]]:
    return list(named.items())[:MOST_NAMED]


def _interval_text(optimum: Optimum, name: str, ends: tuple[Any, ...]) -> str:
    texts = [_short(optimum, name, end, ends) for end in ends]
    return "in " + " or ".join(texts) if isinstance(optimum.space[name], Categorical) else " to ".join(texts)


def _short(optimum: Optimum, name: str, value: Any, ends: tuple[Any, ...]) -> str:
    """A value, with digits by the width of the interval that the optimum is in, or of the range where it has none."""
    parameter = optimum.space[name]
    if isinstance(parameter, Categorical) or not isinstance(value, float) or parameter.step is not None:
        return of_parameter(parameter, value)
    width = ends[1] - ends[0] if ends else 0.0
    return rounded(value, width or parameter.high - parameter.low, least=4)
