"""Final regret of variants of DMS on the paper's synthetic tasks up to d = 10, replications as one batch.

    python -m benchmarks.variants --device cuda --reps 24 --jobs 12 --out variants.json

The protocol is the paper's: 10 d Sobol points, 10 d + 20 evaluations, noise 0.1, simple regret without noise. Every
variant has the same initial designs. Each (variant, task) is a process; `--jobs` run side by side.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from pathlib import Path

import torch

from modeseek import problems
from modeseek.dms import DMSConfig, suggest
from modeseek.pseudo import sobol

TASKS = [name for name in problems.names() if problems.get(name).values is not None and problems.get(name).d <= 10]
VARIANTS = {
    "paper": DMSConfig.paper,
    "default": lambda d: DMSConfig(),
    "K by the paper's table": lambda d: DMSConfig(K=DMSConfig.paper(d).K),
    "per-point L-BFGS": lambda d: DMSConfig(refine="point"),
    "w=0": lambda d: DMSConfig(w=0.0),
    "w=2": lambda d: DMSConfig(w=2.0),
    "no polish": lambda d: DMSConfig(polish=False),
    "rho=2": lambda d: DMSConfig(rho=2.0),
}


def run(job: tuple[str, str, int, str]) -> tuple[str, str, list[list[float]]]:
    """Simple regret of all replications (reps x evaluations) of one variant on one task."""
    variant, task, reps, device = job
    torch.set_num_threads(1)
    problem = problems.get(task)
    f, d = problem.values, problem.d
    assert f is not None
    config = VARIANTS[variant](d)
    noise = torch.Generator().manual_seed(0)
    X = sobol(problem.n_initial, d, torch.Generator().manual_seed(1), (reps,)).to(device)
    F = f(X)
    Y = F + problem.noise * torch.randn(F.shape, dtype=F.dtype, generator=noise).to(device)
    state = None
    for iteration in range(problem.budget):
        out = suggest(X, Y, config, torch.Generator().manual_seed(1000 + iteration), state)
        state, x = out.state, out.x_next.unsqueeze(-2)
        f_x = f(x)
        y = f_x + problem.noise * torch.randn(f_x.shape, dtype=F.dtype, generator=noise).to(device)
        X, F, Y = torch.cat([X, x], -2), torch.cat([F, f_x], -1), torch.cat([Y, y], -1)
    return variant, task, (problem.optimum - F.cummax(-1).values).tolist()


def main() -> None:
    """Run what is asked and print a table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--reps", type=int, default=24)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True, help="a JSON file of all regrets, written after every job")
    args = parser.parse_args()
    jobs = [(v, t, args.reps, args.device) for v in args.variants for t in reversed(args.tasks)]
    results: dict[str, dict[str, list[list[float]]]] = {}
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=1) as pool:
        for variant, task, regret in pool.imap_unordered(run, jobs):
            results.setdefault(variant, {})[task] = regret
            args.out.write_text(json.dumps(results))
            final = torch.tensor(regret)[:, -1]
            print(f"{variant}, {task}: {final.mean():.3f} ± {final.std() / len(final) ** 0.5:.3f}", flush=True)
    print("\n| task | " + " | ".join(args.variants) + " |\n" + "|---" * (len(args.variants) + 1) + "|")
    for task in args.tasks:
        cells = []
        for variant in args.variants:
            final = torch.tensor(results[variant][task])[:, -1]
            cells.append(f"{final.mean():.3f} ± {final.std() / len(final) ** 0.5:.3f}")
        print(f"| {task} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
