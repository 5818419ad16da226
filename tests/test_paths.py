"""Draws from the posterior against the posterior itself and BoTorch's, and their maxima against grids and BoTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.sampling.pathwise.posterior_samplers import get_matheron_path_model
from botorch.utils.sampling import optimize_posterior_samples
from torch import Tensor

from modeseek.domain import Domain, Rounding
from modeseek.embedding import PLAIN
from modeseek.kernels import KERNELS
from modeseek.paths import Paths, draw_paths, maxima, optima
from modeseek.priors import Hyperparameters
from modeseek.surrogate import GP, Given, posterior_of
from shared import generator


def gp(n: int, d: int, lengthscale: float = 0.3, noise: float = 1e-2, b: int = 1, kernel: str = "se") -> GP:
    g = generator(n + d)
    X = torch.rand(b, n, d, dtype=torch.float64, generator=g)
    y = (6 * X).sin().mean(-1) + 0.3 * torch.randn(b, n, dtype=torch.float64, generator=g)
    scale = torch.linspace(0.8, 1.2, d, dtype=X.dtype) * lengthscale
    hyperparameters = Hyperparameters(scale.expand(b, d), torch.full((b,), noise, dtype=X.dtype))
    return posterior_of(X, y, hyperparameters, given=Given(PLAIN.with_kernel(KERNELS[kernel])))


def inputs(m: int, d: int, b: int = 1) -> Tensor:
    return torch.rand(b, m, d, dtype=torch.float64, generator=generator(7))


def covariance(model: GP, x: Tensor) -> Tensor:
    """Of the posterior at x, b x m x m."""
    k = model.kernel(x, model.X)
    return model.kernel(x, x) - k @ model.inverse @ k.mT


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_shrunk_draws_lie_between_the_mean_and_the_draws(share: float) -> None:
    model, x = gp(12, 2, b=2), inputs(7, 2, b=2)
    paths, mean = draw_paths(model, 5, generator()), model.posterior(x)[0].unsqueeze(-2)
    expected = mean + share * (paths.everywhere(x) - mean)
    torch.testing.assert_close(paths.shrunk(share).everywhere(x), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("n", "d", "kernel"), [(3, 1, "se"), (15, 2, "se"), (40, 5, "se"), (15, 2, "matern")])
def test_draws_have_the_posteriors_mean_and_covariance(n: int, d: int, kernel: str) -> None:
    """With P draws the error of a mean is σ/√P, of a covariance about 1.5/√P of the variances: five times that."""
    model, P = gp(n, d, b=2, kernel=kernel), 3000
    x = inputs(12, d, b=2)
    values = draw_paths(model, P, generator(0), features=2048).everywhere(x)
    mu, sigma = model.posterior(x)
    prior_error = 0.02 if kernel == "se" else 0.05  # of the Fourier features, where there are no data
    assert ((values.mean(-2) - mu).abs() <= (5 / P**0.5 + prior_error) * sigma + 1e-9).all()
    centred = values - values.mean(-2, keepdim=True)
    found = centred.mT @ centred / P
    scale = sigma[..., :, None] * sigma[..., None, :]
    assert ((found - covariance(model, x)).abs() <= (7.5 / P**0.5 + prior_error) * scale + 1e-6).all()


def test_draws_have_the_moments_of_botorchs() -> None:
    model, P = gp(12, 2), 4000
    twin = SingleTaskGP(model.X[0], model.y[0, :, None], outcome_transform=None)
    twin.covar_module.lengthscale = model.hyperparameters.lengthscale[0]
    twin.likelihood.noise = model.hyperparameters.noise[0]
    twin.mean_module.constant = model.mean[0]
    x = inputs(10, 2)
    torch.manual_seed(0)
    theirs = get_matheron_path_model(twin.eval(), sample_shape=torch.Size([P])).posterior(x[0]).mean.detach()
    theirs = theirs.reshape(P, 10)
    ours = draw_paths(model, P, generator(0)).everywhere(x)[0]
    sigma = ours.std(0)
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 7 / P**0.5 * sigma + 0.02).all()
    gap = (torch.cov(ours.T) - torch.cov(theirs.T)).abs()
    assert (gap < 0.15 * sigma[:, None] * sigma[None, :] + 0.01).all()


def test_values_at_common_and_at_own_inputs_are_those_of_one_function() -> None:
    paths = draw_paths(gp(20, 3, b=2), 5, generator(1))
    x = inputs(6, 3, b=2)
    own = x[..., None, :, :].expand(2, 5, 6, 3)
    torch.testing.assert_close(paths.everywhere(x), paths.value(own), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("d", [1, 4])
def test_the_gradient_is_autograds(d: int) -> None:
    model = gp(10, d, b=2)
    paths = draw_paths(model, 3, generator(2), features=16)
    x = torch.rand(2, 3, 5, d, dtype=torch.float64, generator=generator(3)).requires_grad_()
    phase = x @ paths.frequencies[:, None].mT
    prior = (phase.cos() * paths.cosines[..., None, :] + phase.sin() * paths.sines[..., None, :]).sum(-1)
    ell = model.hyperparameters.lengthscale[:, None, None, None]
    k = torch.exp(-0.5 * ((x[..., None, :] - model.X[:, None, None]) / ell).square().sum(-1))
    value = model.mean[:, None, None] + prior + (k * paths.update[..., None, :]).sum(-1)
    (grad,) = torch.autograd.grad(value.sum(), x)
    ours, ours_grad = paths.value_and_grad(x.detach())
    torch.testing.assert_close(ours, value.detach(), atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(ours_grad, grad, atol=1e-8, rtol=1e-8)


def test_rows_of_a_batch_draw_what_they_draw_alone() -> None:
    model = gp(8, 2, b=3)
    together = optima(model, 4, [generator(i) for i in range(3)])
    for i in range(3):
        alone = GP(
            *(part[i : i + 1] for part in (model.X, model.y)),
            Hyperparameters(*(part[i : i + 1] for part in model.hyperparameters)),
            *(part[i : i + 1] for part in (model.mean, model.alpha, model.inverse, model.fit_failed)),
        )
        found = optima(alone, 4, generator(i))
        torch.testing.assert_close(found.x[0], together.x[i], atol=1e-4, rtol=0)
        torch.testing.assert_close(found.value[0], together.value[i], atol=1e-8, rtol=0)


@pytest.mark.parametrize(("n", "d", "side"), [(4, 1, 2001), (12, 1, 2001), (10, 2, 201)])
def test_optima_are_as_high_as_a_dense_grid(n: int, d: int, side: int) -> None:
    found = optima(gp(n, d, lengthscale=0.15), 40, generator(4))
    axis = torch.linspace(0, 1, side, dtype=torch.float64)
    grid = torch.cartesian_prod(*[axis] * d).view(1, -1, d)
    assert (found.value >= found.paths.everywhere(grid).amax(-1) - 1e-9).all()
    assert ((found.x >= 0) & (found.x <= 1)).all()
    torch.testing.assert_close(found.value, found.paths.value(found.x.unsqueeze(-2)).squeeze(-1))


class _Model(torch.nn.Module):
    """The draws of one Gaussian process as BoTorch's sampled paths: ... x d  ->  P x ..."""

    def __init__(self, paths: Paths) -> None:
        super().__init__()
        self.paths = paths

    def forward(self, x: Tensor) -> Tensor:
        P = self.paths.update.shape[-2]
        x = x.expand(P, -1, -1) if x.ndim == 3 else x[None].expand(P, *x.shape)
        return _Value.apply(x[None], self.paths)[0]


