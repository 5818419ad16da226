"""How to propose: what a user has chosen, and the randomness that a seed has for each purpose."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, get_args

import numpy as np
import torch

from modeseek.checks import device_of, whole_number
from modeseek.config import DMSConfig
from modeseek.errors import ConfigError
from modeseek.typing import Noise


class Stream(IntEnum):
    """What randomness is for; each purpose has a stream of its own."""

    DESIGN = 0  # the Sobol sequence of the initial design
    MODEL = 1  # a suggestion
    OTHER = 2  # another point where the one suggested is known
    INDEPENDENT = 3  # parameters outside of the model
    OPTIMUM = 4  # samples of where the optimum is
    IMPORTANCE = 5  # points at which parameters' effects are measured


def new_seed() -> int:
    """A random seed."""
    return secrets.randbits(63)


def seeds(seed: int, *key: int) -> np.random.SeedSequence:
    """The randomness that a seed has for a purpose, and for a trial's number."""
    return np.random.SeedSequence(seed, spawn_key=key)


def generator(seed: int, *key: int) -> torch.Generator:
    """The same as a generator of torch's, on the CPU."""
    state = int(seeds(seed, *key).generate_state(1, np.uint64)[0])
    return torch.Generator("cpu").manual_seed(state >> 1)  # torch takes seeds below 2^63


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to propose; made by `Settings.of`, which checks and fills in what was left open."""

    seed: int
    design_seed: int  # of the initial design alone
    config: DMSConfig
    n_initial: int
    device: torch.device
    threads: int
    noise: Noise = "fitted"

    @classmethod
    def of(
        cls,
        *,
        seed: int | None = None,
        config: DMSConfig | None = None,
        n_initial: int = 10,
        device: str = "cpu",
        threads: int = 1,
        noise: Noise = "fitted",
        least_initial: int = 1,
        name_of_initial: str = "n_initial",
    ) -> Settings:
        """The settings that a user gave; ConfigError or DeviceError names the one that is wrong.

        Args:
            seed: a whole number, or None to draw one.
            config: None is `DMSConfig()`.
            n_initial: evaluations before the model is used.
            device: "cpu", "cuda" (or "cuda:1", ...), or "auto" for a GPU where there is one.
            threads: of the CPU, for the fit, the training and the sampling alike.
            noise: "fitted", or "none" for a deterministic objective.
            least_initial, name_of_initial: what the tool that is asking allows, and calls it.
        """
        given: Any = config  # checked, whatever the annotation says
        if given is not None and not isinstance(given, DMSConfig):
            raise ConfigError(f"config must be a modeseek.DMSConfig, not {config!r}")
        if noise not in get_args(Noise):
            raise ConfigError(f"noise must be one of {get_args(Noise)}, not {noise!r}; known noise is told as sem=")
        seed = new_seed() if seed is None else whole_number("seed", seed, 0)
        return cls(
            seed=seed,
            design_seed=seed,
            config=DMSConfig() if config is None else config,
            n_initial=whole_number(name_of_initial, n_initial, least_initial),
            device=device_of(device),
            threads=whole_number("threads", threads, 1),
            noise=noise,
        )


class Configured:
    """Shows the settings of what has some."""

    _settings: Settings

    @property
    def seed(self) -> int:
        """Decides, with a trial's number and the trials so far, what is proposed."""
        return self._settings.seed

    @property
    def config(self) -> DMSConfig:
        """The settings of DMS."""
        return self._settings.config

    @property
    def noise(self) -> Noise:
        """Whether the noise of an observation is fitted, or there is none."""
        return self._settings.noise

    @property
    def device(self) -> torch.device:
        """Where suggestions are computed."""
        return self._settings.device
