"""Where in the unit cube a search happens: known constraints, and values that are fixed for one question.

Linear constraints leave a polytope (polytope.py), in which points are drawn, climbs stay, and to which the diffusion
model's samples are projected; nothing is drawn and thrown away there. Fixed values are coordinates that do not move. A
function `feasible(params)` only says yes or no: what it refuses goes back along a straight line towards a point that it
allows. Discrete parameters are rounded at last: to the nearest feasible values, where constraints are on them
(lattice.py). What is proposed has passed `settle`, which lets nothing else through.

The surrogate and the model know nothing of this: they work on the cube. Without constraints and fixed values there is
no region, and all is as if this file were not there.

Shapes: b batch, m points, d coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from modeseek.design import sobol
from modeseek.draws import Draws, Randomness
from modeseek.errors import ParameterError, SpaceError
from modeseek.lattice import MANY, SAME, Lattice
from modeseek.lbfgs import Objective, descend_in_cube
from modeseek.linear import Linear, is_feasible, name_of
from modeseek.polytope import Empty, Limits, Polytope
from modeseek.spg import spg
from modeseek.typing import Array, Params

if TYPE_CHECKING:
    from modeseek.space import Space

CPU = torch.device("cpu")  # where points are drawn, whatever torch's default device is
SPREAD = 512  # points that an initial design is chosen from
DENSE = 0.2  # share of the Sobol points that must be inside to use them
ROUNDS, MOST_ROUNDS = 8, 64  # of drawing points, until enough are feasible, or one is
AROUND = 4  # rounds of drawing points around feasible ones, where there are too few
BISECTIONS = 12  # on the way back to a feasible point


class Region:
    """What constraints and fixed values leave of a space's unit cube.

    Args:
        space: with its constraints.
        fixed: values by name; the others are searched.

    SpaceError when nothing is left, ParameterError when a fixed value is not one of its parameter's.
    """

    def __init__(self, space: Space, fixed: Mapping[str, Any] | None = None) -> None:
        self.space, self.fixed = space, _checked(space, fixed or {})
        coordinates = space.coordinates
        self._functions = [f for f in space.constraints if not isinstance(f, Linear)]
        self._at = {coordinates.index(name): space[name].encode(value) for name, value in self.fixed.items()}
        self.free = torch.ones(space.d, dtype=torch.bool, device=CPU)
        self.free[list(self._at)] = False
        linear = [constraint for constraint in space.constraints if isinstance(constraint, Linear)]
        self._involved = np.zeros(space.d, dtype=bool)
        self.polytope: Polytope | None = None
        self.lattice: Lattice | None = None  # of discrete parameters that linear constraints are on
        self._dense = True
        if linear:
            self._restrict(linear)
        if self.is_chosen_point and not len(self.settle(np.full((1, space.d), 0.5))):
            names = ", ".join(f"{name_of(function)}(params)" for function in self._functions)
            raise SpaceError(f"{self.fixed} is not allowed by {names}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it is made from: the space knows what to do with functions."""
        return Region, (self.space, self.fixed)

    def _restrict(self, linear: list[Linear]) -> None:
        """Make the polytope; where discrete parameters are involved, see that there is a feasible point."""
        space = self.space
        rows = [constraint.on_cube(space.coordinates, {name: space[name] for name in space}) for constraint in linear]
        C, lo, hi = np.array([row for row, _, _ in rows]), *np.array([ends for _, *ends in rows]).T
        self._involved = (C != 0).any(0)
        counts = np.array([_bins(space, name) for name in space.coordinates]) * self._involved
        edge = np.where(counts > 0, 0.5 / np.maximum(counts, 1), 0.0)
        lower, upper = edge, 1 - edge
        for i, u in self._at.items():
            lower[i] = upper[i] = u
        limits = Limits(C, lo, hi, lower, upper)
        try:
            self.polytope = Polytope.of(limits)
            if (counts > 0).any():
                self.lattice = Lattice(self.polytope, limits, counts, space.snap)
                self.lattice.check_not_empty()
        except Empty:
            given = f" with {self.fixed}" if self.fixed else ""
            listed = "; ".join(map(str, linear))
            if (counts > MANY).any():
                raise SpaceError(
                    f"no configuration{given} was found that meets all constraints: {listed}; with whole numbers of "
                    f"more than {MANY:,} values it may be missed: use larger steps, or a Float"
                ) from None
            raise SpaceError(f"no configuration{given} within the bounds meets all constraints: {listed}") from None
        self._dense = self._share_of_sobol() >= DENSE

    @property
    def is_chosen_point(self) -> bool:
        """Whether fixed values, with what equalities make of them, leave nothing to search."""
        if not self.fixed:
            return False
        idle = self.free.numpy() & ~self._is_open()
        decided = self.polytope is not None and self.polytope.k == int((idle & ~self._involved).sum())
        return decided or bool((idle == self.free.numpy()).all())

    def _is_open(self) -> NDArray[np.bool_]:
        """Which coordinates (d) have several values beside the fixed ones, and may exist."""
        space, values = self.space, dict(self.fixed)
        several = np.zeros(space.d, dtype=bool)
        for name in space.conditions.order:
            if name not in values and space.conditions.exists(name, values):
                if space[name].size == 1:
                    values[name] = space[name].decode(0.5)
                else:
                    several[space.coordinates.index(name)] = True
        return several

    def _share_of_sobol(self) -> float:
        points = self.placed(sobol(SPREAD, self.space.d, torch.Generator(CPU).manual_seed(0)))
        return float(self._contains(points).double().mean())

    def params(self, point: Array) -> Params:
        """A point (d) as parameters, fixed values as they were given."""
        params = self.space.decode(point)
        for name, value in self.fixed.items():
            params[self.space.names.index(name) if self.space.is_box else name] = value
        return params

    def feasible(self, x: Tensor) -> Tensor:
        """Which points (... x d), rounded, the user's functions allow: ..."""
        points = x.reshape(-1, self.space.d).cpu().numpy()
        answers = [all(is_feasible(f, self.params(point)) for f in self._functions) for point in points]
        return torch.tensor(answers, dtype=torch.bool, device=x.device).view(x.shape[:-1])

    def sample(self, m: int, source: Randomness, batch: tuple[int, ...] = (), known: Tensor | None = None) -> Tensor:
        """m feasible points, spread over the region: batch x m x d, on the CPU.

        Args:
            known: batch x n x d, points to look around where few of those drawn are feasible.
        """
        draws = Draws.of(source, batch)
        if not self._functions and (self.polytope is None or not self._dense):
            return self._raw(m, draws, batch)
        rows = []
        for i, generator in enumerate(draws.generators):
            near = None if known is None else known.reshape(len(draws.generators), *known.shape[-2:])[i].cpu()
            rows.append(self._filtered(m, Draws([generator]), near))
        return torch.stack(rows).view(*batch, m, self.space.d)

    def _raw(self, m: int, draws: Draws, batch: tuple[int, ...] = ()) -> Tensor:
        """Points that meet the fixed values and, where few Sobol points would, the linear constraints."""
        if self.polytope is not None and not self._dense:
            return self.polytope.sample(m, draws, batch)
        return self.placed(sobol(m, self.space.d, draws, batch))

    def _filtered(self, m: int, draws: Draws, known: Tensor | None) -> Tensor:
        """As `sample`, for one problem: m x d."""
        found = torch.zeros(0, self.space.d, dtype=torch.float64, device=CPU)
        sequence = self._raw(m * ROUNDS, draws) if self._dense else None
        for i in range(ROUNDS if known is not None and len(known) else MOST_ROUNDS):
            if sequence is None:
                points = self._raw(m, draws)
            elif i < ROUNDS:
                points = sequence[i * m : (i + 1) * m]
            else:  # a Sobol sequence keeps away from some thin regions, random points from none
                points = self.placed(draws.rand(m, self.space.d, dtype=torch.float64)[0])
            found = torch.cat([found, self._allowed(points)])
            if len(found) >= (m if i < ROUNDS else 1):
                return found[:m] if len(found) >= m else self._around(found, m, draws)
        if not len(found) and known is not None and len(known):
            found = self._allowed(self.repair(known))
        if not len(found):
            raise self.nothing_allowed(m * MOST_ROUNDS)
        return self._around(found, m, draws)

    def nothing_allowed(self, tried: int | None = None) -> SpaceError:
        """What to say where functions refuse so many points; None: every configuration of a finite space."""
        linear = "" if self.polytope is None else " that meet the linear constraints"
        given = f" with {self.fixed}" if self.fixed else ""
        names = ", ".join(f"{name_of(function)}(params)" for function in self._functions)
        if tried is None:
            return SpaceError(f"none of the configurations{linear}{given} is allowed by {names}")
        return SpaceError(
            f"none of {tried} points{linear}{given} is allowed by {names}; give an allowed one (tell_params, known=), "
            "narrow the bounds, or say it with Linear constraints"
        )

    def _around(self, found: Tensor, m: int, draws: Draws) -> Tensor:
        """m feasible points near those found, at all distances, and near those that come of it."""
        for _ in range(AROUND):
            start = found[torch.arange(m, dtype=torch.int64, device=CPU) % len(found)]
            distance = torch.logspace(-4, 0, m, dtype=torch.float64, device=CPU)[:, None]
            step = draws.randn(m, self.space.d, dtype=torch.float64)[0]
            found = torch.cat([found, self._allowed(self._to_linear(start + distance * step))])
        return found[-m:] if len(found) >= m else found[torch.arange(m, dtype=torch.int64, device=CPU) % len(found)]

    def _allowed(self, points: Tensor) -> Tensor:
        """Those of the points (m x d) that are feasible."""
        points = points[self._contains(points)]
        return points[self.feasible(points)]

    def contains(self, x: Tensor) -> Tensor:
        """Which points (... x d), whose discrete coordinates are values, meet every constraint: ..."""
        return self._contains(x.cpu()).to(x.device) & self.feasible(x)

    def _contains(self, points: Tensor, tolerance: float = SAME) -> Tensor:
        if self.polytope is None:
            return torch.ones_like(points[..., 0], dtype=torch.bool)
        return self.polytope.contains(points, tolerance)

    def placed(self, x: Tensor) -> Tensor:
        """The points (... x d) with the fixed values."""
        x = x.clone()
        for i, u in self._at.items():
            x[..., i] = u
        return x

    def _to_linear(self, x: Tensor) -> Tensor:
        """The points (... x d) of the cube that are nearest to these and meet fixed values and linear constraints."""
        x = self.placed(x).clamp(0, 1)
        if self.polytope is None:
            return x
        polytope = self.polytope.on(x.device)
        return polytope.inside(polytope.project(x))

    def repair(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Points (b x S x d) moved into the region.

        Args:
            allowed: b x m x d, feasible points: what a function refuses goes towards the nearest of them.
        """
        x = self._to_linear(x)
        if allowed is None or not self._functions:
            return x
        nearest = torch.cdist(x, allowed).argmin(-1)
        return self.keep(x, allowed.gather(-2, nearest[..., None].expand(*nearest.shape, x.shape[-1])))

    def either(self, x: Tensor, allowed: Tensor) -> Tensor:
        """Points (... x d), but where a function refuses them, others (... x d) in their place."""
        return torch.where(self.feasible(x)[..., None], x, allowed) if self._functions else x

    def keep(self, x: Tensor, allowed: Tensor) -> Tensor:
        """Points (... x d); those that a function refuses go back along the line to feasible ones (... x d)."""
        if not self._functions:
            return x
        bad = ~self.feasible(x)
        if not bool(bad.any()):
            return x
        start, step = allowed[bad], x[bad] - allowed[bad]
        near, far = torch.zeros_like(start[:, :1]), torch.ones_like(start[:, :1])
        for _ in range(BISECTIONS):
            middle = (near + far) / 2
            fine = self.feasible(start + middle * step)[:, None]
            near, far = torch.where(fine, middle, near), torch.where(fine, far, middle)
        x = x.clone()
        x[bad] = start + near * step
        return x

    def climb(
        self, objective: Objective, x: Tensor, *, steps: int, free: Tensor | None, joint: bool, record: bool
    ) -> Tensor:
        """Down the objective (of ... x d) from x (... x m x d) within linear constraints and fixed values: ... x m x d.

        Args:
            free: d, the coordinates that move, None: all but the fixed ones.
            joint: one step size for the m points.
        """
        moves = self.free.to(x.device) if free is None else self.free.to(x.device) & free
        if self.polytope is None:
            return descend_in_cube(objective, x, steps=steps, free=moves, joint=joint, record=record)

        def held(z: Tensor) -> tuple[Tensor, Tensor]:
            value, grad = objective(z.view(x.shape))
            grad = grad * moves
            return (value.sum(-1), grad.flatten(-2)) if joint else (value, grad)

        polytope = self.polytope.on(x.device)
        still = None if free is None else ~moves

        def project(z: Tensor) -> Tensor:
            return polytope.project(z.view(x.shape), still).reshape(z.shape)

        end = spg(held, x.flatten(-2) if joint else x, project, steps=steps).x.view(x.shape)
        return end if free is not None else polytope.inside(end)

    def exact(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each point (... x d) as `settle` has it, and which (...) it lets through; the others stay as they are."""
        points = x.reshape(-1, self.space.d).cpu().numpy()
        settled = [self.settle(point[None]) for point in points]
        rows = [new[0] if len(new) else old for new, old in zip(settled, points, strict=True)]
        through = torch.tensor([len(new) > 0 for new in settled], dtype=torch.bool, device=x.device)
        return torch.from_numpy(np.stack(rows)).to(x.device).view(x.shape), through.view(x.shape[:-1])

    def settle(self, points: Array) -> Array:
        """The points (n x d) as they can be evaluated and meet every constraint, without those where that fails."""
        x = self._to_linear(torch.from_numpy(np.ascontiguousarray(points))).numpy()
        x = self.space.snap(x)
        if self.lattice is not None:
            x = np.array([row for row in map(self.lattice.nearest, x) if row is not None]).reshape(-1, self.space.d)
        allowed = self._allowed(torch.from_numpy(x)).numpy()
        return np.asarray(allowed)

    def design(self, generator: torch.Generator, n: int, known: Array) -> Array:
        """At most n points for an initial design, in the order in which to evaluate them, before they are settled.

        Args:
            known: k x d, as in `sample`.
        """
        points = self.sample(SPREAD, generator, known=torch.from_numpy(known))
        if not self._dense:
            points = points[spread_out(points, n)]
        return points[:n].numpy()

    def allowed(self, points: Array) -> Array:
        """Those of the points (n x d), whose discrete coordinates are values, that are in the region."""
        for i, u in self._at.items():
            points = points[np.abs(points[:, i] - u) <= SAME]
        return self._allowed(torch.from_numpy(points)).numpy()


def spread_out(points: Tensor, n: int) -> Tensor:
    """Which n of the points (p x d) represent all of them best, from the first on; their numbers.

    Each is the one that lowers the energy distance between those so far and all of them the most (support points; Mak
    and Joseph 2018).
    """
    distance = torch.cdist(points, points)
    to_all, to_chosen = distance.mean(-1), torch.zeros_like(distance[0])
    order: list[int] = []
    for chosen in range(min(n, len(points))):
        score = to_all - to_chosen / (chosen + 1)
        score[order] = torch.inf
        order.append(int(score.argmin()))
        to_chosen = to_chosen + distance[order[-1]]
    return torch.tensor(order, dtype=torch.int64, device=points.device)


def _bins(space: Space, name: str) -> int:
    """Number of values of a parameter; 0 where it is continuous."""
    size = space[name].size
    return 0 if size == float("inf") else int(size)


def _checked(space: Space, fixed: Mapping[str, Any]) -> dict[str, Any]:
    given: Any = fixed
    if not isinstance(given, Mapping):
        raise ParameterError(f"fixed must be a dict of name -> value, not {given!r:.60}")
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in space.names:
            raise ParameterError(f"fixed: parameter {name!r} is unknown; the space has {space.names}")
        try:
            values[name] = space[name].check(value)
        except ValueError as error:
            raise ParameterError(f"fixed: parameter {name!r}: {error}") from error
    for name in values:
        if not space.conditions.exists(name, values):
            reason = space.conditions.reason(name)
            raise ParameterError(
                f"fixed: parameter {name!r} exists only where {reason}; {_remedy(space, name, values)}"
            )
    return values


def _remedy(space: Space, name: str, values: Mapping[str, Any]) -> str:
    """What to do about a fixed parameter that does not exist beside these fixed values."""
    for parent, allowed in (space[name].when or {}).items():
        if parent in values and values[parent] not in allowed:
            return f"but {parent} is fixed to {values[parent]!r}: leave {name} out, or fix {parent} to another value"
    return "fix that, too"
