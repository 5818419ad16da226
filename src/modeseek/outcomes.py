"""What an evaluation has measured: an objective or several, and constraints; from whatever it returned.

An objective returns a number, or as many as there are objectives. Where it has constraints, it returns an `Outcome`, or
a tuple of the value and a list of the constraints.
"""

from __future__ import annotations

import math
import numbers
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from modeseek.errors import ConfigError

# A standard error, None where it is not known; of several objectives one each.
Sem: TypeAlias = float | tuple[float | None, ...] | None


@dataclass(frozen=True)
class Outcome:
    """What an objective may return instead of a plain number.

        return ms.Outcome(cost, constraints=[weight - 10, stress - 1])

    Attributes:
        value: a number; with several objectives, as many.
        constraints: numbers, as many each time; the point is feasible where all of them are at most 0.
        sem: the standard error of the value, where it is known; 0 for an exact one. With several objectives a list,
            with None for one that is not known.
    """

    value: Any
    constraints: Sequence[float] | None = None
    sem: float | Sequence[float | None] | None = None


class Measured(NamedTuple):
    """The numbers of one evaluation, all finite."""

    values: tuple[float, ...]  # one per objective
    constraints: tuple[float, ...] = ()
    sem: Sem = None  # of the values; None: not known


def measured(returned: Any, objectives: int = 1) -> Measured:
    """The numbers in what an objective returned; ValueError says what is wrong with it."""
    value, constraints = taken_apart(returned, objectives)
    sem = as_sem(returned.sem, objectives) if issubclass(type(returned), Outcome) else None
    return Measured(_values(value, objectives), as_constraints(constraints), sem)


def judged(
    value: Any,
    constraints: Sequence[float] | None,
    sem: float | Sequence[float | None] | None,
    objectives: int,
) -> tuple[Measured | None, str]:
    """The numbers that were told, or why they are of no use; ConfigError where it is the call that is wrong."""
    # Of several objectives a plain tuple is their values.
    pair = type(value) is tuple and (objectives == 1 or taken_apart(value, objectives)[1] is not None)
    whole = issubclass(type(value), Outcome) or pair
    if value is None and constraints is not None:
        raise ConfigError("constraints without a value: tell both, or failed=True")
    if sem is not None:
        if whole:
            raise ConfigError("tell sem in the Outcome, or beside a plain value")
        try:
            as_sem(sem, objectives)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    if constraints is not None and whole:
        raise ConfigError("tell constraints once: in the Outcome or the tuple, or as constraints=")
    if constraints is not None or sem is not None:
        value = Outcome(value, constraints, sem)
    try:
        return measured(value, objectives), ""
    except ValueError as reason:
        return None, str(reason)


def never_measures(returned: Any, objectives: int = 1) -> bool:
    """Whether no successful evaluation returns the like: a mistake in the objective rather than a bad point."""
    value, constraints = taken_apart(returned, objectives)
    values = [value] if objectives == 1 else _several(value)
    if values is None or len(values) != objectives or any(map(_is_never_a_number, values)):
        return True
    sem = returned.sem if issubclass(type(returned), Outcome) else None
    if sem is not None:
        errors = [sem] if objectives == 1 else _several(sem)
        if errors is None or len(errors) != objectives:
            return True
        if any(error is not None and _is_never(error) for error in errors):
            return True
    limits = [] if constraints is None else _several(constraints)
    return limits is None or any(map(_is_never, limits))


def _is_never(value: Any) -> bool:
    """Whether this is never a constraint or a standard error: True and False are none either."""
    return _is_never_a_number(value) or _is_bool(value)


def _is_never_a_number(value: Any) -> bool:
    """Whether this could not have been a number at another point, as NaN could, or what fails to turn into one."""
    kind = type(_content(value))
    return not issubclass(kind, numbers.Real | Decimal) and not hasattr(kind, "__float__")


def _is_bool(value: Any) -> bool:
    """Whether this is True or False, also NumPy's, or an array or tensor that holds one."""
    return issubclass(type(_content(value)), bool)


def _content(value: Any) -> Any:
    """What an array or tensor of one element holds; () of another shape, NaN where it is masked or cannot be read."""
    try:
        if np.ma.is_masked(value):
            return math.nan
        if hasattr(value, "shape") and hasattr(value, "item"):
            return value.item() if math.prod(value.shape) == 1 else ()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # from an object that is not ours, or from a device
        return math.nan
    return value


def taken_apart(returned: Any, objectives: int) -> tuple[Any, Any]:
    """The value and the constraints, neither of them looked at: a foreign object may raise even for its class."""
    if issubclass(type(returned), Outcome):
        return returned.value, returned.constraints
    if type(returned) is tuple and len(returned) == 2:
        # With two objectives, (1.0, [2.0]) is no pair of a value and constraints.
        marked = returned[1] if objectives == 1 else returned[0]
        if _several(marked) is not None and _several(returned[1]) is not None:
            return returned
    return returned, None


