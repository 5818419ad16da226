"""Measurements that are not replications: JSON files beside the records, `results/<name>.json`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from modeseek.bench.campaign.replication import code_version
from modeseek.errors import ModeseekError

Measurement = dict[str, Any]


def machine(device: torch.device) -> dict[str, Any]:
    """What a measurement depends on besides its settings."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU ({platform.machine()})",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "botorch": version("botorch"),
        "modeseek": code_version(),
    }


def where(measurement: Measurement) -> str:
    """The device, and the threads that it was given."""
    threads = measurement["threads"]
    return f"{measurement['device']}, {threads} thread{'s' if threads > 1 else ''}"


def add(path: Path, measurement: Measurement, what: Sequence[str]) -> None:
    """Add a measurement, in the place of one of the same thing: that is, with the same values of these keys.

    Several processes may add to one file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        kept = [m for m in read(path) if any(m.get(key) != measurement.get(key) for key in what)]
        write(path, [*kept, measurement])


def write(path: Path, rows: list[Measurement]) -> None:
    """One row per line; the file is whole at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".json.part")
    scratch.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    os.replace(scratch, path)


def read(path: Path) -> list[Measurement]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    with as_written(path):
        rows = json.loads(path.read_text())
        if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
            raise TypeError("it must be a list of objects")
        return rows


@contextmanager
def as_written(path: Path) -> Iterator[None]:
    """ModeseekError where a file's rows are not such that a block, or a function, can make something of them."""
    try:
        yield
    except ModeseekError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModeseekError(
            f"{path.resolve()} is not what `modeseek bench {path.stem}` wrote ({type(error).__name__}: {error}); "
            "move it away, and that command writes it anew"
        ) from error
