"""One evaluation of an objective, as plain data that can leave its process."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from modeseek.errors import ObjectiveTypeError
from modeseek.execution.shipping import as_portable
from modeseek.trials import as_number

Catch: TypeAlias = tuple[type[Exception], ...]

# What no successful objective returns. Other odd values may be a failure of this point alone.
_NEVER_NUMBERS = (type(None), str, bytes, bytearray, tuple, list, dict, set, frozenset, complex)


@dataclass(frozen=True)
class Outcome:
    """What one evaluation came to.

    Attributes:
        value: the number; None when it failed.
        error: why it failed, or the objective's traceback; None when there is a value.
        exception: what the objective raised, unless `catch` covers it.
        caught: the objective raised, and `catch` covers it.
        never_a_number: the objective returned None, text, a tuple, ...; False where `catch` covers ObjectiveTypeError.
    """

    value: float | None = None
    error: str | None = None
    exception: Exception | None = None
    caught: bool = False
    never_a_number: bool = False


def evaluate(f: Callable[[Any], Any], catch: Catch, params: Any) -> Outcome:
    """f(params) as plain data, so that neither a GPU tensor nor a strange exception has to leave a worker.

    `catch` is looked at here, where the exception is: not every exception survives the way to another process.
    """
    try:
        value = f(params)
    except SystemExit as error:
        return Outcome(error=f"SystemExit: {error}; the objective called sys.exit")
    except Exception as error:
        text = traceback.format_exc()
        if isinstance(error, catch):
            return Outcome(error=text, caught=True)
        return Outcome(error=text, exception=error if multiprocessing.parent_process() is None else as_portable(error))
    try:
        return Outcome(value=as_number(value))
    except Exception as error:  # whatever a foreign object may raise when it is asked for a number
        never = issubclass(type(value), _NEVER_NUMBERS) and not issubclass(ObjectiveTypeError, catch)
        return Outcome(error=str(error), never_a_number=never)


def type_error(error: str | None) -> ObjectiveTypeError:
    """The error for an objective that has given no number yet, and of whose returns one can never be one."""
    return ObjectiveTypeError(
        "the objective must return one finite number (a float, an int, or an array or tensor with one element), but "
        f"{error}"
    )
