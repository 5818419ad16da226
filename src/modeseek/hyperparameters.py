"""Hyperparameters that the observations allow for, drawn from their posterior.

A fit keeps the one θ = (log ℓ, log τ) of highest density, the best mean c for it, and takes the scale s of the outcomes
to be 1. After few observations others are nearly as probable, and what is said of the optimum would be too sure: in d
dimensions the maximum of a function lies far above what was observed, in units of s, and ℓ and s make up for one
another. So y ~ N(c, s²(K + τI)), with priors 1 of c and 1/s of s, and θ, s and c are drawn together:

    θ   from its posterior with c and s integrated out: proposals of Laplace approximations at its hills, drawn again
        by importance (Rubin 1988), which start chains of Hamiltonian Monte Carlo (Neal 2011), a chain per draw
    s   given θ: (y − c)ᵀA(y − c)/s² is χ² with n − 1 degrees of freedom
    c   given both: normal with variance s²/(1ᵀA1)

Noise that is known does not grow with s: where some is, s stays 1, and θ alone says how sure we are.

The prior of the fit, log ℓ_i ~ N(√2 + ½ log d, 3) for each parameter by itself, makes it all but impossible that a
function has hills along all of its parameters: those with ℓ_i < 0.6 √d for each of ten have a probability of 2e-9. A
fit is the better for it, but where observations are too few to contradict it, what is said of the optimum is too sure.
Draws therefore have a mixture: HILLY of all functions have log ℓ_i ~ N(log HILL √d, HILL_SPREAD²) instead.

Notation as in surrogate.py; H draws, of M proposals; C hills; z = R⁻¹(θ − a hill's top), RRᵀ its covariance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.draws import Draws, Randomness
from modeseek.lbfgs import Objective, lbfgs
from modeseek.map_fit import log_posterior
from modeseek.priors import (
    LENGTHSCALE_SCALE,
    Hyperparameters,
    bounds_of_theta,
    cold_starts,
    lengthscale_loc,
    theta_of,
)
from modeseek.surrogate import GP, Given, posterior_of

PROPOSALS = 4  # M over H
STEP = 1e-4  # of the differences that make the Hessian
WIDEST = 2.0  # standard deviation of a proposal in any direction, at most; that of the prior of log ℓ is √3
MOVES, LEAPS = 8, 4  # of a chain, and gradients per move
LEAP = (0.1, 0.7)  # shortest and longest, in units of z
FEW = 5  # with as many observations or fewer, the scale is left at 1
MOVED = 200  # observations that determine the hyperparameters so well that importance is enough
HILLY = 0.25  # probability that a function has hills along all of its parameters
HILL, HILL_SPREAD = 1 / 3, 0.75  # ℓ/√d of such functions: its median, and the standard deviation of its logarithm
MOST_SCALE = 100.0  # and it is never larger, or smaller than one over it
AT_ONCE = 4e6  # entries of the matrices that are factorized together


class Several(NamedTuple):
    """Equally probable Gaussian processes for the same observations."""

    gp: GP  # H x b, of the outcomes over s
    scale: Tensor  # s, H x b


def draw_hyperparameters(gp: GP, count: int, source: Randomness) -> Several:
    """The Gaussian process with `count` draws of its hyperparameters, its scale and its mean."""
    X, y, d = gp.X, gp.y, gp.X.shape[-1]
    batch = X.shape[:-2]
    draws = Draws.of(source, batch)
    known = gp.given.known_noise
    any_scale = y.shape[-1] > FEW and known is None
    density = _Density(X, y, gp.given, any_scale)
    hills = density.hills(theta_of(gp.hyperparameters))
    C, M = len(hills.centre), count * PROPOSALS
    z = draws.randn(M, d + 1, dtype=X.dtype).to(X).view(*batch, M, d + 1).movedim(-2, 0)
    proposals = hills.of(torch.arange(M, device=X.device) % C)
    log_weight = density(proposals.theta(z))[0] - hills.log_density(proposals.theta(z))
    chosen = _resample(log_weight, count, draws)
    hills, z = proposals.gather(chosen), z.gather(0, chosen[..., None].expand(*chosen.shape, d + 1))
    z = torch.where(log_weight.isneginf().all(0)[..., None], 0.0, z)  # none is of use
    if y.shape[-1] <= MOVED:
        z = _move(density, hills, z, draws)
    theta = hills.theta(z)
    X, y = X.expand(count, *X.shape), y.expand(count, *y.shape)
    given = gp.given if known is None else gp.given._replace(known_noise=known.expand_as(y))
    hyperparameters = Hyperparameters(theta[..., :-1].exp(), theta[..., -1].exp())
    best = posterior_of(X, y, hyperparameters, given=given)
    normal = draws.randn(count, max(y.shape[-1] - 1, 1), dtype=X.dtype).to(X).view(*batch, count, -1)
    chi_square = normal.square().sum(-1).movedim(-1, 0)
    misfit = (best.alpha * (y - best.mean[..., None])).sum(-1)
    scale = (misfit / chi_square).sqrt() if any_scale else torch.ones_like(misfit)
    scale = scale.clamp(1 / MOST_SCALE, MOST_SCALE)
    error = draws.randn(count, dtype=X.dtype).to(X).view(*batch, count).movedim(-1, 0)
    spread = best.inverse.sum((-2, -1)).clamp_min(1e-12).rsqrt()
    return Several(best.with_outcomes(y / scale[..., None], best.mean / scale + spread * error), scale)


class _Density:
    """log p(θ | y) up to a constant, of θ itself, where `log_posterior` has the density of ℓ and τ."""

    def __init__(self, X: Tensor, y: Tensor, given: Given, any_scale: bool) -> None:
        self.data, self.given = (X, y), given
        self.bounds = bounds_of_theta(X, given.prior)
        self.any_scale = any_scale

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """At θ, ... x b x (d+1), and its gradient: ... x b, ... x b x (d+1); −∞ out of bounds."""
        X, y = self.data
        lower, upper = self.bounds
        inside = ((theta >= lower) & (theta <= upper)).all(-1)
        theta = torch.minimum(torch.maximum(theta, lower), upper)  # what is further off need not factorize
        size = max(int(AT_ONCE // (y.numel() * y.shape[-1])), 1)
        parts = theta.split(size) if theta.ndim >= X.ndim else (theta,)
        found = [log_posterior(X, y, some, self.given, self.any_scale) for some in parts]
        value, grad = found[0] if len(found) == 1 else (torch.cat(part) for part in zip(*found, strict=True))
        inside = inside & value.isfinite() & grad.isfinite().all(-1)
        hilly, slope = _hilly(theta[..., :-1])
        value = torch.where(inside, value + theta.sum(-1) + hilly, -torch.inf)
        slope = torch.cat([slope, torch.zeros_like(slope[..., :1])], -1)
        return value, torch.where(inside[..., None], grad + 1 + slope, 0.0)

    def hills(self, start: Tensor) -> _Hills:
        """Where searches from θ (b x (d+1)) and from the starts of a fit end, and how wide it is there.

        A fit whose scale is 1 ends where ℓ is short and τ large to make up for it, often far from most of the mass.
        """
        (X, y), prior = self.data, self.given.prior
        n = y.shape[-1]

        def objective(theta: Tensor) -> tuple[Tensor, Tensor]:
            value, grad = self(theta)
            return -value / n, -grad / n

        starts = torch.cat([start[None], cold_starts(X, prior)[1:]])
        end = lbfgs(objective, starts, *self.bounds, steps=50, first_move=0.5, gtol=1e-3, ftol=1e-6).x
        step = STEP * torch.eye(end.shape[-1], dtype=end.dtype, device=end.device)
        step = step.view(-1, *[1] * (end.ndim - 1), end.shape[-1])
        lower, upper = self.bounds
        inside = torch.minimum(torch.maximum(end, lower + 2 * STEP), upper - 2 * STEP)
        # One hill after the other: of many observations the matrices of one are as many as fit into memory.
        slopes = [torch.stack([self(one + sign * step[:, 0])[1] for one in inside], 1) for sign in (-1, 1)]
        precision = ((slopes[0] - slopes[1]) / (2 * STEP)).movedim(0, -2)
        values, vectors = torch.linalg.eigh((precision + precision.mT) / 2)
        return _Hills(end, vectors, values.clamp_min(WIDEST**-2).rsqrt())


def _hilly(log_lengthscale: Tensor) -> tuple[Tensor, Tensor]:
    """log of the mixture over the fit's prior of ℓ at log ℓ, ... x b x d, and its gradient: ... x b, ... x b x d."""
    d = log_lengthscale.shape[-1]
    smooth = (log_lengthscale - lengthscale_loc(d)) / LENGTHSCALE_SCALE
    hilly = (log_lengthscale - math.log(HILL * math.sqrt(d))) / HILL_SPREAD
    odds = 0.5 * (smooth.square() - hilly.square()).sum(-1) + d * math.log(LENGTHSCALE_SCALE / HILL_SPREAD)
    odds = odds + math.log(HILLY / (1 - HILLY))
    slope = (smooth / LENGTHSCALE_SCALE - hilly / HILL_SPREAD) * odds.sigmoid()[..., None]
    return math.log(1 - HILLY) + torch.nn.functional.softplus(odds), slope


