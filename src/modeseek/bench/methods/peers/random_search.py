"""Random search: uniform points, each drawn from the replication's seed and the number of the evaluation."""

from __future__ import annotations

import numpy as np

from modeseek.bench.methods.method import check_history, timed
from modeseek.history import History
from modeseek.settings import Stream, seeds
from modeseek.space import Space
from modeseek.typing import Array


class RandomSearch:
    """A uniform point of the cube; nothing is remembered."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.seed = space, seed
        self.seconds: dict[str, float] = {}

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point, d."""
        check_history(history, self.space)
        self.seconds = {}
        with timed(self.seconds, "acquire"):
            return np.random.default_rng(seeds(self.seed, Stream.OTHER, len(history.Y))).random(self.space.d)
