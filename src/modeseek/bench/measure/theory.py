"""The sub-optimality of the learned distribution (Definition 1, Lemma 1), measured where f is known.

    SubOpt(a) = a − E_{x~P̂_a} f(x)  ≤  E1 + E2
    E1 = E_{x~P_a} |f(x) − f̂(x)|              what the surrogate gets wrong: falls with n
    E2 = |E_{x~P_a} f(x) − E_{x~P̂_a} f(x)|    what the diffusion model gets wrong: falls with m

a is the best pseudo-label ŷ*, P̂_a the distribution that the diffusion model has learned given ŷ = a (without guidance),
and P_a the one that it learns from: pseudo-inputs weighted by exp(−(f̂(x) − a)²/2ν²). The proof of the lemma puts the
mean of f̂ under P_a in place of a. At the best label that mean lies a little under a, by `gap`: so the inequality as
printed can fail, by no more than the gap, and does where f̂ is optimistic throughout.

Beside them stands W1, the sliced Wasserstein distance of P_a and P̂_a on the unit cube, by which the proof bounds E2:
the mean over random directions of the distance of the projections.

All quantities but W1 are in standard deviations of the observed outcomes. Seeds are a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import wasserstein_distance
from torch import Tensor

from modeseek.bench.measure.measurements import as_written, machine, read, write
from modeseek.bench.tasks import find_task
from modeseek.design import sobol
from modeseek.dms import suggest
from modeseek.errors import ConfigError
from modeseek.pseudo import pseudo_dataset
from modeseek.typing import Array

TASK = "styblinski-tang-2"
TASKS = (TASK, "levy-10")
DIRECTIONS = 32  # of the sliced Wasserstein distance
NU = 0.05  # of the noise ξ that makes ŷ = f̂(x) + ξ a random label
REFERENCE_SIZE = 4096  # pseudo-inputs that stand for P_a


TERMS = ("subopt", "e1", "e2", "gap", "w1")
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
    w1: Array  # empty: not measured
    w: float = 0.0


def measure(
    task: str,
    *,
    n: int,
    m: int,
    t0: float = 1e-3,
    w: float = 0.0,
    seeds: int = 10,
    S: int = 1000,
    device: str = "cpu",
) -> Suboptimality:
    """Run one iteration from n Sobol observations with m pseudo-inputs, and estimate every term by Monte Carlo.

    A model is trained whatever the pseudo-inputs: where they end in one point, as on Levy-10 after 25 steps, the preset
    would do without, and there would be no distribution learned.
    """
    problem = find_task(task)
    f = problem.values
    if f is None:
        raise ConfigError(f"the theory is measured on a function that is known everywhere, which {task!r} is not")
    generator = torch.Generator().manual_seed(0)
    X = sobol(n, problem.d, generator, (seeds,)).to(device)
    Y = f(X) + problem.noise * torch.randn(seeds, n, dtype=X.dtype, generator=generator).to(device)
    config = replace(problem.config(), m=m, t0=t0, S=S, w=w, skip_collapsed=False)
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
        subopt=(a - under_P_hat).cpu().numpy(),
        e1=(weights * (truth(x) - f_hat).abs()).sum(-1).cpu().numpy(),
        e2=(under_P - under_P_hat).abs().cpu().numpy(),
        gap=(a - (weights * f_hat).sum(-1)).cpu().numpy(),
        w1=np.array(
            [sliced_w1(*of) for of in zip(*(t.cpu().numpy() for t in (x, weights, out.candidates)), strict=True)]
        ),
        w=w,
    )


def sliced_w1(x: Array, weights: Array, y: Array) -> float:
    """The mean distance over random directions of weighted points (n x d) and others (k x d) on the line."""
    directions = np.random.default_rng(0).standard_normal((DIRECTIONS, x.shape[-1]))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    return float(np.mean([wasserstein_distance(x @ u, y @ u, weights) for u in directions]))


def study(
    task: str = TASK,
    *,
    ns: Sequence[int] = (10, 20, 40, 80, 160),
    ms: Sequence[int] = (50, 100, 200, 400, 800, 1600),
    t0s: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1),
    ws: Sequence[float] = (0.0, 0.5, 1.0, 2.0),
    seeds: int = 10,
    device: str = "cpu",
) -> dict[str, list[Suboptimality]]:
    """How the terms change with n, m, t0 and the guidance w, the others at n = 40, m = 500, t0 = 1e-3 and w = 0."""
    usual = partial(measure, task, seeds=seeds, device=device)
    return {
        "n": [usual(n=n, m=500) for n in ns],
        "m": [usual(n=40, m=m) for m in ms],
        "t0": [usual(n=40, m=500, t0=t0) for t0 in t0s],
        "w": [usual(n=40, m=500, w=w) for w in ws],
    }


def save(path: Path, results: dict[str, list[Suboptimality]], task: str = TASK, device: str = "cpu") -> None:
    """Write every term of every seed, and where they were measured, in the place of what there was of this task."""
    place = machine(torch.device(device))
    rows = [(varied, r) for varied, found in results.items() for r in found]
    write(
        path,
        [
            *(row for row in read(path) if row.get("task", TASK) != task),
            *(
                {"task": task, "varied": varied, "n": r.n, "m": r.m, "t0": r.t0, "w": r.w}
                | {term: [float(f"{value:.{DIGITS}g}") for value in getattr(r, term)] for term in TERMS}
                | place
                for varied, r in rows
            ),
        ],
    )


def load(path: Path, task: str = TASK) -> dict[str, list[Suboptimality]]:
    """The terms of a task in a file, by what was varied; none where there is no file."""
    results: dict[str, list[Suboptimality]] = {}
    with as_written(path):
        for row in read(path):
            terms = {term: np.array(row.get(term, []) if term == "w1" else row[term], dtype=float) for term in TERMS}
            if row.get("task", TASK) == task:
                found = Suboptimality(n=row["n"], m=row["m"], t0=row["t0"], w=row.get("w", 0.0), **terms)
                results.setdefault(row["varied"], []).append(found)
    return results
