"""Labels that say by how much an input is expected to improve on what is known: several objectives, and constraints.

With M objectives to be maximized, P the front of what is known (posterior means, feasible ones only) and a reference
point r, the hypervolume of a front is the volume of what it dominates above r. What lies above the front is cut into
boxes [l_k, h_k]; with independent posteriors the expected improvement of the hypervolume is (Emmerich et al. 2006,
Yang et al. 2019)

    E(x) = Σ_k Π_j A_kj,    A_kj = ψ_j(l_kj) − ψ_j(h_kj),    ψ_j(a) = E[(f_j(x) − a)⁺] = σ_j h(z),    z = (μ_j − a)/σ_j

where h(z) = φ(z) + z Φ(z). As in LogEHVI (Ament et al. 2023) all of it is computed as logarithms, which have a slope
where E underflows. With constraints the logarithm of the probability of being feasible is added:

    t(x) = log E(x) + Σ_j log Φ(z_j),    ŷ(x) = t − t* where t > t*, −log(1 + t* − t) below

t* is the best of t at SPREAD Sobol points. The second formula keeps the order and leaves the network labels of a size
that it can learn: t falls as −z²/2, and without t* the best would hardly differ once little is to be gained. With
nothing feasible yet only the probability counts. One objective with constraints is M = 1: E is its expected
improvement on the best feasible mean, and t is constrained LogEI. ρ is the weight of σ here as well: σ_j is ρ times
the posterior's, and proposals have ρ = 1. A user's belief (informed.py) adds w log π(x) to t. What comes after the
labels (refinement, training, modes) is as without.

Notation: C boxes; M objectives; q constraints; b, n, m, d as in surrogate.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.constraints import HALF_LOG_2PI
from modeseek.design import sobol
from modeseek.informed import Conviction
from modeseek.priors import Hyperparameters
from modeseek.surrogate import GP, Rho

MIN_SIGMA = 1e-6  # of ρσ, where ρ is 0
UNBOUNDED = 1e4  # the height of a box without end, in standard deviations of an objective
SPREAD = 256
FAR = -1e4  # under it 1 + z·mills is rounding error, and 1/z² is right to 3/z⁴
NEVER = -1e-12  # the logarithm of a ratio of what should be less than 1


class Boxes(NamedTuple):
    """What lies above the front of each batch element."""

    lower: Tensor  # b x C x M
    upper: Tensor  # b x C x M
    log_weight: Tensor  # b x C: 0, and −inf for those that only fill up the batch


@dataclass(frozen=True)
class ImprovementGP:
    """GPs of the objectives and of the constraints, and labels that say how much is to be gained."""

    objectives: GP  # M x b
    boxes: Boxes
    leaders: Tensor  # b x n, the inputs that others must improve on
    margins: GP | None = None  # q x b
    thresholds: Tensor | None = None  # q x b
    top: Tensor | None = None  # t*, b; None: 0
    conviction: Conviction | None = None
    recordable = True

    def with_top(self) -> ImprovementGP:
        """The same with its t*."""
        d = self.X.shape[-1]
        x = sobol(SPREAD, d, torch.Generator("cpu").manual_seed(0), (1,)).to(self.X)
        total, _ = self._total(x.expand(*self.X.shape[:-2], SPREAD, d), 1.0, with_grad=False)
        return replace(self, top=total.amax(-1))

    @property
    def X(self) -> Tensor:  # noqa: N802
        """Observed inputs, b x n x d."""
        return self.objectives.X[0]

    @property
    def y(self) -> Tensor:
        """The labels of what was observed, b x n."""
        return self.label(self.X, 1.0)

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Of the objectives' GPs: b x M x d and b x M; of one objective b x d and b."""
        lengthscale, noise = self.objectives.hyperparameters
        if len(noise) == 1:
            return Hyperparameters(lengthscale[0], noise[0])
        return Hyperparameters(lengthscale.movedim(0, -2), noise.movedim(0, -1))

    @property
    def evaluations(self) -> int:
        """Calls of the MAP objective that the fits took."""
        return self.objectives.evaluations + (0 if self.margins is None else self.margins.evaluations)

    @property
    def fit_failed(self) -> Tensor:
        """b, the elements where some GP fell back to prior hyperparameters."""
        failed = self.objectives.fit_failed.any(0)
        return failed if self.margins is None else failed | self.margins.fit_failed.any(0)

    def label(self, x: Tensor, rho: Rho) -> Tensor:
        """ŷ at x (b x m x d): b x m."""
        return self._shaped(self._total(x, rho, with_grad=False)[0])[0]

    def label_and_grad(self, x: Tensor, rho: Rho) -> tuple[Tensor, Tensor]:
        """ŷ at x (b x m x d) and its gradient: b x m, b x m x d."""
        total, grad = self._total(x, rho, with_grad=True)
        label, slope = self._shaped(total)
        return label, grad * slope[..., None]

    def log_feasibility(self, x: Tensor) -> Tensor:
        """Σ_j log Φ(z_j) at x (b x m x d): b x m; 0 without constraints."""
        if self.margins is None or self.thresholds is None:
            return x.new_zeros(x.shape[:-1])
        mu, sigma = self.margins.posterior(x.expand(len(self.thresholds), *x.shape))
        total: Tensor = torch.special.log_ndtr((mu - self.thresholds[..., None]) / sigma).sum(0)
        return total

    def _total(self, x: Tensor, rho: Rho, with_grad: bool) -> tuple[Tensor, Tensor]:
        """t and, if asked for, its gradient."""
        gp, z = self.objectives, x.expand(len(self.objectives.X), *x.shape)
        at = gp.moments(z)
        sigma = (rho * at.sigma).clamp_min(MIN_SIGMA)
        total, by_mean, by_sigma = log_improvement(at.mu, sigma, self.boxes)
        grad = gp.grad_by(z, at, by_mean, rho * by_sigma).sum(0) if with_grad else x
        if self.margins is not None and self.thresholds is not None:
            gp, z = self.margins, x.expand(len(self.margins.X), *x.shape)
            at = gp.moments(z)
            ratio = (at.mu - self.thresholds[..., None]) / at.sigma
            log_probability = torch.special.log_ndtr(ratio)
            total = total + log_probability.sum(0)
            if with_grad:
                hazard = (-0.5 * ratio.square() - HALF_LOG_2PI - log_probability).exp() / at.sigma
                grad = grad + gp.grad_by(z, at, hazard, -ratio * hazard).sum(0)
        if self.conviction is not None:
            term, slope = self.conviction.term(x)
            total, grad = total + term, grad + slope if with_grad else grad
        return total, grad

    def _shaped(self, total: Tensor) -> tuple[Tensor, Tensor]:
        """ŷ from t, and its derivative."""
        above = total if self.top is None else total - self.top[..., None]
        lost = (-above).clamp_min(0)
        return torch.where(above < 0, -lost.log1p(), above), 1 / (1 + lost)


