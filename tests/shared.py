"""What many tests need: settings that are cheap, a box and a function on it, seeded generators, waiting.

Worker processes import this, too: it loads no torch, which takes two seconds in each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from modeseek import DMSConfig, Space
from modeseek.typing import Params

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from modeseek import Optimizer

# Every step of the method runs in each of them. SMALLEST and CHEAP say nothing of how good a suggestion is; TRAINED has
# a network that has learned something.
SMALLEST = DMSConfig(m=32, K=1, S=16, epochs=1, steps=2, hidden=16, one_hill=0)
CHEAP = DMSConfig(m=64, K=2, S=32, epochs=2, steps=4, hidden=32, one_hill=0)
TRAINED = DMSConfig(m=96, K=3, S=48, epochs=10, steps=10, hidden=32, one_hill=0)

BOX = Space.box([-5, -5], [5, 5])


def sphere(x: np.ndarray) -> float:
    return float(np.square(x).sum())


def generator(seed: int = 0) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(seed)


def hill(n: int, d: int, b: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """b x n observations of one smooth hill with its top at 0.7 in every coordinate, inputs b x n x d."""
    import torch

    X = torch.rand(b, n, d, dtype=torch.float64, generator=generator(seed))
    return X, -(X - 0.7).square().sum(-1)


def run(opt: Optimizer, n: int, f: Callable[[Params], float] = sphere) -> Optimizer:
    """The optimizer after n more trials."""
    for _ in range(n):
        trial = opt.ask()
        opt.tell(trial, f(trial.params))
    return opt


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait for a condition; a test fails when it does not come true in time."""
    end, pause = time.monotonic() + seconds, 0.01
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(pause)
        pause = min(1.3 * pause, 0.1)  # to look may cost as much as what is waited for


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def meet(folder: Path, x: np.ndarray) -> int:
    """An objective: the process's number, once two processes are at it."""
    (folder / str(os.getpid())).touch()
    until(lambda: len(list(folder.iterdir())) >= 2)
    return os.getpid()
