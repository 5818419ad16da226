"""A run as data: a JSON document and the tensors of its `State`; checkpoint.py has them in a file.

What is read is checked: whatever is wrong in a document raises one of the errors of `REFUSED`, and nothing in it is
executed or believed to be of a sensible size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast, get_args

import numpy as np
import torch

from modeseek import earlier
from modeseek.beliefs import Stored, tables
from modeseek.checks import is_whole
from modeseek.config import DMSConfig, with_younger_settings
from modeseek.diffusion.network import parameter_count
from modeseek.dms import State
from modeseek.earlier import Told
from modeseek.errors import CheckpointError, ConfigError, ParameterError
from modeseek.fronts import as_reference
from modeseek.linear import Linear
from modeseek.space import Space
from modeseek.trials import MOST_TRIALS, Goal, Trial, Trials, TrialState, goal_of, signs
from modeseek.typing import Array, Noise, Params

FORMAT = "modeseek checkpoint"
VERSION = 2
MOST_NAMED = 3  # trials that a warning names
# What a document that is none of ours, or a damaged or a hostile one, may make of the code that reads it.
REFUSED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_TIMES = ("started", "seconds")
_DTYPES = {"lengthscale": np.float64, "noise": np.float64, "network": np.float32}


@dataclass(frozen=True)
class Snapshot:
    """Everything that decides an optimizer's next suggestion."""

    space: Space
    direction: Goal
    seed: int
    config: DMSConfig
    n_initial: int
    trials: Trials
    state: State | None
    noise: Noise = "fitted"
    changes: str | None = None  # what became of the trials, where the space is not the one that was saved
    reference: Array | None = None
    prior: Mapping[str, Stored] = field(default_factory=dict)
    transfer: Sequence[Told] = ()


def to_document(snapshot: Snapshot) -> dict[str, Any]:
    """Everything but the tensors, for JSON."""
    space = snapshot.space
    return {
        "format": FORMAT,
        "version": VERSION,
        "space": space.to_dict(),
        "direction": snapshot.direction,
        **({} if snapshot.reference is None else {"reference": snapshot.reference.tolist()}),
        "seed": snapshot.seed,
        "config": dataclasses.asdict(snapshot.config),
        "n_initial": snapshot.n_initial,
        "noise": snapshot.noise,
        **({"prior": snapshot.prior} if snapshot.prior else {}),
        **({"transfer": [earlier.to_json(space, told) for told in snapshot.transfer]} if snapshot.transfer else {}),
        "trials": [
            {
                "params": space.to_json(trial.params),
                **({} if trial.in_space else {"in_space": False}),
                "origin": trial.origin,
                "state": trial.state.value,
                "value": trial.value,
                **({"values": trial.values} if trial.values is not None and len(trial.values) > 1 else {}),
                "error": trial.error,
                **({"constraints": trial.constraints} if trial.constraints else {}),
                **({} if trial.sem is None else {"sem": trial.sem}),
                **({"starts": trial.starts} if trial.state is TrialState.RUNNING and trial.starts else {}),
                **{name: at for name in _TIMES if (at := getattr(trial, name)) is not None},
            }
            for trial in snapshot.trials
        ],
    }


def from_document(document: Mapping[str, Any], tensors: Mapping[str, Any], space: Space | None = None) -> Snapshot:
    """What `to_document` had; in another space where one is given, see `checkpoint.read`.

    CheckpointError where the space has other parameters, one of `REFUSED` for anything that is not valid.
    """
    direction = goal_of(document["direction"])
    count = len(signs(direction))
    is_given = space is not None
    space = Space.from_dict(document["space"]) if space is None else space
    is_changed = not space.describes(document["space"])
    if is_changed:
        _check_parameters(space, document["space"], document["trials"])
    elif is_given:
        is_changed = _refused_by_functions(space, document["trials"])
    config = _config(document["config"])
    trials = trials_of(space, document["trials"], count, is_changed)
    prior, dropped = _prior(space, document.get("prior", {}), is_changed)
    studies = [earlier.from_json(space, stored) for stored in document.get("transfer", [])]
    fits = [not is_changed or earlier.fits(space, told) for told in studies]
    dropped += [f"study {i} of transfer=" for i, good in enumerate(fits, 1) if not good]
    return Snapshot(
        space=space,
        direction=direction,
        seed=_whole(document, "seed", 0),
        config=config,
        n_initial=_whole(document, "n_initial", 1),
        trials=trials,
        state=None if is_changed else _state(tensors, space.d, config, count),  # of another cube
        changes=_changes(trials, dropped) if is_changed else None,
        noise=_noise(document.get("noise", "fitted")),
        reference=as_reference(_floats(document["reference"]), count) if "reference" in document else None,
        prior=prior,
        transfer=[told for told, good in zip(studies, fits, strict=True) if good],
    )


