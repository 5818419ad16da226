"""CPU seconds of `ask(q)` beside those of `ask()`, medians of REPEATS, and how close its two closest proposals are.

python -m benchmarks.many_at_once --d 10 --n 500 --q 50,100
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from modeseek import Optimizer, Space

REPEATS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=10)
    parser.add_argument("--n", type=int, default=100, help="trials told before")
    parser.add_argument("--q", default="8,50,100")
    options = parser.parse_args()
    d = options.d
    opt = Optimizer(Space.box([-5] * d, [5] * d), seed=0)
    for x in np.random.default_rng(0).uniform(-5, 5, (options.n, d)):
        opt.tell_params(x, float((x**4 - 16 * x**2 + 5 * x).sum() / 2))  # Styblinski-Tang

    def seconds(q: int | None) -> tuple[float, float]:
        """Of one call; and how far apart its closest two proposals are."""
        start = time.process_time()
        opt.ask(q)
        taken = time.process_time() - start
        points = np.array([trial.unit for trial in opt.pending])
        distance = np.abs(points[:, None] - points[None]).max(-1) + 2 * np.eye(len(points))
        for trial in opt.pending:
            opt.tell(trial, failed=True)
        return taken, float(distance.min())

    first, _ = seconds(None)
    one = float(np.median([seconds(None)[0] for _ in range(REPEATS)]))
    print(f"d = {d}, n = {options.n}: the first ask() takes {first:.2f} CPU s, the next {one:.3f}")
    for q in map(int, options.q.split(",")):
        taken, distances = zip(*(seconds(q) for _ in range(REPEATS)), strict=True)
        many = float(np.median(taken))
        print(f"ask({q}): {many:.3f} CPU s, {many / one:.1f} times one; closest two {min(distances):.3f} apart")


if __name__ == "__main__":
    main()
