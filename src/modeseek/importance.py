"""How much each parameter matters, by the surrogate: total effects of its posterior mean μ.

    T_i = E[Var(μ | all but x_i)] / Var(μ) = E[(μ(a) − μ(a with x_i of b))²] / (2 Var(μ))      (Jansen 1999)

a and b are independent and uniform on the cube: a logarithmic parameter is uniform in its logarithm, every choice is
as probable as the others. T_i is the share of the variance that is lost once x_i is held, interactions included: where
parameters interact, the T_i add up to more than 1. One that exists only under a choice counts where it exists.
Constraints are not looked at.

Notation: N, points; d, parameters.
"""

from __future__ import annotations

import torch

from modeseek.computing import computing
from modeseek.design import sobol
from modeseek.history import History
from modeseek.optimum import surrogate_of
from modeseek.settings import Settings, Stream, generator
from modeseek.space import Space
from modeseek.surrogate import GP

POINTS = 1024


def importance(space: Space, history: History, settings: Settings, objective: int = 0) -> dict[str, float]:
    """The total effect of each parameter by name, the largest first; 0 for all where the outcome is constant.

    Args:
        history: TrialError where it has no outcome.
        objective: of several, which.
    """
    gp, _ = surrogate_of(space, history.of_objective(objective), settings)
    with computing(settings.device, settings.threads):
        both = sobol(POINTS, 2 * space.d, generator(settings.seed, Stream.IMPORTANCE))
        a, b = both[:, : space.d], both[:, space.d :]
        at_a = _mean(space, gp, a)
        variance = float(torch.cat([at_a, _mean(space, gp, b)]).var())
        effects = {}
        for i, name in enumerate(space.coordinates):
            moved = a.clone()
            moved[:, i] = b[:, i]
            change = float((_mean(space, gp, moved) - at_a).square().mean())
            effects[name] = change / (2 * variance) if variance > 0 else 0.0
    return dict(sorted(effects.items(), key=lambda pair: -pair[1]))


def _mean(space: Space, gp: GP, x: torch.Tensor) -> torch.Tensor:
    """The posterior mean at the configurations of the points x, N x d: N."""
    snapped = torch.from_numpy(space.snap(x.cpu().numpy())).to(gp.X)
    return gp.posterior(snapped[None])[0][0]
