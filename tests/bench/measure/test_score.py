"""The diffusion error: exact scores of mixtures, and the integral of what another score gets wrong."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from modeseek.bench.measure.score import diffused, diffusion_error, exact_score
from modeseek.diffusion.sde import VPSDE
from modeseek.draws import Draws

SDE = VPSDE()
B, LABELS, N, D = 2, 3, 20, 4


def draws(seed: int = 0) -> Draws:
    return Draws.of(torch.Generator().manual_seed(seed), (B,))


@pytest.fixture
def points() -> Tensor:
    return 2 * torch.rand(B, N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) - 1


@pytest.fixture
def log_weights() -> Tensor:
    """Not normalized, and very uneven."""
    return 3 * torch.randn(B, LABELS, N, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) - 50


@pytest.mark.parametrize("time", [1e-4, 1e-2, 0.2, 1.0])
def test_the_exact_score_is_the_gradient_of_the_log_density(time: float, points: Tensor, log_weights: Tensor) -> None:
    t = torch.tensor(time, dtype=torch.float64)
    x = diffused(t, points, log_weights, SDE, 5, draws()).requires_grad_()
    log_p = torch.zeros(())
    for b in range(B):
        for label in range(LABELS):
            centres, log_w = SDE.alpha(t) * points[b], log_weights[b, label].log_softmax(-1)
            scale = (SDE.h(t).sqrt() * torch.eye(D, dtype=t.dtype)).expand(N, D, D)
            parts = torch.distributions.MultivariateNormal(centres, scale_tril=scale)
            log_p = log_p + (log_w + parts.log_prob(x[b, label].unsqueeze(-2))).logsumexp(-1).sum()
    (gradient,) = torch.autograd.grad(log_p, x)
    torch.testing.assert_close(exact_score(x.detach(), t, points, log_weights, SDE), gradient, rtol=1e-7, atol=1e-6)


def test_samples_are_of_the_mixture(points: Tensor, log_weights: Tensor) -> None:
    t = torch.tensor(0.1, dtype=torch.float64)
    x = diffused(t, points, log_weights, SDE, 20_000, draws())
    w = torch.softmax(log_weights, -1)
    mean = w @ points
    variance = (w @ points.square() - mean.square()) * SDE.alpha(t) ** 2 + SDE.h(t)
    torch.testing.assert_close(x.mean(-2), SDE.alpha(t) * mean, rtol=0, atol=0.03)
    torch.testing.assert_close(x.var(-2), variance, rtol=0.05, atol=0)


def test_the_exact_score_has_no_error(points: Tensor, log_weights: Tensor) -> None:
    def exact(x: Tensor, t: Tensor) -> Tensor:
        return exact_score(x.double(), t.double(), points, log_weights, SDE)

    error, wrong = diffusion_error(exact, points, log_weights, sde=SDE, t0=1e-2, samples=8, draws=draws())
    assert error.shape == wrong.shape == (B, LABELS)
    # t is in float32, as a network has it
    assert (error < 1e-6).all()
    assert (wrong < 1e-6).all()


@pytest.mark.parametrize("t0", [1e-4, 1e-2])
def test_a_constant_off_the_exact_score_is_its_own_square_at_every_t0(
    t0: float, points: Tensor, log_weights: Tensor
) -> None:
    def off(x: Tensor, t: Tensor) -> Tensor:
        return exact_score(x.double(), t.double(), points, log_weights, SDE) + 3

    error, _ = diffusion_error(off, points, log_weights, sde=SDE, t0=t0, samples=4, draws=draws())
    assert error.numpy() == pytest.approx(9 * D, rel=0.02)


@pytest.mark.parametrize("t0", [1e-4, 1e-2])
def test_a_score_of_zero_misses_all_noise_around_one_point(t0: float) -> None:
    one = partial(diffusion_error, lambda x, t: torch.zeros_like(x), sde=SDE, t0=t0, samples=400, draws=draws())
    error, wrong = one(torch.full((B, 1, D), 0.3, dtype=torch.float64), torch.zeros(B, 1, 1, dtype=torch.float64))
    integral, _ = quad(lambda t: float(D / SDE.h(torch.tensor(t, dtype=torch.float64))), t0, 1, limit=200)
    assert error.numpy() == pytest.approx(integral / (1 - t0), rel=0.04)
    assert wrong.numpy() == pytest.approx(1, rel=0.04)


def test_each_label_has_an_error_of_its_own(points: Tensor, log_weights: Tensor) -> None:
    def of_the_first(x: Tensor, t: Tensor) -> Tensor:
        return exact_score(x.double(), t.double(), points, log_weights[:, :1], SDE)

    error, _ = diffusion_error(of_the_first, points, log_weights, sde=SDE, t0=1e-2, samples=8, draws=draws())
    assert (error[:, 0] < 1e-6).all()
    assert (error[:, 1:] > 0.1).all()
