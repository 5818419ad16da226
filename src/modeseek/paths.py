"""Functions drawn from the posterior of a Gaussian process, and where each has its maximum: samples of x*.

A draw f is a draw g from the prior plus what the observations say against it (Matheron's rule; Wilson et al. 2020):

    f(x) = c + g(x) + k(x, X) A (y − c − g(X) − ε),    ε ~ N(0, Λ)
    g(x) = F^(−½) Σ_j a_j cos(ω_j·x) + b_j sin(ω_j·x),    a_j, b_j ~ N(0, 1),    ω_j of the kernel's spectral density

The update is exact; only the prior is approximated, by F random Fourier features (Rahimi and Recht 2007). All draws
of a Gaussian process share its ω, which are shifted Sobol points: their error is smaller than that of independent ones
(docs/optimum.md).

Notation as in surrogate.py, and
    P   number of draws          ω   b x F x D    frequencies            a, b   b x P x F    their amplitudes
    s   points of each draw      x   b x P x s x d                       u      b x P x n    A (y − c − g(X) − ε)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from modeseek.design import sobol
from modeseek.domain import CUBE, Domain
from modeseek.draws import Draws, Randomness
from modeseek.lbfgs import descend_in_cube
from modeseek.map_fit import evenly
from modeseek.surrogate import GP

FEATURES = 128  # F per dimension, and
MOST_FEATURES = 512  # at most; docs/optimum.md
SPREAD = 1024  # Sobol points among the candidates for a draw's maximum
NEAR = 512  # points around the best observations
OBSERVED = 500  # observed inputs among the candidates, at most
FALLBACKS = 64  # candidates of each kind that are looked at where an optimum cannot be evaluated
SHORT = 8  # steps of a short climb
COVERED = 3  # dimensions, at most, that the candidates cover so well that a quick search needs no short climbs
PRICE = 30.0  # of violating a constraint, in standard deviations of the objective per standard deviation of it
NEARLY = 0.01  # of a constraint's standard deviation


class Search(NamedTuple):
    """How thoroughly the maximum of a draw is looked for."""

    starts: tuple[int, ...]  # of short climbs, from each group of candidates
    short: int  # steps of those
    finalists: int  # of them that go on
    long: int  # for so many steps
    gtol: float  # until the largest derivative is that small


THOROUGH = Search((16, 4, 8), SHORT, 4, 100, 1e-6)
QUICK = Search((6, 3, 3), SHORT, 1, 30, 1e-3)  # a third of the time, some 0.01 lower on average


@dataclass(frozen=True)
class Paths:
    """Draws from the posterior, of every Gaussian process of a batch."""

    gp: GP
    frequencies: Tensor  # ω
    cosines: Tensor  # a F^(−½)
    sines: Tensor  # b F^(−½)
    update: Tensor  # u

    def everywhere(self, x: Tensor) -> Tensor:
        """All draws at the same inputs x (b x m x d): b x P x m."""
        return self._prior(x) + self.update @ self.gp.kernel(self.gp.X, x)

    def _prior(self, x: Tensor) -> Tensor:
        """c + g at x (b x m x d): b x P x m."""
        phase = self.frequencies @ self.gp.given.embedding(x).mT
        return (self.cosines @ phase.cos()).add_(self.sines @ phase.sin()).add_(self.gp.mean[..., None, None])

    def shrunk(self, share: float) -> Paths:
        """The draws with their differences from the posterior's mean shrunk to a share: μ + share·(f − μ)."""
        update = torch.lerp(self.gp.alpha.unsqueeze(-2), self.update, share)  # μ = c + k(x, X) α
        return replace(self, cosines=share * self.cosines, sines=share * self.sines, update=update)

    def value(self, x: Tensor) -> Tensor:
        """Each draw at inputs of its own (b x P x s x d): b x P x s."""
        return self.value_and_grad(x)[0]

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each draw at inputs of its own (b x P x s x d), and its gradient there: b x P x s, b x P x s x d.

        ∇g = F^(−½) Σ_j (b_j cos − a_j sin)(ω_j·x) ω_j, and ∇k_i = −κ'_i (X_i − x)/ℓ² as in `GP.slope`.
        """
        s = x.shape[-2]
        flat = x.flatten(-3, -2)
        phase = (self.gp.given.embedding(flat) @ self.frequencies.mT).unflatten(-2, (-1, s))
        cos, sin = phase.cos(), phase.sin_()
        a, b = self.cosines[..., None], self.sines[..., None]  # b x P x F x 1
        k, decay = (pairs.unflatten(-2, (-1, s)) for pairs in self.gp.alike(flat, self.gp.X))
        total = (k @ self.update[..., None]).squeeze(-1)
        weights = decay.mul_(self.update[..., None, :])
        value = (cos @ a + sin @ b).squeeze(-1) + total + self.gp.mean[..., None, None]
        slope = cos.mul_(b.mT).sub_(sin.mul_(a.mT)).flatten(-3, -2)
        grad = self.gp.given.embedding.pull_back(slope @ self.frequencies, flat)
        grad = grad + self.gp.slope(flat, (weights.flatten(-3, -2), self.gp.X))
        return value, grad.view(x.shape)


@dataclass(frozen=True)
class ConstrainedPaths:
    """Draws of an objective, each with a draw of every constraint's margin, of which q share a batch with it.

    What is infeasible loses PRICE times what it violates.
    """

    objective: Paths
    margins: Paths  # q x b
    thresholds: Tensor  # q x b, feasible where a margin is at least that
    feasible: Tensor  # n, the observations that were

    @property
    def gp(self) -> GP:
        """Of the objective; infeasible observations have the worst outcome."""
        gp = self.objective.gp
        return replace(gp, y=torch.where(self.feasible, gp.y, gp.y.amin(-1, keepdim=True)))

    def everywhere(self, x: Tensor) -> Tensor:
        """All draws at the same inputs x (b x m x d): b x P x m."""
        margin = self.margins.everywhere(self._each(x)) - self.thresholds[..., None, None]
        return self.objective.everywhere(x) - PRICE * (-margin).clamp_min(0).sum(0)

    def value(self, x: Tensor) -> Tensor:
        """Each draw at inputs of its own (b x P x s x d): b x P x s."""
        return self.value_and_grad(x)[0]

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each draw at inputs of its own (b x P x s x d), and its gradient there: b x P x s, b x P x s x d."""
        value, grad = self.objective.value_and_grad(x)
        margin, slope = self.margins.value_and_grad(self._each(x))
        margin = margin - self.thresholds[..., None, None]
        slope = torch.where(margin[..., None] < 0, slope, 0.0).sum(0)
        return value - PRICE * (-margin).clamp_min(0).sum(0), grad + PRICE * slope

    def is_met(self, x: Tensor) -> Tensor:
        """Whether each draw's constraints hold, nearly, at an input of its own (b x P x d): b x P."""
        margin = self.margins.value(self._each(x.unsqueeze(-2)))[..., 0] - self.thresholds[..., None]
        return (margin > -NEARLY).all(0)

    def _each(self, x: Tensor) -> Tensor:
        return x.expand(len(self.thresholds), *x.shape)


