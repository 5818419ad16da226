"""Earlier studies on related tasks, as points of this run's cube: what `transfer=` reads.

A study is a `Result`, an `Optimizer`, the path of a checkpoint, or a list of trials or of (params, value). Parameters
are matched by name. What the earlier study has and this space has not is left out; a parameter that the earlier study
never had says nothing there, and its coordinate is ABSENT in all of its points. Trials with other parameters missing,
or with values outside of this space, are left out, with a warning.

Notation: n trials of a study; d, coordinates of this run's space.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from modeseek.conditions import ABSENT
from modeseek.errors import ConfigError, ModeseekWarning
from modeseek.notices import warn
from modeseek.outcomes import measured
from modeseek.parameters import Categorical
from modeseek.space import Space
from modeseek.trials import Trial
from modeseek.typing import Array

FEWEST = 3  # trials that say anything of a function
DISTINCT = 0.1  # best points of a study are at least so far apart, in some coordinate of the cube


class Told(NamedTuple):
    """What a study tells, whatever its space: parameters by name, and values of which larger ones are better."""

    params: list[dict[str, Any]]
    values: list[float]


def read(transfer: Any, sign: float) -> list[Told]:
    """The studies that a user gives, one or a list of them; ConfigError where one is none.

    Args:
        sign: −1 where this run minimizes; values without a direction of their own are taken to be as in this run.
    """
    if isinstance(transfer, Told):
        return [transfer]
    if _is_one(transfer):
        return [_told(transfer, sign)]
    if not isinstance(transfer, Sequence) or isinstance(transfer, str) or not transfer:
        raise ConfigError(
            "transfer must be a Result, an Optimizer, the path of a checkpoint, a list of trials or of "
            f"(params, value), or a list of such studies, not {transfer!r:.60}"
        )
    return [study if isinstance(study, Told) else _told(study, sign) for study in transfer]


def _is_one(study: Any) -> bool:
    """Whether this is a study and not a list of them."""
    if isinstance(study, str | os.PathLike) or hasattr(study, "trials"):
        return True
    return isinstance(study, Sequence) and len(study) > 0 and (isinstance(study[0], Trial) or _is_pair(study[0]))


def _is_pair(entry: Any) -> bool:
    pair = isinstance(entry, tuple) and not isinstance(entry, Told) and len(entry) == 2
    return pair and (isinstance(entry[0], Mapping) or np.ndim(entry[0]) == 1)


def _told(study: Any, sign: float) -> Told:
    if isinstance(study, str | os.PathLike):
        from modeseek import checkpoint  # here: it needs torch, which those who read a space file do without

        snapshot = checkpoint.read(study)
        return _of_trials(snapshot.trials, snapshot.direction)
    if hasattr(study, "trials") and hasattr(study, "direction"):
        return _of_trials(study.trials, study.direction)
    if not _is_one(study):
        raise ConfigError(
            f"transfer: {study!r:.60} is not a Result, an Optimizer, the path of a checkpoint, or a list of trials or "
            "of (params, value)"
        )
    if all(isinstance(entry, Trial) for entry in study):
        return _of_list(study, sign)
    try:
        values = [sign * measured(value).values[0] for _, value in study]
        return Told([by_name(params) for params, _ in study], values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"transfer: a study of pairs (params, value) has one that is none: {error}") from error


def _of_trials(trials: Any, direction: Any) -> Told:
    if not isinstance(direction, str):
        raise ConfigError(f"transfer: an earlier study has {len(direction)} objectives; it must have one")
    sign = -1.0 if direction == "minimize" else 1.0
    complete = [trial for trial in trials if trial.value is not None]
    return Told([by_name(trial.params) for trial in complete], [sign * trial.value for trial in complete])


def _of_list(trials: Sequence[Trial], sign: float) -> Told:
    """What a list of trials tells, in the direction of this run; those without a value are passed over."""
    most = max(len(trial.values or ()) for trial in trials)
    if most > 1:
        raise ConfigError(f"transfer: an earlier study has {most} objectives; it must have one")
    return _of_trials(trials, "minimize" if sign < 0 else "maximize")


def by_name(params: Any) -> dict[str, Any]:
    """Parameters as a dict; those of a box are named x0, x1, ..."""
    return dict(params) if isinstance(params, Mapping) else {f"x{i}": float(v) for i, v in enumerate(params)}


@dataclass(frozen=True, eq=False)
class Study:
    """An earlier study in this run's space."""

    X: Array  # n x d
    Y: Array  # n, larger is better
    shared: Array  # d, bool: the parameters that it has
    told: Told  # what it was made from, of this space's parameters

    @classmethod
    def of(cls, space: Space, told: Told, number: int = 1) -> Study:
        """Study `number` of those that are given; ConfigError where too little of it is in this space."""
        had = {name for params in told.params for name in params}
        shared = np.array([name in had for name in space.coordinates])
        kept, reason = _kept(space, told)
        rows = [[space[n].encode(p[n]) if n in p else ABSENT for n in space.coordinates] for p, _ in kept]
        if had and not shared.any():
            raise ConfigError(
                f"transfer: study {number} has no parameter in common with this space: its parameters are "
                f"{sorted(had)}, those of the space {space.names}"
            )
        if len(kept) < FEWEST:
            raise ConfigError(
                f"transfer: study {number} has {len(kept)} {'trial' if len(kept) == 1 else 'trials'} in this space, "
                f"and {FEWEST} are the least" + (f"; of the others, {reason}" if reason else "")
            )
        if len(kept) < len(told.params):
            left = len(told.params) - len(kept)
            warn(
                f"transfer: {left} of {len(told.params)} trials of study {number} are left out: {reason}",
                ModeseekWarning,
            )
        values = [value for _, value in kept]
        return cls(np.array(rows), np.array(values), shared, Told([params for params, _ in kept], values))

    def best(self, spread: Array) -> Array:
        """Its points from the best one on, each apart from those before: k x d, with the rest of `spread` (d)."""
        chosen = np.zeros((0, len(spread)))
        for point in self.X[np.argsort(-self.Y, kind="stable")]:
            if not len(chosen) or np.abs(chosen - point).max(1).min() >= DISTINCT:
                chosen = np.concatenate([chosen, point[None]])
        return np.where(self.shared, chosen, spread)


