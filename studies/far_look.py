"""The far look near the end of a run whose end is known: with it, and without it in the last 2d evaluations.

    python -m studies.far_look --task styblinski-tang-2,griewank-3 --reps 30 --out far_look.json

Both variants are the default without its diffusion model, side by side from the same designs with the same random
numbers, so that they differ from the first far look that one of them leaves out. Printed are the mean final regret of
both, and Wilcoxon's signed-rank test over replications.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

from modeseek.bench.campaign.replication import initial_design, observe_all, seed_of_replication
from modeseek.bench.methods import make_side_by_side
from modeseek.bench.tasks import find_task
from modeseek.config import DMSConfig
from modeseek.history import History
from modeseek.typing import Array

CONFIG = DMSConfig(train_on="nothing")


def final_regret(task: str, replications: int, knows_its_end: bool) -> Array:
    """Of each replication."""
    problem = find_task(task)
    numbers = range(replications)
    seeds = [seed_of_replication(task, r) for r in numbers]
    method = make_side_by_side("dms", [problem.space] * replications, seeds, config=CONFIG)
    X = np.stack([initial_design(problem, r) for r in numbers])
    total = problem.n_initial + problem.budget
    observed, values = np.zeros((replications, 0)), np.zeros((replications, 0))
    for number in range(total):
        if number >= problem.n_initial:
            histories = [History.of(x, y) for x, y in zip(X, observed, strict=True)]
            points = method(histories, total - number if knows_its_end else None)
            X = np.concatenate([X, points[:, None]], 1)
        seen, true = observe_all(problem, X[:, number], list(numbers), number)
        observed, values = np.c_[observed, seen], np.c_[values, true]
    return np.maximum(problem.optimum - values.max(1), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="styblinski-tang-2,griewank-3")
    parser.add_argument("--reps", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("far_look.json"))
    options = parser.parse_args()
    rows = json.loads(options.out.read_text()) if options.out.exists() else []
    for task in options.task.split(","):
        until, throughout = (final_regret(task, options.reps, knows) for knows in (True, False))
        p = float(wilcoxon(until - throughout).pvalue) if (until != throughout).any() else 1.0
        better = int((until < throughout).sum())
        print(f"{task}: {until.mean():.4g} without, {throughout.mean():.4g} with; better in {better}, p = {p:.3f}")
        rows.append({"task": task, "without": until.tolist(), "with": throughout.tolist(), "p": p})
        options.out.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
