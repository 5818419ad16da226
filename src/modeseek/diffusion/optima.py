"""A conditional diffusion model of where the optimum is: trained on pairs (x*, y*) of posterior paths.

Each function drawn from the posterior (paths.py) has its optimum x*, of value y*. The model learns p(x* | y*) from such
pairs, with the network, the training and the backward process of the method itself. It then gives as many samples as
wanted, all together or at one y*, and a density: along the probability flow dx/dt = −½ β (x + s),

    log p_t0(x) = log N(x_1; 0, I) + ∫ ∇·(dx/dt) dt    from t0, where x_t0 = x, to 1

whose divergence is exact: ∂ε_i/∂x_i is a bilinear form in the slopes of the two hidden layers. There the model's x̂_0
is held within the cube, so that the flow does not run away where it has seen nothing.

Notation as in network.py; N pairs, S samples.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.diffusion.network import condition_features, initialize, layers, mish
from modeseek.diffusion.sampling import Score, backward, time_grid
from modeseek.diffusion.sde import VPSDE
from modeseek.diffusion.training import Schedule, train
from modeseek.draws import Draws, Randomness

MIN_STD = 1e-9  # where all are equal, they say nothing


@dataclass(frozen=True, kw_only=True)
class Learning:
    """How the model learns; docs/optimum.md has what was tried."""

    hidden: int = 128
    updates: int = 4000  # of the network
    batch_size: int = 256
    lr: float = 5e-3
    t0: float = 1e-4
    steps: int = 40
    p_drop: float = 0.0
    time_power: float = 2.0

    def schedule(self, pairs: int) -> Schedule:
        """So many updates, on so many pairs."""
        epochs = max(1, round(self.updates / math.ceil(pairs / self.batch_size)))
        return Schedule(
            epochs=epochs, batch_size=self.batch_size, lr=self.lr, lr_min=self.lr / 20, hold_epochs=epochs // 5
        )


class Standard(NamedTuple):
    """To zero mean and unit standard deviation over samples, and back."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, samples: Tensor, dim: int) -> Standard:
        """Of the samples along a dimension; where all are equal, their standard deviation is MIN_STD."""
        return cls(samples.mean(dim, keepdim=True), samples.std(dim, keepdim=True, correction=0).clamp_min(MIN_STD))

    def __call__(self, values: Tensor) -> Tensor:
        """Values as the network sees them."""
        return ((values - self.mean) / self.std).float()

    def back(self, values: Tensor) -> Tensor:
        """What the network says, in the units of the samples."""
        return values.double() * self.std + self.mean


