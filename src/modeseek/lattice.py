"""Discrete parameters under linear constraints: the points of a polytope at which they have values of theirs.

Rounding each by itself leaves the polytope. The nearest point that does not is an integer program, which takes a
thousand times as long as rounding one by one, where continuous parameters can make up for what is left; so that is
tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from modeseek.polytope import MARGIN, Empty, Limits, Polytope, nearest_on_lattice
from modeseek.typing import Array

SAME = 1e-9  # points that meet constraints to this, on the cube, are on the right lattice
LAST_DIGITS = 1e-14  # and to this they need no correction
MANY = 10**7  # values of a discrete parameter up to which integer programs are exact


class Lattice:
    """The feasible points with values that discrete parameters have.

    Args:
        polytope, limits: what the linear constraints leave of the cube, and these themselves.
        counts: d, how many values a coordinate has; 0 where it is continuous, or in no constraint.
        snap: from points (n x d) to those with values that discrete parameters have, each by itself.
    """

    def __init__(self, polytope: Polytope, limits: Limits, counts: Array, snap: Callable[[Array], Array]) -> None:
        self.polytope, self.limits, self.counts, self.snap = polytope, limits, counts, snap
        self.whole = counts > 0
        self.mixed = bool(((limits.C != 0).any(0) & ~self.whole).any())  # continuous ones have a say, too
        self._slices: dict[bytes, Polytope | None] = {}
        self._solved: dict[bytes, Array | None] = {}

    def check_not_empty(self) -> None:
        """Empty where no values are feasible."""
        centre = self.polytope.centre.numpy()
        if self._slice(self._one_by_one(centre)) is None:
            nearest_on_lattice(centre, self.counts, self.limits)

    def nearest(self, point: Array) -> Array | None:
        """The nearest point (d) that meets the linear constraints with the values that discrete parameters have."""
        near = (LAST_DIGITS, MARGIN / 2) if self.mixed else (SAME,)
        if self.polytope.contains(torch.from_numpy(point), *near):
            return point
        for values in self._values(point):
            found = np.where(self.whole, values, point)
            part = self._slice(found)
            if part is not None:
                return part.inside(part.project(torch.from_numpy(found))).numpy()
        return None

    def _values(self, point: Array) -> Iterator[Array]:
        """Values of discrete coordinates (d) to try, those found soonest first."""
        if self.mixed or (self.counts > MANY).any():
            yield point
            yield self._one_by_one(point)
        nearest = self._nearest_values(point)
        if nearest is not None:
            yield nearest

    def _one_by_one(self, point: Array) -> Array:
        """Near values of discrete coordinates (d), for which continuous ones can mostly make up.

        Each is rounded in its turn, coarse ones first, and all that follow move to where the constraints hold with it.
        An integer program takes minutes where there are many values.
        """
        x, held = torch.from_numpy(point), torch.zeros(len(point), dtype=torch.bool, device="cpu")
        for i in sorted(np.flatnonzero(self.whole).tolist(), key=lambda i: int(self.counts[i])):
            x, held[i] = x.clone(), True
            x[i] = float(self.snap(x.numpy()[None])[0, i])
            x = self.polytope.project(x, held)
        return np.asarray(x.numpy())

    def _nearest_values(self, point: Array) -> Array | None:
        """The nearest feasible values of discrete coordinates (d); None where there are none.

        Where continuous coordinates have no say in it, it is solved once for each rounded point.
        """
        if self.mixed:
            return self._solve(point)
        key = point[self.whole].tobytes()
        if key not in self._solved:
            self._solved[key] = self._solve(np.where(self.whole, point, 0.5))  # the rest decides between no equals
        return self._solved[key]

    def _solve(self, point: Array) -> Array | None:
        try:
            return nearest_on_lattice(point, self.counts, self.limits)
        except Empty:
            return None

    def _slice(self, found: Array) -> Polytope | None:
        """What the constraints leave where discrete coordinates have these values; None where that is nothing."""
        key = found[self.whole].tobytes()
        if key not in self._slices:
            lower, upper = (np.where(self.whole, found, bound) for bound in self.limits[3:])
            try:
                self._slices[key] = Polytope.of(self.limits._replace(lower=lower, upper=upper))
            except Empty:
                self._slices[key] = None
        return self._slices[key]
