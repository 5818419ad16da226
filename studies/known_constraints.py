"""Known linear constraints beside Ax: four tasks, simple regret (`python -m studies.known_constraints --seeds 10`).

Every run has 10 points of its tool's own initial design and 24 evaluations in all, without noise. Ax is its default
generation strategy (`method="fast"`) with the same constraints as parameter constraints; its client takes no
equalities, so that the last parameter follows from the others there. "random" is uniform within the constraints. The
reference is the best of 200 runs of SLSQP from points within. Results are appended to a JSON file, one line per run,
and a run that is there is not repeated.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch.test_functions import Hartmann, Levy, Rosenbrock
from scipy.optimize import minimize

from modeseek import Float, Linear, Optimizer, Space
from modeseek.typing import Array

INITIAL, EVALUATIONS, REFERENCES = 10, 24, 200
NAMES = [f"x{i}" for i in range(7)]

BLEND = np.array([0.45, 0.3, 0.0, 0.15, 0.0, 0.1, 0.0])


def mixture(x: Array) -> float:
    """A blend of seven parts: four belong in it, and three pairs of parts react with each other."""
    pairs = x[0] * x[2] - 1.5 * x[1] * x[3] + 2 * x[4] * x[5]
    return float(np.square(x - BLEND) @ np.array([4, 3, 1, 2, 1, 3, 1]) + pairs + 0.05 * np.sin(12 * x).sum())


def botorch_value(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], float]:
    return lambda x: float(function(torch.from_numpy(x)[None]))


@dataclass(frozen=True)
class Task:
    """Minimize f on a box with linear constraints."""

    f: Callable[[Array], float]
    bounds: list[tuple[float, float]]
    constraints: list[Linear]

    @cached_property
    def space(self) -> Space:
        """With parameters x0, x1, ..."""
        names = NAMES[: len(self.bounds)]
        return Space({name: Float(*ends) for name, ends in zip(names, self.bounds, strict=True)}, self.constraints)

    def value(self, params: dict[str, float]) -> float:
        """The objective of parameters by name, of which Ax's may be out of bounds by rounding."""
        x = np.array([params[name] for name in NAMES[: len(self.bounds)]])
        low, high = np.array(self.bounds, dtype=float).T
        if (x < low - 1e-6).any() or (x > high + 1e-6).any():
            raise ValueError(f"{x} is out of bounds")
        return self.f(np.clip(x, low, high))


TASKS = {
    # Shares that sum to one.
    "mixture-7": Task(mixture, [(0, 1)] * 7, [Linear({name: 1 for name in NAMES}, equals=1)]),
    # A budget that the optimum of Hartmann's function, whose sum is 2.07, exceeds.
    "hartmann-6": Task(
        botorch_value(Hartmann(dim=6).double()), [(0, 1)] * 6, [Linear({name: 1 for name in NAMES[:6]}, upper=1.5)]
    ),
    # Rising parameters; the optimum has them all equal, at a vertex of what is feasible.
    "rosenbrock-4": Task(
        botorch_value(Rosenbrock(dim=4).double()),
        [(-2.048, 2.048)] * 4,
        [Linear({NAMES[i + 1]: 1, NAMES[i]: -1}, lower=0) for i in range(3)],
    ),
    # An equality and two inequalities.
    "levy-5": Task(
        botorch_value(Levy(dim=5).double()),
        [(-10, 10)] * 5,
        [
            Linear({name: 1 for name in NAMES[:5]}, equals=0),
            Linear({"x0": 1, "x1": -1}, upper=2),
            Linear({"x2": 1, "x3": 2}, lower=-4, upper=6),
        ],
    ),
}


def reference(task: Task) -> float:
    """The least value that SLSQP finds."""
    region = task.space.region()
    if region is None:
        raise ValueError("a task without constraints")
    limits: list[dict[str, Any]] = []
    for constraint in task.constraints:
        row = np.array([constraint.coefficients.get(name, 0.0) for name in NAMES[: len(task.bounds)]])
        low, high = constraint.bounds
        kind = "eq" if low == high else "ineq"
        if math.isfinite(high):
            limits.append({"type": kind, "fun": lambda x, row=row, high=high: high - row @ x})
        if math.isfinite(low) and low != high:
            limits.append({"type": kind, "fun": lambda x, row=row, low=low: row @ x - low})
    starts = region.sample(REFERENCES, torch.Generator().manual_seed(0)).numpy()
    best = math.inf
    for start in starts:
        x = np.array(list(task.space.decode(start).values()))
        end = minimize(task.f, x, bounds=task.bounds, constraints=limits, method="SLSQP")
        if all(_holds(limit, end.x) for limit in limits):
            best = min(best, float(end.fun))
    return best


