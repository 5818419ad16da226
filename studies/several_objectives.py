"""Several objectives: hypervolume by evaluations (`python -m studies.several_objectives runs.jsonl`).

BoTorch's test functions, without noise, each optimizer from the same 10 Sobol points, with the reference point of the
test function where it takes one. The table has the share of the largest possible hypervolume that is still missing, in
per cent: mean over seeds, and its standard error.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch.test_functions.multi_objective import DTLZ2, ZDT1, ZDT2, BraninCurrin, VehicleSafety
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated

from modeseek.typing import Array
from studies.contenders import BoTorch, Task, gp_sampler, modeseek, nsga2, on_the_unit_cube, one_by_one, runs

PROBLEMS: dict[str, Any] = {
    "Branin-Currin": BraninCurrin(),
    "ZDT1, d=6": ZDT1(dim=6),
    "ZDT2, d=6": ZDT2(dim=6),
    "DTLZ2, d=6, 2 objectives": DTLZ2(dim=6, num_objectives=2),
    "DTLZ2, d=6, 3 objectives": DTLZ2(dim=6, num_objectives=3),
    "vehicle safety": VehicleSafety(),
}
OTHERS: dict[str, Any] = {"qLogNEHVI": BoTorch, "GPSampler": gp_sampler, "NSGA-II": nsga2}
METHODS = ["modeseek", *OTHERS]
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="a file that runs are added to, and read from")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--device", default="cpu", help="of modeseek")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    args = parser.parse_args()
    available = {"modeseek": modeseek(args.device), **{name: one_by_one(method) for name, method in OTHERS.items()}}
    records = runs(
        [task(name, PROBLEMS[name]) for name in args.problems],
        {name: available[name] for name in args.methods},
        args.seeds,
        max(AT),
        args.results,
    )
    print(f"| problem | method | {' | '.join(f'after {n}' for n in AT)} | seconds per proposal | runs |")
    print("|---|---|" + "---|" * (len(AT) + 2))
    for name in args.problems:
        for method in args.methods:
            rows = [r for r in records if (r["task"], r["method"]) == (name, method) and r["seed"] in args.seeds]
            if not rows:
                continue
            cells = []
            for n in AT:
                left = np.array([missing(PROBLEMS[name], r["values"][:n]) for r in rows])
                cells.append(f"{left.mean():.2f} ± {left.std(ddof=1) / len(left) ** 0.5 if len(left) > 1 else 0:.2f}")
            seconds = np.mean([r["seconds"] for r in rows])
            print(f"| {name} | {method} | {' | '.join(cells)} | {seconds:.2f} | {len(rows)} |")


if __name__ == "__main__":
    main()
