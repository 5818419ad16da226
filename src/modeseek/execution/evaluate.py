"""One evaluation of an objective, as plain data that can leave its process."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from modeseek.errors import ObjectiveTypeError
from modeseek.execution.shipping import as_portable
from modeseek.outcomes import Measured, measured, never_measures

Catch: TypeAlias = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Evaluated:
    """What one evaluation came to.

    Attributes:
        measured: the value and the constraints; None when it failed.
        error: why it failed, or the objective's traceback; None when something was measured.
        exception: what the objective raised, unless `catch` covers it.
        caught: the objective raised, and `catch` covers it.
        never_a_number: the objective returned None, text, a tuple, such a constraint, ...; False where `catch` covers
            ObjectiveTypeError.
        seconds: how long the objective took; None where its process ended.
    """

    measured: Measured | None = None
    error: str | None = None
    exception: Exception | None = None
    caught: bool = False
    never_a_number: bool = False
    seconds: float | None = field(default=None, compare=False)


def evaluate(f: Callable[[Any], Any], catch: Catch, params: Any, objectives: int = 1) -> Evaluated:
    """f(params) as plain data, so that neither a GPU tensor nor a strange exception has to leave a worker.

    `catch` is looked at here, where the exception is: not every exception survives the way to another process.
    """
    begin = time.perf_counter()
    evaluated = _evaluate(f, catch, params, objectives)
    return replace(evaluated, seconds=time.perf_counter() - begin)


def _evaluate(f: Callable[[Any], Any], catch: Catch, params: Any, objectives: int) -> Evaluated:
    try:
        returned = f(params)
    except SystemExit as error:
        return Evaluated(error=f"SystemExit: {error}; the objective called sys.exit")
    except Exception as error:
        text = traceback.format_exc()
        if isinstance(error, catch):
            return Evaluated(error=text, caught=True)
        here = multiprocessing.parent_process() is None
        return Evaluated(error=text, exception=error if here else as_portable(error))
    try:
        return Evaluated(measured=measured(returned, objectives))
    except Exception as error:  # whatever a foreign object may raise when it is asked for a number
        never = never_measures(returned, objectives) and not issubclass(ObjectiveTypeError, catch)
        return Evaluated(error=str(error), never_a_number=never)


def type_error(error: str | None, objectives: int = 1) -> ObjectiveTypeError:
    """The error for an objective that has given no number yet, and of whose returns one can never be one."""
    if objectives > 1:
        return ObjectiveTypeError(
            f"the objective must return a list of {objectives} finite numbers; with black-box constraints, a "
            f"modeseek.Outcome or a tuple ([v1, v2], [g1, g2]). Instead, {error}"
        )
    return ObjectiveTypeError(
        "the objective must return one finite number (a float, an int, or an array or tensor with one element); with "
        f"black-box constraints, a modeseek.Outcome or a tuple (value, [g1, g2]); with several objectives, a list, and "
        f"directions=[...] says what to do with each (command line: --direction minimize,maximize). Instead, {error}"
    )
