"""Denoising score matching with condition drop-out (Eq. 4, App. A.2 and B.4.4; Algorithm 1, line 7).

With s_θ = −ε_θ/√h the loss ‖s_θ − ∇log p_t(x_t | x_0)‖² is ‖ε_θ − ε‖²/h(t). Weighted by h(t), as is usual, it is the
plain error of the predicted noise; unweighted, times near t0 dominate it. A network that gives s_θ itself has the
target ∇log p_t(x_t | x_0) = −ε/√h, and the weights are h(t) and one.

The backward pass of the three layers is written out: without autograd's bookkeeping and with every buffer reused, a
step costs little more than its matrix products. It is tested against autograd.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.diffusion.network import EMBEDDING, TIME_SCALE, Layers, embed, layers, mish
from modeseek.diffusion.sde import VPSDE
from modeseek.draws import Draws, Randomness
from modeseek.graphs import recorded, tree_map
from modeseek.typing import LossWeight, Prediction

EPOCHS_PREPARED = 10  # epochs whose noisy inputs are made at once: fewer, larger operations; bounded memory


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and how fast to train."""

    epochs: int = 100
    batch_size: int = 256
    lr: float = 1e-3
    lr_min: float = 1e-4
    hold_epochs: int = 20
    weight_decay: float = 1e-4

    def learning_rate(self, epoch: int) -> float:
        """Held at `lr` for `hold_epochs`, then a cosine down to `lr_min` after the last epoch."""
        if epoch < self.hold_epochs:
            return self.lr
        progress = (epoch - self.hold_epochs) / (self.epochs - self.hold_epochs)
        return self.lr_min + 0.5 * (self.lr - self.lr_min) * (1 + math.cos(math.pi * progress))


