"""Whether an objective asks for parameters as the space says that the sampler was given, and what is said if not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from modeseek.errors import IndependentSamplingWarning, ModeseekWarning, ParameterError
from modeseek.integrations.optuna_trials import SEM, distribution, has_odd_sem, sem_attribute
from modeseek.notices import WarnOnce
from modeseek.space import Space

_ON_STEP = 1e-8  # of a step: Optuna's own tolerance


class Agreement:
    """Between the space that a sampler was given and what objectives ask for.

    Optuna takes a proposed value only if it lies in the range that the objective asks for, and draws another one if
    not, while the others stay: known constraints are then violated, and fixed values lost.

    Args:
        space: the sampler's.
        fixed: the sampler's, by name.
        warns: whether to warn, once, where nothing is at stake.
    """

    def __init__(self, space: Space, fixed: Mapping[str, Any], *, warns: bool) -> None:
        self._space, self._fixed = space, dict(fixed)
        self._warn = WarnOnce() if warns else None

    @property
    def _at_stake(self) -> str:
        """What another value than the proposed one could violate; empty where there is nothing."""
        held = {"constraints": self._space.constraints, "fixed values": self._fixed}
        return " and ".join(name for name, values in held.items() if values)

    def check_drawn(self, name: str, asked: BaseDistribution) -> None:
        """Before a value is drawn in place of the proposed one: ParameterError, or a warning if nothing is at stake."""
        if name not in self._space.names or asked == distribution(self._space[name]):
            return
        if self._at_stake:
            raise self._error(name, asked)
        if self._warn is not None:
            self._warn(
                f"{self._difference(name, asked)}; a proposed value that the objective does not take is replaced by "
                "one drawn at random",
                IndependentSamplingWarning,
            )

    def check_trial(self, trial: FrozenTrial) -> None:
        """ParameterError if a parameter of the trial need not take what is proposed, where something is at stake.

        Not for values that the user queued. Whether Optuna took the value of this trial is a matter of luck, and a
        range of one value it does not ask the sampler for at all.
        """
        if not self._at_stake:
            return
        queued = trial.system_attrs.get("fixed_params", {})
        for name, asked in trial.distributions.items():
            if name in self._space.names and name not in queued and not self._is_taken(name, asked):
                raise self._error(name, asked)

    def _is_taken(self, name: str, asked: BaseDistribution) -> bool:
        """Whether the objective takes every value that is proposed for a parameter."""
        if name not in self._fixed:
            return takes_all(asked, distribution(self._space[name]))
        try:
            return asked._contains(asked.to_internal_repr(self._fixed[name]))
        except ValueError:
            return False

    def _difference(self, name: str, asked: BaseDistribution) -> str:
        known = distribution(self._space[name])
        return f"the objective asks for {name!r} as {asked}, but the space= of DMSSampler says {known}"

    def _error(self, name: str, asked: BaseDistribution) -> ParameterError:
        return ParameterError(
            f"{self._difference(name, asked)}, so that the sampler cannot keep to its {self._at_stake}; ask for the "
            "same in the objective, or change the space"
        )


def takes_all(asked: BaseDistribution, known: BaseDistribution) -> bool:
    """Whether every value of `known` is one of `asked`."""
    if asked == known or isinstance(asked, CategoricalDistribution) or type(asked) is not type(known):
        return asked == known
    assert isinstance(asked, FloatDistribution | IntDistribution)
    assert isinstance(known, FloatDistribution | IntDistribution)
    ends = asked._contains(known.low) and asked._contains(known.high)
    return asked.log == known.log and ends and _divides(asked.step, known.step)


def _divides(step: float | None, other: float | None) -> bool:
    """Whether steps of `other` are whole numbers of `step`; None is no step."""
    if step is None or other is None:
        return step is None
    return abs(other / step - round(other / step)) < _ON_STEP


def warn_of_sems(study: Study, warn: WarnOnce) -> None:
    """Name the first complete trial of a study whose standard error cannot be used."""
    count = len(study.directions)
    needed = "a finite number of at least 0" if count == 1 else f"a list of {count} finite numbers of at least 0"
    example = "0.1" if count == 1 else str([0.1] * count)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        if has_odd_sem(trial, count):
            warn(
                f"trial {trial.number}: its attribute {SEM!r} is ignored, since {sem_attribute(trial)!r:.60} is not "
                f"{needed}; set it as in trial.set_user_attr({SEM!r}, {example})",
                ModeseekWarning,
            )
            return
