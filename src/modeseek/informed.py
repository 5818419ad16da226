"""The surrogate with what was known before the first evaluation: a belief where the optimum is, and earlier studies.

A user's belief π (beliefs.py) enters as in πBO (Hvarfner et al. 2022), which multiplies an acquisition function by
π(x)^(β/n), so that a wrong one washes out with the number n of outcomes. There it is a factor of an expected
improvement, whose logarithm counts in standard deviations of the posterior. So here

    ŷ(x) = μ(x) + (ρ + w log π(x)) σ(x),    w = β/n · max(0, (n r + n_0)/(n + n_0))

in which the belief says how much to hope for where little is known, and has no say where outcomes have (σ = 0). The
labels of improvement.py are logarithms, and get w log π(x) itself. r is the rank correlation of the outcomes with π at
their inputs, by which a belief also loses its weight where outcomes speak against it; as a third of an initial design
is drawn from the belief and the rest is not, they do so early. log π is 0 at its highest and above −F, however many
parameters it is about: F (exp(l/F) − 1) of the sum l of the parameters' logarithms.

Earlier studies on related tasks are the mean of the Gaussian process (stacking.py), whose own part is the rest.

Notation as in surrogate.py; K earlier studies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from modeseek.beliefs import GRID, quantiles
from modeseek.embedding import Embedding
from modeseek.parameters import Categorical
from modeseek.space import Space
from modeseek.stacking import Stack
from modeseek.surrogate import GP, Moments, Rho
from modeseek.typing import Array

BETA = 10.0
TRUST = 3.0  # n_0, outcomes' worth of trust in a belief
DEEPEST = 5.0  # F
LARGEST = 1.0  # of w
SHARE = 0.5  # of the pseudo-inputs, times w, that start where the optimum is believed to be


class Belief:
    """A user's belief on the unit cube. It is the same for all problems of a batch.

    Args:
        tables: d x (GRID + 1), logarithms of densities.
        embedding: of the space; it knows which parameters exist.
    """

    def __init__(self, space: Space, tables: Array, embedding: Embedding, device: torch.device) -> None:
        self._array, self._embedding = tables, embedding
        self._table = torch.from_numpy(tables).to(device)
        parameters = [space[name] for name in space.coordinates]
        counts = [p.size if isinstance(p, Categorical) else 0 for p in parameters]
        self._counts = torch.tensor(counts, dtype=torch.float64, device=device)
        self._row = torch.arange(space.d, dtype=torch.int64, device=device) * (GRID + 1)

    def after(self, X: Tensor, Y: Tensor, constraints: Tensor | None = None) -> Conviction:
        """What it counts for after outcomes Y (b x n, or b x n x M) at X (b x n x d).

        Args:
            constraints: b x n x q; what is not feasible is as bad as the worst.
        """
        Y = Y.movedim(-1, 0) if Y.ndim == X.ndim else Y[None]
        if constraints is not None:
            Y = torch.where((constraints <= 0).all(-1), Y, Y.amin(-1, keepdim=True))
        n, r = X.shape[-2], _rank_correlation(self.log_density(X), Y).mean(0)
        trust = ((n * r + TRUST) / (n + TRUST)).clamp_min(0)
        return Conviction(self, (BETA / n * trust).clamp_max(LARGEST)[..., None])

    def log_density(self, x: Tensor) -> Tensor:
        """log π at x (... x d), between −DEEPEST and 0: ..."""
        return self.log_density_and_grad(x)[0]

    def log_density_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """log π at x (... x d) and its gradient there: ..., ... x d."""
        is_number = self._counts == 0
        count = self._counts.clamp_min(1)
        centre = (torch.minimum((x * count).floor(), count - 1) + 0.5) / count
        at = torch.where(is_number, x, centre) * GRID
        left = at.floor().clamp(0, GRID - 1)
        index = left.long() + self._row
        low, high = self._table.view(-1)[index], self._table.view(-1)[index + 1]
        exists = self._embedding.exists(x)
        value = torch.where(exists, low + (at - left) * (high - low), 0.0).sum(-1)
        slope = torch.where(exists & is_number, (high - low) * GRID, 0.0)
        less = (value / DEEPEST).exp()
        return DEEPEST * (less - 1), slope * less[..., None]

    def quantiles(self, u: Tensor) -> Tensor:
        """Where its densities have these quantiles: u (... x d), evenly spread, to ... x d."""
        points = quantiles(self._array, u.reshape(-1, u.shape[-1]).cpu().numpy())
        return torch.from_numpy(points).to(u).view(u.shape)


@dataclass(frozen=True)
class Conviction:
    """A belief, and what it counts for by now."""

    belief: Belief
    weight: Tensor  # w, b x 1

    def term(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """w log π at x (b x m x d) and its gradient there: b x m, b x m x d."""
        value, grad = self.belief.log_density_and_grad(x)
        return self.weight * value, self.weight[..., None] * grad

    def lean(self, x: Tensor) -> Tensor:
        """Evenly spread points (b x m x d), the first of them moved to where the optimum is believed to be."""
        m = x.shape[-2]
        moves = torch.arange(m, dtype=x.dtype, device=x.device) < SHARE * m * self.weight
        return torch.where(moves[..., None], self.belief.quantiles(x), x)


def _rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Spearman's, of numbers ... x n: ...; 0 where all of one are equal."""
    a, b = (((x[..., :, None] - x[..., None, :]).sign()).sum(-1) for x in (a, b))  # ranks about 0, times two
    size = (a.square().sum(-1) * b.square().sum(-1)).sqrt()
    return torch.where(size > 0, (a * b).sum(-1) / size, 0.0)


