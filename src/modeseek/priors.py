"""What the surrogate believes of its hyperparameters before it has seen an outcome, and where searches for them start.

    ℓ_i ~ LogNormal(√2 + ½ ln d, √3),  ℓ_i ≥ 0.025;      τ ~ a `NoisePrior`

as in BoTorch's `SingleTaskGP` (Hvarfner et al. 2024), whose prior of the noise is LOG_NORMAL. Notation as in
surrogate.py; θ = (log ℓ, log τ), b x (d+1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

MIN_LENGTHSCALE = 0.025
LENGTHSCALE_SCALE = math.sqrt(3)


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


class Hyperparameters(NamedTuple):
    """What a fit finds, and a later fit can start from."""

    lengthscale: Tensor  # b x d
    noise: Tensor  # b


def bounds_of_theta(X: Tensor, prior: NoisePrior = LOG_NORMAL) -> tuple[Tensor, Tensor]:
    """Between which θ is searched for, each d+1."""
    d = X.shape[-1]
    lower = X.new_tensor([math.log(MIN_LENGTHSCALE)] * d + [math.log(prior.least)])
    return lower, X.new_tensor([math.log(1e5)] * d + [math.log(1e2)])


def _start(X: Tensor, log_lengthscale: float, log_noise: float) -> Tensor:
    """θ = (log ℓ, log τ) with one length-scale for all inputs, b x (d+1)."""
    theta = X.new_full((*X.shape[:-2], X.shape[-1] + 1), log_lengthscale)
    theta[..., -1] = log_noise
    return theta


def prior_mode(X: Tensor, prior: NoisePrior) -> Tensor:
    """θ at the maximum of the prior, b x (d+1); a failed fit keeps it."""
    return _start(X, lengthscale_loc(X.shape[-1]) - LENGTHSCALE_SCALE**2, prior.start)


def cold_starts(X: Tensor, prior: NoisePrior) -> Tensor:
    """Where a first fit starts: the prior's mode, its median, and short length-scales; 3 x b x (d+1)."""
    d = X.shape[-1]
    median = _start(X, lengthscale_loc(d), prior.start + 1)
    return torch.stack([prior_mode(X, prior), median, _start(X, math.log(0.2 * math.sqrt(d)), prior.start + 1)])


def theta_of(hyperparameters: Hyperparameters) -> Tensor:
    """θ = (log ℓ, log τ), b x (d+1)."""
    return torch.cat([hyperparameters.lengthscale, hyperparameters.noise[..., None]], -1).log()


def lengthscale_loc(d: int) -> float:
    """Of the prior of log ℓ with d parameters."""
    return math.sqrt(2) + 0.5 * math.log(d)
