"""The diffusion model of (x*, y*): what it learns of a distribution that is known, and its density."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from modeseek.diffusion.optima import Learning, OptimaModel
from shared import generator

FEW = Learning(hidden=32, updates=600, batch_size=128, steps=20)


def pairs(N: int = 256, b: int = 1) -> tuple[Tensor, Tensor]:
    """A narrow hill of mass 0.75 around 0.2, where y* is about 0, and one on the border at 1, where it is about 4."""
    g = generator(0)
    left = torch.rand(b, N, dtype=torch.float64, generator=g) < 0.75
    x = torch.where(left, 0.2 + 0.03 * torch.randn(b, N, dtype=torch.float64, generator=g), 1.0)
    y = torch.where(left, 0.0, 4.0) + 0.3 * torch.randn(b, N, dtype=torch.float64, generator=g)
    return x.clamp(0, 1)[..., None], y


@pytest.fixture(scope="module")
def model() -> OptimaModel:
    return OptimaModel.learn(*pairs(), generator(1), FEW)


def test_samples_have_the_modes_the_masses_and_the_spread_of_the_pairs(model: OptimaModel) -> None:
    x = model.sample(1000, generator(2))[0, :, 0]
    assert ((x >= 0) & (x <= 1)).all()
    left = x < 0.6
    share = float((pairs()[0] < 0.6).double().mean())
    assert abs(float(left.double().mean()) - share) < 0.06
    assert abs(float(x[left].mean()) - 0.2) < 0.02
    assert 0.015 < float(x[left].std()) < 0.06
    assert float(x[~left].mean()) > 0.95


def test_given_a_value_it_says_where_the_optimum_of_that_value_is(model: OptimaModel) -> None:
    y = torch.tensor([[0.0, 4.0]], dtype=torch.float64).repeat_interleave(100, -1)
    x = model.sample(200, generator(3), y)[0, :, 0]
    assert float((x[:100] < 0.6).double().mean()) > 0.9
    assert float((x[100:] > 0.6).double().mean()) > 0.9


def test_the_density_is_one_in_all_and_high_where_the_samples_are(model: OptimaModel) -> None:
    x = torch.linspace(-0.5, 1.7, 800, dtype=torch.float64)[None, :, None]
    y = torch.zeros(1, 800, dtype=torch.float64)
    density = model.log_density(x, y, at=3e-3).exp()
    assert abs(float(density.sum() * (x[0, 1, 0] - x[0, 0, 0])) - 1) < 0.05
    assert abs(float(x[0, density.argmax(), 0]) - 0.2) < 0.03


def test_the_divergence_of_the_flow_is_that_of_differences() -> None:
    few = Learning(hidden=16, updates=30, batch_size=64)
    x, y = torch.rand(2, 64, 3, generator=generator(3)).double(), torch.rand(2, 64, generator=generator(4)).double()
    model = OptimaModel.learn(x, y, generator(0), few)
    x, z, t = (
        torch.randn(2, 40, 3, generator=generator(1)),
        torch.randn(2, 40, generator=generator(2)),
        torch.tensor(0.5),
    )
    step = 1e-2 * torch.eye(3)
    slopes = [(model._flow(x + one, t, z)[0] - model._flow(x - one, t, z)[0]) / 2e-2 for one in step]
    expected = torch.stack([slope[..., i] for i, slope in enumerate(slopes)]).sum(0)
    error = (model._flow(x, t, z)[1] - expected).abs()
    assert error.median() < 1e-3
    assert (error < 0.05).double().mean() > 0.9, "but where the cube's border lies between"


def test_the_density_of_what_was_never_seen_is_finite(model: OptimaModel) -> None:
    x = torch.tensor([[[-1.0], [0.6], [3.0]]], dtype=torch.float64)
    assert model.log_density(x, torch.zeros(1, 3, dtype=torch.float64)).isfinite().all()


def test_a_row_of_a_batch_learns_what_it_learns_alone_and_equal_pairs_are_no_obstacle() -> None:
    x, y = pairs(64, b=2)
    x[1], y[1] = 0.3, 1.0
    few = Learning(hidden=16, updates=20, batch_size=64, steps=5)
    generators = [generator(i) for i in range(2)]
    together = OptimaModel.learn(x, y, generators, few).sample(10, [generator(5), generator(6)])
    alone = OptimaModel.learn(x[1:], y[1:], [generator(1)], few).sample(10, [generator(6)])
    torch.testing.assert_close(together[1:], alone, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(alone, torch.full_like(alone, 0.3))
