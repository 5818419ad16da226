"""Arguments of `minimize` and `maximize` that come in several shapes, as the one that the loop works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from modeseek.errors import ConfigError
from modeseek.outcomes import Outcome
from modeseek.trials import Trial
from modeseek.typing import Params


def pairs(known: Any, count: int = 1) -> list[tuple[Params, Any]]:
    """What `known=` has: pairs as they are, of trials those that are complete and in their own space, as pairs.

    Args:
        count: of objectives; ConfigError where a trial has another number of values.
    """
    try:
        entries = list(known.trials if hasattr(known, "trials") else known)
        complete = [e for e in entries if not isinstance(e, Trial) or (e.values is not None and e.in_space)]
        told = [(params, value) for params, value in map(_pair, complete)]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "known must be a Result, trials, or pairs of parameters and a value, as in [({'lr': 0.1}, 0.9)]; with "
            f"constraints the value is an Outcome or (0.9, [g1, g2]): {error}"
        ) from error
    for entry in complete:
        if isinstance(entry, Trial) and len(entry.values or ()) != count:
            raise ConfigError(
                f"trial {entry.number} of known= has {len(entry.values or ())} and this run {count} as its number of "
                "objectives; give pairs (params, value), with a value for each objective"
            )
    return told


def _pair(entry: Any) -> Any:
    """A complete trial as a pair of parameters and an Outcome; anything else as it is."""
    if not isinstance(entry, Trial):
        return entry
    value = entry.values if entry.value is None else entry.value
    return entry.params, Outcome(value, entry.constraints or None, entry.sem)


def callback_functions(callbacks: Any) -> tuple[Callable[..., Any], ...]:
    """What `callbacks=` has."""
    if not isinstance(callbacks, Iterable) or not all(map(callable, callbacks := tuple(callbacks))):
        raise ConfigError(f"callbacks must be a list of functions, not {callbacks!r}")
    return tuple(callbacks)


def exception_types(catch: Any) -> tuple[type[Exception], ...]:
    """What `catch=` has: one type or several."""
    types = tuple(catch) if isinstance(catch, Iterable) else (catch,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in types):
        raise ConfigError(f"catch must be exception types, as in catch=(ValueError,), not {catch!r}")
    return types
