"""Between branches: expected improvement decides which choices the next point has.

A branch is one combination of choices, that is of values of Categorical parameters and of those that others depend on
(conditions.py). Within a branch the next point is found as everywhere: the mode of the samples, climbed up μ + ρσ.
Between branches those labels mislead. No small step leads from one to another, a small ρ does not leap, and once a
branch is near its optimum, most observations are there: the outcomes as the surrogate sees them (drawn together below
the median) have no differences left in the other branches, which then seem to be known. So the best point of each
branch is sought by expected improvement, under a second Gaussian process, and competes with the mode by

    log EI(x) + log(1 − √(τ/(σ² + τ)))

Huang et al.'s (2006) augmented expected improvement, in which observing again what is known to within the noise is
worth little. Where the mode's branch wins, its point is the next one.

The second process sees the outcomes by turns in their own shape, which keeps what sets the branches apart, and after
the power transform, without which a few very bad outcomes would hide that (docs/decisions.md has both alone). Branches
that compete are those of the pseudo-inputs, and those that differ from good ones in one choice: of four parameters
with five choices each, 500 pseudo-inputs meet half of all branches, most of them once.

Whole numbers and other discrete parameters that have an order are searched as numbers, since climbs find their way
among them. But once a run has stalled, it may be one step off: the climbs end at the same values, of which most
observations are, and the process takes the next ones for known. So with `choose_by="steps"` those with few values are
then compared like choices.

Notation as in surrogate.py; EI = σ h(z), h(z) = φ(z) + zΦ(z), z = (μ − best)/σ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from modeseek.constraints import ConstrainedGP
from modeseek.domain import Domain, Fork
from modeseek.improvement import ImprovementGP, h_terms, log_h
from modeseek.informed import Conviction
from modeseek.pseudo import POLISH_STEPS
from modeseek.surrogate import GP, Surrogate

MOST = 8  # branches that compete with the mode's: those with the best expected improvement at hand
ROUNDS = 3  # of changing one choice of the best points at hand
CHANGES = 256  # so many changed points per round, about
WORST_Z = -1e4  # below it h(z) is rounding error

Limits: TypeAlias = ConstrainedGP | ImprovementGP  # what knows the constraints


@dataclass(frozen=True)
class Branches:
    """The branches of one space, and what is known in them."""

    gp: GP  # that expected improvement is of
    forks: tuple[Fork, ...]  # the parameters whose values make a branch
    conviction: Conviction | None = None
    steps: tuple[Fork, ...] = ()  # those whose values make one besides where a run has stalled
    stalled: Tensor | None = None  # b, where that is

    def choose(self, x_next: Tensor, x: Tensor, surrogate: Surrogate, domain: Domain) -> Tensor:
        """x_next (b x d), or the best point of another branch where more is to be gained there: b x d.

        Args:
            x: b x m x d, points that can be evaluated.
            surrogate: that x_next was found on, which knows the constraints, if there are any.
            domain: where to search, and where x_next and x are.
        """
        if self.steps and self.stalled is not None:
            settled = replace(self, steps=()).choose(x_next, x, surrogate, domain) if self.forks else x_next
            stepped = replace(self, forks=self.forks + self.steps, steps=()).choose(x_next, x, surrogate, domain)
            return torch.where(self.stalled[..., None], stepped, settled)
        x_next = domain.exact(x_next.unsqueeze(-2))
        limits = surrogate if isinstance(surrogate, ConstrainedGP | ImprovementGP) else None
        best = self._best(limits)
        x = self._varied(torch.cat([x_next, x], -2), best, limits, domain)
        starts, exist = self._starts(x_next, x, self._gain(x, best, limits))
        tops = domain.exact(self._climb(starts, best, domain))
        points = torch.cat([x_next, tops], -2)
        gain = self._gain(points, best, limits)
        gain[..., 1:].masked_fill_(~exist, -torch.inf)
        winner = gain.nan_to_num(nan=-torch.inf).argmax(-1)
        return points.gather(-2, winner[..., None, None].expand_as(x_next)).squeeze(-2)

    def _varied(self, x: Tensor, best: Tensor, limits: Limits | None, domain: Domain) -> Tensor:
        """The points (b x m x d), of which the first is x_next, and others that differ from good ones in a choice.

        Each round goes on from the best of all.
        """
        count = max(CHANGES // sum(len(fork.values) for fork in self.forks), 1)
        seeds = x[..., :1, :]
        for _ in range(ROUNDS):
            x = torch.cat([x, domain.changed(seeds, self.forks)], -2)
            top = self._gain(x, best, limits).nan_to_num(nan=-torch.inf).topk(min(count, x.shape[-2]), -1).indices
            seeds = x.gather(-2, top[..., None].expand(*top.shape, x.shape[-1]))
        return x

    def _starts(self, x_next: Tensor, x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        """The best of x in each of the MOST best branches but x_next's, b x MOST x d; and whether there is one."""
        left = ~self._same(x, x_next)
        starts, exist = [], []
        for _ in range(MOST):
            exist.append(left.any(-1))
            i = gain.masked_fill(~left, -torch.inf).argmax(-1)[..., None, None]
            starts.append(x.gather(-2, i.expand_as(x_next)))
            left = left & ~self._same(x, starts[-1])
        return torch.cat(starts, -2), torch.stack(exist, -1)

    def _same(self, x: Tensor, one: Tensor) -> Tensor:
        """Which of x (b x m x d) are in the branch of `one` (b x 1 x d): b x m."""
        return ((x - one)[..., [fork.coordinate for fork in self.forks]].abs() < 1e-9).all(-1)

    def _best(self, limits: Limits | None) -> Tensor:
        """The best posterior mean at an observed input, feasible where one is: b x 1."""
        mu, _ = self.gp.posterior(self.gp.X)
        if limits is not None:
            feasible = limits.log_feasibility(self.gp.X) >= math.log(0.5)
            mu = torch.where(feasible | ~feasible.any(-1, keepdim=True), mu, -torch.inf)
        return mu.amax(-1, keepdim=True)

    def _gain(self, x: Tensor, best: Tensor, limits: Limits | None) -> Tensor:
        """The logarithm of augmented expected improvement, times how probable x is to be feasible: b x m.

        With a belief, times π^w.
        """
        mu, sigma = self.gp.posterior(x)
        noise = self.gp.hyperparameters.noise[..., None]
        known = torch.log1p(-(noise / (sigma.square() + noise)).sqrt())
        gain = log_h((mu - best) / sigma) + sigma.log() + known
        if self.conviction is not None:
            gain = gain + self.conviction.term(x)[0]
        return gain if limits is None else gain + limits.log_feasibility(x)

    def _climb(self, x: Tensor, best: Tensor, domain: Domain) -> Tensor:
        """Up log EI from x (b x m x d) along the coordinates of continuous parameters: b x m x d.

        ∇EI = Φ(z)∇μ + φ(z)∇σ, which is Φ(z) times the gradient of μ + ρσ at ρ = φ(z)/Φ(z).
        """

        def descend(x: Tensor) -> tuple[Tensor, Tensor]:
            at = self.gp.moments(x)
            z = ((at.mu - best) / at.sigma).clamp_min(WORST_Z)
            value, hazard, slope = h_terms(z)
            grad = self.gp.grad(x, at, hazard) * (slope / at.sigma)[..., None]
            return -(value + at.sigma.log()), grad.neg_()

        return domain.climb(descend, x, steps=POLISH_STEPS, free=domain.continuous, record=self.gp.recordable)
