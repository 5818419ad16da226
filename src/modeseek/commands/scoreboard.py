"""`modeseek bench scoreboard`, and what it shares with `modeseek bench paper`: a plan shown, and run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modeseek.commands.arguments import Commands, check_folder, names, positive
from modeseek.errors import ModeseekError

if TYPE_CHECKING:
    from modeseek.bench.campaign.plan import Step


def add_scoreboard(commands: Commands) -> None:
    """Add `scoreboard` to the commands of `modeseek bench`."""
    board = commands.add_parser(
        "scoreboard",
        help="run whatever is missing of our methods and others' on public suites",
        description="Run our methods, and those of other packages that are installed (make peers), on COCO's bbob and "
        "bbob-mixint, tables of hyperparameters and discrete problems, as far as they are not stored yet: cheap "
        "methods first. Ctrl-C or a crash loses little; the same command resumes, and several may share a folder.",
    )
    board.add_argument("--suite", type=names, help="only these, as in bbob-d5,hpo (docs/problems.md lists them)")
    board.add_argument("--method", type=names, help="only these, as in dms,hebo (default: all that are installed)")
    board.add_argument(
        "--instances", type=positive, help="of each function, up to 5 (default: 5, fewer for slow methods)"
    )
    add_running(board)
    board.set_defaults(run=_scoreboard)


def add_running(command: argparse.ArgumentParser) -> None:
    """The options of a plan that is run or shown."""
    command.add_argument("--out", type=Path, default=Path("results"), help="folder of records (default: results)")
    command.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")
    command.add_argument("--workers", type=positive, default=1, help="processes, for what is not batched (default: 1)")
    command.add_argument("--timeout", type=positive, help="begin nothing new after so many seconds")
    command.add_argument("--plan", action="store_true", help="only say what is missing and how long it may take")


def run_steps(steps: Sequence[Step], options: argparse.Namespace) -> None:
    """Run what is missing of the steps, or show it with `--plan`."""
    from modeseek.bench.campaign.plan import Plan, run_missing
    from modeseek.bench.campaign.records import Store

    store = Store(options.out)
    plan = Plan.of(store, device_of_plan(options), steps, options.workers)
    if options.plan:
        print("\n".join([*plan.lines(), plan.total()]))
        return
    measures = plan.measurements > 0
    records = list(run_missing(store, plan, seconds=options.timeout))
    failed = [record for record in records if record.status == "failed"]
    print(f"{len(records) - len(failed)} replications run, {len(failed)} failed; records in {options.out.resolve()}")
    if measures:
        print(f"{plan.made} measurements made, {len(plan.failures)} failed")
        for failure in plan.failures:
            print(f"failed: {failure}", file=sys.stderr)
    if plan.failures:
        raise ModeseekError(f"{len(plan.failures)} measurements failed; the same command makes them again")
    if failed:
        raise ModeseekError(f"{len(failed)} replications failed; `modeseek bench run --retry-failed` runs them again")


def device_of_plan(options: argparse.Namespace) -> str:
    """The device that is asked for, which must be there unless it is only planned for."""
    from modeseek.checks import device_of

    return str(options.device if options.plan and options.device != "auto" else device_of(options.device))


def _scoreboard(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.scoreboard import cells

    check_folder(options.out)
    run_steps(cells(options.suite, options.method, options.instances), options)
