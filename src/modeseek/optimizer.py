"""Ask and tell: Algorithm 1 of the paper as a loop that the user holds in hand.

The initial design is one Sobol sequence fixed by the seed; after it, DMS proposes each point. Each suggestion draws
its randomness from the seed and the trial's number, so a resumed run needs no random state.
"""

from __future__ import annotations

import secrets
import warnings
from contextlib import AbstractContextManager
from typing import Any, Self, get_args, overload

import numpy as np
import torch
from filelock import FileLock

from modeseek import checkpoint, dms
from modeseek.checks import device_of, whole_number
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.dms import Suggestion
from modeseek.errors import ConfigError, ModeseekWarning, SpaceExhausted, TrialFailedWarning
from modeseek.proposer import choose, computing, fresh, generator, remaining, rounding, seeds, warn_once
from modeseek.space import Space
from modeseek.trials import Direction, Origin, Trial, Trials, TrialState, as_number
from modeseek.typing import Array, Params


class Optimizer:
    """Bayesian optimization by diffusion-based mode seeking, one question at a time; for use from one thread.

    Args:
        space: what to search.
        direction: "minimize" or "maximize".
        seed: a whole number; the same seed gives the same suggestions. None draws one, kept in `seed`.
        config: the settings of DMS; None is `DMSConfig()`.
        n_initial: evaluations before the model is used. What was told by `tell_params` counts, failed trials do not.
        device: "cpu", "cuda" (or "cuda:1", ...), or "auto" for a GPU where there is one.
    """

    def __init__(
        self,
        space: Space,
        *,
        direction: Direction = "minimize",
        seed: int | None = None,
        config: DMSConfig | None = None,
        n_initial: int = 10,
        device: str = "cpu",
    ) -> None:
        if not isinstance(space, Space):
            raise ConfigError(f"space must be a modeseek.Space, not {space!r}; wrap a dict as Space({{...}})")
        if direction not in get_args(Direction):
            raise ConfigError(f"direction must be 'minimize' or 'maximize', not {direction!r}")
        if config is not None and not isinstance(config, DMSConfig):
            raise ConfigError(f"config must be a modeseek.DMSConfig, not {config!r}")
        self.space = space
        self.direction: Direction = direction
        self.seed = secrets.randbits(63) if seed is None else whole_number("seed", seed, 0)
        self.config = DMSConfig() if config is None else config
        self.n_initial = whole_number("n_initial", n_initial, 1)
        self.device = device_of(device)
        self.suggestion: Suggestion | None = None  # the last one of the model, for plots and diagnosis
        self._trials = Trials(space)
        self._state: dms.State | None = None
        self._warned: set[type[ModeseekWarning]] = set()
        self._locks: dict[str, FileLock] = {}

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
        """The trials that were asked and not yet told."""
        return self._trials.having(TrialState.RUNNING)

    @property
    def best(self) -> Trial | None:
        """The completed trial with the best value, as observed; None before there is one. See `recommend`."""
        return self._trials.best(self.direction)

    def recommend(self) -> Trial | None:
        """The completed trial with the best posterior mean: under noise a safer choice than `best`. Changes nothing."""
        done = self._trials.having(TrialState.COMPLETE)
        if not done:
            return None
        X, Y = self._data()
        with self._computing():
            mu, _ = dms.fit_surrogate(X, Y, self.config, self._state).posterior(X)
        return done[int(torch.nan_to_num(mu[0], nan=-torch.inf).argmax())]

    @overload
    def ask(self) -> Trial: ...
    @overload
    def ask(self, n: int) -> list[Trial]: ...
    def ask(self, n: int | None = None) -> Trial | list[Trial]:
        """The next trial, or a list of the next n, to be evaluated side by side.

        Each is pending from now on, and later ones keep away from it. In a finite space no configuration comes twice:
        a list is shorter than n when fewer remain, and SpaceExhausted is raised when none does.
        """
        if n is None:
            return self._ask()
        asked: list[Trial] = []
        for _ in range(whole_number("n", n, 1)):
            try:
                asked.append(self._ask())
            except SpaceExhausted:
                if not asked:
                    raise
                break
        return asked

    def tell(self, trial: Trial | int, value: Any = None, *, failed: bool = False, error: str | None = None) -> Trial:
        """Report a trial (or its number) and get it back as told; in any order, once.

        A value that is no finite number makes a failed trial and a TrialFailedWarning. `failed=True` says that there
        is none, `error` why. TrialError when the trial is unknown, of another optimizer, or told already.
        """
        own = self._trials.running(trial)
        if not failed and error is not None:
            raise ConfigError("tell a value, or failed=True with an error")
        if failed:
            if value is not None:
                raise ConfigError("tell a value or failed=True, not both")
            return self._trials.fail(own, error or "told as failed")
        return self._finish(own, *_judge(value))

    def tell_params(self, params: Params, value: Any) -> Trial:
        """Report what was measured elsewhere, as a trial of its own; it counts toward the initial design.

        ParameterError, naming the parameter, when the parameters are not in the space.
        """
        verdict = _judge(value)
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
    def load(cls, path: checkpoint.StrPath, *, device: str = "cpu") -> Self:
        """The optimizer that `save` wrote, going on as if it had never stopped; trials that ran then are `pending`."""
        snapshot = checkpoint.read(path)
        optimizer = cls(
            snapshot.space,
            direction=snapshot.direction,
            seed=snapshot.seed,
            config=snapshot.config,
            n_initial=snapshot.n_initial,
            device=device,
        )
        optimizer._trials = snapshot.trials
        if snapshot.state is not None:
            optimizer._state = dms.State(*(tensor.to(optimizer.device) for tensor in snapshot.state))
        return optimizer

    def close(self) -> None:
        """Let others use the checkpoints that this optimizer has saved to."""
        while self._locks:
            self._locks.popitem()[1].release()

    def _snapshot(self) -> checkpoint.Snapshot:
        return checkpoint.Snapshot(
            self.space, self.direction, self.seed, self.config, self.n_initial, self._trials, self._state
        )

    def _ask(self) -> Trial:
        if len({trial.unit for trial in self._trials}) >= self.space.size:
            raise SpaceExhausted(f"all {self.space.size} configurations of the space have been proposed")
        done = len(self._trials.having(TrialState.COMPLETE))
        if done == 0 or done + len(self.pending) < self.n_initial:
            return self._propose(self._initial_point(), "initial")
        suggestion = self._suggest()
        point = choose(self.space, suggestion, self._trials.proposed(), self._rng())
        trial = self._propose(point, "model")
        self.suggestion, self._state = suggestion, suggestion.state
        warn_once(suggestion, self._warned, stacklevel=3)
        return trial

    def _propose(self, u: Array, origin: Origin) -> Trial:
        return self._trials.append(self.space.decode(u), origin)

    def _finish(self, trial: Trial, number: float | None, reason: str) -> Trial:
        if number is not None:
            return self._trials.complete(trial, number)
        told = self._trials.fail(trial, reason)
        warnings.warn(f"trial {trial.number} failed: {reason}", TrialFailedWarning, stacklevel=3)
        return told

    def _initial_point(self) -> Array:
        """The first point of the seed's Sobol sequence that has not been proposed."""
        points = self.space.snap(sobol(len(self._trials) + 64, self.d, generator(self.seed, 0)).numpy())
        unseen = fresh(points, self._trials.proposed())
        return np.asarray((unseen if len(unseen) else self._remaining())[0])

    def _suggest(self) -> Suggestion:
        X, Y = self._data()
        # A failed trial has no outcome to show, but another one beside it would most likely fail as well.
        pending = torch.from_numpy(self._trials.without_outcome()).to(self.device)[None]
        stream = generator(self.seed, 1, len(self._trials))
        with self._computing():
            return dms.suggest(
                X, Y, self.config, stream, self._state, pending, rounding=rounding(self.space, self.device)
            )

    def _remaining(self) -> Array:
        return remaining(self.space, self._trials.proposed(), self._rng())

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(seeds(self.seed, 2, len(self._trials)))

    def _data(self) -> tuple[torch.Tensor, torch.Tensor]:
        X, Y = self._trials.data(self.direction)
        return torch.from_numpy(X).to(self.device)[None], torch.from_numpy(Y).to(self.device)[None]

    def _computing(self) -> AbstractContextManager[None]:
        return computing(self.device, busy=bool(self.pending))


def _judge(value: Any) -> tuple[float | None, str]:
    try:
        return as_number(value), ""
    except ValueError as reason:
        return None, str(reason)
