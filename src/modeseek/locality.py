"""Search near the best observation, once there are more observations than one surrogate of the whole cube is good for.

A Gaussian process on thousands of observations of the whole cube costs their number cubed, and in many dimensions it
proposes on and on where nothing better is. So with more than `DMSConfig.first_local` observations proposals come from a
box around the best one and from the NEAREST observations alone, scaled so that the box is the unit cube.

How long the box is follows from the history and from nothing else, so that a run that is resumed goes on as it would
have: by the rules of TuRBO (Eriksson et al. 2019), with blocks of consecutive evaluations in the place of its rounds
(`length_after`).

Notation: n observations; b problems side by side; d coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from modeseek.config import DMSConfig
from modeseek.constraints import ConstrainedGP
from modeseek.dms import Fitted, State, Suggestion
from modeseek.domain import is_continuous
from modeseek.history import History
from modeseek.space import Space
from modeseek.surrogate import GP
from modeseek.typing import Array

NEAREST = 1000  # observations that a box is searched with; a fit uses no more of them (map_fit.py)
START, LONGEST, SHORTEST = 0.8, 1.6, 0.5**7  # sides of a box, in sides of the cube: TuRBO's
SUCCESSES = 3  # blocks in a row that bring something, to grow
BLOCK = 100  # evaluations of a block, at least: less than a round of proposals says little
GAIN = 1e-3  # of what the best outcome is above the middle one of late: less is no success


def length_after(X: Array, Y: Array, first: int) -> float:
    """The length of the box after these observations (n x d, n) in their order: START after the `first` of them.

    Then every block of max(d, BLOCK) observations changes it. If the best of a block is better than all before, that is
    a success, and SUCCESSES of them in a row double the length. If it is not, and most of the block was near enough to
    the best observation to be from its box, half the length is left; a block from elsewhere changes nothing. A box
    shorter than SHORTEST starts anew.
    """
    length, good, block = START, 0, max(X.shape[1], BLOCK)
    for start in range(first, len(Y) - block + 1, block):
        best = int(Y[:start].argmax())
        scale = Y[best] - np.median(Y[max(start - first, 0) : start])
        if Y[start : start + block].max() > Y[best] + GAIN * scale:
            good += 1
        elif np.median(np.abs(X[start : start + block] - X[best]).max(1)) <= length:
            length, good = length / 2, 0
        if good == SUCCESSES:
            length, good = min(2 * length, LONGEST), 0
        length = START if length < SHORTEST else length
    return length


@dataclass(frozen=True)
class Neighbourhood:
    """A box of the cube around the best observation, and the observations to search it with."""

    low: Array  # d
    side: Array  # d
    best: Array  # d
    nearest: Array  # k, which observations, in their order

    @classmethod
    def of(cls, history: History, first: int) -> Neighbourhood:
        """Where to search after a history of more than `first` observations."""
        best = history.X[history.Y.argmax()]
        half = length_after(history.X, history.Y, first) / 2
        low, high = np.maximum(best - half, 0), np.minimum(best + half, 1)
        return cls(low, high - low, best, _nearest(history.X, best, high - low))

    def inward(self, points: Array) -> Array:
        """Points of the cube (k x d) as points of the box, which is the unit cube to them."""
        return (points - self.low) / self.side

    def outward(self, points: Array) -> Array:
        """Points of the box (k x d) as points of the cube."""
        return self.low + self.side * points

    def within(self, history: History) -> History:
        """The nearest observations of a history, and what else it has, as points of the box."""
        near = self.nearest
        return replace(
            history,
            X=self.inward(history.X[near]),
            Y=history.Y[near],
            constraints=history.constraints[near],
            pending=self.inward(history.pending),
            lost=self.inward(history.lost[_nearest(history.lost, self.best, self.side)]),
            proposed=self.inward(history.proposed),
            sem=None if history.sem is None else history.sem[near],
        )


def _nearest(points: Array, best: Array, side: Array) -> Array:
    """Which NEAREST of the points (k x d) are nearest to the best one, in sides of the box; in their order."""
    distance = np.abs((points - best) / side).max(1, initial=0)
    return np.sort(distance.argsort(kind="stable")[:NEAREST])


class Boxes(NamedTuple):
    """The boxes of problems side by side."""

    low: Tensor  # b x 1 x d
    side: Tensor  # b x 1 x d

    @classmethod
    def of(cls, near: Sequence[Neighbourhood], device: torch.device) -> Boxes:
        """Those of some neighbourhoods."""
        arrays = (np.stack([box.low for box in near]), np.stack([box.side for box in near]))
        return cls(*(torch.from_numpy(array)[:, None].to(device) for array in arrays))

    def inward(self, x: Tensor) -> Tensor:
        """Points of the cubes (b x m x d) as points of the boxes."""
        return (x - self.low) / self.side

    def outward(self, x: Tensor) -> Tensor:
        """Points of the boxes (b x m x d) as points of the cubes."""
        return self.low + self.side * x

    def gp_inward(self, gp: Fitted) -> Fitted:
        """The same functions of points of the boxes: with length-scales in sides of these."""
        return _scaled(gp, self.inward, 1 / self.side[:, 0])

    def gp_outward(self, gp: Fitted) -> Fitted:
        """The same functions of points of the cubes."""
        return _scaled(gp, self.outward, self.side[:, 0])

    def state_inward(self, state: State) -> State:
        """Where a search of the boxes goes on."""
        return state._replace(lengthscale=state.lengthscale / self.side[:, 0])

    def suggestion_outward(self, suggestion: Suggestion) -> Suggestion:
        """What was found in the boxes, as points of the cubes."""
        state, side = suggestion.state, self.side[:, 0]
        return replace(
            suggestion,
            x_next=self.outward(suggestion.x_next[:, None])[:, 0],
            mode=self.outward(suggestion.mode[:, None])[:, 0],
            candidates=self.outward(suggestion.candidates),
            pseudo_x=self.outward(suggestion.pseudo_x),
            gp=self.gp_outward(suggestion.gp),
            state=state._replace(lengthscale=state.lengthscale * side),
        )


def _scaled(gp: Fitted, moved: Callable[[Tensor], Tensor], by: Tensor) -> Fitted:
    """The same functions of points that are moved, with length-scales so many times (b x d) as long."""

    def scaled(one: GP) -> GP:
        lengthscale = one.hyperparameters.lengthscale * by
        return replace(one, X=moved(one.X), hyperparameters=one.hyperparameters._replace(lengthscale=lengthscale))

    if isinstance(gp, ConstrainedGP):
        return replace(gp, objective=scaled(gp.objective), margins=scaled(gp.margins))
    assert isinstance(gp, GP), "boxes are for one objective without constraints"
    return scaled(gp)


def begins_after(space: Space, config: DMSConfig, n_initial: int) -> int | None:
    """The observations after which boxes of the space are searched; None: never, as where a parameter is discrete."""
    is_plain = not space.conditions and all(is_continuous(space))
    return config.first_local(space.d, n_initial) if is_plain else None