def fits(space: Space, told: Told) -> bool:
    """Whether enough of a study is in this space to be of use."""
    return len(_kept(space, told)[0]) >= FEWEST


def to_json(space: Space, told: Told) -> dict[str, Any]:
    """A study as it stands in a file, of parameters of this space."""
    stored = [{name: _stored(space, name, value) for name, value in params.items()} for params in told.params]
    return {"params": stored, "values": told.values}


def from_json(space: Space, stored: Mapping[str, Any]) -> Told:
    """What `to_json` wrote; errors of several kinds where it did not."""
    params = [{str(name): _meant(space, name, value) for name, value in row.items()} for row in stored["params"]]
    return Told(params, [float(value) for value in stored["values"]])


def _kept(space: Space, told: Told) -> tuple[list[tuple[dict[str, Any], float]], str]:
    """The trials of a study that are in this space, and why the first of the others is not."""
    had = {name for params in told.params for name in params}
    kept, reason = [], ""
    for params, value in zip(told.params, told.values, strict=True):
        try:
            kept.append((_inside(space, params, had), float(value)))
        except ValueError as error:
            reason = reason or str(error)
    return kept, reason


def _inside(space: Space, params: Mapping[str, Any], had: set[str]) -> dict[str, Any]:
    """The values of this space's parameters; ValueError where one is missing or outside."""
    values: dict[str, Any] = {}
    for name in space.conditions.order:
        if name not in had or not space.conditions.exists(name, values):
            continue
        if name not in params:
            raise ValueError(f"parameter {name!r} is missing in some")
        try:
            values[name] = space[name].check(params[name])
        except ValueError as error:
            raise ValueError(f"parameter {name!r}: {error}") from error
    return values


def _stored(space: Space, name: str, value: Any) -> Any:
    parameter = space[name]
    return parameter.to_json(value) if isinstance(parameter, Categorical) else value


def _meant(space: Space, name: str, stored: Any) -> Any:
    parameter = space[name] if name in space.names else None
    return parameter.from_json(stored) if isinstance(parameter, Categorical) else stored
