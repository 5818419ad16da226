"""The space of a file beside the one that a study's trials have: whether they agree, and how a trial asks for it."""

from __future__ import annotations

import shlex
from itertools import count
from typing import Any

import optuna
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState

from modeseek.errors import StudyError
from modeseek.integrations.optuna_trials import distribution
from modeseek.parameters import Categorical, Int, Parameter
from modeseek.space import Space


def check_space(study: optuna.Study, space: Space) -> None:
    """StudyError where a trial does not lie in the space, or a choice has changed; it says how to go on."""
    here = {name: distribution(space[name]) for name in space}
    for trial in study.get_trials(deepcopy=False):
        there = trial.distributions
        existing = {name for name in space if space.conditions.exists(name, trial.params)}
        names = existing | there.keys() if trial.state is TrialState.COMPLETE else there.keys()
        for name in sorted(names):
            ours, theirs = here.get(name), there.get(name)
            if ours != theirs and not _still_fits(ours, theirs, trial.params, name):
                raise StudyError(
                    f"study {study.study_name!r} exists with another space: in trial {trial.number} parameter {name!r} "
                    f"is {theirs or 'missing'}, and here {ours or 'missing'}; give its space, or go on in a new study "
                    f"that learns from it: {_going_on(study, 'known' if ours and theirs else 'transfer')}"
                )


def _going_on(study: optuna.Study, option: str) -> str:
    """The arguments of a command that goes on with what this study has, under a name that is free."""
    old, taken = study.study_name, optuna.get_all_study_names(study._storage)
    new = next(name for i in count(2) if (name := f"{old}-{i}") not in taken)
    return f"--study {shlex.quote(new)} --{option} {shlex.quote(old)}"


def _still_fits(here: Any, there: Any, params: dict[str, Any], name: str) -> bool:
    """Whether a number's range has changed and holds the trial's value; Optuna lets no choices change."""
    kinds = (FloatDistribution, IntDistribution)
    if not isinstance(here, kinds) or type(here) is not type(there):
        return False
    return bool(here._contains(here.to_internal_repr(params[name])))


def ask_params(trial: Trial, space: Space) -> dict[str, Any]:
    """A trial's parameters, by name and in the space's order; those that exist."""
    params: dict[str, Any] = {}
    for name in space.conditions.order if space.conditions else space:
        if space.conditions.exists(name, params):
            params[name] = _suggest(trial, name, space[name])
    return {name: params[name] for name in space if name in params}


def _suggest(trial: Trial, name: str, parameter: Parameter) -> Any:
    ask: Any
    if isinstance(parameter, Categorical):
        ask = trial.suggest_categorical
        return ask(name, parameter.choices)
    ask = trial.suggest_int if isinstance(parameter, Int) else trial.suggest_float
    return ask(name, parameter.low, parameter.decode(1.0), log=parameter.log, step=parameter.step)
