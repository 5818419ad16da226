"""What a run gives back."""

from __future__ import annotations

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

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Stopped = Literal["budget", "timeout", "callback", "sure", "interrupted", "space exhausted"]


@dataclass(frozen=True, repr=False)
class Result:
    """The end of `minimize` or `maximize`; it pickles and prints.

    Attributes:
        best: the completed trial with the best observed value; None when there is none.
        recommended: the completed trial with the best posterior mean, the safer choice under noise.
        trials: all trials, by number; those that ran when it was interrupted are still RUNNING.
        space, direction, seed, config: what was run.
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

    @cached_property
    def optimum(self) -> Optimum:
        """What is known of the optimum: samples, modes, intervals, the regret still to be expected. Takes a moment."""
        trials = Trials(self.space)
        for trial in self.trials:
            copied = trials.append(trial.params, trial.origin)
            if trial.value is not None:
                trials.complete(copied, trial.value)
        settings = Settings.of(seed=self.seed, config=self.config)
        return Optimum.of(self.space, trials.history(self.direction), self.direction, settings)

    def __str__(self) -> str:
        counts = [(state.value, sum(t.state is state for t in self.trials)) for state in TrialState]
        states = ", ".join(f"{count} {name}" for name, count in counts if count)
        lines = [
            f"{self.direction} with {self.config.name}, seed {self.seed}: {len(self.trials)} trials ({states}) "
            f"in {self.seconds:.1f} s, stopped by {self.stopped}"
        ]
        if self.best is None:
            return "\n".join([*lines, "no trial is complete"])
        lines.append(f"best value {self.best.value:.6g} (trial {self.best.number})")
        width = max(map(len, self.space.names))
        lines += [f"  {name:<{width}}  {_short(value)}" for name, value in self._items(self.best)]
        if self.recommended is not None and self.recommended.number != self.best.number:
            lines.append(f"recommended under noise: trial {self.recommended.number}, {self.recommended.value:.6g}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Result: {self.direction}, {len(self.trials)} trials, best={self.best!r}, stopped={self.stopped!r}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row per trial: number, state, origin, value, error, and `params_<name>` for each parameter."""
        try:
            import pandas as pd
        except ImportError as error:
            raise missing_extra("to_dataframe needs pandas", "plots") from error
        rows = [
            {
                "number": trial.number,
                "state": trial.state.value,
                "origin": trial.origin,
                "value": np.nan if trial.value is None else trial.value,
                "error": trial.error,
                **{f"params_{name}": value for name, value in self._items(trial)},
            }
            for trial in self.trials
        ]
        names = ["number", "state", "origin", "value", "error", *(f"params_{name}" for name in self.space.names)]
        # Objects, since pandas' own strings cannot hold every Python string.
        columns = [[row[name] for row in rows] for name in names]
        kinds = [object if any(isinstance(value, str) for value in values) else None for values in columns]
        frame = pd.concat([pd.Series(v, dtype=kind) for v, kind in zip(columns, kinds, strict=True)], axis=1)
        return frame.set_axis(pd.Index(names, dtype=object), axis=1)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Each observed value and the best so far, over evaluations; on `ax`, or on a new figure."""
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise missing_extra("plot needs matplotlib", "plots") from error
            ax = plt.subplots()[1]
        done = [trial for trial in self.trials if trial.state is TrialState.COMPLETE]
        number = [trial.number + 1 for trial in done]
        values = np.array([trial.value for trial in done], dtype=np.float64)
        best = np.minimum.accumulate(values) if self.direction == "minimize" else np.maximum.accumulate(values)
        ax.scatter(number, values, s=14, alpha=0.5, label="observed")
        ax.step(number, best, where="post", label="best so far")
        ax.set_xlabel("evaluations")
        ax.set_ylabel("value")
        ax.legend()
        return ax

    def _items(self, trial: Trial) -> list[tuple[str, Any]]:
        params = trial.params
        values = params.tolist() if self.space.is_box else [params[name] for name in self.space.names]
        return list(zip(self.space.names, values, strict=True))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
