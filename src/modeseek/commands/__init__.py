"""The command line: `modeseek optimize`, `demo`, `bench` and `report`, one module per command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

import modeseek
from modeseek.commands import bench, demo, report
from modeseek.commands.optimize import command as optimize_command
from modeseek.errors import ModeseekError
from modeseek.execution.supervisor import supervised


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `modeseek ...` and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="modeseek", description=modeseek.__doc__, epilog="See `modeseek COMMAND --help` for details."
    )
    parser.add_argument("--version", action="version", version=f"modeseek {modeseek.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (optimize_command, demo, bench, report):
        command.add_command(commands)
    options = parser.parse_args(arguments)
    is_program = arguments is None  # and not a call within a program that goes on afterwards
    if is_program and getattr(options, "evaluates_here", None) and options.evaluates_here(options):
        import_module("modeseek.optimizer")  # torch is loaded once, before the work is forked
        return supervised(lambda seconds: _run(options, seconds))
    return _run(options)


def _run(options: argparse.Namespace, seconds: float = 0.0) -> int:
    """Run a command that was begun so many seconds ago, and return its exit status."""
    if seconds and options.timeout is not None:
        options.timeout = max(options.timeout - seconds, 1e-3)
    try:
        options.run(options)
    except (ModeseekError, OSError) as error:
        print(f"modeseek: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("modeseek: interrupted", file=sys.stderr)
        return 130
    return 0
