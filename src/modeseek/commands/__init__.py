"""The command line: `modeseek optimize`, `demo`, `bench` and `report`."""

from __future__ import annotations

import argparse
import difflib
import math
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import modeseek
from modeseek.errors import ConfigError, MissingExtraError, ModeseekError

OPTIMIZE_EPILOG = """\
example, with `def objective(params): ...` in my_module.py:

  modeseek optimize my_module:objective --space space.toml --trials 60 --workers 4
  modeseek optimize my_module:objective --show
  optuna-dashboard sqlite:///modeseek.db

space.toml has one table a parameter:

  [lr]
  type = "float"                  # or "int", "categorical"
  low = 1e-5
  high = 1e-1
  log = true                      # or step = 0.1

  [act]
  type = "categorical"
  choices = ["relu", "tanh"]
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `modeseek ...` and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="modeseek", description=modeseek.__doc__, epilog="`modeseek COMMAND --help` says more about a command."
    )
    parser.add_argument("--version", action="version", version=f"modeseek {modeseek.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    _add_optimize(commands)

    demo = commands.add_parser("demo", help="optimize a function of two variables and draw it")
    demo.add_argument("--budget", type=int, default=50, help="evaluations, 10 of them Sobol points (default: 50)")
    demo.add_argument("--seed", type=int, default=0, help="(default: 0)")
    demo.add_argument("--out", type=Path, default=Path("demo.png"), help="the picture's file (default: demo.png)")
    demo.set_defaults(run=_demo)

    bench = commands.add_parser("bench", help="run methods on the paper's tasks and store what happened")
    bench_commands = bench.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_bench_run(bench_commands)
    theory = bench_commands.add_parser("theory", help="measure the terms of the paper's Lemma 1: a table and a figure")
    theory.add_argument("--out", type=Path, default=Path("report"), help="folder to write into (default: report)")
    theory.add_argument("--seeds", type=partial(_at_least, 2), default=10, help="(default: 10)")
    theory.set_defaults(run=_theory)
    _add_bench_measurements(bench_commands)

    report = commands.add_parser("report", help="figures, tables and an HTML page from stored results")
    report.add_argument("results", type=Path, help="folder of records that `modeseek bench run` wrote")
    report.add_argument("--out", type=Path, default=Path("report"), help="folder to write into (default: report)")
    report.set_defaults(run=_report)

    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (ModeseekError, OSError) as error:
        print(f"modeseek: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("modeseek: interrupted", file=sys.stderr)
        return 130
    return 0


def _add_optimize(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    optimize = commands.add_parser(
        "optimize",
        help="tune a function of yours: resumable, many workers",
        usage="modeseek optimize MODULE:FUNCTION --space FILE [options]\n"
        "       modeseek optimize [MODULE:FUNCTION] --show [--storage URL] [--study NAME] [--plot FILE]",
        description="Find the parameters (a dict) for which a Python function gives the best number. Trials are kept\n"
        "in an Optuna study, by default in a SQLite file; the same command goes on where it stopped.",
        epilog=OPTIMIZE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    optimize.add_argument("objective", nargs="?", metavar="MODULE:FUNCTION", type=_objective_name, help="what to tune")
    optimize.add_argument("--space", type=Path, metavar="FILE", help="the parameters, in TOML")
    optimize.add_argument(
        "--trials",
        type=_positive,
        default=60,
        metavar="N",
        help="how many trials the study shall have in the end, those of earlier runs included; failed ones count, "
        "interrupted ones do not (default: 60)",
    )
    optimize.add_argument(
        "--direction", choices=("minimize", "maximize"), help="(default: the study's own; minimize for a new one)"
    )
    optimize.add_argument(
        "--storage",
        default="sqlite:///modeseek.db",
        metavar="URL",
        help="where trials are kept: any storage URL of Optuna's, or a journal file (.log, .journal) "
        "(default: sqlite:///modeseek.db)",
    )
    optimize.add_argument("--study", metavar="NAME", help="the study's name (default: MODULE:FUNCTION)")
    optimize.add_argument("--workers", type=_positive, default=1, metavar="N", help="processes (default: 1)")
    optimize.add_argument("--timeout", type=_seconds, metavar="S", help="seconds after which no new trial begins")
    optimize.add_argument("--seed", type=int, help="(default: the study's own, drawn when it is made)")
    optimize.add_argument(
        "--startup", type=int, default=10, metavar="N", help="trials before the model is used (default: 10)"
    )
    optimize.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")
    optimize.add_argument("--show", action="store_true", help="run nothing; print the best trial and draw the values")
    optimize.add_argument("--plot", type=Path, metavar="FILE", help="the picture of --show (default: the study's name)")
    optimize.set_defaults(run=_optimize, usage_error=optimize.error)


def _objective_name(text: str) -> str:
    module, colon, function = text.partition(":")
    if module.endswith(".py"):
        raise argparse.ArgumentTypeError(f"{text!r} names a file; name its module: {module[:-3]}:{function or 'f'}")
    if not (module and colon and function):
        raise argparse.ArgumentTypeError(f"{text!r} must be MODULE:FUNCTION, as in my_module:objective")
    return text


def _at_least(least: int, text: str) -> int:
    if not (text.isdecimal() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


_positive = partial(_at_least, 1)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _add_bench_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="run the replications that are missing",
        description="Run the replications of methods on tasks that are not stored yet. Ctrl-C or a crash loses at most "
        "those that were running; the same command goes on.",
    )
    run.add_argument(
        "--task",
        required=True,
        type=_names,
        help="one or several, as in levy-10,ackley-8; or all, the paper's; or validation, those that no setting was "
        "chosen on",
    )
    run.add_argument(
        "--method",
        required=True,
        type=_names,
        help="one or several, as in dms,ei,dms-paper[rho=2;K=0]; or all; or ablations, variants of the paper's preset; "
        "or ingredients, the default without each of its ingredients",
    )
    run.add_argument(
        "--reps",
        type=_positive,
        help="replications (default: the paper's number, 30 to d = 10, then 10; 10 for validation)",
    )
    run.add_argument("--out", type=Path, default=Path("results"), help="folder of records (default: results)")
    run.add_argument("--engine", choices=("local", "ray", "batch"), default="local", help="(default: local processes)")
    run.add_argument("--workers", type=_positive, default=1, help="processes, for local and ray (default: 1)")
    run.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")
    run.add_argument("--retry-failed", action="store_true", help="run replications again whose record says failed")
    run.set_defaults(run=_bench_run)


def _add_bench_measurements(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    distribution = commands.add_parser("distribution", help="draw x* from the GP and from the diffusion model")
    distribution.add_argument(
        "--replication", type=partial(_at_least, 0), default=0, help="of Styblinski-Tang-2 (default: 0)"
    )
    distribution.set_defaults(run=_bench_distribution)
    draws = commands.add_parser("draws", help="measure the seconds that DMS and PES take for samples of x*")
    draws.add_argument("--repeats", type=_positive, default=5, help="(default: 5)")
    draws.set_defaults(run=_bench_draws)
    seconds = commands.add_parser("seconds", help="measure the seconds of an iteration of every method")
    seconds.add_argument("--task", type=_names, help="(default: the four of the paper's Table 4)")
    seconds.add_argument("--method", type=_names, help="(default: those that the paper ran on a task)")
    seconds.add_argument("--repeats", type=_positive, default=3, help="(default: 3; 1 for calls of over two minutes)")
    seconds.set_defaults(run=_bench_seconds)
    batches = commands.add_parser("batches", help="measure the seconds of an iteration of DMS in batches, by stage")
    batches.add_argument("--task", type=_names, help="(default: the four of the paper's Table 4)")
    batches.add_argument("--batch", type=_sizes, help="(default: 1,8,30,128)")
    batches.set_defaults(run=_bench_batches)
    growth = commands.add_parser("growth", help="measure how an iteration of DMS grows with d, n, m and S")
    growth.add_argument("--batch", type=_positive, default=1, help="replications side by side (default: 1)")
    growth.set_defaults(run=_bench_growth)
    for command in (draws, seconds):
        command.add_argument("--threads", type=_positive, default=1, help="(default: 1)")
    for command in (distribution, draws, seconds, batches, growth):
        command.add_argument("--out", type=Path, default=Path("results"), help="folder of results (default: results)")
    for command in (draws, seconds, batches, growth):
        command.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")


def _names(text: str) -> list[str]:
    outside_brackets = r",(?![^\[]*\])"
    names = [name.strip() for name in re.split(outside_brackets, text) if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} has no name in it")
    return names


def _sizes(text: str) -> list[int]:
    return [_positive(size) for size in text.split(",")]


def _optimize(options: argparse.Namespace) -> None:
    if not options.show and (options.objective is None or options.space is None):
        options.usage_error("MODULE:FUNCTION and --space are needed, unless --show is given")
    if options.plot and not options.show:
        options.usage_error("--plot is the picture of --show; give both")
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingExtraError('`modeseek optimize` needs Optuna: pip install "modeseek[cli]"') from error
    from modeseek.commands import optimize as study
    from modeseek.commands.optimize.space_file import read_space

    name = options.study or options.objective
    if options.show:
        study.show(options.storage, name, options.plot)
        return
    settings = study.Settings(
        objective=options.objective,
        space=read_space(options.space),
        storage=options.storage,
        study=name,
        seed=options.seed,
        n_startup_trials=options.startup,
        device=options.device,
    )
    print(
        study.summary(
            study.optimize(
                settings,
                trials=options.trials,
                direction=options.direction,
                workers=options.workers,
                timeout=options.timeout,
            )
        )
    )


def _bench_run(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.campaign import run_campaign
    from modeseek.bench.campaign.records import Record, Store
    from modeseek.bench.methods import method_names
    from modeseek.bench.report import ablations, ingredients
    from modeseek.bench.tasks import task_names, validation_names

    _check_lists("task", options.task, ["all", "validation"], [*task_names(), *validation_names()])
    _check_lists("method", options.method, ["all", "ablations", "ingredients"], method_names())
    tasks = _expand(options.task, {"all": task_names(), "validation": validation_names()})
    lists = {"all": method_names(), "ingredients": ingredients.methods()}
    if "ablations" in options.method:  # other methods for each task
        lists_of = {task: {**lists, "ablations": ablations.methods(task)} for task in tasks}
        campaigns = [([task], _expand(options.method, lists_of[task])) for task in tasks]
    else:
        campaigns = [(tasks, _expand(options.method, lists))]
    records: list[Record] = []
    for of_tasks, of_methods in campaigns:
        records += run_campaign(
            of_tasks,
            of_methods,
            Store(options.out),
            reps=options.reps,
            engine=options.engine,
            workers=options.workers,
            device=options.device,
            retry_failed=options.retry_failed,
        )
    failed = [record for record in records if record.status == "failed"]
    print(f"{len(records) - len(failed)} replications run, {len(failed)} failed; records in {options.out.resolve()}")
    for record in failed:
        reason = (record.error or "").strip().splitlines()[-1]
        print(f"failed: {record.task}, {record.method}, replication {record.replication}: {reason}", file=sys.stderr)
    if failed:
        raise ModeseekError(f"{len(failed)} replications failed; --retry-failed runs them again")


def _check_lists(kind: str, names: list[str], lists: list[str], known: list[str]) -> None:
    """ConfigError for an unknown name that is nearest to a list's; of others, `problems` and `baselines` know more."""
    for name in names:
        near = difflib.get_close_matches(name.lower(), [*lists, *known], n=1)
        if name not in known and near and near[0] in lists and name != near[0]:
            raise ConfigError(f"there is no {kind} {name!r}; did you mean {near[0]!r}? Lists are {', '.join(lists)}")


