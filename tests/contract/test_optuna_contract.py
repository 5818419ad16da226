"""Optuna's own public suite for samplers, run on DMSSampler."""

from __future__ import annotations

from collections.abc import Callable

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
)

from modeseek.integrations.optuna import DMSSampler
from shared import SMALLEST


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


class TestDMSSampler(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    """Without startup trials: every suggestion after the first complete trial is the model's."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: DMSSampler(seed=0, config=SMALLEST, n_startup_trials=0)


class TestDMSSamplerAtItsStart(RelativeSamplerTestCase):
    """The Sobol sequence proposes."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: DMSSampler(seed=0, config=SMALLEST, n_startup_trials=1000)