@torch.no_grad()
def train(
    theta: Tensor,
    x: Tensor,
    y: Tensor,
    *,
    sde: VPSDE,
    schedule: Schedule,
    hidden: int,
    t0: float,
    p_drop: float,
    loss_weight: LossWeight,
    source: Randomness,
    time_scale: float = TIME_SCALE,
    prediction: Prediction = "noise",
    time_power: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Train a network for each batch element on its own data; θ itself stays as it is.

    Args:
        theta: b x P, where to start.
        x: b x m x d, inputs, of order one.
        y: b x m, standardized labels.
        source: of random numbers, on the device of theta.
        time_scale: of the times that are embedded, as in `condition_features`.
        prediction: what the network is to give.
        time_power: of the uniform numbers that the times are made from; 2 has more of the early ones, which decide on
            what is narrow.

    Returns:
        The trained θ (b x P), and each element's mean loss over the last epoch (b).
    """
    m, d = x.shape[-2:]
    batch = x.shape[:-2]
    draws = Draws.of(source, batch)
    theta, x, y = theta.reshape(-1, theta.shape[-1]).clone(), x.reshape(-1, m, d), y.reshape(-1, m)
    sizes = {min(schedule.batch_size, m - start) for start in range(0, m, schedule.batch_size)}
    step = _TrainingStep(theta, d, hidden, schedule.weight_decay, sizes)
    rates = x.new_tensor([schedule.learning_rate(epoch) for epoch in range(schedule.epochs)])
    data: NoisyEpochs | None = None
    for first in range(0, schedule.epochs, EPOCHS_PREPARED):
        lr = rates[first : first + EPOCHS_PREPARED]
        fresh = _noisy_epochs(x, y, lr, sde, t0, p_drop, loss_weight, draws, time_scale, prediction, time_power)
        if data is None or len(lr) < len(data.lr):
            data = fresh
            run = recorded(partial(_run_epochs, step, data, schedule.batch_size), x.device)
        else:
            tree_map(Tensor.copy_, data, fresh)
        run()
    assert data is not None
    return theta.reshape(*batch, -1), data.loss[-1].reshape(batch) / m


class NoisyEpochs(NamedTuple):
    """What some epochs of training need (E of them, on b x m inputs), and their loss."""

    inputs: Tensor  # E x b x m x (d+17); the last is a constant one, which makes the first bias a row of the weights
    target: Tensor  # E x b x m x d, what the network is to give
    weight: Tensor  # E x b x m x 1, of the loss; E x 0 where it is one everywhere
    lr: Tensor  # E
    loss: Tensor  # E x b, the sum over the m inputs


def _run_epochs(step: _TrainingStep, data: NoisyEpochs, batch_size: int) -> None:
    data.loss.zero_()
    for inputs, target, weight, lr, loss in zip(*data, strict=True):
        parts = [tensor.split(batch_size, 1) for tensor in (inputs, target, weight) if tensor.ndim > 1]
        for batch_inputs, batch_target, *batch_weight in zip(*parts, strict=True):
            loss += step(batch_inputs, batch_target, lr, *batch_weight).sum(-1)


def _noisy_epochs(
    x: Tensor,
    y: Tensor,
    lr: Tensor,
    sde: VPSDE,
    t0: float,
    p_drop: float,
    loss_weight: LossWeight,
    draws: Draws,
    time_scale: float = TIME_SCALE,
    prediction: Prediction = "noise",
    time_power: float = 1.0,
) -> NoisyEpochs:
    """Epochs with the learning rates given; each epoch and element has its own shuffle, times, noise and drop-outs."""
    (E, m), shape = (len(lr), y.shape[-1]), (len(lr), *y.shape)
    by_order, by_time, by_drop = draws.rand(3, E, m, dtype=x.dtype).permute(1, 2, 0, 3)
    order = by_order.argsort(-1)
    rows = torch.cat([x, embed(y)], -1).expand(*shape, -1)
    x0, label = rows.gather(-2, order[..., None].expand_as(rows)).split([x.shape[-1], EMBEDDING], -1)
    t = t0 + (1 - t0) * by_time**time_power
    keep = (by_drop >= p_drop)[..., None]
    noise = draws.randn(E, m, x.shape[-1], dtype=x.dtype).transpose(0, 1).contiguous()
    h = sde.h(t)[..., None]
    x_t = sde.alpha(t)[..., None] * x0 + h.sqrt() * noise
    inputs = torch.cat([x_t, embed(time_scale * t), label * keep, torch.ones_like(h)], -1)
    of_noise = prediction == "noise"
    target = noise if of_noise else noise / -h.sqrt()
    if of_noise == (loss_weight == "h"):  # as many powers of h in the target as in the weight: it is one
        weight = h.new_empty(len(lr), 0)
    else:
        weight = 1 / h if of_noise else h
    return NoisyEpochs(inputs, target, weight, lr.clone(), h.new_zeros(shape[:2]))


class _TrainingStep:
    """Forward pass, backward pass and AdamW update of θ, in place, for mini-batches of given sizes."""

    def __init__(self, theta: Tensor, d: int, hidden: int, weight_decay: float, sizes: set[int]) -> None:
        self.theta, self.gradient = theta, torch.zeros_like(theta)
        self.net: Layers = layers(theta, d, hidden)
        self.grad: Layers = layers(self.gradient, d, hidden)
        # Weights and bias of the first layer lie side by side in θ: as one matrix they need one product.
        rows = self.net.W1.shape[-2] + 1
        self.first, self.first_grad = (
            flat[:, : rows * hidden].unflatten(-1, (rows, hidden)) for flat in (theta, self.gradient)
        )
        self.first_moment, self.second_moment = torch.zeros_like(theta), torch.zeros_like(theta)
        self.count = torch.zeros((), dtype=torch.float32, device=theta.device)
        self.weight_decay = weight_decay
        shape = (*theta.shape[:-1], max(sizes), hidden)
        buffers = [torch.empty(shape, dtype=theta.dtype, device=theta.device) for _ in range(6)]
        self.views = {size: [buffer[:, :size] for buffer in buffers] for size in sizes}
        self.W2T, self.W3T = self.net.W2.mT, self.net.W3.mT

    def __call__(self, inputs: Tensor, target: Tensor, lr: Tensor, weight: Tensor | None = None) -> Tensor:
        """One update from a mini-batch (b x B x ..., b a single dimension); returns each sample's loss (b x B)."""
        net, grad, size = self.net, self.grad, inputs.shape[-2]
        z, p, a1, a2, slope1, slope2 = self.views[size]
        mish(torch.bmm(inputs, self.first, out=z), p, a1, slope1)
        mish(torch.baddbmm(net.b2, a1, net.W2, out=z), p, a2, slope2)
        error = torch.baddbmm(net.b3, a2, net.W3).sub_(target)
        d_output = error * (2 / size) if weight is None else (error * weight).mul_(2 / size)
        d_z2 = torch.bmm(d_output, self.W3T, out=z).mul_(slope2)
        torch.bmm(a2.mT, d_output, out=grad.W3)
        torch.sum(d_output, -2, keepdim=True, out=grad.b3)
        torch.bmm(a1.mT, d_z2, out=grad.W2)
        torch.sum(d_z2, -2, keepdim=True, out=grad.b2)
        d_z1 = torch.bmm(d_z2, self.W2T, out=p).mul_(slope1)
        torch.bmm(inputs.mT, d_z1, out=self.first_grad)
        self._adamw(lr)
        losses: Tensor = torch.linalg.vecdot(error, d_output)
        return losses * (size / 2)

    def _adamw(self, lr: Tensor) -> None:
        # The kernel under torch.optim.AdamW(fused=True), whose bookkeeping would take as long again at this size, and
        # whose first step would import the compiler, for a second.
        self.count.add_(1)
        torch._fused_adamw_(
            [self.theta],
            [self.gradient],
            [self.first_moment],
            [self.second_moment],
            [],
            [self.count],
            lr=lr,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self.weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )
