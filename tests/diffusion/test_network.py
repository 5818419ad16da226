"""The score network against a plain torch.nn one, and its parts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from modeseek.diffusion.network import (
    condition_features,
    embed,
    initialize,
    layers,
    mish,
    parameter_count,
    predict,
)
from shared import generator


def as_module(theta: torch.Tensor, d: int, hidden: int) -> nn.Sequential:
    """The same network in torch.nn."""
    net = layers(theta, d, hidden)
    module = nn.Sequential(
        nn.Linear(d + 16, hidden), nn.Mish(), nn.Linear(hidden, hidden), nn.Mish(), nn.Linear(hidden, d)
    )
    for linear, weight, bias in zip(module[::2], net[::2], net[1::2], strict=True):
        linear.weight.data.copy_(weight.mT)
        linear.bias.data.copy_(bias[0])
    return module


def test_the_network_is_the_papers_mlp_under_every_condition() -> None:
    theta = initialize((3,), 5, 256, generator()) + 0.01
    g = generator(1)
    x, t, y = torch.randn(3, 7, 5, generator=g), torch.rand(3, 2, generator=g), torch.randn(3, 2, generator=g)
    ours = predict(theta, x, condition_features(t, y), 256)
    for i in range(3):
        module = as_module(theta[i], 5, 256)
        assert sum(p.numel() for p in module.parameters()) == parameter_count(5, 256)
        for j in range(2):
            theirs = module(torch.cat([x[i], condition_features(t[i, j], y[i, j]).expand(7, 16)], -1))
            torch.testing.assert_close(ours[i, j], theirs.detach(), atol=1e-5, rtol=1e-5)


def test_kaiming_normal_weights_and_zero_biases() -> None:
    net = layers(initialize((8,), 10, 256, generator()), 10, 256)
    for weight in net[::2]:
        assert weight.std().item() == pytest.approx(math.sqrt(2 / weight.shape[-2]), rel=0.03)
        assert abs(weight.mean().item()) < 0.01
    assert all((bias == 0).all() for bias in net[1::2])


def test_mish_and_its_slope_at_every_size_of_argument() -> None:
    z = torch.cat([torch.linspace(-30, 30, 4001), torch.tensor([-1e4, -88.8, 0.0, 88.8, 1e4])])
    exact = z.double().requires_grad_(True)
    value = nn.functional.mish(exact)
    (gradient,) = torch.autograd.grad(value.sum(), exact)
    out, slope, q = torch.empty_like(z), torch.empty_like(z), torch.empty_like(z)
    mish(z, q, out, slope)
    torch.testing.assert_close(out.double(), value.detach(), atol=3e-6, rtol=1e-6)
    torch.testing.assert_close(slope.double(), gradient, atol=3e-6, rtol=1e-6)
    torch.testing.assert_close(mish(z, q, torch.empty_like(z)), out)


def test_embeddings_tell_times_and_labels_apart() -> None:
    assert embed(torch.zeros(4)).shape == (4, 8)
    features = condition_features(torch.linspace(0, 1, 200), torch.linspace(-3, 3, 200))
    assert torch.pdist(features[:, :8]).min() > 1e-3
    assert torch.pdist(features[:, 8:]).min() > 1e-3


def test_the_null_condition_is_no_label_at_all() -> None:
    t, y = torch.tensor([0.3, 0.3]), torch.tensor([0.0, 1.0])
    none = condition_features(t, y, torch.tensor([False, False]))
    assert none[0].equal(none[1])
    assert (none[:, 8:] == 0).all()
    assert not none[0].equal(condition_features(t, y)[0]), "y = 0 is a label, the absence of one is not"
