"""DMS as a sampler for Optuna studies, of one process or of many workers on one storage.

All that is needed is read from the study: its trials are the data, running ones are pending. A sampler announces the
point of a running trial in the trial's system attributes, since Optuna stores a parameter only once the objective has
asked for it. What a sampler keeps for itself (hyperparameters and network of the last iteration, where the next one
starts) only saves time; a new process begins without.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from modeseek.checks import missing_extra, whole_number
from modeseek.config import DMSConfig
from modeseek.constraints import ConstrainedGP
from modeseek.dms import Suggestion
from modeseek.earlier import Told, read
from modeseek.errors import (
    ConfigError,
    IndependentSamplingWarning,
    ModeseekWarning,
    SpaceError,
    SpaceExhausted,
    TrialError,
)
from modeseek.fronts import MOST, as_reference
from modeseek.history import History, fresh
from modeseek.improvement import ImprovementGP
from modeseek.knowledge import Knowledge
from modeseek.notices import WarnOnce
from modeseek.optimum import DRAWS, Optimum
from modeseek.proposer import Proposer, best_labelled, pool_of
from modeseek.recommendation import having
from modeseek.settings import Configured, Settings, Stream, new_seed, seeds
from modeseek.space import Space
from modeseek.stopping import DRAWS as STOP_DRAWS
from modeseek.stopping import WhenSure
from modeseek.surrogate import GP
from modeseek.trials import Direction
from modeseek.typing import Array

try:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.samplers._base import _process_constraints_after_trial
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState

    from modeseek.integrations.optuna_asked import Agreement, warn_of_sems
    from modeseek.integrations.optuna_spaces import Distributions, search_space_of
    from modeseek.integrations.optuna_trials import Codec, announce, distribution, is_modelled, told_by
except ImportError as error:
    raise missing_extra("DMSSampler needs Optuna", "optuna") from error

TOO_CLOSE = 1e-3  # of the unit cube in every coordinate: what two points then tell is the same


class DMSSampler(Configured, BaseSampler):
    """Bayesian optimization by diffusion-based mode seeking, for studies with one objective or several.

        study = optuna.create_study(sampler=DMSSampler(seed=0))
        study.optimize(objective, n_trials=60)

    The model covers all parameters of complete trials, also those of one branch of a conditional (define-by-run) space,
    where the value of another parameter decides whether they are asked for; others are drawn independently. Complete
    trials with a finite value are its data; failed and pruned ones are not, as in Optuna's GPSampler, but no point is
    proposed twice while there is another. Constraints set by `trial.set_constraint` (at most 0 where feasible) are
    modelled too; one that a trial did not set counts as met, as in `study.best_trial`. Of several objectives it looks
    for what adds most to the hypervolume of the front, above a reference point, given or inferred from it.

    Args:
        seed: a whole number; with it and the trials so far, a trial's number decides what is proposed. None draws one.
        config: the settings of DMS; None is `DMSConfig()`.
        n_startup_trials: complete and running trials before the model is used; until then, points of a Sobol sequence.
        independent_sampler: for parameters that the model does not cover, among them all of the first trial. None:
            uniformly at random, from the seed, the trial's number and the parameter's name.
        constraints_func: as in Optuna's own samplers, for studies that cannot use `trial.set_constraint`.
        device: "cpu", "cuda" (or "cuda:1", ...), or "auto" for a GPU where there is one.
        threads: of the CPU that a suggestion uses.
        n_trials: how many trials the study will have, if that is known: the last ones are then not spent on looking
            far away from all that is known.
        space: all parameters that trials will ask for, if they are known: then the model covers them from the first
            trial on, and known constraints of the space hold for every point. Optuna itself has no word for these.
            Where the space has constraints, or there are fixed values, the objective must take all that the space
            allows: a narrower range or another step is a ParameterError.
        fixed: values that some parameters of the space have in all trials of this sampler, as in `Optimizer.ask`.
        warn_independent_sampling: warn once when a parameter is drawn independently although others are modelled: it is
            in some trials only, and no value of another parameter says in which.
        deterministic_objective: as in GPSampler, the objective has no noise.
        prior: by name, where the optimum is believed to be, as in `Optimizer`; with `space` from the first trial on.
        reference: of several objectives, a number for each, as in `Optimizer`: what is worse in any of them is worth
            nothing. None: it is inferred from the front.
        transfer: earlier studies on related tasks, one or a list: studies of Optuna's, or what `Optimizer` takes. Their
            trials are read when the sampler is made. Values without a direction of their own are to be minimized.
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
        threads: int = 1,
        n_trials: int | None = None,
        space: Space | None = None,
        fixed: Mapping[str, Any] | None = None,
        warn_independent_sampling: bool = True,
        deterministic_objective: bool = False,
        prior: Mapping[str, Any] | None = None,
        transfer: Any = None,
        reference: ArrayLike | None = None,
    ) -> None:
        if independent_sampler is not None and not isinstance(independent_sampler, BaseSampler):
            raise ConfigError(f"independent_sampler must be a sampler of Optuna's, not {independent_sampler!r}")
        self._settings = Settings.of(
            seed=seed,
            config=config,
            n_initial=n_startup_trials,
            device=device,
            threads=threads,
            noise="none" if deterministic_objective else "fitted",
            least_initial=0,
            name_of_initial="n_startup_trials",
        )
        self.n_trials = None if n_trials is None else whole_number("n_trials", n_trials, 1)
        if space is not None and not isinstance(space, Space):
            raise ConfigError(f"space must be a modeseek.Space, not {space!r:.60}; wrap a dict as Space({{...}})")
        if fixed and space is None:
            raise ConfigError("fixed needs the space that its parameters are of: DMSSampler(space=space, fixed=...)")
        if fixed and space is not None:
            space.region(fixed)  # which refuses what is unknown, outside, or leaves nothing
        self._space, self._fixed = space, dict(fixed or {})
        if prior is not None and not isinstance(prior, Mapping):
            raise ConfigError(f"prior must be a dict, as in prior={{'lr': Normal(1e-3, 0.5)}}, not {prior!r:.60}")
        self._prior, self._studies = dict(prior or {}), earlier_studies(transfer)
        if space is not None:
            Knowledge.of(space, prior, self._studies or None)  # which refuses what makes no sense
        self._reference = None if reference is None else as_reference(reference, max(np.size(reference), 2))
        self._independent_sampler = independent_sampler
        self._constraints_func = constraints_func
        self._proposers: dict[tuple[str, int], Proposer] = {}
        self._warn = WarnOnce() if warn_independent_sampling else None
        self._agreement = None if space is None else Agreement(space, self._fixed, warns=warn_independent_sampling)
        self._warn_unknown, self._warn_sem = WarnOnce(), WarnOnce()
        self._lock = threading.Lock()

    @property
    def n_startup_trials(self) -> int:
        """Complete and running trials before the model is used."""
        return self._settings.n_initial

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def optimum(self, study: Study, *, draws: int = DRAWS) -> Optimum:
        """What is known of the study's optimum, over the parameters that all complete trials have in common.

        With constraints, of the best feasible point; TrialError while no trial is feasible. With fixed values, of the
        optimum among parameters that have them; TrialError while no feasible trial has.

        Args:
            draws: functions drawn from the posterior, one sample of the optimum each.
        """
        search_space = self.infer_relative_search_space(study, None)
        if not search_space:
            raise TrialError(f"study {study.study_name!r} has no complete trials with a parameter in common")
        if len(study.directions) > 1:
            raise ConfigError(f"study {study.study_name!r} has {len(study.directions)} objectives, and so no optimum")
        warn_of_sems(study, self._warn_sem)
        codec = self._codec(study, search_space)
        direction: Direction = "minimize" if study.direction == StudyDirection.MINIMIZE else "maximize"
        history, held = codec.read(study), {n: v for n, v in self._fixed.items() if n in codec.shown.names}
        rows = having(codec.shown, history, held)
        if held and not len(rows):
            raise TrialError(f"study {study.study_name!r} has no feasible trial with {held}")
        point = history.X[rows[history.Y[rows].argmax()]] if held else None
        return Optimum.of(codec.shown, history, direction, self._settings, draws=draws, fixed=held or None, point=point)

    def _has_enough_with_fixed(self, study: Study) -> bool:
        """Whether as many complete trials as the initial design has have the fixed values, if there are any."""
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        held = self._fixed.items()
        count = sum(all(t.params.get(name, value) == value for name, value in held) for t in done)
        return not held or count >= self._settings.n_initial

    def reseed_rng(self) -> None:
        """Draw a new seed, except for the Sobol sequence, of which each trial takes the point of its own number."""
        self._settings = replace(self._settings, seed=new_seed())
        self._proposers.clear()
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial | None) -> Distributions:
        """The parameters of complete trials that have more than one value, if what decides on their being is known.

        All of them where the sampler was given the space.
        """
        check_objectives(study)
        self._reference_of(study)
        if self._space is not None:
            return {name: distribution(self._space[name]) for name in self._space}
        known = search_space_of(study.get_trials(deepcopy=False))
        varied = {name: d for name, d in known.distributions.items() if not d.single() and is_modelled(name, d)}
        return known.within(varied).distributions

    def _codec(self, study: Study, search_space: Distributions) -> Codec:
        """Between the study's parameters and the cube."""
        reference = self._reference_of(study)
        if self._space is not None:
            return Codec.of(search_space, self._space, reference)
        known = search_space_of(study.get_trials(deepcopy=False)).within(search_space)
        return Codec(known.distributions, known.when, reference=reference)

    def _reference_of(self, study: Study) -> Array | None:
        """The reference point; ConfigError where it is not one of the study's objectives."""
        return None if self._reference is None else as_reference(self._reference, len(study.directions))

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        """The trial's point: of the Sobol sequence at first, then of DMS."""
        if self._agreement is not None:
            self._agreement.check_trial(trial)  # what it has been asked for before
        if not search_space:
            return {}
        warn_of_sems(study, self._warn_sem)
        with self._lock:
            return {**self._sample(study, trial, self._codec(study, search_space)), **self._fixed}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value for a parameter that the model does not cover."""
        if self._agreement is not None:
            self._agreement.check_drawn(param_name, param_distribution)
        if self._warn is not None and not param_distribution.single() and self._is_unexplained(study, param_name):
            self._warn(
                f"parameter {param_name!r} is drawn at random: it is in some of the complete trials only, and no "
                "choice in them decides in which, so that DMSSampler cannot model it",
                IndependentSamplingWarning,
            )
        sampler = self._independent_sampler
        if sampler is None:
            # From the number, so that workers with one seed, or a study that was resumed, do not repeat themselves.
            key = Stream.INDEPENDENT, trial.number, zlib.crc32(param_name.encode())
            sampler = RandomSampler(seed=int(seeds(self.seed, *key).generate_state(1)[0]))
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Hand on to the independent sampler."""
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Store what `constraints_func` says, hand on to the independent sampler, and check what was asked for."""
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)
        if self._agreement is not None and state != TrialState.FAIL:  # whose own error comes first
            self._agreement.check_trial(trial)

    def _is_modelling(self, study: Study) -> bool:
        """Whether there are enough complete trials for the model, or at least one."""
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return len(complete) >= max(self.n_startup_trials, 1)

    def _is_unexplained(self, study: Study, name: str) -> bool:
        """Whether there are enough trials to say that nothing decides on the being of a parameter."""
        return self._is_modelling(study) and name in search_space_of(study.get_trials(deepcopy=False)).unexplained

    def _proposer(self, study: Study, codec: Codec) -> Proposer:
        """The study's proposer; where its space has changed, a new one."""
        key = study.study_name, study._study_id
        if key not in self._proposers or self._proposers[key].space != codec.space:
            known = {name: belief for name, belief in self._prior.items() if name in codec.space.names}
            if self._studies and len(study.directions) > 1:
                raise ConfigError("transfer is for studies with one objective; leave it out")
            knowledge = Knowledge.of(codec.shown, known or None, self._studies or None)  # whose cube is the same
            self._proposers[key] = Proposer(codec.space, self._settings, knowledge=knowledge)
        if self._is_modelling(study) and (unknown := self._prior.keys() - set(codec.space.names)):
            self._warn_unknown(f"prior: no complete trial has the parameters {sorted(unknown)}", ModeseekWarning)
        return self._proposers[key]

    def _sample(self, study: Study, trial: FrozenTrial, codec: Codec) -> dict[str, Any]:
        """Choose, announce, look again: another worker may have announced the same point at the same time.

        Whoever sees that moves to a random point that is free, of the box where proposals come from one. Of two that
        announce one point at least one sees it. Two that climbed the same optimum, each without knowing of the other,
        are at one point nearly.
        """
        proposer = self._proposer(study, codec)
        fixed = codec.fixed(self._fixed, trial)
        try:
            with proposer.holding(fixed if len(fixed) < codec.space.d else None):  # else nothing is left to choose
                return self._announced(proposer, study, trial, codec)
        except SpaceError as error:
            raise type(error)(codec.said(error, fixed)) from error

    def _announced(self, proposer: Proposer, study: Study, trial: FrozenTrial, codec: Codec) -> dict[str, Any]:
        point, pending = self._point(proposer, study, trial, codec)
        while True:
            announce(study, trial, codec.internal(point))
            now = codec.read(study, trial)
            near = proposer.near(now)
            rivals, too_close = fresh(now.pending, pending), TOO_CLOSE if near is None else TOO_CLOSE * near.side
            if len(fresh(point[None], now.proposed)) and len(fresh(point[None], rivals, too_close)):
                return codec.params(point)
            try:
                point = proposer.another_point(np.concatenate([now.proposed, point[None]]), trial.number, near)
            except SpaceExhausted:
                return codec.params(point)

    def _point(self, proposer: Proposer, study: Study, trial: FrozenTrial, codec: Codec) -> tuple[Array, Array]:
        """As `Proposer.propose`, but for what other workers announce meanwhile; a space that is exhausted repeats.

        With the point (d) come the pending ones (p x d) that it takes into account.
        """
        history = codec.read(study, trial)
        if proposer.needs_design(history):
            with suppress(SpaceExhausted):
                return proposer.design_point(history, trial.number), history.pending
            repeating = replace(history, proposed=history.proposed[:0])
            return proposer.design_point(repeating, trial.number), history.pending
        suggestion = proposer.suggest(history, trial.number, self._left(history))
        proposer.learn(suggestion)
        now = codec.read(study, trial)
        suggestion = _aware_of(suggestion, fresh(now.pending, history.pending))
        try:
            return proposer.choose(suggestion, now, trial.number), now.pending
        except SpaceExhausted:
            if proposer.region is not None:  # the best point, although it is known
                return proposer.choose(suggestion, replace(now, proposed=now.proposed[:0]), trial.number), now.pending
            grid = codec.space.grid()
            free = fresh(grid, now.pending)
            return best_labelled(free if len(free) else grid, suggestion.gp, suggestion.rho), now.pending

    def _left(self, history: History) -> int | None:
        """Trials until the study has as many as it will have, this one included; None where that is not known."""
        if self.n_trials is None:
            return None
        return max(self.n_trials - len(history.X) - len(history.without_outcome), 1)


