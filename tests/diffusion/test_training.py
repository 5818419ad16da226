"""Training: the hand-written gradient against autograd, the update against torch's AdamW, and what is learned."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from modeseek.diffusion.network import condition_features, initialize, layers, predict
from modeseek.diffusion.sde import VPSDE
from modeseek.diffusion.training import LossWeight, Schedule, _noisy_epochs, _TrainingStep, train
from modeseek.draws import Draws
from shared import generator

SDE = VPSDE()
RATES = torch.full((2,), 1e-3)


def train_(
    theta: Tensor, x: Tensor, y: Tensor, seed: int = 0, hidden: int = 64, **schedule: float
) -> tuple[Tensor, Tensor]:
    return train(
        theta,
        x,
        y,
        sde=SDE,
        schedule=Schedule(**schedule),
        hidden=hidden,
        t0=1e-3,
        p_drop=0.15,
        loss_weight="h",
        source=generator(seed),
    )


def by_autograd(theta: Tensor, inputs: Tensor, noise: Tensor, weight: Tensor, hidden: int) -> tuple[Tensor, Tensor]:
    theta = theta.clone().requires_grad_(True)
    net = layers(theta, noise.shape[-1], hidden)
    a = torch.nn.functional.mish(inputs[..., :-1] @ net.W1 + net.b1)
    a = torch.nn.functional.mish(a @ net.W2 + net.b2)
    loss = (weight * (a @ net.W3 + net.b3 - noise).square()).sum(-1)
    (grad,) = torch.autograd.grad(loss.mean(-1).sum(), theta)
    return loss.sum(-1).detach(), grad


@pytest.mark.parametrize("size", [64, 20])
def test_the_gradient_is_autograds_and_the_update_torchs_adamw(size: int) -> None:
    b, d, hidden = 3, 4, 64
    theta = initialize((b,), d, hidden, generator()) + 0.01
    ours, theirs = theta.clone(), theta.clone().requires_grad_(True)
    step = _TrainingStep(ours, d, hidden, weight_decay=0.1, sizes={64, size})
    adamw = torch.optim.AdamW([theirs], lr=2e-3, weight_decay=0.1)
    for seed in range(3):
        g = generator(seed)
        inputs, noise = torch.randn(b, size, d + 16, generator=g), torch.randn(b, size, d, generator=g)
        inputs = torch.cat([inputs, torch.ones(b, size, 1)], -1)
        weight = torch.rand(b, size, 1, generator=g)
        loss, grad = by_autograd(ours, inputs, noise, weight, hidden)
        losses = step(inputs, noise, torch.tensor(2e-3), weight)
        torch.testing.assert_close(losses.sum(-1), loss, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(step.gradient, grad, atol=1e-5, rtol=1e-4)
        theirs.grad = step.gradient.clone()  # the sign of a vanishing gradient would decide a whole step
        adamw.step()
        torch.testing.assert_close(ours, theirs.detach(), atol=1e-5, rtol=1e-4)


def test_the_learning_rate_is_held_then_falls_on_a_cosine() -> None:
    rates = [Schedule().learning_rate(epoch) for epoch in range(101)]
    assert rates[:21] == [1e-3] * 21
    assert rates[60] == pytest.approx((1e-3 + 1e-4) / 2)
    assert rates[100] == pytest.approx(1e-4)
    assert all(a > b for a, b in itertools.pairwise(rates[20:]))
    assert Schedule(epochs=5).learning_rate(4) == 1e-3


def test_an_epoch_shows_every_point_once_noised_by_the_sdes_kernel() -> None:
    m, d = 4000, 2
    x = torch.rand(1, m, d, generator=generator()) * 2 - 1
    y = torch.arange(m, dtype=torch.float32)[None]
    inputs, noise, weight, _, _ = _noisy_epochs(x, y, RATES[:2], SDE, 0.3, 0.25, "one", Draws([generator(1)]))
    assert inputs.shape == (2, 1, m, d + 17)
    x_t, dropped = inputs[..., :d], (inputs[..., d + 8 : -1] == 0).all(-1)
    assert dropped.float().mean().item() == pytest.approx(0.25, abs=0.03)
    h = 1 / weight
    x0 = (x_t - h.sqrt() * noise) / (1 - h).sqrt()
    for epoch in range(2):
        torch.testing.assert_close(x0[epoch, 0].sort(0).values, x[0].sort(0).values, atol=1e-3, rtol=1e-3)
    assert h.min() >= SDE.h(torch.tensor(0.3)) - 1e-6
    assert not inputs[0].equal(inputs[1])


def test_training_leaves_its_start_alone_and_lowers_the_loss() -> None:
    x = torch.randn(2, 300, 3, generator=generator()) * 0.1 + 0.5
    y = torch.randn(2, 300, generator=generator(1))
    start = initialize((2,), 3, 64, generator(2))
    before = start.clone()
    _, first = train_(start, x, y, epochs=1)
    trained, last = train_(start, x, y, epochs=40)
    assert start.equal(before)
    assert not trained.equal(before)
    assert (last < 0.5 * first).all()


def test_each_element_learns_its_own_data() -> None:
    """One element trained among others reaches the loss that it reaches alone."""
    x = torch.stack([torch.full((256, 2), -0.5), torch.rand(256, 2, generator=generator()) * 2 - 1])
    y = torch.randn(2, 256, generator=generator(1))
    start = initialize((2,), 2, 64, generator(2))
    _, together = train_(start, x, y, epochs=60)
    alone = torch.stack([train_(start[i : i + 1], x[i : i + 1], y[i : i + 1], epochs=60)[1][0] for i in range(2)])
    torch.testing.assert_close(together, alone, rtol=0.35, atol=0)
    assert together[0] < 0.75 * together[1]


def test_the_learned_score_is_the_analytic_one_on_gaussian_data() -> None:
    """x | y ~ N(y·a, s²): the score at time t is −(x − α y a)/(α² s² + h)."""
    a, s = torch.tensor([0.4, -0.3]), 0.2
    y = torch.randn(1, 4000, generator=generator())
    x = y[..., None] * a + s * torch.randn(1, 4000, 2, generator=generator(1))
    theta, _ = train_(initialize((1,), 2, 128, generator(2)), x, y, hidden=128, epochs=60)
    for t_value, tolerance in ((0.05, 0.4), (0.2, 0.2), (0.5, 0.15), (0.9, 0.15)):
        for label in (-1.0, 0.0, 1.0):
            t = torch.tensor(t_value)
            variance = SDE.alpha(t) ** 2 * s**2 + SDE.h(t)
            mean = SDE.alpha(t) * label * a
            x_t = mean + variance.sqrt() * torch.randn(1, 2000, 2, generator=generator(3))
            features = condition_features(t[None], torch.tensor([label]))[:, None]
            learned = -predict(theta, x_t, features, 128)[:, 0] / SDE.h(t).sqrt()
            exact = -(x_t - mean) / variance
            error = (learned - exact).square().mean().sqrt() / exact.square().mean().sqrt()
            assert error < tolerance, f"relative error {error:.2f} at t={t_value}, y={label}"


def test_the_unweighted_loss_counts_times_near_t0_for_more() -> None:
    x, y = torch.zeros(1, 500, 1), torch.zeros(1, 500)
    literal = _noisy_epochs(x, y, RATES[:1], SDE, 1e-3, 0.0, "one", Draws([generator()])).weight
    weighted = _noisy_epochs(x, y, RATES[:1], SDE, 1e-3, 0.0, "h", Draws([generator()])).weight
    assert weighted.numel() == 0
    assert literal.max() > 100
    assert math.isclose(literal.min().item(), 1.0, abs_tol=0.01)


@pytest.mark.parametrize("loss_weight", ["h", "one"])
def test_the_loss_of_a_score_is_that_of_its_noise(loss_weight: LossWeight) -> None:
    """With s = −ε/√h both networks have the same loss, whatever its weight."""
    x, y = torch.rand(1, 50, 3, generator=generator()), torch.zeros(1, 50)
    losses = []
    for prediction in ("noise", "score"):
        data = _noisy_epochs(x, y, RATES[:1], SDE, 1e-3, 0.0, loss_weight, Draws([generator(1)]), prediction=prediction)
        h = _noisy_epochs(x, y, RATES[:1], SDE, 1e-3, 0.0, "one", Draws([generator(1)])).weight.reciprocal()
        given = torch.randn(data.target.shape, generator=generator(2))  # what the network says of the noise
        output = given if prediction == "noise" else -given / h.sqrt()
        weight = data.weight if data.weight.numel() else torch.ones_like(h)
        losses.append((weight * (output - data.target).square()).sum(-1))
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("epochs", [3, 10, 25])
def test_as_many_epochs_are_run_as_asked_at_their_rates(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    true = _TrainingStep.__call__

    def counting(self: _TrainingStep, inputs: Tensor, noise: Tensor, lr: Tensor, *weight: Tensor) -> Tensor:
        rates.append(float(lr))
        return true(self, inputs, noise, lr, *weight)

    monkeypatch.setattr(_TrainingStep, "__call__", counting)
    x, y = torch.randn(1, 300, 2, generator=generator()), torch.randn(1, 300, generator=generator(1))
    train_(initialize((1,), 2, 64, generator(2)), x, y, epochs=epochs)
    schedule = Schedule(epochs=epochs)
    assert rates == pytest.approx([schedule.learning_rate(e) for e in range(epochs) for _ in range(2)])
