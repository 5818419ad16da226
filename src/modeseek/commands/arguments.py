"""What the commands' arguments have in common: their types, and what a wrong one is told."""

from __future__ import annotations

import argparse
import math
import re
from functools import partial
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def at_least(least: int, text: str) -> int:
    """A whole number that is not below `least`."""
    if not (text.isdecimal() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


positive = partial(at_least, 1)


def seconds(text: str) -> float:
    """A finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
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
