"""A cheaper stand-in for a Gaussian process with many observations, for climbs that need labels by the hundred.

The mean is the Gaussian process's own, m·n operations for m inputs. Its standard deviation costs m·n²; here it is that
of the deterministic training conditional (Seeger et al. 2003; Quiñonero-Candela and Rasmussen 2005), in which what all
n observations say of f reaches x through f at r of them, U:

    σ²(x) = 1 − k(x, U) M k(U, x),    M = L⁻ᵀ (I − B⁻¹) L⁻¹,    LLᵀ = k(U, U),    B = L⁻¹ k(U, X) Λ⁻¹ k(X, U) L⁻ᵀ + I

which costs m·r², and is exact where U is all of X. Notation as in surrogate.py; U is b x r x d, M is b x r x r.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from modeseek.linalg import with_diagonal
from modeseek.map_fit import ENOUGH, evenly
from modeseek.surrogate import GP, MIN_VARIANCE, OnGP, Rho, Surrogate

SIZE = 500  # r
JITTER = 1e-6  # of k(U, U), whose inputs may coincide


def for_climbing(gp: Surrogate) -> Surrogate:
    """The surrogate to climb on: itself, or the sketch of a Gaussian process with more than ENOUGH observations.

    One that knows more than its observations (informed.py) has no sketch.
    """
    return sketch(gp) if type(gp) is GP and gp.X.shape[-2] > ENOUGH else gp


@dataclass(frozen=True)
class Sketch(OnGP):
    """The exact mean of a Gaussian process and an approximate standard deviation."""

    U: Tensor  # b x r x d
    M: Tensor  # b x r x r

    def label(self, x: Tensor, rho: Rho) -> Tensor:
        """μ + ρσ at x (b x m x d): b x m."""
        return self.label_and_grad(x, rho)[0]

    def label_and_grad(self, x: Tensor, rho: Rho) -> tuple[Tensor, Tensor]:
        """μ + ρσ at x (b x m x d) and its gradient there: b x m, b x m x d. As in `GP.grad`, with U for σ."""
        of_mean, decay = self.gp.alike(x, self.X)
        mu = self.gp.mean[..., None] + (of_mean @ self.gp.alpha[..., None]).squeeze(-1)
        by_mean = decay.mul_(self.gp.alpha[..., None, :])
        k, decay = self.gp.alike(x, self.U)
        v = k @ self.M
        sigma = (1 - torch.linalg.vecdot(k, v)).clamp_min(MIN_VARIANCE).sqrt()
        by_sigma = v.mul_(decay).mul_((-rho / sigma)[..., None])
        return mu + rho * sigma, self.gp.slope(x, (by_mean, self.X), (by_sigma, self.U))


def sketch(gp: GP, size: int = SIZE) -> Sketch:
    """The stand-in for `gp` with U spread evenly over the ranks of the outcomes."""
    U, _ = evenly(gp.X, gp.y, size)
    jitter, one = (torch.full_like(gp.mean[..., None], number) for number in (JITTER, 1.0))
    chol = torch.linalg.cholesky_ex(with_diagonal(gp.kernel(U, U), jitter)).L
    V = torch.linalg.solve_triangular(chol, gp.kernel(U, gp.X), upper=False) * gp.noise.rsqrt().unsqueeze(-2)
    B = torch.linalg.cholesky_ex(with_diagonal(V @ V.mT, one)).L
    eye = torch.eye(U.shape[-2], dtype=U.dtype, device=U.device).expand_as(chol)
    left = torch.linalg.solve_triangular(chol, eye, upper=False)  # L⁻¹
    right = torch.linalg.solve_triangular(B, left, upper=False)  # so that L⁻ᵀ B⁻¹ L⁻¹ is its square
    M = left.mT @ left - right.mT @ right
    return Sketch(gp, U, M)
