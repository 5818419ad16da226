"""All replications of a task as one batch on one device: DMS alone, which is batch-first throughout."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence

import numpy as np
import torch

from modeseek import problems
from modeseek.dms import DMSConfig, State, suggest
from modeseek.experiments.campaign import METHOD, Work, initial_design, observe, record_of, seed_of, stream
from modeseek.experiments.records import Record
from modeseek.parameters import Array
from modeseek.problems import Problem


def run_batch(group: Sequence[Work]) -> list[Record]:
    """Run replications of one task and method side by side; if that raises, each gets a failed record."""
    problem, config, device = problems.get(group[0].task), group[0].config, group[0].device
    assert config is not None
    replications = [work.replication for work in group]
    X = np.stack([initial_design(problem, replication) for replication in replications])
    outcomes: list[Array] = []  # for each evaluation, observed and noise-free: b x 2
    iterations: list[float] = []
    stages: dict[str, float] = {}
    error = None
    try:
        state: State | None = None
        for number in range(problem.n_initial + problem.budget):
            if number >= problem.n_initial:
                began = time.perf_counter()
                Y = np.stack(outcomes)[..., 0].T
                u, state, seconds = _next(problem, X, Y, config, state, replications, number, device)
                iterations.append(time.perf_counter() - began)
                for stage, value in seconds.items():
                    stages[stage] = stages.get(stage, 0.0) + value
                X = np.concatenate([X, u[:, None]], axis=1)
            rows = zip(X[:, number], replications, strict=True)
            outcomes.append(np.array([observe(problem, u, replication, number) for u, replication in rows]))
    except Exception:
        error = traceback.format_exc()
    series = np.stack(outcomes, axis=1) if outcomes else np.zeros((len(group), 0, 2))
    return [
        record_of(work, len(group), series[i, :, 0].tolist(), series[i, :, 1].tolist(), iterations, dict(stages), error)
        for i, work in enumerate(group)
    ]


def _next(
    problem: Problem,
    X: Array,
    Y: Array,
    config: DMSConfig,
    state: State | None,
    replications: list[int],
    number: int,
    device: str,
) -> tuple[Array, State, dict[str, float]]:
    """The next point of each replication (b x d), snapped; the state to carry on; seconds by stage."""
    seed = seed_of(stream(problem.name, min(replications), METHOD, number))
    data, outcomes = (torch.from_numpy(array).to(device) for array in (X, Y))
    out = suggest(data, outcomes, config, torch.Generator().manual_seed(seed), state)
    return problem.space.snap(out.x_next.cpu().numpy()), out.state, out.seconds
