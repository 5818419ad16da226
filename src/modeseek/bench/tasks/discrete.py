"""Two problems of BoTorch with many binary parameters: a mixed Ackley, and binary sequences of low autocorrelation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from botorch.test_functions.synthetic import AckleyMixed, Labs, SyntheticTestFunction
from torch import Tensor

from modeseek.bench.tasks.coco import sizes
from modeseek.bench.tasks.problem import Problem
from modeseek.parameters import Float, Int
from modeseek.space import Space
from modeseek.typing import Params

REPLICATIONS = 5
D_ACKLEY, D_LABS = 53, 30  # BoTorch's defaults
CONTINUOUS = 3  # of the mixed Ackley, the last ones
BEST_LABS = 30**2 / (2 * 59)  # the merit factor at the least energy, 59 (Packebusch & Mertens, J. Phys. A 49, 2016)


@dataclass(frozen=True)
class Maximized:
    """A function of BoTorch on {0, 1}^k x [0, 1]^(d−k), larger values better; pickles as its fields."""

    kind: type[SyntheticTestFunction]
    d: int
    sign: float

    def __call__(self, params: Params) -> float:
        """At one point."""
        return float(self._of(torch.tensor(list(params.values()), dtype=torch.float64)))

    def values(self, U: Tensor) -> Tensor:
        """At points of the unit cube, in float64 on their device: ... x d -> ..."""
        k = self.d - (CONTINUOUS if self.kind is AckleyMixed else 0)
        U = U.double()
        return self._of(torch.cat([(U[..., :k] >= 0.5).double(), U[..., k:]], -1))

    def _of(self, X: Tensor) -> Tensor:
        value: Tensor = self.sign * _function(self.kind, self.d, X.device)(X)
        return value


@lru_cache
def _function(kind: Callable[..., SyntheticTestFunction], d: int, device: torch.device) -> SyntheticTestFunction:
    return kind(dim=d).to(device)


def _problem(name: str, title: str, f: Maximized, optimum: float) -> Problem:
    binary = f.d - (CONTINUOUS if f.kind is AckleyMixed else 0)
    parameters: list[Int | Float] = [*[Int(0, 1)] * binary, *[Float(0.0, 1.0)] * (f.d - binary)]
    n_initial, budget = sizes(f.d)
    return Problem(
        name=name,
        title=title,
        space=Space({f"x{i:02d}": parameter for i, parameter in enumerate(parameters)}),
        f=f,
        values=f.values,
        optimum=optimum,
        true_optimum=optimum,
        n_initial=n_initial,
        budget=budget,
        replications=REPLICATIONS,
    )


PROBLEMS = (
    _problem("ackley-mixed", "AckleyMixed-53", Maximized(AckleyMixed, D_ACKLEY, -1.0), 0.0),
    _problem("labs", "Labs-30", Maximized(Labs, D_LABS, 1.0), BEST_LABS),
)
