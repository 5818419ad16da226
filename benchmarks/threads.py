"""Seconds of a suggestion with one and with several threads, on cores that are idle or kept busy by an objective.

python -m benchmarks.threads          # Levy-10-like data, n = 100, DMSConfig(); a row stops after --limit seconds
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from multiprocessing.connection import Connection

import torch

from modeseek.config import DMSConfig
from modeseek.dms import suggest


def burn() -> None:
    while True:
        sum(range(10_000))


def suggestion(threads: int, answer: Connection) -> None:
    torch.set_num_threads(threads)
    X = torch.rand(1, 100, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    Y = -(X - 0.5).square().sum(-1)
    for _ in range(2):  # the first one warms up
        began = time.perf_counter()
        suggest(X, Y, DMSConfig(), torch.Generator().manual_seed(0))
        answer.send(time.perf_counter() - began)


def measure(threads: int, busy: int, limit: float) -> str:
    context = multiprocessing.get_context("spawn")
    burners = [context.Process(target=burn, daemon=True) for _ in range(busy)]
    here, there = context.Pipe()
    worker = context.Process(target=suggestion, args=(threads, there), daemon=True)
    for process in (*burners, worker):
        process.start()
    worker.join(limit)
    answers = []
    while here.poll():
        answers.append(here.recv())
    for process in (*burners, worker):
        process.kill()
    return f"{answers[1]:.2f}" if len(answers) == 2 else f"> {limit:.0f} for two"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=90)
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    print(f"| busy cores of {cores} | 1 thread, s | {cores} threads, s |\n|---|---|---|")
    for busy in sorted({0, cores // 2, cores}):
        print(f"| {busy} | {measure(1, busy, args.limit)} | {measure(cores, busy, args.limit)} |", flush=True)


if __name__ == "__main__":
    main()
