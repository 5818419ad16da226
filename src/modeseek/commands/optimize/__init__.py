"""`modeseek optimize`: a function by its name, a space from a file, and an Optuna study that keeps the trials."""

from modeseek.commands.optimize.run import Settings, optimize
from modeseek.commands.optimize.show import show, summary

__all__ = ["Settings", "optimize", "show", "summary"]
