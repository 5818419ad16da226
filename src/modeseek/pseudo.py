"""The pseudo-dataset: Sobol points, refined by short L-BFGS runs, labelled μ + ρσ (Algorithm 1, lines 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from modeseek.domain import CUBE, Domain
from modeseek.draws import Draws, Randomness
from modeseek.sketch import for_climbing
from modeseek.surrogate import Rho, Surrogate
from modeseek.typing import Refinement

POLISH_STEPS = 50
NEARBY, DISTANCES = 128, (-4, -0.5)  # points around others, and the powers of ten of how far they are


def pseudo_dataset(
    gp: Surrogate,
    *,
    m: int,
    K: int,
    rho: Rho,
    refine: Refinement,
    source: Randomness,
    domain: Domain = CUBE,
    apart: float | None = None,
    lean: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Refined inputs (b x m x d), rounded if asked, and their labels (b x m).

    `refine="point"` is Eq. 6: each point has its own direction and step size. "joint" refines the m points of an
    element as one vector with one step size, which keeps them apart where single runs would all end in one optimum.
    All of them are in the domain. With `apart`, an element goes only so far that most of its inputs are not
    closer than that to the best of them. `lean` moves some of the evenly spread points (b x m x d) that all begin with.
    """
    x = domain.sample(m, source, gp.X)
    x = x if lean is None else domain.repair(lean(x), x)
    if K > 0:
        end = refine_inputs(for_climbing(gp), x, K=K, rho=rho, refine=refine, domain=domain)
        x = end if apart is None else domain.keep(_part_of_the_way(gp, x, end, rho, apart), x)
    x = domain.snap(x)
    return x, gp.label(x, rho)


def _part_of_the_way(gp: Surrogate, start: Tensor, end: Tensor, rho: Rho, apart: float) -> Tensor:
    """The ends of climbs or, where these run together, points on the way there that are about `apart`: b x m x d."""
    before, after = spread(start, gp.label(start, rho)), spread(end, gp.label(end, rho))
    share = ((before - apart) / (before - after).clamp_min(1e-12)).clamp(0, 1)
    share = torch.where(after < apart, share, 1)[..., None, None]
    return torch.lerp(start, end, share)


def spread(x: Tensor, y: Tensor) -> Tensor:
    """How far most inputs (b x m x d) are from the one with the best label (b x m), in their farthest coordinate: b."""
    best = x.gather(-2, y.argmax(-1)[..., None, None].expand_as(x[..., :1, :]))
    return (x - best).abs().amax(-1).median(-1).values


def around(x: Tensor, chosen: Tensor, draws: Draws) -> Tensor:
    """NEARBY points of the cube, from very close to some of the inputs (b x n x d) to far from them: b x NEARBY x d.

    Args:
        chosen: b x n, which inputs.
        draws: for b rows.
    """
    *batch, _, d = x.shape
    order = chosen.double().argsort(dim=-1, descending=True, stable=True)
    turn = (draws.rand(NEARBY, dtype=x.dtype).view(*batch, NEARBY).to(x) * chosen.sum(-1, keepdim=True)).long()
    start = x.gather(-2, order.gather(-1, turn)[..., None].expand(*batch, NEARBY, d))
    distance = torch.logspace(*DISTANCES, NEARBY, dtype=x.dtype, device=x.device)[:, None]
    return (start + distance * draws.randn(NEARBY, d, dtype=x.dtype).view(*batch, NEARBY, d).to(x)).clamp(0, 1)


def polish(gp: Surrogate, x: Tensor, *, rho: Rho, domain: Domain = CUBE) -> Tensor:
    """The best optimum of μ + ρσ in the domain that climbs from x (b x s x d) end in: b x d.

    With rounding, its continuous coordinates are the optimum for its discrete ones, and those are some of x's or those
    of a climb that knows no rounding, whichever has the best label.
    """
    tops = refine_inputs(gp, x, K=POLISH_STEPS, rho=rho, domain=domain)
    if domain.rounding is not None:
        starts = domain.exact(torch.cat([x, tops], -2))
        tops = refine_inputs(gp, starts, K=POLISH_STEPS, rho=rho, free=domain.continuous, domain=domain)
    best = gp.label(tops, rho).nan_to_num(nan=-torch.inf).argmax(-1)[..., None, None]
    return tops.gather(-2, best.expand_as(tops[..., :1, :])).squeeze(-2)


def refine_inputs(
    gp: Surrogate,
    x: Tensor,
    *,
    K: int,
    rho: Rho,
    refine: Refinement = "point",
    free: Tensor | None = None,
    domain: Domain = CUBE,
) -> Tensor:
    """At most K steps of projected L-BFGS up μ + ρσ from x (b x m x d), in the domain (Eq. 6).

    Only coordinates that are `free` (d) move, all of them if None.
    """

    def descend(z: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = gp.label_and_grad(z, rho)
        return value.neg_(), grad.neg_()

    return domain.climb(descend, x, steps=K, free=free, joint=refine == "joint", record=gp.recordable)