def _holds(limit: dict[str, Any], x: Array) -> bool:
    left = limit["fun"](x)
    return bool(abs(left) < 1e-6 if limit["type"] == "eq" else left > -1e-6)


def run_modeseek(task: Task, seed: int) -> list[float]:
    optimizer = Optimizer(task.space, seed=seed, n_initial=INITIAL)
    values = []
    for i in range(EVALUATIONS):
        trial = optimizer.ask(left=EVALUATIONS - i)
        values.append(task.value(trial.params))
        optimizer.tell(trial, values[-1])
    return values


def run_random(task: Task, seed: int) -> list[float]:
    region = task.space.region()
    if region is None:
        raise ValueError("a task without constraints")
    points = region.sample(EVALUATIONS, torch.Generator().manual_seed(seed)).numpy()
    return [task.value(task.space.decode(point)) for point in points]


def run_ax(task: Task, seed: int) -> list[float]:
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    names = NAMES[: len(task.bounds)]
    equality = next((c for c in task.constraints if c.equals is not None), None)
    dropped = names[-1] if equality is not None else None  # the client takes inequalities only
    client = Client(random_seed=seed)
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(name=name, bounds=ends, parameter_type="float")
            for name, ends in zip(names, task.bounds, strict=True)
            if name != dropped
        ],
        parameter_constraints=[text for constraint in task.constraints for text in _as_text(constraint, task.bounds)],
    )
    client.configure_optimization(objective="-loss")
    client.configure_generation_strategy(
        method="fast", initialization_budget=INITIAL, initialization_random_seed=seed, initialize_with_center=False
    )
    values = []
    for _ in range(EVALUATIONS):
        for index, params in client.get_next_trials(max_trials=1).items():
            if equality is not None and equality.equals is not None and dropped is not None:
                params = {**params, dropped: equality.equals - sum(params.values())}
            values.append(task.value(params))
            client.complete_trial(index, {"loss": values[-1]})
    return values


def _as_text(constraint: Linear, bounds: list[tuple[float, float]]) -> list[str]:
    """In Ax's words; an equality, whose coefficients are 1, bounds what the last parameter would be."""
    coefficients, (low, high) = dict(constraint.coefficients), constraint.bounds
    if low == high:
        coefficients.popitem()
        low, high = high - bounds[-1][1], high - bounds[-1][0]
    total = " + ".join(f"{a:g}*{name}" for name, a in coefficients.items())
    ends = [(">=", low), ("<=", high)]
    return [f"{total} {sign} {end:g}" for sign, end in ends if math.isfinite(end)]


METHODS: dict[str, Callable[[Task, int], list[float]]] = {
    "modeseek": run_modeseek,
    "ax": run_ax,
    "random": run_random,
}


def record(path: Path, seeds: int, tasks: Sequence[str]) -> None:
    """Run what is not in the file yet."""
    done = {(r["task"], r["method"], r["seed"]) for r in _read(path)}
    for seed in range(seeds):
        for task in tasks:
            for method, run in METHODS.items():
                if (task, method, seed) in done:
                    continue
                started = time.perf_counter()
                values = run(TASKS[task], seed)
                line = {"task": task, "method": method, "seed": seed, "values": values}
                with path.open("a") as file:
                    file.write(json.dumps({**line, "seconds": round(time.perf_counter() - started, 1)}) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(path: Path) -> None:
    """Median regret after 17 and 24 evaluations, and on how many seeds modeseek is ahead of Ax at the end."""
    runs = _read(path)
    print("| task | evaluations | " + " | ".join(METHODS) + " | modeseek better than ax, seeds |")
    print("|---|---|" + "---|" * (len(METHODS) + 1))
    for name, task in TASKS.items():
        best, curves = reference(task), dict[str, Any]()
        for method in METHODS:
            rows = {r["seed"]: r["values"] for r in runs if (r["task"], r["method"]) == (name, method)}
            curves[method] = {seed: np.minimum.accumulate(values) - best for seed, values in rows.items()}
        shared = sorted(set.intersection(*(set(of) for of in curves.values())))
        for n in (17, EVALUATIONS):
            final = {m: np.array([curves[m][seed][n - 1] for seed in shared]) for m in METHODS}
            ahead = int((final["modeseek"] < final["ax"]).sum())
            cells = " | ".join(f"{np.median(final[m]):.3g}" for m in METHODS)
            print(f"| {name} | {n} | {cells} | {ahead} of {len(shared)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "runs" / "known_constraints.jsonl")
    parser.add_argument("--task", action="append", choices=TASKS)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    record(args.out, args.seeds, args.task or list(TASKS))
    report(args.out)


if __name__ == "__main__":
    main()
