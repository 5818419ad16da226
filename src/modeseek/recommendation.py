"""What to use where some values are given: the best that was observed with them, or what the surrogate expects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from modeseek.computing import computing
from modeseek.constraints import constrain
from modeseek.domain import Domain
from modeseek.fitting import MIN_KNOWN_NOISE
from modeseek.history import History
from modeseek.proposer import Proposer, Stream, best_labelled, generator
from modeseek.pseudo import polish, pseudo_dataset
from modeseek.space import Space
from modeseek.surrogate import GP, MANY, Surrogate, evenly, fit, log_posterior, theta_of
from modeseek.trials import Direction, Trial
from modeseek.typing import Params

STARTS, STEPS = 256, 20  # of climbs to where the mean is best


@dataclass(frozen=True)
class Recommendation:
    """Parameters, and what they are worth.

    Attributes:
        params: a dict by name, or an array for a box.
        value: as observed; of a point that has not been evaluated, what the surrogate expects.
        std: the standard deviation of what it expects; None for what was observed.
        trial: the trial that it was observed in; None where there is none with these values.
    """

    params: Params
    value: float
    std: float | None = None
    trial: Trial | None = None


def is_noisy(gp: GP) -> bool:
    """Whether the outcomes of a Gaussian process (a batch of one) speak for noise.

    They do if their evidence is higher with the fitted noise than without any by ½ log n, the price of a parameter,
    each with its best length-scales. Else a posterior mean that is not the observed value is the model's error.
    """
    X, y = evenly(gp.X, gp.y, MANY)
    if gp.known_noise is not None:
        return True
    fitted = fit(X, y, gp.hyperparameters, embedding=gp.embedding, prior=gp.prior)
    none = torch.full_like(y, MIN_KNOWN_NOISE)
    exact = fit(X, y, gp.hyperparameters, embedding=gp.embedding, prior=gp.prior, known_noise=none)
    gain = _evidence(fitted, None) - _evidence(exact, none)
    return bool(gain > 0.5 * math.log(y.shape[-1]))


def _evidence(gp: GP, known: Tensor | None) -> Tensor:
    """log p(y | X, θ) + log p(ℓ): b."""
    theta = theta_of(gp.hyperparameters)
    value, _ = log_posterior(gp.X, gp.y, theta, gp.embedding, gp.prior, known)
    return value - gp.prior.log_density(theta[..., -1])[0]


def best_of(
    space: Space, trials: Sequence[Trial], fixed: Mapping[str, Any], direction: Direction
) -> Recommendation | None:
    """The best of the trials, all with a value, that have the fixed values; None where there is none."""
    at = {space.coordinates.index(name): space[name].encode(value) for name, value in fixed.items()}
    sign = 1.0 if direction == "minimize" else -1.0
    matching = [trial for trial in trials if all(trial.unit[i] == u for i, u in at.items())]
    best = min(matching, key=lambda trial: sign * trial.value, default=None)  # type: ignore[operator]
    return None if best is None or best.value is None else Recommendation(best.params, best.value, None, best)


def best_expected(proposer: Proposer, objective: GP, history: History) -> Params:
    """The parameters of the proposer's region at which the posterior mean is highest, found from many starts.

    With black-box constraints, also by how likely it is to be feasible (constraints.py).

    Args:
        objective: of the history's outcomes.
    """
    settings, space, region = proposer.settings, proposer.space, proposer.region
    domain = Domain.of(space, settings.device, region)
    source = generator(settings.seed, Stream.OPTIMUM, len(history.Y))
    with computing(settings.device, settings.threads):
        gp: Surrogate = objective
        if history.constraints.size:
            gp = constrain(objective, objective.X, torch.from_numpy(history.constraints)[None].to(objective.X))
        x, label = pseudo_dataset(gp, m=STARTS, K=STEPS, rho=0.0, refine="point", source=source, domain=domain)
        start = x[:, [int(label[0].argmax())]]
        top = polish(gp, start, rho=0.0, domain=domain)
        points = torch.cat([top, start[0], x[0]]).cpu().numpy()
        if region is None:
            return space.decode(best_labelled(space.snap(points), gp, 0.0))
        settled = region.settle(points)
        if not len(settled):
            settled = proposer.another_point(settled, len(history.Y))[None]
        return region.params(best_labelled(settled, gp, 0.0))
