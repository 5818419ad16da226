"""What a study has come to: in words, and as a picture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from modeseek.checks import missing_extra
from modeseek.commands.optimize.spaces import check_space
from modeseek.commands.optimize.storage import open_storage
from modeseek.commands.optimize.store import SPACE, best_value, directions_of, known_trials, load_study, spreads
from modeseek.digits import in_range, rounded
from modeseek.errors import ConfigError, SpaceNeeded, TrialError
from modeseek.fronts import as_reference, hypervolume
from modeseek.integrations.optuna_trials import constraints_of
from modeseek.space import Space
from modeseek.trials import least_violation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def show(
    storage: str,
    name: str | None,
    picture: Path | None = None,
    space: Space | None = None,
    fixed: Mapping[str, Any] | None = None,
    reference: Sequence[float] | None = None,
) -> Path:
    """Print the summary of a study (None: the only one there) and write its picture, by default `<study>.png`.

    Where functions are among its known constraints, the space is needed to say where the optimum lies: a study only has
    their names, and what a storage names is not imported.

    Args:
        fixed: values of parameters of the space: what is best, and where the optimum lies, with these values.
        reference: of several objectives, the point above which the hypervolume is.
    """
    study = load_study(open_storage(storage, existing=True), name)
    print(summary(study, fixed, reference))
    from modeseek.integrations.optuna import DMSSampler  # here: `summary` has no need of torch

    if space is not None:
        check_space(study, space)
    if len(study.directions) == 1:  # several objectives have no optimum
        try:
            stored = study.user_attrs.get(SPACE)
            space = Space.from_dict(stored) if space is None and stored is not None else space
            print(DMSSampler(seed=0, space=space, fixed=fixed).optimum(study))
        except SpaceNeeded:
            print("where the optimum lies: give --space FILE too, since a known constraint is a function")
        except (TrialError, ConfigError):  # nothing is complete, or feasible, yet
            pass
    picture = picture or Path(re.sub(r"[^\w.-]+", "-", study.study_name) + ".png")
    _draw(study, picture)
    print(f"picture: {picture.resolve()}")
    return picture


def summary(
    study: optuna.Study, fixed: Mapping[str, Any] | None = None, reference: Sequence[float] | None = None
) -> str:
    """Trials by state, and the best one; arguments as in `show`."""
    trials = study.get_trials(deepcopy=False)
    counts = Counter(trial.state.name.lower() for trial in trials)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    direction = ", ".join(directions_of(study))
    known = f", {len(there)} of them known beforehand" if (there := known_trials(study)) else ""
    lines = [f"study {study.study_name!r} ({direction}): {len(trials)} trials ({states or 'none'}){known}"]
    if reference is not None:
        as_reference(reference, len(study.directions))
    if len(study.directions) > 1 and (front := study.best_trials):
        signs = [1 if direction == StudyDirection.MAXIMIZE else -1 for direction in study.directions]
        volume = hypervolume([trial.values for trial in front], signs, reference)
        lines.append(f"front of {len(front)} trials, hypervolume {volume:.6g}; their values and parameters:")
        lines += [f"  {_values(study, t)}  {t.params} (trial {t.number})" for t in sorted(front, key=_by_values)]
        return "\n".join(lines)
    if best_value(study) is not None:
        best = study.best_trial
        lines.append(f"best value {_values(study, best)} (trial {best.number})")
        return "\n".join([*lines, *_listed(best), *_of_fixed(study, fixed or {}, best)])
    done = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    if not done:
        return "\n".join([*lines, "no trial is complete"])
    limits = [list(constraints_of(trial).values()) for trial in done]
    nearest = least_violation(limits)
    lines.append(f"no trial is feasible; least violated by trial {done[nearest].number}: {limits[nearest]}")
    return "\n".join([*lines, *_listed(done[nearest])])


def _of_fixed(study: optuna.Study, fixed: Mapping[str, Any], best: FrozenTrial) -> list[str]:
    """The best feasible trial that has the fixed values, where that is not the best of all."""
    if not fixed:
        return []
    named = ", ".join(f"{name}={value!r}" for name, value in fixed.items())
    these = [
        trial
        for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if all(limit <= 0 for limit in constraints_of(trial).values())
        and all(name in trial.params and trial.params[name] == value for name, value in fixed.items())
    ]
    if not these:
        return [f"no feasible trial with {named}"]
    sign = 1 if study.direction == StudyDirection.MINIMIZE else -1
    first = min(these, key=lambda trial: (sign * trial.values[0], trial.number))
    if first.number == best.number:
        return []
    return [f"best with {named}: value {_values(study, first)} (trial {first.number})", *_listed(first)]


def _by_values(trial: FrozenTrial) -> list[float]:
    return list(trial.values)


def _values(study: optuna.Study, trial: FrozenTrial) -> str:
    return ", ".join(map(rounded, trial.values, spreads(study)))


def _listed(trial: FrozenTrial) -> list[str]:
    width = max(map(len, trial.params), default=0)
    return [f"  {name:<{width}}  {_of_parameter(trial, name)}" for name in trial.params]


def _of_parameter(trial: FrozenTrial, name: str) -> str:
    value, kind = trial.params[name], trial.distributions[name]
    if not isinstance(kind, FloatDistribution) or kind.step is not None:
        return repr(value)
    return in_range(value, kind.low, kind.high)


def _draw(study: optuna.Study, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("the picture needs matplotlib", "cli") from error
    figure = Figure(figsize=(7, 4), layout="constrained")
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise ConfigError(f"the picture cannot be {str(path)!r}; its name must end in .png or another of {list(kinds)}")
    axes = figure.subplots()
    (_draw_values if len(study.directions) == 1 else _draw_front)(study, axes)
    axes.set_title(study.study_name.replace("$", r"\$"))
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _draw_values(study: optuna.Study, axes: Axes) -> None:
    """The observed values and the best feasible one so far, over trials."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    numbers = np.array([trial.number for trial in done])
    values = np.array([trial.value for trial in done], dtype=np.float64)
    feasible = np.array([all(limit <= 0 for limit in constraints_of(trial).values()) for trial in done], dtype=bool)
    better = np.fmin if study.direction == StudyDirection.MINIMIZE else np.fmax  # which pass over NaN
    best = better.accumulate(np.where(feasible, values, np.nan)) if len(values) else values
    axes.scatter(numbers[feasible], values[feasible], s=14, alpha=0.5, label="observed")
    if not feasible.all():
        axes.scatter(numbers[~feasible], values[~feasible], s=14, marker="x", alpha=0.5, label="infeasible")
    axes.step(numbers, best, where="post", label="best so far")
    axes.set(xlabel="trial", ylabel="value")
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)


def _draw_front(study: optuna.Study, axes: Axes) -> None:
    """All trials by the first two objectives, and the front."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    for trials, label in ((done, "observed"), (study.best_trials, "front")):
        axes.scatter([t.values[0] for t in trials], [t.values[1] for t in trials], s=14, alpha=0.6, label=label)
    first, second, *_ = directions_of(study)
    axes.set(xlabel=f"objective 0 ({first})", ylabel=f"objective 1 ({second})")
