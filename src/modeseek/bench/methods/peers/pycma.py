"""CMA-ES (Hansen 2016) by pycma, restarted with twice the population (Auger & Hansen 2005) where it stops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from modeseek.bench.methods.peers.peer import Peer, Value
from modeseek.typing import Array

SIGMA = 0.25  # of the cube's width: what pycma advises


class CMA(Peer):
    """`cma.CMAEvolutionStrategy` on the cube, from the best point that was told; after a restart from a random one."""

    package = "cma"

    def start(self, left: int | None) -> None:  # noqa: D102
        self.strategy: Any = None
        self.best: tuple[float, Array] = np.inf, np.full(self.space.d, 0.5)
        self.waiting: list[Array] = []
        self.done: list[tuple[Array, float]] = []
        self.restarts = 0

    def add(self, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        if loss < self.best[0]:
            self.best = loss, self.kinds.to_point(values)

    def ask(self) -> tuple[Any, Mapping[str, Any]]:  # noqa: D102
        if self.strategy is None:
            self._begin(self.best[1])
        elif not self.waiting:
            self.strategy.tell(*map(list, zip(*self.done, strict=True)))
            self.done = []
            if self.strategy.stop():
                self.restarts += 1
                self._begin(np.random.default_rng([self.seed, self.restarts]).random(self.space.d))
            else:
                self.waiting = list(self.strategy.ask())
        solution = self.waiting.pop(0)
        return solution, self.kinds.of_point(np.clip(solution, 0, 1))

    def tell(self, trial: Any, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        self.done.append((trial, loss))

    def _begin(self, x: Array) -> None:
        import cma

        options = {"bounds": [0, 1], "seed": self.seed + 1 + self.restarts, "verbose": -9}
        if self.restarts:
            options["popsize"] = int(4 + 3 * np.log(self.space.d)) * 2**self.restarts
        self.strategy = cma.CMAEvolutionStrategy(x, SIGMA, options)
        self.waiting = list(self.strategy.ask())
