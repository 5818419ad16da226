"""The search space as the core sees it: what of the unit cube is searched and can be evaluated, and its features.

A plain box is the whole cube (`CUBE`), and every method here leaves points as they are. Discrete parameters add a
rounding, constraints and fixed values a region (region.py), choices and conditions an embedding (embedding.py).

Shapes: b batch, m points, d coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.design import sobol
from modeseek.draws import Randomness
from modeseek.embedding import PLAIN, Embedding, embedding_of
from modeseek.lbfgs import Objective, descend_in_cube
from modeseek.parameters import has_no_order
from modeseek.region import Region
from modeseek.space import Space

FEW_VALUES = 32  # of a discrete parameter that has an order, for each of them to be looked at


class Rounding(NamedTuple):
    """Where parameters are discrete: which points can be evaluated."""

    snap: Callable[[Tensor], Tensor]  # ... x d to the points that would be evaluated for these, ... x d
    continuous: Tensor  # d, the coordinates that it leaves as they are


class Fork(NamedTuple):
    """A parameter whose values are compared: one that others depend on, a choice without order, or a few numbers."""

    coordinate: int
    values: Tensor  # all coordinates that it can have
    has_children: bool  # whether others depend on it


@dataclass(frozen=True)
class Domain:
    """Where a search happens; the same for all problems of a batch."""

    rounding: Rounding | None = None  # None: all parameters are continuous
    region: Region | None = None  # None: all of the cube
    embedding: Embedding = PLAIN  # how the surrogate sees a point
    forks: tuple[Fork, ...] = ()  # whose values make branches
    steps: tuple[Fork, ...] = ()  # of the other discrete parameters those with few values

    @classmethod
    def of(cls, space: Space, device: torch.device, region: Region | None = None) -> Domain:
        """The domain of a space, or of a region of it."""
        rounding, embedding = rounding_of(space, device, region), embedding_of(space, device)
        return cls(rounding, region, embedding, forks_of(space, device), steps_of(space, device))

    def without_rounding(self) -> Domain:
        """The same with every parameter taken for continuous."""
        return replace(self, rounding=None)

    @property
    def continuous(self) -> Tensor | None:
        """The coordinates of continuous parameters, d; None: all are."""
        return None if self.rounding is None else self.rounding.continuous

    def sample(self, m: int, source: Randomness, X: Tensor) -> Tensor:  # noqa: N803
        """m points, spread evenly: b x m x d, for observed inputs X (b x n x d), on their device."""
        *batch, _, d = X.shape
        if self.region is None:
            return sobol(m, d, source, tuple(batch)).to(X)
        return self.region.sample(m, source, tuple(batch), X).to(X)

    def repair(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Points (b x m x d) moved into the region; `allowed` as in `Region.repair`."""
        return x if self.region is None else self.region.repair(x, allowed)

    def keep(self, x: Tensor, allowed: Tensor) -> Tensor:
        """Points (... x d); those that a constraint refuses go back towards others (... x d) of the region."""
        return x if self.region is None else self.region.keep(x, allowed)

    def snap(self, x: Tensor) -> Tensor:
        """The points (... x d) that would be evaluated for these, but for constraints."""
        return x if self.rounding is None else self.rounding.snap(x)

    def changed(self, x: Tensor, forks: Sequence[Fork]) -> Tensor:
        """Points (b x m x d) with each of all v values of the forks, one fork at a time: b x (m·v) x d.

        Where that is not allowed, they are as they were.
        """
        before = x.unsqueeze(-2).expand(*x.shape[:-1], sum(len(fork.values) for fork in forks), x.shape[-1])
        after, start = before.clone(), 0
        for fork in forks:
            end = start + len(fork.values)
            after[..., start:end, fork.coordinate] = fork.values
            start = end
        after = self.snap(after)
        if self.region is not None:
            after = torch.where(self.region.contains(after)[..., None], after, before)
        return after.flatten(-3, -2)

    def exact(self, x: Tensor) -> Tensor:
        """The points (... x d) that would be evaluated for these."""
        return self.evaluable(x)[0]

    def evaluable(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The points (... x d) that would be evaluated for these, and for which of them (...) there is one.

        The others are as they were.
        """
        if self.region is None:
            return self.snap(x), torch.ones_like(x[..., 0], dtype=torch.bool)
        return self.region.exact(x)

    def climb(
        self,
        objective: Objective,
        x: Tensor,
        *,
        steps: int,
        free: Tensor | None = None,
        joint: bool = False,
        record: bool = True,
    ) -> Tensor:
        """Down the objective (of ... x d) from points of the region (b x m x d), without rounding: b x m x d.

        Args:
            free: d, the coordinates that move; None: all of them.
            joint: one direction and step size for the m points of an element.
            record: as in `lbfgs`.
        """
        if self.region is None:
            return descend_in_cube(objective, x, steps=steps, free=free, joint=joint, record=record)
        return self.keep(self.region.climb(objective, x, steps=steps, free=free, joint=joint, record=record), x)


CUBE = Domain()


def rounding_of(space: Space, device: torch.device, region: Region | None = None) -> Rounding | None:
    """What an evaluation in this space makes of a point; None where all parameters are continuous."""
    continuous = is_continuous(space)
    if all(continuous):
        return None

    def snap(x: Tensor) -> Tensor:
        placed = x if region is None else region.placed(x)
        points = space.snap(placed.reshape(-1, space.d).cpu().numpy())
        return torch.from_numpy(points).to(device).view(x.shape)

    return Rounding(snap, torch.tensor(continuous, dtype=torch.bool, device=device))


def is_continuous(space: Space) -> list[bool]:
    """Which coordinates of the cube, in order, are of continuous parameters."""
    return [math.isinf(space[name].size) for name in space.coordinates]


def forks_of(space: Space, device: torch.device) -> tuple[Fork, ...]:
    """The parameters of a space whose values make branches."""
    parents = {parent for name in space for parent in space[name].when or {}}
    return tuple(
        Fork(i, torch.from_numpy(space[name].centres()).to(device), name in parents)
        for i, name in enumerate(space.coordinates)
        if name in parents or (has_no_order(space[name]) and space[name].size > 1)
    )


def steps_of(space: Space, device: torch.device) -> tuple[Fork, ...]:
    """The discrete parameters of a space that have an order and few values, and that no others depend on."""
    forks = {fork.coordinate for fork in forks_of(space, device)}
    return tuple(
        Fork(i, torch.from_numpy(space[name].centres()).to(device), False)
        for i, name in enumerate(space.coordinates)
        if i not in forks and 1 < space[name].size <= FEW_VALUES
    )


def has_steps(space: Space) -> bool:
    """Whether there are any."""
    return bool(steps_of(space, torch.device("cpu")))
