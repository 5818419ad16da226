"""The distribution of x* that the GP induces against the one that the diffusion model has learned (the paper's App. C).

A replication of a preset is run to some iterations. There, x* is drawn from the GP (maxima of posterior paths, as for
PES), from the diffusion model (the candidates given ŷ*), and from one that is trained on pairs (x*, y*) of other paths.
How far apart two sample sets are is their energy distance

    D² = 2 E|X − Y| − E|X − X'| − E|Y − Y'|

which is zero for equal distributions alone. Beside it stand that of two sets from the GP, the floor that the number of
samples sets, and that of the GP's set and uniform points. In an iteration without a model the candidates are one point,
the best pseudo-input, which says nothing about a model: it is marked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist

from modeseek.bench.campaign.replication import METHOD, Work, initial_design, observe, seed_of, stream
from modeseek.bench.measure.measurements import add, as_written, machine, read
from modeseek.bench.methods.botorch_methods import posterior_optima
from modeseek.bench.methods.variants import PRESET, PRINTED
from modeseek.bench.tasks import find_task
from modeseek.config import DMSConfig
from modeseek.diffusion.optima import OptimaModel
from modeseek.dms import State, Suggestion, suggest
from modeseek.errors import ConfigError
from modeseek.paths import optima
from modeseek.surrogate import GP
from modeseek.typing import Array

TASK = "styblinski-tang-2"
ITERATIONS = (10, 30)
METHODS = (PRINTED, PRESET)
REPLICATIONS = 5
SETS = ("observed", "gp", "gp_again", "diffusion")
LEARNED = "learned"  # in younger files only
VALUES = ("method", "replication", "iteration", "fell_back", "seconds")  # beside the sets; all but one in younger ones
PAIRS = 1024  # of paths, that the second model is trained on
DIGITS = 4  # of a stored coordinate on the unit cube


@dataclass(frozen=True)
class OptimumSamples:
    """Samples of x* on the unit cube, before an iteration's evaluation."""

    iteration: int  # from 1, after the initial design
    observed: Array  # n x d
    gp: Array  # S x d
    gp_again: Array  # S x d, independent of the first
    diffusion: Array  # S x d
    learned: Array | None = None  # S x d, of a model of (x*, y*); None where that was not drawn
    method: str = PRESET
    replication: int = 0
    fell_back: bool = False  # the candidates are no model's
    seconds: float = 0.0  # that the replication took, to the last iteration that was looked at

    @property
    def uniform(self) -> Array:
        """As many points that know nothing, S x d."""
        return np.random.default_rng(0).random(self.gp.shape)


def take_samples(
    iterations: Sequence[int] = ITERATIONS,
    *,
    method: str = PRESET,
    replication: int = 0,
    config: DMSConfig | None = None,
) -> list[OptimumSamples]:
    """Run a replication on Styblinski-Tang-2 as a campaign would and look at it; `config` None is the method's."""
    problem, began = find_task(TASK), time.perf_counter()
    config = Work(TASK, method, replication).config if config is None else config
    if config is None:
        raise ConfigError(f"samples of x* are drawn from DMS, which {method!r} is not")
    X = initial_design(problem, replication)
    Y = [observe(problem, u, replication, number)[0] for number, u in enumerate(X)]
    state: State | None = None
    taken = []
    for iteration in range(1, max(iterations) + 1):
        seed = seed_of(stream(TASK, replication, METHOD, len(Y)))
        data, outcomes = (torch.tensor(np.asarray(a))[None] for a in (X, Y))
        out = suggest(data, outcomes, config, torch.Generator().manual_seed(seed), state)
        if iteration in iterations:
            taken.append(_look(out, iteration, X, seed, method, replication))
        state = out.state
        X = np.vstack([X, problem.space.snap(out.x_next.cpu().numpy())])
        Y.append(observe(problem, X[-1], replication, len(Y))[0])
    return [replace(samples, seconds=round(time.perf_counter() - began, 1)) for samples in taken]


def _look(out: Suggestion, iteration: int, X: Array, seed: int, method: str, replication: int) -> OptimumSamples:
    """The sets of samples in an iteration of one replication."""
    assert isinstance(out.gp, GP)
    S = out.candidates.shape[-2]
    gp, gp_again = (posterior_optima(out.gp, S, seed=s).cpu().numpy() for s in (0, 1))
    return OptimumSamples(
        iteration,
        X,
        gp,
        gp_again,
        out.candidates[0].cpu().numpy(),
        _learned(out.gp, S, seed),
        method,
        replication,
        bool(out.fell_back[0]),
    )


def _learned(gp: GP, count: int, seed: int) -> Array:
    """So many samples (count x d) of a diffusion model of (x*, y*), trained on path optima of a GP, a batch of one."""
    source = torch.Generator().manual_seed(seed)
    found = optima(gp, PAIRS, source)
    return np.asarray(OptimaModel.learn(found.x, found.value, source).sample(count, source)[0].cpu().numpy())


def energy_distance(x: Array, y: Array) -> float:
    """D between the samples x (n x d) and y (m x d)."""
    squared = 2 * cdist(x, y).mean() - cdist(x, x).mean() - cdist(y, y).mean()
    return float(np.sqrt(max(squared, 0.0)))


def spread(x: Array) -> float:
    """Root mean squared distance of the samples x (n x d) from their mean."""
    return float(np.sqrt(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()))


def save(path: Path, samples: OptimumSamples) -> None:
    """Write the samples, and where they were drawn, in the place of those of the same replication and iteration."""
    sets = {name: rows for name in (*SETS, LEARNED) if (rows := getattr(samples, name)) is not None}
    row = {"task": TASK} | {name: getattr(samples, name) for name in VALUES} | machine(torch.device("cpu"))
    row |= {name: rows.round(DIGITS).tolist() for name, rows in sets.items()}
    add(path, row, ("task", "method", "replication", "iteration"))


def load(path: Path) -> list[OptimumSamples]:
    """The samples of a file by method, replication and iteration; none where there is no file."""
    with as_written(path):
        found: dict[tuple[str, int, int], OptimumSamples] = {}
        for row in read(path):
            values: dict[str, Any] = {name: row[name] for name in VALUES if name in row}
            values |= {name: np.array(row[name], dtype=float) for name in (*SETS, LEARNED) if name in row}
            samples = OptimumSamples(**values)
            found[samples.method, samples.replication, samples.iteration] = samples  # in the place of an earlier row
        of_presets = {method: number for number, method in enumerate(METHODS)}
        return [found[key] for key in sorted(found, key=lambda key: (of_presets.get(key[0], len(METHODS)), *key))]
