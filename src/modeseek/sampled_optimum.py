"""What the observations say of x* and of the regret, for any batch of problems: samples of both.

The surrogate's posterior is over functions, and over its own hyperparameters. Each function drawn has its optimum
somewhere (paths.py): together those are samples of x*, and how much higher each lies than the same function at the
recommended point is a sample of the regret.

Notation as in surrogate.py; H draws of the hyperparameters, S samples, q constraints.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from modeseek.constraints import margins_of
from modeseek.domain import CUBE, Domain
from modeseek.draws import Draws, Randomness
from modeseek.errors import TrialError
from modeseek.hyperparameters import Several, draw_hyperparameters
from modeseek.outcome_transforms import OutcomeMap, largest
from modeseek.paths import ConstrainedPaths, Drawn, Paths, draw_paths, maxima
from modeseek.priors import Hyperparameters
from modeseek.surrogate import GP, MANY

HYPERPARAMETERS = 16  # H, with a share of the functions each
NODES = 32  # of the Gauss-Hermite quadrature
ROUNDING = 1e-9  # 0.05 times 100 may come out as 4.999...


class SampledOptimum(NamedTuple):
    """Samples of the optimum of each problem, in the surrogate's units."""

    several: Several  # H x b
    point: Tensor  # b x d, the recommended one
    x: Tensor  # b x S x d
    value: Tensor  # b x S, of the functions at x
    at_point: Tensor  # b x S, of the same functions at the recommended point

    def regrets(self, outcomes: OutcomeMap, ripples: bool = False) -> Tensor:
        """Samples of the regret of the recommended point in the objective's own units, rising: b x S.

        Args:
            ripples: what is taken for noise may be the function's own, finer than the observations are close: its
                optimum is higher by one standard deviation of that.
        """
        best = self.value + self.unexplained if ripples else self.value
        gained = outcomes.inverse(best) - outcomes.inverse(torch.minimum(self.at_point, self.value))
        return gained.sort(-1).values

    @property
    def unexplained(self) -> Tensor:
        """Standard deviation of what each sample's Gaussian process takes for noise, b x S; 0 where noise is known."""
        gp, scale = self.several
        std = gp.hyperparameters.noise.sqrt() * scale
        if (known := gp.given.known_noise) is not None:
            std = torch.where(known.isnan().any(-1), std, 0.0)
        return std.movedim(0, -1).repeat_interleave(self.value.shape[-1] // len(std), -1)


def sample_optimum(
    gp: GP,
    draws: int,
    source: Randomness,
    *,
    several: Several | None = None,
    constraints: Tensor | None = None,
    lost: Tensor | None = None,
    point: Tensor | None = None,
    domain: Domain = CUBE,
) -> SampledOptimum:
    """Draw functions from the posterior of each problem, and find their optima.

    Args:
        gp: on the unit cube, of outcomes to be maximized; b.
        draws: how many functions per problem; a multiple of H at least as large is drawn.
        source: of random numbers, on the CPU.
        several: hyperparameters that are equally probable; None: drawn, or those of the fit where there are so many
            observations that they determine them.
        constraints: b x n x q, of black-box constraints, at most 0 where feasible; TrialError where nothing is.
        lost: b x l x d, evaluated without an outcome; None: there are none.
        point: b x d, the recommended one, in the region; None: observed, feasible, of the best posterior mean.
        domain: where to look.
    """
    rows = Draws.of(source, gp.X.shape[:-2])
    if several is None:
        several = drawn_or_fitted(gp, min(HYPERPARAMETERS, draws), rows)
    models, scale = several
    H, d = len(models.X), gp.X.shape[-1]
    limits = _Limits.of(gp, constraints, lost)
    if point is None:
        mu = (models.posterior(models.X)[0] * scale[..., None]).mean(0)
        best = torch.where(limits.recommendable, mu.nan_to_num(nan=-torch.inf), -torch.inf).argmax(-1)
        point = gp.X.gather(-2, best[..., None, None].expand(*best.shape, 1, d)).squeeze(-2)
    everywhere = point.unsqueeze(-2).expand(H, *point.shape[:-1], 1, d)
    each = rows.split(H)
    paths = draw_paths(models, -(-draws // H), each)
    drawn = limits.on(paths, rows)
    found = maxima(drawn, each, domain, also=everywhere)
    at_point = paths.everywhere(everywhere)[..., 0]
    value = found.value
    if isinstance(drawn, ConstrainedPaths):  # without the price of what is violated
        value = torch.where(drawn.is_met(found.x), paths.value(found.x.unsqueeze(-2))[..., 0], at_point)
    value, at_point = ((part * scale[..., None]).movedim(0, -2).flatten(-2) for part in (value, at_point))
    return SampledOptimum(several, point, found.x.movedim(0, -3).flatten(-3, -2), value, at_point)


def drawn_or_fitted(gp: GP, count: int, source: Randomness) -> Several:
    """So many draws for each problem, H x b; the fit's alone where more than MANY observations determine them."""
    if gp.X.shape[-2] <= MANY:
        return draw_hyperparameters(gp, count, source)
    return as_fitted(gp)


def as_fitted(gp: GP) -> Several:
    """The hyperparameters of the fit alone, 1 x b."""
    return Several(_repeated(gp, 1, 0), torch.ones_like(gp.mean)[None])


def recommended(gp: GP, constraints: Tensor | None) -> Tensor:
    """Which of the observed inputs of each problem has the best posterior mean and is feasible: b."""
    allowed = _Limits.of(gp, constraints).recommendable
    mu = gp.posterior(gp.X)[0]
    return torch.where(allowed, mu.nan_to_num(nan=-torch.inf), -torch.inf).argmax(-1)


def moments_in_own_units(several: Several, outcomes: OutcomeMap, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the outcome at x (b x m x d), larger is better: each b x m.

    Over all H Gaussian processes, equally probable: each by Gauss-Hermite quadrature of the way back.
    """
    gp, scale = several
    H = len(gp.X)
    nodes, weights = (torch.from_numpy(part).to(x) for part in np.polynomial.hermite_e.hermegauss(NODES))
    weights = (weights / (weights.sum() * H)).expand(H, -1)
    mu, sigma = gp.posterior(x.expand(H, *x.shape))
    y = (mu[..., None] + sigma[..., None] * nodes) * scale[..., None, None]
    y = y.movedim(0, -2)  # b x m x H x nodes
    Y = outcomes.inverse(y.flatten(-3)).view(y.shape)
    mean = (Y * weights).sum((-2, -1))
    off = Y - mean[..., None, None]
    size = largest(off.flatten(-2))
    return mean, ((off.flatten(-2) / size).square() * weights.flatten()).sum(-1).sqrt() * size.squeeze(-1)


def shortest(samples: Tensor, probability: float) -> tuple[Tensor, Tensor]:
    """Ends of the shortest interval of each coordinate that holds one more of its samples with this probability.

    Between the i-th and the (i + j)-th of S samples in order, one more lies with probability j/(S + 1). Of intervals of
    one length the middle one: many functions have their optimum on the border, where samples are equal.

    Args:
        samples: b x S x d.

    Returns:
        b x d each.
    """
    u, S = samples.sort(-2).values, samples.shape[-2]
    j = min(math.ceil(probability * (S + 1) - ROUNDING), S - 1)
    width = u[..., j:, :] - u[..., : S - j, :]
    is_shortest = width <= width.amin(-2, keepdim=True) + ROUNDING
    rank = is_shortest.cumsum(-2)
    middle = (rank == (rank[..., -1:, :] + 1) // 2) & is_shortest
    first = middle.int().argmax(-2, keepdim=True)
    return u.gather(-2, first).squeeze(-2), u.gather(-2, first + j).squeeze(-2)


def above(count: int, probability: float) -> int:
    """Which of so many samples, in order from 0, is above one more with this probability, k/(S + 1) for the k-th."""
    return min(math.ceil(probability * (count + 1) - ROUNDING), count) - 1


class _Limits(NamedTuple):
    """What is known of the constraints."""

    feasible: Tensor  # b x n, the observations that were
    recommendable: Tensor  # b x n, those of them that are so by the model as well, where one is
    margins: GP | None = None  # q x b
    thresholds: Tensor | None = None  # q x b

    @classmethod
    def of(cls, gp: GP, constraints: Tensor | None, lost: Tensor | None = None) -> _Limits:
        """From constraints (b x n x q) observed with the objective; TrialError where no observation is feasible."""
        X = gp.X
        feasible = torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)
        if constraints is not None and constraints.shape[-1]:
            feasible = (constraints <= 0).all(-1)
        elif lost is None:
            return cls(feasible, feasible)
        if not bool(feasible.any(-1).all()):
            raise TrialError("no trial is feasible yet, so that nothing is known of the optimum")
        margins, thresholds = margins_of(X, constraints, gp.given, lost)
        mu, _ = margins.posterior(X.expand(len(thresholds), *X.shape))
        probable = feasible & (mu >= thresholds[..., None]).all(0)
        return cls(feasible, torch.where(probable.any(-1, keepdim=True), probable, feasible), margins, thresholds)

    def on(self, paths: Paths, rows: Draws) -> Drawn:
        """Draws of the objective, H x b, with draws of the constraints."""
        if self.margins is None or self.thresholds is None:
            return paths
        q, H, count = len(self.thresholds), len(paths.gp.X), paths.update.shape[-2]
        margins = draw_paths(_repeated(self.margins, H, 1), count, rows.split(q * H))
        thresholds = self.thresholds.unsqueeze(1).expand(q, H, *self.thresholds.shape[1:])
        return ConstrainedPaths(paths, margins, thresholds, self.feasible)


def _repeated(gp: GP, count: int, at: int) -> GP:
    """The Gaussian processes with one more batch dimension, of so many equal ones."""

    def repeat(part: Tensor) -> Tensor:
        return part.unsqueeze(at).expand(*part.shape[:at], count, *part.shape[at:])

    parts: dict[str, Any] = {
        name: repeat(getattr(gp, name)) for name in ("X", "y", "mean", "alpha", "inverse", "fit_failed")
    }
    known = gp.given.known_noise
    given = gp.given if known is None else gp.given._replace(known_noise=repeat(known))
    hyperparameters = Hyperparameters(*map(repeat, gp.hyperparameters))
    return replace(gp, hyperparameters=hyperparameters, given=given, **parts)
