"""Ask and tell: Algorithm 1 of the paper as a loop that the user holds in hand.

What to propose is decided in proposer.py; here is what was asked and told, and its file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, overload

import numpy as np
from filelock import FileLock
from numpy.typing import ArrayLike

from modeseek import checkpoint, dms, html
from modeseek.checks import whole_number
from modeseek.config import DMSConfig
from modeseek.dms import Suggestion
from modeseek.document import Snapshot
from modeseek.errors import ConfigError, SpaceChangedWarning, TrialFailedWarning
from modeseek.findings import Findings
from modeseek.fronts import as_reference
from modeseek.knowledge import Knowledge
from modeseek.notices import warn
from modeseek.outcomes import Measured, judged
from modeseek.proposer import Proposal
from modeseek.settings import Settings
from modeseek.space import Space
from modeseek.together import propose_together
from modeseek.trials import Direction, Trial, Trials, TrialState, goal_of, signs
from modeseek.typing import Noise, Params


class Optimizer(Findings):
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
        goal = goal_of(direction)
        count = len(signs(goal))
        settings = Settings.of(
            seed=seed, config=config, n_initial=n_initial, device=device, threads=threads, noise=noise
        )
        if transfer is not None and count > 1:
            raise ConfigError("transfer is for one objective; with several, leave it out")
        super().__init__(
            space,
            goal,
            settings,
            Trials(space, count),
            reference=None if reference is None else as_reference(reference, count),
            knowledge=Knowledge.of(space, prior, transfer, float(signs(goal)[0])),
        )
        self._locks: dict[str, FileLock] = {}

    @property
    def prior(self) -> dict[str, Any]:
        """Where the optimum was believed to be, by name, as files have it; empty where nothing was."""
        knowledge = self._proposer.knowledge
        return {} if knowledge is None else knowledge.prior

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

    def _snapshot(self) -> Snapshot:
        return Snapshot(
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

    def _ask(self, n: int, left: int | None, fixed: Mapping[str, Any] | None) -> list[Trial]:
        """So many trials; fewer where a finite space has no more."""
        history = self._trials.history(self.direction, self.reference)
        with self._proposer.holding(fixed) as region:
            if region is not None and region.is_chosen_point:  # which is measured again
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
