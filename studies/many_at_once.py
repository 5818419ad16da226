"""Rounds of q proposals by several policies, on the functions of studies/exploration.py, which are for tuning only,
and on tasks that nothing was chosen on.

    python -m studies.many_at_once --policy one,draws --d 5,10 --q 4,50 --device cuda --out many.jsonl
    python -m studies.many_at_once --held-out --policy ask,one --d 3,4,5 --q 4,50 --device cuda --out held_out.jsonl
    python -m studies.many_at_once --coco --policy ask,modes --d 10 --q 4 --reps 2 --device cuda --out coco.jsonl
    python -m studies.many_at_once --show many.jsonl

All replications run side by side. A round is q proposals that are evaluated together; the design has
q points, at least 2d + 3 or 30. With `--coco` the functions are COCO's fifteen, whose optima may be anywhere in the
middle 80 % of the box, of as many instances as `--reps` says, without noise.
Noise and regret of the tuning functions are in standard deviations over the cube. `--show` prints each policy's mean
rank over replications, of the regret over all rounds and after the last, and how it differs from the first policy's.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata, wilcoxon
from torch import Tensor

from modeseek.bench.campaign.replication import initial_design
from modeseek.bench.tasks import coco, find_task
from modeseek.design import sobol
from modeseek.settings import Stream, generator
from studies.batch_policies import POLICIES, rounds_of
from studies.exploration import FUNCTIONS, Problem

NOISE = 0.01
HELD_OUT = {
    3: ("griewank-3", "rotated-styblinski-tang-3"),
    4: ("shekel-4", "rotated-rastrigin-4", "rotated-griewank-4"),
    5: ("rastrigin-5", "rotated-rosenbrock-5"),
    6: ("hartmann-6", "rotated-ackley-6"),
    8: ("ackley-8", "rotated-levy-8"),
    10: ("levy-10", "michalewicz-10"),
    12: ("rotated-rosenbrock-12",),
    20: ("ackley-20", "levy-20"),
}


class Problems(NamedTuple):
    """Replications side by side, of one dimension."""

    values: Callable[[Tensor], Tensor]  # b x m x d on the cube to b x m, larger is better
    design: Tensor  # b x n x d
    noise: Tensor  # b
    optimum: Tensor  # b


def tuning(d: int, q: int, replications: int) -> Problems:
    """The eight functions."""
    rows = [(Problem.of(i, d, r), r) for i in range(len(FUNCTIONS)) for r in range(replications)]
    n = max(min(2 * d + 3, 30), q)
    design = torch.stack([sobol(n, d, generator(r, Stream.DESIGN)) for _, r in rows])
    optimum = torch.zeros(len(rows), dtype=torch.float64)
    return Problems(_each([problem.value for problem, _ in rows]), design, optimum + NOISE, optimum)


def held_out(d: int, q: int, replications: int) -> Problems:
    """The tasks with d parameters, with the designs of a campaign in rounds."""
    rows = [(find_task(f"{name}@q{q}"), r) for name in HELD_OUT[d] for r in range(replications)]
    design = torch.from_numpy(np.stack([initial_design(task, r) for task, r in rows]))
    noise, optimum = (
        torch.tensor(column, dtype=torch.float64)
        for column in zip(*((task.noise, task.optimum) for task, _ in rows), strict=True)
    )
    return Problems(_each([task.values for task, _ in rows if task.values is not None]), design, noise, optimum)


def of_coco(d: int, q: int, instances: int) -> Problems:
    """COCO's functions, with the designs of a campaign in rounds."""
    tasks = [
        find_task(f"{coco.name_of('bbob', f, i, d)}@q{q}") for f in coco.FUNCTIONS for i in coco.INSTANCES[:instances]
    ]
    design = torch.from_numpy(np.stack([initial_design(task, 0) for task in tasks]))
    none = torch.zeros(len(tasks), dtype=torch.float64)
    return Problems(_each([task.values for task in tasks if task.values is not None]), design, none, none)


