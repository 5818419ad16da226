"""Checks that several rooms share: whole numbers, devices, names that are nearly right, packages that are missing."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from modeseek.errors import ConfigError, DeviceError, MissingExtraError

if TYPE_CHECKING:
    import torch


def is_whole(value: Any, least: int | None = None, most: int | None = None) -> bool:
    """Whether this is an integer, of NumPy or of Python but no bool, within the bounds that are given."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and (least is None or value >= least) and (most is None or value <= most)


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The setting as an int, or a ConfigError that names it."""
    if not is_whole(value, least, most):
        limit = "" if most is None else f" and at most {most}"
        raise ConfigError(f"{name} must be a whole number of at least {least}{limit}, not {value!r:.60}")
    return int(value)


def nearest(name: object, known: Iterable[str], n: int = 1) -> list[str]:
    """Up to n known names that look like this one, the likeliest first; upper and lower case are the same."""
    by_lower = {other.lower(): other for other in known}
    return [by_lower[match] for match in difflib.get_close_matches(str(name).lower(), by_lower, n=n, cutoff=0.5)]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: "; did you mean 'epochs'?", or nothing when none is near."""
    near = nearest(name, known)
    return f"; did you mean {near[0]!r}?" if near else ""


def missing_extra(need: str, extra: str) -> MissingExtraError:
    """The error for a package that is not installed: missing_extra("DMSSampler needs Optuna", "optuna")."""
    # There is no release on PyPI yet: with one, this line becomes pip install "modeseek[{extra}]".
    return MissingExtraError(f'{need}: pip install -c constraints.txt ".[{extra}]" in a clone of modeseek')


def device_of(name: str) -> torch.device:
    """The device that "cpu", "cuda" or "auto" names, or a DeviceError."""
    import torch  # here: worker processes check numbers, and need no torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise DeviceError(f"device={name!r} is not 'cpu', 'cuda' or 'auto'") from error
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"device={name!r} is not 'cpu', 'cuda' or 'auto'")
    if device.type == "cuda" and not (torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()):
        raise DeviceError(f"device={name!r}, but there is no such CUDA device; use device='cpu' or device='auto'")
    return device
