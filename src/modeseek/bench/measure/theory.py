"""The sub-optimality of the learned distribution (Definition 1, Lemma 1), measured where f is known.

    SubOpt(a) = a − E_{x~P̂_a} f(x)  ≤  E1 + E2
    E1 = E_{x~P_a} |f(x) − f̂(x)|              what the surrogate gets wrong: falls with n
    E2 = |E_{x~P_a} f(x) − E_{x~P̂_a} f(x)|    what the diffusion model gets wrong: falls with m

a is the best pseudo-label ŷ*, P̂_a the distribution that the diffusion model has learned given ŷ = a (without guidance),
and P_a the one that it learns from: pseudo-inputs weighted by exp(−(f̂(x) − a)²/2ν²). The proof of the lemma puts the
mean of f̂ under P_a in place of a. At the best label that mean lies a little under a, by `gap`: so the inequality as
printed can fail, by no more than the gap, and does where f̂ is optimistic throughout.

Beside them stand the quantities by which the proof bounds E2:
- W1, the sliced Wasserstein distance of P_a and P̂_a on the unit cube: the mean over random directions of the distance
  of the projections,
- the diffusion error (score.py): ε²(a), of the score that P̂_a is drawn by, and ε², its mean over labels ŷ = f̂(x) + ξ,
- the share of the noise in noisy inputs that the score gets wrong, over the same labels: 1 for a score of zero.

SubOpt, E1, E2 and the gap are in standard deviations of the observed outcomes. Seeds are a batch.
Terms of P̂_a are NaN for a seed whose model has given no finite samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import wasserstein_distance
from torch import Tensor

from modeseek.bench.measure.measurements import Measurement, as_written, machine, read, write
from modeseek.bench.measure.score import diffusion_error
from modeseek.bench.methods import OF_THE_PAPER, PRESETS
from modeseek.bench.tasks import find_task
from modeseek.bench.tasks.problem import Problem
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.diffusion.sampling import guided_score
from modeseek.diffusion.sde import VPSDE
from modeseek.dms import MIN_LABEL_STD, Suggestion, suggest
from modeseek.draws import Draws
from modeseek.errors import ConfigError
from modeseek.pseudo import pseudo_dataset
from modeseek.typing import Array

TASK = "styblinski-tang-2"
TASKS = (TASK, "levy-10")
METHOD = "dms-paper"  # of rows that name none
METHODS = OF_THE_PAPER
BASE: dict[str, Any] = {"n": 40, "m": 500, "t0": 1e-3, "w": 0.0}
SWEEPS: dict[str, tuple[float, ...]] = {  # of one setting, with the others as in BASE
    "n": (10, 20, 40, 80, 160),
    "m": (50, 100, 200, 400, 800, 1600),
    "t0": (1e-4, 1e-3, 1e-2, 1e-1),
    "w": (0.0, 0.5, 1.0, 2.0),
}
DIRECTIONS = 32  # of the sliced Wasserstein distance
NU = 0.05  # of the noise ξ that makes ŷ = f̂(x) + ξ a random label
REFERENCE_SIZE = 4096  # pseudo-inputs that stand for P_a
SAMPLES, LABELS = 128, 8  # noisy inputs at each time for ε²(a), and for ε²; labels that the latter are shared among


TERMS = ("subopt", "e1", "e2", "gap", "w1", "diff", "diff_a", "wrong")
YOUNGER = ("w1", "diff", "diff_a", "wrong")  # terms that older rows lack
DIGITS = 6  # of a stored term


@dataclass(frozen=True)
class Suboptimality:
    """The terms of Lemma 1 for each seed; a term is empty where it was not measured."""

    n: int
    m: int
    t0: float
    subopt: Array
    e1: Array
    e2: Array
    gap: Array
    w1: Array
    diff: Array  # ε²
    diff_a: Array  # ε²(a)
    wrong: Array  # the share of the noise
    w: float = 0.0
    method: str = METHOD

    @property
    def settings(self) -> dict[str, Any]:
        """What a sweep changes."""
        return {name: getattr(self, name) for name in BASE}

    @property
    def diverged(self) -> int:
        """Seeds whose model has given no finite samples."""
        return int(np.isnan(self.e2).sum())


def config_of(problem: Problem, method: str) -> DMSConfig:
    """The settings of a preset of the paper for a task."""
    if method not in METHODS:
        raise ConfigError(f"the theory is measured of {' and '.join(METHODS)}, not of {method!r}")
    return problem.config(PRESETS[method])


def measure(
    task: str,
    *,
    n: int,
    m: int,
    t0: float = 1e-3,
    w: float = 0.0,
    method: str = METHOD,
    seeds: int = 10,
    S: int = 1000,
    device: str = "cpu",
) -> Suboptimality:
    """Run one iteration from n Sobol observations with m pseudo-inputs, and estimate every term by Monte Carlo.

    A model is trained whatever the pseudo-inputs: where they end in one point, as on Levy-10 after 25 steps,
    `dms-paper` would do without, and there would be no distribution learned.
    """
    problem = find_task(task)
    f = problem.values
    if f is None:
        raise ConfigError(f"the theory is measured on a function that is known everywhere, which {task!r} is not")
    config = replace(config_of(problem, method), m=m, t0=t0, S=S, w=w, skip_collapsed=False)
    generator = torch.Generator().manual_seed(0)
    X = sobol(n, problem.d, generator, (seeds,)).to(device)
    Y = f(X) + problem.noise * torch.randn(seeds, n, dtype=X.dtype, generator=generator).to(device)
    out = suggest(X, Y, config, generator)
    a = out.pseudo_y.amax(-1)

    def truth(x: Tensor) -> Tensor:
        return (f(x) - Y.mean(-1, keepdim=True)) / Y.std(-1, keepdim=True)

    x, f_hat = pseudo_dataset(out.gp, m=REFERENCE_SIZE, K=config.K, rho=out.rho, refine=config.refine, source=generator)
    weights = torch.softmax(_log_weights(f_hat, a[:, None])[:, 0], -1)
    under_P = (weights * truth(x)).sum(-1)
    under_P_hat = truth(out.candidates).mean(-1)
    distances = [sliced_w1(*of) for of in zip(*(t.cpu().numpy() for t in (x, weights, out.candidates)), strict=True)]
    diff, diff_a, wrong = _diffusion_errors(out, config, x, f_hat, Draws.of(generator, (seeds,)))
    learned = torch.where(out.fell_back, torch.nan, 1.0)
    return Suboptimality(
        n=n,
        m=m,
        t0=t0,
        subopt=((a - under_P_hat) * learned).cpu().numpy(),
        e1=(weights * (truth(x) - f_hat).abs()).sum(-1).cpu().numpy(),
        e2=((under_P - under_P_hat).abs() * learned).cpu().numpy(),
        gap=(a - (weights * f_hat).sum(-1)).cpu().numpy(),
        w1=np.array(distances) * learned.cpu().numpy(),
        diff=(diff * learned).cpu().numpy(),
        diff_a=(diff_a * learned).cpu().numpy(),
        wrong=(wrong * learned).cpu().numpy(),
        w=w,
        method=method,
    )


def _log_weights(f_hat: Tensor, labels: Tensor) -> Tensor:
    """How likely each label (b x L) is at each pseudo-input (f̂: b x N), up to a constant: b x L x N."""
    return -((f_hat[:, None] - labels[..., None]) ** 2) / (2 * NU**2)


def _diffusion_errors(
    out: Suggestion, config: DMSConfig, x: Tensor, f_hat: Tensor, draws: Draws
) -> tuple[Tensor, Tensor, Tensor]:
    """ε² over random labels, ε²(a), and the share of the noise that is wrong, of the guided score: b each."""
    sde = VPSDE(config.beta_min, config.beta_max)
    points = 2 * x - 1 if config.network_inputs == "centred" else x
    mean, best = out.pseudo_y.mean(-1, keepdim=True), out.pseudo_y.amax(-1, keepdim=True)
    scale = (out.pseudo_y - mean).square().mean(-1, keepdim=True).sqrt().clamp_min(MIN_LABEL_STD)
    at = draws.randint(f_hat.shape[-1], LABELS).to(f_hat.device)
    labels = f_hat.gather(-1, at) + NU * draws.randn(LABELS, dtype=f_hat.dtype).to(f_hat)

    def of(y: Tensor, samples: int) -> list[Tensor]:
        z, theta = ((y - mean) / scale).float(), out.network.unsqueeze(-2)
        score = guided_score(theta, z, w=config.w, sde=sde, hidden=config.hidden, prediction=config.predict)
        weights = _log_weights(f_hat, y)
        errors = diffusion_error(score, points, weights, sde=sde, t0=config.t0, samples=samples, draws=draws)
        return [error.mean(-1) for error in errors]

    diff, wrong = of(labels, SAMPLES // LABELS)
    return diff, of(best, SAMPLES)[0], wrong


def sliced_w1(x: Array, weights: Array, y: Array) -> float:
    """The mean distance over random directions of weighted points (n x d) and others (k x d) on the line."""
    directions = np.random.default_rng(0).standard_normal((DIRECTIONS, x.shape[-1]))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    return float(np.mean([wasserstein_distance(x @ u, y @ u, weights) for u in directions]))


def planned() -> list[dict[str, Any]]:
    """The settings of all sweeps, each once: BASE is in all of them."""
    swept = [BASE | {varied: value} for varied, values in SWEEPS.items() for value in values]
    return [settings for i, settings in enumerate(swept) if settings not in swept[:i]]


def study(
    path: Path, task: str = TASK, method: str = METHOD, *, seeds: int = 10, device: str = "cpu"
) -> Iterator[Suboptimality]:
    """Measure and store what is missing of a preset on a task, one setting after the other.

    A setting is missing, too, where there are fewer seeds, or where a row of an earlier version lacks a term.
    """
    there = [r.settings for r in load(path, task, method) if all(len(getattr(r, term)) >= seeds for term in TERMS)]
    for settings in planned():
        if settings not in there:
            result = measure(task, **settings, method=method, seeds=seeds, device=device)
            save(path, result, task, device)
            yield result


def save(path: Path, result: Suboptimality, task: str = TASK, device: str = "cpu") -> None:
    """Write every term of every seed, and where they were measured, in the place of what there was of the same."""
    row: Measurement = {"task": task, "method": result.method, **result.settings}
    row |= {term: [_as_stored(value) for value in getattr(result, term)] for term in TERMS}
    kept = [other for other in read(path) if _key(other) != _key(row)]
    write(path, [*kept, row | machine(torch.device(device))])


def _as_stored(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.{DIGITS}g}")


def _key(row: Measurement) -> tuple[Any, ...]:
    """What was measured; earlier rows have a setting as often as there are sweeps that it is in."""
    return (row.get("task", TASK), row.get("method", METHOD), row["n"], row["m"], row["t0"], row.get("w", 0.0))


def load(path: Path, task: str = TASK, method: str = METHOD) -> list[Suboptimality]:
    """What there is of a preset on a task, each measurement once; nothing where there is no file."""
    with as_written(path):
        rows = {_key(row): row for row in read(path)}
        return [
            Suboptimality(n=n, m=m, t0=t0, w=w, method=method, **_terms(row))
            for (*of, n, m, t0, w), row in rows.items()
            if of == [task, method]
        ]


def _terms(row: Measurement) -> dict[str, Any]:
    return {term: np.array(row.get(term, []) if term in YOUNGER else row[term], float) for term in TERMS}


def sweep(found: list[Suboptimality], varied: str) -> list[Suboptimality]:
    """Those that differ from BASE in one setting, if at all, by its values."""
    others = {name: value for name, value in BASE.items() if name != varied}
    return sorted((r for r in found if others.items() <= r.settings.items()), key=lambda r: r.settings[varied])
