"""`modeseek report`: figures, tables and an HTML page from stored results."""

from __future__ import annotations

import argparse
from pathlib import Path

from modeseek.commands.arguments import Commands, check_folder


def add_command(commands: Commands) -> None:
    """Add `report` to the commands of `modeseek`."""
    report = commands.add_parser("report", help="write figures, tables and an HTML page from stored results")
    report.add_argument("results", type=Path, help="folder of records written by `modeseek bench run`")
    report.add_argument("--out", type=Path, default=Path("report"), help="folder to write into (default: report)")
    report.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from modeseek.bench.report.report import write_report

    check_folder(options.out)
    for path in write_report(options.results, options.out):
        print(path)