class StopWhenSure:
    """A callback that ends a study once little is left to be gained.

        study.optimize(objective, n_trials=200, callbacks=[StopWhenSure(WhenSure(regret=0.01))])

    Args:
        when: how little, and how sure.
        sampler: whose settings are used; None: the study's own sampler, where that is a DMSSampler, else a new one.
    """

    def __init__(self, when: WhenSure, sampler: DMSSampler | None = None) -> None:
        if not isinstance(when, WhenSure):
            raise ConfigError(
                f"when must be a modeseek.WhenSure, as in StopWhenSure(WhenSure(regret=0.1)), not {when!r}"
            )
        self.when, self.sampler = when, sampler

    def is_sure(self, study: Study) -> bool:
        """Whether what the study has is enough; it never is within the initial design."""
        own = study.sampler if isinstance(study.sampler, DMSSampler) else DMSSampler(seed=0)
        sampler = self.sampler or own
        if not sampler._is_modelling(study) or not sampler._has_enough_with_fixed(study):
            return False
        try:
            return self.when.satisfied_by(sampler.optimum(study, draws=STOP_DRAWS))
        except TrialError:  # nothing is feasible yet
            return False

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        """After each trial."""
        if self.is_sure(study):
            study.stop()


def _aware_of(suggestion: Suggestion, late: Array) -> Suggestion:
    """The suggestion, now that the points `late` (k x d) are pending too, announced while it was computed.

    Workers that ask at the same time climb the same optimum. Where an outcome still to come will halve what is
    unknown at x_next, the best of the other points takes its place.
    """
    if not len(late):
        return suggestion
    gp, x_next = suggestion.gp, suggestion.x_next.unsqueeze(-2)
    name = {ImprovementGP: "objectives", ConstrainedGP: "objective"}.get(type(gp))
    objective: GP = getattr(gp, name) if name else gp  # type: ignore[assignment]
    batch = objective.X.shape[:-2]
    conditioned = objective.condition(torch.from_numpy(late).to(objective.X).expand(*batch, *late.shape))
    before, after = (model.posterior(x_next.expand(*batch, -1, -1))[1] for model in (objective, conditioned))
    if bool((after > before / 2).any()):
        return suggestion
    parts: dict[str, Any] = {name: conditioned} if name else {}
    aware = replace(suggestion, gp=replace(gp, **parts) if parts else conditioned)
    best = best_labelled(pool_of(suggestion), aware.gp, suggestion.rho)
    return replace(aware, x_next=torch.from_numpy(best)[None])


def earlier_studies(transfer: Any) -> list[Told]:
    """What earlier studies tell, Optuna's among them; none for None."""
    if transfer is None:
        return []
    several = isinstance(transfer, list | tuple) and any(isinstance(study, Study) for study in transfer)
    if isinstance(transfer, Study) or several:
        studies = [transfer] if isinstance(transfer, Study) else transfer
        return [told_by(study) if isinstance(study, Study) else read(study, -1.0)[0] for study in studies]
    return read(transfer, -1.0)


def check_objectives(study: Study) -> None:
    """ConfigError for a study with more objectives than there can be."""
    if len(study.directions) > MOST:
        raise ConfigError(
            f"DMSSampler is for studies with at most {MOST} objectives, this one has {len(study.directions)}; use "
            "Optuna's NSGAIIISampler, or make some of them constraints"
        )
