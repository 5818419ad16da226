"""Sobol points of the unit cube: initial designs, and where searches start."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from modeseek.draws import Draws, Randomness

SOBOL_BITS = 30  # of torch's SobolEngine


@lru_cache(maxsize=8)
def _sobol_integers(m: int, d: int) -> Tensor:
    with torch.device("cpu"):  # the engine makes its tensors on the default device, whichever that is
        points: Tensor = SobolEngine(d).draw(m, dtype=torch.float64)
    return points.mul(2**SOBOL_BITS).long()


def sobol(m: int, d: int, source: Randomness, batch_shape: tuple[int, ...] = ()) -> Tensor:
    """The first m Sobol points of the unit cube under a random digital shift per batch element: batch x m x d.

    The shift (an exclusive or of the binary digits) keeps the sequence's equidistribution, and costs one operation
    for the whole batch where an Owen scramble would need a pass per element.
    """
    shift = Draws.of(source, batch_shape).randint(2**SOBOL_BITS, 1, d).reshape(*batch_shape, 1, d)
    shifted: Tensor = _sobol_integers(m, d) ^ shift
    return shifted.double().add(0.5).div(2**SOBOL_BITS)
