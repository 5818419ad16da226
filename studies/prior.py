"""A belief where the optimum is: right, wrong, or none (`python -m studies.prior --out prior.jsonl`).

Functions without noise, 40 evaluations of which 10 are the initial design, one run after the other; those in the file
are not run again. A belief is Normal with a standard deviation of a tenth of each parameter's range (of its decades
where it is logarithmic). A right one has its mean that far from the optimum, in each parameter at random; a wrong one
has it on the far side of the range, 0.35 to 0.85 of it away. Of a choice, the right one or a wrong one is named.
Printed: median regret (or, of the mixed function, value) after so many evaluations, of all seeds. With `--quick` the
proposals are made without a diffusion model and from fewer pseudo-inputs.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.test_functions.synthetic import Ackley, Branin, Hartmann

import modeseek as ms
from modeseek.parameters import Categorical

BUDGET, AT = 40, (10, 20, 30, 40)


class Task(NamedTuple):
    """A function to be minimized, whose least value is 0, and where that is."""

    space: ms.Space
    f: Callable[[Any], float]
    optimum: dict[str, Any]


def _of(function: Any, low: list[float], high: list[float], optimum: list[float], shift: float = 0.0) -> Task:
    """A test function on a box, moved by `shift` in every coordinate."""
    least = float(function.optimal_value)

    def f(x: np.ndarray) -> float:
        return float(function(torch.from_numpy(x - shift))) - least

    names = [f"x{i}" for i in range(len(low))]
    return Task(ms.Space.box(low, high), f, dict(zip(names, [o + shift for o in optimum], strict=True)))


def branin() -> Task:
    """Three optima of one value; the belief is about the middle one."""
    return _of(Branin(), [-5, 0], [10, 15], [math.pi, 2.275])


def hartmann() -> Task:
    """Six dimensions, a few hills."""
    return _of(Hartmann(6), [0] * 6, [1] * 6, [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])


def ackley() -> Task:
    """A needle in a bowl, off the centre."""
    return _of(Ackley(5), [-10] * 5, [20] * 5, [0] * 5, shift=7.0)


def mixed() -> Task:
    """A learning rate, a width and two choices that interact with them."""
    space = ms.Space(
        {
            "lr": ms.Float(1e-5, 1e-1, log=True),
            "units": ms.Int(16, 512, log=True),
            "act": ms.Categorical(["relu", "tanh", "gelu"]),
            "solver": ms.Categorical(["adam", "sgd", "rms"]),
        }
    )
    rate = {"adam": -3.0, "sgd": -1.5, "rms": -3.5}

    def f(p: dict[str, Any]) -> float:
        value = 0.2 * (math.log10(p["lr"]) - rate[p["solver"]]) ** 2 + 0.05 * math.log2(p["units"] / 128) ** 2
        return value + {"gelu": 0.0, "relu": 0.1, "tanh": 0.5}[p["act"]] + 0.1 * (p["solver"] != "adam")

    return Task(space, f, {"lr": 1e-3, "units": 128, "act": "gelu", "solver": "adam"})


TASKS = {task.__name__: task for task in (branin, hartmann, ackley, mixed)}
WAYS = ("none", "right", "wrong")


def belief(task: Task, way: str, seed: int) -> dict[str, Any] | None:
    """The prior of a run."""
    if way == "none":
        return None
    rng = np.random.default_rng(seed)
    said: dict[str, Any] = {}
    for name, best in task.optimum.items():
        parameter = task.space[name]
        if isinstance(parameter, Categorical):
            others = [choice for choice in parameter.choices if choice != best]
            said[name] = best if way == "right" else others[rng.integers(len(others))]
            continue
        low, high, at = (math.log10(v) if parameter.log else float(v) for v in (parameter.low, parameter.high, best))
        u = (at - low) / (high - low)
        mean = u + 0.1 * rng.standard_normal() if way == "right" else (u + 0.35 if u < 0.5 else u - 0.35)
        if way == "wrong":  # somewhere between there and the end of the range
            mean += rng.random() * ((0.95 - mean) if u < 0.5 else (0.05 - mean))
        mean = low + min(max(mean, 0.02), 0.98) * (high - low)
        said[name] = ms.Normal(10**mean if parameter.log else mean, 0.1 * (high - low))
    return said


def config_of(quick: bool) -> ms.DMSConfig:
    """The default, or one that takes a few seconds per run."""
    return ms.DMSConfig(m=128, S=32, train_on="nothing") if quick else ms.DMSConfig()


def run(name: str, way: str, seed: int, quick: bool = False) -> list[float]:
    """The best value after each evaluation."""
    task = TASKS[name]()
    settings: Any = dict(seed=seed, prior=belief(task, way, seed), noise="none", progress=False)
    return bests(ms.minimize(task.f, task.space, BUDGET, config=config_of(quick), **settings))


def bests(result: ms.Result) -> list[float]:
    """The best value after each evaluation."""
    values = np.array([trial.value for trial in result.trials], dtype=np.float64)
    return list(np.minimum.accumulate(values).tolist())


def read(path: Path) -> dict[tuple[str, str, int], list[float]]:
    """The runs of a file."""
    if not path.exists():
        return {}
    records = map(json.loads, path.read_text().splitlines())
    return {(r["task"], r["way"], r["seed"]): r["best"] for r in records}


Run = Callable[[str, str, int, bool], list[float]]


def main(text: str | None, tasks: dict[str, Any], ways: tuple[str, ...], run: Run) -> None:
    """Run what is missing, and print a row per task and way."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(tasks))
    parser.add_argument("--ways", default=",".join(ways))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    done = read(args.out)
    for seed in range(args.seeds):
        for task in args.tasks.split(","):
            for way in args.ways.split(","):
                if (task, way, seed) not in done:
                    done[task, way, seed] = run(task, way, seed, args.quick)
                    with args.out.open("a") as file:
                        record = {"task": task, "way": way, "seed": seed, "best": done[task, way, seed]}
                        file.write(json.dumps(record) + "\n")
    print("| task | way | runs | " + " | ".join(f"after {n}" for n in AT) + " |\n|---|---|---|" + "---|" * len(AT))
    for task in args.tasks.split(","):
        for way in args.ways.split(","):
            runs = np.array([best for (t, w, _), best in done.items() if (t, w) == (task, way)])
            cells = " | ".join(f"{np.median(runs[:, n - 1]):.2g}" for n in AT)
            print(f"| {task} | {way} | {len(runs)} | {cells} |")


if __name__ == "__main__":
    main(__doc__, TASKS, WAYS, run)
