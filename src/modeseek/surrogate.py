"""The surrogate: a Gaussian process with a constant mean and closed-form gradients.

The model is the one of BoTorch's `SingleTaskGP` (and so of the paper, App. B.3, and Hvarfner et al. 2024):

    k(x, x') = exp(−½ Σ_i (x_i − x'_i)² / ℓ_i²),    y = f(x) + ε,    ε ~ N(0, τ),    constant mean c

but that κ may be another one (kernels.py; a length-scale per parameter in any case), and that τ may have another prior
(priors.py). How ℓ and τ are found is in map_fit.py.

Notation (b is any number of leading batch dimensions; every element is a GP of its own)
    X    b x n x d   inputs on the unit cube        ℓ   b x d    length-scales
    y    b x n       standardized outcomes          τ   b        noise variance
    x    b x m x d   where the posterior is wanted  c   b        mean
    A    b x n x n   (K + τI)⁻¹                     α   b x n    A (y − c)

Where some parameters are choices, or exist only under one, the x_i are the features of embedding.py, of which those of
one parameter share its ℓ; X and x are points of the cube all the same.

Where the noise of an observation is known, it takes the place of τ there: K + Λ, Λ = diag(λ_1, ..., λ_n), stands for
K + τI, and λ, b x n, is NaN where the noise is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from modeseek.embedding import PLAIN, Embedding
from modeseek.linalg import bordered, inverse_of, with_diagonal
from modeseek.priors import LOG_NORMAL, Hyperparameters, NoisePrior, prior_mode

MANY = 500  # observations; with more, docs/speed.md has what is saved, and what changes
LEAST_NOISE_OF_MANY = 1e-6  # a variance; with less the inverse for so many has rounding errors that show
MIN_VARIANCE = 1e-12  # under it the posterior variance is rounding error

Rho: TypeAlias = float | Tensor  # the weight of σ, one for all or b x 1


class Surrogate(Protocol):
    """What the rest of the algorithm needs to know of a model: its data, its labels and their gradients."""

    @property
    def X(self) -> Tensor:  # noqa: N802
        """Observed inputs, b x n x d; their shape, type and device are those of the work to be done."""

    @property
    def y(self) -> Tensor:
        """Their standardized outcomes, b x n."""

    @property
    def recordable(self) -> bool:
        """Whether its labels and gradients can be computed within a CUDA graph."""

    def label(self, x: Tensor, rho: Rho) -> Tensor:
        """What an input is worth, μ + ρσ, at x (b x m x d): b x m."""

    def label_and_grad(self, x: Tensor, rho: Rho) -> tuple[Tensor, Tensor]:
        """The label at x (b x m x d) and its gradient there: b x m, b x m x d."""


class Given(NamedTuple):
    """What a Gaussian process takes for given."""

    embedding: Embedding = PLAIN
    prior: NoisePrior = LOG_NORMAL
    known_noise: Tensor | None = None  # λ, b x n

    def on(self, some: Tensor) -> Given:
        """For these of the observations, indices b x k."""
        known = self.known_noise
        return self if known is None else self._replace(known_noise=known.gather(-1, some))

    def with_fitted_noise(self, more: Tensor) -> Given:
        """For more observations (b x p), whose noise is not known."""
        known = self.known_noise
        return (
            self
            if known is None
            else self._replace(known_noise=torch.cat([known, torch.full_like(more, torch.nan)], -1))
        )


USUAL = Given()


def least_noise(n: int, otherwise: float) -> float:
    """The least variance of the noise that a process on n observations takes."""
    return max(otherwise, LEAST_NOISE_OF_MANY) if n > MANY else otherwise


class Moments(NamedTuple):
    """The posterior of f at x (b x m x d), with what its gradient needs."""

    mu: Tensor  # b x m
    sigma: Tensor  # b x m
    k: Tensor  # b x m x n, k(x, X)
    v: Tensor  # b x m x n, A k(x)
    decay: Tensor  # b x m x n, −κ' of the same pairs; the squared exponential's is k itself


@dataclass(frozen=True)
class GP:
    """A fitted Gaussian process; see the module's notation for the shapes."""

    X: Tensor
    y: Tensor
    hyperparameters: Hyperparameters
    mean: Tensor
    alpha: Tensor
    inverse: Tensor
    fit_failed: Tensor  # b, the elements that fell back to prior hyperparameters
    evaluations: int = 0  # calls of the MAP objective that the fit took
    given: Given = USUAL
    recordable = True

    @property
    def noise(self) -> Tensor:
        """The noise variance of each observation, b x n."""
        return noise_of(self.hyperparameters.noise, self.given.known_noise, self.y)

    def kernel(self, x: Tensor, X: Tensor) -> Tensor:  # noqa: N803
        """k(x, X), b x m x n, for points of the cube."""
        return self.alike(x, X)[0]

    def alike(self, x: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803
        """k(x, X) and its decay, each b x m x n, for points of the cube."""
        return self.given.embedding.alike(x, X, self.hyperparameters.lengthscale)

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and standard deviation of f at x (b x m x d), each b x m."""
        at = self.moments(x)
        return at.mu, at.sigma

    def label(self, x: Tensor, rho: Rho) -> Tensor:
        """The balance-aware label μ + ρσ (Eq. 5) at x (b x m x d), b x m."""
        mu, sigma = self.posterior(x)
        return mu + rho * sigma

    def label_and_grad(self, x: Tensor, rho: Rho) -> tuple[Tensor, Tensor]:
        """μ + ρσ at x (b x m x d) and its gradient there: b x m, b x m x d."""
        at = self.moments(x)
        return at.mu + rho * at.sigma, self.grad(x, at, rho)

    def moments(self, x: Tensor) -> Moments:
        """The posterior at x (b x m x d). Its only product of order m·n² is v; the gradient has none."""
        k, decay = self.alike(x, self.X)
        v = k @ self.inverse
        mu = self.mean[..., None] + (k @ self.alpha[..., None]).squeeze(-1)
        variance = 1 - torch.linalg.vecdot(k, v)
        return Moments(mu, variance.clamp_min(MIN_VARIANCE).sqrt(), k, v, decay)

    def grad(self, x: Tensor, at: Moments, rho: Rho) -> Tensor:
        """∇μ + ρ∇σ at x, b x m x d. Overwrites `at.v`.

        With v = A k(x), σ² = 1 − kᵀv, so ∂(μ + ρσ)/∂k = α − ρ v/σ; and ∂k_i/∂x as in `slope`.
        """
        weights = at.v.mul_((-rho / at.sigma)[..., None]).add_(self.alpha[..., None, :]).mul_(at.decay)
        return self.slope(x, (weights, self.X))

    def grad_by(self, x: Tensor, at: Moments, by_mean: Tensor, by_sigma: Tensor) -> Tensor:
        """by_mean ∇μ + by_sigma ∇σ at x (b x m x d), with these weights b x m: b x m x d. As in `grad`."""
        weights = by_mean[..., None] * self.alpha[..., None, :] - (by_sigma / at.sigma)[..., None] * at.v
        return self.slope(x, (weights.mul_(at.decay), self.X))

    def slope(self, x: Tensor, *sums: tuple[Tensor, Tensor]) -> Tensor:
        """The gradient of Σ_i w_i k(x, X_i) at x, b x m x d; ∂k_i/∂x = −κ'_i (X_i − x)/ℓ².

        Args:
            sums: pairs of −w_i κ'_i, b x m x n, and X, b x n x d; their gradients are added.
        """
        embedding = self.given.embedding
        z = embedding(x)
        pull = sum((w @ embedding(X) - w.sum(-1, keepdim=True) * z for w, X in sums), torch.zeros_like(z))
        lengthscale = embedding.spread(self.hyperparameters.lengthscale)
        return embedding.pull_back(pull / lengthscale[..., None, :].square(), x)

    def with_outcomes(self, y: Tensor, mean: Tensor) -> GP:
        """This GP with other outcomes at the same inputs, b x n, and another constant mean, b."""
        alpha = (self.inverse @ (y - mean[..., None])[..., None]).squeeze(-1)
        return replace(self, y=y, mean=mean, alpha=alpha)

    def condition(self, x: Tensor) -> GP:
        """This GP with x (b x p x d) observed at its posterior mean: how pending points enter."""
        at = self.moments(x)
        X, y = torch.cat([self.X, x], -2), torch.cat([self.y, at.mu], -1)
        given = self.given.with_fitted_noise(at.mu)
        if self.X.shape[-2] > MANY and self.given.prior.least >= LEAST_NOISE_OF_MANY:
            corner = with_diagonal(self.kernel(x, x), self.hyperparameters.noise[..., None])
            inverse = bordered(self.inverse, at.k, at.v, corner)
            alpha = torch.cat([self.alpha, torch.zeros_like(at.mu)], -1)  # what is expected changes no expectation
            return replace(self, X=X, y=y, alpha=alpha, inverse=inverse, given=given)
        conditioned = posterior_of(X, y, self.hyperparameters, self.mean, given)
        return replace(conditioned, fit_failed=self.fit_failed | conditioned.fit_failed, evaluations=self.evaluations)


@dataclass(frozen=True)
class OnGP:
    """What functions of a Gaussian process have in common for those that climb them."""

    gp: GP
    recordable = True

    @property
    def X(self) -> Tensor:  # noqa: N802
        """Observed inputs, b x n x d."""
        return self.gp.X

    @property
    def y(self) -> Tensor:
        """Their outcomes, b x n."""
        return self.gp.y

    def chain(self, x: Tensor, at: Moments, by_mu: Tensor, by_variance: Tensor, less: float | Tensor = 0.0) -> Tensor:
        """The gradient of a function of μ and σ² at x (b x m x d) from its derivatives in them, b x m each.

        ∂/∂k = ∂/∂μ α − 2 ∂/∂σ² v, as in `GP.grad`, less `less` (b x m x n) for what else depends on k.
        """
        weights = by_mu[..., None] * self.gp.alpha[..., None, :] - 2 * by_variance[..., None] * at.v - less
        return self.gp.slope(x, (weights.mul_(at.decay), self.X))


def noise_of(noise: Tensor, known: Tensor | None, y: Tensor) -> Tensor:
    """The noise variance of each observation: τ (b), or λ (b x n) where that is known; b x n."""
    every = noise[..., None].expand(*noise.shape, y.shape[-1])
    return every if known is None else torch.where(known.isnan(), every, known)


def posterior_of(
    X: Tensor,
    y: Tensor,
    hyperparameters: Hyperparameters,
    mean: Tensor | None = None,
    given: Given = USUAL,
) -> GP:
    """The GP on (X, y) with these hyperparameters, or with the prior's mode where no jitter makes them work."""
    chol, failed = _factorize(X, y, hyperparameters, given)
    if bool(failed.any()):
        mode = prior_mode(X, given.prior)
        hyperparameters = Hyperparameters(
            torch.where(failed[..., None], mode[..., :-1].exp(), hyperparameters.lengthscale),
            torch.where(failed, mode[..., -1].exp(), hyperparameters.noise),
        )
        chol, _ = _factorize(X, y, hyperparameters, given)
    inverse = inverse_of(chol)
    mean = best_mean(inverse, y) if mean is None else mean
    alpha = (inverse @ (y - mean[..., None])[..., None]).squeeze(-1)
    return GP(X, y, hyperparameters, mean, alpha, inverse, failed, given=given)


def _factorize(X: Tensor, y: Tensor, hyperparameters: Hyperparameters, given: Given) -> tuple[Tensor, Tensor]:
    """Cholesky factor of K + τI (b x n x n), jitter growing tenfold in elements that need it; and which failed (b)."""
    noise = noise_of(hyperparameters.noise, given.known_noise, y)
    added, jitter = torch.zeros_like(hyperparameters.noise), 1e-8
    lengthscale = hyperparameters.lengthscale
    chol, info = torch.linalg.cholesky_ex(with_diagonal(given.embedding.alike(X, X, lengthscale)[0], noise))
    while bool((info != 0).any()) and jitter <= 1e-2:
        added = torch.where(info != 0, jitter, added)
        K = with_diagonal(given.embedding.alike(X, X, lengthscale)[0], noise + added[..., None])
        chol, info = torch.linalg.cholesky_ex(K)
        jitter *= 10
    return chol, info != 0


def best_mean(A: Tensor, y: Tensor) -> Tensor:
    """The c of highest likelihood, b, for A (b x n x n) and y (b x n)."""
    weights = A.sum(-1)
    return (weights * y).sum(-1) / weights.sum(-1)
