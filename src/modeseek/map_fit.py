"""Fitting the surrogate by MAP (Algorithm 1, line 4): the ℓ and τ of highest posterior density, and the best mean.

The mean needs no search: for given ℓ and τ the objective is maximal at c = 1ᵀA y / 1ᵀA 1.

The search costs n³ per evaluation. With more than MANY observations it has its starts on FEW of them and its end on
ENOUGH of them, spread evenly over the ranks of the outcomes, best and worst included; the posterior has them all.

Notation as in surrogate.py; θ = (log ℓ, log τ), b x (d+1).
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from modeseek.kernels import half_squares
from modeseek.lbfgs import Minimum, lbfgs
from modeseek.linalg import inverse_of, with_diagonal
from modeseek.priors import (
    LENGTHSCALE_SCALE,
    Hyperparameters,
    bounds_of_theta,
    cold_starts,
    lengthscale_loc,
    prior_mode,
    theta_of,
)
from modeseek.surrogate import GP, MANY, MIN_VARIANCE, USUAL, Given, best_mean, noise_of, posterior_of

FIT_STEPS = 200  # of L-BFGS, at most
FEW, ENOUGH = 300, 1000  # observations; docs/speed.md has what this saves and changes
LAST_STEPS, LAST_FTOL = 20, 1e-5  # of L-BFGS on ENOUGH observations; which those are makes more of a difference
WARM_STEPS = 6  # the same where the last fit's end is among the starts, from which the next fit goes on


def fit(
    X: Tensor,
    y: Tensor,
    warm: Hyperparameters | None = None,
    steps: int = FIT_STEPS,
    given: Given = USUAL,
) -> GP:
    """Fit by MAP (Algorithm 1, line 4): X is b x n x d on the unit cube, y is b x n standardized.

    The objective has local optima, so the search has several starts and the best end wins. A first fit starts at the
    mode of the prior, where BoTorch starts, at its median, and at short length-scales; a later one at the mode and
    where the last fit ended. An element without any finite end keeps the mode, and says so in `fit_failed`.
    """
    mode = prior_mode(X, given.prior)
    end = (_search_all if X.shape[-2] <= MANY else _search_some)(X, y, warm, steps, given)
    ok = end.value.isfinite() & end.x.isfinite().all(-1)
    best = torch.where(ok, end.value, torch.inf).argmin(0)
    found = end.x.gather(0, best[None, ..., None].expand(1, *mode.shape))[0]
    failed = ~ok.any(0)
    theta = torch.where(failed[..., None], mode, found)
    hyperparameters = Hyperparameters(theta[..., :-1].exp(), theta[..., -1].exp())
    gp = posterior_of(X, y, hyperparameters, given=given)
    return replace(gp, fit_failed=failed | gp.fit_failed, evaluations=end.evaluations)


def _search_all(X: Tensor, y: Tensor, warm: Hyperparameters | None, steps: int, given: Given) -> Minimum:
    """The ends of the search on all observations: starts x b x (d+1)."""
    prior = given.prior
    starts = cold_starts(X, prior) if warm is None else torch.stack([prior_mode(X, prior), theta_of(warm)])
    return _search(X, y, starts, given, steps)


def _search_some(X: Tensor, y: Tensor, warm: Hyperparameters | None, steps: int, given: Given) -> Minimum:
    """The end of the search on ENOUGH observations: 1 x b x (d+1).

    It starts at the best, by those, of where searches on FEW have ended, and of where the last fit has.
    """
    few, enough = evenly(X, y, FEW), evenly(X, y, ENOUGH)
    of_few, of_enough = (given.on(ranked(y, size)) for size in (FEW, ENOUGH))
    starts = cold_starts(X, given.prior) if warm is None else prior_mode(X, given.prior)[None]
    found = _search(*few, starts, of_few, steps)
    ends = found.x if warm is None else torch.cat([found.x, theta_of(warm)[None]])
    value = log_posterior(*enough, ends, of_enough)[0].nan_to_num(nan=-torch.inf)
    start = ends.gather(0, value.argmax(0)[None, ..., None].expand(1, *ends.shape[1:]))
    last = min(steps, LAST_STEPS if warm is None else WARM_STEPS)
    end = _search(*enough, start, of_enough, last, ftol=LAST_FTOL)
    return end._replace(evaluations=found.evaluations + 1 + end.evaluations)


def evenly(X: Tensor, y: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """As many observations, evenly over the ranks of the outcomes: b x size x d, b x size."""
    if size >= y.shape[-1]:
        return X, y
    chosen = ranked(y, size)
    return X.gather(-2, chosen[..., None].expand(*chosen.shape, X.shape[-1])), y.gather(-1, chosen)


def ranked(y: Tensor, size: int) -> Tensor:
    """Which observations `evenly` takes, in their order: b x size, or all."""
    n = y.shape[-1]
    ranks = torch.linspace(0, n - 1, min(size, n), dtype=torch.float64, device=y.device).round().long()
    return y.argsort(dim=-1, stable=True)[..., ranks].sort(-1).values


def evidence(X: Tensor, y: Tensor, given: Given = USUAL) -> Tensor:
    """How well a GP explains y (b x n): log p(y | X, θ) + log p(θ) where a search from the prior's mode ends, b.

    With one θ for the integral over all, which is enough to tell two shapes of the same outcomes apart.
    """
    start = prior_mode(X, given.prior).expand(*y.shape[:-1], -1)
    return -_search(X, y, start, given).value * y.shape[-1]


def _search(X: Tensor, y: Tensor, starts: Tensor, given: Given, steps: int = FIT_STEPS, ftol: float = 1e-7) -> Minimum:
    """Minimize the negative log posterior an observation from each start, ... x b x (d+1)."""
    n = y.shape[-1]

    def objective(theta: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = log_posterior(X, y, theta, given)
        return -value / n, -grad / n

    bounds = bounds_of_theta(X, given.prior)
    return lbfgs(objective, starts, *bounds, steps=steps, first_move=0.5, gtol=1e-4, ftol=ftol)


def log_posterior(
    X: Tensor, y: Tensor, theta: Tensor, given: Given = USUAL, any_scale: bool = False
) -> tuple[Tensor, Tensor]:
    """log p(y | X, θ) + log p(θ) at θ = (log ℓ, log τ), b x (d+1), with the best c; and its gradient in θ.

    The priors are densities of ℓ and τ themselves, as in GPyTorch, so their maximum is the same in any
    parametrization. For the likelihood ∂/∂θ_i = ½ tr[(ααᵀ − A) ∂K/∂θ_i], and ∂K/∂log ℓ_i = −κ' ∘ (X_i − X'_i)²/ℓ_i².
    With G = −(ααᵀ − A) ∘ κ' the trace is 2 Σ_j (G1)_j X_ji² − 2 (XᵀGX)_ii, so no n x n x d tensor is ever made.

    With `any_scale`, y ~ N(c, s²(K + τI)) with c and s integrated out (priors 1 and 1/s): for Q = (y − c)ᵀα, twice
    −log p(y | X, θ) is (n − 1) log Q + log |K + τI| + log 1ᵀA1 and a constant, so that α counts times √((n − 1)/Q) and
    (A1)(A1)ᵀ/1ᵀA1 is added to G.
    """
    d, n, (embedding, prior, known) = X.shape[-1], X.shape[-2], given
    lengthscale, noise = theta[..., :-1].exp(), theta[..., -1].exp()
    Z, each = embedding(X), embedding.spread(lengthscale)
    K, decay = embedding.kernel.value_and_decay(half_squares(Z, Z, each))
    chol, info = torch.linalg.cholesky_ex(with_diagonal(K.clone(), noise_of(noise, known, y)))
    A = inverse_of(chol)
    mean = best_mean(A, y)
    residual = y - mean[..., None]
    alpha = (A @ residual[..., None]).squeeze(-1)

    log_det = 2 * chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    misfit = (residual * alpha).sum(-1)
    if any_scale:
        weights = A.sum(-1)
        scale = (misfit / max(n - 1, 1)).clamp_min(MIN_VARIANCE)
        alpha = alpha / scale.sqrt()[..., None]
        misfit = (n - 1) * (1 + scale.log()) + weights.sum(-1).log()
        A = A - weights[..., :, None] * (weights / weights.sum(-1, keepdim=True))[..., None, :]
    value = -0.5 * (misfit + log_det + n * math.log(2 * math.pi))
    G = (alpha[..., :, None] * alpha[..., None, :]).sub_(A).mul_(decay)  # in place: making a large matrix costs as well
    centred = Z - 0.5
    quadratic = (G.sum(-1)[..., None] * centred.square()).sum(-2) - (centred * (G @ centred)).sum(-2)
    grad_lengthscale = embedding.total(quadratic / each.square())
    by_noise = alpha.square() - A.diagonal(dim1=-2, dim2=-1)
    grad_noise = 0.5 * noise * (by_noise if known is None else by_noise * known.isnan()).sum(-1)

    z_lengthscale = (theta[..., :-1] - lengthscale_loc(d)) / LENGTHSCALE_SCALE
    of_noise, slope = prior.log_density(theta[..., -1])
    constant = d * (math.log(LENGTHSCALE_SCALE) + 0.5 * math.log(2 * math.pi))
    value = value - (0.5 * z_lengthscale.square() + theta[..., :-1]).sum(-1) - constant + of_noise
    grad_lengthscale = grad_lengthscale - z_lengthscale / LENGTHSCALE_SCALE - 1
    grad_noise = (grad_noise + slope)[..., None]
    return value.masked_fill(info != 0, -torch.inf), torch.cat([grad_lengthscale, grad_noise], -1)
