"""What is known before the first evaluation, as a proposer uses it: a belief where the optimum is, earlier studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from modeseek.beliefs import Stored, checked, modes, quantiles, tables
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.earlier import Study, Told, read
from modeseek.embedding import embedding_of
from modeseek.fitting import fit_surrogate
from modeseek.informed import Belief
from modeseek.space import Space
from modeseek.stacking import Stack
from modeseek.typing import Array

AT_HAND = 16  # points of an initial design from which the first new one is taken


class Knowledge:
    """A belief and earlier studies, at least one of them.

    Args:
        space: of the run.
        prior: beliefs by name, as `beliefs.checked` has them.
        studies: as `earlier.read` has them.
    """

    def __init__(self, space: Space, prior: Mapping[str, Stored], studies: Sequence[Told] = ()) -> None:
        self.space, self.prior = space, dict(prior)
        self.studies = [Study.of(space, told, number) for number, told in enumerate(studies, 1)]
        self._tables = tables(space, self.prior)
        self._beliefs: dict[torch.device, Belief] = {}
        self._stacks: dict[tuple[torch.device, DMSConfig], Stack] = {}

    @classmethod
    def of(cls, space: Space, prior: Any = None, transfer: Any = None, sign: float = 1.0) -> Knowledge | None:
        """What a user says is known; None: nothing. ConfigError where it makes no sense.

        Args:
            sign: −1 where the run minimizes.
        """
        beliefs = {} if prior is None else checked(space, prior)
        studies = [] if transfer is None else read(transfer, sign)
        return cls(space, beliefs, studies) if beliefs or studies else None

    def belief(self, device: torch.device) -> Belief | None:
        """The belief on the cube; None where there is none."""
        if not self.prior:
            return None
        if device not in self._beliefs:
            self._beliefs[device] = Belief(self.space, self._tables, embedding_of(self.space, device), device)
        return self._beliefs[device]

    def stack(self, device: torch.device, config: DMSConfig) -> Stack | None:
        """The Gaussian processes of earlier studies, fitted when first asked for; None where there is none."""
        if not self.studies:
            return None
        key = device, config
        if key not in self._stacks:
            embedding = embedding_of(self.space, device)
            data = [[torch.from_numpy(part)[None].to(device) for part in (s.X, s.Y)] for s in self.studies]
            gps = [fit_surrogate(X, Y, config, embedding=embedding) for X, Y in data]
            self._stacks[key] = Stack(gps, [torch.from_numpy(study.shared).to(device) for study in self.studies])
        return self._stacks[key]

    def design(self, source: torch.Generator, number: int) -> Array:
        """Points where the optimum is expected, for number 0, 1, ... of those in an initial design: k x d.

        The first of them that is not known is to be taken. Of a belief its most probable point, then quantiles of it at
        Sobol points; of earlier studies their best points, of one study after the other; of both, these in turn.
        """
        spread = sobol(number + AT_HAND, self.space.d, source).numpy()[number:]
        if self.studies and (not self.prior or number % 2 == 1):
            turn = number // 2 if self.prior else number
            return self.studies[turn % len(self.studies)].best(spread[0])[: number + AT_HAND]
        return np.concatenate([modes(self._tables)[None], quantiles(self._tables, spread)])
