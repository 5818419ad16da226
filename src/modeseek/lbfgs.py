"""Batched projected L-BFGS with a strong Wolfe line search (Eq. 6 of the paper).

Every row (an element of the leading batch dimensions) is a minimization of its own: it has its own direction, step
size, curvature pairs and end. SciPy and torch.optim minimize one function at a time; here the GP fits of thirty
replications, or the eight hundred short runs of a pseudo-dataset, advance together in the same tensors.

One turn evaluates the objective once for all rows. A row whose line search ends with it takes its step and starts the
next search, the others go on searching: no row waits for another, and a turn has no decision that a GPU would have to
ask about.

Notation
    x, grad     ... x D    iterate and gradient            s, y    ... x D    differences of iterates and gradients
    value       ...        objective                       eta     ...        step size along the direction
    free        ... x D    coordinates not held by the box

References: Nocedal & Wright, Numerical Optimization, Algorithms 3.5, 3.6 and 7.4; Bertsekas (1982) for the
two-metric projection and for the sufficient decrease along a projected arc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from modeseek.graphs import iterate, tree_map

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]  # ... x D  ->  value ..., gradient ... x D

SUFFICIENT_DECREASE = 1e-4  # c1 and c2 as recommended for quasi-Newton directions (Nocedal & Wright, p. 62)
CURVATURE = 0.9
MAX_SEARCH = 20  # evaluations of a line search


class Minimum(NamedTuple):
    """Where each row ended."""

    x: Tensor  # ... x D
    value: Tensor  # ...
    evaluations: int  # calls of the objective, each of them for all rows


class Point(NamedTuple):
    """A point of each row and the objective there."""

    x: Tensor  # ... x D
    value: Tensor  # ...
    grad: Tensor  # ... x D


class Search(NamedTuple):
    """A line search in every row, on the projected arc Π(x + η·direction), from its start to its end.

    Each row keeps a bracket [a, b]: the arc falls at a, and a lower point lies before b because the objective was too
    high or already rising there. A trial point either ends the row's search or becomes one end of its bracket.
    """

    direction: Tensor  # ... x D
    slope: Tensor  # ..., at the start
    eta: Tensor  # ..., to be tried next
    a: Tensor  # ... x 3: step size, value and slope at a
    b: Tensor  # ... x 3
    best: Point  # the lowest point with sufficient decrease so far
    found: Tensor  # ..., whether there is one
    tried: Tensor  # ..., evaluations


class Curvature(NamedTuple):
    """The last pairs of each row, oldest first; a pair with inverse_sy = 0 has no effect."""

    s: Tensor  # memory x ... x D
    y: Tensor  # memory x ... x D
    inverse_sy: Tensor  # memory x ...
    gamma: Tensor  # ..., scale of the initial inverse Hessian; 0 while a row has no pair


class Box(NamedTuple):
    """Bounds of every row, scalars or D."""

    lower: Tensor
    upper: Tensor

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the box."""
        return x.clamp(self.lower, self.upper)


class Searches(NamedTuple):
    """Where every row stands."""

    at: Point
    search: Search
    curvature: Curvature
    is_newton: Tensor  # ..., whether the direction uses curvature
    steps: Tensor  # ..., taken so far
    running: Tensor  # ...
    evaluations: Tensor  # a single number