def _each(functions: Sequence[Callable[[Tensor], Tensor]]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.stack([function(row) for function, row in zip(functions, x, strict=True)])


def run(policy: str, problems: Problems, q: int, rounds: int, device: str) -> dict[str, object]:
    """Regret of the best observed point after the design and after each round, by problem; and the seconds."""
    course = rounds_of(policy, problems.values, problems.design, q, rounds, noise=problems.noise, device=device)
    best = problems.optimum.numpy() - np.array(course.best(problems.design.shape[1], q))
    return {"regret": [[float(f"{regret:.4g}") for regret in row] for row in best], "seconds": course.seconds}


def show(path: Path) -> None:
    """Mean ranks of the policies by batch size, over the dimensions that all of them have; and of each dimension."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for q in sorted({row["q"] for row in rows}):
        here = {(row["policy"], row["d"]): row for row in rows if row["q"] == q}
        sizes = sorted({d for _, d in here})
        for d in sizes:
            _table(f"q = {q}, d = {d}", [here[key] for key in here if key[1] == d])
        policies = [p for p in dict.fromkeys(p for p, _ in here) if all((p, d) in here for d in sizes)]
        if len(sizes) > 1 and policies:
            _table(f"q = {q}, all dimensions", [_joined([here[p, d] for d in sizes]) for p in policies])


def _joined(rows: list[dict[str, Any]]) -> dict[str, Any]:
    regret = np.concatenate([np.array(row["regret"]) for row in rows], 1)
    return {**rows[0], "regret": regret, "seconds": sum(row["seconds"] for row in rows)}


def _table(title: str, rows: list[dict[str, Any]]) -> None:
    """Ranks over all rounds and at the end, with Wilcoxon's signed-rank test of both against the first policy."""
    regret = np.maximum([row["regret"] for row in rows], 1e-9)[:, 1:]  # policies x rounds x problems
    rank, log = rankdata(regret, axis=0).mean(-1), np.log10(regret)
    print(f"{title}: {regret.shape[2]} problems, {regret.shape[1]} rounds")
    for i in np.argsort(rank.mean(-1)):
        area, end = log[i].mean(0) - log[0].mean(0), log[i, -1] - log[0, -1]
        p = [wilcoxon(x).pvalue if np.any(x) else 1.0 for x in (area, end)]
        print(
            f"  {rows[i]['policy']:18} rank over rounds {rank[i].mean():5.2f} (p {p[0]:.3f}), at the end "
            f"{rank[i, -1]:5.2f} (p {p[1]:.3f}) of {len(rows)}; log10 regret {log[i].mean():6.2f}, "
            f"{log[i, -1].mean():6.2f}; {rows[i]['seconds']:.0f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--policy", default=",".join(["ask", "sobol", *(name for name in POLICIES if name != "qlogei")])
    )
    parser.add_argument("--d", default="5,10")
    parser.add_argument("--q", default="2,4,10,50,100")
    parser.add_argument("--held-out", action="store_true", help="the paper's tasks, and rotated ones")
    parser.add_argument("--coco", action="store_true", help="the functions of bbob that are not kept apart")
    parser.add_argument("--rounds", type=int, help="(default: 60 evaluations, at least 6 rounds)")
    parser.add_argument("--reps", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("many.jsonl"))
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        return
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    for d, q in itertools.product(map(int, options.d.split(",")), map(int, options.q.split(","))):
        problems = (of_coco if options.coco else held_out if options.held_out else tuning)(d, q, options.reps)
        rounds = options.rounds or max(60 // q, 6)
        for policy in options.policy.split(","):
            key = {"policy": policy, "d": d, "q": q, "rounds": rounds, "reps": options.reps}
            if not any(key.items() <= row.items() for row in done):
                row = key | run(policy, problems, q, rounds, options.device)
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
