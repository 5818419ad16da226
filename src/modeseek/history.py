"""What is known of one problem, as points of the unit cube: what every method proposes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modeseek.errors import ParameterError
from modeseek.typing import Array

if TYPE_CHECKING:
    from modeseek.space import Space

SAME_POINT = 1e-9  # points closer than this in every coordinate of the cube are one point
APART = 0.01  # points that are evaluated side by side are not closer, where there is a choice: they would say the same


@dataclass(frozen=True)
class History:
    """The evaluations of one problem so far; points are rows of the unit cube, as evaluated. Made by `History.of`."""

    X: Array  # n x d, with an outcome
    Y: Array  # n, their outcomes, to be maximized; of several objectives n x M
    constraints: Array  # n x q, at most 0 where feasible
    pending: Array  # p x d, to be evaluated, or being evaluated
    lost: Array  # l x d, evaluated without an outcome: failed, pruned, abandoned
    proposed: Array  # k x d, must not be proposed again
    sem: Array | None = None  # standard errors of the outcomes, as many, NaN where not known; None: none is
    reference: Array | None = None  # M, of several objectives: what is worse does not count; NaN: inferred

    @classmethod
    def of(
        cls,
        X: ArrayLike,  # noqa: N803
        Y: ArrayLike,  # noqa: N803
        *,
        d: int | None = None,
        constraints: ArrayLike | None = None,
        pending: ArrayLike = (),
        lost: ArrayLike = (),
        proposed: ArrayLike | None = None,
        sem: ArrayLike | None = None,
        reference: Array | None = None,
    ) -> History:
        """A history from arrays or lists of points; ParameterError where their shapes disagree or one is not finite.

        Args:
            X, Y: n x d and n, or of several objectives n x M.
            d: number of parameters; needed where there are no points at all.
            constraints: n x q.
            pending, lost: p x d, l x d.
            proposed: None: all of X, pending and lost.
            sem: standard errors of Y, of its shape; NaN where not known.
            reference: M, of several objectives.
        """
        outcomes = np.asarray(Y, dtype=np.float64)
        given = np.asarray(X, dtype=np.float64)
        width = d if d is not None else given.shape[-1]
        X, pending, lost = (_points(rows, width) for rows in (given, pending, lost))
        n = len(X)
        limits = np.asarray(np.zeros((n, 0)) if constraints is None else constraints, dtype=np.float64)
        limits = limits.reshape(n, 0) if limits.size == 0 else limits
        if outcomes.ndim not in (1, 2) or len(outcomes) != n or limits.ndim != 2 or len(limits) != n:
            raise ParameterError(
                f"a history of {n} points needs as many outcomes and rows of constraints; "
                f"got shapes {outcomes.shape} and {limits.shape}"
            )
        if not (np.isfinite(outcomes).all() and np.isfinite(limits).all()):
            raise ParameterError("outcomes must be finite; leave failed evaluations out, or count them as lost")
        known = np.concatenate([X, pending, lost]) if proposed is None else _points(proposed, width)
        errors = None if sem is None else np.asarray(sem, dtype=np.float64)
        if errors is not None and errors.size and errors.shape != outcomes.shape:
            raise ParameterError(f"outcomes of shape {outcomes.shape} need as many standard errors, not {errors.shape}")
        errors = None if errors is None or np.isnan(errors).all() else errors
        return cls(X, outcomes, limits, pending, lost, known, errors, reference)

    def exact(self) -> History:
        """This history with outcomes that have no noise, but for those whose noise is known."""
        return replace(self, sem=np.zeros_like(self.Y) if self.sem is None else np.nan_to_num(self.sem, nan=0.0))

    def of_objective(self, i: int) -> History:
        """This history with one of its objectives alone."""
        if self.Y.ndim == 1:
            return self
        return replace(self, Y=self.Y[:, i], sem=None if self.sem is None else self.sem[:, i], reference=None)

    @property
    def d(self) -> int:
        """Number of parameters."""
        return int(self.X.shape[-1])

    @property
    def without_outcome(self) -> Array:
        """Pending and lost points, (p + l) x d: they have no outcome, yet others keep away from them."""
        return np.concatenate([self.pending, self.lost])

    def with_pending(self, points: Array) -> History:
        """This history with those of the points (k x d) pending that it does not know."""
        unknown = fresh(points, self.proposed)
        return replace(
            self,
            pending=np.concatenate([self.pending, unknown]),
            proposed=np.concatenate([self.proposed, unknown]),
        )


def with_values(space: Space, points: Array, fixed: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Which points (n x d) have the fixed values, by name: n."""
    at = [space.coordinates.index(name) for name in fixed]
    wanted = np.array([space[name].encode(value) for name, value in fixed.items()], dtype=np.float64)
    return np.asarray((points[:, at] == wanted).all(1))


def fresh(points: Array, known: Array, tolerance: float | Array = SAME_POINT) -> Array:
    """Those of the points (k x d) that are not among the known ones.

    Args:
        tolerance: how close in every coordinate points are one point; or, for each coordinate, d.
    """
    if not len(known) or not len(points):
        return points
    from scipy.spatial import cKDTree  # here: it takes as long to load as all else that a worker process needs

    scale, bound = (tolerance, 1.0) if isinstance(tolerance, np.ndarray) else (1.0, tolerance)
    distance, _ = cKDTree(known / scale).query(points / scale, p=np.inf, distance_upper_bound=bound)
    return np.asarray(points[np.isinf(distance)])


def _points(rows: ArrayLike, d: int) -> Array:
    points = np.asarray(rows, dtype=np.float64)
    points = points.reshape(0, d) if points.size == 0 else points
    if points.ndim != 2 or points.shape[1] != d or not np.isfinite(points).all():
        raise ParameterError(f"points must be finite, of shape n x {d}; got shape {points.shape}")
    return points
