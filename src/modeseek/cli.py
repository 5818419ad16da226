"""The command line: `modeseek demo`."""

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

    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (ModeseekError, OSError) as error:
        print(f"modeseek: {error}", file=sys.stderr)
        return 1
    return 0


def _demo(options: argparse.Namespace) -> None:
    from modeseek.demo import demo

    demo(budget=options.budget, seed=options.seed, out=options.out)
