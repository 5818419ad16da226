"""Batched projected L-BFGS with a strong Wolfe line search (Eq. 6 of the paper).

Every row (an element of the leading batch dimensions) is a minimization of its own: it has its own direction, step
size, curvature pairs and end. SciPy and torch.optim minimize one function at a time; here the GP fits of thirty
replications, or the eight hundred short runs of a pseudo-dataset, advance together in the same tensors.

Notation
    x, grad     ... x D    iterate and gradient            s, y    ... x D    differences of iterates and gradients
    value       ...        objective                       eta     ...        step size along the direction
    free        ... x D    coordinates not held by the box

References: Nocedal & Wright, Numerical Optimization, Algorithms 3.5, 3.6 and 7.4; Bertsekas (1982) for the
two-metric projection and for the sufficient decrease along a projected arc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]  # ... x D  ->  value ..., gradient ... x D

SUFFICIENT_DECREASE = 1e-4  # c1 and c2 as recommended for quasi-Newton directions (Nocedal & Wright, p. 62)
CURVATURE = 0.9


class Minimum(NamedTuple):
    """Where each row ended."""

    x: Tensor  # ... x D
    value: Tensor  # ...
    evaluations: int  # calls of the objective, each of them for all rows


class Step(NamedTuple):
    """What a line search gives for each row; `found` says whether it lowered the objective at all."""

    x: Tensor  # ... x D
    value: Tensor  # ...
    grad: Tensor  # ... x D
    eta: Tensor  # ...
    found: Tensor  # ...
    evaluations: int


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
    max_evaluations: int = 20,
) -> Minimum:
    """Minimize each row of `objective` over the box [lower, upper], by at most `steps` L-BFGS steps.

    A row ends when its projected gradient is under `gtol`, when a step lowers it by less than `ftol` relative to
    max(1, |value|), or when its line search finds no lower point, as it does when it meets nothing but NaN.

    Args:
        objective: gives the values (...) and gradients (... x D) of all rows.
        x: ... x D, the starts; projected onto the box first.
        first_move: how far the first step moves the coordinate with the largest derivative.
        max_evaluations: evaluations a line search may take.
    """
    lower = torch.as_tensor(lower, dtype=x.dtype, device=x.device)
    upper = torch.as_tensor(upper, dtype=x.dtype, device=x.device)
    x = x.clamp(lower, upper)
    value, grad = objective(x)
    evaluations = 1
    done = ~_finite(value, grad)
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []
    gamma = torch.zeros_like(value)  # scale of the initial inverse Hessian; 0 while a row has no curvature pair

    for _ in range(steps):
        free = ~(((x <= lower) & (grad > 0)) | ((x >= upper) & (grad < 0)))
        held_grad = torch.where(free & ~done[..., None], grad, 0.0)
        done = done | (held_grad.abs().amax(-1) <= gtol)
        if bool(done.all()):
            break
        direction, is_newton = _direction(held_grad, pairs, gamma, x, lower, upper)
        first = first_move / held_grad.abs().amax(-1).clamp_min(1e-300)
        eta = torch.where(is_newton, torch.ones_like(first), first)
        step = strong_wolfe(
            objective, x, value, grad, direction, eta, lower, upper, searching=~done, max_evaluations=max_evaluations
        )
        evaluations += step.evaluations
        s, y = step.x - x, step.grad - grad
        sy, yy = (s * y).sum(-1), (y * y).sum(-1)
        curved = step.found & (sy > 1e-10 * yy) & (yy > 0)
        inverse_sy = torch.where(curved, 1 / sy, 0.0)
        pairs = [*pairs, (s, y, inverse_sy)][-memory:]
        gamma = torch.where(curved, sy / yy, gamma)
        stuck = ~step.found & ~done
        if bool(stuck.any()):  # forget a row's curvature before giving it up
            pairs = [(s, y, inverse_sy.masked_fill(stuck, 0)) for s, y, inverse_sy in pairs]
            gamma = gamma.masked_fill(stuck, 0)
        small = value - step.value <= ftol * value.abs().clamp_min(1)
        done = done | (stuck & ~is_newton) | (step.found & small & (ftol > 0))
        x, value, grad = step.x, step.value, step.grad
    return Minimum(x, value, evaluations)


def _finite(value: Tensor, grad: Tensor) -> Tensor:
    return value.isfinite() & grad.isfinite().all(-1)


def _direction(
    grad: Tensor,
    pairs: list[tuple[Tensor, Tensor, Tensor]],
    gamma: Tensor,
    x: Tensor,
    lower: Tensor,
    upper: Tensor,
) -> tuple[Tensor, Tensor]:
    """−H·grad by the two-loop recursion, kept inside the box; steepest descent in rows where that is no descent.

    Returns the direction (... x D) and whether a row uses curvature (...): those rows try a unit step first.
    """
    q = grad
    weights = []
    for s, y, inverse_sy in reversed(pairs):
        a = inverse_sy * (s * q).sum(-1)
        q = q - a[..., None] * y
        weights.append(a)
    r = torch.where(gamma > 0, gamma, torch.ones_like(gamma))[..., None] * q
    for (s, y, inverse_sy), a in zip(pairs, reversed(weights), strict=True):
        r = r + (a - inverse_sy * (y * r).sum(-1))[..., None] * s
    direction = torch.where((grad == 0) | ((x <= lower) & (r > 0)) | ((x >= upper) & (r < 0)), 0.0, -r)
    is_newton = (gamma > 0) & ((grad * direction).sum(-1) < 0) & direction.isfinite().all(-1)
    return torch.where(is_newton[..., None], direction, -grad), is_newton


def strong_wolfe(
    objective: Objective,
    x: Tensor,
    value: Tensor,
    grad: Tensor,
    direction: Tensor,
    eta: Tensor,
    lower: Tensor,
    upper: Tensor,
    *,
    searching: Tensor,
    max_evaluations: int = 20,
) -> Step:
    """Step sizes on the projected arc Π(x + η·direction) that satisfy the strong Wolfe conditions, row by row.

    Each row keeps a bracket [a, b]: the arc falls at a, and a lower point lies before b because the objective was
    too high or already rising there. A trial point either ends the row's search or becomes one end of its bracket.
    A row that runs out of evaluations takes the lowest point with sufficient decrease that it has seen, if any.

    Args:
        eta: ..., the first step sizes tried.
        searching: ..., the rows to search; the others stay at x.
    """
    slope = (grad * direction).sum(-1)
    a, value_a, slope_a = torch.zeros_like(eta), value, slope
    b, value_b, slope_b = torch.full_like(eta, torch.inf), value, slope
    best = Step(x, value, grad, a, torch.zeros_like(searching), 0)
    evaluations = 0
    while evaluations < max_evaluations and bool(searching.any()):
        moved = x + eta[..., None] * direction
        trial = torch.where(searching[..., None], moved.clamp(lower, upper), x)
        value_t, grad_t = objective(trial)
        evaluations += 1
        finite = _finite(value_t, grad_t)
        value_t = torch.where(finite, value_t, torch.inf)
        along = torch.where((moved >= lower) & (moved <= upper), direction, 0.0)
        slope_t = torch.where(finite, (grad_t * along).sum(-1), 0.0)

        enough = value_t <= value + SUFFICIENT_DECREASE * (grad * (trial - x)).sum(-1)
        accept = searching & enough & (slope_t.abs() <= CURVATURE * slope.abs())
        better = accept | (searching & enough & (value_t < best.value))
        best = Step(
            torch.where(better[..., None], trial, best.x),
            torch.where(better, value_t, best.value),
            torch.where(better[..., None], grad_t, best.grad),
            torch.where(better, eta, best.eta),
            best.found | better,
            evaluations,
        )
        searching = searching & ~accept
        is_b = ~enough | (value_t >= value_a) | (slope_t >= 0)
        a, value_a, slope_a = _where(is_b, (a, value_a, slope_a), (eta, value_t, slope_t))
        b, value_b, slope_b = _where(is_b, (eta, value_t, slope_t), (b, value_b, slope_b))
        inside = _cubic_minimizer(a, value_a, slope_a, b, value_b, slope_b)
        eta = torch.where(b.isfinite(), inside, 4 * eta)
    return best._replace(evaluations=evaluations)


def _where(mask: Tensor, yes: tuple[Tensor, ...], no: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.where(mask, u, v) for u, v in zip(yes, no, strict=True))


def _cubic_minimizer(a: Tensor, va: Tensor, sa: Tensor, b: Tensor, vb: Tensor, sb: Tensor) -> Tensor:
    """The minimizer of the cubic through both ends of a bracket (Nocedal & Wright, Eq. 3.59).

    Kept in the inner 80 % so that brackets shrink; the middle where the cubic has no minimizer or an end is infinite.
    """
    width = b - a
    d1 = sa + sb - 3 * (va - vb) / (a - b)
    d2 = (d1 * d1 - sa * sb).clamp_min(0).sqrt()
    cubic = b - width * (sb + d2 - d1) / (sb - sa + 2 * d2)
    cubic = torch.where(cubic.isfinite(), cubic, a + width / 2)
    return torch.minimum(torch.maximum(cubic, a + 0.1 * width), b - 0.1 * width)
