"""One trial after the other, in this process or as a worker process does it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import optuna
from optuna.storages import BaseStorage

from modeseek.commands.optimize.objective import find_function
from modeseek.commands.optimize.own_trials import OwnTrials
from modeseek.commands.optimize.storage import open_storage
from modeseek.config import DMSConfig
from modeseek.earlier import Told
from modeseek.execution.evaluate import evaluate
from modeseek.execution.interrupts import Interrupts
from modeseek.execution.supervisor import evaluation
from modeseek.integrations.optuna_trials import ordered_choices
from modeseek.space import Space
from modeseek.typing import Noise

LONGEST_ERROR = 2000  # characters of a traceback that are kept, its end


@dataclass(frozen=True)
class Job:
    """What is optimized, how, and where the trials are kept; it goes to worker processes as it is.

    Attributes:
        objective: `module:function`, of a dict of parameters.
        space: what to search.
        storage: an Optuna storage URL, or a journal file (.log, .journal).
        study: the study's name.
        seed, config, n_startup_trials, device, threads, n_trials, fixed, prior, transfer: see `DMSSampler`; the seed
            None is the study's, which a new study draws.
        noise: "none" for a deterministic objective.
        reference: of several objectives a number each; see `DMSSampler`.
    """

    objective: str
    space: Space
    storage: str
    study: str
    seed: int | None = None
    config: DMSConfig = field(default_factory=DMSConfig)
    n_startup_trials: int = 10
    device: str = "cpu"
    threads: int = 1
    n_trials: int | None = None
    noise: Noise = "fitted"
    fixed: dict[str, Any] = field(default_factory=dict)
    prior: dict[str, Any] = field(default_factory=dict)
    transfer: Sequence[Told] = ()
    reference: Sequence[float] | None = None

    @property
    def says_more(self) -> bool:
        """Whether there is more than Optuna knows of, from the first trial on: an order, constraints, knowledge."""
        space = self.space
        return bool(space.constraints or ordered_choices(space) or self.fixed or self.prior or self.transfer)


class Report(NamedTuple):
    """How a trial ended: `error` is None when it is complete; `never_a_number` as in `Evaluated`."""

    number: int
    error: str | None
    never_a_number: bool = False


@contextmanager
def evaluator(settings: Job, storage: BaseStorage, interrupts: Interrupts) -> Iterator[Callable[[], Report]]:
    """A function that runs one trial to its end; Ctrl-C is let through only while the objective is evaluated."""
    from modeseek.integrations.optuna import DMSSampler  # here: the parent of several workers has no need of torch

    f = find_function(settings.objective)
    sampler = DMSSampler(
        seed=settings.seed,
        config=settings.config,
        n_startup_trials=settings.n_startup_trials,
        device=settings.device,
        threads=settings.threads,
        n_trials=settings.n_trials,
        deterministic_objective=settings.noise == "none",
        space=settings.space if settings.says_more else None,
        fixed=settings.fixed,
        prior=settings.prior,
        transfer=settings.transfer or None,
        reference=settings.reference,
    )
    study = optuna.load_study(study_name=settings.study, storage=storage, sampler=sampler)

    def run_trial() -> Report:
        trial, params = trials.begin()
        try:
            with interrupts.allowed(), evaluation():
                outcome = evaluate(f, (), params, len(study.directions))
        except BaseException:
            trials.interrupt(trial)
            raise
        outcome = trials.checked(outcome)
        error = None if outcome.error is None else outcome.error[-LONGEST_ERROR:]
        trials.finish(trial, outcome.measured, error)
        return Report(trial.number, error, outcome.never_a_number)

    with OwnTrials(study, settings.space, interrupts.check) as trials:
        yield run_trial


@contextmanager
def worker(settings: Job) -> Iterator[Callable[[Any], Report]]:
    """What a worker process does with its jobs, which say no more than: one more trial.

    The pool ends a worker by SIGTERM. It is let through like Ctrl-C elsewhere, so that the trial is marked as
    interrupted and no write to the storage is cut short.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with (
        Interrupts(signal.SIGTERM) as interrupts,
        evaluator(settings, open_storage(settings.storage), interrupts) as run_trial,
    ):
        yield lambda _: run_trial()
