"""When to stop: once it is probable enough that little is left to be gained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modeseek.errors import ConfigError
from modeseek.trials import Trial, TrialState

if TYPE_CHECKING:
    from modeseek.optimizer import Optimizer
    from modeseek.optimum import Optimum

DRAWS = 100


def caveat(direction: object) -> str:
    """What being sure does not cover, in a few words."""
    what = "peak" if direction == "maximize" else "valley"
    return f"by the surrogate, which sees no narrow {what} that no evaluation has touched"


@dataclass(frozen=True, kw_only=True)
class WhenSure:
    """Stop when the recommended point is within `regret` of the optimum with this probability.

        ms.minimize(f, space, budget=200, stop=ms.WhenSure(regret=0.01, probability=0.95))

    The probability is the surrogate's, from `DRAWS` functions that the observations allow for. It is asked after each
    trial once as many are complete as the initial design has (with the values of `fixed=`, if any), which takes longer
    than a suggestion.

    What the surrogate takes for noise may be narrow valleys between the evaluations, as Rastrigin's. So the standard
    deviation of noise that is not known counts toward the regret, and a run whose noise is larger than `regret` is not
    stopped: give its standard error (`sem=`), or say that there is none (`noise="none"`). docs/optimum.md has how often
    it was right.

    Args:
        regret: in the objective's own units.
        probability: between 0 and 1.
    """

    regret: float
    probability: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what makes no sense, by name."""
        for name, top in (("regret", math.inf), ("probability", 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < top:
                raise ConfigError(f"WhenSure: {name} must be above 0 and below {top}, not {value!r}")

    def satisfied_by(self, optimum: Optimum) -> bool:
        """Whether what is known is enough."""
        return optimum.probability_of_regret_below(self.regret, ripples=True) >= self.probability

    def __call__(self, optimizer: Optimizer, trial: Trial, fixed: Mapping[str, Any] | None = None) -> bool:
        """As a callback of `minimize`; with fixed values, of the optimum among parameters that have them."""
        done = optimizer._trials.having(TrialState.COMPLETE, fixed)
        if len(done) < optimizer.n_initial or not any(t.feasible for t in done):
            return False
        return self.satisfied_by(optimizer.optimum(draws=DRAWS, fixed=fixed))
