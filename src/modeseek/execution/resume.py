"""The optimizer of a run: a new one, or that of a checkpoint, if it is of the same run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from modeseek import checkpoint as checkpoints
from modeseek.beliefs import tables
from modeseek.config import DMSConfig
from modeseek.earlier import Told
from modeseek.errors import CheckpointError, ModeseekWarning
from modeseek.notices import warn
from modeseek.optimizer import Optimizer
from modeseek.space import Space
from modeseek.trials import Direction


def opened(
    path: str | None, direction: Direction | Sequence[Direction], space: Space, settings: dict[str, Any]
) -> Optimizer:
    """A new optimizer, or the one of the checkpoint, which it then holds."""
    new = Optimizer(space, direction=direction, **settings)
    if path is None:
        return new
    lock = checkpoints.acquire(path)  # before looking: two runs must not both find no file
    try:
        if not os.path.exists(path):
            new._hold(path, lock)
            return new
        old = Optimizer.load(path, device=settings["device"], threads=settings["threads"], space=space)
        for name in ("direction", "space", "seed", "config", "n_initial", "noise", "reference"):
            asked = settings.get(name, True) is not None  # None, as in seed=None, means: as it was
            if asked and not _same(old, new, name):
                raise CheckpointError(
                    f"{path} is of another run: {_difference(name, getattr(old, name), getattr(new, name))}; "
                    "give the same settings, or another path"
                )
        if settings.get("prior") is not None:
            _check_beliefs(path, old, new)
        if settings.get("transfer") is not None and _studies(old) != _studies(new):
            warn(
                f"{path}: transfer= is not used: a run that is resumed keeps the earlier studies that it began with",
                ModeseekWarning,
            )
        old._hold(path, lock)
        return old
    except BaseException:
        lock.release()
        raise


def _difference(name: str, old: Any, new: Any) -> str:
    """What a checkpoint has, and what was asked for; of a configuration only the settings that differ."""
    if isinstance(old, DMSConfig) and isinstance(new, DMSConfig):
        pairs = [(field.name, getattr(old, field.name), getattr(new, field.name)) for field in fields(DMSConfig)]
        return "; ".join(f"its config has {what}={was!r}, not {asked!r}" for what, was, asked in pairs if was != asked)
    return f"its {name} is {old!r}, not {new!r}"


def _same(old: Optimizer, new: Optimizer, name: str) -> bool:
    a, b = getattr(old, name), getattr(new, name)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else bool(a == b)


def _check_beliefs(path: str, old: Optimizer, new: Optimizer) -> None:
    """CheckpointError, naming the parameters, where they do not believe the same of the new space.

    Its choices may be others than the belief was about, or in another order.
    """

    def same(name: str) -> bool:
        if name not in old.prior or name not in new.prior:
            return False
        before, asked = (tables(new.space, {name: optimizer.prior[name]}) for optimizer in (old, new))
        return np.array_equal(before, asked)

    if differ := [name for name in sorted(old.prior.keys() | new.prior.keys()) if not same(name)]:
        raise CheckpointError(
            f"{path} began with another belief, or none, about {', '.join(map(repr, differ))} than prior= has, "
            "and keeps it: leave prior= out, or begin a new run with another path and transfer= this file"
        )


def _studies(optimizer: Optimizer) -> list[Told]:
    """The earlier studies that an optimizer learns from."""
    knowledge = optimizer._proposer.knowledge
    return [] if knowledge is None else [study.told for study in knowledge.studies]
