"""Black-box constraints: a GP for each, and how likely an input is to be feasible.

With g_j = −c_j (an input is feasible where every c_j ≤ 0), a GP on each g_j after `bilog`, standardized like its
threshold t_j, the probability of being feasible has the logarithm −L = Σ_j log Φ(z_j), z_j = (μ_j − t_j)/σ_j. What
proposals make of it is in improvement.py. What is expected to be best (recommendation.py) has the label

    ŷ(x) = μ(x) + ρσ(x) − log(1 + L(x))

Well inside the feasible region nothing changes, and at its estimated border a label loses half a standard deviation.

That an evaluation has an outcome at all is a constraint, too, once one had none: it failed, or was pruned. Where that
is the only one, proposals have this label as well, which is as it was wherever nothing fails.

Notation: q constraints; b, n, m, d as in surrogate.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from modeseek.map_fit import fit
from modeseek.outcome_transforms import BAD_OUTLIER, standardize
from modeseek.priors import Hyperparameters
from modeseek.surrogate import GP, USUAL, Given, Rho

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class ConstrainedGP:
    """A GP of the objective beside GPs of its constraints."""

    objective: GP
    margins: GP  # of g, batch q x b
    thresholds: Tensor  # t, q x b
    recordable = True

    @property
    def X(self) -> Tensor:  # noqa: N802
        """Observed inputs, b x n x d."""
        return self.objective.X

    @property
    def y(self) -> Tensor:
        """Standardized outcomes, b x n."""
        return self.objective.y

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Of the objective's GP."""
        return self.objective.hyperparameters

    @property
    def evaluations(self) -> int:
        """Calls of the MAP objective that the fits took."""
        return self.objective.evaluations + self.margins.evaluations

    @property
    def fit_failed(self) -> Tensor:
        """b, the elements where some GP fell back to prior hyperparameters."""
        return self.objective.fit_failed | self.margins.fit_failed.any(0)

    def log_feasibility(self, x: Tensor) -> Tensor:
        """Σ_j log Φ(z_j) at x (b x m x d): b x m."""
        mu, sigma = self.margins.posterior(x)
        total: Tensor = torch.special.log_ndtr((mu - self.thresholds[..., None]) / sigma).sum(0)
        return total

    def label(self, x: Tensor, rho: Rho) -> Tensor:
        """μ + ρσ − log(1 + L) at x (b x m x d): b x m."""
        return self.objective.label(x, rho) - (-self.log_feasibility(x)).log1p()

    def label_and_grad(self, x: Tensor, rho: Rho) -> tuple[Tensor, Tensor]:
        """The label at x (b x m x d) and its gradient: b x m, b x m x d.

        ∇z = (∇μ_j − z ∇σ_j)/σ_j, which is the gradient of μ_j + ρσ_j at ρ = −z over σ_j; (log Φ)' = φ/Φ.
        """
        value, grad = self.objective.label_and_grad(x, rho)
        mu, sigma = self.margins.posterior(x)
        z = (mu - self.thresholds[..., None]) / sigma
        log_probability = torch.special.log_ndtr(z)
        hazard = (-0.5 * z.square() - HALF_LOG_2PI - log_probability).exp()
        _, direction = self.margins.label_and_grad(x.expand(*mu.shape, -1), -z)
        L = -log_probability.sum(0)
        return value - L.log1p(), grad + (direction * (hazard / sigma)[..., None]).sum(0) / (1 + L)[..., None]


def constrain(objective: GP, X: Tensor, constraints: Tensor | None, lost: Tensor | None = None) -> ConstrainedGP:
    """The GP of the objective with those of the constraints; arguments as in `margins_of`."""
    return ConstrainedGP(objective, *margins_of(X, constraints, objective.given, lost))


def margins_of(
    X: Tensor, constraints: Tensor | None, objective: Given = USUAL, lost: Tensor | None = None
) -> tuple[GP, Tensor]:
    """A GP of each margin, q x b, and its threshold, q x b.

    What is given is as for the objective, but for noise that is known: constraints come from the same evaluations.

    Args:
        X: b x n x d, evaluated with an outcome.
        constraints: b x n x q, observed there, feasible where at most 0.
        lost: b x l x d, evaluated without an outcome. That there is one is the last constraint then; to the others,
            which are not known there, it is as if their posterior mean had been observed.
    """
    given = objective._replace(known_noise=None)
    if constraints is None or constraints.shape[-1] == 0:
        if lost is None:
            raise ValueError("there must be constraints, or evaluations without an outcome")
        return _margin_of_outcomes(X, lost, given)
    g = bilog(-constraints.movedim(-1, 0))
    # The threshold goes through the same map as the margins, as one more of them.
    standardized = standardize(torch.cat([g, torch.zeros_like(g[..., :1])], -1), BAD_OUTLIER)
    margins = fit(X.expand(*g.shape, X.shape[-1]), standardized[..., :-1], given=given)
    thresholds = standardized[..., -1]
    if lost is None:
        return margins, thresholds
    last, threshold = _margin_of_outcomes(X, lost, given)
    return beside(margins.condition(lost.expand(len(g), *lost.shape)), last), torch.cat([thresholds, threshold])


def _margin_of_outcomes(X: Tensor, lost: Tensor, given: Given) -> tuple[GP, Tensor]:
    """A GP of whether an evaluation has an outcome, 1 or −1, and its threshold, the middle: 1 x b each."""
    signs = torch.cat([X.new_ones(X.shape[:-1]), -lost.new_ones(lost.shape[:-1])], -1)
    standardized = standardize(torch.cat([signs, torch.zeros_like(signs[..., :1])], -1))[None]
    gp = fit(torch.cat([X, lost], -2)[None], standardized[..., :-1], given=given)
    return gp, standardized[..., -1]


def beside(gp: GP, other: GP) -> GP:
    """Both as one, along their first dimension."""
    names = ("X", "y", "mean", "alpha", "inverse", "fit_failed")
    parts: dict[str, Any] = {name: torch.cat([getattr(gp, name), getattr(other, name)]) for name in names}
    both = Hyperparameters(*map(torch.cat, zip(gp.hyperparameters, other.hyperparameters, strict=True)))
    return replace(gp, hyperparameters=both, evaluations=gp.evaluations + other.evaluations, **parts)


def bilog(g: Tensor) -> Tensor:
    """Margins (b x n) with room around 0, where it is decided who is feasible: sign(g) log(1 + |g|/median |g|).

    As in SCBO (Eriksson and Poloczek 2021), which has no median: the units of a constraint should not matter.
    """
    size = g.abs().median(-1, keepdim=True).values
    size = torch.where(size > 0, size, g.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(g.dtype).tiny))
    return g.sign() * (g.abs() / size).log1p()
