"""CPU seconds of `ask(q)` beside those of `ask()`, and how close its two closest proposals are.

python -m benchmarks.many_at_once --d 10 --n 500 --q 50,100
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from modeseek import Optimizer, Space


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

    def seconds(q: int | None) -> float:
        start = time.process_time()
        opt.ask(q)
        return time.process_time() - start

    def give_back() -> None:
        for trial in opt.pending:
            opt.tell(trial, failed=True)

    first = seconds(None)
    give_back()
    one = seconds(None)
    give_back()
    print(f"d = {d}, n = {options.n}: the first ask() takes {first:.2f} CPU s, the next {one:.2f}")
    for q in map(int, options.q.split(",")):
        many = seconds(q)
        points = np.array([trial.unit for trial in opt.pending])
        distance = np.abs(points[:, None] - points[None]).max(-1)[~np.eye(q, dtype=bool)].min()
        give_back()
        print(f"ask({q}): {many:.2f} CPU s, {many / one:.1f} times one; closest two {distance:.3f} apart")


if __name__ == "__main__":
    main()