def _expand(names: list[str], lists: dict[str, list[str]]) -> list[str]:
    """The names with those of lists in their place, each once."""
    return list(dict.fromkeys(name for given in names for name in lists.get(given, [given])))


def _bench_distribution(options: argparse.Namespace) -> None:
    from modeseek.bench.measure import distribution

    taken = distribution.snapshots(replication=options.replication)
    path = options.out / "distribution.json"
    distribution.save(path, taken)
    print(path)


def _bench_draws(options: argparse.Namespace) -> None:
    from modeseek.bench.measure.seconds import measure_draws

    measurements = measure_draws(repeats=options.repeats, device=options.device, threads=options.threads)
    _save_seconds(measurements, options.out / "draws.json")


def _bench_seconds(options: argparse.Namespace) -> None:
    from modeseek.bench.measure.seconds import TASKS, measure_iterations

    measurements = measure_iterations(
        options.task or TASKS, options.method, repeats=options.repeats, device=options.device, threads=options.threads
    )
    _save_seconds(measurements, options.out / "seconds.json")


def _bench_batches(options: argparse.Namespace) -> None:
    from modeseek.bench.measure.cost import BATCHES, measure_batches, save
    from modeseek.bench.measure.seconds import TASKS

    for m in measure_batches(options.task or TASKS, options.batch or BATCHES, device=options.device):
        save(options.out / "batches.json", m)
        print(f"{m['task']}, {m['method']}, batch of {m['batch']}: {m['seconds']:.3g} s", flush=True)


