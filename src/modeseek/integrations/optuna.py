"""DMS as a sampler for Optuna studies, of one process or of many workers on one storage.

All that is needed is read from the study: its trials are the data, running ones are pending. A sampler announces the
point of a running trial in the trial's system attributes, since Optuna stores a parameter only once the objective has
asked for it. What a sampler keeps for itself (hyperparameters and network of the last iteration, where the next one
starts) only saves time; a new process begins without.
"""

from __future__ import annotations

import secrets
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from modeseek import dms
from modeseek.checks import device_of, missing_extra, whole_number
from modeseek.config import DMSConfig
from modeseek.constraints import ConstrainedGP
from modeseek.design import sobol
from modeseek.dms import Suggestion
from modeseek.errors import ConfigError, ModeseekWarning, SpaceExhausted
from modeseek.proposer import best_labelled, choose, computing, fresh, generator, remaining, rounding, seeds, warn_once
from modeseek.space import Space
from modeseek.typing import Array

try:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.samplers._base import _process_constraints_after_trial
    from optuna.search_space import intersection_search_space
    from optuna.study import Study
    from optuna.trial import FrozenTrial, TrialState

    from modeseek.integrations.optuna_trials import Codec, Distributions, History, announce, is_modelled
except ImportError as error:
    raise missing_extra("DMSSampler needs Optuna", "optuna") from error


