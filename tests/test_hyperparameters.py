"""Hyperparameters drawn around the fit, against their posterior on a grid."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Normal

from modeseek.config import DMSConfig
from modeseek.fitting import fit_mapped
from modeseek.hyperparameters import _hilly, draw_hyperparameters
from modeseek.map_fit import fit, log_posterior
from modeseek.outcome_transforms import standardize
from modeseek.priors import theta_of
from modeseek.sampled_optimum import moments_in_own_units


def data(n: int, d: int, b: int = 1) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(n)
    X = torch.rand(b, n, d, dtype=torch.float64, generator=g)
    return X, standardize((7 * X).sin().sum(-1) + 0.3 * torch.randn(b, n, dtype=torch.float64, generator=g))


def test_draws_follow_the_posterior() -> None:
    """With one parameter, of any scale: mean and standard deviation of log ℓ and log τ by quadrature on a grid."""
    X, y = data(14, 1)
    draws = theta_of(draw_hyperparameters(fit(X, y), 2000, torch.Generator().manual_seed(0)).gp.hyperparameters)[:, 0]
    axes = (torch.linspace(-3.6, 9, 160, dtype=torch.float64), torch.linspace(-9.2, 2, 120, dtype=torch.float64))
    grid = torch.cartesian_prod(*axes)
    log_density = log_posterior(X, y, grid[:, None], any_scale=True)[0][:, 0] + grid.sum(-1)
    log_density += _log_mixture(grid[:, :1]) - Normal(math.sqrt(2), math.sqrt(3)).log_prob(grid[:, 0])
    density = log_density.softmax(0)[:, None]
    mean = (density * grid).sum(0)
    std = (density * (grid - mean).square()).sum(0).sqrt()
    assert ((draws.mean(0) - mean).abs() < 0.15 * std).all()
    assert ((draws.std(0) / std).log().abs() < 0.2).all()


def _log_mixture(log_ell: Tensor) -> Tensor:
    """The prior of log ℓ (... x d) that draws have: that of the fit, or hills along all parameters."""
    d = log_ell.shape[-1]
    smooth = Normal(math.sqrt(2) + 0.5 * math.log(d), math.sqrt(3)).log_prob(log_ell).sum(-1)
    hilly = Normal(math.log(math.sqrt(d) / 3), 0.75).log_prob(log_ell).sum(-1)
    return torch.logaddexp(smooth + math.log(0.75), hilly + math.log(0.25))


def test_the_prior_of_the_draws_is_a_mixture_of_smooth_and_hilly_functions() -> None:
    """Against the densities of torch.distributions in four dimensions, with its gradient by autograd."""
    theta = 2 * torch.randn(200, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theta.requires_grad_()
    smooth = Normal(math.sqrt(2) + 0.5 * math.log(4), math.sqrt(3)).log_prob(theta).sum(-1)
    expected = _log_mixture(theta) - smooth
    (slope,) = torch.autograd.grad(expected.sum(), theta)
    value, grad = _hilly(theta.detach())
    torch.testing.assert_close(value, expected.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(grad, slope, atol=1e-5, rtol=1e-5)


def test_predictions_on_hills_in_five_dimensions_are_not_much_too_sure() -> None:
    """ℓ = 0.3 √d, 20 observations: 1.2 to 1.3 of four seeds, and 1.7 to 1.9 with the prior of the fit."""
    g, b, n, d = torch.Generator().manual_seed(0), 24, 20, 5
    x = torch.rand(b, n + 50, d, dtype=torch.float64, generator=g)
    s = math.sqrt(5) * torch.cdist(x, x) / (0.3 * math.sqrt(d))
    K = (1 + s + s.square() / 3) * torch.exp(-s) + 1e-6 * torch.eye(n + 50, dtype=torch.float64)
    f = (torch.linalg.cholesky(K) @ torch.randn(b, n + 50, 1, dtype=torch.float64, generator=g))[..., 0]
    gp, outcomes = fit_mapped(x[:, :n], f[:, :n], DMSConfig(warp="never"))
    mean, std = moments_in_own_units(draw_hyperparameters(gp, 16, g), outcomes, x[:, n:])
    assert ((f[:, n:] - mean) / std).square().mean().sqrt() < 1.5


def test_the_density_of_any_scale_is_the_integral_over_mean_and_scale() -> None:
    """By quadrature over c and log s of N(y; c, s²(K + τI)), at two θ; and the gradient by differences."""
    X, y = data(7, 1)
    theta = torch.tensor([[[-1.5, -3.0]], [[-0.3, -4.0]]], dtype=torch.float64)
    c, log_s = torch.linspace(-99, 99, 2000, dtype=torch.float64), torch.linspace(-3, 6, 120, dtype=torch.float64)
    integrals = []
    for one in theta[:, 0]:
        K = torch.exp(-0.5 * (torch.cdist(X[0], X[0]) / one[0].exp()).square()) + one[1].exp() * torch.eye(7).double()
        normal = torch.distributions.MultivariateNormal(torch.zeros(7).double(), K)
        z = (y[0] - c[:, None, None]) / log_s[:, None].exp()
        integrals.append((normal.log_prob(z) - 7 * log_s).flatten().logsumexp(0))
    value, grad = log_posterior(X, y, theta, any_scale=True)
    prior = _log_prior(theta)
    torch.testing.assert_close(
        (value - prior)[1] - (value - prior)[0], (integrals[1] - integrals[0])[None], atol=1e-3, rtol=0
    )
    for i, step in enumerate(1e-5 * torch.eye(2, dtype=torch.float64)):
        up, down = (log_posterior(X, y, theta + sign * step, any_scale=True)[0] for sign in (1, -1))
        torch.testing.assert_close(grad[..., i], (up - down) / 2e-5, atol=1e-6, rtol=1e-6)


def _log_prior(theta: Tensor) -> Tensor:
    """Of ℓ and τ, up to a constant, with one parameter."""
    z = (theta[..., 0] - math.sqrt(2)) / math.sqrt(3)
    return -0.5 * z.square() - theta[..., 0] - 0.5 * (theta[..., 1] + 4).square() - theta[..., 1]


def test_scale_noise_and_lengthscales_are_those_that_functions_were_drawn_with() -> None:
    """Simulation-based calibration: of 60 functions from the prior, the ranks of what they were drawn with."""
    g, b, n, H = torch.Generator().manual_seed(0), 60, 10, 16
    X = torch.rand(b, n, 1, dtype=torch.float64, generator=g)
    log_ell = math.sqrt(2) + math.sqrt(3) * torch.randn(b, dtype=torch.float64, generator=g)
    log_tau = (-4 + torch.randn(b, dtype=torch.float64, generator=g)).clamp_min(math.log(1e-4))
    K = torch.exp(-0.5 * (torch.cdist(X, X) / log_ell.exp().clamp_min(0.03)[:, None, None]).square())
    K = K + log_tau.exp()[:, None, None] * torch.eye(n, dtype=torch.float64)
    f = (torch.linalg.cholesky(K) @ torch.randn(b, n, 1, dtype=torch.float64, generator=g))[..., 0]
    y, scale = standardize(f), 1 / f.std(-1)
    drawn = draw_hyperparameters(fit(X, y), H, g)
    theta = theta_of(drawn.gp.hyperparameters)
    for draws, true in ((drawn.scale, scale), (theta[..., 0], log_ell), (theta[..., 1], log_tau)):
        rank = (draws < true).double().mean(0)
        assert 0.35 < rank.mean() < 0.65, "0.5 ± 0.04"
        assert ((rank < 0.1) | (rank > 0.9)).double().mean() < 0.4, "4/17 ± 0.055"


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
