"""A convex part of the unit cube that linear constraints leave: points of it, and the nearest point of it.

    {x : lower ≤ x ≤ upper,  lo ≤ Cx ≤ hi},    an equality has lo = hi

Linear programs find out how many dimensions it has (equalities, also those that only follow from inequalities, take
some away), and points far apart in each of them. Their mean is inside, and a first walk from there, with steps as long
as they are apart, gives the centre c and the widths L that make the walks of later samples fast.

Notation
    C   r x d    constraints, rows of length 1           G   R x d    all inequalities, bounds included: Gx ≤ h
    c   d        a point inside                          L   d x k    directions along it, as long as it is wide
    y   ... x d  any points                              x   ... x d  points of it
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from torch import Tensor

from modeseek.draws import Draws, Randomness
from modeseek.typing import Array

TURNS = 200  # of the method of multipliers, at most
PENALTY, RELAXATION = 5.0, 1.6  # of it
SETTLED = 1e-9  # change in a turn, and miss of a constraint, under which it is done
ROUNDING = 256  # points that its centre and its widths are taken from
FLAT = 1e-8  # a direction along which it is no wider than this has no extent
MARGIN = 1e-12  # kept from the border, so that inequalities hold after rounding
SOLVED = 1e-9  # to which integer programs are asked to meet constraints
LAST_DIGIT = 1e-15  # on the cube
WALK, WALK_PER_DIMENSION = 16, 4  # steps of hit-and-run


class Empty(ValueError):
    """There is no such point."""


class Limits(NamedTuple):
    """The same as arrays: what a polytope is made of."""

    C: Array
    lo: Array  # r
    hi: Array  # r
    lower: Array  # d
    upper: Array  # d

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Which constraints are equalities: r."""
        return np.asarray(self.lo == self.hi)


