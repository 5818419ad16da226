"""Several objectives: hypervolume by evaluations (`python -m studies.several_objectives`).

BoTorch's test functions, without noise, each optimizer from the same 10 Sobol points, with the reference point of the
test function where it takes one. The table has the share of the largest possible hypervolume that is still missing, in
per cent: mean over seeds, and its standard error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from botorch.test_functions.multi_objective import DTLZ2, ZDT1, ZDT2, BraninCurrin, VehicleSafety
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated

from modeseek.typing import Array
from studies.contenders import BoTorch, Task, asked_for, gp_sampler, nsga2, on_the_unit_cube

PROBLEMS: dict[str, Any] = {
    "Branin-Currin": BraninCurrin(),
    "ZDT1, d=6": ZDT1(dim=6),
    "ZDT2, d=6": ZDT2(dim=6),
    "DTLZ2, d=6, 2 objectives": DTLZ2(dim=6, num_objectives=2),
    "DTLZ2, d=6, 3 objectives": DTLZ2(dim=6, num_objectives=3),
    "vehicle safety": VehicleSafety(),
}
OTHERS: dict[str, Any] = {"qLogNEHVI": BoTorch, "GPSampler": gp_sampler, "NSGA-II": nsga2}
AT = (20, 40, 60)


def task(name: str, problem: Any) -> Task:
    scale = on_the_unit_cube(problem.bounds)

    def evaluate(x: Array) -> tuple[Array, Array]:
        return problem.evaluate_true(scale(x)[None])[0].numpy(), np.zeros(0)

    return Task(name, problem.dim, problem.num_objectives, 0, evaluate, problem.ref_point.numpy())


def missing(problem: Any, values: list[list[float]]) -> float:
    """The share of the largest possible hypervolume that these values leave open, in per cent."""
    Y, reference = -torch.tensor(values, dtype=torch.float64), -problem.ref_point
    reached = Hypervolume(reference).compute(Y[is_non_dominated(Y)])
    return 100 * (1 - reached / problem._max_hv)


def main() -> None:
    found = asked_for("several_objectives", __doc__, PROBLEMS, task, OTHERS, max(AT))
    print(f"| problem | method | {' | '.join(f'after {n}' for n in AT)} | seconds per proposal | runs |")
    print("|---|---|" + "---|" * (len(AT) + 2))
    for (name, method), rows in found.items():
        cells = []
        for n in AT:
            left = np.array([missing(PROBLEMS[name], r["values"][:n]) for r in rows])
            cells.append(f"{left.mean():.2f} ± {left.std(ddof=1) / len(left) ** 0.5 if len(left) > 1 else 0:.2f}")
        seconds = np.mean([r["seconds"] for r in rows])
        print(f"| {name} | {method} | {' | '.join(cells)} | {seconds:.2f} | {len(rows)} |")


if __name__ == "__main__":
    main()
