"""Checks of settings that several rooms share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from modeseek.errors import ConfigError, DeviceError


def whole_number(name: str, value: Any, least: int) -> int:
    """The setting as an int, or a ConfigError that names it."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def device_of(name: str) -> torch.device:
    """The device that "cpu", "cuda" or "auto" names, or a DeviceError."""
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