def lbfgs(
    objective: Objective,
    x: Tensor,
    lower: float | Tensor,
    upper: float | Tensor,
    *,
    steps: int,
    memory: int = 10,
    first_move: float = 0.1,
    gtol: float = 1e-5,
    ftol: float = 0.0,
    max_evaluations: int | None = None,
    record: bool = True,
) -> Minimum:
    """Minimize each row of `objective` over the box [lower, upper], by at most `steps` L-BFGS steps.

    A row ends when its projected gradient is under `gtol`, when a step lowers it by less than `ftol` relative to
    max(1, |value|), or when its line search finds no lower point, as it does when it meets nothing but NaN.

    Args:
        objective: gives the values (...) and gradients (... x D) of all rows.
        x: ... x D, the starts; projected onto the box first.
        first_move: how far the first step moves the coordinate with the largest derivative.
        max_evaluations: of a row in all; None: as many as its line searches may take.
        record: whether the objective can be part of a CUDA graph: it asks nothing of the GPU while it runs.
    """
    box = Box(*(torch.as_tensor(bound, dtype=x.dtype, device=x.device) for bound in (lower, upper)))
    x = box.project(x)
    start = Point(x, *objective(x))
    if steps == 0:
        return Minimum(start.x, start.value, 1)
    none = torch.zeros_like(start.value)
    memory = min(memory, steps)
    no_pairs = start.x.new_zeros(memory if record and x.is_cuda else 0, *x.shape)  # a CUDA graph has fixed shapes
    curvature = Curvature(no_pairs, no_pairs.clone(), no_pairs[..., 0].clone(), none)
    running = _finite(start)

    def next_search(at: Point, curvature: Curvature, running: Tensor) -> tuple[Search, Tensor, Tensor]:
        """The search from `at`, whether its direction is Newton's, and which rows are still running."""
        held = ((at.x <= box.lower) & (at.grad > 0)) | ((at.x >= box.upper) & (at.grad < 0))
        grad = at.grad.masked_fill(held | ~running[..., None], 0)
        largest = grad.abs().amax(-1)
        direction, is_newton = _direction(grad, curvature, at.x, box)
        eta = (first_move / largest.clamp_min(1e-300)).masked_fill(is_newton, 1)
        return begin_search(at, direction, eta), is_newton, running & (largest > gtol)

    def turn(state: Searches) -> Searches:
        search, ended = search_once(objective, state.at, state.search, state.running, box)
        at = _where(ended, search.best, state.at)
        curvature = _remember(state.curvature, state.at, at, ended, search.found, memory)
        failed = ended & ~search.found  # its curvature is forgotten before a row is given up
        small = state.at.value - at.value <= ftol * state.at.value.abs().clamp_min(1)
        steps_taken = state.steps + ended
        over = (failed & ~state.is_newton) | (ended & search.found & small & (ftol > 0)) | (steps_taken >= steps)
        fresh, is_newton, running = next_search(at, curvature, state.running & ~over)
        return Searches(
            at,
            _where(ended, fresh, search),
            curvature,
            torch.where(ended, is_newton, state.is_newton),
            steps_taken,
            torch.where(ended, running, state.running),
            state.evaluations + state.running.any(),
        )

    search, is_newton, running = next_search(start, curvature, running)
    count = torch.zeros_like(none, dtype=torch.long)
    state = Searches(start, search, curvature, is_newton, count, running, torch.ones_like(count).amax())
    end = iterate(turn, state, lambda state: state.running, most=max_evaluations or steps * MAX_SEARCH, record=record)
    return Minimum(end.at.x, end.at.value, int(end.evaluations))


