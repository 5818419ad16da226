"""Measurements that are no replications: JSON files beside the records, `results/<name>.json`."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import modeseek
from modeseek.errors import ModeseekError


def machine(device: torch.device) -> dict[str, Any]:
    """What a measurement depends on besides its settings."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU ({platform.machine()})",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "botorch": version("botorch"),
        "modeseek": modeseek.__version__,
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """A row a line; the file is whole at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".json.part")
    scratch.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    os.replace(scratch, path)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    try:
        return list(json.loads(path.read_text()))
    except ValueError as error:
        raise ModeseekError(f"{path.resolve()} is not what `modeseek bench {path.stem}` wrote: {error}") from error
