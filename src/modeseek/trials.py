"""What was asked, told and failed, and the data a surrogate sees.

Symbols: n, completed trials; p, running ones; d, parameters of the space.
"""

from __future__ import annotations

import math
import numbers
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, get_args

import numpy as np

from modeseek.checks import is_whole
from modeseek.errors import TrialError
from modeseek.history import History
from modeseek.space import Space
from modeseek.typing import Array, Params

Direction = Literal["minimize", "maximize"]
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
        value: the number that was told, in the user's own sign; None unless complete.
        error: why it failed, or the objective's traceback; None unless failed.
        unit: the point of the unit cube that the surrogate sees, d numbers.
        origin: "initial" for the Sobol design, "model" for DMS, "told" for `tell_params`.
        starts: of a running one, how often `minimize` has begun to evaluate it in its own process without an outcome.
    """

    number: int
    _params: Params = field(compare=False)  # an array has no truth value; `unit` says the same
    unit: tuple[float, ...]
    origin: Origin
    state: TrialState = TrialState.RUNNING
    value: float | None = None
    error: str | None = None
    starts: int = field(default=0, compare=False)

    @property
    def params(self) -> Params:
        """The parameters, as a copy: an objective may change what it is given."""
        return self._params.copy()

    def __repr__(self) -> str:
        error = "" if self.error is None else f", error={(self.error.strip().splitlines() or [''])[-1]!r}"
        return f"Trial(number={self.number}, {self.state.value}, value={self.value}, params={self._params!r}{error})"


class Trials:
    """The history. Every method either does all it says or raises and changes nothing."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._trials: list[Trial] = []

    def __len__(self) -> int:
        return len(self._trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    def __getitem__(self, number: int) -> Trial:
        return self._trials[number]

    def append(self, params: Params, origin: Origin) -> Trial:
        """A new running trial; ParameterError when the parameters are not in the space."""
        if len(self._trials) >= MOST_TRIALS:
            raise TrialError(f"there are {MOST_TRIALS} trials, more than a Gaussian process can use; begin a new run")
        params = self.space.validate(params)
        if origin not in get_args(Origin):
            raise TrialError(f"a trial's origin must be one of {get_args(Origin)}, not {origin!r}")
        trial = Trial(len(self._trials), params, tuple(self.space.encode(params).tolist()), origin)
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

    def complete(self, trial: Trial | int, value: float) -> Trial:
        """Mark a running trial as complete with a finite value."""
        return self._set(replace(self.running(trial), state=TrialState.COMPLETE, value=as_number(value)))

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
        return self._set(replace(trial, state=TrialState.RUNNING, error=None, starts=0))

    def having(self, state: TrialState) -> list[Trial]:
        """The trials in one state, by number."""
        return [trial for trial in self._trials if trial.state is state]

    def history(self, direction: Direction) -> History:
        """What the proposer sees: completed trials with outcomes to be maximized, running ones, failed ones."""
        done, running, failed = map(self.having, (TrialState.COMPLETE, TrialState.RUNNING, TrialState.FAILED))
        values = np.array([trial.value for trial in done], dtype=np.float64)
        return History.of(
            self._units(done),
            -values if direction == "minimize" else values,
            pending=self._units(running),
            lost=self._units(failed),
            proposed=self._units(self._trials),
        )

    def best(self, direction: Direction) -> Trial | None:
        """The completed trial with the best value, the first of equals; None before there is one."""
        sign = 1.0 if direction == "minimize" else -1.0
        done = self.having(TrialState.COMPLETE)
        return min(done, key=lambda trial: sign * trial.value, default=None)  # type: ignore[operator]

    def _units(self, trials: list[Trial]) -> Array:
        return np.array([trial.unit for trial in trials], dtype=np.float64).reshape(-1, self.space.d)

    def _set(self, trial: Trial) -> Trial:
        self._trials[trial.number] = trial
        return trial


def _same(a: Params, b: Params) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    return bool(a == b)


def as_number(value: Any) -> float:
    """A finite float from a number, or from an array or tensor that holds one; ValueError says what it is instead."""
    if value is None:
        raise ValueError("the value is None, not a number; does the objective return what it computes?")
    try:
        number, reason = _converted(value)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # whatever a foreign object raises when it is looked at, it is not a number
        reason = as_text(error).splitlines()[-1]
        raise ValueError(f"the value is a {type(value).__name__} that gives no number: {reason}") from error
    if reason:
        raise ValueError(reason)
    return number


def _converted(value: Any) -> tuple[float, str]:
    """The number in a value, and what is wrong with it."""
    if np.ma.is_masked(value):
        return math.nan, "the value is masked, not a number"  # .item() would make it 0
    if hasattr(value, "shape") and hasattr(value, "item"):
        if math.prod(value.shape) != 1:
            return math.nan, f"the value is an array of shape {tuple(value.shape)}, not one number"
        value = value.item()
    if not isinstance(value, numbers.Real | Decimal):
        return math.nan, f"the value is a {type(value).__name__} ({value!r:.60}), not a number"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isnan(number):
        return number, "the value is NaN"
    return number, f"the value is infinite ({value!r:.60})" if math.isinf(number) else ""


def as_text(error: object) -> str:
    """Why a trial failed, as text: an exception with its traceback, anything else as it prints; never blank."""
    try:
        if isinstance(error, BaseException):
            return "".join(traceback.format_exception(error))
        text = "" if error is None else str.__str__(str(error))
    except Exception:  # from a __str__ that is not ours
        text = f"a {type(error).__name__} that cannot be printed"
    return text if text.strip() else "told as failed"
