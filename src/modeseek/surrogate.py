"""The surrogate: a Gaussian process with a constant mean, fitted by MAP, with closed-form gradients.

The model is the one of BoTorch's `SingleTaskGP` (and so of the paper, App. B.3, and Hvarfner et al. 2024):

    k(x, x') = exp(−½ Σ_i (x_i − x'_i)² / ℓ_i²),    y = f(x) + ε,    ε ~ N(0, τ)
    ℓ_i ~ LogNormal(√2 + ½ ln d, √3),  ℓ_i ≥ 0.025;      τ ~ LogNormal(−4, 1),  τ ≥ 1e-4;      constant mean c

but that κ may be another one (kernels.py; a length-scale per parameter in any case), and that τ may have another prior
(`NoisePrior`): this one does not believe in outcomes without noise.

Notation (b is any number of leading batch dimensions; every element is a GP of its own)
    X    b x n x d   inputs on the unit cube        ℓ   b x d    length-scales
    y    b x n       standardized outcomes          τ   b        noise variance
    x    b x m x d   where the posterior is wanted  c   b        mean
    A    b x n x n   (K + τI)⁻¹                     α   b x n    A (y − c)

Where some parameters are choices, or exist only under one, the x_i are the features of embedding.py, of which those of
one parameter share its ℓ; X and x are points of the cube all the same.

Where the noise of an observation is known, it takes the place of τ there: K + Λ, Λ = diag(λ_1, ..., λ_n), stands for
K + τI, and λ, b x n, is NaN where the noise is fitted.

The mean needs no search: for given ℓ and τ the objective is maximal at c = 1ᵀA y / 1ᵀA 1.

The search costs n³ per evaluation. With more than MANY observations it has its starts on FEW of them and its end on
ENOUGH of them, spread evenly over the ranks of the outcomes, best and worst included; the posterior has them all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from modeseek.embedding import PLAIN, Embedding
from modeseek.kernels import half_squares
from modeseek.lbfgs import Minimum, lbfgs
from modeseek.linalg import bordered, inverse_of, with_diagonal

FIT_STEPS = 200  # of L-BFGS, at most
MANY, FEW, ENOUGH = 500, 300, 1000  # observations; docs/speed.md has what this saves and changes
LAST_STEPS, LAST_FTOL = 20, 1e-5  # of L-BFGS on ENOUGH observations; which those are makes more of a difference
WARM_STEPS = 6  # the same where the last fit's end is among the starts, from which the next fit goes on
MIN_LENGTHSCALE = 0.025
LENGTHSCALE_SCALE = math.sqrt(3)
MIN_VARIANCE = 1e-12  # under it the posterior variance is rounding error


class NoisePrior(NamedTuple):
    """Of the noise variance τ: log p = −½ ((θ − loc)/scale)² + slope·θ − rate·τ + a constant, with θ = log τ.

    A log-normal density of τ has the slope −1, a gamma density slope = shape − 1 and an infinite scale.
    """

    loc: float
    scale: float
    slope: float
    rate: float
    least: float  # τ is not less
    start: float  # θ at the density's maximum, where a search starts

    def log_density(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """At θ, and its derivative in θ."""
        z, tau = (theta - self.loc) / self.scale, self.rate * theta.exp()
        return -0.5 * z.square() + self.slope * theta - tau + self.constant, self.slope - z / self.scale - tau

    @property
    def constant(self) -> float:
        """Of a log-normal density, so that its values are those of GPyTorch; of others only differences count."""
        return 0.0 if math.isinf(self.scale) else -math.log(self.scale) - 0.5 * math.log(2 * math.pi)


LOG_NORMAL = NoisePrior(-4.0, 1.0, -1.0, 0.0, 1e-4, -5.0)  # BoTorch's
GAMMA = NoisePrior(0.0, math.inf, 0.1, 30.0, 1e-6, math.log(0.1 / 30))  # Gamma(1.1, 30), which Optuna's GPSampler has
EXACT = GAMMA._replace(least=1e-8)  # outcomes off by 1e-4 standard deviations at least
PRIORS = {"log-normal": LOG_NORMAL, "gamma": GAMMA, "exact": EXACT}

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


class Hyperparameters(NamedTuple):
    """What a fit finds, and a later fit can start from."""

    lengthscale: Tensor  # b x d
    noise: Tensor  # b


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
    embedding: Embedding = PLAIN
    prior: NoisePrior = LOG_NORMAL
    known_noise: Tensor | None = None  # λ, b x n
    recordable = True

    @property
    def noise(self) -> Tensor:
        """The noise variance of each observation, b x n."""
        return noise_of(self.hyperparameters.noise, self.known_noise, self.y)

    def kernel(self, x: Tensor, X: Tensor) -> Tensor:  # noqa: N803
        """k(x, X), b x m x n, for points of the cube."""
        return self.alike(x, X)[0]

    def alike(self, x: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803
        """k(x, X) and its decay, each b x m x n, for points of the cube."""
        return self.embedding.alike(x, X, self.hyperparameters.lengthscale)

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
        z = self.embedding(x)
        pull = sum((w @ self.embedding(X) - w.sum(-1, keepdim=True) * z for w, X in sums), torch.zeros_like(z))
        lengthscale = self.embedding.spread(self.hyperparameters.lengthscale)
        return self.embedding.pull_back(pull / lengthscale[..., None, :].square(), x)

    def with_outcomes(self, y: Tensor, mean: Tensor) -> GP:
        """This GP with other outcomes at the same inputs, b x n, and another constant mean, b."""
        alpha = (self.inverse @ (y - mean[..., None])[..., None]).squeeze(-1)
        return replace(self, y=y, mean=mean, alpha=alpha)

    def condition(self, x: Tensor) -> GP:
        """This GP with x (b x p x d) observed at its posterior mean: how pending points enter."""
        at = self.moments(x)
        X, y = torch.cat([self.X, x], -2), torch.cat([self.y, at.mu], -1)
        known = (
            None if self.known_noise is None else torch.cat([self.known_noise, torch.full_like(at.mu, torch.nan)], -1)
        )
        if self.X.shape[-2] > MANY:
            corner = with_diagonal(self.kernel(x, x), self.hyperparameters.noise[..., None])
            inverse = bordered(self.inverse, at.k, at.v, corner)
            alpha = torch.cat([self.alpha, torch.zeros_like(at.mu)], -1)  # what is expected changes no expectation
            return replace(self, X=X, y=y, alpha=alpha, inverse=inverse, known_noise=known)
        conditioned = posterior_of(X, y, self.hyperparameters, self.mean, self.embedding, self.prior, known)
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


def fit(
    X: Tensor,
    y: Tensor,
    warm: Hyperparameters | None = None,
    steps: int = FIT_STEPS,
    embedding: Embedding = PLAIN,
    prior: NoisePrior = LOG_NORMAL,
    known_noise: Tensor | None = None,
) -> GP:
    """Fit by MAP (Algorithm 1, line 4): X is b x n x d on the unit cube, y is b x n standardized.

    The objective has local optima, so the search has several starts and the best end wins. A first fit starts at the
    mode of the prior, where BoTorch starts, at its median, and at short length-scales; a later one at the mode and
    where the last fit ended. An element without any finite end keeps the mode, and says so in `fit_failed`.
    """
    mode = _prior_mode(X, prior)
    end = (_search_all if X.shape[-2] <= MANY else _search_some)(X, y, warm, steps, embedding, prior, known_noise)
    ok = end.value.isfinite() & end.x.isfinite().all(-1)
    best = torch.where(ok, end.value, torch.inf).argmin(0)
    found = end.x.gather(0, best[None, ..., None].expand(1, *mode.shape))[0]
    failed = ~ok.any(0)
    theta = torch.where(failed[..., None], mode, found)
    hyperparameters = Hyperparameters(theta[..., :-1].exp(), theta[..., -1].exp())
    gp = posterior_of(X, y, hyperparameters, embedding=embedding, prior=prior, known_noise=known_noise)
    return replace(gp, fit_failed=failed | gp.fit_failed, evaluations=end.evaluations)


def _search_all(
    X: Tensor,
    y: Tensor,
    warm: Hyperparameters | None,
    steps: int,
    embedding: Embedding,
    prior: NoisePrior,
    known: Tensor | None,
) -> Minimum:
    """The ends of the search on all observations: starts x b x (d+1)."""
    starts = cold_starts(X, prior) if warm is None else torch.stack([_prior_mode(X, prior), theta_of(warm)])
    return _search(X, y, starts, embedding, prior, steps, known=known)


def _search_some(
    X: Tensor,
    y: Tensor,
    warm: Hyperparameters | None,
    steps: int,
    embedding: Embedding,
    prior: NoisePrior,
    known: Tensor | None,
) -> Minimum:
    """The end of the search on ENOUGH observations: 1 x b x (d+1).

    It starts at the best, by those, of where searches on FEW have ended, and of where the last fit has.
    """
    few, enough = evenly(X, y, FEW), evenly(X, y, ENOUGH)
    of_few, of_enough = (None if known is None else known.gather(-1, ranked(y, size)) for size in (FEW, ENOUGH))
    starts = cold_starts(X, prior) if warm is None else _prior_mode(X, prior)[None]
    found = _search(*few, starts, embedding, prior, steps, known=of_few)
    ends = found.x if warm is None else torch.cat([found.x, theta_of(warm)[None]])
    value = log_posterior(*enough, ends, embedding, prior, of_enough)[0].nan_to_num(nan=-torch.inf)
    start = ends.gather(0, value.argmax(0)[None, ..., None].expand(1, *ends.shape[1:]))
    last = min(steps, LAST_STEPS if warm is None else WARM_STEPS)
    end = _search(*enough, start, embedding, prior, last, ftol=LAST_FTOL, known=of_enough)
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


def evidence(X: Tensor, y: Tensor, embedding: Embedding = PLAIN, prior: NoisePrior = LOG_NORMAL) -> Tensor:
    """How well a GP explains y (b x n): log p(y | X, θ) + log p(θ) where a search from the prior's mode ends, b.

    With one θ for the integral over all, which is enough to tell two shapes of the same outcomes apart.
    """
    start = _prior_mode(X, prior).expand(*y.shape[:-1], -1)
    return -_search(X, y, start, embedding, prior).value * y.shape[-1]


def _search(
    X: Tensor,
    y: Tensor,
    starts: Tensor,
    embedding: Embedding,
    prior: NoisePrior,
    steps: int = FIT_STEPS,
    ftol: float = 1e-7,
    known: Tensor | None = None,
) -> Minimum:
    """Minimize the negative log posterior an observation from each start, ... x b x (d+1)."""
    n = y.shape[-1]

    def objective(theta: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = log_posterior(X, y, theta, embedding, prior, known)
        return -value / n, -grad / n

    return lbfgs(objective, starts, *bounds_of_theta(X, prior), steps=steps, first_move=0.5, gtol=1e-4, ftol=ftol)


def bounds_of_theta(X: Tensor, prior: NoisePrior = LOG_NORMAL) -> tuple[Tensor, Tensor]:
    """Between which θ is searched for, each d+1."""
    d = X.shape[-1]
    lower = X.new_tensor([math.log(MIN_LENGTHSCALE)] * d + [math.log(prior.least)])
    return lower, X.new_tensor([math.log(1e5)] * d + [math.log(1e2)])


def log_posterior(
    X: Tensor,
    y: Tensor,
    theta: Tensor,
    embedding: Embedding = PLAIN,
    prior: NoisePrior = LOG_NORMAL,
    known: Tensor | None = None,
    any_scale: bool = False,
) -> tuple[Tensor, Tensor]:
    """log p(y | X, θ) + log p(θ) at θ = (log ℓ, log τ), b x (d+1), with the best c; and its gradient in θ.

    The priors are densities of ℓ and τ themselves, as in GPyTorch, so their maximum is the same in any
    parametrization. For the likelihood ∂/∂θ_i = ½ tr[(ααᵀ − A) ∂K/∂θ_i], and ∂K/∂log ℓ_i = −κ' ∘ (X_i − X'_i)²/ℓ_i².
    With G = −(ααᵀ − A) ∘ κ' the trace is 2 Σ_j (G1)_j X_ji² − 2 (XᵀGX)_ii, so no n x n x d tensor is ever made.

    With `any_scale`, y ~ N(c, s²(K + τI)) with c and s integrated out (priors 1 and 1/s): for Q = (y − c)ᵀα, twice
    −log p(y | X, θ) is (n − 1) log Q + log |K + τI| + log 1ᵀA1 and a constant, so that α counts times √((n − 1)/Q) and
    (A1)(A1)ᵀ/1ᵀA1 is added to G.
    """
    d, n = X.shape[-1], X.shape[-2]
    lengthscale, noise = theta[..., :-1].exp(), theta[..., -1].exp()
    Z, each = embedding(X), embedding.spread(lengthscale)
    K, decay = embedding.kernel.value_and_decay(half_squares(Z, Z, each))
    chol, info = torch.linalg.cholesky_ex(with_diagonal(K.clone(), noise_of(noise, known, y)))
    A = inverse_of(chol)
    mean = _best_mean(A, y)
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


def _start(X: Tensor, log_lengthscale: float, log_noise: float) -> Tensor:
    """θ = (log ℓ, log τ) with one length-scale for all inputs, b x (d+1)."""
    theta = X.new_full((*X.shape[:-2], X.shape[-1] + 1), log_lengthscale)
    theta[..., -1] = log_noise
    return theta


def _prior_mode(X: Tensor, prior: NoisePrior) -> Tensor:
    return _start(X, lengthscale_loc(X.shape[-1]) - LENGTHSCALE_SCALE**2, prior.start)


def cold_starts(X: Tensor, prior: NoisePrior) -> Tensor:
    """Where a first fit starts: the prior's mode, its median, and short length-scales; 3 x b x (d+1)."""
    d = X.shape[-1]
    median = _start(X, lengthscale_loc(d), prior.start + 1)
    return torch.stack([_prior_mode(X, prior), median, _start(X, math.log(0.2 * math.sqrt(d)), prior.start + 1)])


