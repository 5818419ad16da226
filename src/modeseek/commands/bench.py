"""`modeseek bench`: campaigns of methods on tasks, and measurements of time and of the method's parts."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from modeseek.checks import did_you_mean, nearest
from modeseek.commands.arguments import Commands, at_least, check_folder, names, positive, sizes
from modeseek.commands.scoreboard import add_running, add_scoreboard, device_of_plan, run_steps
from modeseek.errors import ConfigError, ModeseekError


def add_command(commands: Commands) -> None:
    """Add `bench`, with commands of its own, to the commands of `modeseek`."""
    bench = commands.add_parser("bench", help="run methods on the paper's tasks and store the results")
    bench_commands = bench.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(bench_commands)
    _add_paper(bench_commands)
    add_scoreboard(bench_commands)
    _add_pack(bench_commands)
    _add_measurements(bench_commands)


def _add_run(commands: Commands) -> None:
    run = commands.add_parser(
        "run",
        help="run the replications that are missing",
        description="Run the replications of methods on tasks that are not stored yet. Ctrl-C or a crash loses at most "
        "those that were running; the same command resumes.",
    )
    run.add_argument(
        "--task",
        required=True,
        type=names,
        help="one or several, as in levy-10,ackley-8 or my_file.py:problem; or all (the paper's tasks); or validation "
        "(held-out functions)",
    )
    run.add_argument(
        "--method",
        required=True,
        type=names,
        help="one or several, as in dms,ei,dms-paper[rho=2;K=0] or my_file.py:method; or all; or ablations (variants "
        "of the paper's preset); or ingredients (the default without each of its ingredients); or departures (from the "
        "paper's text to the default, one point at a time)",
    )
    run.add_argument(
        "--reps",
        type=positive,
        help="replications (default: as in the paper, 30 up to d = 10 and 10 above; 10 for validation)",
    )
    run.add_argument("--out", type=Path, default=Path("results"), help="folder of records (default: results)")
    run.add_argument("--engine", choices=("local", "ray", "batch"), default="local", help="(default: local processes)")
    run.add_argument("--workers", type=positive, default=1, help="processes, for local and ray (default: 1)")
    run.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")
    run.add_argument("--retry-failed", action="store_true", help="run failed replications again")
    run.set_defaults(run=_run)


def _add_paper(commands: Commands) -> None:
    paper = commands.add_parser(
        "paper",
        help="run whatever is missing of the paper's figures, tables and ablations",
        description="Run the paper's figures, ablations, the way from its text to our default, and the measurements of "
        "its tables and its theory, as far as they are not stored yet: baselines and the paper's presets first, our "
        "default last. Seconds are measured with one thread, best on a machine that does nothing else. "
        "Ctrl-C or a crash loses little; the same command resumes, and several may share a folder.",
    )
    add_running(paper)
    paper.add_argument("--part", type=names, help='only these, as in "Table 3,growth"; --plan names all')
    paper.add_argument("--task", type=names, help="only these tasks")
    paper.add_argument("--method", type=names, help="only these methods")
    paper.set_defaults(run=_paper)


def _add_pack(commands: Commands) -> None:
    pack = commands.add_parser(
        "pack",
        help="pack records into small files to be published",
        description="Write all records of a folder, packed before or still in the journal of JSON lines, into one "
        "Parquet file per suite. `modeseek report` and `bench run` read them as they read the journal.",
    )
    pack.add_argument("results", type=Path, help="folder of records that `modeseek bench run` wrote")
    pack.add_argument(
        "--out", type=Path, help="folder, or one file that ends in .parquet (default: the folder of the records)"
    )
    pack.add_argument(
        "--inputs",
        choices=("all", "real", "none"),
        default="all",
        help="tasks whose evaluated points are kept; real: those that train a network (default: all)",
    )
    pack.set_defaults(run=_pack)


def _add_measurements(commands: Commands) -> None:
    theory = commands.add_parser(
        "theory",
        help="measure the terms of the paper's Lemma 1",
        description="Measure what is not stored yet of the terms of the paper's Lemma 1 and of its diffusion error, "
        "over n, m, t0 and w. Ctrl-C loses at most the setting that was being measured; the same command resumes.",
    )
    theory.add_argument("--seeds", type=partial(at_least, 2), default=10, help="(default: 10)")
    theory.add_argument("--task", type=names, help="of the synthetic ones (default: styblinski-tang-2,levy-10)")
    theory.add_argument("--method", type=names, help="presets of the paper (default: dms-paper,dms-printed)")
    theory.set_defaults(run=_theory)
    distribution = commands.add_parser("distribution", help="draw x* from the GP and from the diffusion model")
    distribution.add_argument("--method", type=names, help="presets of DMS (default: dms-printed,dms-paper)")
    distribution.add_argument("--reps", type=positive, help="replications of Styblinski-Tang-2 (default: 5)")
    distribution.set_defaults(run=_distribution)
    draws = commands.add_parser("draws", help="measure how long DMS and PES take to sample x*")
    draws.add_argument("--repeats", type=positive, default=5, help="(default: 5)")
    draws.set_defaults(run=_draws)
    seconds = commands.add_parser("seconds", help="measure the seconds per iteration of every method")
    seconds.add_argument("--task", type=names, help="(default: the four of the paper's Table 4)")
    seconds.add_argument("--method", type=names, help="(default: those that the paper ran on each task)")
    seconds.add_argument("--repeats", type=positive, default=3, help="(default: 3; 1 for calls of over two minutes)")
    seconds.set_defaults(run=_seconds)
    batches = commands.add_parser("batches", help="measure the seconds per iteration of DMS in batches, by stage")
    batches.add_argument("--task", type=names, help="(default: the four of the paper's Table 4)")
    batches.add_argument("--batch", type=sizes, help="(default: 1,8,30,128)")
    batches.set_defaults(run=_batches)
    growth = commands.add_parser("growth", help="measure how the time per iteration of DMS grows with each size")
    growth.add_argument("--batch", type=sizes, help="replications side by side (default: 1, and on a GPU 128, too)")
    growth.set_defaults(run=_growth)
    for command in (theory, distribution, draws, seconds, batches, growth):
        command.add_argument("--threads", type=positive, default=1, help="(default: 1)")
    for command in (theory, distribution, draws, seconds, batches, growth):
        command.add_argument("--out", type=Path, default=Path("results"), help="folder of results (default: results)")
    for command in (theory, draws, seconds, batches, growth):
        command.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")


def _run(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.campaign import run_campaign
    from modeseek.bench.campaign.records import Record, Store
    from modeseek.bench.methods import method_names, variants
    from modeseek.bench.tasks import task_names, validation_names

    check_folder(options.out)
    _check_lists("task", options.task, ["all", "validation"], [*task_names(), *validation_names()])
    _check_lists("method", options.method, ["all", "ablations", "ingredients", "departures"], method_names())
    tasks = _expand(options.task, {"all": task_names(), "validation": validation_names()})
    lists = {"all": method_names(), "ingredients": variants.ingredients()}
    if not {"ablations", "departures"}.isdisjoint(options.method):  # other methods for each task
        lists_of = {
            task: {**lists, "ablations": variants.ablations(task), "departures": list(variants.departures(task))}
            for task in tasks
        }
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
        reason = (record.error or "").strip().rpartition("\n")[2] or "no reason is recorded"
        print(f"failed: {record.task}, {record.method}, replication {record.replication}: {reason}", file=sys.stderr)
    if failed:
        raise ModeseekError(f"{len(failed)} replications failed; --retry-failed runs them again")


def _paper(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.paper import steps
    from modeseek.bench.campaign.plan import Cell

    check_folder(options.out)
    every = steps(device_of_plan(options))
    parts = list(dict.fromkeys(step.part for step in every))
    for part in options.part or ():
        if part not in parts:
            hint = did_you_mean(part, parts) or f"; there are {', '.join(parts)}"
            raise ConfigError(f"there is no part {part!r}{hint}")
    wanted = []
    for step in every:
        tasks = step.tasks if isinstance(step, Cell) else (step.task,)
        if (
            (not options.part or step.part in options.part)
            and (not options.method or step.method in options.method)
            and (not options.task or set(tasks) & set(options.task))
        ):
            wanted.append(step)
    run_steps(wanted, options)


def _pack(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.pack import pack

    for path, count in pack(options.results, options.out or options.results, options.inputs).items():
        print(f"{path}: {count} records, {path.stat().st_size / 1e6:.1f} MB")


def _check_lists(kind: str, given: list[str], lists: list[str], known: list[str]) -> None:
    """ConfigError for an unknown name that is nearest to a list's; `tasks` and `methods` check all other names."""
    from modeseek.bench.loading import is_file_name

    for name in given:
        base = name.partition("[")[0]
        near = [] if is_file_name(name) else nearest(name, [*lists, *known])
        if base not in known and near and near[0] in lists and name != near[0]:
            raise ConfigError(f"there is no {kind} {name!r}; did you mean {near[0]!r}? Lists are {', '.join(lists)}")


