"""What a method is, what it must not repeat, and the clock of its stages."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from modeseek.domain import is_continuous
from modeseek.errors import ConfigError
from modeseek.history import History, fresh
from modeseek.proposer import remaining
from modeseek.settings import Stream, seeds
from modeseek.space import Space
from modeseek.typing import Array

OTHERS = 4096  # points not yet known that are looked at where the one chosen is


class Method(Protocol):
    """One object per replication, called once per iteration with a history that grows.

    For tasks in rounds it has `batch(history, q, left)`, which gives the next q points at once, q x d.
    It may also have `seconds` (of the last call, by stage), `fit_evaluations` (calls of the GP fit's objective) and
    `fell_back` (whether the last call did without what the method is about, such as DMS without its model); these go
    into the records.
    """

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point on the unit cube, d; the caller snaps it to the space. `left`: evaluations to the end."""
        ...


class SideBySide(ABC):
    """A method for several replications at once, row by row in the same tensors; each row is as it would be alone.

    Args:
        spaces: of each replication, all with as many parameters.
        seeds: of each replication.
        device: where it computes.
    """

    def __init__(self, spaces: Sequence[Space], seeds: Sequence[int], device: str) -> None:
        self.spaces, self.seeds, self.device = list(spaces), list(seeds), device
        self.seconds: dict[str, float] = {}
        self.fit_evaluations = 0
        self.fell_back: list[bool] | None = None

    @abstractmethod
    def __call__(self, histories: Sequence[History], left: int | None = None) -> Array:
        """The next points, b x d, from histories with as many observations."""

    @abstractmethod
    def batch(self, histories: Sequence[History], q: int, left: int | None = None) -> Array:
        """The next q points of each, to be evaluated at once, b x q x d."""

    @property
    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """What the next call starts from, each tensor b x ...; empty before the first call."""

    @abstractmethod
    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from the state of an earlier object."""


class Alone:
    """One replication of a method that could run several."""

    def __init__(self, method: SideBySide) -> None:
        self.method = method

    @property
    def seconds(self) -> dict[str, float]:
        """Of the last call, by stage."""
        return self.method.seconds

    @property
    def fit_evaluations(self) -> int:
        """Calls of the last fit's objective."""
        return self.method.fit_evaluations

    @property
    def fell_back(self) -> bool | None:
        """Whether the last call did without the method's model; None where there is none."""
        return None if self.method.fell_back is None else self.method.fell_back[0]

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point, d."""
        check_history(history, self.method.spaces[0])
        return np.asarray(self.method([history], left)[0])

    def batch(self, history: History, q: int, left: int | None = None) -> Array:
        """The next q points, to be evaluated at once, q x d."""
        check_history(history, self.method.spaces[0])
        return np.asarray(self.method.batch([history], q, left)[0])


def check_history(history: History, space: Space) -> None:
    """ConfigError for a history that is not of this space, or has no observation."""
    if history.d != space.d or not len(history.Y):
        raise ConfigError(
            f"a method needs a history of {space.d} parameters with an observation, not {history.X.shape}"
        )


def continues(before: History, history: History) -> bool:
    """Whether a history begins with all of an earlier one."""
    n = len(before.Y)
    same = np.array_equal(history.X[:n], before.X) and np.array_equal(history.Y[:n], before.Y)
    return len(history.Y) >= n and same


def tensors(history: History, device: str | torch.device) -> tuple[Tensor, Tensor]:
    """X and Y as a batch of one problem: 1 x n x d, 1 x n, float64."""
    X, Y = (torch.from_numpy(array).to(device) for array in (history.X, history.Y))
    return X[None], Y[None]


def not_known(
    space: Space,
    x: Array,
    history: History,
    value: Callable[[Array], Array],
    seed: int,
    pool: Array | None = None,
) -> Array:
    """x (d) as it would be evaluated or, in a space with discrete parameters where that is known, the best that is not.

    As DMS does, so that no method spends evaluations on what it has been told. The best is by the method's own
    function, of the points at hand and of others that are not known. Continuous spaces are left to the method.

    Args:
        value: the method's function of points, k x d -> k.
        seed: of the replication; decides on the other points.
        pool: k x d, points at hand.
    """
    snapped = space.snap(x[None])
    if all(is_continuous(space)) or len(fresh(snapped, history.proposed)):
        return np.asarray(snapped[0])
    rng = np.random.default_rng(seeds(seed, Stream.OTHER, len(history.proposed)))
    points = remaining(space, history.proposed, rng)[:OTHERS]
    if pool is not None:
        points = np.concatenate([fresh(space.snap(pool), history.proposed), points])
    return np.asarray(points[np.nan_to_num(value(points), nan=-np.inf).argmax()])


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Write down how long the block took."""
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = time.perf_counter() - start
