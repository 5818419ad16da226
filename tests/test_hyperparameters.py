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
    draws = theta_of(draw_hyperparameters(fit(X, y), 2000, torch.Generator().manual_seed(0)).gp.hyperparameters)[:, 0]
    axes = (torch.linspace(-3.6, 9, 160, dtype=torch.float64), torch.linspace(-9.2, 2, 120, dtype=torch.float64))
    grid = torch.cartesian_prod(*axes)
    density = (log_posterior(X, y, grid[:, None])[0][:, 0] + grid.sum(-1)).softmax(0)[:, None]
    mean = (density * grid).sum(0)
    std = (density * (grid - mean).square()).sum(0).sqrt()
    assert ((draws.mean(0) - mean).abs() < 0.15 * std).all()
    assert ((draws.std(0) / std).log().abs() < 0.2).all()


def test_the_mean_and_the_scale_are_drawn_with_their_own_uncertainty() -> None:
    n = 20
    X, y = data(n, 2)
    gp, scale = draw_hyperparameters(fit(X, y), 400, torch.Generator().manual_seed(1))
    torch.testing.assert_close(gp.y * scale[..., None], y.expand(400, 1, n))
    weights = gp.inverse.sum(-1)
    best = (weights * gp.y).sum(-1) / weights.sum(-1)
    z = (gp.mean - best) * weights.sum(-1).sqrt()
    assert 0.85 < z.std() < 1.15
    assert z.mean().abs() < 0.2
    residual = gp.y - best[..., None]
    chi_square = torch.einsum("hbi,hbij,hbj->hb", residual, gp.inverse, residual)
    assert (n - 1) * 0.93 < chi_square.mean() < (n - 1) * 1.07
    assert 0.85 < chi_square.std() / (2 * (n - 1)) ** 0.5 < 1.15
    residual = gp.y - gp.mean[..., None]
    torch.testing.assert_close(gp.alpha, (gp.inverse @ residual[..., None])[..., 0])


def test_a_row_of_a_batch_draws_what_it_draws_alone() -> None:
    X, y = data(12, 3, b=2)
    generators = [torch.Generator().manual_seed(i) for i in range(2)]
    together = draw_hyperparameters(fit(X, y), 6, generators).gp
    assert together.X.shape == (6, 2, 12, 3)
    for i in range(2):
        alone = draw_hyperparameters(fit(X[i], y[i]), 6, torch.Generator().manual_seed(i)).gp
        torch.testing.assert_close(alone.alpha, together.alpha[:, i], atol=1e-3, rtol=1e-3)


def test_equal_outcomes_are_no_obstacle() -> None:
    X, y = data(8, 2)
    several, scale = draw_hyperparameters(fit(X, 0 * y), 8, torch.Generator().manual_seed(0))
    assert scale.isfinite().all()
    assert several.alpha.isfinite().all()
    assert several.posterior(X.expand(8, 1, 8, 2))[1].isfinite().all()
