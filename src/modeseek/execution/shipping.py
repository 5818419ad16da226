"""What goes to a worker process and comes back: functions of notebooks, lambdas, exceptions that do not pickle."""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

from modeseek.errors import ConfigError


def ship(what: str, payload: Any) -> bytes:
    """The payload for `pickle.loads` in a spawned process; a ConfigError in one line when it cannot go there.

    Pickle refers to functions and classes by name. A worker finds those of modules and of scripts, which it imports
    again, but nothing that was typed into a notebook or a prompt: cloudpickle sends such things as a whole.
    """
    try:
        data = pickle.dumps(payload)
        if _main_can_be_imported() or b"__main__" not in data:
            return data
        reason = "it is defined in a notebook or at a prompt"
    except Exception as error:
        reason = " ".join(str(error).split())
    try:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ConfigError(
            f"{what} cannot go to worker processes ({reason}): install cloudpickle, define it at the top of a module, "
            'or use executor="thread"'
        ) from None
    try:
        return bytes(cloudpickle.dumps(payload))
    except Exception as error:
        raise ConfigError(
            f"{what} cannot go to worker processes ({' '.join(str(error).split())}): define it at the top of a module, "
            'or use executor="thread"'
        ) from error


class Shipped:
    """A function that is pickled as `ship` sends it, for executors of others: they know of names in modules only."""

    def __init__(self, what: str, function: Callable[..., Any]) -> None:
        self._data = ship(what, function)

    def __call__(self, *args: Any) -> Any:
        """What the function gives."""
        return pickle.loads(self._data)(*args)


def for_executor(what: str, function: Callable[..., Any], executor: Executor) -> Callable[..., Any]:
    """The function as it reaches the workers of this executor; a ConfigError in one line when it cannot."""
    if not isinstance(executor, ProcessPoolExecutor):
        return function
    try:
        return Shipped(what, function)
    except ConfigError:
        try:
            pickle.dumps(function)
        except Exception:
            pass
        else:
            return function  # by its name, which forked workers know
        raise


def _main_can_be_imported() -> bool:
    """Whether a spawned process imports this program's main module; as multiprocessing decides it."""
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is not None or getattr(main, "__file__", None) is not None


def as_portable(error: Exception) -> Exception:
    """The exception itself, or a RuntimeError of the same text where it would break the way to another process."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError("".join(traceback.format_exception_only(error)).strip())
