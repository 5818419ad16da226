"""How alike two inputs are: κ(q) of q = ½ Σ_i (z_i − z'_i)²/ℓ_i², with z the features of embedding.py.

    squared exponential   κ = exp(−q)                          −κ' = exp(−q)
    Matérn-5/2            κ = (1 + s + s²/3) exp(−s)           −κ' = 5/3 (1 + s) exp(−s),      s = √(10 q)

The squared exponential has functions that are smooth without end, as a polynomial is, and believes in what it sees
after few observations; those of Matérn's kernel have two derivatives. Every gradient of κ is −κ' times one of q, by
inputs as by length-scales, so that one number per pair, its decay −κ', is all that a kernel adds to the formulas of
surrogate.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from scipy.special import gammaincinv
from torch import Tensor

FREEDOM = 5  # 2ν of Matérn's kernel with ν = 5/2


class Kernel(ABC):
    """κ as a function of q."""

    extra = 0  # random numbers that a frequency of its spectral density needs besides one per feature

    @abstractmethod
    def value_and_decay(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """κ(q) and −κ'(q), of q's shape; may overwrite q."""

    def value(self, q: Tensor) -> Tensor:
        """κ(q), of q's shape; may overwrite q."""
        return self.value_and_decay(q)[0]

    @abstractmethod
    def frequencies(self, uniform: Tensor) -> Tensor:
        """Draws of its spectral density for ℓ = 1, ... x D, from uniform ones on the CPU, ... x (D + extra)."""


class SquaredExponential(Kernel):
    """BoTorch's and the paper's."""

    def value_and_decay(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """κ(q) and −κ'(q), which are the same tensor."""
        k = q.neg_().exp_()
        return k, k

    def frequencies(self, uniform: Tensor) -> Tensor:
        """Normal ones."""
        normal: Tensor = torch.special.ndtri(uniform)
        return normal


class Matern(Kernel):
    """Matérn's with ν = 5/2."""

    extra = 1

    def value_and_decay(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """κ(q) and −κ'(q)."""
        s = q.mul_(2 * FREEDOM).sqrt_()
        decay = (-s).exp_()
        value = (s.square() / 3).add_(s).add_(1).mul_(decay)
        return value, decay.mul_(s.add_(1)).mul_(FREEDOM / 3)

    def frequencies(self, uniform: Tensor) -> Tensor:
        """Student's t: normal ones over the root of χ²/2ν, by one quantile, which evenly spread numbers keep even."""
        chi_square = 2 * gammaincinv(FREEDOM / 2, uniform[..., -1:].numpy())
        normal: Tensor = torch.special.ndtri(uniform[..., :-1])
        return normal / torch.from_numpy(chi_square / FREEDOM).sqrt()


SQUARED_EXPONENTIAL, MATERN = SquaredExponential(), Matern()
KERNELS: dict[str, Kernel] = {"se": SQUARED_EXPONENTIAL, "matern": MATERN}


def half_squares(z: Tensor, Z: Tensor, lengthscale: Tensor) -> Tensor:
    """q between features z (b x m x D) and Z (b x n x D): b x m x n, by one matrix product."""
    # Distances do not change with the origin; at the cube's centre the squares are smallest and round least.
    z, Z = (z - 0.5) / lengthscale[..., None, :], (Z - 0.5) / lengthscale[..., None, :]
    half_norms = 0.5 * z.square().sum(-1, keepdim=True)
    product = (z @ Z.mT).neg_().add_(half_norms).add_(0.5 * Z.square().sum(-1).unsqueeze(-2))
    return product.clamp_min_(0)