def _bench_growth(options: argparse.Namespace) -> None:
    from modeseek.bench.measure.cost import measure_growth, save

    for m in measure_growth(batch=options.batch, device=options.device):
        save(options.out / "growth.json", m)
        print(f"{m['size']} = {m['value']}: {m['seconds']:.3g} s", flush=True)


def _save_seconds(measurements: Iterator[dict[str, Any]], path: Path) -> None:
    from modeseek.bench.measure.seconds import save

    measured = False
    for m in measurements:
        measured = True
        save(path, m)
        size = f", S = {m['S']}" if "S" in m else ""
        print(f"{m['task']}, {m['method']}{size}: {statistics.median(m['seconds']):.3g} s", flush=True)
    if not measured:
        raise ModeseekError("nothing was measured; the warnings say why")
    print(path)


def _theory(options: argparse.Namespace) -> None:
    from modeseek.bench.measure.theory import draw, study, table

    results = study(seeds=options.seeds)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "theory.md").write_text(table(results) + "\n")
    draw(results, options.out / "theory.png")
    print(table(results))


def _report(options: argparse.Namespace) -> None:
    from modeseek.bench.report.report import write_report

    for path in write_report(options.results, options.out):
        print(path)


def _demo(options: argparse.Namespace) -> None:
    from modeseek.commands.demo import demo

    demo(budget=options.budget, seed=options.seed, out=options.out)
