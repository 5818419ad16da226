"""`modeseek optimize`: its arguments; Optuna is imported only when the command runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from modeseek.checks import missing_extra
from modeseek.commands.arguments import Commands, above_zero, positive
from modeseek.commands.optimize.objective import checked_name
from modeseek.config import PRESETS
from modeseek.errors import ObjectiveError
from modeseek.trials import Direction
from modeseek.typing import Noise

EPILOG = """\
example, with `def objective(params): ...` in my_module.py:

  modeseek optimize my_module:objective --space space.toml --trials 60 --workers 4
  modeseek optimize my_module:objective --show
  optuna-dashboard sqlite:///modeseek.db

space.toml has one table per parameter:

  [lr]
  type = "float"                  # or "int", "categorical"
  low = 1e-5
  high = 1e-1
  log = true                      # or step = 0.1

  [act]
  type = "categorical"
  choices = ["relu", "tanh"]

  [[constraints]]                 # known beforehand; never violated
  coefficients = {width = 2, height = 1}
  upper = 3                       # or lower, or equals

  [[constraints]]
  function = "my_module:feasible" # def feasible(params): return True or False
"""


def add_command(commands: Commands) -> None:
    """Add `optimize` to the commands of `modeseek`."""
    optimize = commands.add_parser(
        "optimize",
        help="tune a function of yours: resumable, with any number of workers",
        usage="modeseek optimize MODULE:FUNCTION --space FILE [options]\n"
        "       modeseek optimize [MODULE:FUNCTION] --show [--storage URL] [--study NAME] [--space FILE]\n"
        "           [--fixed NAME=VALUE] [--reference R1,R2] [--plot FILE]",
        description="Find the parameters (a dict) for which a Python function returns the best number. Trials are\n"
        "kept in an Optuna study, by default in a SQLite file; the same command resumes where it stopped.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    optimize.add_argument("objective", nargs="?", metavar="MODULE:FUNCTION", type=_objective, help="what to tune")
    _add_problem(optimize.add_argument_group("the problem"))
    _add_run(optimize.add_argument_group("the run"))
    _add_earlier(optimize.add_argument_group("what is known beforehand"))
    _add_method(optimize.add_argument_group("the method"))
    _add_showing(optimize.add_argument_group("looking at a study"))
    optimize.set_defaults(run=_run, usage_error=optimize.error, evaluates_here=_evaluates_here)


def _add_problem(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--space", type=Path, metavar="FILE", help="the parameters, in TOML")
    group.add_argument(
        "--direction",
        type=_directions,
        metavar="D",
        help="minimize or maximize; of several objectives, as in minimize,maximize (default: the study's own; for a "
        "new one that of --known, or else minimize)",
    )
    group.add_argument(
        "--noise",
        choices=get_args(Noise),
        default="fitted",
        help="none: the objective is deterministic (default: fitted, from the outcomes)",
    )
    group.add_argument(
        "--fixed",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a value that a parameter has in all trials of this command; the others are searched (repeatable)",
    )
    group.add_argument(
        "--reference",
        type=_reference,
        metavar="R1,R2",
        help="of several objectives, what is worse in any of them is worth nothing; --reference=-1,2 where it begins "
        "with a minus (default: inferred from the front)",
    )


def _add_run(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--trials",
        type=positive,
        default=60,
        metavar="N",
        help="total number of trials, including earlier runs; failed trials count, interrupted ones do not "
        "(default: 60)",
    )
    group.add_argument("--workers", type=positive, default=1, metavar="N", help="processes (default: 1)")
    group.add_argument(
        "--storage",
        default="sqlite:///modeseek.db",
        metavar="URL",
        help="where trials are kept: any Optuna storage URL, or a journal file (.log, .journal) "
        "(default: sqlite:///modeseek.db)",
    )
    group.add_argument("--study", metavar="NAME", help="name of the study (default: MODULE:FUNCTION)")
    group.add_argument("--timeout", type=above_zero, metavar="S", help="start no new trial after S seconds")
    group.add_argument(
        "--stop-regret",
        type=above_zero,
        metavar="R",
        help="stop once the best point is within R of the optimum, in the objective's units, with 95 %% probability",
    )
    group.add_argument(
        "--retry-failed", action="store_true", help="evaluate failed trials again instead of counting them"
    )


def _add_earlier(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--known",
        action="append",
        default=[],
        metavar="SOURCE",
        help="earlier evaluations of this objective, counted toward --startup and not toward --trials: a CSV file with "
        "a column per parameter and one called value, another study of the storage, or a checkpoint (repeatable)",
    )
    group.add_argument(
        "--transfer",
        action="append",
        default=[],
        metavar="SOURCE",
        help="an earlier study on a related task: a study of the storage, or a checkpoint (repeatable)",
    )


def _add_method(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--seed", type=int, help="(default: the study's own, drawn when it is created)")
    group.add_argument(
        "--startup", type=int, default=10, metavar="N", help="trials before the model is used (default: 10)"
    )
    group.add_argument(
        "--preset", choices=tuple(PRESETS), default="default", help="settings of the method (default: default)"
    )
    group.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")
    group.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="CPU threads per suggestion (default: 1)"
    )


def _add_showing(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--show", action="store_true", help="run nothing; print the best trial and plot the values")
    group.add_argument("--plot", type=Path, metavar="FILE", help="the plot of --show (default: named as the study)")


def _objective(text: str) -> str:
    try:
        return checked_name(text)
    except ObjectiveError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _directions(text: str) -> list[Direction]:
    directions: list[Direction] = []
    for part in text.split(","):
        if part not in ("minimize", "maximize"):
            raise argparse.ArgumentTypeError(f"{part!r} is neither 'minimize' nor 'maximize'")
        directions.append("minimize" if part == "minimize" else "maximize")
    return directions


def _reference(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers, as in 4,0.5") from error


def _evaluates_here(options: argparse.Namespace) -> bool:
    return options.workers == 1 and not options.show


def _run(options: argparse.Namespace) -> None:
    if not options.show and (options.objective is None or options.space is None):
        options.usage_error("MODULE:FUNCTION and --space are needed, unless --show is given")
    if options.show and options.fixed and options.space is None:
        options.usage_error("--fixed with --show needs --space, which says what values there are")
    if options.plot and not options.show:
        options.usage_error("--plot is the plot of --show; give both")
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise missing_extra("`modeseek optimize` needs Optuna", "cli") from error
    from modeseek.commands.optimize.storage import storage_errors

    with storage_errors(options.storage):
        _show(options) if options.show else _optimize(options)


def _show(options: argparse.Namespace) -> None:
    from modeseek.commands.optimize.show import show
    from modeseek.commands.optimize.space_file import read_fixed, read_space

    space = None if options.space is None else read_space(options.space)
    fixed = {} if space is None else read_fixed(options.fixed, space)
    show(options.storage, options.study or options.objective, options.plot, space, fixed, options.reference)


def _optimize(options: argparse.Namespace) -> None:
    from modeseek.commands.optimize.evaluator import Job
    from modeseek.commands.optimize.run import optimize
    from modeseek.commands.optimize.show import summary
    from modeseek.commands.optimize.space_file import read_fixed, read_space_and_prior
    from modeseek.stopping import WhenSure

    space, prior = read_space_and_prior(options.space)
    settings = Job(
        objective=options.objective,
        space=space,
        storage=options.storage,
        study=options.study or options.objective,
        seed=options.seed,
        config=PRESETS[options.preset](space.d),
        n_startup_trials=options.startup,
        device=options.device,
        threads=options.threads,
        n_trials=options.trials,
        noise=options.noise,
        fixed=read_fixed(options.fixed, space),
        prior=prior,
        reference=options.reference,
    )
    study = optimize(
        settings,
        trials=options.trials,
        direction=options.direction,
        workers=options.workers,
        timeout=options.timeout,
        retry_failed=options.retry_failed,
        stop=None if options.stop_regret is None else WhenSure(regret=options.stop_regret),
        known=options.known,
        transfer=options.transfer,
    )
    print(summary(study, settings.fixed, settings.reference))
