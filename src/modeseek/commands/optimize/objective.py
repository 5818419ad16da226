"""A function by its name: `my_module:objective`, looked for in the current directory first."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from modeseek.checks import did_you_mean
from modeseek.errors import ObjectiveError


class Named:
    """A function of the parameters that goes to other processes, and into messages, by its name.

    Also a lambda, or an object that cannot be pickled, has its name in a module.
    """

    def __init__(self, name: str) -> None:
        self._function = find_function(name)
        self.name = self.__qualname__ = name

    def __call__(self, params: dict[str, Any]) -> Any:
        """What the function says."""
        return self._function(params)

    def __reduce__(self) -> tuple[Any, ...]:
        return Named, (self.name,)


def checked_name(text: str) -> str:
    """The same text; ObjectiveError where it is not MODULE:FUNCTION."""
    module, colon, function = text.partition(":")
    if module.endswith(".py"):
        raise ObjectiveError(f"{text!r} names a file; name its module: {module[:-3]}:{function or 'f'}")
    if not (module and colon and function):
        raise ObjectiveError(f"{text!r} must be MODULE:FUNCTION, as in my_module:objective")
    return text


def find_function(name: str) -> Callable[[dict[str, Any]], Any]:
    """The function that `module:function` names, importable and taking one argument, or an ObjectiveError."""
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = _module(module_name)
    where = f"module {module_name!r} ({getattr(module, '__file__', 'built in')})"
    f: Any = module
    for part in attribute.split("."):
        if not hasattr(f, part):
            hint = did_you_mean(part, dir(f))
            raise ObjectiveError(f"there is no {attribute!r} in {where}{hint}")
        f = getattr(f, part)
    if not callable(f):
        raise ObjectiveError(f"{attribute!r} in {where} is not a function but {f!r:.60}")
    _check_signature(f, attribute, where)
    return f  # type: ignore[no-any-return]


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ObjectiveError(f"module {name!r} cannot be imported: {error}") from error
        raise ObjectiveError(
            f"module {name!r} cannot be imported: there is no {error.name!r} in {os.getcwd()} or installed"
        ) from error
    except (Exception, SystemExit) as error:  # whatever a module does when imported
        raise ObjectiveError(f"module {name!r} cannot be imported:\n{traceback.format_exc(limit=-2)}") from error


def _check_signature(f: Callable[..., Any], attribute: str, where: str) -> None:
    try:
        signature = inspect.signature(f)
    except ValueError:  # some built-in functions have none
        return
    try:
        signature.bind({})
    except TypeError as error:
        raise ObjectiveError(
            f"{attribute!r} in {where} takes {signature}, but must take one argument, the dict of parameters: {error}"
        ) from error
