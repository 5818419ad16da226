"""Search spaces written in TOML, one table per parameter.

[lr]
type = "float"
low = 1e-5
high = 1e-1
log = true
when = {model = "svm"}    # or a list of choices; without it, everywhere
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from pathlib import Path
from typing import Any

from modeseek.checks import did_you_mean
from modeseek.errors import SpaceError
from modeseek.parameters import Int, Parameter
from modeseek.space import KINDS, Space
from modeseek.storage import regular_file

LARGEST = 1_000_000  # bytes of a space file


def read_space(path: str | os.PathLike[str]) -> Space:
    """The space of a TOML file, in the file's order; SpaceError names the file, and the line or the key."""
    try:
        document = tomllib.loads(_read(path).decode("utf-8-sig"))  # Windows' editors write a mark first
    except OSError as error:
        raise SpaceError(f"{path}: the space file cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # also what is not UTF-8
        raise SpaceError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise SpaceError(f"{path}: nested too deep for a space file, which has one table per parameter") from error
    if not document:
        raise SpaceError(f'{path}: it has no parameters; write one as [name], type = "float", low = 0, high = 1')
    try:
        return Space({name: _parameter(name, table) for name, table in document.items()})
    except SpaceError as error:
        raise SpaceError(f"{path}: {error}") from error


def _read(path: str | os.PathLike[str]) -> bytes:
    regular_file(os.fspath(path))  # a pipe would be waited for, a device may have no end
    with Path(path).open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(f"it has more than {LARGEST} bytes")
    return data


def _parameter(name: str, table: Any) -> Parameter:
    if not isinstance(table, dict):
        raise SpaceError(f'{name} must be a table: a line [{name}], and below it type = "float", low = ..., high = ...')
    for key, value in table.items():
        if isinstance(value, dict) and key != "when":
            raise SpaceError(f'[{name}.{key}]: a table in a table; a name with a dot needs quotes: ["{name}.{key}"]')
    settings = dict(table)
    kind = settings.pop("type", None)
    if kind is None:
        raise SpaceError(f"[{name}]: type is missing; it is one of {list(KINDS)}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SpaceError(f"[{name}]: type is {kind!r}, but must be one of {list(KINDS)}{did_you_mean(kind, KINDS)}")
    fields = {field.name: field for field in dataclasses.fields(KINDS[kind])}
    for key in settings:
        if key not in fields:
            known = ", ".join(["type", *fields])
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