class _Hills(NamedTuple):
    """Normal distributions of θ, C x b: θ = centre + R z with R = vectors diag(widths)."""

    centre: Tensor  # C x b x (d+1)
    vectors: Tensor  # C x b x (d+1) x (d+1)
    widths: Tensor  # C x b x (d+1)

    def of(self, index: Tensor) -> _Hills:
        """Those with these indices."""
        return _Hills(*(part[index] for part in self))

    def gather(self, index: Tensor) -> _Hills:
        """Those with these indices (K x b), one of each element's own."""
        parts = (
            part.gather(0, index[(..., *[None] * (part.ndim - index.ndim))].expand(-1, *part.shape[1:]))
            for part in self
        )
        return _Hills(*parts)

    def theta(self, z: Tensor) -> Tensor:
        """θ of z, each C x b x (d+1)."""
        return self.centre + (self.vectors @ (self.widths * z)[..., None])[..., 0]

    def pull_back(self, grad: Tensor) -> Tensor:
        """The gradient in z from that in θ, each C x b x (d+1)."""
        return self.widths * (self.vectors.mT @ grad[..., None])[..., 0]

    def log_density(self, theta: Tensor) -> Tensor:
        """Of all C, equally probable, at θ (M x b x (d+1)), up to a constant: M x b."""
        away = (theta[:, None] - self.centre)[..., None]  # M x C x b x (d+1) x 1
        z = (self.vectors.mT @ away)[..., 0] / self.widths
        return (-0.5 * z.square().sum(-1) - self.widths.log().sum(-1)).logsumexp(1)