Drawn: TypeAlias = Paths | ConstrainedPaths


def draw_paths(gp: GP, count: int, source: Randomness, features: int | None = None) -> Paths:
    """So many draws from the posterior of each Gaussian process.

    Args:
        source: of random numbers, on the CPU: a generator per batch element, or one that seeds them. A Gaussian process
            has the same draws on every device.
        features: F; None: as many as the dimension needs.
    """
    *batch, n, d = gp.X.shape
    draws = Draws.of(source, batch)
    features = min(FEATURES * d, MOST_FEATURES) if features is None else features
    lengthscale = gp.given.embedding.spread(gp.hyperparameters.lengthscale)
    kernel = gp.given.embedding.kernel
    uniform = sobol(features, lengthscale.shape[-1] + kernel.extra, draws, tuple(batch))
    frequencies = kernel.frequencies(uniform).to(gp.X) / lengthscale[..., None, :]
    amplitudes = draws.randn(2, count, features, dtype=gp.X.dtype).to(gp.X).view(*batch, 2, count, features)
    cosines, sines = (amplitudes / math.sqrt(features)).unbind(-3)
    noise = draws.randn(count, n, dtype=gp.X.dtype).to(gp.X).view(*batch, count, n)
    prior = Paths(gp, frequencies, cosines, sines, torch.zeros_like(noise))
    observed = prior._prior(gp.X) + gp.noise.sqrt().unsqueeze(-2) * noise
    return Paths(gp, frequencies, cosines, sines, (gp.y[..., None, :] - observed) @ gp.inverse)


class Optima(NamedTuple):
    """The maximum of each draw."""

    x: Tensor  # b x P x d
    value: Tensor  # b x P
    paths: Drawn


def optima(
    gp: GP,
    count: int,
    source: Randomness,
    domain: Domain = CUBE,
    also: Tensor | None = None,
) -> Optima:
    """So many draws from the posterior of each Gaussian process, and the maximum of each; arguments as in `maxima`."""
    draws = Draws.of(source, gp.X.shape[:-2])
    return maxima(draw_paths(gp, count, draws), draws, domain, also)


