"""What was asked, told and failed, and the data a surrogate sees.

Symbols: n, completed trials; p, running ones; d, parameters of the space; q, constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import compress
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from modeseek import html
from modeseek.checks import is_whole
from modeseek.errors import ConfigError, TrialError
from modeseek.fronts import MOST, as_reference, front_of, hypervolume
from modeseek.history import History, with_values
from modeseek.outcomes import Measured, Outcome, Sem, as_text, counted, measured, sem_per_objective
from modeseek.space import Space
from modeseek.typing import Array, Params

Direction = Literal["minimize", "maximize"]
Goal: TypeAlias = Direction | tuple[Direction, ...]  # a tuple of several objectives
Origin = Literal["initial", "model", "told"]

# The surrogate's matrices have n^2 entries: 20 GB each at this n. A file with more trials is refused as well.
MOST_TRIALS = 50_000


class TrialState(Enum):
    """Where a trial stands."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True, repr=False)
class Trial:
    """One configuration and what became of it; trials never change, telling makes a new one.

    Attributes:
        number: 0, 1, 2, ... in the order of asking.
        params: a dict by name, or an array for a box; a new copy each time, free to be changed.
        state: RUNNING until told.
        values: the numbers that were told, one per objective, in the user's own sign; None unless complete.
        constraints: the numbers that were told as constraints; none where there are none, None unless complete.
        error: why it failed, or the objective's traceback; None unless failed.
        unit: the point of the unit cube that the surrogate sees, d numbers; none where it does not lie in the space.
        origin: "initial" for the Sobol design, "model" for DMS, "told" for `tell_params`.
        sem: the standard error of the value that was told; None where it is not known. Of several objectives a tuple,
            with None for one that is not known.
        starts: of a running one, how often `minimize` has begun to evaluate it in its own process without an outcome.
        started: when it was asked, or its evaluation began, in seconds of Unix time; None where that is not known.
        seconds: how long its evaluation took; with ask and tell, the time between them. None where that is not known.
    """

    number: int
    _params: Params = field(compare=False)  # an array has no truth value; `unit` says the same
    unit: tuple[float, ...]
    origin: Origin
    state: TrialState = TrialState.RUNNING
    values: tuple[float, ...] | None = None
    constraints: tuple[float, ...] | None = None
    sem: Sem = None
    error: str | None = None
    starts: int = field(default=0, compare=False)
    started: float | None = field(default=None, compare=False)
    seconds: float | None = field(default=None, compare=False)

    @property
    def params(self) -> Params:
        """The parameters, as a copy: an objective may change what it is given."""
        return self._params.copy()

    @property
    def value(self) -> float | None:
        """The number that was told, in the user's own sign; None unless complete, and where there are several."""
        return self.values[0] if self.values is not None and len(self.values) == 1 else None

    @property
    def in_space(self) -> bool:
        """Whether it lies in the space; False for trials from before the space got narrower, which are only kept."""
        return bool(self.unit)

    @property
    def feasible(self) -> bool:
        """Whether it is complete, lies in the space, and every constraint is at most 0."""
        met = self.constraints is not None and all(constraint <= 0 for constraint in self.constraints)
        return met and self.in_space

    def _repr_html_(self) -> str:
        return html.of_trial(self)

    def __repr__(self) -> str:
        error = "" if self.error is None else f", error={(self.error.strip().splitlines() or [''])[-1]!r}"
        limits = f", constraints={list(self.constraints)}" if self.constraints else ""
        value = f"value={self.value}" if self.values is None or len(self.values) == 1 else f"values={self.values}"
        said = f"{self.state.value}, {value}{limits}"
        return f"Trial(number={self.number}, {said}, params={self._params!r}{error})"


