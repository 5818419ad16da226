"""Sobol search: no model at all."""

from __future__ import annotations

import numpy as np
import torch
from torch.quasirandom import SobolEngine

from modeseek.bench.methods.method import check_history, timed
from modeseek.domain import is_continuous
from modeseek.history import History, fresh
from modeseek.proposer import remaining
from modeseek.settings import Stream, seeds
from modeseek.space import Space
from modeseek.together import distinct
from modeseek.typing import Array

SPARE = 256  # points of the sequence looked at for one that is not known


class SobolSearch:
    """Point n of a scrambled Sobol sequence after n observations; in a discrete space the next that is not known."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.seed = space, seed
        self.seconds: dict[str, float] = {}

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point, d."""
        return np.asarray(self.batch(history, 1)[0])

    def batch(self, history: History, q: int, left: int | None = None) -> Array:
        """The next q points, q x d; in a finite space fewer where no more remain."""
        check_history(history, self.space)
        self.seconds = {}
        with timed(self.seconds, "acquire"):
            engine = SobolEngine(self.space.d, scramble=True, seed=self.seed)
            points = engine.fast_forward(len(history.Y)).draw(q + SPARE, dtype=torch.float64).numpy()
            if all(is_continuous(self.space)):
                return np.asarray(points[:q])
            points = distinct(fresh(self.space.snap(points), history.proposed))
            if len(points) < q:
                rng = np.random.default_rng(seeds(self.seed, Stream.OTHER, len(history.Y)))
                points = distinct(np.concatenate([points, remaining(self.space, history.proposed, rng)]))
            return np.asarray(points[:q])
