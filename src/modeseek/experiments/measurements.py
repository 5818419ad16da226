"""Measurements that are no replications: JSON files beside the records, `results/<name>.json`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import modeseek
from modeseek.errors import ModeseekError

Measurement = dict[str, Any]


def machine(device: torch.device) -> dict[str, Any]:
    """What a measurement depends on besides its settings."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU ({platform.machine()})",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "botorch": version("botorch"),
        "modeseek": modeseek.__version__,
    }


def where(measurement: Measurement) -> str:
    """The device, and the threads that it was given."""
    threads = measurement["threads"]
    return f"{measurement['device']}, {threads} thread{'s' if threads > 1 else ''}"


def add(path: Path, measurement: Measurement, what: Sequence[str]) -> None:
    """Add a measurement, in the place of one of the same thing: that is, with the same values of these keys."""
    kept = [m for m in read(path) if any(m.get(key) != measurement.get(key) for key in what)]
    write(path, [*kept, measurement])


def write(path: Path, rows: list[Measurement]) -> None:
    """A row a line; the file is whole at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".json.part")
    scratch.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    os.replace(scratch, path)


def read(path: Path) -> list[Measurement]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    try:
        return list(json.loads(path.read_text()))
    except ValueError as error:
        raise ModeseekError(f"{path.resolve()} is not what `modeseek bench {path.stem}` wrote: {error}") from error
