"""The cheap stand-in for a Gaussian process against the Gaussian process itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from modeseek.map_fit import ENOUGH
from modeseek.priors import Hyperparameters
from modeseek.pseudo import pseudo_dataset, refine_inputs
from modeseek.sketch import Sketch, for_climbing, sketch
from modeseek.surrogate import GP, posterior_of


def gp(n: int, d: int, lengthscale: float, noise: float, b: int = 1) -> GP:
    g = torch.Generator().manual_seed(n)
    X = torch.rand(b, n, d, dtype=torch.float64, generator=g)
    y = (6 * X).sin().sum(-1) + 0.1 * torch.randn(b, n, dtype=torch.float64, generator=g)
    ell, tau = torch.full((b, d), lengthscale, dtype=X.dtype), torch.full((b,), noise, dtype=X.dtype)
    return posterior_of(X, y - y.mean(-1, keepdim=True), Hyperparameters(ell, tau))


def inputs(m: int, d: int, b: int = 1) -> Tensor:
    return torch.rand(b, m, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("lengthscale", "noise"), [(0.3, 1e-2), (1.0, 1e-3), (0.1, 0.3)])
def test_with_all_observations_it_is_the_gaussian_process(lengthscale: float, noise: float) -> None:
    exact = gp(80, 3, lengthscale, noise, b=2)
    x = inputs(20, 3, b=2)
    theirs, ours = exact.label_and_grad(x, 2.0), sketch(exact, 80).label_and_grad(x, 2.0)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)  # the jitter


@pytest.mark.parametrize("d", [1, 4])
def test_its_gradient_is_autograds(d: int) -> None:
    part = sketch(gp(60, d, 0.4, 1e-2), 25)
    x = inputs(12, d).requires_grad_()
    k = torch.exp(-0.5 * ((x[..., :, None, :] - part.U[..., None, :, :]) / 0.4).square().sum(-1))
    to_all = torch.exp(-0.5 * ((x[..., :, None, :] - part.X[..., None, :, :]) / 0.4).square().sum(-1))
    sigma = (1 - ((k @ part.M) * k).sum(-1)).sqrt()
    value = part.gp.mean[..., None] + (to_all * part.gp.alpha[..., None, :]).sum(-1) + 1.5 * sigma
    (grad,) = torch.autograd.grad(value.sum(), x)
    label, ours = part.label_and_grad(x.detach(), 1.5)
    torch.testing.assert_close(label, value.detach(), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(part.label(x.detach(), 1.5), label)
    torch.testing.assert_close(ours, grad, atol=1e-6, rtol=1e-6)


def test_its_mean_is_exact_and_its_uncertainty_close() -> None:
    exact = gp(1200, 6, 0.8, 1e-2)
    part = sketch(exact)
    x = inputs(200, 6)
    mu, sigma = exact.posterior(x)
    torch.testing.assert_close(part.label(x, 0.0), mu, atol=1e-9, rtol=1e-9)
    assert (part.label(x, 1.0) - mu - sigma).abs().mean() < 0.05 * sigma.mean()


def test_climbing_it_leads_as_high_as_climbing_the_gaussian_process() -> None:
    exact = gp(1200, 4, 0.5, 1e-2)
    x = inputs(60, 4)
    start = exact.label(x, 1.0).mean()
    top, cheap = (
        exact.label(refine_inputs(on, x, K=5, rho=1.0, refine="joint"), 1.0).mean() for on in (exact, sketch(exact))
    )
    assert cheap - start > 0.95 * (top - start)
    assert top > start + 1


def test_it_is_used_for_many_observations_only_and_never_for_the_labels() -> None:
    few, many = gp(ENOUGH, 1, 0.3, 1e-2), gp(ENOUGH + 1, 1, 0.3, 1e-2)
    assert for_climbing(few) is few
    assert isinstance(for_climbing(many), Sketch)
    source = torch.Generator().manual_seed(0)
    x, label = pseudo_dataset(many, m=20, K=2, rho=1.0, refine="joint", source=source)
    assert label.equal(many.label(x, 1.0))
