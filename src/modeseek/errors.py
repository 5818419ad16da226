"""One root for the errors, one for the warnings; each also is the built-in type a caller would expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modeseek.optimizer import Optimizer
    from modeseek.result import Result
    from modeseek.trials import Trial


class ModeseekError(Exception):
    """Root of every error that modeseek raises on purpose."""


class ModeseekWarning(UserWarning):
    """Root of every warning that modeseek emits."""


class ConfigError(ModeseekError, ValueError):
    """A setting is out of its range or does not go with another."""


class MissingExtraError(ModeseekError, ImportError):
    """An optional package is missing; the message has the command that installs it."""


class SpaceError(ModeseekError, ValueError):
    """A search space cannot be made from what was given."""


class SpaceNeeded(SpaceError):  # noqa: N818 - reads as what is missing
    """A stored space has an Enum or a function in it, which only the user's code has: it must be given."""


class ParameterError(ModeseekError, ValueError):
    """Parameters do not lie in the space; the message names the parameter."""


class TrialError(ModeseekError, ValueError):
    """A trial is unknown or was told already; nothing has changed."""


class DeviceError(ModeseekError, RuntimeError):
    """The device asked for is not there, or is too small."""


class SpaceExhausted(ModeseekError, RuntimeError):  # noqa: N818 - an end, not a mistake
    """Every configuration of a finite space has been proposed."""


class AllTrialsFailed(ModeseekError, RuntimeError):  # noqa: N818 - reads as what happened
    """The first `max_failures` trials all failed; they are in `trials`."""

    def __init__(self, message: str, trials: Sequence[Trial] = ()) -> None:
        super().__init__(message, trials)
        self.trials = list(trials)

    def __str__(self) -> str:
        return str(self.args[0])


class ObjectiveError(ModeseekError, ValueError):
    """The objective is not where its name says, or cannot be called with a dict of parameters."""


class ObjectiveTypeError(ModeseekError, TypeError):
    """The objective returns None, text, a tuple or the like where a number is expected."""


class WorkerError(ModeseekError, RuntimeError):
    """Worker processes cannot be started."""


class StudyError(ModeseekError, ValueError):
    """A study is not there, or is of another direction or space than asked for."""


class CheckpointError(ModeseekError, OSError):
    """A checkpoint cannot be written, read or used here; the message names the file."""


class CheckpointInUse(CheckpointError):  # noqa: N818
    """Another optimizer holds this checkpoint."""


class CheckpointNotSaved(CheckpointError):  # noqa: N818
    """A run has ended, and its last evaluations are only in memory: in `result`, and in `optimizer`, which can save."""

    def __init__(self, message: str, result: Result, optimizer: Optimizer) -> None:
        super().__init__(message)
        self.result, self.optimizer = result, optimizer


class CheckpointWarning(ModeseekWarning):
    """A checkpoint could not be written; the run goes on and tries again after each evaluation."""


class SpaceChangedWarning(ModeseekWarning):
    """A run goes on in another space than the one that was saved; the message names trials that do not lie in it."""


class TrialFailedWarning(ModeseekWarning):
    """A trial was told something that is not a finite number, and is kept as failed."""


class IndependentSamplingWarning(ModeseekWarning):
    """A parameter outside of the model was drawn at random."""


class FitWarning(ModeseekWarning):
    """The surrogate could not be fitted; prior hyperparameters were used."""


class CollapseWarning(ModeseekWarning):
    """All pseudo-inputs lay in one place, as when a run has converged, or the network failed: the best was proposed."""