def theta_of(hyperparameters: Hyperparameters) -> Tensor:
    """θ = (log ℓ, log τ), b x (d+1)."""
    return torch.cat([hyperparameters.lengthscale, hyperparameters.noise[..., None]], -1).log()


def lengthscale_loc(d: int) -> float:
    """Of the prior of log ℓ with d parameters."""
    return math.sqrt(2) + 0.5 * math.log(d)


def _best_mean(A: Tensor, y: Tensor) -> Tensor:
    weights = A.sum(-1)
    return (weights * y).sum(-1) / weights.sum(-1)


def posterior_of(
    X: Tensor,
    y: Tensor,
    hyperparameters: Hyperparameters,
    mean: Tensor | None = None,
    embedding: Embedding = PLAIN,
    prior: NoisePrior = LOG_NORMAL,
    known_noise: Tensor | None = None,
) -> GP:
    """The GP on (X, y) with these hyperparameters, or with the prior's mode where no jitter makes them work."""
    chol, failed = _factorize(X, y, hyperparameters, embedding, known_noise)
    if bool(failed.any()):
        mode = _prior_mode(X, prior)
        hyperparameters = Hyperparameters(
            torch.where(failed[..., None], mode[..., :-1].exp(), hyperparameters.lengthscale),
            torch.where(failed, mode[..., -1].exp(), hyperparameters.noise),
        )
        chol, _ = _factorize(X, y, hyperparameters, embedding, known_noise)
    inverse = inverse_of(chol)
    mean = _best_mean(inverse, y) if mean is None else mean
    alpha = (inverse @ (y - mean[..., None])[..., None]).squeeze(-1)
    return GP(
        X, y, hyperparameters, mean, alpha, inverse, failed, embedding=embedding, prior=prior, known_noise=known_noise
    )


def _factorize(
    X: Tensor, y: Tensor, hyperparameters: Hyperparameters, embedding: Embedding, known: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Cholesky factor of K + τI (b x n x n), jitter growing tenfold in elements that need it; and which failed (b)."""
    noise = noise_of(hyperparameters.noise, known, y)
    added, jitter = torch.zeros_like(hyperparameters.noise), 1e-8
    lengthscale = hyperparameters.lengthscale
    chol, info = torch.linalg.cholesky_ex(with_diagonal(embedding.alike(X, X, lengthscale)[0], noise))
    while bool((info != 0).any()) and jitter <= 1e-2:
        added = torch.where(info != 0, jitter, added)
        K = with_diagonal(embedding.alike(X, X, lengthscale)[0], noise + added[..., None])
        chol, info = torch.linalg.cholesky_ex(K)
        jitter *= 10
    return chol, info != 0