class Trials:
    """The history. Every method either does all it says or raises and changes nothing."""

    def __init__(self, space: Space, objectives: int = 1, trials: Iterable[Trial] = ()) -> None:
        self.space, self.objectives = space, objectives
        self._trials: list[Trial] = list(trials)

    def __len__(self) -> int:
        return len(self._trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    def __getitem__(self, number: int) -> Trial:
        return self._trials[number]

    def append(self, params: Params, origin: Origin) -> Trial:
        """A new running trial; ParameterError when the parameters are not in the space."""
        params = self.space.validate(params)
        return self._append(params, tuple(self.space.encode(params).tolist()), origin)

    def append_outside(self, params: Params, origin: Origin) -> Trial:
        """A new running trial that does not lie in the space: it is kept, and nothing is learned from it."""
        return self._append(params, (), origin)

    def _append(self, params: Params, unit: tuple[float, ...], origin: Origin) -> Trial:
        if len(self._trials) >= MOST_TRIALS:
            raise TrialError(f"there are {MOST_TRIALS} trials, more than a Gaussian process can use; begin a new run")
        if origin not in get_args(Origin):
            raise TrialError(f"a trial's origin must be one of {get_args(Origin)}, not {origin!r}")
        trial = Trial(len(self._trials), params, unit, origin)
        self._trials.append(trial)
        return trial

    def running(self, trial: Trial | int) -> Trial:
        """The running trial of this number; TrialError when it is unknown, another's, or told already."""
        number = trial.number if isinstance(trial, Trial) else trial
        if not is_whole(number):
            raise TrialError(f"tell a trial or its number, not {trial!r}")
        if not 0 <= number < len(self._trials):
            raise TrialError(f"trial {number} is unknown: {len(self._trials)} trials have been asked or told here")
        own = self._trials[int(number)]
        if isinstance(trial, Trial) and not (trial.unit == own.unit and _same(trial._params, own._params)):
            raise TrialError(f"trial {number} has other parameters here; it was asked of another optimizer")
        if own.state is not TrialState.RUNNING:
            raise TrialError(f"trial {number} was told already: it is {own.state.value}")
        return own

    def complete(
        self,
        trial: Trial | int,
        value: float | Sequence[float],
        constraints: Sequence[float] | None = None,
        sem: float | Sequence[float | None] | None = None,
    ) -> Trial:
        """Mark a running trial as complete with a finite value per objective, and as many constraints as others."""
        return self.record(trial, measured(Outcome(value, constraints, sem), self.objectives))

    def record(self, trial: Trial | int, told: Measured) -> Trial:
        """Mark a running trial as complete with what was measured."""
        own = self.running(trial)
        self.check_constraints(told.constraints)
        values, constraints, sem = told
        return self._set(replace(own, state=TrialState.COMPLETE, values=values, constraints=constraints, sem=sem))

    def check_constraints(self, constraints: Sequence[float]) -> None:
        """TrialError where complete trials have another number of constraints."""
        done = next((trial for trial in self._trials if trial.constraints is not None), None)
        if done is not None and done.constraints is not None and len(done.constraints) != len(constraints):
            raise TrialError(
                f"there {counted(len(constraints), 'constraint')}, but trial {done.number} was told with "
                f"{len(done.constraints) or 'none'}; every trial needs as many"
            )

    def fail(self, trial: Trial | int, error: object) -> Trial:
        """Mark a running trial as failed; the reason, whatever it is, is kept as text."""
        return self._set(replace(self.running(trial), state=TrialState.FAILED, error=as_text(error)))

    def count_start(self, trial: Trial | int, by: int = 1) -> Trial:
        """Change by how much a running trial's evaluations have begun; see `Trial.starts`."""
        own = self.running(trial)
        return self._set(replace(own, starts=own.starts + by))

    def reopen(self, trial: Trial) -> Trial:
        """Make a failed trial a running one again."""
        if self._trials[trial.number].state is not TrialState.FAILED:
            raise TrialError(f"trial {trial.number} is not a failed one")
        return self._set(replace(trial, state=TrialState.RUNNING, error=None, starts=0, seconds=None))

    def timed(self, trial: Trial, *, started: float | None, seconds: float | None = None) -> Trial:
        """The trial with when its evaluation began and how long it took."""
        return self._set(replace(self._trials[trial.number], started=started, seconds=seconds))

    def having(self, state: TrialState, fixed: Mapping[str, Any] | None = None) -> list[Trial]:
        """The trials in one state that lie in the space, and have the fixed values, by number."""
        found = [trial for trial in self._trials if trial.state is state and trial.in_space]
        return list(compress(found, with_values(self.space, self._units(found), fixed))) if fixed else found

    def history(self, direction: Goal, reference: Array | None = None) -> History:
        """What the proposer sees: completed trials with outcomes to be maximized, running ones, failed ones.

        Of several objectives, `reference` (M, in the user's own signs) bounds what counts.
        """
        done, running, failed = map(self.having, (TrialState.COMPLETE, TrialState.RUNNING, TrialState.FAILED))
        sign = signs(direction)
        values = sign * np.array([trial.values for trial in done], dtype=np.float64).reshape(-1, len(sign))
        errors = [sem_per_objective(trial.sem, len(sign)) for trial in done]
        sem = np.array(errors, dtype=np.float64).reshape(values.shape)
        return History.of(
            self._units(done),
            values[:, 0] if len(sign) == 1 else values,
            constraints=np.array([trial.constraints for trial in done], dtype=np.float64),
            pending=self._units(running),
            lost=self._units(failed),
            proposed=self._units([trial for trial in self._trials if trial.in_space]),
            sem=sem[:, 0] if len(sign) == 1 else sem,
            reference=None if reference is None else sign * reference,
        )

    def best(self, direction: Direction, fixed: Mapping[str, Any] | None = None) -> Trial | None:
        """The feasible trial, of those with the fixed values, with the best value, the first of equals; or None."""
        sign = 1.0 if direction == "minimize" else -1.0
        feasible = [trial for trial in self.having(TrialState.COMPLETE, fixed) if trial.feasible]
        return min(feasible, key=lambda trial: sign * trial.value, default=None)  # type: ignore[operator]

    def front(self, direction: Goal) -> list[Trial]:
        """The feasible trials that no other one beats in every objective, by number, the first of equals."""
        feasible = [trial for trial in self._trials if trial.feasible]
        return [feasible[i] for i in front_of([trial.values or () for trial in feasible], signs(direction))]

    def least_violated(self) -> Trial | None:
        """The complete trial nearest to being feasible, the first of equals; None before there is one."""
        done = self.having(TrialState.COMPLETE)
        return done[least_violation([trial.constraints or () for trial in done])] if done else None

    def _units(self, trials: list[Trial]) -> Array:
        return np.array([trial.unit for trial in trials], dtype=np.float64).reshape(-1, self.space.d)

    def _set(self, trial: Trial) -> Trial:
        self._trials[trial.number] = trial
        return trial


def goal_of(direction: Any) -> Goal:
    """A direction, or a tuple of several; ConfigError where it is neither."""
    if direction in get_args(Direction):
        return direction  # type: ignore[no-any-return]
    if isinstance(direction, list | tuple) and all(part in get_args(Direction) for part in direction):
        if len(direction) > MOST:
            raise ConfigError(f"there are {len(direction)} objectives, and {MOST} at the most; make some constraints")
        if direction:
            return tuple(direction) if len(direction) > 1 else direction[0]
    raise ConfigError(f"direction must be 'minimize' or 'maximize', or a list of them, not {direction!r:.100}")


def front_volume(trials: Sequence[Trial], direction: Goal, reference: ArrayLike | None = None) -> float:
    """The hypervolume of trials; ConfigError for one objective, or a reference point that is none."""
    sign = signs(direction)
    if len(sign) == 1:
        raise ConfigError("the hypervolume is of several objectives; of one, see the best value")
    point = None if reference is None else as_reference(reference, len(sign))
    return hypervolume([trial.values for trial in trials if trial.values is not None], sign, point)


def signs(direction: Goal) -> Array:
    """By objective, 1 where it is maximized and −1 where it is minimized: M."""
    goals = (direction,) if isinstance(direction, str) else direction
    return np.array([1.0 if goal == "maximize" else -1.0 for goal in goals])


def least_violation(constraints: Sequence[Sequence[float]]) -> int:
    """Which row of constraints violates least: by the sum of what is above 0, each over its root mean square."""
    limits = np.array(constraints, dtype=np.float64)
    largest = np.abs(limits).max(0, initial=0.0)  # first, since squares of 1e300 are infinite
    limits = limits / np.where(largest > 0, largest, 1.0)
    size = np.sqrt(np.square(limits).mean(0))
    return int((np.maximum(limits, 0) / np.where(size > 0, size, 1.0)).sum(1).argmin())


def _same(a: Params, b: Params) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    return bool(a == b)
