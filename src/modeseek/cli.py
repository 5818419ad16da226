"""The command line: `modeseek demo`, `bench` and `report`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import modeseek
from modeseek.errors import ModeseekError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `modeseek ...` and return its exit status."""
    parser = argparse.ArgumentParser(prog="modeseek", description=modeseek.__doc__)
    parser.add_argument("--version", action="version", version=f"modeseek {modeseek.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="optimize Styblinski-Tang in two dimensions and draw what happened")
    demo.add_argument("--budget", type=int, default=50, help="evaluations, 10 of them Sobol points (default: 50)")
    demo.add_argument("--seed", type=int, default=0, help="(default: 0)")
    demo.add_argument("--out", type=Path, default=Path("demo.png"), help="the picture's file (default: demo.png)")
    demo.set_defaults(run=_demo)

    bench = commands.add_parser("bench", help="run methods on the paper's tasks and store what happened")
    bench_commands = bench.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_bench_run(bench_commands)
    theory = bench_commands.add_parser("theory", help="measure the terms of the paper's Lemma 1: a table and a figure")
    theory.add_argument("--out", type=Path, default=Path("report"), help="folder to write into (default: report)")
    theory.add_argument("--seeds", type=int, default=10, help="(default: 10)")
    theory.set_defaults(run=_theory)

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
    return 0


def _add_bench_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="run the replications that are missing",
        description="Run the replications of methods on tasks that are not stored yet. Ctrl-C or a crash loses at most "
        "those that were running; the same command goes on.",
    )
    run.add_argument("--task", required=True, type=_names, help="one or several, as in levy-10,ackley-8; or all")
    run.add_argument(
        "--method", required=True, type=_names, help="one or several, as in dms,ei,dms-paper[rho=2;K=0]; or all"
    )
    run.add_argument("--reps", type=int, help="replications (default: the paper's number, 30 to d = 10, then 10)")
    run.add_argument("--out", type=Path, default=Path("results"), help="folder of records (default: results)")
    run.add_argument("--engine", choices=("local", "ray", "batch"), default="local", help="(default: local processes)")
    run.add_argument("--workers", type=int, default=1, help="processes, for local and ray (default: 1)")
    run.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")
    run.add_argument("--retry-failed", action="store_true", help="run replications again whose record says failed")
    run.set_defaults(run=_bench_run)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _bench_run(options: argparse.Namespace) -> None:
    from modeseek import baselines, problems
    from modeseek.experiments.campaign import run_campaign
    from modeseek.experiments.records import Store

    records = run_campaign(
        problems.names() if options.task == ["all"] else options.task,
        baselines.names() if options.method == ["all"] else options.method,
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


def _theory(options: argparse.Namespace) -> None:
    from modeseek.experiments.theory import draw, study, table

    results = study(seeds=options.seeds)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "theory.md").write_text(table(results) + "\n")
    draw(results, options.out / "theory.png")
    print(table(results))


def _report(options: argparse.Namespace) -> None:
    from modeseek.experiments.report import write_report

    for path in write_report(options.results, options.out):
        print(path)


def _demo(options: argparse.Namespace) -> None:
    from modeseek.demo import demo

    demo(budget=options.budget, seed=options.seed, out=options.out)
