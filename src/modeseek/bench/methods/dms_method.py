"""DMS in a campaign: what ships, through the one proposer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from modeseek.bench.methods.method import SideBySide
from modeseek.config import DMSConfig
from modeseek.dms import State
from modeseek.history import History
from modeseek.proposer import Proposer
from modeseek.settings import Settings
from modeseek.space import Space
from modeseek.together import propose_together
from modeseek.typing import Array


class DMS(SideBySide):
    """A proposer per replication, each iteration starting from the state of the one before."""

    def __init__(self, spaces: Sequence[Space], seeds: Sequence[int], config: DMSConfig, device: str = "cpu") -> None:
        super().__init__(spaces, seeds, device)
        self.proposers = [
            Proposer(space, Settings.of(seed=seed, config=config, n_initial=1, device=device))
            for space, seed in zip(spaces, seeds, strict=True)
        ]

    def __call__(self, histories: Sequence[History], left: int | None = None) -> Array:
        """The next points, b x d."""
        return self.batch(histories, 1, left)[:, 0]

    def batch(self, histories: Sequence[History], q: int, left: int | None = None) -> Array:
        """The next q points of each, b x q x d."""
        batches = propose_together(self.proposers, histories, len(histories[0].Y), q, left)
        suggestions = [proposer.suggestion for proposer in self.proposers]
        self.fell_back = [bool(suggestion.fell_back) for suggestion in suggestions if suggestion is not None]
        if suggestions[0] is not None:
            self.seconds, self.fit_evaluations = suggestions[0].seconds, suggestions[0].gp.evaluations
        for proposer in self.proposers:
            proposer.suggestion = None  # its tensors are those of the whole batch
        return np.array([[proposal.point for proposal in batch] for batch in batches])

    @property
    def state(self) -> dict[str, Tensor]:
        """Hyperparameters and networks of the last iteration."""
        states = [proposer.state for proposer in self.proposers if proposer.state is not None]
        return State.of_rows(states)._asdict() if states else {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from there."""
        for i, proposer in enumerate(self.proposers):
            rows = {name: tensor[i : i + 1].to(proposer.settings.device) for name, tensor in state.items()}
            proposer.state = State(**rows) if rows else None
