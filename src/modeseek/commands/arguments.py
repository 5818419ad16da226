"""What the commands' arguments have in common: their types, and what a wrong one is told."""

from __future__ import annotations

import argparse
import math
import os
import re
from functools import partial
from pathlib import Path
from typing import TypeAlias

from modeseek.errors import ConfigError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def at_least(least: int, text: str) -> int:
    """A whole number that is not below `least`."""
    if not (text.isdecimal() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


positive = partial(at_least, 1)


def above_zero(text: str) -> float:
    """A finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def names(text: str) -> list[str]:
    """Names with commas between them; commas in brackets belong to a name."""
    outside_brackets = r",(?![^\[]*\])"
    found = [name.strip() for name in re.split(outside_brackets, text) if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} has no name in it")
    return found


def sizes(text: str) -> list[int]:
    """Whole numbers from 1 on, with commas between them."""
    return [positive(size) for size in text.split(",")]


def check_folder(path: Path) -> None:
    """ConfigError, before any work is done, when nothing can be written into this folder, which need not exist yet."""
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise ConfigError(f"{path} cannot be a folder: {there} is a file; choose another --out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{path} cannot be written: {there} is read-only; choose another --out")
