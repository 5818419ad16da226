"""What to use: which of the observed points, under noise or not; and where some values are given, what is expected."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from modeseek.computing import computing
from modeseek.constraints import ConstrainedGP, constrain
from modeseek.domain import Domain
from modeseek.history import History, with_values
from modeseek.map_fit import evenly, fit, log_posterior
from modeseek.outcome_transforms import MIN_KNOWN_NOISE
from modeseek.priors import theta_of
from modeseek.proposer import Proposer, best_labelled
from modeseek.pseudo import polish, pseudo_dataset
from modeseek.sampled_optimum import recommended
from modeseek.settings import Stream, generator
from modeseek.space import Space
from modeseek.surrogate import GP, MANY, least_noise
from modeseek.trials import Trial
from modeseek.typing import Array, Params

STARTS, STEPS = 256, 20  # of climbs to where the mean is best
LIKELY = 0.5  # probability from which on a point counts as feasible


@dataclass(frozen=True)
class Recommendation:
    """Parameters, and what they are worth.

    Attributes:
        params: a dict by name, or an array for a box.
        value: as observed; of a point that has not been evaluated, what the surrogate expects.
        std: the standard deviation of what it expects; None for what was observed.
        trial: the trial that it was observed in; None where there is none with these values.
        feasible: with black-box constraints, how probable it is that all are met; 1 for what was observed.
    """

    params: Params
    value: float
    std: float | None = None
    trial: Trial | None = None
    feasible: float = 1.0


def recommended_or_best(gp: GP, constraints: Tensor | None) -> int:
    """Which observation (of a batch of one) is recommended: the feasible one with the best posterior mean.

    Where the outcomes do not speak for noise, the one with the best outcome.

    Args:
        constraints: 1 x n x q, at most 0 where feasible; TrialError where nothing is.
    """
    violated = torch.zeros_like(gp.y, dtype=torch.bool) if constraints is None else (constraints > 0).any(-1)
    chosen, best = int(recommended(gp, constraints)), int(gp.y.masked_fill(violated, -torch.inf).argmax(-1))
    return chosen if chosen == best or is_noisy(gp) else best


def is_noisy(gp: GP) -> bool:
    """Whether the outcomes of a Gaussian process (a batch of one) speak for noise.

    They do if their evidence is higher with the fitted noise than without any by ½ log n, the price of a parameter,
    each with its best length-scales. Else a posterior mean that is not the observed value is the model's error.
    """
    if (known := gp.given.known_noise) is not None:
        return not bool((known <= least_noise(known.shape[-1], MIN_KNOWN_NOISE)).all())
    X, y = evenly(gp.X, gp.y, MANY)
    fitted = fit(X, y, gp.hyperparameters, given=gp.given)
    without = gp.given._replace(known_noise=torch.full_like(y, MIN_KNOWN_NOISE))
    exact = fit(X, y, gp.hyperparameters, given=without)
    gain = _evidence(fitted) - _evidence(exact)
    return bool(gain > 0.5 * math.log(y.shape[-1]))


def _evidence(gp: GP) -> Tensor:
    """log p(y | X, θ) + log p(ℓ): b."""
    theta = theta_of(gp.hyperparameters)
    value, _ = log_posterior(gp.X, gp.y, theta, gp.given)
    return value - gp.given.prior.log_density(theta[..., -1])[0]


def having(space: Space, history: History, fixed: Mapping[str, Any]) -> NDArray[np.int64]:
    """Which outcomes of a history are feasible and at points with the fixed values, by name."""
    fits = np.ones(len(history.Y), dtype=bool)
    if history.constraints.size:
        fits &= (history.constraints <= 0).all(1)
    return np.flatnonzero(fits & with_values(space, history.X, fixed))


def best_expected(proposer: Proposer, objective: GP, history: History) -> tuple[Params, float]:
    """The parameters of the proposer's region at which the posterior mean is highest, found from many starts.

    With black-box constraints, of those that are more likely feasible than not; where there are none, the parameters
    that are most likely to be. And how likely that is.

    Args:
        objective: of the history's outcomes.
    """
    settings, space, region = proposer.settings, proposer.space, proposer.region
    domain = Domain.of(space, settings.device, region)
    source = generator(settings.seed, Stream.OPTIMUM, len(history.Y))
    with computing(settings.device, settings.threads):
        gp: GP | ConstrainedGP = objective
        if history.constraints.size or len(history.lost):
            limits, lost = (
                torch.from_numpy(part)[None].to(objective.X) for part in (history.constraints, history.lost)
            )
            gp = constrain(objective, objective.X, limits, lost if lost.shape[-2] else None)
        x, label = pseudo_dataset(gp, m=STARTS, K=STEPS, rho=0.0, refine="point", source=source, domain=domain)
        start = x[:, [int(label[0].argmax())]]
        top = polish(gp, start, rho=0.0, domain=domain)
        points = torch.cat([top, start[0], x[0]]).cpu().numpy()
        settled = space.snap(points) if region is None else region.settle(points)
        if not len(settled):
            settled = proposer.another_point(settled, len(history.Y))[None]
        point, feasible = _most_promising(settled, gp)
        return (space.decode(point) if region is None else region.params(point)), feasible


def _most_promising(points: Array, gp: GP | ConstrainedGP) -> tuple[Array, float]:
    """The best of the points (k x d), and how probable it is to be feasible, as in `best_expected`."""
    if not isinstance(gp, ConstrainedGP):
        return best_labelled(points, gp, 0.0), 1.0
    probability = gp.log_feasibility(torch.from_numpy(points).to(gp.X)[None])[0].exp().cpu().numpy()
    likely = probability >= LIKELY
    if not likely.any():
        return points[probability.argmax()], float(probability.max())
    best = best_labelled(points[likely], gp.objective, 0.0)
    return best, float(probability[(points == best).all(1)].max())
