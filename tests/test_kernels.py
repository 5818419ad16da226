"""Kernels against GPyTorch's, and what they say of themselves: decay and spectral density."""

from __future__ import annotations

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel

from modeseek.kernels import KERNELS, half_squares
from shared import generator


def q_of(r: torch.Tensor) -> torch.Tensor:
    return r.square() / 2


@pytest.mark.parametrize(("name", "twin"), [("se", RBFKernel), ("matern", MaternKernel)])
def test_a_kernel_is_gpytorchs(name: str, twin: type) -> None:
    x, X = (torch.rand(2, m, 3, dtype=torch.float64, generator=generator(m)) for m in (5, 4))
    lengthscale = torch.tensor([[0.2, 0.5, 2.0], [1.0, 0.1, 0.4]], dtype=torch.float64)
    other = twin(ard_num_dims=3, batch_shape=torch.Size([2])).double()
    other.lengthscale = lengthscale[:, None]
    found = KERNELS[name].value(half_squares(x, X, lengthscale))
    torch.testing.assert_close(found, other(x, X).to_dense().detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_the_decay_is_minus_the_derivative_in_q(name: str) -> None:
    q, step = torch.logspace(-3, 2, 50, dtype=torch.float64), 1e-5
    up, down = (KERNELS[name].value(q * (1 + sign * step)) for sign in (1, -1))
    _, decay = KERNELS[name].value_and_decay(q.clone())
    torch.testing.assert_close(decay, (down - up) / (2 * step * q), rtol=1e-5, atol=1e-7)
    assert float(KERNELS[name].value_and_decay(torch.zeros(1, dtype=torch.float64))[1]) > 0  # finite at equal inputs


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_the_mean_cosine_of_its_frequencies(name: str) -> None:
    kernel, count = KERNELS[name], 200_000
    uniform = torch.rand(count, 2 + kernel.extra, dtype=torch.float64, generator=generator(0))
    r = torch.linspace(0, 3, 7, dtype=torch.float64)
    mean = (kernel.frequencies(uniform)[:, :1] * r).cos().mean(0)
    torch.testing.assert_close(mean, kernel.value(q_of(r)), rtol=0, atol=5 / count**0.5)