@dataclass(frozen=True)
class InformedGP(GP):
    """A Gaussian process that knows more than its outcomes.

    With earlier studies its hyperparameters, c, α and A are of the rest (y − Σ a_k m_k(X))/s; y, moments and labels are
    of the whole.
    """

    conviction: Conviction | None = None
    stack: Stack | None = None
    shares: Tensor | None = None  # a, b x K
    scale: Tensor | None = None  # s, b

    @classmethod
    def of(cls, gp: GP, conviction: Conviction) -> InformedGP:
        """A Gaussian process with a belief."""
        return cls(**{**vars(gp), "conviction": conviction})

    @classmethod
    def on(cls, rest: GP, y: Tensor, stack: Stack, shares: Tensor, scale: Tensor) -> InformedGP:
        """The Gaussian process of outcomes y (b x n), from that of what earlier studies leave of them."""
        return cls(**{**vars(rest), "y": y, "stack": stack, "shares": shares, "scale": scale})

    def label(self, x: Tensor, rho: Rho) -> Tensor:
        """μ + (ρ + w log π) σ at x (b x m x d): b x m."""
        mu, sigma = self.posterior(x)
        return mu + (rho + self._term(x)[0]) * sigma

    def label_and_grad(self, x: Tensor, rho: Rho) -> tuple[Tensor, Tensor]:
        """The label at x (b x m x d) and its gradient, ∇μ + (ρ + w log π)∇σ + w σ ∇log π: b x m, b x m x d."""
        at = self.moments(x)
        term, slope = self._term(x)
        value = at.mu + (rho + term) * at.sigma
        return value, self.grad(x, at, rho + term) + slope * at.sigma[..., None]

    def _term(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.conviction is None:
            return torch.zeros_like(x[..., 0]), torch.zeros_like(x)
        return self.conviction.term(x)

    def moments(self, x: Tensor) -> Moments:
        """The posterior at x (b x m x d), of the whole; k and v are of the rest."""
        at = super().moments(x)
        if self.stack is None or self.shares is None or self.scale is None:
            return at
        s = self.scale[..., None]
        return at._replace(mu=s * at.mu + self.stack.mean(x, self.shares), sigma=s * at.sigma)

    def grad(self, x: Tensor, at: Moments, rho: Rho) -> Tensor:
        """∇μ + ρ∇σ at x, b x m x d, of the whole. Overwrites `at.v`."""
        if self.stack is None or self.shares is None or self.scale is None:
            return super().grad(x, at, rho)
        s = self.scale[..., None]
        own = super().grad(x, at._replace(sigma=at.sigma / s), rho)
        return s[..., None] * own + self.stack.grad(x, self.shares)

    def grad_by(self, x: Tensor, at: Moments, by_mean: Tensor, by_sigma: Tensor) -> Tensor:
        """by_mean ∇μ + by_sigma ∇σ at x, b x m x d, of the whole."""
        if self.stack is None or self.shares is None or self.scale is None:
            return super().grad_by(x, at, by_mean, by_sigma)
        s = self.scale[..., None]
        own = super().grad_by(x, at._replace(sigma=at.sigma / s), s * by_mean, s * by_sigma)
        return own + by_mean[..., None] * self.stack.grad(x, self.shares)

    def condition(self, x: Tensor) -> InformedGP:
        """This Gaussian process with x (b x p x d) observed at its posterior mean."""
        parts = {name: getattr(self, name) for name in _FIELDS}
        if self.stack is None or self.shares is None or self.scale is None:
            return replace(self, **vars(GP(**parts).condition(x)))
        s = self.scale[..., None]
        rest = GP(**{**parts, "y": (self.y - self.stack.mean(self.X, self.shares)) / s}).condition(x)
        return replace(self, **{**vars(rest), "y": s * rest.y + self.stack.mean(rest.X, self.shares)})


_FIELDS = [field.name for field in fields(GP)]
