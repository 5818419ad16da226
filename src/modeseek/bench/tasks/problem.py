"""A benchmark problem: a space, a function on it to be maximized, and the facts that an experiment needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
from torch import Tensor

from modeseek.checks import missing_extra
from modeseek.config import DMSConfig
from modeseek.space import Space
from modeseek.typing import Params

ROUNDS, EVALUATIONS = 10, 60  # at least, of a task in rounds, after its initial design


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One task, of the paper's Section 5 or for validation: larger values are better.

    Args:
        name, title: for commands and files, and for figures.
        space: where to search.
        f: the function without noise, of parameters that lie in the space.
        values: the same for points of the unit cube, on any device: ... x d -> ...; None where points are not batched.
        observe: one noisy observation, where the noise is not Gaussian.
        noise: standard deviation of the Gaussian noise.
        offset: what an observation has on top of the value; regret stays a small number with all its digits where the
            function has its optimum at a large one.
        optimum: the value that regret is measured against; no value is above it.
        true_optimum: the best value there is, or None where it is not known.
        optimizers: where it is attained, in the units of a box; empty where it is not known.
        n_initial, budget, replications: n, B and the number of macro-replications. B counts the evaluations after
            the initial design.
        q: evaluations at once: after the initial design they come in rounds of so many.
        K: the paper's steps of short-run L-BFGS, where they are not the ones for the dimension.
        requires: modules of the extra `bench` that an evaluation needs.
        seconds: about what an evaluation takes on one core, where that is to be counted on.
    """

    name: str
    title: str
    space: Space
    f: Callable[[Params], float]
    values: Callable[[Tensor], Tensor] | None = None
    observe: Callable[[Params, np.random.Generator], float] | None = None
    noise: float = 0.0
    offset: float = 0.0
    optimum: float
    true_optimum: float | None = None
    optimizers: tuple[tuple[float, ...], ...] = ()
    n_initial: int
    budget: int
    replications: int = 30
    q: int = 1
    K: int | None = None
    requires: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def d(self) -> int:
        """Number of parameters."""
        return self.space.d

    @property
    def most_known(self) -> int:
        """How many outcomes the last proposals are made from."""
        return self.n_initial + (self.budget - 1) // self.q * self.q

    def value(self, params: Params) -> float:
        """The function without noise; ParameterError when the parameters are not in the space."""
        params = self.space.validate(params)
        self.check_installed()
        return float(self.f(params))

    def evaluate(self, params: Params, generator: np.random.Generator) -> float:
        """What an optimizer gets to see: the value, moved by the offset, under noise."""
        if self.observe is None:
            return self.value(params) + self.offset + self.noise * float(generator.standard_normal())
        params = self.space.validate(params)
        self.check_installed()
        return float(self.observe(params, generator))

    def regret(self, params: Params) -> float:
        """How far the value without noise is below the optimum; rounding makes it no less than zero."""
        return max(self.optimum - self.value(params), 0.0)

    def in_rounds(self, q: int) -> Problem:
        """This task in rounds of q evaluations at once."""
        rounds = max(ROUNDS, -(-EVALUATIONS // q))
        n_initial = max(min(2 * self.d + 3, 30), q)
        name, title = f"{self.name}@q{q}", f"{self.title}, q = {q}"
        return replace(self, name=name, title=title, q=q, n_initial=n_initial, budget=q * rounds, replications=10)

    def config(self, preset: Callable[[int], DMSConfig] = DMSConfig.paper) -> DMSConfig:
        """The paper's settings for this task (its Table 2), or for its dimension."""
        config = preset(self.d)
        return config if self.K is None else replace(config, K=self.K)

    def check_installed(self) -> None:
        """MissingExtraError, with what to install, when an evaluation needs a package that is not there."""
        missing = [module for module in self.requires if find_spec(module) is None]
        if missing:
            raise missing_extra(f"problem {self.name!r} needs {' and '.join(missing)}", "bench")
