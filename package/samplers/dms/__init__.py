"""Diffusion-based Mode Seeking for OptunaHub; the sampler itself is part of modeseek."""

from modeseek.config import DMSConfig
from modeseek.integrations.optuna import DMSSampler

__all__ = ["DMSConfig", "DMSSampler"]