def _expand(given: list[str], lists: dict[str, list[str]]) -> list[str]:
    """The names with those of lists in their place, each once."""
    return list(dict.fromkeys(name for item in given for name in lists.get(item, [item])))


def _theory(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.replication import fixed_threads
    from modeseek.bench.measure.theory import METHODS, TASKS, config_of, study
    from modeseek.bench.tasks import find_task
    from modeseek.checks import device_of

    check_folder(options.out)
    path, device = options.out / "theory.json", str(device_of(options.device))
    wanted = [(task, method) for task in options.task or TASKS for method in options.method or METHODS]
    for task, method in wanted:
        config_of(find_task(task), method)  # that both are known, before any work
    with fixed_threads(options.threads):
        for task, method in wanted:
            for r in study(path, task, method, seeds=options.seeds, device=device):
                settings = ", ".join(f"{name} = {value:g}" for name, value in r.settings.items())
                print(f"{task}, {method}, {settings}: SubOpt {r.subopt.mean():.3g}", flush=True)
    print(path)


def _distribution(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.replication import fixed_threads
    from modeseek.bench.measure import distribution

    check_folder(options.out)
    path = options.out / "distribution.json"
    with fixed_threads(options.threads):
        for method in options.method or distribution.METHODS:
            for replication in range(options.reps or distribution.REPLICATIONS):
                for samples in distribution.take_samples(method=method, replication=replication):
                    distribution.save(path, samples)
                print(f"{method}, replication {replication}: {samples.seconds:.0f} s", flush=True)
    print(path)


def _draws(options: argparse.Namespace) -> None:
    from modeseek.bench.measure.seconds import measure_draws

    check_folder(options.out)
    measurements = measure_draws(repeats=options.repeats, device=options.device, threads=options.threads)
    _save_seconds(measurements, options.out / "draws.json")


def _seconds(options: argparse.Namespace) -> None:
    from modeseek.bench.measure.seconds import TASKS, measure_iterations

    check_folder(options.out)
    measurements = measure_iterations(
        options.task or TASKS, options.method, repeats=options.repeats, device=options.device, threads=options.threads
    )
    _save_seconds(measurements, options.out / "seconds.json")


def _batches(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.replication import fixed_threads
    from modeseek.bench.measure.cost import BATCHES, measure_batches, save
    from modeseek.bench.measure.seconds import TASKS

    check_folder(options.out)
    with fixed_threads(options.threads):
        for m in measure_batches(options.task or TASKS, options.batch or BATCHES, device=options.device):
            save(options.out / "batches.json", m)
            print(f"{m['task']}, {m['method']}, batch of {m['batch']}: {m['seconds']:.3g} s", flush=True)


def _growth(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.replication import fixed_threads
    from modeseek.bench.measure.cost import growth_batches, measure_growth, save
    from modeseek.checks import device_of

    check_folder(options.out)
    device = str(device_of(options.device))
    with fixed_threads(options.threads):
        for batch in options.batch or growth_batches(device):
            for m in measure_growth(batch=batch, device=device):
                save(options.out / "growth.json", m)
                print(f"{m['size']} = {m['value']}, batch of {batch}: {m['seconds']:.3g} s", flush=True)


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
