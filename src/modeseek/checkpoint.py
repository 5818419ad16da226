"""A run on disk: one safetensors file, written atomically, locked, without pickle.

The file's tensors are the `State` that DMS carries from one iteration to the next; one entry of its metadata is a
JSON document with everything else (document.py). Randomness needs no entry: each suggestion draws from the seed and its
trial's number. A checksum covers the whole file, and the file before it stays as `<path>.bak` (see storage.py).

Files of version 1 had no checksum and are read as they are.
"""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn, TypeAlias

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from modeseek import storage
from modeseek.checks import is_whole
from modeseek.document import FORMAT, REFUSED, VERSION, Snapshot, from_document, to_document
from modeseek.errors import CheckpointError, CheckpointInUse, SpaceError, SpaceNeeded
from modeseek.space import Space

StrPath: TypeAlias = str | os.PathLike[str]

_KEY = "modeseek"
_REFUSED = (*REFUSED, SafetensorError)


def resolve(path: StrPath) -> str:
    """The one name of a checkpoint, so that two spellings of it share a lock and a link is followed."""
    return os.path.realpath(os.fspath(path))


def acquire(path: StrPath) -> FileLock:
    """Take `<path>.lock` at once, or raise CheckpointInUse. It is freed by `.release()` or with the process."""
    path = resolve(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise CheckpointError(f"{path}: the directory does not exist; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CheckpointError(f"{path}: the directory is read-only; choose another path")
    lock = FileLock(path + ".lock", timeout=0, thread_local=False)
    try:
        storage.regular_file(path)
        lock.acquire()
    except Timeout:
        raise CheckpointInUse(
            f"{path} is in use by another optimizer; wait for it, stop it, or choose another path"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be used: {error}") from error
    return lock


def write(path: StrPath, snapshot: Snapshot) -> None:
    """Replace the checkpoint in one step; CheckpointError leaves the old file whole and no litter."""
    path = resolve(path)
    state = {} if snapshot.state is None else snapshot.state._asdict()
    tensors = {name: np.ascontiguousarray(tensor.detach().cpu().numpy()) for name, tensor in state.items()}
    document = json.dumps(to_document(snapshot), allow_nan=False)
    try:
        data = to_bytes(tensors, metadata={_KEY: document, storage.SEAL: storage.UNSEALED})
        storage.replace(path, storage.seal(data))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: not saved, the file before it is whole: {error}") from error


def read(path: StrPath, space: Space | None = None) -> Snapshot:
    """Read a checkpoint, its tensors on the CPU; CheckpointError for anything that is not a whole, valid one.

    The space, when given, takes the place of the one that was saved, and must have the same parameters, or more that
    exist only under a choice. Trials that do not lie in it are kept, see `Trial.in_space`.
    """
    path = resolve(path)
    try:
        return _snapshot(storage.read(path), space)
    except CheckpointError as error:
        raise CheckpointError(f"{path} is of another run: {error}") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    except SpaceNeeded as error:
        raise CheckpointError(f"{path}: there is nothing wrong with this checkpoint, but {error}") from error
    except _REFUSED as error:
        if space is not None and isinstance(error, SpaceError):  # a function among its constraints gives no answer
            raise
        raise CheckpointError(f"{path}: not a valid checkpoint: {error}{_backup(path, space)}") from error


def _backup(path: str, space: Space | None) -> str:
    """What can be done instead, when the file before this one is whole."""
    try:
        _snapshot(storage.read(path + ".bak"), space)
    except (OSError, *_REFUSED):
        return ""
    return f"; the checkpoint before it is whole, load it or copy it back: {path}.bak"


def _snapshot(data: bytes, space: Space | None) -> Snapshot:
    sealed = storage.is_sealed(data)
    tensors = from_bytes(data)
    document = _parsed(data)
    version = document["version"]
    if not is_whole(version, 1):
        raise ValueError(f"version is {version!r:.60}")
    if version > VERSION:
        raise ValueError(f"version {version} of the format; this modeseek reads up to {VERSION}: upgrade modeseek")
    if version > 1 and not sealed:
        raise ValueError("it is damaged: its checksum is missing")
    return from_document(document, tensors, space)


def _parsed(data: bytes) -> dict[str, Any]:
    header = json.loads(data[8 : 8 + storage.header_size(data)])
    metadata = header.get("__metadata__", {})
    document = json.loads(metadata[_KEY], parse_constant=_no_constant) if _KEY in metadata else None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("a safetensors file, but not one of modeseek")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} where a number must be")
