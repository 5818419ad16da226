"""The backward process: order of convergence, distribution, guidance."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from modeseek.diffusion.network import condition_features, initialize, predict
from modeseek.diffusion.sampling import Score, backward, guided_score, time_grid
from modeseek.diffusion.sde import VPSDE
from shared import generator

SDE = VPSDE()
T0 = 1e-3


def gaussian_score(mean: float, sd: float) -> Score:
    """The exact score of x_t when x_0 ~ N(mean, sd²)."""

    def score(x: Tensor, t: Tensor) -> Tensor:
        return -(x - SDE.alpha(t) * mean) / (SDE.alpha(t) ** 2 * sd**2 + SDE.h(t))

    return score


def exact_flow(x: Tensor, mean: float, sd: float) -> Tensor:
    """Where the probability flow carries x from t = 1 to t0: it keeps the standardized value."""
    one, t0 = torch.tensor(1.0, dtype=x.dtype), torch.tensor(T0, dtype=x.dtype)

    def moments(t: Tensor) -> tuple[Tensor, Tensor]:
        return SDE.alpha(t) * mean, (SDE.alpha(t) ** 2 * sd**2 + SDE.h(t)).sqrt()

    (m1, s1), (m0, s0) = moments(one), moments(t0)
    return m0 + s0 * (x - m1) / s1


def test_heun_converges_with_order_two_on_a_linear_problem() -> None:
    x = torch.randn(1, 50, 1, dtype=torch.float64, generator=generator())
    errors = []
    for steps in (40, 80, 160, 320):
        end = backward(gaussian_score(0.4, 0.5), x, sde=SDE, t0=T0, steps=steps, solver="ode", source=generator())
        errors.append((end - exact_flow(x, 0.4, 0.5)).abs().max().item())
    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert orders[-1] == pytest.approx(2.0, abs=0.15), orders
    assert errors[-1] < 1e-4


@pytest.mark.parametrize("solver", ["ode", "sde"])
@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (0.6, 0.1), (-0.8, 0.02)])
def test_fifty_steps_sample_a_gaussian(solver: str, mean: float, sd: float) -> None:
    x = torch.randn(1, 20_000, 1, dtype=torch.float64, generator=generator())
    end = backward(gaussian_score(mean, sd), x, sde=SDE, t0=T0, steps=50, solver=solver, source=generator(1))
    target = math.sqrt(sd**2 + SDE.h(torch.tensor(T0, dtype=torch.float64)).item())
    assert end.mean().item() == pytest.approx(mean, abs=0.01 + 0.05 * target)
    assert end.std().item() == pytest.approx(target, rel=0.1)


def test_both_solvers_find_both_modes_of_a_mixture() -> None:
    def score(x: Tensor, t: Tensor) -> Tensor:
        variance = SDE.alpha(t) ** 2 * 0.05**2 + SDE.h(t)
        centres = SDE.alpha(t) * torch.tensor([-0.5, 0.5], dtype=x.dtype)
        weights = (torch.tensor([0.3, 0.7], dtype=x.dtype).log() - (x - centres) ** 2 / (2 * variance)).softmax(-1)
        return -(x - (weights * centres).sum(-1, keepdim=True)) / variance

    x = torch.randn(1, 5000, 1, dtype=torch.float64, generator=generator())
    for solver in ("ode", "sde"):
        end = backward(score, x, sde=SDE, t0=T0, steps=50, solver=solver, source=generator(1))
        assert (end > 0).double().mean().item() == pytest.approx(0.7, abs=0.04)
        assert end[end > 0].mean().item() == pytest.approx(0.5, abs=0.02)


def test_one_step_is_enough_to_be_finite() -> None:
    x = torch.randn(2, 10, 3, generator=generator())
    for solver in ("ode", "sde"):
        end = backward(gaussian_score(0.0, 0.5), x, sde=SDE, t0=T0, steps=1, solver=solver, source=generator())
        assert end.isfinite().all()


@pytest.mark.parametrize("w", [0.0, 1.0, 2.0])
def test_the_guided_score_is_the_formula(w: float) -> None:
    theta = initialize((3,), 4, 32, generator())
    x, y = torch.randn(3, 6, 4, generator=generator(1)), torch.randn(3, generator=generator(2))
    t = torch.tensor(0.4)
    conditional = condition_features(t.expand(3), y)[:, None]
    null = condition_features(t.expand(3), y, torch.zeros(3, dtype=torch.bool))[:, None]
    s_y = -predict(theta, x, conditional, 32)[:, 0] / SDE.h(t).sqrt()
    s_null = -predict(theta, x, null, 32)[:, 0] / SDE.h(t).sqrt()
    guided = guided_score(theta, y, w=w, sde=SDE, hidden=32)(x, t)
    torch.testing.assert_close(guided, (1 + w) * s_y - w * s_null, atol=1e-5, rtol=1e-4)
    of_score = guided_score(theta, y, w=w, sde=SDE, hidden=32, prediction="score")(x, t)
    torch.testing.assert_close(of_score / -SDE.h(t).sqrt(), guided)


def test_the_time_grid_runs_from_one_to_t0_in_shrinking_steps() -> None:
    times = time_grid(50, T0)
    assert times[0] == 1
    assert times[-1].item() == pytest.approx(T0)
    steps = -times.diff()
    assert (steps > 0).all()
    assert (steps.diff() < 0).all()
