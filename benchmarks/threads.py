"""Time of `Optimizer.ask` with one and with two threads, alone and beside busy processes, as ratios.

    make bench                            # or: python -m benchmarks.threads --trials 20 --repeats 3

Each row is a process of its own that has been told the same trials and asks several times; the median counts, and the
first one warms up. The ratios are to one thread with nothing else to do, measured in the same run: they say whether
threads that wait for each other are a loss on a machine that does something else as well, as it does when the objective
is evaluated on it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import modeseek as ms

D, SEED = 10, 0
SPAWN = multiprocessing.get_context("spawn")


def burn() -> None:
    while True:
        sum(range(10_000))


@contextmanager
def started(processes: list[Any]) -> Iterator[None]:
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def ask(threads: int, trials: int, repeats: int, answer: Connection) -> None:
    optimizer = ms.Optimizer(ms.Space.box([-5] * D, [5] * D), seed=SEED, n_initial=trials, threads=threads)
    for trial in optimizer.ask(trials):
        optimizer.tell(trial, float((trial.params**2).sum()))
    for _ in range(repeats + 1):
        began = time.perf_counter()
        trial = optimizer.ask()
        answer.send(time.perf_counter() - began)
        optimizer.tell(trial, float((trial.params**2).sum()))
    answer.close()


def measure(threads: int, busy: int, trials: int, repeats: int, limit: float) -> float:
    """Median seconds; infinite when not even one `ask` after the first has ended within the limit."""
    here, there = SPAWN.Pipe(duplex=False)
    worker = SPAWN.Process(target=ask, args=(threads, trials, repeats, there), daemon=True)
    burners = [SPAWN.Process(target=burn, daemon=True) for _ in range(busy)]
    seconds: list[float] = []
    with started([*burners, worker]):
        there.close()
        end = time.monotonic() + limit
        while len(seconds) <= repeats and here.poll(max(0, end - time.monotonic())):
            seconds.append(here.recv())
    return statistics.median(seconds[1:]) if len(seconds) > 1 else float("inf")


def main() -> None:
    """Measure and print."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="told before the first ask")
    parser.add_argument("--repeats", type=int, default=5, help="suggestions in a row of the table")
    parser.add_argument("--limit", type=float, default=120, help="seconds after which a measurement is given up")
    args = parser.parse_args()
    print(f"| busy processes on {cores} cores | 1 thread | 2 threads |\n|---|---|---|")
    alone = 0.0
    for busy in sorted({0, max(1, cores // 2), cores}):
        row = []
        for threads in (1, 2):
            seconds = measure(threads, busy, args.trials, args.repeats, args.limit)
            alone = alone or seconds
            row.append(f"{seconds / alone:.2f}" if seconds < float("inf") else f"> {args.limit / alone:.0f}")
        print(f"| {busy} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
