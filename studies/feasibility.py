"""How labels should count feasibility: four penalties on two constrained problems (`python -m studies.feasibility`).

L is −log of the probability of being feasible. Simple regret of the best feasible input after 25 evaluations from 8
Sobol points, without noise, 8 runs side by side: median and worst; ∞ where nothing feasible was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from modeseek import constraints
from modeseek.config import DMSConfig
from modeseek.constraints import Penalty, constrain
from modeseek.design import sobol
from modeseek.dms import State, fit_surrogate, seek

RUNS, START, EVALUATIONS = 8, 8, 25
FLOOR = math.log(1e-3)

PENALTIES: dict[str, Penalty] = {
    "log(1 + L)": constraints.penalty,
    "2 log(1 + L/2)": lambda L: (2 * (L / 2).log1p(), 1 / (1 + L / 2)),
    "L": lambda L: (L, torch.ones_like(L)),
    "−log(e^−L + 0.001)": lambda L: (-_softened(L), (-L - _softened(L)).exp()),
}


def _softened(L: Tensor) -> Tensor:
    return torch.logaddexp(-L, torch.full_like(L, FLOOR))


def gardner(u: Tensor) -> tuple[Tensor, Tensor]:
    """sin x + y, feasible where sin x · sin y ≤ −0.95: small islands (Gardner et al. 2014)."""
    x, y = (6 * u).unbind(-1)
    return -(x.sin() + y), x.sin() * y.sin() + 0.95


def branin_disk(u: Tensor) -> tuple[Tensor, Tensor]:
    """Branin, feasible on a disk that none of its optima lies in."""
    x, y = -5 + 15 * u[..., 0], 15 * u[..., 1]
    f = (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * x.cos() + 10
    return -f, (x - 2.5) ** 2 + (y - 7.5) ** 2 - 25


def regret(problem: Callable[[Tensor], tuple[Tensor, Tensor]], penalty: Penalty) -> Tensor:
    """Of each run, at its end."""
    X = sobol(START, 2, torch.Generator().manual_seed(5), (RUNS,))
    state: State | None = None
    for i in range(EVALUATIONS):
        Y, c = problem(X)
        gp = constrain(fit_surrogate(X, Y, DMSConfig(), state), X, c[..., None])
        network = None if state is None else state.network
        found = seek(replace(gp, penalty=penalty), DMSConfig(), torch.Generator().manual_seed(i), network)
        X, state = torch.cat([X, found.x_next[:, None]], 1), State(*gp.hyperparameters, found.network)
    Y, c = problem(X)
    best = Y.masked_fill(c > 0, -torch.inf).amax(-1)
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 1500, dtype=torch.float64)] * 2)
    values, violation = problem(grid)
    return values[violation <= 0].max() - best


def main() -> None:
    print("| penalty | problem | median | worst |\n|---|---|---|---|")
    for problem in (gardner, branin_disk):
        for name, penalty in PENALTIES.items():
            final = regret(problem, penalty)
            print(f"| {name} | {problem.__name__} | {final.median():.4f} | {final.max():.4f} |", flush=True)


if __name__ == "__main__":
    main()