def descend_in_cube(
    objective: Objective,
    x: Tensor,
    *,
    steps: int,
    free: Tensor | None = None,
    joint: bool = False,
    gtol: float = 1e-5,
    record: bool = True,
) -> Tensor:
    """Down the objective (of ... x d) on the unit cube from x (... x m x d), by at most `steps` steps: ... x m x d.

    Args:
        free: d, the coordinates that move; None: all of them.
        joint: one direction and step size for the m points.
        gtol, record: as in `lbfgs`.
    """

    def held(z: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = objective(z.view(x.shape))
        grad = grad if free is None else grad * free
        return (value.sum(-1), grad.flatten(-2)) if joint else (value, grad)

    most = 2 * steps + 5  # few of many runs need more, and all others would wait for them
    start = x.flatten(-2) if joint else x
    end = lbfgs(held, start, 0.0, 1.0, steps=steps, gtol=gtol, max_evaluations=most, record=record)
    return end.x.view(x.shape)


def begin_search(at: Point, direction: Tensor, eta: Tensor) -> Search:
    """A line search from `at` along `direction` (... x D) that tries step size eta (...) first."""
    slope = _dot(at.grad, direction)
    a = torch.stack([torch.zeros_like(eta), at.value, slope], -1)
    b = torch.stack([torch.full_like(eta, torch.inf), at.value, slope], -1)
    no = torch.zeros_like(eta, dtype=torch.bool)
    return Search(direction, slope, eta, a, b, at, no, torch.zeros_like(eta, dtype=torch.long))


def search_once(objective: Objective, at: Point, search: Search, searching: Tensor, box: Box) -> tuple[Search, Tensor]:
    """Evaluate one trial point in every row that is `searching` (...): the search after it, and where it ended (...).

    It ends at a point with the strong Wolfe conditions, which is then the best one, or when a row runs out of
    evaluations: then the best is the lowest point with sufficient decrease that it has seen, if any.
    """
    direction, slope, eta, a, b, best, found, tried = search
    moved = at.x + eta[..., None] * direction
    projected = box.project(moved)
    x = torch.where(searching[..., None], projected, at.x)
    trial = Point(x, *objective(x))
    finite = _finite(trial)
    value = trial.value.masked_fill(~finite, torch.inf)
    along = direction.masked_fill(moved != projected, 0)
    slope_t = _dot(trial.grad, along).masked_fill(~finite, 0)

    enough = value <= at.value + SUFFICIENT_DECREASE * _dot(at.grad, x - at.x)
    accept = searching & enough & (slope_t.abs() <= CURVATURE * slope.abs())
    better = accept | (searching & enough & (value < best.value))
    here = torch.stack([eta, value, slope_t], -1)
    is_b = (~enough | (value >= a[..., 1]) | (slope_t >= 0))[..., None]
    a, b = torch.where(is_b, a, here), torch.where(is_b, here, b)
    tried = tried + searching
    after = Search(
        direction,
        slope,
        torch.where(b[..., 0].isfinite(), _cubic_minimizer(a, b), 4 * eta),
        a,
        b,
        _where(better, trial._replace(value=value), best),
        found | better,
        tried,
    )
    return after, accept | (searching & (tried >= MAX_SEARCH))


def _finite(point: Point) -> Tensor:
    return point.value.isfinite() & point.grad.isfinite().all(-1)


def _remember(
    curvature: Curvature, before: Point, after: Point, moved: Tensor, found: Tensor, memory: int
) -> Curvature:
    """The pairs with that of the step from `before` to `after` in rows that moved; none where no step was found."""
    s, y = after.x - before.x, after.grad - before.grad
    sy, yy = _dot(s, y), _dot(y, y)
    curved = moved & found & (sy > 1e-10 * yy) & (yy > 0)
    forgotten = moved & ~found
    return Curvature(
        _push(curvature.s, s, moved[..., None], memory),
        _push(curvature.y, y, moved[..., None], memory),
        _push(curvature.inverse_sy, (1 / sy).masked_fill(~curved, 0), moved, memory).masked_fill(forgotten, 0),
        torch.where(curved, sy / yy, curvature.gamma).masked_fill(forgotten, 0),
    )


def _push(entries: Tensor, newest: Tensor, rows: Tensor, memory: int) -> Tensor:
    """The entries, oldest first, with a newest one in some rows; they are forgotten over a length of `memory`."""
    if len(entries) < memory:
        entries = torch.cat([torch.zeros_like(newest)[None], entries])
    return torch.where(rows, torch.cat([entries[1:], newest[None]]), entries)


def _direction(grad: Tensor, curvature: Curvature, x: Tensor, box: Box) -> tuple[Tensor, Tensor]:
    """−H·grad by the two-loop recursion, kept inside the box; steepest descent in rows where that leads up.

    Returns the direction (... x D) and whether a row uses curvature (...): those rows try a unit step first.
    """
    q = grad
    weights = []
    gamma = curvature.gamma
    pairs = list(zip(*curvature[:3], strict=True))
    for s, y, inverse_sy in reversed(pairs):
        a = inverse_sy * _dot(s, q)
        q = torch.addcmul(q, a[..., None], y, value=-1)
        weights.append(a)
    r = gamma.masked_fill(gamma <= 0, 1)[..., None] * q
    for (s, y, inverse_sy), a in zip(pairs, reversed(weights), strict=True):
        r = torch.addcmul(r, torch.addcmul(a, inverse_sy, _dot(y, r), value=-1)[..., None], s)
    direction = -r.masked_fill((grad == 0) | ((x <= box.lower) & (r > 0)) | ((x >= box.upper) & (r < 0)), 0)
    is_newton = (gamma > 0) & (_dot(grad, direction) < 0) & direction.isfinite().all(-1)
    return torch.where(is_newton[..., None], direction, -grad), is_newton


def _cubic_minimizer(a: Tensor, b: Tensor) -> Tensor:
    """The minimizer of the cubic through both ends of a bracket (Nocedal & Wright, Eq. 3.59).

    Kept in the inner 80 % so that brackets shrink; the middle where the cubic has no minimizer or an end is infinite.
    """
    (ea, va, sa), (eb, vb, sb) = a.unbind(-1), b.unbind(-1)
    width = eb - ea
    d1 = sa + sb + 3 * (va - vb) / width
    d2 = (d1 * d1 - sa * sb).clamp_min(0).sqrt()
    cubic = eb - width * (sb + d2 - d1) / (sb - sa + 2 * d2)
    cubic = torch.where(cubic.isfinite(), cubic, ea + width / 2)
    return torch.minimum(torch.maximum(cubic, ea + 0.1 * width), eb - 0.1 * width)


def _dot(u: Tensor, v: Tensor) -> Tensor:
    product: Tensor = torch.linalg.vecdot(u, v)
    return product


Rows = TypeVar("Rows", Point, Search)


def _where(rows: Tensor, yes: Rows, no: Rows) -> Rows:
    """Row by row (...) one or the other; tensors with a last dimension more than `rows` are chosen as a whole."""
    return tree_map(lambda u, v: torch.where(rows if u.ndim == rows.ndim else rows[..., None], u, v), yes, no)
