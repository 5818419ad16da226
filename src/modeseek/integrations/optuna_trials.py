"""A study of Optuna's as points of the unit cube: search space, trials, constraints, what running trials announce."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from modeseek.conditions import When
from modeseek.earlier import Told
from modeseek.errors import ConfigError, ParameterError, SpaceError
from modeseek.history import History
from modeseek.integrations.optuna_spaces import Distributions, Values
from modeseek.linear import Constraint, Feasible, Linear, is_feasible, name_of
from modeseek.parameters import Categorical, Float, Int, Parameter
from modeseek.space import Space
from modeseek.typing import Array

CONSTRAINTS = "constraints"  # the system attribute that holds constraints, or begins with it
SEM = "modeseek:sem"  # the attribute that holds the standard error of a value, of several values a list
ANNOUNCED = "modeseek:params"  # the system attribute of a running trial that holds its point


class Codec:
    """Between Optuna's search space and ours, where a categorical parameter is the index of its choice.

    Args:
        search_space: the parameters, with Optuna's distributions.
        when: under which values of others a parameter exists, in the numbers that Optuna stores.
        constraints: known ones, of parameters as the objective gets them.
        ordered: the names of categorical parameters whose choices have an order, which Optuna has no word for.
        reference: of several objectives a number each, in their own units; None: it is inferred from the front.
    """

    def __init__(
        self,
        search_space: Distributions,
        when: dict[str, Values] | None = None,
        constraints: Sequence[Constraint] = (),
        reference: Array | None = None,
        ordered: Container[str] = (),
    ) -> None:
        self.search_space, self._when, self._constraints = search_space, when or {}, constraints
        self._reference, self._ordered = reference, ordered
        inner = [c if isinstance(c, Linear) else self._inner(c) for c in constraints]
        self.space = self._space(_parameter, self._when, inner)

    @classmethod
    def of(cls, search_space: Distributions, space: Space, reference: Array | None = None) -> Codec:
        """With the conditions and constraints of a space whose parameters these are."""
        when = {
            name: {
                parent: tuple(int(search_space[parent].to_internal_repr(value)) for value in values)
                for parent, values in (space[name].when or {}).items()
            }
            for name in search_space
        }
        kept = {name: w for name, w in when.items() if w}
        return cls(search_space, kept, space.constraints, reference, ordered_choices(space))

    def _space(
        self,
        counterpart: Callable[[BaseDistribution], Parameter],
        when: Mapping[str, When],
        constraints: Sequence[Constraint],
    ) -> Space:
        parameters = {name: counterpart(distribution) for name, distribution in self.search_space.items()}
        for name, parameter in parameters.items():
            if isinstance(parameter, Categorical):
                parameters[name] = replace(parameter, when=when.get(name), ordered=name in self._ordered)
            else:
                parameters[name] = replace(parameter, when=when.get(name))
        return Space(parameters, constraints)

    def _inner(self, feasible: Feasible) -> Feasible:
        """The same function, of indices of choices."""
        inner = partial(self._is_feasible, feasible)
        vars(inner)["__qualname__"] = name_of(feasible)  # as messages have it
        return inner

    def _is_feasible(self, feasible: Feasible, values: dict[str, Any]) -> bool:
        return is_feasible(feasible, self._external(values))

    def _external(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self.search_space[name].to_external_repr(value) for name, value in values.items()}

    def fixed(self, values: Mapping[str, Any], trial: FrozenTrial) -> dict[str, Any]:
        """Values that this trial has in any case, those given and those it was queued with, as our space has them."""
        given = {**values, **trial.system_attrs.get("fixed_params", {})}
        found: dict[str, Any] = {}
        for name in self.space.conditions.order:
            if name in given and self.space.conditions.exists(name, found):
                distribution = self.search_space[name]
                with suppress(ValueError):  # what Optuna itself refuses is its own to say
                    found[name] = self.space[name].check(
                        _exactly(distribution, distribution.to_internal_repr(given[name]))
                    )
        return found

    def said(self, error: SpaceError, fixed: dict[str, Any]) -> str:
        """What an error of our space says of fixed values, with the choices themselves."""
        return str(error).replace(repr(fixed), repr(self._external(fixed)))

    @property
    def shown(self) -> Space:
        """The same space with the choices themselves, as text where our spaces have no such choice."""
        shown = {name: _shown(distribution) for name, distribution in self.search_space.items()}
        when = {
            name: {
                parent: [shown[parent].decode(self.space[parent].encode(v)) for v in values]
                for parent, values in w.items()
            }
            for name, w in self._when.items()
        }
        return self._space(_shown, when, self._constraints)

    def internal(self, point: Array) -> dict[str, float]:
        """A point (d) in the numbers that Optuna stores."""
        return {name: float(value) for name, value in self.space.decode(point).items()}

    def params(self, point: Array) -> dict[str, Any]:
        """A point (d) as the values that the objective gets."""
        return self._external(self.space.decode(point))

    def unit(self, trial: FrozenTrial) -> Array | None:
        """The trial's point (d); None when it has not all parameters, or values out of their range."""
        known, announced = trial.params, dict[str, float]()
        if not trial.state.is_finished():
            known = trial.system_attrs.get("fixed_params", {}) | known
            announced = trial.system_attrs.get(ANNOUNCED, {})
        values: dict[str, Any] = {}
        for name in self.space.conditions.order:
            if not self.space.conditions.exists(name, values):
                continue
            distribution = self.search_space[name]
            try:
                value = distribution.to_internal_repr(known[name]) if name in known else announced[name]
                values[name] = _exactly(distribution, value)
            except (KeyError, ValueError, OverflowError):
                return None
        try:
            return self.space.encode(values)
        except ParameterError:
            return None

    def read(self, study: Study, trial: FrozenTrial | None = None) -> History:
        """All trials of the study but this one."""
        own = None if trial is None else trial.number
        rows = [(other, self.unit(other)) for other in study.get_trials(deepcopy=False) if other.number != own]
        placed = [(other, unit) for other, unit in rows if unit is not None]
        done = [(other, unit) for other, unit in placed if is_data(other)]
        signs = [-1.0 if direction == StudyDirection.MINIMIZE else 1.0 for direction in study.directions]
        values = np.array([other.values for other, _ in done], dtype=np.float64).reshape(-1, len(signs)) * signs
        sem = np.array([_sems(other, len(signs)) for other, _ in done], dtype=np.float64).reshape(values.shape)
        return History.of(
            [unit for _, unit in done],
            values if len(signs) > 1 else values[:, 0],
            d=self.space.d,
            constraints=_constraints([other for other, _ in done]),
            pending=[unit for other, unit in placed if other.state == TrialState.RUNNING],
            lost=[unit for other, unit in placed if other.state.is_finished() and not is_data(other)],
            proposed=[unit for other, unit in placed if self._is_whole(other)],
            sem=sem if len(signs) > 1 else sem[:, 0],
            reference=None if self._reference is None else self._reference * signs,
        )

    def _is_whole(self, trial: FrozenTrial) -> bool:
        """Whether the trial's point must not come again.

        A finite space has few points to give; there, one that had other parameters beside it may come with others.
        """
        return math.isinf(self.space.size) or all(
            name in self.search_space or distribution.single() for name, distribution in trial.distributions.items()
        )


