"""A problem that costs next to nothing, for campaigns in other processes: `tests/bench/tiny.py:problem`."""

from torch import Tensor

from modeseek import Space
from modeseek.bench.tasks import Problem
from modeseek.typing import Params


def values(U: Tensor) -> Tensor:
    """Best at (0.6, 0.6) of the unit square: ... x 2 -> ..."""
    return -10 * (U - 0.6).square().sum(-1)


def f(x: Params) -> float:
    return -10 * sum((float(value) - 0.6) ** 2 for value in x)


problem = Problem(
    name="tiny-2",
    title="Tiny",
    space=Space.box([0, 0], [1, 1]),
    f=f,
    values=values,
    noise=0.1,
    optimum=0.0,
    n_initial=5,
    budget=10,
    replications=3,
)
