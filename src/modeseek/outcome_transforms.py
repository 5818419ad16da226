"""Outcomes as the surrogate sees them: of order one, and in the default of a shape that a Gaussian process fits.

A Gaussian process expects outcomes that vary alike everywhere. Those of an optimization do not: most of their spread
is among the bad ones, where nothing will be looked for, and the good ones are hardly apart. `warp` makes room at the
top in steps that keep the order, up to ties:

    outliers  what is 60 median deviations below the median counts as the worst of the rest
    power     Yeo and Johnson's (2000) transform, whose λ makes the outcomes most normal, as in HEBO (Cowen-Rivers et
              al. 2022); but none where a Gaussian process explains the outcomes better as they are
    floor     what is further below the median than the best is above it counts as just that far below

Y is b x n, larger is better, b any number of batch dimensions; every batch element is treated by itself. What was done
to the outcomes is kept as an `OutcomeMap`, which leads from the surrogate's units back to the objective's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.surrogate import least_noise

# Good values are what a run is for: they are drawn in only where the others would drown in rounding error.
GOOD_OUTLIER = 2e4
BAD_OUTLIER = 60.0
NO_OUTLIER = 1e6  # leaves ordinary data as they are, and still takes 1e300 for what it is
TIE = 1e-12  # outcomes that differ by less than this share of themselves are equal: the rest is rounding error
POWERS = (-1.0, 3.0)  # the range of λ; 1 changes nothing, more compresses the bad
GRID = 41
LARGEST_SPREAD = 1e8  # of an outcome that says nothing, in the surrogate's units; its square is a number
MIN_KNOWN_NOISE = 1e-8  # variance of an exact outcome, over that of all outcomes, for the factorization's sake


# Outcomes ... x b x n and the log of each one's derivative by what was observed  ->  the log density of that, ... x b.
Evidence = Callable[[Tensor, Tensor], Tensor]


class Scaling(NamedTuple):
    """What `standardize` does: y = (clamp(Y/unit, low, high)/size − mean)/std; all are b x 1."""

    unit: Tensor
    low: Tensor
    high: Tensor
    size: Tensor
    mean: Tensor
    std: Tensor  # 0 where the outcomes are constant

    def apply(self, Y: Tensor) -> Tensor:
        """Outcomes b x m, in the surrogate's units."""
        y = torch.minimum(torch.maximum(Y / self.unit, self.low), self.high) / self.size - self.mean
        return torch.where(self.std > 0, y / self.std, 0.0)

    def inverse(self, y: Tensor) -> Tensor:
        """Outcomes b x m, in the units that they had; past an outlier they go on straight."""
        return (y * self.std + self.mean) * self.size * self.unit

    def shrink(self, difference: Tensor) -> Tensor:
        """Differences of outcomes, b x m, in the surrogate's units; none where the outcomes are constant."""
        return torch.where(self.std > 0, difference / self.unit / self.size / self.std, 0.0)


class OutcomeMap(NamedTuple):
    """From the objective's own units, larger is better, to the surrogate's and back; all tensors are b x 1.

    The way back is exact on every outcome above the floor that is not an outlier, and rises everywhere. Where the power
    transform has an end that no outcome can reach, the way back goes on straight from half way between the outermost
    observed outcome and that end.
    """

    first: Scaling
    power: Tensor | None  # λ, 1 where outcomes keep their shape; None: no power transform, no floor
    second: Scaling | None = None
    floor: Tensor | None = None
    third: Scaling | None = None
    range: tuple[Tensor, Tensor] | None = None  # of the power transform, in which the way back is its inverse

    @property
    def is_constant(self) -> bool:
        """Whether the outcomes of all batch elements are equal, so that their scale is not known."""
        return not bool((self.first.std > 0).any())

    def apply(self, Y: Tensor) -> Tensor:
        """Outcomes b x m as the surrogate would see them."""
        y = self.first.apply(Y)
        if self.power is not None and self.second is not None:
            y = torch.where(self.power == 1, y, self.second.apply(yeo_johnson(y, self.power)))
        if self.floor is not None and self.third is not None:
            y = self.third.apply(torch.maximum(y, self.floor))
        return y

    def variance(self, Y: Tensor, sem: Tensor) -> Tensor | None:
        """The noise variance of outcomes (b x n) with these standard errors, in the surrogate's units; NaN as in `sem`.

        By what the map makes of an outcome one standard error up and down; None where no standard error is known.
        """
        if bool(sem.isnan().all()):
            return None
        # Without a shape to follow the map is a straight line, also for the worst outcome, below which `apply` ends.
        spread = self.first.shrink(sem) if self.power is None else (self.apply(Y + sem) - self.apply(Y - sem)) / 2
        variance = spread.nan_to_num(nan=0.0).clamp_max(LARGEST_SPREAD).square()
        variance = variance.clamp_min(least_noise(Y.shape[-1], MIN_KNOWN_NOISE))
        return torch.where(sem.isnan(), torch.nan, variance)

    def inverse(self, y: Tensor) -> Tensor:
        """What the surrogate says (b x m), in the objective's own units."""
        if self.third is not None:
            y = self.third.inverse(y)
        if self.power is not None and self.second is not None and self.range is not None:
            low, high = self.range
            shaped = self.second.inverse(y)
            inside = torch.minimum(torch.maximum(shaped, low), high)
            back = inverse_yeo_johnson(inside, self.power)
            # dY/dy = (1 + |Y|)^(±(1 − λ)), from the derivative of the transform
            slope = ((1 - self.power) * _log_slope_by_power(back)).exp()
            y = torch.where(self.power == 1, y, back + slope * (shaped - inside))
        return self.first.inverse(y)


