"""What goes to a worker process and comes back: functions of notebooks, lambdas, exceptions that do not pickle."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from modeseek.errors import ConfigError, WorkerError


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
        reason = in_one_line(error)
    return ship_whole(what, payload, reason)


def ship_whole(what: str, payload: Any, reason: str) -> bytes:
    """The same with the code of what is in the main module, which a worker does not find by its name, and why."""
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
            f"{what} cannot go to worker processes ({in_one_line(error)}): define it at the top of a module, "
            'or use executor="thread"'
        ) from None


class Shipped:
    """A function that is pickled as `ship` sends it, for executors of others: they know of names in modules only."""

    def __init__(self, what: str, function: Callable[..., Any]) -> None:
        self._data = ship(what, function)

    def __call__(self, *args: Any) -> Any:
        """What the function gives."""
        try:
            function = pickle.loads(self._data)
        except Exception as error:
            raise WorkerError(not_found("the objective", in_one_line(error))) from None
        return function(*args)


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


def in_one_line(error: Exception) -> str:
    """What an exception says."""
    return " ".join(str(error).split()) or type(error).__name__


def not_found(what: str, reason: str) -> str:
    """What to say where worker processes do not find something by its name."""
    return (
        f"{what} is not found by worker processes ({reason}): define it at the top of a module that they can import, "
        'or use executor="thread"'
    )


def _main_can_be_imported() -> bool:
    """Whether a spawned process can import this program's main module; one from standard input is no file."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    return getattr(main, "__spec__", None) is not None or (file is not None and os.path.exists(file))


@contextmanager
def without_main_that_is_no_file() -> Iterator[None]:
    """While this lasts, multiprocessing does not tell a new process to import a main module that it would not find."""
    main = sys.modules["__main__"]
    if _main_can_be_imported() or not hasattr(main, "__file__"):
        yield
        return
    file = main.__file__
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = file


def as_portable(error: Exception) -> Exception:
    """The exception itself, or a RuntimeError of the same text where it would break the way to another process."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError("".join(traceback.format_exception_only(error)).strip())
