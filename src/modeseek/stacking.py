"""Earlier studies on related tasks as the mean of this run's Gaussian process.

Each of K earlier studies (earlier.py) has a Gaussian process of its own, whose posterior mean m_k stands in for it. The
outcomes of this run are taken to be

    y(x) = Σ_k a_k m_k(x) + s g(x)

with g the usual Gaussian process, fitted to the rest of y, and s the standard deviation of the rest, as in Vizier's
stacked regressors (Golovin et al. 2017), but with weights a_k that the data decide on. a_k is the slope of y on m_k by
generalized least squares, under the covariance that a fit without earlier studies has found, with the prior N(0, 1);
below 0 it is 0. Of all studies the one with which y has the highest evidence is taken, if that is higher than without
by ½ log n + log K, the price of a slope and of the choice, and if it explains at least a fifth of the variance; then,
likewise, another one for the rest, at most MOST of them. An unrelated study is left out in this way, and as outcomes
come in g corrects what a related one has got wrong. Where the last outcomes have brought nothing (exploration.py),
none counts: a mean that is wrong may lead to the same place again and again.

Notation as in surrogate.py; K earlier studies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from modeseek.conditions import ABSENT
from modeseek.exploration import FEW, MIN_PERIOD, has_stalled
from modeseek.map_fit import evidence
from modeseek.surrogate import GP

FEWEST = 5  # outcomes from which weights are estimated
MOST = 3  # earlier studies that count at once
MOST_LEFT = math.sqrt(0.8)  # of the standard deviation, by a study that counts: it explains a fifth of the variance
LEAST_SCALE = 0.05  # of s: what is left is never taken to be known better
EVIDENCE_SIZE = 200  # observations that decide, evenly from first to last


class Stack:
    """The means of earlier studies. They are the same for all problems of a batch.

    Args:
        gps: a Gaussian process per study, each a batch of one, in this run's cube.
        shared: per study d, bool: the coordinates that it has; of others it says nothing.
    """

    def __init__(self, gps: Sequence[GP], shared: Sequence[Tensor]) -> None:
        self._gps, self._shared = list(gps), list(shared)

    def __len__(self) -> int:
        return len(self._gps)

    def means(self, x: Tensor) -> Tensor:
        """m_k at x (... x d): ... x K."""
        rows = x.reshape(1, -1, x.shape[-1])
        means = [
            gp.mean + (gp.kernel(self._seen(rows, i), gp.X) @ gp.alpha[..., None])[..., 0]
            for i, gp in enumerate(self._gps)
        ]
        return torch.stack(means, -1).view(*x.shape[:-1], len(self))

    def mean(self, x: Tensor, shares: Tensor) -> Tensor:
        """Σ_k a_k m_k at x (b x m x d) with a (b x K): b x m."""
        return (self.means(x) * shares[..., None, :]).sum(-1)

    def grad(self, x: Tensor, shares: Tensor) -> Tensor:
        """The gradient of `mean`: b x m x d."""
        rows = x.reshape(1, -1, x.shape[-1])
        total = torch.zeros_like(x)
        for i, gp in enumerate(self._gps):
            seen = self._seen(rows, i)
            slope = gp.slope(seen, (gp.alike(seen, gp.X)[1] * gp.alpha[..., None, :], gp.X)) * self._shared[i]
            total = total + shares[..., None, i, None] * slope.view(x.shape)
        return total

    def _seen(self, x: Tensor, i: int) -> Tensor:
        return torch.where(self._shared[i], x, ABSENT)

    def explain(self, gp: GP) -> tuple[Tensor, Tensor]:
        """The weights a (b x K) and the scale s (b) for the outcomes of a Gaussian process fitted without them."""
        X, y = gp.X, gp.y
        n, K = y.shape[-1], len(self)
        shares, scale = y.new_zeros(*y.shape[:-1], K), torch.ones_like(y[..., 0])
        d = X.shape[-1]
        stalled = has_stalled(y, d) & (n >= FEW + max(d, MIN_PERIOD))  # before that, they are of an initial design
        if n < FEWEST or bool(stalled.all()):
            return shares, scale
        F = self.means(X)  # b x n x K
        some = torch.linspace(0, n - 1, min(n, EVIDENCE_SIZE), dtype=torch.float64, device=X.device).long()
        price = 0.5 * math.log(n) + math.log(K)
        rest, best = y, _evidence(gp, y, torch.ones_like(scale), some)
        for _ in range(min(K, MOST)):
            slopes = _slopes(gp.inverse, F, rest)  # b x K
            rests = rest - (F * slopes[..., None, :]).movedim(-1, 0)  # K x b x n
            scales = _spread(rests).clamp(LEAST_SCALE, 1.0)
            found, k = (_evidence(gp, rests, scales, some) - price).nan_to_num(nan=-torch.inf).max(0)
            better = (found > best) & ~stalled & (scales.gather(0, k[None])[0] <= MOST_LEFT * scale)
            if not bool(better.any()):
                break
            chosen = torch.nn.functional.one_hot(k, K).to(y) * better[..., None]
            shares = shares + chosen * slopes
            rest = y - (F * shares[..., None, :]).sum(-1)
            best = torch.where(better, found, best)
            scale = torch.where(better, _spread(rest).clamp(LEAST_SCALE, 1.0), scale)
        return shares, scale


def _evidence(gp: GP, rest: Tensor, scale: Tensor, some: Tensor) -> Tensor:
    """The log density of outcomes with this rest (... x b x n) in units of s (... x b): ... x b."""
    y = ((rest - rest.mean(-1, keepdim=True)) / scale[..., None])[..., some]
    return evidence(gp.X[..., some, :], y, gp.given._replace(known_noise=None)) - len(some) * scale.log()


def _spread(rest: Tensor) -> Tensor:
    return rest.std(-1, correction=1)


def _slopes(A: Tensor, F: Tensor, y: Tensor) -> Tensor:
    """The slope of y (b x n) on each column of F (b x n x K) beside a constant, by generalized least squares: b x K.

    A (b x n x n) is the inverse of the covariance.
    """
    weights = A.sum(-1)  # 1ᵀA
    total = weights.sum(-1, keepdim=True)
    centred = F - ((weights[..., None] * F).sum(-2) / total)[..., None, :]
    y = y - (weights * y).sum(-1, keepdim=True) / total
    by = A @ centred
    slope = (by * y[..., None]).sum(-2) / ((by * centred).sum(-2) + 1)
    return slope.clamp_min(0)
