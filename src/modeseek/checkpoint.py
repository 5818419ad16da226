"""A run on disk: one safetensors file, written atomically, locked, without pickle.

The file's tensors are the `State` that DMS carries from one iteration to the next; one entry of its metadata is a
JSON document with everything else. Randomness needs no entry: each suggestion draws from the seed and its trial's
number. While `<path>` is replaced, the file before it stays as `<path>.bak`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, get_args

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes

from modeseek.config import DMSConfig
from modeseek.diffusion.network import parameter_count
from modeseek.dms import State
from modeseek.errors import CheckpointError, CheckpointInUse, ConfigError
from modeseek.space import Space
from modeseek.trials import Direction, Trials, TrialState

StrPath: TypeAlias = str | os.PathLike[str]

_FORMAT = "modeseek checkpoint"
_VERSION = 1
_KEY = "modeseek"
_DTYPES = {"lengthscale": "F64", "noise": "F64", "network": "F32"}


@dataclass(frozen=True)
class Snapshot:
    """Everything that decides an optimizer's next suggestion."""

    space: Space
    direction: Direction
    seed: int
    config: DMSConfig
    n_initial: int
    trials: Trials
    state: State | None


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
        lock.acquire()
    except Timeout:
        raise CheckpointInUse(
            f"{path} is in use by another optimizer; wait for it, stop it, or choose another path"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot make the lock file: {error}") from error
    return lock


def write(path: StrPath, snapshot: Snapshot) -> None:
    """Replace the checkpoint in one step; CheckpointError leaves the old file whole and no litter."""
    path = resolve(path)
    temporary, spare = path + ".tmp", path + ".bak.tmp"
    state = {} if snapshot.state is None else snapshot.state._asdict()
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    try:
        data = to_bytes(tensors, metadata={_KEY: json.dumps(_document(snapshot), allow_nan=False)})
        _remove(temporary, spare)  # left by a process that was killed; a link there would not be ours to follow
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            _link(path, spare)
            os.replace(spare, path + ".bak")
        os.replace(temporary, path)
        _sync_folder(os.path.dirname(path))
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            _remove(temporary, spare)
        raise CheckpointError(f"{path}: not saved, the file before it is whole: {error}") from error


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _link(path: str, other: str) -> None:
    try:
        os.link(path, other)
    except OSError:  # a file system without hard links
        shutil.copy2(path, other)


def _sync_folder(folder: str) -> None:
    with contextlib.suppress(OSError):  # not every system can open or sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _document(snapshot: Snapshot) -> dict[str, Any]:
    box = snapshot.space.is_box
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "space": snapshot.space.to_dict(),
        "direction": snapshot.direction,
        "seed": snapshot.seed,
        "config": dataclasses.asdict(snapshot.config),
        "n_initial": snapshot.n_initial,
        "trials": [
            {
                "params": trial.params.tolist() if box else trial.params,
                "origin": trial.origin,
                "state": trial.state.value,
                "value": trial.value,
                "error": trial.error,
            }
            for trial in snapshot.trials
        ],
    }


def read(path: StrPath) -> Snapshot:
    """Read a checkpoint, its tensors on the CPU; CheckpointError for anything that is not a whole, valid one."""
    path = resolve(path)
    if not os.path.exists(path):
        raise CheckpointError(f"{path}: there is no such checkpoint")
    try:
        with safe_open(path, framework="pt") as file:
            return _snapshot(file)
    except SafetensorError as error:
        _reject(path, f"not a checkpoint, or cut short: {error}", error)
    except OSError as error:
        _reject(path, f"cannot be read: {error}", error)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        _reject(path, f"not a valid checkpoint: {error}", error)


def _reject(path: str, reason: str, error: Exception) -> NoReturn:
    backup = path + ".bak"
    hint = f"; the checkpoint before it is {backup}" if os.path.exists(backup) else ""
    raise CheckpointError(f"{path}: {reason}{hint}") from error


def _snapshot(file: Any) -> Snapshot:
    metadata = file.metadata() or {}
    if _KEY not in metadata:
        raise ValueError("a safetensors file, but not one of modeseek")
    document = json.loads(metadata[_KEY], parse_constant=_no_constant)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("a safetensors file, but not one of modeseek")
    version = _whole(document, "version", 1)
    if version > _VERSION:
        raise ValueError(f"version {version} of the format; this modeseek reads up to {_VERSION}: upgrade modeseek")
    space = Space.from_dict(document["space"])
    if document["direction"] not in get_args(Direction):
        raise ValueError(f"direction {document['direction']!r}")
    config = _config(document["config"])
    return Snapshot(
        space=space,
        direction=document["direction"],
        seed=_whole(document, "seed", 0),
        config=config,
        n_initial=_whole(document, "n_initial", 1),
        trials=_trials(space, document["trials"]),
        state=_state(file, space.d, config),
    )


def _config(stored: Mapping[str, Any]) -> DMSConfig:
    known = {field.name for field in dataclasses.fields(DMSConfig)}
    if different := sorted(known ^ stored.keys()):
        raise ValueError(f"settings of another version of modeseek, which differ in {', '.join(different)}")
    try:
        return DMSConfig(**stored)
    except ConfigError as error:
        raise ValueError(f"settings of another version of modeseek, or damaged: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} where a number must be")


def _whole(document: Mapping[str, Any], name: str, least: int) -> int:
    value = document[name]
    if type(value) is not int or value < least:
        raise ValueError(f"{name} is {value!r:.60}")
    return value


def _trials(space: Space, records: Any) -> Trials:
    if not isinstance(records, list):
        raise ValueError("trials is not a list")
    trials = Trials(space)
    for record in records:
        trial = trials.append(record["params"], record["origin"])
        state, value, error = TrialState(record["state"]), record["value"], record["error"]
        if (state is TrialState.COMPLETE) != isinstance(value, float) or (state is TrialState.FAILED) != isinstance(
            error, str
        ):
            raise ValueError(f"trial {trial.number} is {state.value} with value {value!r:.60}, error {error!r:.60}")
        if state is TrialState.COMPLETE:
            trials.complete(trial, value)
        elif state is TrialState.FAILED:
            trials.fail(trial, error)
    return trials


def _state(file: Any, d: int, config: DMSConfig) -> State | None:
    names = set(file.keys())
    if not names:
        return None
    if names != set(State._fields):
        raise ValueError(f"tensors {sorted(names)}, expected {list(State._fields)}")
    shapes = {"lengthscale": [1, d], "noise": [1], "network": [1, parameter_count(d, config.hidden)]}
    for name in State._fields:  # before a tensor is loaded: a hostile one may be of any size
        part = file.get_slice(name)
        if (part.get_dtype(), list(part.get_shape())) != (_DTYPES[name], shapes[name]):
            raise ValueError(f"tensor {name} is {part.get_dtype()} {part.get_shape()}, expected {shapes[name]}")
    # A copy: the file's memory map must not outlive this call, or saving could not replace the file on Windows.
    state = State(*(file.get_tensor(name).clone() for name in State._fields))
    if not all(bool(torch.isfinite(tensor).all()) for tensor in state):
        raise ValueError("a tensor is not finite")
    if not bool((state.lengthscale > 0).all() and (state.noise > 0).all()):
        raise ValueError("a length-scale or a noise variance is not positive")
    return state
