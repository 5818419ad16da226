"""The protocol of BEEBO (Teufel et al. 2024, https://github.com/novonordisk-research/BEE-BO): 33 tasks, q = 100.

    python -m studies.beebo --policy ask --device cuda --out beebo.jsonl            # as published
    python -m studies.beebo --policy ask --shifted --device cuda --out beebo.jsonl  # optima elsewhere
    python -m studies.beebo --show beebo.jsonl

100 uniform points at least 0.5 (Euclidean, on the unit cube) from the optima, then ten rounds of 100, without noise,
five seeds. What is reported is how far the best value has come from the best of the design (0) to the optimum (1), a
mean over seeds. Published Thompson sampling draws from 10,000 Sobol points that are not scrambled: the middle of the
box is one of them, where Ackley and Rastrigin have their optimum. With `--shifted` optima are at random points of the
middle 60 % of the box, others for each seed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from botorch.test_functions import synthetic
from torch import Tensor

from modeseek import DMSConfig
from studies.batch_policies import rounds_of

SEEDS, DESIGN, Q, ROUNDS, DISTANCE = 5, 100, 100, 10, 0.5
MANY = ("Ackley", "Levy", "Rastrigin", "Rosenbrock", "StyblinskiTang", "Powell")
OF_SIZE: dict[int, tuple[str, ...]] = {
    2: MANY[:-1],
    4: ("Shekel",),
    6: ("Hartmann",),
    8: ("Cosine8",),
    10: MANY,
    20: MANY,
    50: MANY,
    100: (*MANY, "Hartmann"),  # of the first six coordinates
}


@dataclass(frozen=True)
class Task:
    """One function and seed, larger is better."""

    name: str
    d: int
    seed: int
    shifted: bool

    @property
    def function(self) -> synthetic.SyntheticTestFunction:
        """BoTorch's, on its own box, but defined everywhere."""
        kind = getattr(synthetic, self.name)
        function = kind() if self.name in ("Shekel", "Cosine8") else kind(dim=6 if self.name == "Hartmann" else self.d)
        function.negate = function.is_minimization_problem
        return function.double()

    @property
    def optimum(self) -> float:
        """The best value."""
        return abs(float(self.function.optimal_value))

    def objective(self) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """The values at points of the cube, m x d to m, and where they are best, k x d."""
        function, d = self.function, self.d
        inner = function.dim  # of which the function depends
        low, high = function.bounds
        optimizers = (function.optimizers.double() - low) / (high - low)
        rest = torch.zeros(len(optimizers), d - inner, dtype=torch.float64)
        shift = torch.zeros(inner, dtype=torch.float64)
        if self.shifted:
            rng = np.random.default_rng([self.seed, d, MANY.index(self.name) if self.name in MANY else 9])
            shift = torch.from_numpy(rng.uniform(0.2, 0.8, inner)) - optimizers[0]

        def values(x: Tensor) -> Tensor:
            at = low + (high - low) * (x[..., :inner] - shift)
            sign = -1.0 if function.negate else 1.0
            return sign * function._evaluate_true(at)

        return values, torch.cat([optimizers + shift, rest], -1)

    def design(self) -> Tensor:
        """Uniform points away from the optima, DESIGN x d."""
        source = torch.Generator().manual_seed(self.seed)
        optima, points = self.objective()[1], torch.zeros(0, self.d, dtype=torch.float64)
        while len(points) < DESIGN:
            more = torch.rand(DESIGN, self.d, dtype=torch.float64, generator=source)
            points = torch.cat([points, more[(torch.cdist(more, optima) > DISTANCE).all(-1)]])
        return points[:DESIGN]


def run(
    policy: str, d: int, shifted: bool, device: str, local_after: int | None = None, seeds: int = SEEDS
) -> list[dict[str, object]]:
    """All tasks of one size side by side; a line per task."""
    tasks = [Task(name, d, seed, shifted) for name in OF_SIZE[d] for seed in range(seeds)]
    config = DMSConfig() if local_after is None else DMSConfig(local_after=local_after)
    objectives = [task.objective()[0] for task in tasks]

    def values(x: Tensor) -> Tensor:
        return torch.stack([objective(row) for objective, row in zip(objectives, x, strict=True)])

    design = torch.stack([task.design() for task in tasks])
    course = rounds_of(policy, values, design, Q, ROUNDS, device=device, config=config)
    best = np.maximum.accumulate(np.array(course.best(DESIGN, Q)), 0)  # rounds + 1 x tasks
    goal = np.array([task.optimum for task in tasks])
    share = (best - best[0]) / (goal - best[0])
    lines: list[dict[str, object]] = []
    for i, name in enumerate(OF_SIZE[d]):
        rows = slice(i * seeds, (i + 1) * seeds)
        of_task = {"task": name, "d": d, "shifted": shifted, "policy": policy}
        regret = (goal[rows] - best[-1, rows]).round(5).tolist()
        lines.append({**of_task, "share": share[:, rows].mean(-1).round(4).tolist(), "regret": regret})
    lines[0]["seconds"] = course.seconds
    return lines


def show(path: Path) -> None:
    """The share by task and policy after the last round, and means."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    for shifted in sorted({row["shifted"] for row in rows}):
        found = {(row["d"], row["task"], row["policy"]): row["share"][-1] for row in rows if row["shifted"] == shifted}
        tasks = [(d, name) for d in OF_SIZE for name in OF_SIZE[d] if any((d, name, p) in found for p in policies)]
        print("shifted optima" if shifted else "as published")
        print(f"{'':22}" + "".join(f"{policy:>16}" for policy in policies))
        table = np.array([[found.get((*task, policy), np.nan) for policy in policies] for task in tasks])
        for (d, name), line in zip(tasks, table, strict=True):
            print(f"{name + '-' + str(d):22}" + "".join(f"{value:16.3f}" for value in line))
        print(f"{'mean':22}" + "".join(f"{value:16.3f}" for value in table.mean(0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="ask")
    parser.add_argument("--d", default=",".join(map(str, OF_SIZE)))
    parser.add_argument("--shifted", action="store_true")
    parser.add_argument("--local-after", type=int, help="observations from which on a box is searched, as in DMSConfig")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("beebo.jsonl"))
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        return
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    for d in map(int, options.d.split(",")):
        for policy in options.policy.split(","):
            name = policy if options.local_after is None else f"{policy}:{options.local_after}"
            key = {"d": d, "shifted": options.shifted, "policy": name}
            if not any(key.items() <= row.items() for row in done):
                lines = run(policy, d, options.shifted, options.device, options.local_after, options.seeds)
                with options.out.open("a") as file:
                    file.writelines(json.dumps(line | key) + "\n" for line in lines)


if __name__ == "__main__":
    main()
