"""modeseek: Bayesian optimization by diffusion-based mode seeking (DMS)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from modeseek.beliefs import Normal
from modeseek.config import DMSConfig
from modeseek.errors import (
    AllTrialsFailed,
    CheckpointError,
    CheckpointInUse,
    CheckpointNotSaved,
    CheckpointWarning,
    CollapseWarning,
    ConfigError,
    DeviceError,
    FitWarning,
    ModeseekError,
    ModeseekWarning,
    ObjectiveTypeError,
    ParameterError,
    SpaceChangedWarning,
    SpaceError,
    SpaceExhausted,
    TrialError,
    TrialFailedWarning,
    WorkerError,
)
from modeseek.linear import Linear
from modeseek.outcomes import Outcome
from modeseek.run import maximize, minimize
from modeseek.space import Categorical, Float, Int, Space
from modeseek.stopping import WhenSure
from modeseek.trials import Trial, TrialState

if TYPE_CHECKING:
    from modeseek.optimizer import Optimizer
    from modeseek.optimum import Optimum
    from modeseek.recommendation import Recommendation
    from modeseek.result import Result

__version__ = "0.1.0"

__all__ = [
    "AllTrialsFailed",
    "Categorical",
    "CheckpointError",
    "CheckpointInUse",
    "CheckpointNotSaved",
    "CheckpointWarning",
    "CollapseWarning",
    "ConfigError",
    "DMSConfig",
    "DeviceError",
    "FitWarning",
    "Float",
    "Int",
    "Linear",
    "ModeseekError",
    "ModeseekWarning",
    "Normal",
    "ObjectiveTypeError",
    "Optimizer",
    "Optimum",
    "Outcome",
    "ParameterError",
    "Recommendation",
    "Result",
    "Space",
    "SpaceChangedWarning",
    "SpaceError",
    "SpaceExhausted",
    "Trial",
    "TrialError",
    "TrialFailedWarning",
    "TrialState",
    "WhenSure",
    "WorkerError",
    "__version__",
    "maximize",
    "minimize",
]

_WITH_TORCH = {
    "Optimizer": "modeseek.optimizer",
    "Optimum": "modeseek.optimum",
    "Recommendation": "modeseek.recommendation",
    "Result": "modeseek.result",
}


def __getattr__(name: str) -> Any:
    """Names whose modules need torch, which takes two seconds to load: worker processes and `--help` do without."""
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_WITH_TORCH[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
