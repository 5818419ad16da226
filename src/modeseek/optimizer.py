"""Ask and tell: Algorithm 1 of the paper as a loop that the user holds in hand.

What to propose is decided in proposer.py; here is what was asked and told, and its file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, overload

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import ArrayLike

from modeseek import checkpoint, dms, html
from modeseek.checks import whole_number
from modeseek.computing import computing
from modeseek.config import DMSConfig
from modeseek.dms import Suggestion
from modeseek.errors import ConfigError, SpaceChangedWarning, TrialError, TrialFailedWarning
from modeseek.fronts import as_reference
from modeseek.hyperparameters import Several
from modeseek.knowledge import Knowledge
from modeseek.notices import warn
from modeseek.optimum import DRAWS, Optimum, predict, several_of, surrogate_of
from modeseek.outcome_transforms import OutcomeMap
from modeseek.outcomes import Measured, judged
from modeseek.proposer import Proposal, Proposer, Settings
from modeseek.recommendation import LIKELY, Recommendation, best_expected, recommended_or_best
from modeseek.space import Space
from modeseek.surrogate import GP
from modeseek.together import propose_together
from modeseek.trials import Direction, Goal, Trial, Trials, TrialState, front_volume, goal_of, signs
from modeseek.typing import Noise, Params


class Optimizer:
    """Bayesian optimization by diffusion-based mode seeking: ask/tell interface, not thread-safe.

    Args:
        space: what to search.
        direction: "minimize" or "maximize"; of several objectives a list of them, one per objective.
        seed: a whole number; the same seed gives the same suggestions. None draws one, kept in `seed`.
        config: the settings of DMS; None is `DMSConfig()`.
        n_initial: evaluations before the model is used. What was told by `tell_params` counts, failed trials do not.
        device: "cpu", "cuda" (or "cuda:1", ...), or "auto" for a GPU where there is one.
        threads: of the CPU that a suggestion uses. More than one helps a little on an idle machine, and slows down
            many times over beside busy cores.
        noise: "fitted", or "none" for a deterministic objective, whose recommended trial is the best one. What is told
            with `sem` has that noise.
        reference: of several objectives, a number for each: what is worse in any of them is worth nothing. None: it is
            inferred from the front so far.
        prior: by name, where the optimum is believed to be: `Normal(mean, std)`, a value near it, (low, high), of a
            Categorical a dict of weights, or a frozen distribution of scipy.stats; see docs/earlier-knowledge.md. It
            fades as outcomes come in. None: nowhere in particular.
        transfer: earlier studies on related tasks, one or a list: each a `Result`, an `Optimizer`, the path of a
            checkpoint, or a list of (params, value). They count for as much as they explain of the outcomes here.
    """

    def __init__(
        self,
        space: Space,
        *,
        direction: Direction | Sequence[Direction] = "minimize",
        seed: int | None = None,
        config: DMSConfig | None = None,
        n_initial: int = 10,
        device: str = "cpu",
        threads: int = 1,
        noise: Noise = "fitted",
        reference: ArrayLike | None = None,
        prior: Mapping[str, Any] | None = None,
        transfer: Any = None,
    ) -> None:
        if not isinstance(space, Space):
            raise ConfigError(f"space must be a modeseek.Space, not {space!r}; wrap a dict as Space({{...}})")
        self.space = space
        self.direction: Goal = goal_of(direction)
        count = len(signs(self.direction))
        self.reference = None if reference is None else as_reference(reference, count)
        self._settings = Settings.of(
            seed=seed, config=config, n_initial=n_initial, device=device, threads=threads, noise=noise
        )
        if transfer is not None and count > 1:
            raise ConfigError("transfer is for one objective; with several, leave it out")
        knowledge = Knowledge.of(space, prior, transfer, float(signs(self.direction)[0]))
        self._proposer = Proposer(space, self._settings, knowledge=knowledge)
        self._trials = Trials(space, count)
        self._locks: dict[str, FileLock] = {}
        self._drawn: tuple[int, tuple[Several, OutcomeMap]] | None = None  # after so many outcomes, for `predict`

    @property
    def seed(self) -> int:
        """Decides all suggestions."""
        return self._settings.seed

    @property
    def config(self) -> DMSConfig:
        """The settings of DMS."""
        return self._settings.config

    @property
    def n_initial(self) -> int:
        """Evaluations before the model is used."""
        return self._settings.n_initial

    @property
    def noise(self) -> Noise:
        """Whether the noise of an observation is fitted, or there is none."""
        return self._settings.noise

    @property
    def prior(self) -> dict[str, Any]:
        """Where the optimum was believed to be, by name, as files have it; empty where nothing was."""
        knowledge = self._proposer.knowledge
        return {} if knowledge is None else knowledge.prior

    @property
    def device(self) -> torch.device:
        """Where suggestions are computed."""
        return self._settings.device

    @property
    def suggestion(self) -> Suggestion | None:
        """The last one of the model, for plots and diagnosis."""
        return self._proposer.suggestion

    @property
    def d(self) -> int:
        """Number of parameters."""
        return self.space.d

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return list(self._trials)

    @property
    def pending(self) -> list[Trial]:
        """The trials that were asked and not yet told, and lie in the space."""
        return self._trials.having(TrialState.RUNNING)

    @property
    def best(self) -> Trial | None:
        """The feasible trial with the best value, as observed; None before there is one. See `recommend`."""
        return self._trials.best(self._one("there is no best trial; see opt.front"))

    @property
    def front(self) -> list[Trial]:
        """The feasible trials that no other one beats in every objective; of one objective, the best."""
        return self._trials.front(self.direction)

    def hypervolume(self, reference: ArrayLike | None = None) -> float:
        """The volume between the front and a reference point, which is worse than the front in every objective.

        Args:
            reference: a number per objective. None: the optimizer's own, and where it has none, one inferred from the
                front, so that the volumes of different fronts do not compare.
        """
        return front_volume(self.front, self.direction, self.reference if reference is None else reference)

    @property
    def least_violated(self) -> Trial | None:
        """The completed trial nearest to being feasible; while nothing is feasible, where to look closer."""
        return self._trials.least_violated()

    def recommend(self) -> Trial | None:
        """The feasible trial with the best posterior mean: under noise a safer choice than `best`. Changes nothing.

        Of those that were observed to be feasible, it must be so by the constraints' models too, where one is. It
        is `best` where the outcomes do not speak for noise (`recommendation.is_noisy`).
        """
        direction = self._one("no trial is recommended; see opt.front")
        if self.best is None or self.noise == "none":
            return self.best
        gp, _ = self._surrogate()
        limits = torch.from_numpy(self._trials.history(direction).constraints).to(gp.X)[None]
        with computing(self.device, self._settings.threads):
            return self._trials.having(TrialState.COMPLETE)[recommended_or_best(gp, limits)]

    def best_for(self, fixed: Mapping[str, Any] | None = None, /, **values: Any) -> Recommendation | None:
        """The best parameters that have these values: `best_for(machine="B")`, or a dict. Changes nothing.

        If there are feasible trials with these values, it is the best of them, as observed. If there is none, it is
        what the surrogate expects to be best from all other trials, and with black-box constraints feasible: its
        `feasible` says how likely that is. None before any trial is complete.
        """
        direction = self._one("best_for() knows none; see opt.front")
        if fixed is not None and not isinstance(fixed, Mapping):
            raise ConfigError(f"best_for takes values by name, best_for(machine='B') or a dict, not {fixed!r}")
        chosen = {**(fixed or {}), **values}
        with self._proposer.holding(chosen) as region:
            wanted = {} if region is None or not chosen else region.fixed
            best = self._trials.best(direction, wanted)
            if best is not None and best.value is not None:
                return Recommendation(best.params, best.value, None, best)
            if not self._trials.having(TrialState.COMPLETE):
                return None
            params, likely = best_expected(self._proposer, self._surrogate()[0], self._trials.history(self.direction))
        (mean,), (std,) = self._predict(params)
        return Recommendation(params, mean, std, feasible=likely)

    def optimum(self, *, draws: int = DRAWS, fixed: Mapping[str, Any] | None = None) -> Optimum:
        """What is known of the optimum: samples, modes, intervals, the regret still to be expected. Changes nothing.

        With black-box constraints, of the best feasible point: each function that the observations allow for comes
        with constraints that they allow for.

        Args:
            draws: functions drawn from the posterior, one sample of the optimum each.
            fixed: values by name, as in `ask`: the optimum among parameters that have them, and the regret of what
                `best_for` gives for them.
        """
        direction = self._one("optimum() says nothing of a front; see opt.front")
        history = self._trials.history(direction)
        best = self.best_for(fixed) if fixed else None
        if best is not None and best.feasible < LIKELY:
            raise TrialError(
                f"nothing is likely to be feasible with {dict(fixed or {})}: {best.feasible:.0%} at the most"
            )
        point = None if best is None else self.space.encode(best.params)
        return Optimum.of(
            self.space, history, direction, self._settings, self._proposer.state, draws=draws, fixed=fixed, point=point
        )

    def predict(self, params: Params) -> tuple[Any, Any]:
        """Mean and standard deviation of the objective at these parameters, in its own units. Changes nothing.

        Two numbers; of several objectives two tuples, with a number per objective, as `trial.values` has them. Of the
        objective itself: an observation of it has its noise in addition.
        """
        means, stds = self._predict(params)
        return (means, stds) if isinstance(self.direction, tuple) else (means[0], stds[0])

    def _predict(self, params: Params) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of each objective."""
        history = self._trials.history(self.direction)
        if self._drawn is None or self._drawn[0] != len(history.Y):
            self._drawn = len(history.Y), several_of(self.space, history, self._settings, self._proposer.state)
        with computing(self.device, self._settings.threads):
            return predict(self.space, *self._drawn[1], self.direction, params)

    def _surrogate(self) -> tuple[GP, OutcomeMap]:
        return surrogate_of(self.space, self._trials.history(self.direction), self._settings, self._proposer.state)

    @overload
    def ask(self, n: None = None, *, left: int | None = None, fixed: Mapping[str, Any] | None = None) -> Trial: ...
    @overload
    def ask(self, n: int, *, left: int | None = None, fixed: Mapping[str, Any] | None = None) -> list[Trial]: ...
    def ask(
        self, n: int | None = None, *, left: int | None = None, fixed: Mapping[str, Any] | None = None
    ) -> Trial | list[Trial]:
        """The next trial, or a list of the next n, to be evaluated side by side.

        Each is pending from now on, and later ones keep away from it. The first of a list is the trial that would come
        alone; the others are, of many samples of where the optimum may be, those that with it leave the least regret.
        In a finite space no configuration comes twice: a list is shorter than n when fewer remain, and SpaceExhausted
        is raised when none does. Where all parameters are fixed there is nothing to search, and the point comes again.

        Args:
            n: how many; None: one, not as a list.
            left: evaluations until the end of the run, the next one included, if that is known: the last ones are
                then not spent on looking far away.
            fixed: values that some parameters have this time, by name (of a box x0, x1, ...), as when the outside
                world sets them; the others are searched. All trials so far are learned from, whatever they had there.
        """
        left = None if left is None else whole_number("left", left, 1)
        if n is None:
            return self._ask(1, left, fixed)[0]
        return self._ask(whole_number("n", n, 1), left, fixed)

    def tell(
        self,
        trial: Trial | int,
        value: Any = None,
        *,
        constraints: Sequence[float] | None = None,
        sem: float | Sequence[float | None] | None = None,
        failed: bool = False,
        error: object = None,
    ) -> Trial:
        """Report a trial (or its number) and get it back as told; in any order, once.

        Args:
            trial: one that was asked.
            value: what the objective is there; of several objectives, a list of numbers. Also an `Outcome`, or a tuple
                (value, constraints).
            constraints: of black-box constraints, what they are there: the point is feasible where all are at most 0.
                As many each time; TrialError, and nothing changes, where the trials before had another number of them.
            sem: the standard error of the value, where it is known; else its noise is fitted. Of several objectives a
                list, one per objective, None where it is not known.
            failed: there is no value.
            error: why: a text, an exception, an exit status.

        A value or a constraint that is not a finite number makes a failed trial and a TrialFailedWarning. TrialError
        when the trial is unknown, of another optimizer, or told already.
        """
        own = self._trials.running(trial)
        if not failed and error is not None:
            raise ConfigError("tell a value, or failed=True with an error")
        if failed:
            if value is not None or constraints is not None or sem is not None:
                raise ConfigError("tell a value or failed=True, not both")
            return self._timed(self._trials.fail(own, error))
        return self._timed(self._finish(own, *self._judge(value, constraints, sem)))

    def tell_params(
        self,
        params: Params,
        value: Any,
        *,
        constraints: Sequence[float] | None = None,
        sem: float | Sequence[float | None] | None = None,
    ) -> Trial:
        """Report what was measured elsewhere, as a trial of its own; it counts toward the initial design.

        ParameterError, naming the parameter, when the parameters are not in the space. Else as in `tell`.
        """
        verdict = self._judge(value, constraints, sem)
        return self._finish(self._trials.append(params, "told"), *verdict)

    def save(self, path: checkpoint.StrPath) -> None:
        """Write everything to one file, in one step; the file before it stays as `<path>.bak`.

        The first call takes `<path>.lock` and keeps it until `close` or the optimizer's end: CheckpointInUse when
        another optimizer holds it.
        """
        name = checkpoint.resolve(path)
        if name not in self._locks:
            self._hold(name, checkpoint.acquire(name))
        checkpoint.write(name, self._snapshot())

    def _hold(self, path: checkpoint.StrPath, lock: FileLock) -> None:
        """Keep a checkpoint's lock, taken by `checkpoint.acquire`, until `close`."""
        self._locks[checkpoint.resolve(path)] = lock

    @classmethod
    def load(
        cls, path: checkpoint.StrPath, *, device: str = "cpu", threads: int = 1, space: Space | None = None
    ) -> Self:
        """The optimizer that `save` wrote, going on as if it had never stopped; trials that ran then are `pending`.

        The space is needed only where choices are members of an Enum, or a constraint is a function, and where it has
        changed: other bounds, other choices. Trials that no longer lie in it are kept in `trials`, and that is all: the
        surrogate does not learn from them, and none is the best or pending (`Trial.in_space`). A SpaceChangedWarning
        names them. CheckpointError where parameters were added, but for those under a choice, or taken away.
        """
        snapshot = checkpoint.read(path, space)
        if snapshot.changes is not None:
            warn(f"{path}: the space has changed; {snapshot.changes}", SpaceChangedWarning)
        optimizer = cls(
            snapshot.space,
            direction=snapshot.direction,
            reference=snapshot.reference,
            seed=snapshot.seed,
            config=snapshot.config,
            n_initial=snapshot.n_initial,
            device=device,
            threads=threads,
            noise=snapshot.noise,
        )
        optimizer._trials = snapshot.trials
        if snapshot.prior or snapshot.transfer:
            optimizer._proposer.knowledge = Knowledge(snapshot.space, snapshot.prior, snapshot.transfer)
        if snapshot.state is not None:
            optimizer._proposer.state = dms.State(*(tensor.to(optimizer.device) for tensor in snapshot.state))
        return optimizer

    def close(self) -> None:
        """Let others use the checkpoints that this optimizer has saved to."""
        while self._locks:
            self._locks.popitem()[1].release()

    def _snapshot(self) -> checkpoint.Snapshot:
        return checkpoint.Snapshot(
            self.space,
            self.direction,
            self.seed,
            self.config,
            self.n_initial,
            self._trials,
            self._proposer.state,
            self.noise,
            reference=self.reference,
            prior=self.prior,
            transfer=[] if self._proposer.knowledge is None else [s.told for s in self._proposer.knowledge.studies],
        )

    def __repr__(self) -> str:
        return f"<Optimizer: {html.summary(self)}>"

    def _repr_html_(self) -> str:
        return html.of_optimizer(self)

    def _one(self, otherwise: str) -> Direction:
        """The direction of the only objective; ConfigError where there are several."""
        if isinstance(self.direction, tuple):
            raise ConfigError(f"with {len(self.direction)} objectives {otherwise}")
        return self.direction

    def _ask(self, n: int, left: int | None, fixed: Mapping[str, Any] | None) -> list[Trial]:
        """So many trials; fewer where a finite space has no more."""
        history = self._trials.history(self.direction, self.reference)
        with self._proposer.holding(fixed) as region:
            if region is not None and not bool(region.free.any()):  # nothing to search: a point that is measured again
                proposals = [Proposal(region.settle(np.full((1, self.d), 0.5))[0], "model")] * n
            else:
                proposals = propose_together([self._proposer], [history], len(self._trials), n, left)[0]
        decode = self.space.decode if region is None else region.params
        asked = [self._trials.append(decode(point), origin) for point, origin in proposals]
        return [self._trials.timed(trial, started=time.time()) for trial in asked]

    def _timed(self, trial: Trial) -> Trial:
        """The trial with the time since it was asked; the clock may have been set back meanwhile."""
        if trial.started is None:
            return trial
        return self._trials.timed(trial, started=trial.started, seconds=max(time.time() - trial.started, 0.0))

    def _judge(
        self, value: Any, constraints: Sequence[float] | None, sem: float | Sequence[float | None] | None
    ) -> tuple[Measured | None, str]:
        """The numbers that were told, or why they are of no use; an error where it is the call that is wrong."""
        told, reason = judged(value, constraints, sem, self._trials.objectives)
        if told is not None:
            self._trials.check_constraints(told.constraints)
        return told, reason

    def _finish(self, trial: Trial, told: Measured | None, reason: str) -> Trial:
        if told is not None:
            return self._trials.record(trial, told)
        failed = self._trials.fail(trial, reason)
        warn(f"trial {trial.number} failed: {reason}", TrialFailedWarning)
        return failed
