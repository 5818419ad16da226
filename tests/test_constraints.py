"""Labels under constraints: gradients, probabilities against BoTorch's GP, and where the next point falls."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from scipy import stats

from modeseek.config import DMSConfig
from modeseek.constraints import constrain
from modeseek.dms import suggest
from modeseek.objectives import improve_one
from modeseek.outcome_transforms import standardize
from modeseek.surrogate import Surrogate, fit

CONFIG = DMSConfig(m=200, S=100, epochs=60, steps=20)


def data(b: int = 2, n: int = 12, d: int = 2, q: int = 2, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(b, n, d, dtype=torch.float64, generator=generator)
    Y = -(X - 0.8).square().sum(-1)
    constraints = torch.stack([X[..., 0] - 0.5 + 0.1 * j * X[..., 1] for j in range(q)], -1)
    return X, Y, constraints


@pytest.mark.parametrize("make", [improve_one, constrain])
def test_gradient_is_that_of_the_label(make: Callable[..., Surrogate]) -> None:
    X, Y, constraints = data()
    gp = make(fit(X, standardize(Y)), X, constraints)
    x = torch.rand(2, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    label, grad = gp.label_and_grad(x, 1.0)
    torch.testing.assert_close(label, gp.label(x, 1.0))
    step = 1e-6 * torch.eye(2, dtype=torch.float64)
    central = torch.stack([(gp.label(x + h, 1.0) - gp.label(x - h, 1.0)) / 2e-6 for h in step], -1)
    torch.testing.assert_close(grad, central, rtol=5e-3, atol=2e-3)


def test_feasibility_is_the_product_of_the_probabilities() -> None:
    X, Y, constraints = data(b=1)
    gp = improve_one(fit(X, standardize(Y)), X, constraints)
    x = torch.rand(1, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert gp.margins is not None
    assert gp.thresholds is not None
    mu, sigma = gp.margins.posterior(x)
    z = (mu - gp.thresholds[..., None]) / sigma
    expected = stats.norm.cdf(z.numpy()).prod(0)
    torch.testing.assert_close(gp.log_feasibility(x).exp(), torch.from_numpy(expected))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_what_was_seen_is_known_at_any_scale(scale: float) -> None:
    X, Y, constraints = data(b=1, n=20)
    gp = improve_one(fit(X, standardize(Y)), X, scale * constraints)
    feasible = (constraints <= 0).all(-1)
    clear = (constraints.abs() > 0.05).all(-1)
    probability = gp.log_feasibility(X).exp()
    assert (probability[feasible & clear] > 0.8).all()
    assert (probability[~feasible & clear] < 0.2).all()


def test_the_next_point_is_the_best_feasible_one() -> None:
    X, Y, constraints = data(b=1, n=25, q=1)  # the optimum (0.8, 0.8) is infeasible; (0.5, 0.8) is the best that is not
    free = suggest(X, Y, CONFIG, torch.Generator().manual_seed(0))
    held = suggest(X, Y, CONFIG, torch.Generator().manual_seed(0), constraints=constraints)
    assert free.x_next[0, 0] > 0.7
    assert held.x_next[0, 0] < 0.52
    assert held.x_next[0].tolist() == pytest.approx([0.5, 0.8], abs=0.1)


def test_nothing_feasible_yet_leads_towards_the_feasible_region() -> None:
    X, Y, _ = data(b=1, n=15)
    X = 0.5 + X / 2
    constraints = (X[..., :1] - 0.3).clone()  # feasible only on the left, where nothing was seen
    config = dataclasses.replace(CONFIG, rho=0.0)
    out = suggest(X, Y, config, torch.Generator().manual_seed(0), constraints=constraints)
    assert out.x_next[0, 0] < 0.35
