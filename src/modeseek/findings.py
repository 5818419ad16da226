"""What the trials of a run say: the best, the front, what to use, what is known of the optimum. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike

from modeseek.computing import computing
from modeseek.errors import ConfigError, TrialError
from modeseek.hyperparameters import Several
from modeseek.knowledge import Knowledge
from modeseek.optimum import DRAWS, Optimum, predict, several_of, surrogate_of
from modeseek.outcome_transforms import OutcomeMap
from modeseek.proposer import Proposer
from modeseek.recommendation import LIKELY, Recommendation, best_expected, is_noisy, recommended_or_best
from modeseek.settings import Configured, Settings
from modeseek.space import Space
from modeseek.surrogate import GP
from modeseek.trials import Direction, Goal, Trial, Trials, TrialState, front_volume
from modeseek.typing import Array, Params

FEWEST = 3  # outcomes that say anything of their noise


class Findings(Configured):
    """What trials say, by the surrogate of the settings where they do not say it themselves.

    `Optimizer` asks it of its trials as they come in, `Result` of those of a whole run.

    Args:
        trials: of the space; those that come later are considered, too.
        reference: of several objectives, what is worse in any of them is worth nothing; None: inferred from the front.
        knowledge: what was known before the first evaluation.
    """

    def __init__(
        self,
        space: Space,
        direction: Goal,
        settings: Settings,
        trials: Trials,
        *,
        reference: Array | None = None,
        knowledge: Knowledge | None = None,
    ) -> None:
        self._settings = settings
        self.space, self.direction, self.reference = space, direction, reference
        self._proposer = Proposer(space, settings, knowledge=knowledge)
        self._trials = trials
        self._drawn: tuple[int, tuple[Several, OutcomeMap]] | None = None  # after so many outcomes, for `predict`

    @property
    def n_initial(self) -> int:
        """Evaluations before the model is used."""
        return self._settings.n_initial

    @property
    def best(self) -> Trial | None:
        """The feasible trial with the best value, as observed; None before there is one. See `recommend`."""
        return self._trials.best(self._one("there is no best trial; see `front`"))

    @property
    def front(self) -> list[Trial]:
        """The feasible trials that no other one beats in every objective; of one objective, the best."""
        return self._trials.front(self.direction)

    def hypervolume(self, reference: ArrayLike | None = None) -> float:
        """The volume between the front and a reference point, which is worse than the front in every objective.

        Args:
            reference: a number per objective. None: the run's own, and where it has none, one inferred from the front,
                so that the volumes of different fronts do not compare.
        """
        return front_volume(self.front, self.direction, self.reference if reference is None else reference)

    @property
    def least_violated(self) -> Trial | None:
        """The completed trial nearest to being feasible; while nothing is feasible, where to look closer."""
        return self._trials.least_violated()

    def recommend(self) -> Trial | None:
        """The feasible trial with the best posterior mean: under noise a safer choice than `best`. Changes nothing.

        Of those that were observed to be feasible, it must be so by the constraints' models too, where one is. It
        is `best` where the outcomes do not speak for noise (`recommendation.is_noisy`).
        """
        direction = self._one("no trial is recommended; see `front`")
        if self.best is None or self.noise == "none":
            return self.best
        gp, _ = self._surrogate()
        limits = torch.from_numpy(self._trials.history(direction).constraints).to(gp.X)[None]
        with computing(self.device, self._settings.threads):
            return self._trials.having(TrialState.COMPLETE)[recommended_or_best(gp, limits)]

    def _is_noisy(self) -> bool:
        """Whether the outcomes speak for noise; of one or two nobody can tell."""
        if self.noise == "none" or len(self._trials.having(TrialState.COMPLETE)) < FEWEST:
            return False
        gp, _ = self._surrogate()
        with computing(self.device, self._settings.threads):
            return is_noisy(gp)

    def best_for(self, fixed: Mapping[str, Any] | None = None, /, **values: Any) -> Recommendation | None:
        """The best parameters that have these values: `best_for(machine="B")`, or a dict. Changes nothing.

        If there are feasible trials with these values, it is the best of them, as observed. If there is none, it is
        what the surrogate expects to be best from all other trials, and with black-box constraints feasible: its
        `feasible` says how likely that is. None before any trial is complete.
        """
        direction = self._one("best_for() knows none; see `front`")
        if fixed is not None and not isinstance(fixed, Mapping):
            raise ConfigError(f"best_for takes values by name, best_for(machine='B') or a dict, not {fixed!r}")
        chosen = {**(fixed or {}), **values}
        with self._proposer.holding(chosen) as region:
            wanted = {} if region is None or not chosen else region.fixed
            best = self._trials.best(direction, wanted)
            if best is not None and best.value is not None:
                return Recommendation(best.params, best.value, None, best)
            if not self._trials.having(TrialState.COMPLETE):
                return None
            params, likely = best_expected(self._proposer, self._surrogate()[0], self._trials.history(self.direction))
        mean, std = self.predict(params)
        return Recommendation(params, mean, std, feasible=likely)

    def optimum(self, *, draws: int = DRAWS, fixed: Mapping[str, Any] | None = None) -> Optimum:
        """What is known of the optimum: samples, modes, intervals, the regret still to be expected. Changes nothing.

        With black-box constraints, of the best feasible point: each function that the observations allow for comes
        with constraints that they allow for.

        Args:
            draws: functions drawn from the posterior, one sample of the optimum each.
            fixed: values by name, as in `ask`: the optimum among parameters that have them, and the regret of what
                `best_for` gives for them.
        """
        direction = self._one("optimum() says nothing of a front; see `front`")
        history = self._trials.history(direction)
        best = self.best_for(fixed) if fixed else None
        if best is not None and best.feasible < LIKELY:
            raise TrialError(
                f"nothing is likely to be feasible with {dict(fixed or {})}: {best.feasible:.0%} at the most"
            )
        point = None if best is None else self.space.encode(best.params)
        return Optimum.of(
            self.space, history, direction, self._settings, self._proposer.state, draws=draws, fixed=fixed, point=point
        )

    def predict(self, params: Params | Sequence[Params]) -> tuple[Any, Any]:
        """Mean and standard deviation of the objective at these parameters, in its own units. Changes nothing.

        Two numbers; of several objectives two tuples, with a number per objective, as `trial.values` has them. Of a
        list of parameters (of a box also an array, a row each) two arrays, of several objectives with a column each;
        that takes far less time than one after the other. Of the objective itself: an observation of it has its noise
        in addition.
        """
        history = self._trials.history(self.direction)
        if self._drawn is None or self._drawn[0] != len(history.Y):
            self._drawn = len(history.Y), several_of(self.space, history, self._settings, self._proposer.state)
        with computing(self.device, self._settings.threads):
            return predict(self.space, *self._drawn[1], self.direction, params)

    def _surrogate(self) -> tuple[GP, OutcomeMap]:
        return surrogate_of(self.space, self._trials.history(self.direction), self._settings, self._proposer.state)

    def _one(self, otherwise: str) -> Direction:
        """The direction of the only objective; ConfigError where there are several."""
        if isinstance(self.direction, tuple):
            raise ConfigError(f"with {len(self.direction)} objectives {otherwise}")
        return self.direction