@dataclass(frozen=True)
class OptimaModel:
    """p(x* | y*) of every element of a batch."""

    theta: Tensor  # b x P
    y: Tensor  # b x N, the values that it was trained on
    of_x: Standard  # b x 1 x d
    of_y: Standard  # b x 1
    learning: Learning
    sde = VPSDE()

    @classmethod
    def learn(cls, x: Tensor, y: Tensor, source: Randomness, learning: Learning | None = None) -> OptimaModel:
        """Train a model per element.

        Args:
            x: b x N x d, optima of paths, on the unit cube.
            y: b x N, their values, in any units.
            source: of random numbers, on the CPU.
        """
        learning = Learning() if learning is None else learning
        batch, (N, d) = x.shape[:-2], x.shape[-2:]
        draws = Draws.of(source, batch).on(x.device)
        of_x, of_y = Standard.of(x, -2), Standard.of(y, -1)
        theta, _ = train(
            initialize(tuple(batch), d, learning.hidden, draws),
            of_x(x),
            of_y(y),
            sde=cls.sde,
            schedule=learning.schedule(N),
            hidden=learning.hidden,
            t0=learning.t0,
            p_drop=learning.p_drop,
            loss_weight="h",
            source=draws,
            time_power=learning.time_power,
        )
        return cls(theta, y, of_x, of_y, learning)

    def sample(self, count: int, source: Randomness, y: Tensor | None = None) -> Tensor:
        """So many samples of x*, b x S x d, on the unit cube.

        Args:
            source: of random numbers, on the CPU.
            y: b x S, the y* that each is given; None: those of the pairs, drawn with replacement.
        """
        batch, d = self.y.shape[:-1], self.of_x.mean.shape[-1]
        draws = Draws.of(source, batch).on(self.y.device)
        if y is None:
            y = self.y.gather(-1, draws.randint(self.y.shape[-1], count).view(*batch, count))
        x_1 = draws.randn(count, d).view(*batch, count, d)
        t0, steps = self.learning.t0, self.learning.steps
        x = backward(self._score(self.of_y(y)), x_1, sde=self.sde, t0=t0, steps=steps, solver="ode", source=draws)
        return self.of_x.back(x).clamp(0, 1)

    def log_density(self, x: Tensor, y: Tensor, at: float | None = None) -> Tensor:
        """log p(x* = x | y* = y) per unit of the cube at x (b x S x d), y (b x S): b x S.

        Args:
            at: of x* with so much of the process's noise as there is at this time; None: t0.
        """
        z, here, d = self.of_y(y), self.of_x(x), x.shape[-1]
        times = time_grid(self.learning.steps, self.learning.t0 if at is None else at, x.device).flip(0).float()
        total = torch.zeros_like(here[..., 0])
        for t, t_next in itertools.pairwise(times):
            dt = t_next - t
            slope, rate = self._flow(here, t, z)
            moved, moved_rate = self._flow(here + dt * slope, t_next, z)
            here = here + 0.5 * dt * (slope + moved)
            total = total + 0.5 * dt * (rate + moved_rate)
        normal = -0.5 * (here.square().sum(-1) + d * math.log(2 * math.pi))
        return (normal + total).double() - self.of_x.std.log().sum(-1)

    def _score(self, z: Tensor) -> Score:
        def score(x: Tensor, t: Tensor) -> Tensor:
            return self._noise(x, t, z) / -self.sde.h(t).sqrt()

        return score

    def _flow(self, x: Tensor, t: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """dx/dt and its divergence at x (b x S x d), of y* as z (b x S); with x̂_0 = (x − √h ε)/α within the cube."""
        alpha, root, d = self.sde.alpha(t), self.sde.h(t).sqrt(), x.shape[-1]
        slopes = [torch.empty(*x.shape[:-1], self.learning.hidden, dtype=x.dtype, device=x.device) for _ in range(2)]
        noise = self._noise(x, t, z, slopes)
        net = layers(self.theta, d, self.learning.hidden)
        rows = [(slopes[0] * net.W1[..., i : i + 1, :]) @ net.W2 for i in range(d)]
        each = [(row * slopes[1] * net.W3.mT[..., i : i + 1, :]).sum(-1) for i, row in enumerate(rows)]
        diagonal = torch.stack(each, -1)  # ∂ε_i/∂x_i, b x S x d
        start = (x - root * noise) / alpha
        low, high = (self.of_x(torch.full_like(self.of_x.mean, end)) for end in (0.0, 1.0))
        held = torch.minimum(torch.maximum(start, low), high)
        inside = held == start
        noise, diagonal = torch.where(inside, noise, (x - alpha * held) / root), torch.where(inside, diagonal, 1 / root)
        half = 0.5 * self.sde.beta(t)
        return -half * (x - noise / root), -half * (d - diagonal.sum(-1) / root)

    def _noise(self, x: Tensor, t: Tensor, z: Tensor, slopes: list[Tensor] | None = None) -> Tensor:
        """ε_θ at x (b x S x d), of y* as z (b x S): b x S x d; the slopes of both hidden layers into `slopes`."""
        net = layers(self.theta, x.shape[-1], self.learning.hidden)
        inputs = torch.cat([x, condition_features(t.expand_as(z), z)], -1)
        first = inputs @ net.W1 + net.b1
        scratch = torch.empty_like(first)
        slope1, slope2 = (None, None) if slopes is None else slopes
        second = mish(first, scratch, torch.empty_like(first), slope1) @ net.W2 + net.b2
        output: Tensor = mish(second, scratch, torch.empty_like(first), slope2) @ net.W3 + net.b3
        return output
