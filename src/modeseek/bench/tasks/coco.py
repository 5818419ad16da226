"""COCO's suites `bbob` and `bbob-mixint` (Hansen et al. 2021; Tušar et al. 2019): `find_task("bbob-f07-i1-d5")`.

A problem is a function, one of its instances (where it is shifted and rotated otherwise) and a number of parameters.
Those of `bbob-mixint` have as many parameters each with 2, 4, 8 and 16 values as continuous ones: `mixint-f07-i1-d5`.
A value is f_opt − f(x), so that the best is 0 and stored values keep the digits of a small regret; an optimizer sees
−f(x), which does not tell where the best is. COCO's package is not imported before the first evaluation.

Functions 3, 6, 8, 10, 15, 17, 21, 22 and 24 are kept apart for a test of what was chosen on the others, and refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from modeseek.bench.tasks.problem import Problem
from modeseek.errors import ConfigError
from modeseek.parameters import Float, Int
from modeseek.space import Space
from modeseek.typing import Array, Params

Suite = Literal["bbob", "bbob-mixint"]

FUNCTIONS = (1, 2, 4, 5, 7, 9, 11, 12, 13, 14, 16, 18, 19, 20, 23)
APART = (3, 6, 8, 10, 15, 17, 21, 22, 24)
INSTANCES = (1, 2, 3, 4, 5)
DIMENSIONS: dict[Suite, tuple[int, ...]] = {"bbob": (2, 5, 10, 20), "bbob-mixint": (5, 10)}
NAME = re.compile(r"(?P<suite>bbob|mixint)-f(?P<function>\d\d)-i(?P<instance>\d+)-d(?P<d>\d+)")
EDGE = 5.0  # of the box of continuous parameters, on both sides
ARITIES = (2, 4, 8, 16)  # of the parameters of bbob-mixint, a fifth of them each; the last fifth is continuous

# COCO's f_opt of instances 1 to 5, in every number of dimensions.
OPTIMA = {
    1: (79.48, 394.48, -247.11, -152.04, -25.25),
    2: (-209.88, -92.09, -87.89, 320.19, -104.24),
    4: (-462.09, 77.66, 115.68, -3.71, 132.18),
    5: (-9.21, 655.99, 66.71, 941.67, -37.45),
    7: (92.94, 35.35, 3.82, 21.75, 64.79),
    9: (123.83, 47.51, 55.34, -90.33, 65.61),
    11: (76.27, -22.55, 13.66, 937.84, -78.72),
    12: (-621.11, -254.82, 56.61, -18.1, 37.77),
    13: (29.97, -51.71, -279.95, 931.99, 113.31),
    14: (-52.35, -179.54, 77.31, 39.92, -56.61),
    16: (71.35, -355.22, 99.17, -517.91, -57.21),
    18: (-16.94, 18.81, 273.15, 37.18, -147.9),
    19: (-102.55, 71.69, 214.01, -58.48, -613.08),
    20: (-546.5, 1000.0, 208.38, -144.96, -6.3),
    23: (6.87, 0.01, -130.61, -223.12, -44.43),
}
# What bbob-mixint multiplies its functions by, their optimum too; the others by 1.
SCALES = {2: 1e-3, 4: 0.1, 9: 0.01, 11: 0.01, 12: 1e-4, 13: 0.1, 19: 10.0, 20: 0.1, 23: 10.0}

MOST = 200  # evaluations in all


def sizes(d: int) -> tuple[int, int]:
    """The initial evaluations, 2d + 2, and those after them: 10d, but no more than 200 in all."""
    n_initial = 2 * d + 2
    return n_initial, min(10 * d, MOST - n_initial)


@dataclass(frozen=True)
class Function:
    """f_opt − f(x) of a function of COCO; pickles as its fields."""

    suite: Suite
    function: int
    instance: int
    d: int

    def __call__(self, params: Params) -> float:
        """At one point, in COCO's units."""
        x = np.array(list(params.values()), dtype=float) if isinstance(params, dict) else params
        return self.f_opt - float(_cocoex(self)(x))

    @property
    def f_opt(self) -> float:
        """COCO's smallest value."""
        scale = SCALES.get(self.function, 1.0) if self.suite == "bbob-mixint" else 1.0
        return scale * OPTIMA[self.function][self.instance - 1]

    def values(self, U: Tensor) -> Tensor:
        """At points of the unit cube, one by one on the CPU: ... x d -> ..., float64 on the points' device."""
        space = space_of(self.suite, self.d)
        rows: Array = U.detach().double().reshape(-1, self.d).cpu().numpy()
        values = [self(space.decode(u)) for u in rows]
        return torch.tensor(values, dtype=torch.float64, device=U.device).reshape(U.shape[:-1])


@cache
def _cocoex(of: Function) -> Any:
    """COCO's own problem; it lives on in this process, and its suite with it."""
    import cocoex

    options = f"function_indices: {of.function} dimensions: {of.d}"
    suite = cocoex.Suite(of.suite, f"instances: {of.instance}", options)
    return suite.get_problem_by_function_dimension_instance(of.function, of.d, of.instance)


@cache
def space_of(suite: Suite, d: int) -> Space:
    """What is searched: a box, or whole numbers from 0 on and a fifth of the box, in COCO's order."""
    if suite == "bbob":
        return Space.box([-EDGE] * d, [EDGE] * d)
    each = d // (len(ARITIES) + 1)
    parameters: list[Int | Float] = [Int(0, arity - 1) for arity in ARITIES for _ in range(each)]
    parameters += [Float(-EDGE, EDGE)] * each
    return Space({f"x{i}": parameter for i, parameter in enumerate(parameters)})


def name_of(suite: Suite, function: int, instance: int, d: int) -> str:
    """As records and commands call the problem."""
    return f"{suite.removeprefix('bbob-')}-f{function:02d}-i{instance}-d{d}"


def names(suite: Suite, d: int) -> list[str]:
    """All problems of a suite with this many parameters, instance by instance."""
    return [name_of(suite, function, instance, d) for instance in INSTANCES for function in FUNCTIONS]


@cache
def find(name: str) -> Problem | None:
    """The problem of this name; None where it is no name of COCO's, ConfigError where there is no such problem."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    suite: Suite = "bbob" if match["suite"] == "bbob" else "bbob-mixint"
    function, instance, d = (int(match[part]) for part in ("function", "instance", "d"))
    if function in APART:
        raise ConfigError(
            f"{name}: function {function} of COCO is kept apart for a test of what was chosen on the others; use one "
            f"of {', '.join(map(str, FUNCTIONS))}"
        )
    for what, given, known in (
        ("function", function, FUNCTIONS),
        ("instance", instance, INSTANCES),
        ("number of parameters", d, DIMENSIONS[suite]),
    ):
        if given not in known:
            raise ConfigError(f"{name}: the {what} must be one of {', '.join(map(str, known))}, not {given}")
    f = Function(suite, function, instance, d)
    n_initial, budget = sizes(d)
    return Problem(
        name=name,
        title=f"{suite} f{function}, instance {instance}, d = {d}",
        space=space_of(suite, d),
        f=f,
        values=f.values,
        offset=-f.f_opt,
        optimum=0.0,
        true_optimum=0.0,
        n_initial=n_initial,
        budget=budget,
        replications=1,
        requires=("cocoex",),
    )
