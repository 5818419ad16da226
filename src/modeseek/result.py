"""What a run gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from modeseek import html, pictures
from modeseek.checks import missing_extra
from modeseek.config import DMSConfig
from modeseek.digits import of_parameter, rounded, spreads_of, with_error
from modeseek.findings import Findings
from modeseek.front_plot import plot_front, plot_volume
from modeseek.importance import importance
from modeseek.optimum import Optimum
from modeseek.outcomes import sem_per_objective
from modeseek.pictures import chosen_objective
from modeseek.recommendation import Recommendation
from modeseek.settings import Settings
from modeseek.space import Space
from modeseek.stopping import caveat
from modeseek.trials import Goal, Trial, Trials, TrialState, signs
from modeseek.typing import Array, Noise, Params

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Stopped = Literal["budget", "timeout", "callback", "sure", "interrupted", "space exhausted"]


@dataclass(frozen=True, repr=False)
class Result:
    """The end of `minimize` or `maximize`; it pickles and prints.

    Attributes:
        best: the feasible trial with the best observed value; None when there is none, or several objectives.
        recommended: the feasible trial with the best posterior mean, the safer choice under noise; the best one where
            the outcomes do not speak for noise; None likewise.
        expected: mean and standard deviation of the objective at `recommended`, where the outcomes speak for noise.
        front: the feasible trials that no other one beats in every objective; of one objective, the best.
        trials: all trials, by number; those that ran when it was interrupted are still RUNNING. Those that no
            longer lie in a space that got narrower (`trial.in_space` is False) are here, and nowhere else.
        space, direction, reference, seed, config, noise, fixed: what was run; of several objectives, direction is a
            tuple.
        stopped: "budget", "timeout", "callback", "sure", "interrupted" or "space exhausted".
        seconds: wall-clock time, of the last call when a run was resumed.
        optimum: what is known of the optimum, computed when it is first asked for.
    """

    best: Trial | None
    recommended: Trial | None
    trials: list[Trial]
    space: Space
    direction: Goal
    seed: int
    config: DMSConfig
    stopped: Stopped
    seconds: float
    noise: Noise = "fitted"
    reference: Array | None = None
    expected: tuple[float, float] | None = None
    fixed: Mapping[str, Any] | None = None

    @property
    def front(self) -> list[Trial]:
        """The feasible trials that no other one beats in every objective, by number."""
        return self._history().front(self.direction)

    @property
    def least_violated(self) -> Trial | None:
        """The complete trial nearest to meeting the black-box constraints; None where no trial is complete."""
        return self._history().least_violated()

    def best_for(self, fixed: Mapping[str, Any] | None = None, /, **values: Any) -> Recommendation | None:
        """The best parameters that have these values: `result.best_for(machine="B")`, or a dict.

        As `Optimizer.best_for`: the best feasible trial that has them, as observed; where there is none, what the
        surrogate expects to be best. None where no trial is complete.
        """
        return self._findings.best_for(fixed, **values)

    def hypervolume(self, reference: ArrayLike | None = None) -> float:
        """The volume between the front and a reference point, which is worse than the front in every objective.

        Args:
            reference: a number per objective. None: the run's own, and where it had none, one inferred from the front,
                so that the volumes of different fronts do not compare.
        """
        return self._findings.hypervolume(reference)

    @cached_property
    def optimum(self) -> Optimum:
        """What is known of the optimum: samples, modes, intervals, the regret still to be expected. Takes a moment."""
        return self._findings.optimum()

    def predict(self, params: Params | Sequence[Params]) -> tuple[Any, Any]:
        """Mean and standard deviation of the objective at these parameters, or at each of a list of them.

        As `Optimizer.predict`; the first call takes a moment.
        """
        return self._findings.predict(params)

    @cached_property
    def _findings(self) -> Findings:
        settings = Settings.of(seed=self.seed, config=self.config, noise=self.noise)
        return Findings(self.space, self.direction, settings, self._history(), reference=self.reference)

    def _history(self) -> Trials:
        return Trials(self.space, len(signs(self.direction)), self.trials)

    def __str__(self) -> str:
        goal = self.direction if isinstance(self.direction, str) else ", ".join(self.direction)
        lines = [
            f"{goal} with {self.config.name}, seed {self.seed}: {html.counted(self.trials)} "
            f"in {self.seconds:.1f} s, stopped by {self.stopped}"
        ]
        if self.stopped == "sure":
            lines[0] += f" ({caveat(self.direction)})"
        if self.stopped == "space exhausted" and self.noise != "none":
            lines[0] += (
                ": each configuration is evaluated once; where values have noise, ask(fixed=...) measures one again"
            )
        if isinstance(self.direction, tuple) and (front := self.front):
            return "\n".join([*lines, *self._of_front(front)])
        if self.best is None:
            return "\n".join([*lines, *self._without_best()])
        lines.append(f"best value {self._rounded(self.best)} (trial {self.best.number})")
        lines += self._listed(self.best)
        if self.fixed and (of_these := self._best_observed(self.fixed)) and of_these.number != self.best.number:
            named = ", ".join(f"{name}={value!r}" for name, value in self.fixed.items())
            lines.append(f"best with {named}: value {self._rounded(of_these)} (trial {of_these.number})")
            lines += self._listed(of_these)
        if self.best.constraints:
            count = sum(trial.feasible for trial in self.trials)
            lines.append(f"{count} trials are feasible; constraints of the best: {_row(self.best.constraints)}")
        differs = self.recommended is not None and self.recommended.number != self.best.number
        if differs and self.recommended is not None:
            lines.append(f"recommended under noise: trial {self.recommended.number}, {self._rounded(self.recommended)}")
        if self.expected is not None:
            mean, std = self.expected
            of_what = "there" if differs else "of the best trial, under noise"
            lines.append(f"expected {of_what}: {with_error(mean, std)}; while that is too much, measure it again")
            if all(trial.sem is None for trial in self.trials):
                lines[-1] += '. If the objective has no noise, say noise="none"'
        return "\n".join(lines)

    def _best_observed(self, fixed: Mapping[str, Any]) -> Trial | None:
        """The best feasible trial with these values, which takes no surrogate; None where there is none."""
        region = self.space.region(fixed)
        if region is None or isinstance(self.direction, tuple):
            return None
        return self._history().best(self.direction, region.fixed)

    def _of_front(self, front: list[Trial]) -> list[str]:
        values = np.array([trial.values for trial in front], dtype=np.float64)
        low, high = values.min(0), values.max(0)
        of_how_many = "1 trial" if len(front) == 1 else f"{len(front)} trials"
        lines = [f"front of {of_how_many}, hypervolume {self.hypervolume():.6g}; best value of each objective:"]
        spreads = spreads_of(trial.values for trial in self.trials)
        for i, (goal, spread) in enumerate(zip(self.direction, spreads, strict=True)):
            ends = (low[i], high[i]) if goal == "minimize" else (high[i], low[i])
            best, worst = (rounded(end, spread) for end in ends)
            lines.append(f"  {i} ({goal}): best value {best}, worst of the front {worst}")
        return lines

    def _without_best(self) -> list[str]:
        nearest = self.least_violated
        if nearest is None or nearest.constraints is None:
            return ["no trial is complete"]
        said = f"no trial is feasible; least violated by trial {nearest.number}: {_row(nearest.constraints)}"
        return [said, *self._listed(nearest)]

    def _listed(self, trial: Trial) -> list[str]:
        width = max(map(len, self.space.names))
        return [f"  {name:<{width}}  {of_parameter(self.space[name], v)}" for name, v in self._items(trial)]

    def _rounded(self, trial: Trial) -> str:
        """The value of a trial that has one."""
        return ", ".join(map(rounded, trial.values or (), spreads_of(t.values for t in self.trials)))

    def _repr_html_(self) -> str:
        said = [html.line(text) for text in str(self).splitlines() if self.best is None or not text.startswith("  ")]
        best = "" if self.best is None else html.of_trial(self.best, self.space, self.trials)
        return "".join([*said[:2], best, *said[2:], html.of_trials(self.trials, self.space)])

    def __repr__(self) -> str:
        best = f"best={self.best!r}" if isinstance(self.direction, str) else f"front of {len(self.front)}"
        return (
            f"<Result: {self.direction}, {html.counted(self.trials, states=False)}, {best}, stopped={self.stopped!r}>"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row per trial: number, state, origin, value, error, times, and `params_<name>` for each parameter.

        Of several objectives, `values_<i>` instead of value. Where a trial was told with a standard error, also `sem`,
        of several objectives `sem_<i>`.
        With constraints, also `constraints_<i>` for each of them, and `feasible`. `started` is in UTC, `seconds` is how
        long the evaluation took (with ask and tell, the time between them); both are missing where they are not known.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise missing_extra("to_dataframe needs pandas", "plots") from error
        q = max((len(trial.constraints or ()) for trial in self.trials), default=0)
        limits = [f"constraints_{i}" for i in range(q)]
        count = len(signs(self.direction))
        values = ["value"] if count == 1 else [f"values_{i}" for i in range(count)]
        sems = ["sem"] if count == 1 else [f"sem_{i}" for i in range(count)]
        rows = [
            {
                "number": trial.number,
                "state": trial.state.value,
                "origin": trial.origin,
                **dict(zip(values, trial.values or [np.nan] * len(values), strict=True)),
                **dict(zip(sems, sem_per_objective(trial.sem, count), strict=True)),
                "error": trial.error,
                "started": pd.NaT if trial.started is None else datetime.fromtimestamp(trial.started, UTC),
                "seconds": np.nan if trial.seconds is None else trial.seconds,
                **dict(zip(limits, trial.constraints or [np.nan] * len(limits), strict=True)),
                "feasible": trial.feasible,
                **{f"params_{name}": value for name, value in self._items(trial)},
            }
            for trial in self.trials
        ]
        sems = sems if any(trial.sem is not None for trial in self.trials) else []
        names = ["number", "state", "origin", *values, *sems, "error", *limits, *(["feasible"] if limits else [])]
        names += ["started", "seconds", *(f"params_{name}" for name in self.space.names)]
        # Objects, since pandas' own strings cannot hold every Python string.
        columns = [[row.get(name) for row in rows] for name in names]
        kinds = [object if any(isinstance(value, str) for value in values) else None for values in columns]
        frame = pd.concat([pd.Series(v, dtype=kind) for v, kind in zip(columns, kinds, strict=True)], axis=1)
        return frame.set_axis(pd.Index(names, dtype=object), axis=1)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Each observed value and the best so far, over evaluations; on `ax`, or on a new figure.

        What is infeasible is shown by crosses, and is never the best. Where positive values are minimized and span
        two decades, their axis is logarithmic. Of two objectives, all trials and the front; of more, the hypervolume
        over evaluations.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise missing_extra("plot needs matplotlib", "plots") from error
            ax = plt.subplots()[1]
        done = self._history().having(TrialState.COMPLETE)
        if isinstance(self.direction, tuple):
            return (plot_front if len(self.direction) == 2 else plot_volume)(self, done, ax)
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
        ax.locator_params(axis="x", integer=True, min_n_ticks=1)
        ax.set_ylabel("value")
        if pictures.wants_log(values, self.direction):
            ax.set_yscale("log")
        ax.legend()
        return ax

    def importance(self, objective: int | None = None) -> dict[str, float]:
        """How much each parameter matters, by name, the largest first: its total effect on the surrogate's mean.

        The share of the variance over the whole space that is lost once the parameter is held, interactions included
        (importance.py); after few trials no surer than the surrogate.

        Args:
            objective: of several, which: 0, 1, ...
        """
        chosen = chosen_objective(self.direction, objective)
        history = self._history().history(self.direction)
        settings = Settings.of(seed=self.seed, config=self.config, noise=self.noise)
        return importance(self.space, history, settings, chosen)

    def plot_importance(self, ax: Axes | None = None, *, objective: int | None = None) -> Axes:
        """A bar per parameter: how much it matters, see `importance`."""
        return pictures.plot_importance(self, objective, ax)

    def plot_slice(self, names: Sequence[str] | str | None = None, *, objective: int | None = None) -> Figure:
        """The value over each parameter, one panel each; a star is the best, ticks below are failed trials.

        Args:
            names: parameters to show, or one; None: all, or the eight that matter most.
            objective: of several, which: 0, 1, ...
        """
        return pictures.plot_slice(self, names, objective)

    def plot_parallel(
        self, names: Sequence[str] | str | None = None, *, objective: int | None = None, ax: Axes | None = None
    ) -> Axes:
        """Parallel coordinates: a line per trial across its parameters to its value. Arguments as in `plot_slice`."""
        return pictures.plot_parallel(self, names, objective, ax)

    def _items(self, trial: Trial) -> list[tuple[str, Any]]:
        params = trial.params
        return list(zip(self.space.names, params.tolist(), strict=True)) if self.space.is_box else list(params.items())


def _row(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers)
