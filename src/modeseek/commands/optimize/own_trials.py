"""One process's trials of a study: begun, kept alive, and ended, whatever the storage does in between."""

from __future__ import annotations

import logging
import math
import multiprocessing
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from modeseek.commands.optimize import store
from modeseek.commands.optimize.spaces import ask_params
from modeseek.commands.optimize.storage import HEARTBEAT, patiently
from modeseek.execution.evaluate import Evaluated
from modeseek.outcomes import Measured
from modeseek.space import Space

LAST_BEAT = 5.0  # seconds to wait for a heartbeat that is just being written

_log = logging.getLogger(__name__)


class OwnTrials:
    """A context manager: while it is open, the trials begun in it leave signs of life in the storage.

    Args:
        study: with the sampler that proposes.
        space: what to search.
        check: called while the storage is away; it may raise, as after Ctrl-C.
    """

    def __init__(self, study: optuna.Study, space: Space, check: Callable[[], None] = lambda: None) -> None:
        self.study, self.space, self._check = study, space, check
        self._mine: set[int] = set()  # the ids of trials that were begun and not ended
        self._closed = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="modeseek heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._heart.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._heart.join(LAST_BEAT)

    def begin(self) -> tuple[Trial, dict[str, Any]]:
        """A new trial and its parameters; trials of processes that are gone are marked as failed first."""
        return patiently(self._begin, self._check)

    def checked(self, outcome: Evaluated) -> Evaluated:
        """What was evaluated, or a failure where it has not as many constraints as the study's complete trials."""
        return patiently(lambda: store.checked(self.study, outcome), self._check)

    def finish(self, trial: Trial, found: Measured | None = None, error: str | None = None) -> None:
        """Tell how a trial ended: its value and its constraints, or why there is none.

        A trial that has been marked as failed in the meantime (its process was stopped for a while, or the storage
        was) stays so; a new trial keeps what was found.
        """
        patiently(lambda: self._finish(trial, found, error), self._check)
        self._mine.discard(trial._trial_id)

    def interrupt(self, trial: Trial) -> None:
        """Mark a trial as failed that was not evaluated to its end: it does not count toward the budget."""
        self._mine.discard(trial._trial_id)
        try:
            self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        except Exception:  # the next command marks it, once this process is gone
            _log.debug("trial %d could not be marked as failed", trial.number, exc_info=True)

    def _begin(self) -> tuple[Trial, dict[str, Any]]:
        is_worker = multiprocessing.parent_process() is not None
        lost = store.fail_abandoned_trials(self.study, self._mine, by_process=not is_worker)
        if lost and self.space.size < math.inf:
            store.enqueue_interrupted_trials(self.study)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Heartbeat of storage")  # meant for `Study.optimize`, which has its own
            trial = self.study.ask()
        self._mine.add(trial._trial_id)
        try:
            trial.set_user_attr(store.WORKER, store.worker_name())
            store.beat(self.study, trial._trial_id)
            return trial, ask_params(trial, self.space)
        except BaseException:
            self.interrupt(trial)
            raise

    def _finish(self, trial: Trial, found: Measured | None, error: str | None) -> None:
        with suppress(UpdateFinishedTrialError):
            if not self._now(trial).state.is_finished():
                if found is not None:
                    for name, value in store.attributes_of(found).items():
                        self.study._storage.set_trial_system_attr(trial._trial_id, name, value)
                    self.study.tell(trial, found.values, skip_if_finished=True)
                else:
                    trial.set_user_attr(store.ERROR, error)
                    self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        now = self._now(trial)
        if not (now.state is TrialState.COMPLETE if found is not None else store.ERROR in now.user_attrs):
            self._keep(now, found, error)

    def _keep(self, given_up: FrozenTrial, found: Measured | None, error: str | None) -> None:
        """Add a trial for what came late, once: the answer to a first attempt may have been lost."""
        number = given_up.number
        if any(trial.user_attrs.get(store.LATE) == number for trial in self.study.get_trials(deepcopy=False)):
            return
        _log.warning("trial %d had been marked as failed while it ran; its result is kept as a new trial", number)
        attributes = {**given_up.user_attrs, store.LATE: number}
        self.study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.COMPLETE if found is not None else TrialState.FAIL,
                values=None if found is None else found.values,
                system_attrs={} if found is None else store.attributes_of(found),
                params=given_up.params,
                distributions=given_up.distributions,
                user_attrs=attributes if error is None else {**attributes, store.ERROR: error},
            )
        )

    def _now(self, trial: Trial) -> FrozenTrial:
        return self.study._storage.get_trial(trial._trial_id)

    def _beat(self) -> None:
        while not self._closed.wait(HEARTBEAT):
            for trial_id in list(self._mine):
                try:
                    store.beat(self.study, trial_id)
                except UpdateFinishedTrialError:  # it was given up; `finish` keeps its result
                    self._mine.discard(trial_id)
                except Exception:  # the storage is away; the next beat may reach it
                    _log.debug("no heartbeat of a trial", exc_info=True)
