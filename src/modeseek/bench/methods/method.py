"""What every method sees, what it is, and the clock of its stages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from modeseek.errors import ParameterError
from modeseek.space import Space
from modeseek.typing import Array


@dataclass(frozen=True)
class History:
    """One problem and what was observed of it so far."""

    space: Space
    X: Array  # n x d, on the unit cube, as evaluated (snapped)
    Y: Array  # n, larger is better

    def __post_init__(self) -> None:
        """Refuse what no method could use."""
        shape = np.shape(self.X)
        if len(shape) != 2 or shape[0] < 1 or shape[1] != self.space.d or np.shape(self.Y) != shape[:1]:
            raise ParameterError(
                f"a history needs X of shape n x {self.space.d} and Y of shape n with n >= 1; "
                f"got {shape} and {np.shape(self.Y)}"
            )
        if not np.isfinite(self.X).all() or not np.isfinite(self.Y).all():
            raise ParameterError("a history must be finite; leave failed evaluations out")

    def tensors(self, device: str | torch.device) -> tuple[Tensor, Tensor]:
        """X and Y as a batch of one problem: 1 x n x d, 1 x n, float64."""
        X, Y = (torch.tensor(np.asarray(a), dtype=torch.float64, device=device) for a in (self.X, self.Y))
        return X[None], Y[None]


class Method(Protocol):
    """A stateful object, one per replication: call it once an iteration with a history that grows."""

    seconds: dict[str, float]
    """Of the last call, by stage."""

    def __call__(self, history: History, seed: int) -> Array:
        """The next point on the unit cube, d; the caller snaps it through the space."""
        ...


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Write down how long the block took."""
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = time.perf_counter() - start
