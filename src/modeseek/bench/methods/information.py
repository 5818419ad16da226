"""GIBBON, JES and PES for many problems at once: how much an observation at x tells about the optimum.

All three are means, over S samples of the optimum, of a function of a few numbers: the posterior at x and, but for
GIBBON, its covariance with f at a sample of x*. The functions are BoTorch's, clamps and jitter included
(`botorch_methods.py` has BoTorch's own). Their derivatives in those numbers come from forward-mode differentiation,
number by number, and the rest of the gradient in closed form as in `GP.grad`.

Notation as in surrogate.py, and
    x*, f*   b x S x d, b x S    samples of the optimum           μ, v   b x m    posterior mean and variance at x
    μ*, v*   b x S               posterior mean and variance at x*
    c        b x m x S           posterior covariance of f(x) and f(x*)
    r(z)     φ(z)/Φ(z)           q(z) = r (z + r), by which a normal variable's variance shrinks when it is cut off at z
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.autograd.forward_ad as forward
from torch import Tensor

from modeseek.draws import Draws
from modeseek.paths import optima
from modeseek.surrogate import GP, OnGP, Rho

SAMPLES_OF_MAXIMUM = 10  # f* of GIBBON, BoTorch's default
CANDIDATES = 10_000  # on which they are sampled besides the observed inputs, the paper's
OPTIMA = 100  # (x*, f*) of PES and JES, the paper's
MIN_VARIANCE = 1e-10  # of f(x) once the optimum is known
MIN_GIBBON = 1e-8  # Φ and variances in BoTorch's GIBBON
MIN_JES = torch.finfo(torch.float32).eps  # Φ and shrinkage in its JES
NOISE_OF_OPTIMUM = 1e-4  # of f* in its JES
JITTER = 1e-4  # of covariances in its PES
QUARTILES = (0.25, 0.5, 0.75)
BISECTIONS = 60


def partials(f: Callable[..., Tensor], *numbers: Tensor) -> tuple[Tensor, Tensor]:
    """f of tensors of one shape, number by number, and its derivatives in each of them, in a new first dimension.

    All derivatives come from one pass, since a GPU waits for Python and not for numbers here.
    """
    count, shape = len(numbers), numbers[0].shape
    which = torch.eye(count, dtype=numbers[0].dtype, device=numbers[0].device)
    ways = which.view(count, count, *[1] * len(shape)).expand(count, count, *shape).contiguous()
    with forward.dual_level():
        moved = [
            forward.make_dual(x.expand(count, *shape).contiguous(), way) for x, way in zip(numbers, ways, strict=True)
        ]
        value, slopes = forward.unpack_dual(f(*moved))
    assert slopes is not None
    return value[0], slopes


def hazard(z: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """r(z) with Φ at least so large, and q(z)."""
    r = torch.exp(-0.5 * z.square()) / (math.sqrt(2 * math.pi) * torch.special.ndtr(z).clamp_min(least))
    return r, r * (z + r)


@dataclass(frozen=True)
class GIBBON(OnGP):
    """The lower bound on the information about f* (Moss et al. 2021): −½ log(1 − v/(v + τ) q((f* − μ)/√v))."""

    maxima: Tensor  # b x S

    def label(self, x: Tensor, rho: Rho = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        mu, sigma = self.gp.posterior(x)
        return self._gain(mu[..., None], sigma.square()[..., None]).mean(-1)

    def label_and_grad(self, x: Tensor, rho: Rho = 0.0) -> tuple[Tensor, Tensor]:
        """At x (b x m x d), and the gradient there: b x m, b x m x d."""
        at = self.gp.moments(x)
        shape = (*at.mu.shape, self.maxima.shape[-1])
        mu, variance = at.mu[..., None].expand(shape), at.sigma.square()[..., None].expand(shape)
        gain, (by_mu, by_variance) = partials(self._gain, mu, variance)
        return gain.mean(-1), self.chain(x, at, by_mu.mean(-1), by_variance.mean(-1))

    def _gain(self, mu: Tensor, variance: Tensor) -> Tensor:
        variance = variance.clamp_min(MIN_GIBBON)
        _, q = hazard((self.maxima[..., None, :] - mu) / variance.sqrt(), MIN_GIBBON)
        share = variance / (variance + self.gp.hyperparameters.noise[..., None, None])
        return -0.5 * (1 - share * q).clamp_min(MIN_GIBBON).log()


@dataclass(frozen=True)
class BatchGIBBON(OnGP):
    """GIBBON of one more input of a batch (Moss et al. 2021): its own, and how new it is to those expected."""

    alone: GIBBON
    expecting: GP

    def label(self, x: Tensor, rho: Rho = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        return self.label_and_grad(x)[0]

    def label_and_grad(self, x: Tensor, rho: Rho = 0.0) -> tuple[Tensor, Tensor]:
        """At x (b x m x d), and the gradient there: b x m, b x m x d."""
        value, grad = self.alone.label_and_grad(x)
        noise = self.gp.hyperparameters.noise[..., None]
        for sign, gp in ((1, self.expecting), (-1, self.gp)):
            at = gp.moments(x)
            variance = at.sigma.square() + noise
            value = value + 0.5 * sign * variance.log()
            grad = grad + OnGP(gp).chain(x, at, torch.zeros_like(variance), 0.5 * sign / variance)
        return value, grad


def gibbon(gp: GP, draws: Draws) -> GIBBON:
    """GIBBON with samples of f*.

    The observed inputs are candidates as well, as in BoTorch: in many dimensions no random point is as good as the best
    of them, and f* would be sampled below what was seen.
    """
    *batch, _, d = gp.X.shape
    anywhere = draws.rand(CANDIDATES, d, dtype=gp.X.dtype).to(gp.X).view(*batch, CANDIDATES, d)
    candidates = torch.cat([anywhere, gp.X], -2)
    uniform = draws.rand(SAMPLES_OF_MAXIMUM, dtype=gp.X.dtype).to(gp.X).view(*batch, -1)
    return GIBBON(gp, sampled_maxima(*gp.posterior(candidates), uniform))


def sampled_maxima(mu: Tensor, sigma: Tensor, uniform: Tensor) -> Tensor:
    """Samples of the maximum of independent normals (b x m each), from a Gumbel with their quartiles: b x S.

    Args:
        uniform: b x S, what the samples are made from.
    """
    sigma = sigma.clamp_min(1e-4)
    log_p = torch.tensor(QUARTILES, dtype=mu.dtype, device=mu.device).log()
    low = (mu - 3 * sigma).amin(-1, keepdim=True).expand(*mu.shape[:-1], 3)
    high = (mu + 5 * sigma).amax(-1, keepdim=True).expand_as(low)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        z = (middle[..., None] - mu[..., None, :]) / sigma[..., None, :]
        under = torch.special.log_ndtr(z).sum(-1) < log_p
        low, high = torch.where(under, middle, low), torch.where(under, high, middle)
    q25, q50, q75 = ((low + high) / 2).unbind(-1)
    scale = (q25 - q75) / (math.log(math.log(4 / 3)) - math.log(math.log(4)))
    place = q50 + scale * math.log(math.log(2))
    return place[..., None] - scale[..., None] * (-uniform.log()).log()


@dataclass(frozen=True)
class _AboutOptimum(OnGP):
    """A mean over samples of the optimum, of a function of μ, v and c."""

    x: Tensor  # x*
    value: Tensor  # f*
    shared: Tensor  # b x S x n, k(x*, X) A
    mu: Tensor  # μ*
    variance: Tensor  # v*

    def label(self, x: Tensor, rho: Rho = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        at = self.gp.moments(x)
        return self._gain(at.mu[..., None], at.sigma.square()[..., None], self._covariance(x, at.k)[0]).mean(-1)

    def label_and_grad(self, x: Tensor, rho: Rho = 0.0) -> tuple[Tensor, Tensor]:
        """At x (b x m x d), and the gradient there: b x m, b x m x d.

        c = k(x, x*) − k(x, X) A k(X, x*), so that what c pulls at is x* and, weighted, X.
        """
        at = self.gp.moments(x)
        c, decay = self._covariance(x, at.k)
        mu, variance = at.mu[..., None].expand_as(c), at.sigma.square()[..., None].expand_as(c)
        gain, (by_mu, by_variance, by_c) = partials(self._gain, mu, variance, c)
        by_c = by_c / c.shape[-1]
        of_optima = by_c * decay
        pull = of_optima @ self.x - of_optima.sum(-1, keepdim=True) * x
        pull = pull / self.gp.hyperparameters.lengthscale[..., None, :].square()
        return gain.mean(-1), pull + self.chain(x, at, by_mu.mean(-1), by_variance.mean(-1), by_c @ self.shared)

    def _covariance(self, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """c at x, from k(x, X), and the decay of k(x, x*): b x m x S each."""
        between, decay = self.gp.alike(x, self.x)
        return between - k @ self.shared.mT, decay

    def _gain(self, mu: Tensor, variance: Tensor, c: Tensor) -> Tensor:
        raise NotImplementedError


class JES(_AboutOptimum):
    """Joint entropy search, the lower bound (Hvarfner et al. 2022, Tu et al. 2022).

    ½ log(v + τ) − ½ log(v' (1 − q(z)) + τ), z = (f* − μ')/√v', with μ' and v' the posterior once f(x*) = f* is known.
    As in BoTorch 0.18, v' takes f* for exact but for a jitter, and μ' for observed with noise.
    """

    def _gain(self, mu: Tensor, variance: Tensor, c: Tensor) -> Tensor:
        noise = self.gp.hyperparameters.noise[..., None, None]
        known = self.variance[..., None, :]
        mean = mu + c / (known + noise) * (self.value - self.mu)[..., None, :]
        left = (variance - c.square() / (known + NOISE_OF_OPTIMUM)).clamp_min(MIN_VARIANCE)
        _, q = hazard((self.value[..., None, :] - mean) / left.sqrt(), MIN_JES)
        return 0.5 * ((variance + noise).log() - (left * (1 - q).clamp_min(MIN_JES) + noise).log())


class PES(_AboutOptimum):
    """Predictive entropy search (Hernández-Lobato et al. 2014): ½ log V₀₀ − ½ log V'₀₀.

    V is the covariance of y(x) and y(x*), and V' the same once f(x) ≤ f(x*) is known, by one update of expectation
    propagation. BoTorch's, of which this is the case of one candidate and one objective, also propagates f(X) ≤ f(x*)
    for the observed inputs; its value does not depend on that in this case.
    """

    def _gain(self, mu: Tensor, variance: Tensor, c: Tensor) -> Tensor:
        noise = self.gp.hyperparameters.noise[..., None, None]
        V = (variance + noise + JITTER, c, self.variance[..., None, :] + noise + JITTER)
        known = _inverse(V, JITTER)
        a, b, d = C = _inverse(known, JITTER)  # the cavity, whose mean is C · known · (μ, μ*)
        of_x, of_optimum = _product(known, mu, self.mu[..., None, :])
        mean_x, mean_optimum = _product(C, of_x, of_optimum)
        spread = (a + d - 2 * b).clamp_min(torch.finfo(a.dtype).eps)
        z = (mean_x - mean_optimum) / spread.sqrt()
        # log(1 − Φ) is not resolved further than rounding allows
        log_left = torch.special.log_ndtr(-z).clamp_min(math.log(torch.finfo(a.dtype).eps))
        rate = torch.exp(-0.5 * z.square() - log_left) / math.sqrt(2 * math.pi)
        shrink = rate * (z - rate) / spread
        e, f = a - b, b - d
        updated = _inverse((a + shrink * e * e, b + shrink * e * f, d + shrink * f * f), JITTER)
        # V⁻¹ exceeds `known`, the inverse of V with jitter, so that this stays positive definite.
        a, b, d = (new + more - less for new, more, less in zip(updated, _inverse(V), known, strict=True))
        return 0.5 * (V[0] * (a - b * b / d)).log()


Symmetric = tuple[Tensor, ...]  # [[a, b], [b, d]] as a, b, d


def _inverse(matrix: Symmetric, jitter: float = 0.0) -> Symmetric:
    """(M + jitter·I)⁻¹."""
    a, b, d = matrix[0] + jitter, matrix[1], matrix[2] + jitter
    determinant = a * d - b * b
    return d / determinant, -b / determinant, a / determinant


def _product(matrix: Symmetric, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a, b, d = matrix
    return a * x + b * y, b * x + d * y


def about_optimum(kind: type[JES] | type[PES], gp: GP, x: Tensor, value: Tensor) -> JES | PES:
    """The function for samples of x* (b x S x d) and f* (b x S)."""
    at = gp.moments(x)
    return kind(gp, x, value, at.v, at.mu, at.sigma.square())


def jes(gp: GP, draws: Draws) -> JES | PES:
    """JES with samples of the optimum."""
    found = optima(gp, OPTIMA, draws)
    return about_optimum(JES, gp, found.x, found.value)


def pes(gp: GP, draws: Draws) -> JES | PES:
    """PES with samples of the optimum."""
    found = optima(gp, OPTIMA, draws)
    return about_optimum(PES, gp, found.x, found.value)
