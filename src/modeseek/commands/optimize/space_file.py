"""Search spaces written in TOML, one table per parameter.

[lr]
type = "float"
low = 1e-5
high = 1e-1
log = true
when = {model = "svm"}    # or a list of choices; without it, everywhere
prior = 1e-3              # where the optimum is believed to be: also [1e-4, 1e-2], or {mean = 1e-3, std = 0.5}

Known constraints are an array of tables of its own; a parameter may still be called "constraints".

[[constraints]]
coefficients = {width = 2, height = 1}
upper = 3

[[constraints]]
function = "my_module:feasible"   # feasible(params) -> bool
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from modeseek.beliefs import checked
from modeseek.checks import did_you_mean
from modeseek.commands.optimize.objective import Named, checked_name
from modeseek.errors import ConfigError, ObjectiveError, ParameterError, SpaceError
from modeseek.linear import Constraint, Linear
from modeseek.parameters import Categorical, Int, Parameter
from modeseek.space import KINDS, Space
from modeseek.storage import regular_file

LARGEST = 1_000_000  # bytes of a space file


def read_space(path: str | os.PathLike[str]) -> Space:
    """The space of a TOML file, in the file's order; SpaceError names the file, and the line or the key."""
    return read_space_and_prior(path)[0]


def read_space_and_prior(path: str | os.PathLike[str]) -> tuple[Space, dict[str, Any]]:
    """The space of a TOML file, and the beliefs in it by name; errors as in `read_space`.

    Functions that it names are imported last, once all else in the file is known to be right.
    """
    try:
        document = tomllib.loads(read_bytes(path).decode("utf-8-sig"))  # Windows' editors write a mark first
    except OSError as error:
        raise SpaceError(f"{path}: the space file cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # also what is not UTF-8
        raise SpaceError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise SpaceError(f"{path}: nested too deep for a space file, which has one table per parameter") from error
    if not document:
        raise SpaceError(f'{path}: it has no parameters; write one as [name], type = "float", low = 0, high = 1')
    try:
        listed = _not_one_table(document.get("constraints"))
        constraints = document.pop("constraints") if isinstance(listed, list) else []
        prior = {name: table.pop("prior") for name, table in document.items() if "prior" in _table(name, table)}
        parameters = {name: _parameter(name, table) for name, table in document.items()}
        said = [_constraint(i, table) for i, table in enumerate(constraints, 1)]
        space = Space(parameters, [constraint for constraint in said if isinstance(constraint, Linear)])
        checked(space, prior)
        if any(isinstance(constraint, str) for constraint in said):
            space = Space(parameters, [_imported(i, constraint) for i, constraint in enumerate(said, 1)])
        return space, prior
    except (ConfigError, SpaceError) as error:
        raise SpaceError(f"{path}: {error}") from error


def read_bytes(path: str | os.PathLike[str], largest: int = LARGEST) -> bytes:
    """A whole file; OSError where it is none, or larger than so many bytes."""
    regular_file(os.fspath(path))  # a pipe would be waited for, a device may have no end
    with Path(path).open("rb") as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(f"it has more than {largest} bytes")
    return data


def _table(name: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise SpaceError(f'{name} must be a table: a line [{name}], and below it type = "float", low = ..., high = ...')
    for key, value in table.items():
        if isinstance(value, dict) and key not in ("when", "prior"):
            raise SpaceError(f'[{name}.{key}]: a table in a table; a name with a dot needs quotes: ["{name}.{key}"]')
    return table


def _parameter(name: str, table: dict[str, Any]) -> Parameter:
    settings = dict(table)
    kind = settings.pop("type", None)
    if kind is None:
        raise SpaceError(f"[{name}]: type is missing; it is one of {list(KINDS)}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SpaceError(f"[{name}]: type is {kind!r}, but must be one of {list(KINDS)}{did_you_mean(kind, KINDS)}")
    fields = {field.name: field for field in dataclasses.fields(KINDS[kind])}
    for key in settings:
        if key not in fields:
            known = ", ".join(["type", *fields, "prior"])
            raise SpaceError(f"[{name}]: a {kind} has no {key!r}, only {known}{did_you_mean(key, fields)}")
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in settings:
            raise SpaceError(f"[{name}]: {key} is missing")
    try:
        parameter = KINDS[kind](**settings)
    except SpaceError as error:
        raise SpaceError(f"[{name}]: {error}") from error
    if isinstance(parameter, Int) and not parameter.is_exact_as_float:
        raise SpaceError(f"[{name}]: studies keep integers only to 2**53 exactly; search an offset or an exponent")
    return parameter


def _not_one_table(listed: Any) -> Any:
    """What stands under "constraints"; SpaceError where it is one constraint instead of an array of them."""
    if (
        isinstance(listed, dict)
        and "type" not in listed
        and listed.keys() & {*(f.name for f in dataclasses.fields(Linear)), "function"}
    ):
        raise SpaceError(
            "[constraints] is a single table: write [[constraints]], with two brackets, for each constraint"
        )
    return listed


def _constraint(number: int, table: Any) -> Linear | str:
    """A linear constraint, or the name of a function."""
    if not isinstance(table, dict):
        raise SpaceError(
            "constraints must be tables: a line [[constraints]], and below it coefficients = {a = 1, b = 2}"
        )
    known = [*(field.name for field in dataclasses.fields(Linear)), "function"]
    for key in table:
        if key not in known:
            raise SpaceError(
                f"[[constraints]] number {number} has no {key!r}, only {', '.join(known)}{did_you_mean(key, known)}"
            )
    if "function" in table:
        return _function(number, table)
    if "coefficients" not in table:
        raise SpaceError(
            f"[[constraints]] number {number}: coefficients is missing, as in coefficients = {{a = 1, b = 2}}, or "
            'function, as in function = "my_module:feasible"'
        )
    try:
        return Linear(**table)
    except SpaceError as error:
        raise SpaceError(f"[[constraints]] number {number}: {error}") from error


def _function(number: int, table: dict[str, Any]) -> str:
    name, *others = table["function"], *(key for key in table if key != "function")
    if others:
        raise SpaceError(
            f"[[constraints]] number {number}: function goes without {', '.join(others)}; write a "
            "[[constraints]] for each"
        )
    try:
        return checked_name(name if isinstance(name, str) else repr(name))
    except ObjectiveError as error:
        raise SpaceError(f"[[constraints]] number {number}: function: {error}") from error


def _imported(number: int, said: Linear | str) -> Constraint:
    try:
        return Named(said) if isinstance(said, str) else said
    except ObjectiveError as error:
        raise SpaceError(f"[[constraints]] number {number}: {error}") from error


def read_fixed(texts: Sequence[str], space: Space) -> dict[str, Any]:
    """The values of NAME=VALUE arguments, as the space has them; ParameterError names what is wrong."""
    fixed: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or name not in space.names:
            raise ParameterError(f"--fixed {text}: it must be NAME=VALUE with one of {space.names}")
        if name in fixed:
            raise ParameterError(f"--fixed {text}: {name!r} has a value already, {fixed[name]!r}")
        fixed[name] = value_of(space[name], value)
    space.region(fixed)  # which refuses what is not a value, and what leaves nothing
    return fixed


def value_of(parameter: Parameter, text: str) -> Any:
    """What a text means: of a categorical parameter, the choice that is written so; else a number, if it is one.

    The whole number 3 may be written 3.0: tables with missing values have it so.
    """
    if isinstance(parameter, Categorical):
        if text in (by_text := {str(choice): choice for choice in reversed(parameter.choices)}):
            return by_text[text]
        numbers = [c for c in parameter.choices if isinstance(c, int | float) and not isinstance(c, bool)]
        return next((choice for choice in numbers if choice == _number(text)), text)
    number = _number(text)
    return int(number) if isinstance(parameter, Int) and isinstance(number, float) and number.is_integer() else number


def _number(text: str) -> int | float | str:
    """The number that is written so, or else the text."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