def _check_parameters(space: Space, stored: Mapping[str, Any], records: Any) -> None:
    """CheckpointError where another space than the one that was saved has other parameters."""
    before = {entry["name"] for entry in stored["parameters"]}
    if space.is_box != stored["box"]:
        what = "which is a box" if space.is_box else "which is not a box"
    elif not before <= set(space):
        what = "which has other parameters"
    elif records and (added := [name for name in space if name not in before and space[name].when is None]):
        what = f"which has a new parameter {added[0]!r} that its trials lack"
    else:
        return
    raise CheckpointError(
        f"its space has the parameters {[entry['name'] for entry in stored['parameters']]!r:.300}, not "
        f"{space.names!r:.300} as this one, {what}; give a space with the same parameters, or another path"
    )


def _refused_by_functions(space: Space, records: Any) -> bool:
    """Whether functions among the constraints, of which files have the names only, now refuse trials they allowed."""
    if all(isinstance(constraint, Linear) for constraint in space.constraints):
        return False
    try:
        for record in records:
            if record.get("in_space", True):
                space.validate(space.from_json(record["params"]))
    except ParameterError:
        return True
    return False


def _changes(trials: Trials, dropped: Sequence[str]) -> str:
    """What another space makes of the trials, the first ones outside of it with the reason, and of what was known."""
    lost = "".join(f"; {what} does not fit and is dropped" for what in dropped)
    outside = [trial for trial in trials if not trial.in_space]
    if not outside:
        return f"all {len(trials)} trials lie in the new one, and stay{lost}"
    named = "; ".join(f"trial {trial.number}: {_reason(trials.space, trial)}" for trial in outside[:MOST_NAMED])
    more = f"; and {len(outside) - MOST_NAMED} more" if len(outside) > MOST_NAMED else ""
    which = "1 does" if len(outside) == 1 else f"{len(outside)} do"
    return (
        f"of {len(trials)} trials, {which} not lie in the new one: kept in the record and counted, but "
        f"not learned from and never the best ({named}{more}){lost}"
    )


def _reason(space: Space, trial: Trial) -> str:
    """Why a trial does not lie in the space."""
    try:
        space.validate(trial.params)
    except ParameterError as error:
        return str(error)
    raise AssertionError("it lies in the space")


def _config(stored: Mapping[str, Any]) -> DMSConfig:
    stored = with_younger_settings(stored)
    known = {field.name for field in dataclasses.fields(DMSConfig)}
    if different := sorted(known ^ stored.keys()):
        raise ValueError(f"settings of another version of modeseek, which differ in {', '.join(different)}")
    try:
        return DMSConfig(**stored)
    except ConfigError as error:
        raise ValueError(f"settings of another version of modeseek, or damaged: {error}") from error


def _noise(stored: Any) -> Noise:
    if stored not in get_args(Noise):
        raise ValueError(f"noise {stored!r:.60}")
    return cast(Noise, stored)


def _prior(space: Space, stored: Any, is_changed: bool) -> tuple[dict[str, Stored], list[str]]:
    """The beliefs, and which of them do not fit into a space that has changed."""
    if not is_changed:
        tables(space, stored)  # which refuses what is none
        return dict(stored), []
    prior, dropped = {}, []
    for name, belief in stored.items():
        try:
            tables(space, {name: belief})
            prior[name] = belief
        except ValueError:
            dropped.append(f"the prior of {name!r}")
    return prior, dropped


def _whole(document: Mapping[str, Any], name: str, least: int) -> int:
    value = document[name]
    if not is_whole(value, least):
        raise ValueError(f"{name} is {value!r:.60}")
    return int(value)