@dataclass(frozen=True, eq=False)
class Polytope:
    """Made by `Polytope.of`; tensors are float64, all on one device."""

    C: Tensor
    lo: Tensor  # r
    hi: Tensor  # r
    lower: Tensor  # d
    upper: Tensor  # d
    centre: Tensor
    basis: Tensor  # d x k, orthonormal: what is inside differs by nothing else
    L: Tensor
    G: Tensor  # but for rows that are the same everywhere inside
    h: Tensor  # R

    @classmethod
    def of(cls, limits: Limits) -> Polytope:
        """The polytope; Empty when there is no point in it."""
        points, flat = _explore(limits)
        first = cls._around(points, flat, limits)
        if not first.k:
            return first
        return cls._around(first.sample(ROUNDING, torch.Generator("cpu").manual_seed(0)).numpy(), flat, limits)

    @classmethod
    def _around(cls, points: Array, flat: Array, limits: Limits) -> Polytope:
        """With centre and widths from points (p x d) that span it; it has no extent in the directions `flat` (rows)."""
        C, lo, hi, lower, upper = limits
        centre, exact = points.mean(0), limits.exact
        rows = C[exact] * (lower < upper)
        if rows.any():  # what a linear program leaves of a residual
            centre = centre - np.linalg.pinv(rows) @ (C[exact] @ centre - hi[exact])
        centre = np.clip(centre, lower, upper)
        k = len(lower) - len(flat)
        _, size, across = np.linalg.svd(points - points.mean(0), full_matrices=False)
        across = across - (across @ flat.T) @ flat  # so that equalities hold to the last digit along them
        basis = np.linalg.qr(across[:k].T)[0]
        basis[lower == upper] = 0.0
        eye = np.eye(len(lower))
        G, h = np.concatenate([C, -C, eye, -eye]), np.concatenate([hi, -lo, upper, -lower])
        kept = np.isfinite(h) & (np.linalg.norm(G @ basis, axis=1) > FLAT)
        linear = np.arange(len(h)) < 2 * len(C)
        h = np.where(linear, h - np.minimum(MARGIN, np.abs(h - G @ centre) / 2), h)
        L = basis * size[:k] / math.sqrt(len(points))
        parts = (C, lo, hi, lower, upper, centre, basis, L, G[kept], h[kept])
        return cls(*(torch.from_numpy(np.ascontiguousarray(part, dtype=np.float64)) for part in parts))

    def on(self, device: torch.device) -> Polytope:
        """The same, there."""
        if self.C.device == device:
            return self
        return Polytope(*(getattr(self, field.name).to(device) for field in fields(self)))

    @property
    def k(self) -> int:
        """Its dimension."""
        return self.basis.shape[-1]

    def contains(self, y: Tensor, tolerance: float = 1e-9, margin: float | None = None) -> Tensor:
        """Which points (... x d) are inside: ...

        Args:
            tolerance: how far outside counts as inside.
            margin: how far from the border of inequalities they must be instead; None: no matter.
        """
        total = y @ self.C.mT
        over = tolerance if margin is None else torch.full_like(self.lo, -margin).where(self.lo != self.hi, tolerance)
        within = ((total >= self.lo - over) & (total <= self.hi + over)).all(-1)
        return within & ((y >= self.lower - tolerance) & (y <= self.upper + tolerance)).all(-1)

    def inside(self, y: Tensor) -> Tensor:
        """Points (... x d) that are inside but for rounding, exactly: onto the equalities, then towards the centre."""
        from_centre = (y - self.centre) @ self.basis @ self.basis.mT
        over, slack = from_centre @ self.G.mT, (self.h - self.G @ self.centre).clamp_min(0)
        share = torch.where(over > slack, slack / over, 1.0).amin(-1, keepdim=True) if len(self.h) else 1.0
        x = (self.centre + share * from_centre).clamp(self.lower, self.upper)
        x = torch.where(x - self.lower < LAST_DIGIT, self.lower, x)  # a share of nothing is 0, not 1e-17
        return torch.where(self.upper - x < LAST_DIGIT, self.upper, x)

    def project(self, y: Tensor, held: Tensor | None = None) -> Tensor:
        """The nearest points inside, but for the last digits (see `inside`): ... x d.

        With one constraint it is clip(y − λC), and its multiplier λ is found in one step. With several, the alternating
        direction method of multipliers finds it (Boyd et al. 2011, Section 5.2; as OSQP solves quadratic programs).

        Args:
            held: d, coordinates that stay as they are; where these leave no such point, the result is near.
        """
        lower, upper = self.lower.expand_as(y), self.upper.expand_as(y)
        C, lo, hi = self.C, self.lo, self.hi
        if held is not None:
            lower, upper = torch.where(held, y, lower), torch.where(held, y, upper)
            C, lo, hi = self._beside(y, held)
        if len(self.C) == 1:
            row = self.C[0]
            return (y - _multiplier(y, row, self.lo[0], self.hi[0], lower, upper) * row).clamp(lower, upper)
        eye = torch.eye(y.shape[-1], dtype=y.dtype, device=y.device)
        rows = torch.cat([C, eye])  # A, and l ≤ Ax ≤ u
        least = torch.cat([lo.expand(*y.shape[:-1], -1), lower], -1)
        most = torch.cat([hi.expand(*y.shape[:-1], -1), upper], -1)
        weight = torch.cat(
            [
                torch.where(self.lo == self.hi, 10 * PENALTY, torch.full_like(self.lo, PENALTY)),
                torch.full_like(eye[0], PENALTY),
            ]
        )
        inverse = torch.linalg.inv(eye + rows.mT @ (weight[:, None] * rows))
        start, pull = y @ inverse, (weight[:, None] * rows) @ inverse
        z = (y @ rows.mT).clamp(least, most)
        dual = torch.zeros_like(z)
        for turn in range(TURNS):
            before = z
            total = (start + (z - dual) @ pull) @ rows.mT
            moved = RELAXATION * total + (1 - RELAXATION) * z
            z = (moved + dual).clamp(least, most)
            dual = dual + moved - z
            if turn % 10 == 9 and bool(((z - before).abs() + (total - z).abs()).amax() < SETTLED):
                break
        return z[..., len(self.C) :]

    def _beside(self, y: Tensor, held: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The constraints on coordinates beside those (d) that stay as in y (... x d): r x d, ... x r, ... x r.

        Their rows have length 1 again: of short ones the multipliers take thousands of turns to be found.
        """
        rows = self.C * ~held
        length = torch.linalg.vector_norm(rows, dim=-1)
        idle = length <= FLAT
        length, taken = length.masked_fill(idle, 1.0), (y * held) @ self.C.mT
        lo, hi = (self.lo - taken) / length, (self.hi - taken) / length
        return rows / length[:, None], lo.masked_fill(idle, -torch.inf), hi.masked_fill(idle, torch.inf)

    def sample(self, m: int, source: Randomness, batch: Sequence[int] = ()) -> Tensor:
        """m points, uniformly distributed but for how far a walk of hit-and-run goes: batch x m x d, on the CPU."""
        draws, here = Draws.of(source, batch), self.on(torch.device("cpu"))
        if here.k == 0:
            return here.centre.expand(*batch, m, -1).clone()
        steps = WALK + WALK_PER_DIMENSION * here.k
        directions = draws.randn(steps, m, here.k, dtype=torch.float64)
        shares = draws.rand(steps, m, dtype=torch.float64)
        GL, slack = here.G @ here.L, here.h - here.G @ here.centre
        z = torch.zeros_like(directions[:, 0])  # x = c + Lz
        for step in range(steps):
            v = directions[:, step]
            speed = v @ GL.mT
            reach = (slack - z @ GL.mT).clamp_min(0) / speed
            up = reach.masked_fill(~(speed > 0), torch.inf).amin(-1)
            down = reach.masked_fill(~(speed < 0), -torch.inf).amax(-1)
            z = z + (down + shares[:, step] * (up - down))[..., None] * v
        return here.inside(here.centre + z @ here.L.mT).view(*batch, m, -1)


def _multiplier(y: Tensor, row: Tensor, lo: Tensor, hi: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The λ nearest to 0 with lo ≤ row·clip(y − λ row) ≤ hi: ... x 1, for y: ... x d.

    The sum falls with λ, in straight pieces between the values of λ where a coordinate meets a bound.
    """
    used = row != 0
    a, y = row[used], y[..., used]
    lower, upper = (bound[..., used].expand_as(y) for bound in (lower, upper))

    def total(multiplier: Tensor) -> Tensor:  # ... x p -> ... x p
        moved = y[..., None, :] - multiplier[..., None] * a
        return moved.clamp(lower[..., None, :], upper[..., None, :]) @ a

    corners = torch.cat([(y - lower) / a, (y - upper) / a], -1)
    here, sums = total(torch.zeros_like(y[..., :1])), total(corners)
    goal = here.clamp(lo, hi)
    left = corners.masked_fill(sums < goal, -torch.inf).amax(-1, keepdim=True)
    right = corners.masked_fill(sums > goal, torch.inf).amin(-1, keepdim=True)
    left, right = torch.where(left.isinf(), right, left), torch.where(right.isinf(), left, right)
    high, low = total(left), total(right)
    share = torch.where(high > low, (high - goal) / (high - low), 0.0).clamp(0, 1)
    return torch.where(here == goal, 0.0, left + share * (right - left))


def _explore(limits: Limits) -> tuple[Array, Array]:
    """Points of the polytope far apart in all its dimensions (p x d), and directions (rows) in which it has no extent.

    These are equalities, bounds that coincide, and what linear programs find to follow from the others.
    """
    d = len(limits.lower)
    points = [_extreme(np.zeros(d), limits)]
    pinned = np.eye(d)[limits.lower == limits.upper]
    flat, seen = _orthonormal(np.concatenate([limits.C[limits.exact], pinned])), np.zeros((0, d))
    while len(flat) + len(seen) < d:
        direction = _complement(np.concatenate([flat, seen]), d)[0]
        ends = [_extreme(sign * direction, limits) for sign in (-1.0, 1.0)]
        if abs(direction @ (ends[1] - ends[0])) <= FLAT:
            flat = _orthonormal(np.concatenate([flat, direction[None]]))
        else:
            points += ends
            seen = _orthonormal(np.concatenate([seen, (ends[1] - ends[0])[None]]))
    return np.array(points[1:] or points), flat


def _extreme(direction: Array, limits: Limits) -> Array:
    """The point where direction·x is largest."""
    C, lo, hi, lower, upper = limits
    above, below = np.isfinite(hi) & ~limits.exact, np.isfinite(lo) & ~limits.exact
    solution = linprog(
        -direction,
        A_ub=np.concatenate([C[above], -C[below]]),
        b_ub=np.concatenate([hi[above], -lo[below]]),
        A_eq=C[limits.exact],
        b_eq=hi[limits.exact],
        bounds=list(zip(lower.tolist(), upper.tolist(), strict=True)),
        options={"primal_feasibility_tolerance": 1e-10},
    )
    if solution.x is None:
        raise Empty
    return np.asarray(np.clip(solution.x, lower, upper), dtype=np.float64)


def _orthonormal(rows: Array) -> Array:
    """An orthonormal basis, in rows, of what these rows (n x d) span."""
    if not len(rows):
        return rows
    _, size, across = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(across[size > 1e-10 * size[0]])


def _complement(rows: Array, d: int) -> Array:
    """An orthonormal basis, in rows, of what is orthogonal to these (n x d)."""
    if not len(rows):
        return np.eye(d)
    _, size, across = np.linalg.svd(rows, full_matrices=True)
    return np.asarray(across[int((size > 1e-10 * size[0]).sum()) :])


def nearest_on_lattice(y: Array, counts: Array, limits: Limits) -> Array:
    """The point nearest to y (d), by the sum of distances, that meets the constraints with whole numbers: d.

    Args:
        counts: d, into how many bins a coordinate is divided, whose centres are its values; 0: it is continuous.
        limits: of a polytope; Empty when there is no such point in it.
    """
    C, lo, hi, lower, upper = limits
    d, whole, eye = len(y), counts > 0, np.eye(len(y))
    bins = np.maximum(counts, 1)
    scale, shift = np.where(whole, 1 / bins, 1.0), np.where(whole, 0.5 / bins, 0.0)
    # Variables: a coordinate, or the number of its bin, and how far each is from y.
    near, far = np.hstack([eye * scale, -eye]), np.hstack([eye * scale, eye])
    lo, hi, away = lo - C @ shift - SOLVED, hi - C @ shift + SOLVED, y - shift
    solution = milp(
        np.concatenate([np.zeros(d), np.ones(d)]),
        integrality=np.concatenate([whole, np.zeros(d, dtype=bool)]),
        bounds=Bounds(
            np.concatenate([(lower - shift) / scale, np.zeros(d)]) - SOLVED,
            np.concatenate([(upper - shift) / scale, np.ones(d)]) + SOLVED,
        ),
        constraints=LinearConstraint(
            np.concatenate([np.hstack([C * scale, 0 * C]), near, far]),
            np.concatenate([lo, np.full(d, -np.inf), away]),
            np.concatenate([hi, away, np.full(d, np.inf)]),
        ),
    )
    if solution.x is None:
        raise Empty
    found = np.where(whole, np.round(solution.x[:d]), solution.x[:d])
    return np.asarray(np.clip(found * scale + shift, lower, upper), dtype=np.float64)
