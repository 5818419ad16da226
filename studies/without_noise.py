"""Smooth functions without noise: the default beside Optuna's GPSampler, LogEI and HEBO, after 20, 40, 80 evaluations.

    modeseek bench run --task $(python -m studies.without_noise --tasks) --method dms,logei --engine batch --out runs
    modeseek bench run --task $(python -m studies.without_noise --tasks) --method gpsampler,hebo --out runs
    python -m studies.without_noise --table runs

HEBO is in the environment of `make peers`. All methods have the same ten Sobol points first. The table: median regret,
where less than SOLVED counts as SOLVED; of the other methods with "+" or "−" where they are better or
worse than `dms` by Wilcoxon's signed-rank test at 5 %, on the replications that they share.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from botorch.test_functions import Branin, Hartmann, Rosenbrock
from scipy.stats import wilcoxon
from torch import Tensor

from modeseek.bench.campaign.records import Store
from modeseek.bench.tasks import Problem
from modeseek.bench.tasks.synthetic import Maximized, on_box
from modeseek.bench.tasks.validation import trid, zakharov
from modeseek.typing import Array

AT = (20, 40, 80)
SOLVED = 1e-6
PI = float(np.pi)


def sphere(x: Tensor) -> Tensor:
    """With its optimum where no Sobol point is: ... x d -> ..."""
    return -(x - 0.37).square().sum(-1)


def task(
    name: str, function: Callable[[Tensor], Tensor], box: list[tuple[float, float]], at: list[list[float]], best: float
) -> Problem:
    return on_box(name, function, box, at, best, noise=0.0, n_initial=10, budget=max(AT) - 10, replications=10)


sphere_5 = task("Smooth sphere", sphere, [(-1.0, 1.0)] * 5, [[0.37] * 5], 0.0)
branin_2 = task(
    "Smooth Branin",
    Maximized(Branin, 2),
    [(-5.0, 10.0), (0.0, 15.0)],
    [[-PI, 12.275], [PI, 2.275]],
    -0.39788735772973816,
)
hartmann_3 = task("Smooth Hartmann", Maximized(Hartmann, 3), [(0.0, 1.0)] * 3, [], 3.862782147820756)
hartmann_6 = task("Smooth Hartmann", Maximized(Hartmann, 6), [(0.0, 1.0)] * 6, [], 3.3223680114155147)
rosenbrock_4 = task("Smooth Rosenbrock", Maximized(Rosenbrock, 4), [(-2.048, 2.048)] * 4, [[1.0] * 4], 0.0)
trid_4 = task("Smooth Trid", trid, [(-16.0, 16.0)] * 4, [[4.0, 6.0, 6.0, 4.0]], 16.0)
zakharov_4 = task("Smooth Zakharov", zakharov, [(-5.0, 10.0)] * 4, [[0.0] * 4], 0.0)
TASKS = ("sphere_5", "branin_2", "hartmann_3", "hartmann_6", "rosenbrock_4", "trid_4", "zakharov_4")


def regrets(folder: str) -> dict[tuple[str, str], dict[int, Array]]:
    """By task and method and replication: the regret of the best value so far, at AT."""
    found: dict[tuple[str, str], dict[int, Array]] = defaultdict(dict)
    for record in Store(folder):
        if record.status == "complete" and record.optimum is not None:
            best = np.maximum.accumulate(record.values)[np.array(AT) - 1]
            found[record.task, record.method][record.replication] = np.maximum(record.optimum - best, SOLVED)
    return found


def sign(theirs: Array, ours: Array) -> str:
    """Whether they are better ("+") or worse, or neither (""), on common replications."""
    if len(ours) < 5 or not (theirs != ours).any():
        return ""
    differs = wilcoxon(np.log(theirs), np.log(ours)).pvalue < 0.05
    return ("+" if np.log(theirs / ours).mean() < 0 else "−") if differs else ""


def print_table(folder: str) -> None:
    found = regrets(folder)
    print("| task | method | replications | " + " | ".join(f"after {n}" for n in AT) + " |")
    print("|---" * (3 + len(AT)) + "|")
    for (task_name, method), runs in sorted(found.items()):
        ours = found[task_name, "dms"]
        common = sorted(runs.keys() & ours.keys())
        of_each = np.array([runs[replication] for replication in common])
        marks = [sign(of_each[:, i], np.array([ours[k][i] for k in common])) for i in range(len(AT))]
        cells = [f"{value:.2g} {mark}".strip() for value, mark in zip(np.median(of_each, 0), marks, strict=True)]
        print(f"| {task_name.removeprefix('smooth-')} | {method} | {len(common)} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", action="store_true", help="print their names for `modeseek bench run`")
    parser.add_argument("--table", metavar="FOLDER")
    args = parser.parse_args()
    if args.tasks:
        print(",".join(f"{Path(__file__).relative_to(Path.cwd())}:{name}" for name in TASKS))
    if args.table:
        print_table(args.table)


if __name__ == "__main__":
    main()
