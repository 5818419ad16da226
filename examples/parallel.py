"""Evaluate side by side: with `n_workers`, or with `ask(4)` where evaluations are yours to run.

    python examples/parallel.py

Each suggestion knows what is being evaluated and keeps away from it.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import modeseek as ms

space = ms.Space.box([-5, -5], [5, 5])


def styblinski_tang(x):
    time.sleep(0.2)  # an evaluation that takes a while
    return float((x**4 - 16 * x**2 + 5 * x).sum() / 2)


def with_workers(trials):
    return ms.minimize(styblinski_tang, space, budget=trials, seed=0, n_workers=2).best


def four_at_once(trials):
    opt = ms.Optimizer(space, seed=0)
    with ThreadPoolExecutor(4) as machines:  # or a cluster, or four people in a lab
        while len(opt.trials) < trials:
            asked = opt.ask(4)
            values = machines.map(styblinski_tang, [trial.params for trial in asked])
            for trial, value in zip(asked, values, strict=True):
                opt.tell(trial, value)
    return opt.best


if __name__ == "__main__":  # worker processes import this file
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()

    print(f"two processes: best value {with_workers(args.trials).value:.4f}")
    print(f"four at a time: best value {four_at_once(args.trials).value:.4f}, the minimum is -78.3323")