def _values(value: Any, objectives: int) -> tuple[float, ...]:
    if objectives == 1:
        return (as_number(value),)
    several = _several(value)
    if several is None:
        raise ValueError(f"the value is {_kind(value)}, not a list of {objectives} numbers, one per objective")
    if len(several) != objectives:
        raise ValueError(f"there {counted(len(several), 'value')} for {objectives} objectives")
    return tuple(as_number(number, f"value {i}") for i, number in enumerate(several))


def as_sem(sem: Any, objectives: int = 1) -> Sem:
    """A standard error as a number, or of several objectives as many; ValueError says what is wrong with it."""
    if sem is None or objectives == 1:
        return None if sem is None else _error(sem, "sem")
    several = _several(sem)
    if several is None or len(several) != objectives:
        # One number for all would be in the units of one of them.
        raise ValueError(
            f"sem is {_kind(sem)}; with {objectives} objectives it is a list of {objectives} standard errors, one per "
            "objective, None where it is not known"
        )
    errors = tuple(None if error is None else _error(error, f"sem {i}") for i, error in enumerate(several))
    return None if all(error is None for error in errors) else errors


def _error(sem: Any, name: str) -> float:
    if _is_bool(sem):
        raise ValueError(f"{name} is {_content(sem)}, not a number; leave it out where it is not known")
    number = as_number(sem, name)
    if number < 0:
        raise ValueError(f"{name} is {number}, and a standard error is at least 0")
    return number


def sem_per_objective(sem: Sem, objectives: int) -> list[float]:
    """The standard error of each objective; NaN where it is not known."""
    errors = sem if isinstance(sem, tuple) else (sem,) * objectives
    return [math.nan if error is None else error for error in errors]


def as_constraints(constraints: Any) -> tuple[float, ...]:
    """The constraints as numbers, none where there are none; ValueError says what is wrong with them."""
    if constraints is None:
        return ()
    several = _several(constraints)
    if several is None:
        raise ValueError(f"the constraints are {_kind(constraints)}, not a list of numbers")
    for i, number in enumerate(several):
        if _is_bool(number):
            raise ValueError(
                f"constraint {i} is {_content(number)}: a constraint is a number, feasible where it is at most 0, so "
                "that True would mean violated; for x > 0.3 return 0.3 - x"
            )
    return tuple(as_number(number, f"constraint {i}") for i, number in enumerate(several))


def counted(count: int, thing: str) -> str:
    """So many of something after "there": "is 1 value", "are 2 values", "are no values"."""
    return f"is 1 {thing}" if count == 1 else f"are {count or 'no'} {thing}s"


def _several(value: Any) -> list[Any] | None:
    """The items of a list, a tuple, or an array or tensor of one dimension; None of anything else."""
    try:
        if isinstance(value, list | tuple):
            return list(value)
        if hasattr(value, "shape") and len(value.shape) == 1 and isinstance(value, Iterable):
            return list(np.ma.asarray(value)) if np.ma.isMaskedArray(value) else list(value)
    except Exception:  # from an object that is not ours
        return None
    return None


def _kind(value: Any) -> str:
    try:
        return f"a {type(value).__name__} ({value!r:.60})"
    except Exception:  # from a __repr__ that is not ours
        return f"a {type(value).__name__}"


def as_number(value: Any, name: str = "the value") -> float:
    """A finite float from a number, or from an array or tensor that holds one; ValueError says what it is instead."""
    if value is None:
        hint = "; does the objective return what it computes?" if name == "the value" else ""
        raise ValueError(f"{name} is None, not a number{hint}")
    try:
        number, reason = _converted(value)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # whatever a foreign object raises when it is looked at, it is not a number
        reason = as_text(error).splitlines()[-1]
        raise ValueError(f"{name} is a {type(value).__name__} that gives no number: {reason}") from error
    if reason:
        raise ValueError(f"{name} is {reason}")
    return number


def _converted(value: Any) -> tuple[float, str]:
    """The number in a value, and what it is instead."""
    if np.ma.is_masked(value):
        return math.nan, "masked, not a number"  # .item() would make it 0
    if hasattr(value, "shape") and hasattr(value, "item"):
        if math.prod(value.shape) != 1:
            return math.nan, f"an array of shape {tuple(value.shape)}, not one number"
        value = value.item()
    if not isinstance(value, numbers.Real | Decimal):
        return math.nan, f"a {type(value).__name__} ({value!r:.60}), not a number"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isnan(number):
        return number, "NaN"
    return number, f"infinite ({value!r:.60})" if math.isinf(number) else ""


def as_text(error: object) -> str:
    """Why a trial failed, as text: an exception with its traceback, anything else as it prints; never blank."""
    try:
        if isinstance(error, BaseException):
            return "".join(traceback.format_exception(error))
        text = "" if error is None else str.__str__(str(error))
    except Exception:  # from a __str__ that is not ours
        text = f"a {type(error).__name__} that cannot be printed"
    return text if text.strip() else "told as failed"