class _Value(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, paths: Paths) -> Tensor:
        value, grad = paths.value_and_grad(x)
        ctx.save_for_backward(grad)
        return value

    @staticmethod
    def backward(ctx, of_value: Tensor) -> tuple[Tensor, None]:
        return of_value[..., None] * ctx.saved_tensors[0], None


def test_optima_are_as_high_as_botorchs_of_the_same_draws() -> None:
    d = 5
    found = optima(gp(40, d, lengthscale=0.5), 16, generator(5))
    torch.manual_seed(0)
    bounds = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64)
    _, theirs = optimize_posterior_samples(_Model(found.paths), bounds, raw_samples=512, num_restarts=10)
    gap = found.value[0] - theirs.flatten().detach()
    assert gap.mean() > -1e-4
    assert (gap > -1e-4).double().mean() >= 0.9


@pytest.mark.parametrize(("n", "d"), [(10, 1), (30, 2), (30, 3), (60, 4), (100, 10)])
def test_a_quick_search_ends_nearly_as_high(n: int, d: int) -> None:
    paths = draw_paths(gp(n, d, lengthscale=0.25 * d**0.5), 64, generator(6)).shrunk(0.5)
    quick, thorough = (maxima(paths, generator(7), quick=is_quick) for is_quick in (True, False))
    gap = thorough.value - quick.value
    assert gap.mean() < 0.03
    assert (gap < 0.1).double().mean() >= 0.9


def test_discrete_coordinates_stay_on_their_values_and_the_others_are_optimal() -> None:
    """One of five values, one of three, and a continuous coordinate: against all fifteen lines, finely."""

    def snap(x: Tensor) -> Tensor:
        bins = torch.tensor([5.0, 3.0], dtype=x.dtype)
        discrete = ((x[..., :2] * bins).floor().minimum(bins - 1) + 0.5) / bins
        return torch.cat([discrete, x[..., 2:]], -1)

    rounding = Rounding(snap, torch.tensor([False, False, True]))
    found = optima(gp(15, 3), 20, generator(6), Domain(rounding))
    assert snap(found.x).equal(found.x)
    axes = [torch.arange(5) / 5 + 0.1, (torch.arange(3) + 0.5) / 3, torch.linspace(0, 1, 501)]
    grid = torch.cartesian_prod(*[axis.double() for axis in axes])[None]
    gap = found.value - found.paths.everywhere(grid).amax(-1)
    assert gap.mean() > -0.01
    assert (gap > -1e-6).double().mean() >= 0.9


def test_a_candidate_of_the_callers_is_never_beaten_by_the_optimum_found() -> None:
    model = gp(5, 6, lengthscale=0.2)
    known = inputs(3, 6)
    found = optima(model, 10, generator(8), also=known)
    assert (found.value >= found.paths.everywhere(known).amax(-1) - 1e-12).all()


def test_with_many_exact_observations_every_draw_has_its_maximum_at_the_true_one() -> None:
    X = torch.linspace(0, 1, 60, dtype=torch.float64)[None, :, None]
    y = -(8 * (X[..., 0] - 0.37).square())
    model = posterior_of(X, y, Hyperparameters(torch.full((1, 1), 0.4).double(), torch.full((1,), 1e-4).double()))
    found = optima(model, 50, generator(9))
    np.testing.assert_allclose(found.x[0, :, 0], 0.37, atol=0.03)
