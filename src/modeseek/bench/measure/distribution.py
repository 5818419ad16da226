"""The distribution of x* that the GP induces against the one that the diffusion model has learned (the paper's App. C).

A replication of DMS is run to some iterations. There, x* is drawn from the GP (maxima of posterior paths, as for PES),
from the diffusion model (the candidates given ŷ*), and from one that is trained on pairs (x*, y*) of other paths. How
far apart two sample sets are is their energy distance

    D² = 2 E|X − Y| − E|X − X'| − E|Y − Y'|

which is zero for equal distributions alone. Beside it stand that of two sets from the GP, the floor that the number of
samples sets, and that of the GP's set and uniform points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.spatial.distance import cdist

from modeseek.bench.campaign.replication import METHOD, initial_design, observe, seed_of, stream
from modeseek.bench.measure.measurements import as_written, machine, read, write
from modeseek.bench.methods.botorch_methods import posterior_optima
from modeseek.bench.tasks import find_task
from modeseek.config import DMSConfig
from modeseek.diffusion.optima import OptimaModel
from modeseek.dms import State, suggest
from modeseek.paths import optima
from modeseek.surrogate import GP
from modeseek.typing import Array

TASK = "styblinski-tang-2"
ITERATIONS = (10, 30)
SETS = ("observed", "gp", "gp_again", "diffusion")
LEARNED = "learned"  # in younger files only
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

    @property
    def uniform(self) -> Array:
        """As many points that know nothing, S x d."""
        return np.random.default_rng(0).random(self.gp.shape)


def take_samples(
    iterations: Sequence[int] = ITERATIONS,
    *,
    replication: int = 0,
    config: DMSConfig | None = None,
) -> list[OptimumSamples]:
    """Run a replication of Styblinski-Tang-2 as a campaign would and look at it; `config` None is the paper's."""
    problem = find_task(TASK)
    config = problem.config() if config is None else config
    X = initial_design(problem, replication)
    Y = [observe(problem, u, replication, number)[0] for number, u in enumerate(X)]
    state: State | None = None
    taken = []
    for iteration in range(1, max(iterations) + 1):
        seed = seed_of(stream(TASK, replication, METHOD, len(Y)))
        data, outcomes = (torch.tensor(np.asarray(a))[None] for a in (X, Y))
        out = suggest(data, outcomes, config, torch.Generator().manual_seed(seed), state)
        if iteration in iterations:
            assert isinstance(out.gp, GP)
            S = out.candidates.shape[-2]
            gp, gp_again = (posterior_optima(out.gp, S, seed=s).cpu().numpy() for s in (0, 1))
            learned = _learned(out.gp, S, seed)
            taken.append(OptimumSamples(iteration, X, gp, gp_again, out.candidates[0].cpu().numpy(), learned))
        state = out.state
        X = np.vstack([X, problem.space.snap(out.x_next.cpu().numpy())])
        Y.append(observe(problem, X[-1], replication, len(Y))[0])
    return taken


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


def save(path: Path, taken: Sequence[OptimumSamples]) -> None:
    """Write the samples, and where they were drawn."""
    place = machine(torch.device("cpu"))
    names = (*SETS, LEARNED)
    kept = {s.iteration: {name: getattr(s, name) for name in names} for s in taken}
    samples = {
        iteration: {name: rows.round(DIGITS).tolist() for name, rows in sets.items() if rows is not None}
        for iteration, sets in kept.items()
    }
    write(path, [{"iteration": iteration} | place | sets for iteration, sets in samples.items()])


def load(path: Path) -> list[OptimumSamples]:
    """The samples of a file; none where there is no file."""
    with as_written(path):
        return [
            OptimumSamples(
                row["iteration"],
                **{name: np.array(row[name], dtype=float) for name in (*SETS, LEARNED) if name in row},
            )
            for row in read(path)
        ]
