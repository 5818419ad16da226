"""The paper's twelve synthetic tasks (App. B.1): BoTorch's test functions, negated, on the paper's boxes.

Two formulas are printed in the paper with slips, and are the standard ones here: Ackley's signs, and the factor
1 + sin²(2πw_d) in the last term of Levy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from botorch.test_functions.synthetic import (
    Ackley,
    Griewank,
    Levy,
    Michalewicz,
    Rastrigin,
    Rosenbrock,
    Shekel,
    StyblinskiTang,
    SyntheticTestFunction,
)
from torch import Tensor

from modeseek.bench.tasks.problem import Problem
from modeseek.space import Space
from modeseek.typing import Array

NOISE = 0.1


@dataclass(frozen=True)
class Maximized:
    """A BoTorch test function with the sign that makes larger values better; pickles as its two fields."""

    kind: type[SyntheticTestFunction]
    d: int

    def __call__(self, X: Tensor) -> Tensor:
        """At any points, in their dtype on their device. X: ... x d -> ..."""
        value: Tensor = _function(self, X.device)(X)
        return value


@lru_cache(maxsize=64)
def _function(maximized: Maximized, device: torch.device) -> SyntheticTestFunction:
    kind, d = maximized.kind, maximized.d
    # The box is the problem's, and a rotated function is evaluated outside of it.
    settings: dict[str, Any] = {"bounds": [(-math.inf, math.inf)] * d}
    if not hasattr(kind, "dim"):  # some functions have a fixed dimension
        settings["dim"] = d
    function = kind(**settings).double().to(device)
    function.negate = function.is_minimization_problem
    return function


@dataclass(frozen=True)
class OnBox:
    """A function of points on a box: at one point of the box, and at many of the unit cube.

    Args:
        function: ... x d -> ..., on any device; it must pickle.
        low, high: the box's edges, d.
    """

    function: Callable[[Tensor], Tensor]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __call__(self, x: Array) -> float:
        """At one point of the box. x: d."""
        return float(self.function(torch.from_numpy(x)))

    def values(self, U: Tensor) -> Tensor:
        """At points of the unit cube, in float64 on their device. U: ... x d -> ..."""
        low, high = (torch.tensor(edge, dtype=torch.float64, device=U.device) for edge in (self.low, self.high))
        return self.function(low + (high - low) * U.double())


def on_box(
    name: str,
    function: Callable[[Tensor], Tensor],
    box: Sequence[tuple[float, float]],
    optimizers: Sequence[Sequence[float]],
    optimum: float,
    *,
    noise: float,
    n_initial: int,
    budget: int,
    replications: int,
) -> Problem:
    """The problem of a function (... x d -> ..., larger is better) on a box, the edges of each coordinate."""
    d = len(box)
    low, high = zip(*box, strict=True)
    f = OnBox(function, low, high)
    return Problem(
        name=f"{name.lower().replace(' ', '-')}-{d}",
        title=f"{name}-{d}",
        space=Space.box(low, high),
        f=f,
        values=f.values,
        noise=noise,
        optimum=optimum,
        true_optimum=optimum,
        optimizers=tuple(map(tuple, optimizers)),
        n_initial=n_initial,
        budget=budget,
        replications=replications,
    )


def _problem(
    function: str,
    kind: type[SyntheticTestFunction],
    box: tuple[float, float],
    optimizer: Sequence[float],
    optimum: float = 0.0,
) -> Problem:
    d = len(optimizer)
    return on_box(
        function,
        Maximized(kind, d),
        [box] * d,
        [optimizer],
        optimum,
        noise=NOISE,
        n_initial=10 * d,
        budget=10 * d + 20 if d <= 10 else 10 * d,
        replications=30 if d <= 10 else 10,
    )


# Roots of the derivatives, found with 40 digits.
_STYBLINSKI_TANG = -2.903534027771177
_SHEKEL = (4.000746868270634, 3.9995094800857736, 4.000746868270634, 3.9995094800857736)
_MICHALEWICZ = (
    2.2029055201726093,
    1.5707963267948966,
    1.2849915705529245,
    1.9230584698663629,
    1.7204697725658413,
    1.5707963267948966,
    1.454413971362379,
    1.7560865209450263,
    1.6557174168210291,
    1.5707963267948966,
)


PROBLEMS = (
    _problem("Styblinski-Tang", StyblinskiTang, (-5.0, 5.0), [_STYBLINSKI_TANG] * 2, 2 * 39.166165703771415),
    _problem("Griewank", Griewank, (-600.0, 600.0), [0.0] * 3),
    _problem("Shekel", Shekel, (0.0, 10.0), _SHEKEL, 10.536443153483528),
    _problem("Rastrigin", Rastrigin, (-5.12, 5.12), [0.0] * 5),
    _problem("Rosenbrock", Rosenbrock, (-2.048, 2.048), [1.0] * 7),
    _problem("Ackley", Ackley, (-32.768, 32.768), [0.0] * 8),
    _problem("Levy", Levy, (-10.0, 10.0), [1.0] * 10),
    _problem("Michalewicz", Michalewicz, (0.0, math.pi), _MICHALEWICZ, 9.660151715641341),
    _problem("Ackley", Ackley, (-32.768, 32.768), [0.0] * 20),
    _problem("Levy", Levy, (-10.0, 10.0), [1.0] * 20),
    _problem("Ackley", Ackley, (-32.768, 32.768), [0.0] * 50),
    _problem("Levy", Levy, (-10.0, 10.0), [1.0] * 50),
)