def _move(density: Objective, hills: _Hills, z: Tensor, draws: Draws) -> Tensor:
    """z (H x b x D) after MOVES of Hamiltonian Monte Carlo, in units of the hill that each started from."""

    def at(z: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = density(hills.theta(z))
        return value, hills.pull_back(grad)

    H, *batch, D = z.shape
    value, grad = at(z)
    for _ in range(MOVES):
        momentum = draws.randn(H, D, dtype=z.dtype).to(z).view(*batch, H, D).movedim(-2, 0)
        uniform = draws.rand(2, H, dtype=z.dtype).to(z).view(*batch, 2, H).movedim((-2, -1), (0, 1))
        leap = (LEAP[0] + (LEAP[1] - LEAP[0]) * uniform[0])[..., None]
        x, p, slope = z, momentum, grad
        for _ in range(LEAPS):
            p = p + 0.5 * leap * slope
            x = x + leap * p
            end, slope = at(x)
            p = p + 0.5 * leap * slope
        gain = end - value - 0.5 * (p.square() - momentum.square()).sum(-1)
        accepted = uniform[1].log() < gain.nan_to_num(nan=-torch.inf)
        value = torch.where(accepted, end, value)
        z, grad = (torch.where(accepted[..., None], new, old) for new, old in ((x, z), (slope, grad)))
    return z


def _resample(log_weight: Tensor, count: int, draws: Draws) -> Tensor:
    """Indices (count x b) of proposals by their weights (M x b), systematically: one random number per element."""
    weight = (log_weight - log_weight.amax(0).nan_to_num(neginf=0.0)).exp()
    total = weight.sum(0)
    weight = torch.where(total > 0, weight, 1.0)
    cumulative = (weight.cumsum(0) / weight.sum(0)).movedim(0, -1).contiguous()
    shift = draws.rand(1, dtype=weight.dtype).to(weight).view(*weight.shape[1:], 1)
    at = (torch.arange(count, dtype=weight.dtype, device=weight.device) + shift) / count
    return torch.searchsorted(cumulative, at.contiguous()).clamp_max(len(weight) - 1).movedim(-1, 0)
