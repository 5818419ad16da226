"""The backward process, with classifier-free guidance, by Heun's method (Eq. 3, App. A.2; Algorithm 1, line 14).

    SDE   dx = [−½ β x − β s] dt + √β dw̄
    ODE   dx = [−½ β x − ½ β s] dt          the probability flow, with the same marginals

Both are integrated from t = 1 down to t0. The noise of the SDE does not depend on x, so that Heun's predictor and
corrector share one increment and nothing has to be added for Itô's sense.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from modeseek.diffusion.network import condition_features, predict
from modeseek.diffusion.sde import VPSDE
from modeseek.draws import Draws, Randomness
from modeseek.graphs import recorded
from modeseek.typing import Prediction, Solver

Score = Callable[[Tensor, Tensor], Tensor]  # x: b x S x d, t: scalar tensor  ->  b x S x d


def guided_score(
    theta: Tensor, y: Tensor, *, w: float, sde: VPSDE, hidden: int, prediction: Prediction = "noise"
) -> Score:
    """s_cfg(x, t) = (1 + w) s_θ(x, t, y) − w s_θ(x, t, ∅) for one y per element (b).

    Both halves go through the network in one pass; without guidance there is only one. `prediction` says what it gives.
    """
    keep = torch.tensor([True] if w == 0 else [True, False], dtype=torch.bool, device=y.device)
    labels = y[..., None].expand(*y.shape, len(keep))

    def score(x: Tensor, t: Tensor) -> Tensor:
        output = predict(theta, x, condition_features(t.expand_as(labels), labels, keep), hidden)
        guided = output.squeeze(-3) if w == 0 else torch.lerp(output[..., 1, :, :], output[..., 0, :, :], 1 + w)
        return guided if prediction == "score" else guided / -sde.h(t).sqrt()

    return score


def time_grid(steps: int, t0: float, device: torch.device | None = None) -> Tensor:
    """Times from 1 to t0, even in √t: the last steps, where the score is steepest, are the shortest."""
    return torch.linspace(1, t0**0.5, steps + 1, dtype=torch.float64, device=device).square()


@torch.no_grad()
def backward(
    score: Score, x: Tensor, *, sde: VPSDE, t0: float, steps: int, solver: Solver, source: Randomness
) -> Tensor:
    """Carry x (b x S x d), drawn from N(0, I), from t = 1 to t0 by `steps` Heun steps; the samples at t0."""
    half = 0.5 if solver == "ode" else 1.0
    draws = Draws.of(source, x.shape[:-2])

    def drift(x: Tensor, t: Tensor) -> Tensor:
        return -sde.beta(t) * (0.5 * x + half * score(x, t))

    times = time_grid(steps, t0, x.device).to(x.dtype)
    x, increment = x.clone(), torch.zeros_like(x)
    t, t_next = times[0].clone(), times[1].clone()

    def step() -> None:
        dt = t_next - t
        slope = drift(x, t)
        moved = x + dt * slope + increment
        x.add_(0.5 * dt * (slope + drift(moved, t_next)) + increment)

    run = recorded(step, x.device)
    for now, then in itertools.pairwise(times):
        t.copy_(now)
        t_next.copy_(then)
        if solver == "sde":
            # The variance of the increment is exactly ∫β over the step.
            noise = draws.randn(*x.shape[-2:], dtype=x.dtype).view(x.shape)
            increment.copy_(noise.mul_((sde.integral(now) - sde.integral(then)).sqrt()))
        run()
    return x