def trials_of(space: Space, records: Any, count: int = 1, is_changed: bool = False) -> Trials:
    """The trials of so many objectives; some lie outside of a space that has changed, now or before it was saved."""
    if not isinstance(records, list) or len(records) > MOST_TRIALS:
        raise ValueError(f"trials is not a list of at most {MOST_TRIALS}")
    trials = Trials(space, count)
    for record in records:
        params = space.from_json(record["params"])
        try:
            trial = trials.append(params, record["origin"])
        except ParameterError:
            if not is_changed and record.get("in_space", True) is not False:
                raise
            trial = trials.append_outside(_outside(space, params), record["origin"])
        state, value, error = TrialState(record["state"]), record["value"], record["error"]
        if count > 1 and "values" in record:
            value = _floats(record["values"])
        measured = isinstance(value, float if count == 1 else list)
        if (state is TrialState.COMPLETE) != measured or (state is TrialState.FAILED) != isinstance(error, str):
            raise ValueError(f"trial {trial.number} is {state.value} with value {value!r:.60}, error {error!r:.60}")
        if state is TrialState.COMPLETE:
            trials.complete(trial, value, _floats(record.get("constraints", [])), _sem(record.get("sem"), count))
        elif state is TrialState.FAILED:
            trials.fail(trial, error)
        else:
            trials.count_start(trial, _whole({"starts": 0, **record}, "starts", 0))
        trials.timed(trial, **{name: _time(record, name) for name in _TIMES})
    return trials


def _sem(stored: Any, count: int) -> Any:
    """A standard error, or of several objectives a list of them with None for those that are not known."""
    if stored is not None:
        several = [stored] if count == 1 else stored
        _floats([error for error in several if error is not None] if isinstance(several, list) else several)
    return stored


def _outside(space: Space, params: Any) -> Params:
    """Parameters of a space before this one; ValueError where they were of none."""
    values = dict(enumerate(params)) if space.is_box and isinstance(params, list) else params
    names = range(space.d) if space.is_box else space.names
    if not isinstance(values, dict) or not values.keys() <= set(names) or (space.is_box and len(values) != space.d):
        raise ValueError(f"parameters {params!r:.60}")
    for value in values.values():
        is_member = isinstance(value, dict) and value.keys() == {"enum"} and isinstance(value["enum"], str)
        is_number = isinstance(value, int | float) and math.isfinite(value)
        if not (is_number or (not space.is_box and (is_member or value is None or isinstance(value, str | Enum)))):
            raise ValueError(f"parameters {params!r:.60}")
    return np.array(params, dtype=np.float64) if space.is_box else values


def _time(record: Mapping[str, Any], name: str) -> float | None:
    """None in files that are older than times; else seconds up to the year 5000."""
    value = record.get(name)
    if value is not None and not (isinstance(value, float) and 0 <= value < 1e11):
        raise ValueError(f"{name} is {value!r:.60}")
    return value


def _floats(values: Any) -> list[float]:
    if not isinstance(values, list) or not all(isinstance(value, float) for value in values):
        raise ValueError(f"{values!r:.60} where a list of numbers must be")
    return values


def _state(tensors: Mapping[str, Any], d: int, config: DMSConfig, count: int = 1) -> State | None:
    if not tensors:
        return None
    if tensors.keys() != set(State._fields):
        raise ValueError(f"tensors {sorted(tensors)!r:.200}, expected {list(State._fields)}")
    several = () if count == 1 else (count,)
    weights = parameter_count(d, config.hidden)
    shapes = {"lengthscale": (1, *several, d), "noise": (1, *several), "network": (1, weights)}
    for name, array in tensors.items():
        if (array.dtype, array.shape) != (_DTYPES[name], shapes[name]):
            raise ValueError(f"tensor {name} is {array.dtype} {array.shape}, expected {shapes[name]}")
        if not np.isfinite(array).all():
            raise ValueError(f"tensor {name} is not finite")
    if not all((tensors[name] > 0).all() for name in ("lengthscale", "noise")):
        raise ValueError("a length-scale or a noise variance is not positive")
    return State(*(torch.from_numpy(tensors[name].copy()) for name in State._fields))