def warp(Y: Tensor, evidence: Evidence | None = None) -> Tensor:
    """Outcomes with room at the top, of zero mean and unit standard deviation; `evidence` as in `power`."""
    return mapped_by_warp(Y, evidence)[0]


def mapped_by_warp(Y: Tensor, evidence: Evidence | None = None) -> tuple[Tensor, OutcomeMap]:
    """As `warp`, and the map.

    The evidence is asked before the floor, which cannot be undone: densities on either side of it do not compare.
    """
    y, by_power = mapped_by_power(Y, evidence)
    floor = floor_of(y)
    y, third = _scaled(torch.maximum(y, floor))
    return y, by_power._replace(floor=floor, third=third)


def power(Y: Tensor, evidence: Evidence | None = None) -> Tensor:
    """Outcomes most normal by a power transform, of zero mean and unit standard deviation.

    Args:
        evidence: of the model that is to be fitted, which decides on the transform; None: it is always used.
    """
    return mapped_by_power(Y, evidence)[0]


def mapped_by_power(Y: Tensor, evidence: Evidence | None) -> tuple[Tensor, OutcomeMap]:
    """As `power`, and the map."""
    plain, first = _scaled(Y, BAD_OUTLIER)
    lam = most_normal_power(plain)
    shaped = yeo_johnson(plain, lam)
    y, second = _scaled(shaped)
    used = torch.ones_like(lam, dtype=torch.bool)
    if evidence is not None:
        log_slope = (lam - 1) * _log_slope_by_power(plain) - (_spread(shaped) / _spread(plain)).log()
        of_plain, of_shaped = evidence(torch.stack([plain, y]), torch.stack([torch.zeros_like(plain), log_slope]))
        used = (of_shaped > of_plain)[..., None]
        y = torch.where(used, y, plain)
    return y, OutcomeMap(first, torch.where(used, lam, 1.0), second, range=_invertible(shaped, lam))


def _invertible(shaped: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
    """From half way to the lower end of the power transform's values to half way to the upper one; each b x 1.

    The ends are 1/(2 − λ) for λ > 2 and −1/λ for λ < 0, else there is none.
    """
    below = torch.where(lam > 2, 1 / (2 - lam), -torch.inf)
    above = torch.where(lam < 0, -1 / lam, torch.inf)
    return (shaped.amin(-1, keepdim=True) + below) / 2, (shaped.amax(-1, keepdim=True) + above) / 2


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


def inverse_yeo_johnson(t: Tensor, lam: Tensor) -> Tensor:
    """The y whose power transform is t, broadcast against λ; infinite past the ends of the transform."""
    return torch.where(t >= 0, _inverse_box_cox(t.clamp_min(0), lam), -_inverse_box_cox((-t).clamp_min(0), 2 - lam))


def _inverse_box_cox(t: Tensor, lam: Tensor) -> Tensor:
    zero = lam.abs() < 1e-9
    safe = torch.where(zero, 1.0, lam)
    return torch.expm1(torch.where(zero, t, torch.log1p((safe * t).clamp_min(-1)) / safe))


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
    return _scaled(Y, outlier)[0]


def mapped_by_standardize(Y: Tensor, outlier: float = NO_OUTLIER) -> tuple[Tensor, OutcomeMap]:
    """As `standardize`, and the map."""
    y, first = _scaled(Y, outlier)
    return y, OutcomeMap(first, None)


def _scaled(Y: Tensor, outlier: float = NO_OUTLIER) -> tuple[Tensor, Scaling]:
    unit = largest(Y)
    Y = Y / unit
    median = Y.median(-1, keepdim=True).values
    deviation = (Y - median).abs()
    usual, tie = deviation.median(-1, keepdim=True).values, TIE * median.abs()
    if bool((usual <= tie).any()):  # more than half are equal: what is usual among the others
        others = torch.where(deviation > tie, deviation, torch.nan).nanmedian(-1, keepdim=True).values
        usual = torch.where(usual > tie, usual, others.nan_to_num(torch.inf))
    low = torch.where(median - outlier * usual <= Y, Y, torch.inf).amin(-1, keepdim=True)
    high = median + GOOD_OUTLIER * usual
    Y = torch.minimum(torch.maximum(Y, low), high)
    size = largest(Y)
    Y = Y / size
    mean = Y.mean(-1, keepdim=True)
    Y = Y - mean
    std = (Y.square().sum(-1, keepdim=True) / max(Y.shape[-1] - 1, 1)).sqrt()
    std = torch.where(std > 1e-14, std, 0.0)  # at order one, less than that is rounding error
    return torch.where(std > 0, Y / std, 0.0), Scaling(unit, low, high, size, mean, std)


def largest(Y: Tensor) -> Tensor:
    """The largest magnitude, or 1 for zeros, ... x 1: squares of 1e300 would overflow, those of 1e-300 vanish."""
    largest = Y.abs().amax(-1, keepdim=True)
    return torch.where(largest > 0, largest, 1.0)
