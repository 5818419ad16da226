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

from modeseek.bench.report.tables import Table
from modeseek.bench.tasks import find_task
from modeseek.checks import missing_extra
from modeseek.design import sobol
from modeseek.dms import suggest
from modeseek.errors import ConfigError
from modeseek.pseudo import pseudo_dataset
from modeseek.typing import Array

NU = 0.05  # of the noise ξ that makes ŷ = f̂(x) + ξ a random label
ROUNDING = 1e-9
REFERENCE_SIZE = 4096  # pseudo-inputs that stand for P_a
NOTE = (
    "`modeseek bench theory`: the terms of Lemma 1, mean ± standard error over seeds, in standard deviations of the "
    "outcomes. a is the best pseudo-label; E1 is what the surrogate gets wrong under P_a, E2 what the diffusion model "
    "does. The lemma's proof takes the mean of f̂ under P_a for a, but at the best label it lies under a, by the gap: "
    "the inequality as printed fails by at most that, and SubOpt ≤ E1 + E2 + gap always holds."
)


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

    x, f_hat = pseudo_dataset(
        out.gp, m=REFERENCE_SIZE, K=config.K, rho=out.rho, refine=config.refine, source=generator
    )
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
    task: str = "styblinski-tang-2",
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


def table(results: dict[str, list[Suboptimality]]) -> str:
    """Markdown: mean ± standard error over seeds of every term, and how often the inequality held."""
    cells = []
    for varied, rows in results.items():
        for r in rows:
            terms = [_mean_and_error(term) for term in (r.subopt, r.e1, r.e2, r.gap)]
            held, with_gap = (_count(r.subopt <= r.e1 + r.e2 + more + ROUNDING) for more in (0.0, r.gap))
            cells.append([varied, str(r.n), str(r.m), f"{r.t0:g}", *terms, held, with_gap])
    header = ["varied", "n", "m", "t0", "SubOpt", "E1", "E2", "gap", "SubOpt ≤ E1 + E2", "with the gap"]
    return f"{NOTE}\n\n{Table(header, cells).markdown()}"


def _count(held: np.ndarray) -> str:
    return f"{int(held.sum())} of {len(held)}"


def _mean_and_error(sample: Array) -> str:
    return f"{sample.mean():.3f} ± {sample.std(ddof=1) / np.sqrt(len(sample)):.3f}"


def draw(results: dict[str, list[Suboptimality]], path: Path) -> None:
    """The terms over n, m and t0, a panel each."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("figures need matplotlib", "plots") from error
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    for axes, (varied, rows) in zip(figure.subplots(1, len(results)), results.items(), strict=True):
        x = [getattr(r, varied) for r in rows]
        for label, terms in (
            ("SubOpt", [r.subopt for r in rows]),
            ("E1", [r.e1 for r in rows]),
            ("E2", [r.e2 for r in rows]),
            ("E1 + E2", [r.e1 + r.e2 for r in rows]),
        ):
            mean = np.array([term.mean() for term in terms])
            spread = np.array([term.std(ddof=1) / np.sqrt(len(term)) for term in terms])
            axes.errorbar(x, mean, spread, marker="o", markersize=3, label=label)
        axes.set(xscale="log", xlabel=varied, ylabel="standard deviations of the outcomes")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
