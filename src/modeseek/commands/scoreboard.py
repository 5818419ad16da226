"""`modeseek bench scoreboard`, and what it shares with `modeseek bench paper`: a plan shown, and run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modeseek.commands.arguments import Commands, check_folder, names, positive
from modeseek.errors import ModeseekError

if TYPE_CHECKING:
    from modeseek.bench.campaign.paper import Cell


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


def run_cells(
    cells: Sequence[Cell], options: argparse.Namespace, afterwards: Callable[[str], None] = lambda device: None
) -> None:
    """Run what is missing of the cells, or show it with `--plan`; `afterwards` is called once all have run."""
    from modeseek.bench.campaign import paper
    from modeseek.bench.campaign.records import Store
    from modeseek.checks import device_of

    device = options.device if options.plan else str(device_of(options.device))  # planned anywhere
    store = Store(options.out)
    plan = paper.Plan.of(store, device, cells)
    if options.plan:
        for cell, count in plan.missing.items():
            time = paper.duration(count * plan.per_replication(cell))
            print(f"{cell.part}: {cell.tasks_in_words}, {cell.method}: {count} replications, {time}")
        print(f"{sum(plan.missing.values())} replications are missing, {paper.duration(plan.left())}")
        return
    run = paper.run_missing(store, plan, device=device, workers=options.workers, seconds=options.timeout)
    records = list(run)
    failed = [record for record in records if record.status == "failed"]
    print(f"{len(records) - len(failed)} replications run, {len(failed)} failed; records in {options.out.resolve()}")
    if not plan.missing:
        afterwards(device)
    if failed:
        raise ModeseekError(f"{len(failed)} replications failed; `modeseek bench run --retry-failed` runs them again")


def _scoreboard(options: argparse.Namespace) -> None:
    from modeseek.bench.campaign.scoreboard import cells

    check_folder(options.out)
    run_cells(cells(options.suite, options.method, options.instances), options)
