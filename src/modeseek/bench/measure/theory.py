"""The sub-optimality of the learned distribution (Definition 1, Lemma 1), measured where f is known.

    SubOpt(a) = a − E_{x~P̂_a} f(x)  ≤  E1 + E2
    E1 = E_{x~P_a} |f(x) − f̂(x)|              what the surrogate gets wrong: falls with n
    E2 = |E_{x~P_a} f(x) − E_{x~P̂_a} f(x)|    what the diffusion model gets wrong: falls with m

a is the best pseudo-label ŷ*, P̂_a the distribution that the diffusion model has learned given ŷ = a (without guidance),
and P_a the one that it learns from: pseudo-inputs weighted by exp(−(f̂(x) − a)²/2ν²). The proof of the lemma puts the
mean of f̂ under P_a in place of a. At the best label that mean lies a little under a, by `gap`: so the inequality as
printed can fail, by no more than the gap, and does where f̂ is optimistic throughout.

All quantities are in standard deviations of the observed outcomes. Seeds are a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from modeseek.bench.measure.measurements import as_written, machine, read, write
from modeseek.bench.tasks import find_task
from modeseek.design import sobol
from modeseek.dms import suggest
from modeseek.errors import ConfigError
from modeseek.pseudo import pseudo_dataset
from modeseek.typing import Array

TASK = "styblinski-tang-2"
NU = 0.05  # of the noise ξ that makes ŷ = f̂(x) + ξ a random label
REFERENCE_SIZE = 4096  # pseudo-inputs that stand for P_a


TERMS = ("subopt", "e1", "e2", "gap")
DIGITS = 6  # of a stored term


@dataclass(frozen=True)
class Suboptimality:
    """The terms of Lemma 1 for each seed."""

    n: int
    m: int
    t0: float
    subopt: Array
    e1: Array
    e2: Array
    gap: Array


def measure(task: str, *, n: int, m: int, t0: float = 1e-3, seeds: int = 10, S: int = 1000) -> Suboptimality:
    """Run one iteration from n Sobol observations with m pseudo-inputs, and estimate every term by Monte Carlo."""
    problem = find_task(task)
    f = problem.values
    if f is None:
        raise ConfigError(f"the theory is measured on a function that is known everywhere, which {task!r} is not")
    generator = torch.Generator().manual_seed(0)
    X = sobol(n, problem.d, generator, (seeds,))
    Y = f(X) + problem.noise * torch.randn(seeds, n, dtype=X.dtype, generator=generator)
    config = replace(problem.config(), m=m, t0=t0, S=S, w=0.0)
    out = suggest(X, Y, config, generator)
    a = out.pseudo_y.amax(-1)

    def truth(x: Tensor) -> Tensor:
        return (f(x) - Y.mean(-1, keepdim=True)) / Y.std(-1, keepdim=True)

    x, f_hat = pseudo_dataset(out.gp, m=REFERENCE_SIZE, K=config.K, rho=out.rho, refine=config.refine, source=generator)
    weights = torch.softmax(-((f_hat - a[:, None]) ** 2) / (2 * NU**2), -1)
    under_P = (weights * truth(x)).sum(-1)
    under_P_hat = truth(out.candidates).mean(-1)
    return Suboptimality(
        n=n,
        m=m,
        t0=t0,
        subopt=(a - under_P_hat).numpy(),
        e1=(weights * (truth(x) - f_hat).abs()).sum(-1).numpy(),
        e2=(under_P - under_P_hat).abs().numpy(),
        gap=(a - (weights * f_hat).sum(-1)).numpy(),
    )


def study(
    task: str = TASK,
    *,
    ns: Sequence[int] = (10, 20, 40, 80, 160),
    ms: Sequence[int] = (50, 100, 200, 400, 800, 1600),
    t0s: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1),
    seeds: int = 10,
) -> dict[str, list[Suboptimality]]:
    """How the terms change with n, with m and with t0, the others at n = 40, m = 500 and t0 = 1e-3."""
    return {
        "n": [measure(task, n=n, m=500, seeds=seeds) for n in ns],
        "m": [measure(task, n=40, m=m, seeds=seeds) for m in ms],
        "t0": [measure(task, n=40, m=500, t0=t0, seeds=seeds) for t0 in t0s],
    }


def save(path: Path, results: dict[str, list[Suboptimality]], task: str = TASK) -> None:
    """Write every term of every seed, and where they were measured."""
    place = machine(torch.device("cpu"))
    rows = [(varied, r) for varied, found in results.items() for r in found]
    write(
        path,
        [
            {"task": task, "varied": varied, "n": r.n, "m": r.m, "t0": r.t0}
            | {term: [float(f"{value:.{DIGITS}g}") for value in getattr(r, term)] for term in TERMS}
            | place
            for varied, r in rows
        ],
    )


def load(path: Path) -> dict[str, list[Suboptimality]]:
    """The terms of a file, by what was varied; none where there is no file."""
    results: dict[str, list[Suboptimality]] = {}
    with as_written(path):
        for row in read(path):
            terms = (np.array(row[term], dtype=float) for term in TERMS)
            results.setdefault(row["varied"], []).append(Suboptimality(row["n"], row["m"], row["t0"], *terms))
    return results
