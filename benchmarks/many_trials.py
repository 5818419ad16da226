"""Seconds and peak memory of the first and the next ask after many told trials, on one thread.

    python -m benchmarks.many_trials [--trials 750 1500 3000] [--d 6]

Each size runs in a process of its own, so that its peak memory is its own. The floor beside it is one Cholesky
factorization of the same size in the same process, just after: seconds depend on the machine and on who else uses it,
ratios less so.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

D = 6
TRIALS = (375, 750, 1500, 3000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, nargs="+", default=TRIALS)
    parser.add_argument("--d", type=int, default=D)
    parser.add_argument("--alone", action="store_true", help="one size in this process, as a line of the table")
    options = parser.parse_args()
    if options.alone:
        print(measure(options.trials[0], options.d), flush=True)
        return
    print(
        "| trials | Cholesky, s | first ask, s | next ask, s | first / Cholesky | next / Cholesky | peak memory, MB |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for n in options.trials:
        command = [sys.executable, "-m", "benchmarks.many_trials", "--alone", "--trials", str(n), "--d", str(options.d)]
        subprocess.run(command, check=True)


def measure(n: int, d: int) -> str:
    """A line of the table."""
    import torch

    import modeseek as ms

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    opt = ms.Optimizer(ms.Space.box([-2.0] * d, [2.0] * d), seed=0)
    for x in rng.uniform(-2, 2, (n, d)):
        opt.tell_params(x, _objective(x) + 0.1 * rng.standard_normal())
    first = _seconds(opt.ask)
    trial = opt.pending[0]
    opt.tell(trial, _objective(np.asarray(trial.params)))
    following = _seconds(opt.ask)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kB on Linux
    matrix = torch.from_numpy(rng.standard_normal((n, n)))
    matrix = (matrix @ matrix.mT).add_(torch.eye(n, dtype=torch.float64), alpha=n)
    floor = min(_seconds(lambda: torch.linalg.cholesky(matrix)) for _ in range(3))
    cells = [str(n), f"{floor:.3f}", f"{first:.2f}", f"{following:.2f}"]
    return "| " + " | ".join([*cells, f"{first / floor:.0f}", f"{following / floor:.0f}", f"{memory:.0f}"]) + " |"


def _objective(x: np.ndarray) -> float:
    """Rosenbrock's function: curved, so that the fit has something to find in every parameter."""
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
