"""The pseudo-dataset: Sobol points, refined by short L-BFGS runs, labelled μ + ρσ (Algorithm 1, lines 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.design import sobol
from modeseek.draws import Randomness
from modeseek.lbfgs import Objective, lbfgs
from modeseek.region import Region
from modeseek.sketch import for_climbing
from modeseek.surrogate import Rho, Surrogate
from modeseek.typing import Refinement

POLISH_STEPS = 50


class Rounding(NamedTuple):
    """Where parameters are discrete: which points can be evaluated."""

    snap: Callable[[Tensor], Tensor]  # ... x d to the points that would be evaluated for these, ... x d
    continuous: Tensor  # d, the coordinates that it leaves as they are


def pseudo_dataset(
    gp: Surrogate,
    *,
    m: int,
    K: int,
    rho: Rho,
    refine: Refinement,
    source: Randomness,
    rounding: Rounding | None = None,
    region: Region | None = None,
    apart: float | None = None,
    lean: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Refined inputs (b x m x d), rounded if asked, and their labels (b x m).

    `refine="point"` is Eq. 6: each point has its own direction and step size. "joint" refines the m points of an
    element as one vector with one step size, which keeps them apart where single runs would all end in one optimum.
    With a region, all of them are in it. With `apart`, an element goes only so far that most of its inputs are not
    closer than that to the best of them. `lean` moves some of the evenly spread points (b x m x d) that all begin with.
    """
    *batch, _, d = gp.X.shape
    if region is None:
        x = sobol(m, d, source, tuple(batch)).to(gp.X)
        x = x if lean is None else lean(x)
    else:
        x = region.sample(m, source, tuple(batch), gp.X).to(gp.X)
        x = x if lean is None else region.repair(lean(x), x)
    if K > 0:
        end = refine_inputs(for_climbing(gp), x, K=K, rho=rho, refine=refine, region=region)
        x = end if apart is None else _part_of_the_way(gp, x, end, rho, apart, region)
    if rounding is not None:
        x = rounding.snap(x)
    return x, gp.label(x, rho)


def _part_of_the_way(
    gp: Surrogate, start: Tensor, end: Tensor, rho: float | Tensor, apart: float, region: Region | None
) -> Tensor:
    """The ends of climbs or, where these run together, points on the way there that are about `apart`: b x m x d."""
    before, after = spread(start, gp.label(start, rho)), spread(end, gp.label(end, rho))
    share = ((before - apart) / (before - after).clamp_min(1e-12)).clamp(0, 1)
    share = torch.where(after < apart, share, 1)[..., None, None]
    x = torch.lerp(start, end, share)
    return x if region is None else region.keep(x, start)


def spread(x: Tensor, y: Tensor) -> Tensor:
    """How far most inputs (b x m x d) are from the one with the best label (b x m), in their farthest coordinate: b."""
    best = x.gather(-2, y.argmax(-1)[..., None, None].expand_as(x[..., :1, :]))
    return (x - best).abs().amax(-1).median(-1).values


def polish(
    gp: Surrogate, x: Tensor, *, rho: Rho, rounding: Rounding | None = None, region: Region | None = None
) -> Tensor:
    """The optimum of μ + ρσ, in the region if there is one, that a climb from x (b x d) ends in: b x d.

    With rounding, its continuous coordinates are the optimum for its discrete ones, and those are x's or those of the
    climb that knows no rounding, whichever has the better label.
    """
    top = refine_inputs(gp, x.unsqueeze(-2), K=POLISH_STEPS, rho=rho, region=region)
    if rounding is not None:
        starts = torch.cat([x.unsqueeze(-2), top], -2)
        starts = rounding.snap(starts) if region is None else region.exact(starts)
        tops = refine_inputs(gp, starts, K=POLISH_STEPS, rho=rho, free=rounding.continuous, region=region)
        best = gp.label(tops, rho).argmax(-1)[..., None, None]
        top = tops.gather(-2, best.expand_as(tops[..., :1, :]))
    return top.squeeze(-2)


def refine_inputs(
    gp: Surrogate,
    x: Tensor,
    *,
    K: int,
    rho: Rho,
    refine: Refinement = "point",
    free: Tensor | None = None,
    region: Region | None = None,
) -> Tensor:
    """At most K steps of projected L-BFGS up μ + ρσ from x (b x m x d), on the unit cube or in the region (Eq. 6).

    Only coordinates that are `free` (d) move, all of them if None.
    """
    evaluations = 2 * K + 5  # few of many runs need more, and all others would wait for them

    def climb(objective: Objective, start: Tensor) -> Tensor:
        end = lbfgs(objective, start, 0.0, 1.0, steps=K, max_evaluations=evaluations, record=gp.recordable)
        return end.x.view(x.shape)

    def descend(z: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = gp.label_and_grad(z, rho)
        return value.neg_(), grad.neg_() if free is None else grad.neg_().mul_(free)

    def total(z: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = descend(z.view(x.shape))
        return value.sum(-1), grad.flatten(-2)

    if region is not None:
        end = region.climb(descend, x, steps=K, free=free, joint=refine == "joint", record=gp.recordable)
        return region.keep(end, x)
    return climb(descend, x) if refine == "point" else climb(total, x.flatten(-2))
