"""The variance-preserving SDE (App. A.1, Eq. 11 and 12).

dx = −½ β(t) x dt + √β(t) dw,    β(t) = β_min + t (β_max − β_min),    t in [0, 1]
x_t | x_0 ~ N(α(t) x_0, h(t) I),    α(t) = exp(−½ ∫β),    h(t) = 1 − exp(−∫β)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class VPSDE:
    """β, α and h at times t of any shape."""

    beta_min: float = 0.1
    beta_max: float = 20.0

    def beta(self, t: Tensor) -> Tensor:
        """The noise schedule β(t)."""
        return self.beta_min + t * (self.beta_max - self.beta_min)

    def integral(self, t: Tensor) -> Tensor:
        """∫₀ᵗ β(s) ds."""
        return t * (self.beta_min + 0.5 * t * (self.beta_max - self.beta_min))

    def alpha(self, t: Tensor) -> Tensor:
        """α(t): what is left of x_0 at time t."""
        return torch.exp(-0.5 * self.integral(t))

    def h(self, t: Tensor) -> Tensor:
        """h(t): the variance of x_t given x_0."""
        return -torch.expm1(-self.integral(t))