def log_improvement(mu: Tensor, sigma: Tensor, boxes: Boxes) -> tuple[Tensor, Tensor, Tensor]:
    """log E and its derivatives by μ and σ (M x b x m): b x m, M x b x m, M x b x m.

    ∂A/∂μ = Φ(z_l) − Φ(z_h) and ∂A/∂σ = φ(z_l) − φ(z_h).
    """
    mu, sigma = (part.movedim(0, -1).unsqueeze(-2) for part in (mu, sigma))  # b x m x 1 x M
    low, high = ((mu - edge.unsqueeze(-3)) / sigma for edge in (boxes.lower, boxes.upper))  # b x m x C x M
    log_low, log_high = log_h(low), log_h(high)
    log_a = log_low + _log_less(log_high - log_low)  # of A/σ
    per_box = (log_a + sigma.log()).sum(-1) + boxes.log_weight.unsqueeze(-2)
    value = per_box.logsumexp(-1)
    share = (per_box - value.unsqueeze(-1)).exp().unsqueeze(-1)
    cdf_low, cdf_high = torch.special.log_ndtr(low), torch.special.log_ndtr(high)
    by_mean = (cdf_low + _log_less(cdf_high - cdf_low) - log_a).exp() / sigma
    by_sigma = ((_log_pdf(low) - log_a).exp() - (_log_pdf(high) - log_a).exp()) / sigma
    return value, (share * by_mean).sum(-2).movedim(-1, 0), (share * by_sigma).sum(-2).movedim(-1, 0)


def log_h(z: Tensor) -> Tensor:
    """log h with h(z) = φ(z) + z Φ(z), the expected improvement of a standard normal, without underflow."""
    return h_terms(z)[0]


def h_terms(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log h, φ/Φ and Φ/h, from which the gradient of log EI follows: ∇ log EI = (∇μ + φ/Φ ∇σ) Φ/(σ h)."""
    log_cdf, log_pdf = torch.special.log_ndtr(z), _log_pdf(z)
    # Far to the left φ and zΦ cancel; with Mills' ratio Φ = φ·mills, and h = φ (1 + z·mills).
    left = z.clamp_max(-1)
    mills = math.sqrt(math.pi / 2) * torch.special.erfcx(-left / math.sqrt(2))
    factor = torch.where(left > FAR, 1 + left * mills, left.square().reciprocal())
    near = log_pdf.exp() + z.clamp_min(-1) * log_cdf.exp()
    value = torch.where(z > -1, near.log(), log_pdf + factor.log())
    hazard = torch.where(z > -1, (log_pdf - log_cdf).exp(), 1 / mills)
    return value, hazard, torch.where(z > -1, log_cdf.exp() / near, mills / factor)


def _log_pdf(z: Tensor) -> Tensor:
    return -0.5 * z.square() - HALF_LOG_2PI


def _log_less(log_ratio: Tensor) -> Tensor:
    """log(1 − ratio) for a ratio below 1."""
    return (-torch.expm1(log_ratio.clamp_max(NEVER))).log()