def _exactly(distribution: BaseDistribution, internal: float) -> float:
    """A number that Optuna stores, as an int where it is one."""
    return internal if isinstance(distribution, FloatDistribution) else int(internal)


def is_modelled(name: str, distribution: BaseDistribution) -> bool:
    """Whether our spaces have a counterpart of this distribution."""
    try:
        Space({name: _parameter(distribution)})
    except SpaceError:
        return False
    return True


def announce(study: Study, trial: FrozenTrial, internal: dict[str, float]) -> None:
    """Let other workers know the point of a running trial, in the numbers that Optuna stores."""
    study._storage.set_trial_system_attr(trial._trial_id, ANNOUNCED, internal)


def ordered_choices(space: Space) -> list[str]:
    """The parameters whose choices have an order."""
    return [name for name in space if isinstance(parameter := space[name], Categorical) and parameter.ordered]


def _parameter(distribution: BaseDistribution) -> Parameter:
    """Our counterpart of a distribution; SpaceError when there is none."""
    if isinstance(distribution, FloatDistribution):
        return Float(distribution.low, distribution.high, log=distribution.log, step=distribution.step)
    if isinstance(distribution, IntDistribution):
        return _exact(Int(distribution.low, distribution.high, log=distribution.log, step=distribution.step))
    if isinstance(distribution, CategoricalDistribution):
        return Categorical(range(len(distribution.choices)))
    raise SpaceError(f"{distribution!r} is not known here")


