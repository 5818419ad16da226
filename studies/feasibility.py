"""How labels should count feasibility: three labels on two constrained problems (`python -m studies.feasibility`).

L is −log of the probability of being feasible. Simple regret of the best feasible input after 25 evaluations from 8
Sobol points, without noise, 8 runs side by side: median and worst; ∞ where nothing feasible was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from modeseek.config import DMSConfig
from modeseek.constraints import ConstrainedGP
from modeseek.design import sobol
from modeseek.dms import State, seek
from modeseek.fitting import fit_surrogate
from modeseek.improvement import ImprovementGP
from modeseek.objectives import improve_one
from modeseek.surrogate import GP, Surrogate

RUNS, START, EVALUATIONS = 8, 8, 25


def penalized(gp: ImprovementGP, objective: GP) -> Surrogate:
    assert gp.margins is not None
    assert gp.thresholds is not None
    return ConstrainedGP(objective, gp.margins, gp.thresholds)


LABELS: dict[str, Callable[[ImprovementGP, GP], Surrogate]] = {
    "μ + ρσ − log(1 + L)": penalized,
    "log EI − L, shaped by −log(1 − t)": lambda gp, _: replace(gp, top=None),
    "log EI − L, shaped below t*": lambda gp, _: gp,
}


def gardner(u: Tensor) -> tuple[Tensor, Tensor]:
    """sin x + y, feasible where sin x · sin y ≤ −0.95: small islands (Gardner et al. 2014)."""
    x, y = (6 * u).unbind(-1)
    return -(x.sin() + y), x.sin() * y.sin() + 0.95


def branin_disk(u: Tensor) -> tuple[Tensor, Tensor]:
    """Branin, feasible on a disk that none of its optima lies in."""
    x, y = -5 + 15 * u[..., 0], 15 * u[..., 1]
    f = (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * x.cos() + 10
    return -f, (x - 2.5) ** 2 + (y - 7.5) ** 2 - 25


def regret(problem: Callable[[Tensor], tuple[Tensor, Tensor]], label: str) -> Tensor:
    """Of each run, at its end."""
    X = sobol(START, 2, torch.Generator().manual_seed(5), (RUNS,))
    state: State | None = None
    for i in range(EVALUATIONS):
        Y, c = problem(X)
        objective = fit_surrogate(X, Y, DMSConfig(), state and state.hyperparameters)
        gp = LABELS[label](improve_one(objective, X, c[..., None]), objective)
        network = None if state is None else state.network
        found = seek(gp, DMSConfig(), torch.Generator().manual_seed(i), network)
        X, state = torch.cat([X, found.x_next[:, None]], 1), State(*objective.hyperparameters, found.network)
    Y, c = problem(X)
    best = Y.masked_fill(c > 0, -torch.inf).amax(-1)
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 1500, dtype=torch.float64)] * 2)
    values, violation = problem(grid)
    return values[violation <= 0].max() - best


def main() -> None:
    print("| label | problem | median | worst |\n|---|---|---|---|")
    for problem in (gardner, branin_disk):
        for name in LABELS:
            final = regret(problem, name)
            print(f"| {name} | {problem.__name__} | {final.median():.4f} | {final.max():.4f} |", flush=True)


if __name__ == "__main__":
    main()
