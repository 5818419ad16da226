"""Sobol search, and Algorithm 1 behind the interface of the baselines."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.quasirandom import SobolEngine

from modeseek.bench.methods.method import History, timed
from modeseek.config import DMSConfig
from modeseek.dms import State, suggest
from modeseek.proposer import rounding
from modeseek.typing import Array


class SobolSearch:
    """Point n of a scrambled Sobol sequence after n observations. The first call's seed is the sequence's."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._seed: int | None = None

    def __call__(self, history: History, seed: int) -> Array:
        """The next point, d."""
        self.seconds = {}
        self._seed = seed if self._seed is None else self._seed
        with timed(self.seconds, "acquire"):
            engine = SobolEngine(history.space.d, scramble=True, seed=self._seed)
            point: Array = engine.fast_forward(len(history.Y)).draw(1, dtype=torch.float64)[0].numpy()
        return point


class DMS:
    """DMS, each iteration starting from the state of the one before.

    Args:
        config: the settings, or what makes them from the dimension.
        device: where everything runs.
    """

    def __init__(self, config: DMSConfig | Callable[[int], DMSConfig], device: str = "cpu") -> None:
        self.seconds: dict[str, float] = {}
        self.fit_evaluations = 0
        self.fell_back = False
        self._config, self._device = config, device
        self._state: State | None = None

    def __call__(self, history: History, seed: int) -> Array:
        """The next point, d."""
        config = self._config if isinstance(self._config, DMSConfig) else self._config(history.space.d)
        X, Y = history.tensors(self._device)
        generator, discrete = torch.Generator().manual_seed(seed), rounding(history.space, X.device)
        suggestion = suggest(X, Y, config, generator, self._state, rounding=discrete)
        self._state, self.seconds = suggestion.state, suggestion.seconds
        self.fell_back = bool(suggestion.fell_back[0])
        self.fit_evaluations = suggestion.gp.evaluations  # type: ignore[union-attr]  # without constraints it is a GP
        point: Array = suggestion.x_next[0].cpu().numpy()
        return point