def _shown(distribution: BaseDistribution) -> Parameter:
    if not isinstance(distribution, CategoricalDistribution):
        return _parameter(distribution)
    try:
        return Categorical(distribution.choices)
    except SpaceError:
        return Categorical([f"{i}: {choice!r}" for i, choice in enumerate(distribution.choices)])


def distribution(parameter: Parameter) -> BaseDistribution:
    """Optuna's counterpart of a parameter; SpaceError when its storage would not keep the values as they are."""
    if isinstance(parameter, Categorical):
        choices: Any = parameter.choices
        if any(isinstance(choice, Enum) for choice in choices):
            raise SpaceError("Optuna stores no members of an Enum; use their names")
        return CategoricalDistribution(choices)
    kind: Any = IntDistribution if isinstance(_exact(parameter), Int) else FloatDistribution
    return kind(parameter.low, parameter.decode(1.0), log=parameter.log, step=parameter.step)  # type: ignore[no-any-return]


def _exact(parameter: Parameter) -> Parameter:
    if isinstance(parameter, Int) and not parameter.is_exact_as_float:
        raise SpaceError("Optuna stores integers as float64, exact to 2**53; search an offset or an exponent instead")
    return parameter


def _sems(trial: FrozenTrial, count: int) -> list[float]:
    """The standard error of each of a trial's values; NaN where none is known, or the attribute makes no sense."""
    value = sem_attribute(trial)
    if _is_unknown(value) or has_odd_sem(trial, count):
        return [math.nan] * count
    return [math.nan if _is_unknown(error) else float(error) for error in ([value] if count == 1 else value)]


def sem_attribute(trial: FrozenTrial) -> Any:
    """What a trial has as the standard error of its value; None where it has nothing."""
    return trial.system_attrs.get(SEM, trial.user_attrs.get(SEM))


def has_odd_sem(trial: FrozenTrial, count: int) -> bool:
    """Whether a trial of so many values has a standard error that is ignored.

    And not because it says, by None or NaN, that it is not known.
    """
    value = sem_attribute(trial)
    errors = [value] if count == 1 else value
    if _is_unknown(value):
        return False
    if not isinstance(errors, list | tuple) or len(errors) != count:
        return True
    return not all(_is_unknown(error) or _is_sem(error) for error in errors)


def _is_unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_sem(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def told_by(study: Study) -> Told:
    """What a study of one objective tells another one; ConfigError where it has several."""
    if len(study.directions) > 1:
        raise ConfigError(f"transfer: study {study.study_name!r} has {len(study.directions)} objectives")
    sign = -1.0 if study.direction == StudyDirection.MINIMIZE else 1.0
    trials = [trial for trial in study.get_trials(deepcopy=False) if is_data(trial)]
    return Told([dict(trial.params) for trial in trials], [sign * float(trial.values[0]) for trial in trials])


def is_data(trial: FrozenTrial) -> bool:
    """Whether a trial is complete, with finite values."""
    return trial.state == TrialState.COMPLETE and bool(trial.values) and all(map(math.isfinite, trial.values))


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """The constraints of a trial by name: Optuna 5 keeps each under a key of its own, `constraints_func` a list."""
    prefix = f"{CONSTRAINTS}:"
    values = {str(i): value for i, value in enumerate(trial.system_attrs.get(CONSTRAINTS) or ())}
    return values | {k.removeprefix(prefix): v for k, v in trial.system_attrs.items() if k.startswith(prefix)}


def _constraints(trials: list[FrozenTrial]) -> Array:
    """The constraints' values, n x q; q is 0 when there are none."""
    by_trial = [constraints_of(trial) for trial in trials]
    names = sorted(set().union(*by_trial))
    table = np.array([[values.get(name, np.nan) for name in names] for values in by_trial], dtype=np.float64)
    for column in table.T:
        met = column[column <= 0]
        column[np.isnan(column)] = met.mean() if len(met) else 0.0
    return np.clip(table, -sys.float_info.max, sys.float_info.max)
