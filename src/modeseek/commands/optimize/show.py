"""What a study has come to: in words, and as a picture."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from modeseek.checks import missing_extra
from modeseek.commands.optimize.storage import open_storage
from modeseek.commands.optimize.store import SPACE, best_value, load_study
from modeseek.errors import ConfigError, TrialError
from modeseek.integrations.optuna_trials import constraints_of
from modeseek.space import Space
from modeseek.trials import least_violation


def show(storage: str, name: str | None, picture: Path | None = None) -> Path:
    """Print the summary of a study (None: the only one there) and write its picture, by default `<study>.png`."""
    study = load_study(open_storage(storage, existing=True), name)
    print(summary(study))
    from modeseek.integrations.optuna import DMSSampler  # here: `summary` has no need of torch

    with suppress(TrialError):
        stored = study.user_attrs.get(SPACE)
        print(DMSSampler(seed=0, space=None if stored is None else Space.from_dict(stored)).optimum(study))
    picture = picture or Path(re.sub(r"[^\w.-]+", "-", study.study_name) + ".png")
    _draw(study, picture)
    print(f"picture: {picture.resolve()}")
    return picture


def summary(study: optuna.Study) -> str:
    """Trials by state, and the best one."""
    trials = study.get_trials(deepcopy=False)
    counts = Counter(trial.state.name.lower() for trial in trials)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    direction = study.direction.name.lower()
    lines = [f"study {study.study_name!r} ({direction}): {len(trials)} trials ({states or 'none'})"]
    if best_value(study) is not None:
        best = study.best_trial
        lines.append(f"best value {best.value:.6g} (trial {best.number})")
        return "\n".join([*lines, *_listed(best)])
    done = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    if not done:
        return "\n".join([*lines, "no trial is complete"])
    limits = [list(constraints_of(trial).values()) for trial in done]
    nearest = least_violation(limits)
    lines.append(f"no trial is feasible; least violated by trial {done[nearest].number}: {limits[nearest]}")
    return "\n".join([*lines, *_listed(done[nearest])])


def _listed(trial: FrozenTrial) -> list[str]:
    width = max(map(len, trial.params), default=0)
    return [
        f"  {name:<{width}}  {f'{value:.6g}' if isinstance(value, float) else repr(value)}"
        for name, value in trial.params.items()
    ]


def _draw(study: optuna.Study, path: Path) -> None:
    """The observed values and the best feasible one so far, over trials."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("the picture needs matplotlib", "cli") from error
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    numbers, values = [trial.number for trial in done], np.array([trial.value for trial in done], dtype=np.float64)
    feasible = np.array([all(limit <= 0 for limit in constraints_of(trial).values()) for trial in done], dtype=bool)
    better = np.fmin if study.direction == StudyDirection.MINIMIZE else np.fmax  # which pass over NaN
    best = better.accumulate(np.where(feasible, values, np.nan)) if len(values) else values
    figure = Figure(figsize=(7, 4), layout="constrained")
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise ConfigError(f"the picture cannot be {str(path)!r}; its name must end in .png or another of {list(kinds)}")
    axes = figure.subplots()
    axes.scatter(np.array(numbers)[feasible], values[feasible], s=14, alpha=0.5, label="observed")
    if not feasible.all():
        axes.scatter(np.array(numbers)[~feasible], values[~feasible], s=14, marker="x", alpha=0.5, label="infeasible")
    axes.step(numbers, best, where="post", label="best so far")
    axes.set(xlabel="trial", ylabel="value", title=study.study_name.replace("$", r"\$"))
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
