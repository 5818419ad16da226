"""The default against Sobol search and BoTorch's LogEI on functions with known optima (slow: `make test-slow`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin, Hartmann, StyblinskiTang, SyntheticTestFunction
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

import modeseek as ms
from modeseek.design import sobol
from modeseek.outcome_transforms import standardize

NOISE, SEEDS, N_INITIAL = 0.1, 5, 10
TASKS = {
    "Styblinski-Tang-2": (StyblinskiTang(dim=2), 30),
    "Branin": (Branin(), 30),
    "Hartmann-6": (Hartmann(dim=6), 60),
}


def noisy(f: SyntheticTestFunction, seed: int) -> Callable[[Tensor], float]:
    """f on the unit cube with its own stream of noise."""
    rng, (low, high) = np.random.default_rng(seed), f.bounds.double()
    return lambda u: float(f(low + (high - low) * u)) + NOISE * rng.standard_normal()


def simple_regret(f: SyntheticTestFunction, U: Tensor) -> float:
    low, high = f.bounds.double()
    return float(f(low + (high - low) * U).min()) - f.optimal_value


def by_dms(f: SyntheticTestFunction, budget: int, seed: int) -> Tensor:
    evaluate = noisy(f, seed)
    result = ms.minimize(
        lambda u: evaluate(torch.from_numpy(u)),
        ms.Space.box([0] * f.dim, [1] * f.dim),
        N_INITIAL + budget,
        seed=seed,
        progress=False,
    )
    return torch.from_numpy(np.stack([trial.params for trial in result.trials]))


def by_sobol(f: SyntheticTestFunction, budget: int, seed: int) -> Tensor:
    return sobol(N_INITIAL + budget, f.dim, torch.Generator().manual_seed(seed))


def by_logei(f: SyntheticTestFunction, budget: int, seed: int) -> Tensor:
    evaluate, U = noisy(f, seed), sobol(N_INITIAL, f.dim, torch.Generator().manual_seed(seed))
    torch.manual_seed(seed)
    values = [evaluate(u) for u in U]
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, f.dim)
    for _ in range(budget):
        y = standardize(-torch.tensor([values], dtype=torch.float64))[0, :, None]
        model = SingleTaskGP(U, y, outcome_transform=None)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        u, _ = optimize_acqf(LogExpectedImprovement(model, y.max()), bounds, q=1, num_restarts=10, raw_samples=512)
        U, values = torch.cat([U, u]), [*values, evaluate(u[0])]
    return U


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_default_beats_sobol_search_and_is_not_worse_than_logei(task: str) -> None:
    f, budget = TASKS[task]
    regrets = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in (by_dms, by_sobol, by_logei):
            regrets[method] = np.array([simple_regret(f, method(f, budget, seed)) for seed in range(SEEDS)])
    for method, regret in regrets.items():
        print(
            f"{task}, {method.__name__}: {regret.mean():.4f} ± {regret.std(ddof=1) / SEEDS**0.5:.4f} {regret.round(4)}"
        )
    dms, random, logei = regrets.values()
    assert dms.mean() < 0.5 * random.mean()
    difference = dms - logei
    standard_error = difference.std(ddof=1) / SEEDS**0.5
    assert difference.mean() <= 2 * standard_error + 0.1 * NOISE
