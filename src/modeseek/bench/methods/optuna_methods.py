"""Optuna's samplers as its users run them: one study per replication, default settings, direction "maximize"."""

from __future__ import annotations

import importlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from modeseek.bench.methods.method import check_history, continues, not_known, timed
from modeseek.checks import missing_extra
from modeseek.domain import is_continuous
from modeseek.history import SAME_POINT, History, fresh
from modeseek.space import Space
from modeseek.typing import Array

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial

MOST_ASKS = 20  # for one point


class OptunaMethod(ABC):
    """A sampler and its study; the sampler's generator is seeded once and then runs on.

    New rows of the history are told to the study: a row that was asked for finishes its trial, others (an initial
    design, points of someone else) are added. A history that does not continue the one before starts a new study.

    In a space with discrete parameters a point that is known is not evaluated again: the study is told what is known
    there, and asked again, up to `MOST_ASKS` times; then a random point that is not known takes its place.
    """

    def __init__(self, space: Space, seed: int) -> None:
        _optuna()
        self.space, self.seed = space, seed
        self.seconds: dict[str, float] = {}
        self._study: Study | None = None
        self._asked: list[tuple[Trial, Array]] = []
        self._told: History | None = None

    @abstractmethod
    def sampler(self, seed: int) -> BaseSampler:
        """A sampler of Optuna's."""

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point, d."""
        return np.asarray(self.batch(history, 1)[0])

    def batch(self, history: History, q: int, left: int | None = None) -> Array:
        """The next q points, q x d, each asked for while those before are running."""
        optuna = _optuna()
        from modeseek.integrations.optuna_trials import distribution

        check_history(history, self.space)
        self.seconds = {}
        with timed(self.seconds, "acquire"), _quiet():
            if self._study is None or not (self._told is None or continues(self._told, history)):
                self._study = optuna.create_study(direction="maximize", sampler=self.sampler(self.seed % 2**32))
                self._asked, self._told = [], None
            distributions = {name: distribution(self.space[name]) for name in self.space.names}
            self._tell(self._study, history, distributions)
            return np.stack([self._ask(self._study, history, distributions) for _ in range(q)])

    def _ask(self, study: Study, history: History, distributions: dict[str, BaseDistribution]) -> Array:
        optuna = _optuna()
        for _ in range(MOST_ASKS):
            trial = study.ask(fixed_distributions=distributions)
            point = self.space.encode(_from_named(self.space, trial.params))
            known = np.concatenate([history.proposed, *(there[None] for _, there in self._asked)])
            if all(is_continuous(self.space)) or len(fresh(point[None], known)):
                self._asked.append((trial, point))
                return point
            same = np.abs(history.X - point).max(-1) <= SAME_POINT
            if not same.any():  # it is running
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            study.tell(trial, float(history.Y[same].mean()))
        history = history.with_pending(np.array([there for _, there in self._asked]).reshape(-1, self.space.d))
        return not_known(self.space, point, history, lambda points: np.zeros(len(points)), self.seed)

    def _tell(self, study: Study, history: History, distributions: dict[str, BaseDistribution]) -> None:
        from optuna.trial import TrialState, create_trial

        known = 0 if self._told is None else len(self._told.Y)
        for x, y in zip(history.X[known:], history.Y[known:].tolist(), strict=True):
            asked = next((pair for pair in self._asked if np.abs(pair[1] - x).max() <= SAME_POINT), None)
            if asked is not None:
                study.tell(asked[0], y)
                self._asked = [pair for pair in self._asked if pair is not asked]
                continue
            params = _to_named(self.space, self.space.decode(x))
            study.add_trial(create_trial(params=params, distributions=distributions, value=y))
        for trial, _ in self._asked:  # nobody evaluated it
            study.tell(trial, state=TrialState.FAIL)
        self._asked = []
        self._told = history


class TPE(OptunaMethod):
    """Tree-structured Parzen estimators (Bergstra et al. 2011; Watanabe 2023)."""

    def sampler(self, seed: int) -> BaseSampler:  # noqa: D102
        from optuna.samplers import TPESampler

        return TPESampler(seed=seed)


class MultivariateTPE(OptunaMethod):
    """TPE with joint densities of all parameters, as Optuna's authors advise (Falkner et al. 2018)."""

    def sampler(self, seed: int) -> BaseSampler:  # noqa: D102
        from optuna.samplers import TPESampler

        return TPESampler(seed=seed, multivariate=True)


class GPSampler(OptunaMethod):
    """Optuna's own Gaussian process (Matérn 5/2) with LogEI."""

    def sampler(self, seed: int) -> BaseSampler:  # noqa: D102
        from optuna.samplers import GPSampler

        return GPSampler(seed=seed, warn_independent_sampling=False)


class CMAES(OptunaMethod):
    """CMA-ES (Hansen 2016) from the centre of the box. Categorical parameters are drawn at random, as Optuna does."""

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        _require("cmaes")  # Optuna would ask for it by its own name

    def sampler(self, seed: int) -> BaseSampler:  # noqa: D102
        from optuna.samplers import CmaEsSampler

        return CmaEsSampler(seed=seed, warn_independent_sampling=False)


def _to_named(space: Space, params: Any) -> dict[str, Any]:
    return dict(zip(space.names, params.tolist(), strict=True)) if space.is_box else params


def _from_named(space: Space, params: dict[str, Any]) -> Any:
    return np.array([params[name] for name in space.names]) if space.is_box else params


def _optuna() -> Any:
    return _require("optuna")


def _require(package: str) -> Any:
    """The package, or the command that installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise missing_extra(f"this baseline needs {package}", "bench") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna's log from warnings on, and its warnings about defaults unheard; as before afterwards."""
    logging = _optuna().logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity(max(verbosity, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
