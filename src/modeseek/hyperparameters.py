"""Hyperparameters that the observations allow for, drawn from their posterior around the fit.

A fit keeps the one θ = (log ℓ, log τ) of highest density, and the best mean c for it. After few observations others are
nearly as probable, and what is said of the optimum would be too sure. Here θ is drawn from a Laplace approximation of
its posterior, and drawn again by importance, which corrects the approximation (sampling-importance resampling, Rubin
1988). Then a scale s of the outcomes, which the kernel takes to be 1: with y ~ N(c, s²(K + τI)) and the prior 1/s²,
(y − c)ᵀA(y − c)/s² is χ² with n − 1 degrees of freedom; and c, which given both is normal with variance s²/(1ᵀA1). In d
dimensions the maximum of a function lies far above what was observed, in units of s, so that its regret depends on s.

Notation as in surrogate.py; H draws, of M proposals.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.draws import Draws, Randomness
from modeseek.embedding import Embedding
from modeseek.lbfgs import lbfgs
from modeseek.surrogate import GP, Hyperparameters, NoisePrior, bounds_of_theta, log_posterior, posterior_of, theta_of

PROPOSALS = 4  # M over H
STEP = 1e-4  # of the differences that make the Hessian
WIDEST = 1.5  # standard deviation of a proposal in any direction, at most
FEW = 5  # with as many observations or fewer, the scale is left at 1
MOST_SCALE = 5.0  # and it is never larger, or smaller than one over it
AT_ONCE = 4e6  # entries of the matrices that are factorized together


class Several(NamedTuple):
    """Equally probable Gaussian processes for the same observations."""

    gp: GP  # H x b, of the outcomes over s
    scale: Tensor  # s, H x b


def draw_hyperparameters(gp: GP, count: int, source: Randomness) -> Several:
    """The Gaussian process with `count` draws of its hyperparameters, its scale and its mean."""
    X, y, d, prior = gp.X, gp.y, gp.X.shape[-1], gp.prior
    model = gp.embedding, prior, gp.known_noise
    batch = X.shape[:-2]
    draws = Draws.of(source, batch)
    centre = _most_probable(X, y, theta_of(gp.hyperparameters), *model)
    root = _root_of_covariance(X, y, centre, *model)
    z = draws.randn(count * PROPOSALS, d + 1, dtype=X.dtype).to(X).view(*batch, -1, d + 1)
    theta = (centre[..., None, :] + z @ root.mT).movedim(-2, 0)  # M x b x (d+1)
    lower, upper = bounds_of_theta(X, prior)
    inside = ((theta >= lower) & (theta <= upper)).all(-1)
    log_weight = _log_density(X, y, theta, *model)[0] + 0.5 * z.square().sum(-1).movedim(-1, 0)
    log_weight = torch.where(inside & log_weight.isfinite(), log_weight, -torch.inf)
    theta = torch.where(log_weight.isneginf().all(0)[..., None], centre, theta)  # none is of use
    chosen = _resample(log_weight, count, draws)
    theta = theta.gather(0, chosen[..., None].expand(*chosen.shape, d + 1))
    X, y = X.expand(count, *X.shape), y.expand(count, *y.shape)
    known = None if gp.known_noise is None else gp.known_noise.expand_as(y)
    hyperparameters = Hyperparameters(theta[..., :-1].exp(), theta[..., -1].exp())
    best = posterior_of(X, y, hyperparameters, embedding=gp.embedding, prior=prior, known_noise=known)
    normal = draws.randn(count, max(y.shape[-1] - 1, 1), dtype=X.dtype).to(X).view(*batch, count, -1)
    chi_square = normal.square().sum(-1).movedim(-1, 0)
    misfit = (best.alpha * (y - best.mean[..., None])).sum(-1)
    scale = (misfit / chi_square).sqrt() if y.shape[-1] > FEW else torch.ones_like(misfit)
    scale = scale.clamp(1 / MOST_SCALE, MOST_SCALE)
    error = draws.randn(count, dtype=X.dtype).to(X).view(*batch, count).movedim(-1, 0)
    spread = best.inverse.sum((-2, -1)).clamp_min(1e-12).rsqrt()
    return Several(best.with_outcomes(y / scale[..., None], best.mean / scale + spread * error), scale)


def _most_probable(
    X: Tensor, y: Tensor, start: Tensor, embedding: Embedding, prior: NoisePrior, known: Tensor | None
) -> Tensor:
    """The θ of highest density, b x (d+1); not where the fit ended, which is where that of ℓ and τ is highest."""
    n = y.shape[-1]

    def objective(theta: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = _log_density(X, y, theta, embedding, prior, known)
        return -value / n, -grad / n

    return lbfgs(objective, start, *bounds_of_theta(X, prior), steps=50, first_move=0.5, gtol=1e-3, ftol=1e-6).x


def _log_density(
    X: Tensor, y: Tensor, theta: Tensor, embedding: Embedding, prior: NoisePrior, known: Tensor | None
) -> tuple[Tensor, Tensor]:
    """log p(θ | y) up to a constant and its gradient at θ, ... x b x (d+1): ... x b, ... x b x (d+1).

    Of θ itself, where `log_posterior` has the density of ℓ and τ.
    """
    if theta.ndim < X.ndim:
        value, grad = log_posterior(X, y, theta, embedding, prior, known)
    else:
        size = max(int(AT_ONCE // (y.numel() * y.shape[-1])), 1)
        parts = [log_posterior(X, y, some, embedding, prior, known) for some in theta.split(size)]
        value, grad = (torch.cat(part) for part in zip(*parts, strict=True))
    return value + theta.sum(-1), grad + 1


def _root_of_covariance(
    X: Tensor, y: Tensor, theta: Tensor, embedding: Embedding, prior: NoisePrior, known: Tensor | None
) -> Tensor:
    """A square root of the inverse of −∇² log p at θ (b x (d+1)): b x (d+1) x (d+1)."""
    step = STEP * torch.eye(theta.shape[-1], dtype=theta.dtype, device=theta.device)
    step = step.view(-1, *[1] * (theta.ndim - 1), theta.shape[-1])
    slopes = [_log_density(X, y, theta + sign * step, embedding, prior, known)[1] for sign in (-1, 1)]
    precision = ((slopes[0] - slopes[1]) / (2 * STEP)).movedim(0, -2).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    values, vectors = torch.linalg.eigh((precision + precision.mT) / 2)
    root: Tensor = vectors * values.clamp_min(WIDEST**-2).rsqrt()[..., None, :]
    return root


def _resample(log_weight: Tensor, count: int, draws: Draws) -> Tensor:
    """Indices (count x b) of proposals by their weights (M x b), systematically: one random number per element."""
    weight = (log_weight - log_weight.amax(0).nan_to_num(neginf=0.0)).exp()
    total = weight.sum(0)
    weight = torch.where(total > 0, weight, 1.0)
    cumulative = (weight.cumsum(0) / weight.sum(0)).movedim(0, -1).contiguous()
    shift = draws.rand(1, dtype=weight.dtype).to(weight).view(*weight.shape[1:], 1)
    at = (torch.arange(count, dtype=weight.dtype, device=weight.device) + shift) / count
    return torch.searchsorted(cumulative, at.contiguous()).clamp_max(len(weight) - 1).movedim(-1, 0)
