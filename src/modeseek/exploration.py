"""How much to explore: the weight ρ of σ in the labels μ + ρσ of an iteration, from what the last ones have brought.

While outcomes get better, a small ρ goes on from there. Once they do not, the run has stalled: ρ is larger then, and
every 2d-th iteration looks far away from all that is known, since what the surrogate takes for the only hill may not be
it. What a far look finds has to be followed up, so that there is none in the last 2d evaluations of a run whose end is
known. docs/decisions.md has how these rules were found.
"""

from __future__ import annotations

import torch
from torch import Tensor

from modeseek.config import DMSConfig

LEAST_GAIN = 0.01  # what the last outcomes must bring, in standard deviations of all of them
FEW = 10  # outcomes that say too little of their spread: steps among the first three may all look like progress
MIN_PERIOD = 4  # iterations from one far look to the next, and those that are asked for a gain, at least


def weights(y: Tensor, d: int, config: DMSConfig, *, pending: int = 0, left: int | None = None) -> Tensor:
    """ρ of the next iteration: b x 1.

    Args:
        y: b x n, the outcomes so far, as the surrogate sees them and in their order.
        d: number of parameters.
        pending: inputs whose outcomes are still to come.
        left: evaluations until the end of the run, this one included; None: not known.
    """
    period = max(2 * d, MIN_PERIOD)
    number = y.shape[-1] + pending
    far = number % period == period - 1 and (left is None or left > period)
    rho = y.new_full((*y.shape[:-1], 1), config.rho)
    instead = torch.full_like(rho, config.rho if config.rho_stalled is None else max(config.rho, config.rho_stalled))
    if far and config.rho_far is not None:
        instead.fill_(config.rho_far)
    if config.rho_stalled is None:
        return instead
    return torch.where(has_stalled(y, d)[..., None], instead, rho)


def has_stalled(y: Tensor, d: int) -> Tensor:
    """Whether the last d outcomes (b x n) are not better than those before, by LEAST_GAIN: b.

    With FEW of them, or no more than d, a run counts as stalled: it has not got going.
    """
    last = max(d, MIN_PERIOD)
    if y.shape[-1] < max(last + 1, FEW):
        return torch.ones(y.shape[:-1], dtype=torch.bool, device=y.device)
    gain: Tensor = y[..., -last:].amax(-1) - y[..., :-last].amax(-1)
    return gain < LEAST_GAIN
