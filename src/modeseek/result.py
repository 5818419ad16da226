"""What a run gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from modeseek.checks import missing_extra
from modeseek.config import DMSConfig
from modeseek.optimum import Optimum
from modeseek.proposer import Settings
from modeseek.space import Space
from modeseek.trials import Direction, Trial, Trials, TrialState
from modeseek.typing import Noise

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Stopped = Literal["budget", "timeout", "callback", "sure", "interrupted", "space exhausted"]


@dataclass(frozen=True, repr=False)
class Result:
    """The end of `minimize` or `maximize`; it pickles and prints.

    Attributes:
        best: the feasible trial with the best observed value; None when there is none.
        recommended: the feasible trial with the best posterior mean, the safer choice under noise.
        trials: all trials, by number; those that ran when it was interrupted are still RUNNING.
        space, direction, seed, config, noise: what was run.
        stopped: "budget", "timeout", "callback", "sure", "interrupted" or "space exhausted".
        seconds: wall-clock time, of the last call when a run was resumed.
        optimum: what is known of the optimum, computed when it is first asked for.
    """

    best: Trial | None
    recommended: Trial | None
    trials: list[Trial]
    space: Space
    direction: Direction
    seed: int
    config: DMSConfig
    stopped: Stopped
    seconds: float
    noise: Noise = "fitted"

    @cached_property
    def optimum(self) -> Optimum:
        """What is known of the optimum: samples, modes, intervals, the regret still to be expected. Takes a moment."""
        settings = Settings.of(seed=self.seed, config=self.config, noise=self.noise)
        return Optimum.of(self.space, self._copied().history(self.direction), self.direction, settings)

    def _copied(self) -> Trials:
        trials = Trials(self.space)
        for trial in self.trials:
            copied = trials.append(trial.params, trial.origin)
            if trial.value is not None:
                trials.complete(copied, trial.value, trial.constraints or (), trial.sem)
        return trials

    def __str__(self) -> str:
        counts = [(state.value, sum(t.state is state for t in self.trials)) for state in TrialState]
        states = ", ".join(f"{count} {name}" for name, count in counts if count)
        lines = [
            f"{self.direction} with {self.config.name}, seed {self.seed}: {len(self.trials)} trials ({states}) "
            f"in {self.seconds:.1f} s, stopped by {self.stopped}"
        ]
        if self.best is None:
            return "\n".join([*lines, *self._without_best()])
        lines.append(f"best value {self.best.value:.6g} (trial {self.best.number})")
        lines += self._listed(self.best)
        if self.best.constraints:
            count = sum(trial.feasible for trial in self.trials)
            lines.append(f"{count} trials are feasible; constraints of the best: {_row(self.best.constraints)}")
        if self.recommended is not None and self.recommended.number != self.best.number:
            lines.append(f"recommended under noise: trial {self.recommended.number}, {self.recommended.value:.6g}")
        return "\n".join(lines)

    def _without_best(self) -> list[str]:
        nearest = self._copied().least_violated()
        if nearest is None or nearest.constraints is None:
            return ["no trial is complete"]
        said = f"no trial is feasible; least violated by trial {nearest.number}: {_row(nearest.constraints)}"
        return [said, *self._listed(nearest)]

    def _listed(self, trial: Trial) -> list[str]:
        width = max(map(len, self.space.names))
        return [f"  {name:<{width}}  {_short(value)}" for name, value in self._items(trial)]

    def __repr__(self) -> str:
        return f"<Result: {self.direction}, {len(self.trials)} trials, best={self.best!r}, stopped={self.stopped!r}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row per trial: number, state, origin, value, error, and `params_<name>` for each parameter.

        With constraints, also `constraints_<i>` for each of them, and `feasible`.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise missing_extra("to_dataframe needs pandas", "plots") from error
        q = max((len(trial.constraints or ()) for trial in self.trials), default=0)
        limits = [f"constraints_{i}" for i in range(q)]
        rows = [
            {
                "number": trial.number,
                "state": trial.state.value,
                "origin": trial.origin,
                "value": np.nan if trial.value is None else trial.value,
                "error": trial.error,
                **dict(zip(limits, trial.constraints or [np.nan] * len(limits), strict=True)),
                "feasible": trial.feasible,
                **{f"params_{name}": value for name, value in self._items(trial)},
            }
            for trial in self.trials
        ]
        names = ["number", "state", "origin", "value", "error", *limits, *(["feasible"] if limits else [])]
        names += [f"params_{name}" for name in self.space.names]
        # Objects, since pandas' own strings cannot hold every Python string.
        columns = [[row.get(name) for row in rows] for name in names]
        kinds = [object if any(isinstance(value, str) for value in values) else None for values in columns]
        frame = pd.concat([pd.Series(v, dtype=kind) for v, kind in zip(columns, kinds, strict=True)], axis=1)
        return frame.set_axis(pd.Index(names, dtype=object), axis=1)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Each observed value and the best so far, over evaluations; on `ax`, or on a new figure.

        What is infeasible is shown by crosses, and is never the best.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise missing_extra("plot needs matplotlib", "plots") from error
            ax = plt.subplots()[1]
        done = [trial for trial in self.trials if trial.state is TrialState.COMPLETE]
        number = [trial.number + 1 for trial in done]
        values = np.array([trial.value for trial in done], dtype=np.float64)
        feasible = np.array([trial.feasible for trial in done], dtype=bool)
        better = np.fmin if self.direction == "minimize" else np.fmax  # which pass over NaN
        best = better.accumulate(np.where(feasible, values, np.nan)) if len(values) else values
        ax.scatter(np.array(number)[feasible], values[feasible], s=14, alpha=0.5, label="observed")
        if not feasible.all():
            ax.scatter(np.array(number)[~feasible], values[~feasible], s=14, alpha=0.5, marker="x", label="infeasible")
        ax.step(number, best, where="post", label="best so far")
        ax.set_xlabel("evaluations")
        ax.set_ylabel("value")
        ax.legend()
        return ax

    def _items(self, trial: Trial) -> list[tuple[str, Any]]:
        params = trial.params
        return list(zip(self.space.names, params.tolist(), strict=True)) if self.space.is_box else list(params.items())


def _row(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
