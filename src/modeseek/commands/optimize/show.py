"""What a study has come to: in words, and as a picture."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import optuna
from optuna.study import StudyDirection
from optuna.trial import TrialState

from modeseek.checks import missing_extra
from modeseek.commands.optimize.storage import open_storage
from modeseek.commands.optimize.store import best_value, load_study
from modeseek.errors import ConfigError, TrialError
from modeseek.integrations.optuna import DMSSampler


def show(storage: str, name: str | None, picture: Path | None = None) -> Path:
    """Print the summary of a study (None: the only one there) and write its picture, by default `<study>.png`."""
    study = load_study(open_storage(storage, existing=True), name)
    print(summary(study))
    with suppress(TrialError):
        print(DMSSampler(seed=0).optimum(study))
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
    if best_value(study) is None:
        return "\n".join([*lines, "no trial is complete"])
    best = study.best_trial
    lines.append(f"best value {best.value:.6g} (trial {best.number})")
    width = max(map(len, best.params), default=0)
    lines += [
        f"  {name:<{width}}  {f'{value:.6g}' if isinstance(value, float) else repr(value)}"
        for name, value in best.params.items()
    ]
    return "\n".join(lines)


def _draw(study: optuna.Study, path: Path) -> None:
    """The observed values and the best so far, over trials."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("the picture needs matplotlib", "cli") from error
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    numbers, values = [trial.number for trial in done], np.array([trial.value for trial in done], dtype=np.float64)
    best = np.minimum if study.direction == StudyDirection.MINIMIZE else np.maximum
    figure = Figure(figsize=(7, 4), layout="constrained")
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise ConfigError(f"the picture cannot be {str(path)!r}; its name must end in .png or another of {list(kinds)}")
    axes = figure.subplots()
    axes.scatter(numbers, values, s=14, alpha=0.5, label="observed")
    axes.step(numbers, best.accumulate(values), where="post", label="best so far")
    axes.set(xlabel="trial", ylabel="value", title=study.study_name.replace("$", r"\$"))
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
