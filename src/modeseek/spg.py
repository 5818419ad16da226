"""Batched spectral projected gradient: minimization over any convex set whose nearest points are known.

L-BFGS of lbfgs.py bends its direction at the bounds of a box, coordinate by coordinate; where bounds are oblique that
does not lead down. Here a step goes from x towards the projection of x − η∇f, and so stays inside; η is the inverse
curvature along the last step (Birgin, Martínez and Raydan 2000, SPG2). A step may go up, but not above the last few.

Every row (an element of the leading batch dimensions) is a minimization of its own. Notation as in lbfgs.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from modeseek.lbfgs import Minimum, Objective, Point

SUFFICIENT_DECREASE = 1e-4
MEMORY = 5  # values that a step is compared with
BACKTRACKS = 6  # evaluations of a line search
SLOWEST, FASTEST = 1e-10, 1e10  # η
FARTHEST = 3.0  # from x, in any coordinate, that a point is projected from: from afar projections take many turns


def spg(
    objective: Objective,
    x: Tensor,
    project: Callable[[Tensor], Tensor],
    *,
    steps: int,
    first_move: float = 0.1,
    tolerance: float = 1e-7,
) -> Minimum:
    """Minimize each row of `objective`, from x (... x D), which is inside, by at most so many steps.

    A row ends where no step longer than `tolerance` leads down, and gives the lowest point that it has seen.

    Args:
        project: to the nearest points inside, ... x D.
        first_move: how far the first step moves the coordinate with the largest derivative, before it is projected.
    """
    at = best = Point(x, *objective(x))
    eta = first_move / at.grad.abs().amax(-1).clamp_min(1e-300)
    recent, evaluations = at.value[None], 1
    running = at.value.isfinite() & at.grad.isfinite().all(-1)
    for _ in range(steps):
        reach = torch.minimum(eta, FARTHEST / at.grad.abs().amax(-1).clamp_min(1e-300))
        step = project(at.x - reach[..., None] * at.grad.masked_fill(~running[..., None], 0)) - at.x
        slope = torch.linalg.vecdot(at.grad, step)
        running = running & (step.abs().amax(-1) > tolerance) & (slope < 0)
        if not bool(running.any()):
            break
        after, found, tried = _line_search(objective, at, step, slope, recent.amax(0), running)
        evaluations += tried
        s, y = after.x - at.x, after.grad - at.grad
        curvature = torch.linalg.vecdot(s, y)
        rate = torch.linalg.vecdot(s, s) / curvature
        eta = torch.where(found, torch.where(curvature > 0, rate, 10 * eta).clamp(SLOWEST, FASTEST), eta)
        running, at = running & found, after
        recent = torch.cat([recent, at.value[None]])[-MEMORY:]
        best = _where(at.value < best.value, at, best)
    return Minimum(best.x, best.value, evaluations)


def _line_search(
    objective: Objective, at: Point, step: Tensor, slope: Tensor, limit: Tensor, running: Tensor
) -> tuple[Point, Tensor, int]:
    """The point along the step that is low enough, in rows that run; where there is one; and how many were tried."""
    t, after, found = torch.ones_like(slope), at, torch.zeros_like(running)
    for tried in range(1, BACKTRACKS + 1):  # noqa: B007 - its last value is returned
        x = torch.where(running[..., None], at.x + t[..., None] * step, at.x)
        trial = Point(x, *objective(x))
        low = trial.value <= limit + SUFFICIENT_DECREASE * t * slope
        new = running & ~found & low & trial.value.isfinite() & trial.grad.isfinite().all(-1)
        after, found = _where(new, trial, after), found | new
        if not bool((running & ~found).any()):
            break
        parabola = -0.5 * t.square() * slope / (trial.value - at.value - t * slope)
        inner = torch.minimum(torch.maximum(parabola.nan_to_num(nan=0.0), 0.1 * t), 0.5 * t)
        t = torch.where(found, t, inner)
    return after, found, tried


def _where(rows: Tensor, yes: Point, no: Point) -> Point:
    return Point(
        torch.where(rows[..., None], yes.x, no.x),
        torch.where(rows, yes.value, no.value),
        torch.where(rows[..., None], yes.grad, no.grad),
    )
