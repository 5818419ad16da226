"""What guidance does to the samples: their labels, beside the best label that they were asked for.

    python -m studies.guidance

A run of the default up to its 10th iteration gives the surrogate (4 replications of each task), then DMS goes on from
there with each w, from the weights of the iteration before. Labels are in standard deviations of the outcomes, minus
the best pseudo-label: 0 is what was asked for.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from modeseek.bench.tasks import find_task
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.dms import State, seek, suggest
from modeseek.fitting import fit_surrogate

TASKS = ("styblinski-tang-2", "shekel-4", "levy-10")
REPLICATIONS, ITERATIONS = 4, 10
VARIANTS = {
    f"w = {w:g}, p_drop = {p_drop:g}": replace(DMSConfig(), w=w, p_drop=p_drop)
    for w, p_drop in ((0.0, 0.0), (0.0, 0.15), (0.5, 0.15), (1.0, 0.15), (2.0, 0.15))
}


def midway(task: str) -> tuple[Tensor, Tensor, State]:
    """Inputs, outcomes and the state after some iterations of the default."""
    problem, generator = find_task(task), torch.Generator().manual_seed(0)
    assert problem.values is not None
    X = sobol(problem.n_initial, problem.d, generator, (REPLICATIONS,))
    Y, state = torch.zeros(REPLICATIONS, 0, dtype=torch.float64), None
    while True:
        new = X[:, Y.shape[1] :]
        noise = torch.randn(new.shape[:2], generator=generator, dtype=torch.float64)
        Y = torch.cat([Y, problem.values(new) + problem.noise * noise], 1)
        if Y.shape[1] == problem.n_initial + ITERATIONS:
            assert state is not None
            return X, Y, state
        suggestion = suggest(X, Y, DMSConfig(), generator, state)
        X, state = torch.cat([X, suggestion.x_next[:, None]], 1), suggestion.state


def main() -> None:
    torch.set_num_threads(1)
    print("| task | settings | all candidates | dominant mode | polished |\n|---|---|---|---|---|")
    for task in TASKS:
        X, Y, state = midway(task)
        gp = fit_surrogate(X, Y, DMSConfig(), state and state.hyperparameters)
        for name, config in VARIANTS.items():
            found = seek(gp, config, torch.Generator().manual_seed(1), state.network)
            best = found.pseudo_y.amax(-1)
            behind = [
                float((gp.label(x, found.rho).mean(-1) - best).mean())
                for x in (found.candidates, found.mode[:, None], found.x_next[:, None])
            ]
            print(f"| {task} | {name} | " + " | ".join(f"{value:.2f}" for value in behind) + " |", flush=True)


if __name__ == "__main__":
    main()
