"""Outcomes as the surrogate sees them: of order one, and in the default of a shape that a Gaussian process fits.

A Gaussian process expects outcomes that vary alike everywhere. Those of an optimization do not: most of their spread
is among the bad ones, where nothing will be looked for, and the good ones are hardly apart. `warp` makes room at the
top in steps that keep the order, up to ties:

    outliers  what is 60 median deviations below the median counts as the worst of the rest
    power     Yeo and Johnson's (2000) transform, whose λ makes the outcomes most normal, as in HEBO (Cowen-Rivers et
              al. 2022); but none where a Gaussian process explains the outcomes better as they are
    floor     what is further below the median than the best is above it counts as just that far below

Y is b x n, larger is better, b any number of batch dimensions; every batch element is treated by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Good values are what a run is for: they are drawn in only where the others would drown in rounding error.
GOOD_OUTLIER = 2e4
BAD_OUTLIER = 60.0
NO_OUTLIER = 1e6  # leaves ordinary data as they are, and still takes 1e300 for what it is
TIE = 1e-12  # outcomes that differ by less than this share of themselves are equal: the rest is rounding error
POWERS = (-1.0, 3.0)  # the range of λ; 1 changes nothing, more compresses the bad
GRID = 41


# Outcomes ... x b x n and the log of each one's derivative by what was observed  ->  the log density of that, ... x b.
Evidence = Callable[[Tensor, Tensor], Tensor]


def warp(Y: Tensor, evidence: Evidence | None = None) -> Tensor:
    """Outcomes with room at the top, of zero mean and unit standard deviation; `evidence` as in `power`.

    The evidence is asked before the floor, which cannot be undone: densities on either side of it do not compare.
    """
    y = power(Y, evidence)
    return standardize(torch.maximum(y, floor_of(y)))


def power(Y: Tensor, evidence: Evidence | None = None) -> Tensor:
    """Outcomes most normal by a power transform, of zero mean and unit standard deviation.

    Args:
        evidence: of the model that is to be fitted, which decides on the transform; None: it is always used.
    """
    plain = standardize(Y, BAD_OUTLIER)
    lam = most_normal_power(plain)
    shaped = yeo_johnson(plain, lam)
    y = standardize(shaped)
    if evidence is None:
        return y
    log_slope = (lam - 1) * _log_slope_by_power(plain) - (_spread(shaped) / _spread(plain)).log()
    of_plain, of_shaped = evidence(torch.stack([plain, y]), torch.stack([torch.zeros_like(plain), log_slope]))
    return torch.where((of_shaped > of_plain)[..., None], y, plain)


def floor_of(y: Tensor) -> Tensor:
    """As far below the median of standardized outcomes as the best is above it: b x 1.

    The worst of them where half are the best.
    """
    best, median = y.amax(-1, keepdim=True), y.median(-1, keepdim=True).values
    return torch.where(best - median > 1e-9, 2 * median - best, y.amin(-1, keepdim=True))


def most_normal_power(y: Tensor) -> Tensor:
    """The λ under which standardized outcomes are most likely to be normal, b x 1."""
    lam = torch.linspace(*POWERS, GRID, dtype=y.dtype, device=y.device)
    by_power = lam.view(-1, *[1] * y.ndim)
    # The likelihood of normal outcomes with the best mean and variance, times the transform's Jacobian.
    log_jacobian = (by_power[..., 0] - 1) * _log_slope_by_power(y).sum(-1)
    variance = yeo_johnson(y, by_power).var(-1, correction=0).clamp_min(1e-30)
    return lam[(log_jacobian - 0.5 * y.shape[-1] * variance.log()).argmax(0)][..., None]


def _log_slope_by_power(y: Tensor) -> Tensor:
    """The log of the power transform's derivative at y, over λ − 1."""
    return y.sign() * y.abs().log1p()


def _spread(y: Tensor) -> Tensor:
    """A standard deviation that one outcome has as well; only ratios of two of them count."""
    return y.std(-1, correction=0, keepdim=True).clamp_min(1e-15)


def yeo_johnson(y: Tensor, lam: Tensor) -> Tensor:
    """The power transform of y, broadcast against λ."""
    return torch.where(y >= 0, _box_cox(y.clamp_min(0), lam), -_box_cox((-y).clamp_min(0), 2 - lam))


def _box_cox(y: Tensor, lam: Tensor) -> Tensor:
    """((1 + y)^λ − 1)/λ, which tends to log(1 + y) at λ = 0."""
    z = y.log1p()
    zero = lam.abs() < 1e-9
    safe = torch.where(zero, 1.0, lam)
    return torch.where(zero, z, torch.expm1(safe * z) / safe)


def standardize(Y: Tensor, outlier: float = NO_OUTLIER) -> Tensor:
    """Outcomes b x n, larger is better, to zero mean and unit standard deviation, at any order of magnitude.

    An outcome more than `outlier` median deviations under the median says no more than "bad", and counts as the worst
    of the rest: one diverged training run would otherwise make all others equal. Constant outcomes become zeros.
    """
    Y = _to_order_one(Y)
    median = Y.median(-1, keepdim=True).values
    deviation = (Y - median).abs()
    usual, tie = deviation.median(-1, keepdim=True).values, TIE * median.abs()
    if bool((usual <= tie).any()):  # more than half are equal: what is usual among the others
        others = torch.where(deviation > tie, deviation, torch.nan).nanmedian(-1, keepdim=True).values
        usual = torch.where(usual > tie, usual, others.nan_to_num(torch.inf))
    worst = torch.where(median - outlier * usual <= Y, Y, torch.inf).amin(-1, keepdim=True)
    Y = _to_order_one(torch.minimum(torch.maximum(Y, worst), median + GOOD_OUTLIER * usual))
    Y = Y - Y.mean(-1, keepdim=True)
    std = (Y.square().sum(-1, keepdim=True) / max(Y.shape[-1] - 1, 1)).sqrt()
    return torch.where(std > 1e-14, Y / std, 0.0)  # at order one, less than that is rounding error


def _to_order_one(Y: Tensor) -> Tensor:
    """Y over its largest magnitude: squares of 1e300 would overflow, those of 1e-300 vanish."""
    largest = Y.abs().amax(-1, keepdim=True)
    return Y / torch.where(largest > 0, largest, 1.0)