class DMSSampler(BaseSampler):
    """Bayesian optimization by diffusion-based mode seeking, for studies with one objective.

        study = optuna.create_study(sampler=DMSSampler(seed=0))
        study.optimize(objective, n_trials=60)

    The model covers the parameters that all complete trials have in common; others are drawn independently. Complete
    trials with a finite value are its data; failed and pruned ones are not, as in Optuna's GPSampler, but no point is
    proposed twice while there is another. Constraints set by `trial.set_constraint` (at most 0 where feasible) are
    modelled too; one that a trial did not set counts as met, as in `study.best_trial`.

    Args:
        seed: a whole number; with it and the trials so far, a trial's number decides what is proposed. None draws one.
        config: the settings of DMS; None is `DMSConfig()`.
        n_startup_trials: complete and running trials before the model is used; until then, points of a Sobol sequence.
        independent_sampler: for parameters that the model does not cover, among them all of the first trial. None:
            uniformly at random, from the seed, the trial's number and the parameter's name.
        constraints_func: as in Optuna's own samplers, for studies that cannot use `trial.set_constraint`.
        device: "cpu", "cuda" (or "cuda:1", ...), or "auto" for a GPU where there is one.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        config: DMSConfig | None = None,
        n_startup_trials: int = 10,
        independent_sampler: BaseSampler | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        device: str = "cpu",
    ) -> None:
        if config is not None and not isinstance(config, DMSConfig):
            raise ConfigError(f"config must be a modeseek.DMSConfig, not {config!r}")
        if independent_sampler is not None and not isinstance(independent_sampler, BaseSampler):
            raise ConfigError(f"independent_sampler must be a sampler of Optuna's, not {independent_sampler!r}")
        self.seed = secrets.randbits(63) if seed is None else whole_number("seed", seed, 0)
        self.config = DMSConfig() if config is None else config
        self.n_startup_trials = whole_number("n_startup_trials", n_startup_trials, 0)
        self.device = device_of(device)
        self._design_seed = self.seed
        self._independent_sampler = independent_sampler
        self._constraints_func = constraints_func
        self._memories: dict[tuple[str, int], _Memory] = {}
        self._warned: set[type[ModeseekWarning]] = set()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def reseed_rng(self) -> None:
        """Draw a new seed, except for the Sobol sequence, of which each trial takes the point of its own number."""
        self.seed = secrets.randbits(63)
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> Distributions:
        """The parameters that all complete trials have in common and that have more than one value."""
        _require_single_objective(study)
        common = intersection_search_space(study.get_trials(deepcopy=False))
        return {name: d for name, d in common.items() if not d.single() and is_modelled(name, d)}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        """The trial's point: of the Sobol sequence at first, then of DMS."""
        _require_single_objective(study)
        if not search_space:
            return {}
        with self._lock:
            return self._sample(study, trial, Codec(search_space))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value for a parameter that the model does not cover."""
        _require_single_objective(study)
        sampler = self._independent_sampler
        if sampler is None:
            # From the number, so that workers with one seed, or a study that was resumed, do not repeat themselves.
            key = 3, trial.number, zlib.crc32(param_name.encode())
            sampler = RandomSampler(seed=int(seeds(self.seed, *key).generate_state(1)[0]))
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Hand on to the independent sampler."""
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Store what `constraints_func` says, and hand on to the independent sampler."""
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)

    def _memory(self, study: Study) -> _Memory:
        return self._memories.setdefault((study.study_name, study._study_id), _Memory())

    def _sample(self, study: Study, trial: FrozenTrial, codec: Codec) -> dict[str, Any]:
        """Choose, announce, look again: another worker may have announced the same point at the same time.

        Whoever sees that moves to a random point that is free. Of two that announce one point at least one sees it.
        """
        rng = np.random.default_rng(seeds(self.seed, 2, trial.number))
        history = codec.read(study, trial)
        n, p = len(history.Y), len(history.running)
        if n == 0 or n + p < self.n_startup_trials:
            point = self._startup_point(trial.number, codec.space, history, rng)
        else:
            suggestion = self._suggest(self._memory(study), trial.number, codec.space, history)
            now = codec.read(study, trial)
            suggestion = _aware_of(suggestion, fresh(now.running, history.running))
            point = self._model_point(codec.space, suggestion, now, rng)
        while True:
            announce(study, trial, codec.internal(point))
            proposed = codec.read(study, trial).proposed
            if len(fresh(point[None], proposed)):
                return codec.params(point)
            try:
                point = remaining(codec.space, proposed, rng)[0]
            except SpaceExhausted:
                return codec.params(point)

    def _startup_point(self, number: int, space: Space, history: History, rng: np.random.Generator) -> Array:
        points = space.snap(sobol(number + 1, space.d, generator(self._design_seed, 0)).numpy()[-1:])
        if not len(fresh(points, history.proposed)):
            with suppress(SpaceExhausted):
                points = remaining(space, history.proposed, rng)
        return np.asarray(points[0])

    def _suggest(self, memory: _Memory, number: int, space: Space, history: History) -> Suggestion:
        def batch(rows: Array) -> torch.Tensor:
            return torch.from_numpy(rows).to(self.device)[None]

        state = memory.state if memory.space == space else None
        constraints = batch(history.constraints) if history.constraints.size else None
        with computing(self.device, busy=len(history.running) > 0):
            suggestion = dms.suggest(
                batch(history.X),
                batch(history.Y),
                self.config,
                generator(self.seed, 1, number),
                state,
                batch(np.concatenate([history.running, history.lost])),
                constraints,
                rounding(space, self.device),
            )
        memory.space, memory.state = space, suggestion.state
        warn_once(suggestion, self._warned, stacklevel=4)
        return suggestion

    def _model_point(self, space: Space, suggestion: Suggestion, history: History, rng: np.random.Generator) -> Array:
        try:
            return choose(space, suggestion, history.proposed, rng)
        except SpaceExhausted:
            grid = space.grid()
            free = fresh(grid, history.running)
            return best_labelled(free if len(free) else grid, suggestion)


@dataclass
class _Memory:
    """What a sampler keeps of a study."""

    space: Space | None = None
    state: dms.State | None = None


def _aware_of(suggestion: Suggestion, late: Array) -> Suggestion:
    """The suggestion, now that the points `late` (k x d) are pending too, announced while it was computed.

    Workers that ask at the same time climb the same optimum. Where an outcome still to come will halve what is
    unknown at x_next, the best of the other points takes its place.
    """
    if not len(late):
        return suggestion
    gp, x_next = suggestion.gp, suggestion.x_next.unsqueeze(-2)
    objective = gp.objective if isinstance(gp, ConstrainedGP) else gp
    conditioned = objective.condition(torch.from_numpy(late).to(objective.X)[None])
    if bool(conditioned.posterior(x_next)[1] > objective.posterior(x_next)[1] / 2):
        return suggestion
    aware = replace(suggestion, gp=replace(gp, objective=conditioned) if isinstance(gp, ConstrainedGP) else conditioned)
    pool = torch.cat([suggestion.candidates, suggestion.pseudo_x], -2)[0].cpu().numpy()
    return replace(aware, x_next=torch.from_numpy(best_labelled(pool, aware))[None])


def _require_single_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise ConfigError(
            f"DMSSampler is for studies with one objective, this one has {len(study.directions)}; "
            "use Optuna's NSGAIISampler, TPESampler or GPSampler"
        )
