"""`minimize` and `maximize`: the whole loop, from the objective to a Result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from modeseek.config import DMSConfig
from modeseek.execution.pool import end_if_unguarded
from modeseek.space import Space
from modeseek.stopping import WhenSure
from modeseek.typing import Noise, Params

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from modeseek.checkpoint import StrPath
    from modeseek.execution.session import Callback, Objective
    from modeseek.result import Result
    from modeseek.trials import Direction, Trial

Catch: TypeAlias = type[Exception] | tuple[type[Exception], ...]


# Arguments that go to the Optimizer, and those that go to the session.
_SETTINGS = ("seed", "config", "n_initial", "device", "threads", "noise", "reference", "prior", "transfer")
_OF_SESSION = ("callbacks", "timeout", "stop", "fixed", "known", "catch", "checkpoint", "max_failures", "retry_failed")


def minimize(
    f: Objective,
    space: Space,
    budget: int,
    *,
    seed: int | None = None,
    config: DMSConfig | None = None,
    n_initial: int = 10,
    device: str = "cpu",
    threads: int = 1,
    noise: Noise = "fitted",
    callbacks: Sequence[Callback] = (),
    timeout: float | None = None,
    stop: WhenSure | None = None,
    fixed: Mapping[str, Any] | None = None,
    known: Iterable[tuple[Params, Any] | Trial] | Result = (),
    catch: Catch = (),
    checkpoint: StrPath | None = None,
    retry_failed: bool = False,
    n_workers: int = 1,
    executor: Literal["process", "thread"] | Executor = "process",
    progress: bool = True,
    max_failures: int = 10,
    directions: Sequence[Direction] | None = None,
    reference: ArrayLike | None = None,
    prior: Mapping[str, Any] | None = None,
    transfer: Any = None,
) -> Result:
    """Find parameters with a small f(params), from at most `budget` evaluations.

    Args:
        f: the objective: a dict of parameters (an array for a box) to a number. NaN, infinity and anything else that
            is not a finite number make a failed trial. With black-box constraints it returns an `Outcome`, or a tuple
            of the value and a list of the constraints: the point is feasible where all of them are at most 0.
        space: what to search.
        budget: total number of evaluations, the initial design, failed ones and those before a resume included.
        seed, config, n_initial, device, threads, noise: see `Optimizer`.
        callbacks: each is called as callback(optimizer, trial) after every trial; returning True (or NumPy's True),
            and nothing else, ends the run.
        timeout: seconds after which no new trial begins.
        stop: `WhenSure(regret=..., probability=...)` ends the run once so little is left to be gained.
        fixed: values that some parameters have throughout this run, by name; the others are searched.
        known: pairs of parameters and values (or what else f may return) that were measured before; also trials, or a
            `Result`, whose complete trials are taken. They count toward the initial design, not toward the budget.
        catch: exception types of f that only fail the trial; any other is raised again, after the trial is kept.
        checkpoint: a file to save to after every step, and to resume from when it exists, also with another space (see
            `Optimizer.load`). Trials that ran when it was written are evaluated again first.
        retry_failed: on resume, evaluate the failed trials again instead of counting them.
        n_workers: evaluations side by side.
        executor: "process", "thread", or your own concurrent.futures.Executor, which stays open. For processes, also
            your own, f must be found by their imports; a lambda, and what is defined in a notebook or under a script's
            `if __name__ == "__main__":`, needs cloudpickle.
        progress: a progress bar on standard error, or in the notebook.
        max_failures: AllTrialsFailed when this many trials, or all of the budget, have failed and none succeeded.
        directions: of several objectives, "minimize" or "maximize" for each; f then returns a list of as many numbers,
            and `result.front` has what was found.
        reference: of several objectives, as in `Optimizer`.
        prior: where the optimum is believed to be, as in `Optimizer`: `prior={"lr": Normal(1e-3, 0.5)}`.
        transfer: earlier studies on related tasks, as in `Optimizer`. A run that is resumed keeps those it began with.

    Ctrl-C ends the run and returns the Result, with stopped="interrupted"; trials that ran are still RUNNING in it and
    in the checkpoint.

    As long as no evaluation has given a number, one that returns None, text, a tuple, a dict or the like, also as a
    constraint or a standard error, ends the run with ObjectiveTypeError: that is a mistake in f. `catch=(TypeError,)`
    goes on after it.

    An evaluation that ends its process (a crash, `os._exit`, out of memory) is tried once more in a new worker, then
    it is a failed trial and the run goes on. With one worker, or with threads, it ends this program; resumed from the
    checkpoint, the run tries the point once more, and after a second end takes it as failed. `sys.exit` fails the
    trial.

    When the checkpoint cannot be written after an evaluation (a full disk), the run warns once (CheckpointWarning),
    goes on and saves again after each step. If the last save fails, too, CheckpointNotSaved is raised; its `.result`
    and `.optimizer` have everything, and `error.optimizer.save(path)` writes it for the next call to resume from.
    """
    return _run("minimize", f, space, budget, locals())


def maximize(
    f: Objective,
    space: Space,
    budget: int,
    *,
    seed: int | None = None,
    config: DMSConfig | None = None,
    n_initial: int = 10,
    device: str = "cpu",
    threads: int = 1,
    noise: Noise = "fitted",
    callbacks: Sequence[Callback] = (),
    timeout: float | None = None,
    stop: WhenSure | None = None,
    fixed: Mapping[str, Any] | None = None,
    known: Iterable[tuple[Params, Any] | Trial] | Result = (),
    catch: Catch = (),
    checkpoint: StrPath | None = None,
    retry_failed: bool = False,
    n_workers: int = 1,
    executor: Literal["process", "thread"] | Executor = "process",
    progress: bool = True,
    max_failures: int = 10,
    directions: Sequence[Direction] | None = None,
    reference: ArrayLike | None = None,
    prior: Mapping[str, Any] | None = None,
    transfer: Any = None,
) -> Result:
    """Find parameters with a large f(params), from at most `budget` evaluations; all else as in `minimize`."""
    return _run("maximize", f, space, budget, locals())


def _run(direction: Direction, f: Objective, space: Space, budget: int, arguments: Mapping[str, Any]) -> Result:
    """What `minimize` and `maximize` have in common, with their arguments by name."""
    end_if_unguarded()
    from modeseek.execution.session import Session  # here: a worker process imports the user's script, not torch

    directions = arguments["directions"]
    with Session(
        direction if directions is None else directions,
        f,
        space,
        budget,
        settings={name: arguments[name] for name in _SETTINGS},
        **{name: arguments[name] for name in _OF_SESSION},
    ) as session:
        return session(arguments["n_workers"], arguments["executor"], arguments["progress"])
