"""The score predictor: an MLP on (x_t, embedding of t, embedding of y), a network for each batch element (App. B.4.3).

    s_θ(x, t, y) = −ε_θ(x, t, y) / √h(t)

The MLP gives ε_θ, the noise in x_t, whose size does not change with t; the score's does, as 1/√h(t). Or it gives s_θ
itself, as the paper has it (`Prediction`). The missing condition ∅ of classifier-free guidance is an embedding of y set
to zero: y = 0 itself would mean "average".

Notation (b leading batch dimensions, H the hidden width)
    θ   b x P           all weights and biases of an element, one flat vector, so that AdamW is a single update
    W1  b x (d+16) x H,   W2  b x H x H,   W3  b x H x d,   and biases b x 1 x H, b x 1 x H, b x 1 x d
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.draws import Draws, Randomness

EMBEDDING = 8  # width of each embedding, d_t = d_y in the paper
TIME_SCALE = 30.0  # learned the score best of 1 to 1000 (docs/decisions.md); unscaled, most frequencies are constant


class Layers(NamedTuple):
    """Views of a flat parameter (or gradient) tensor."""

    W1: Tensor
    b1: Tensor
    W2: Tensor
    b2: Tensor
    W3: Tensor
    b3: Tensor


def _shapes(d: int, hidden: int) -> tuple[tuple[int, int], ...]:
    inputs = d + 2 * EMBEDDING
    return (inputs, hidden), (1, hidden), (hidden, hidden), (1, hidden), (hidden, d), (1, d)


def parameter_count(d: int, hidden: int) -> int:
    """P, the number of parameters of one network."""
    return sum(rows * columns for rows, columns in _shapes(d, hidden))


def layers(theta: Tensor, d: int, hidden: int) -> Layers:
    """The layers as views into θ (b x P)."""
    views, start = [], 0
    for rows, columns in _shapes(d, hidden):
        stop = start + rows * columns
        views.append(theta[..., start:stop].unflatten(-1, (rows, columns)))
        start = stop
    return Layers(*views)


def initialize(batch_shape: tuple[int, ...], d: int, hidden: int, source: Randomness) -> Tensor:
    """θ with Kaiming-normal weights and zero biases, b x P, float32, on the generators' device."""
    theta = Draws.of(source, batch_shape).randn(parameter_count(d, hidden)).reshape(*batch_shape, -1)
    net = layers(theta, d, hidden)
    for weight, bias in zip(net[::2], net[1::2], strict=True):
        weight.mul_(math.sqrt(2 / weight.shape[-2]))
        bias.zero_()
    return theta


def embed(value: Tensor) -> Tensor:
    """Sinusoidal embedding of scalars (Vaswani et al. 2017): ... -> ... x 8."""
    exponents = torch.arange(0, EMBEDDING, 2, dtype=value.dtype, device=value.device) / EMBEDDING
    frequencies = 10_000.0**-exponents
    angles = value[..., None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)


def condition_features(t: Tensor, y: Tensor, keep: Tensor | None = None, time_scale: float = TIME_SCALE) -> Tensor:
    """The embeddings of t and y side by side, ... x 16; y's is zero where `keep` is false."""
    embedded = embed(y)
    if keep is not None:
        embedded = embedded * keep[..., None]
    return torch.cat([embed(time_scale * t), embedded], -1)


@lru_cache(maxsize=16)
def _ones(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.ones((), dtype=dtype, device=device), -torch.ones((), dtype=dtype, device=device)


def mish(z: Tensor, p: Tensor, out: Tensor, slope: Tensor | None = None) -> Tensor:
    """Mish of z into `out`, and its derivative into `slope` if asked; `p` is scratch space of the same shape.

    With p = sigmoid(z) and v = 1/(1 + (1 − p)²), z·tanh(softplus(z)) = z (2v − 1), and the derivative is
    2v − 1 + 4 z p v (1 − v): one transcendental function for both, where the definition has three.
    In place on given buffers: at this size, allocating costs more than computing. A GPU is better served by torch's own
    kernels, one pass each.
    """
    one, minus_one = _ones(z.dtype, z.device)
    if z.is_cuda:
        if slope is not None:
            slope.copy_(torch.ops.aten.mish_backward(one, z))
        torch.ops.aten.mish.out(z, out=out)
        return out
    torch.sigmoid(z, out=p)
    torch.sub(p, 1, out=out)
    torch.addcmul(one, out, out, out=out).reciprocal_()  # v
    if slope is not None:
        torch.addcmul(out, out, out, value=-1, out=slope).mul_(p)
    torch.add(minus_one, out, alpha=2, out=out)  # 2v − 1
    if slope is not None:
        torch.addcmul(out, slope, z, value=4, out=slope)
    return out.mul_(z)


def predict(theta: Tensor, x: Tensor, conditions: Tensor, hidden: int) -> Tensor:
    """The output at every x (b x S x d) under every one of G conditions (features, b x G x 16): b x G x S x d.

    The first layer's products are shared: x's by the conditions, a condition's by the samples.
    """
    d = x.shape[-1]
    net = layers(theta, d, hidden)
    of_x, of_conditions = x @ net.W1[..., :d, :], conditions @ net.W1[..., d:, :] + net.b1
    z = (of_x.unsqueeze(-3) + of_conditions.unsqueeze(-2)).flatten(-3, -2)
    q, a = torch.empty_like(z), torch.empty_like(z)
    torch.matmul(mish(z, q, a), net.W2, out=z).add_(net.b2)
    output = torch.matmul(mish(z, q, a), net.W3).add_(net.b3)
    by_condition: Tensor = output.unflatten(-2, (conditions.shape[-2], x.shape[-2]))
    return by_condition