def maxima(
    paths: Drawn,
    source: Randomness,
    domain: Domain = CUBE,
    also: Tensor | None = None,
    quick: bool = False,
) -> Optima:
    """The maximum of each draw over a domain.

    Candidates are Sobol points, observed inputs, and points around the best of those. From the best of parts of each
    group short climbs start, and the highest of them go on.

    Args:
        source: as in `draw_paths`.
        domain: what can be evaluated.
        also: b x c x d, more candidates, in its region.
        quick: a less thorough search.
    """
    search = QUICK if quick else THOROUGH
    if quick and paths.gp.X.shape[-1] <= COVERED:
        search = search._replace(short=0)
    starts = search.starts
    groups = _candidates(paths.gp, Draws.of(source, paths.gp.X.shape[:-2]), domain)
    if also is not None:
        groups, starts = [*groups, also], (*starts, also.shape[-2])
    free = domain.continuous
    x = torch.cat([_best_of_all(paths, domain.snap(group), k) for group, k in zip(groups, starts, strict=True)], -2)
    x = _best(paths, _climb(paths, x, search.short, free, domain, search.gtol), search.finalists)
    if domain.rounding is not None:  # a climb that knows no rounding leads to other values of the discrete parameters
        x = torch.cat([x, domain.snap(_climb(paths, x, SHORT, None, domain, search.gtol))], -2)
    x = _best(paths, _climb(paths, x, search.long, free, domain, search.gtol), 1)
    x, through = domain.evaluable(x)
    if not bool(through.all()):
        x = torch.where(through[..., None], x, _best_evaluable(paths, groups, domain))
    return Optima(x.squeeze(-2), paths.value(x).squeeze(-1), paths)


def _best_evaluable(paths: Drawn, groups: list[Tensor], domain: Domain) -> Tensor:
    """Of candidates in groups of b x m x d the one that can be evaluated where a draw is highest: b x P x 1 x d.

    Whole numbers to which a constraint moves a point may be those that a function refuses.
    """
    few = torch.cat([group[..., :FALLBACKS, :] for group in groups], -2)
    x, through = domain.evaluable(few)
    value = paths.everywhere(x).masked_fill(~through.unsqueeze(-2), -torch.inf)
    index = value.argmax(-1)[..., None, None]
    return x.unsqueeze(-3).expand(*value.shape, -1).gather(-2, index.expand(*index.shape[:-1], x.shape[-1]))


def _candidates(gp: GP, draws: Draws, domain: Domain) -> list[Tensor]:
    """Where the maximum of a draw may be, in groups of b x m x d."""
    *batch, _, d = gp.X.shape
    region = domain.region
    spread = domain.sample(SPREAD, draws, gp.X)
    observed, outcomes = evenly(gp.X, gp.y, OBSERVED)
    observed = observed.clamp(0, 1)  # some may be outside of a box that is searched (locality.py)
    if region is not None and region.fixed:  # what was observed with other values
        observed = region.repair(observed, spread)
    few = min(8, outcomes.shape[-1])
    best = outcomes.topk(few, -1).indices[..., torch.arange(NEAR, dtype=torch.int64, device=gp.X.device) % few]
    around = observed.gather(-2, best[..., None].expand(*batch, NEAR, d))
    # At all distances up to a length-scale, since how sharply the maximum is known depends on the data.
    distance = torch.logspace(-3, 0, NEAR, dtype=gp.X.dtype, device=gp.X.device)[:, None] / math.sqrt(d)
    step = draws.randn(NEAR, d, dtype=gp.X.dtype).to(gp.X).view(*batch, NEAR, d)
    reach = gp.hyperparameters.lengthscale.clamp_max(1)[..., None, :]
    near = (around + distance * reach * step).clamp(0, 1)
    return [spread, observed, near if region is None else region.either(region.repair(near), around)]


def _best_of_all(paths: Drawn, x: Tensor, k: int) -> Tensor:
    """Of each k-th part of x (b x m x d) the input where a draw is highest: b x P x k x d.

    The k highest of all would often lie on one hill.
    """
    value = paths.everywhere(x)
    size = -(-x.shape[-2] // k)
    parts = [part.argmax(-1) + i * size for i, part in enumerate(value.split(size, -1))]
    index = torch.stack(parts, -1)
    return x.unsqueeze(-3).expand(*value.shape, -1).gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))


def _best(paths: Drawn, x: Tensor, k: int) -> Tensor:
    """The k of each draw's own inputs (b x P x s x d) where it is highest: b x P x k x d."""
    index = paths.value(x).topk(min(k, x.shape[-2]), -1).indices
    return x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))


def _climb(paths: Drawn, x: Tensor, steps: int, free: Tensor | None, domain: Domain, gtol: float) -> Tensor:
    """At most so many steps of L-BFGS up each draw from its own inputs (b x P x s x d).

    Only coordinates that are `free` (d) move, all of them if None.
    """

    if not steps:
        return x

    def descend(z: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = paths.value_and_grad(z)
        return value.neg_(), grad.neg_()

    region = domain.region
    if region is not None:
        end = region.climb(descend, x, steps=steps, free=free, joint=False, record=True)
        return region.either(end, x) if steps <= SHORT else region.keep(end, x)
    return descend_in_cube(descend, x, steps=steps, free=free, gtol=gtol)
