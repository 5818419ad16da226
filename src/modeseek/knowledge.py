"""What is known before the first evaluation, as a proposer uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from modeseek.beliefs import Stored, checked, modes, quantiles, tables
from modeseek.design import sobol
from modeseek.embedding import embedding_of
from modeseek.informed import Belief
from modeseek.space import Space
from modeseek.typing import Array

AT_HAND = 16  # points of an initial design from which the first new one is taken


class Knowledge:
    """A belief where the optimum is.

    Args:
        space: of the run.
        prior: by name, as `beliefs.checked` has it.
    """

    def __init__(self, space: Space, prior: Mapping[str, Stored]) -> None:
        self.space, self.prior = space, dict(prior)
        self._tables = tables(space, self.prior)
        self._beliefs: dict[torch.device, Belief] = {}

    @classmethod
    def of(cls, space: Space, prior: Any = None) -> Knowledge | None:
        """What a user says is known; None: nothing. ConfigError where it makes no sense."""
        return None if prior is None else cls(space, checked(space, prior))

    def belief(self, device: torch.device) -> Belief | None:
        """The belief on the cube."""
        if device not in self._beliefs:
            self._beliefs[device] = Belief(self.space, self._tables, embedding_of(self.space, device), device)
        return self._beliefs[device]

    def design(self, source: torch.Generator, number: int) -> Array:
        """Points where the optimum is expected, for number 0, 1, ... of those in an initial design: k x d.

        The first is where it is believed to be, the others are quantiles of the belief at Sobol points.
        """
        points = quantiles(self._tables, sobol(number + AT_HAND, self.space.d, source).numpy())
        points[0] = modes(self._tables)
        return points[number:]
