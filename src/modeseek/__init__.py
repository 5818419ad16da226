"""modeseek: Bayesian optimization by diffusion-based mode seeking (DMS)."""

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
    SpaceError,
    SpaceExhausted,
    TrialError,
    TrialFailedWarning,
    WorkerError,
)
from modeseek.linear import Linear
from modeseek.optimizer import Optimizer
from modeseek.optimum import Optimum
from modeseek.outcomes import Outcome
from modeseek.recommendation import Recommendation
from modeseek.result import Result
from modeseek.run import maximize, minimize
from modeseek.space import Categorical, Float, Int, Space
from modeseek.stopping import WhenSure
from modeseek.trials import Trial, TrialState

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
    "ObjectiveTypeError",
    "Optimizer",
    "Optimum",
    "Outcome",
    "ParameterError",
    "Recommendation",
    "Result",
    "Space",
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
