"""Hyperparameters drawn around the fit, against their posterior on a grid."""

from __future__ import annotations

import torch
from torch import Tensor

from modeseek.hyperparameters import draw_hyperparameters
from modeseek.outcome_transforms import standardize
from modeseek.surrogate import fit, log_posterior, theta_of


def data(n: int, d: int, b: int = 1) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(n)
    X = torch.rand(b, n, d, dtype=torch.float64, generator=g)
    return X, standardize((7 * X).sin().sum(-1) + 0.3 * torch.randn(b, n, dtype=torch.float64, generator=g))


def test_draws_follow_the_posterior() -> None:
    """With one parameter: mean and standard deviation of log ℓ and log τ by quadrature on a fine grid."""
    X, y = data(14, 1)
    draws = theta_of(draw_hyperparameters(fit(X, y), 2000, torch.Generator().manual_seed(0)).hyperparameters)[:, 0]
    axes = (torch.linspace(-3.6, 9, 160, dtype=torch.float64), torch.linspace(-9.2, 2, 120, dtype=torch.float64))
    grid = torch.cartesian_prod(*axes)
    density = (log_posterior(X, y, grid[:, None])[0][:, 0] + grid.sum(-1)).softmax(0)[:, None]
    mean = (density * grid).sum(0)
    std = (density * (grid - mean).square()).sum(0).sqrt()
    assert ((draws.mean(0) - mean).abs() < 0.15 * std).all()
    assert ((draws.std(0) / std).log().abs() < 0.2).all()


def test_the_mean_is_drawn_with_its_own_uncertainty() -> None:
    X, y = data(20, 2)
    several = draw_hyperparameters(fit(X, y), 400, torch.Generator().manual_seed(1))
    weights = several.inverse.sum(-1)
    best = (weights * several.y).sum(-1) / weights.sum(-1)
    z = (several.mean - best) * weights.sum(-1).sqrt()
    assert 0.85 < z.std() < 1.15
    assert z.mean().abs() < 0.2
    residual = several.y - several.mean[..., None]
    torch.testing.assert_close(several.alpha, (several.inverse @ residual[..., None])[..., 0])


def test_a_row_of_a_batch_draws_what_it_draws_alone() -> None:
    X, y = data(12, 3, b=2)
    generators = [torch.Generator().manual_seed(i) for i in range(2)]
    together = draw_hyperparameters(fit(X, y), 6, generators)
    assert together.X.shape == (6, 2, 12, 3)
    for i in range(2):
        alone = draw_hyperparameters(fit(X[i], y[i]), 6, torch.Generator().manual_seed(i))
        torch.testing.assert_close(alone.alpha, together.alpha[:, i], atol=1e-3, rtol=1e-3)


def test_equal_outcomes_are_no_obstacle() -> None:
    X, y = data(5, 2)
    several = draw_hyperparameters(fit(X, 0 * y), 8, torch.Generator().manual_seed(0))
    assert several.alpha.isfinite().all()
    assert several.posterior(X.expand(8, 1, 5, 2))[1].isfinite().all()
