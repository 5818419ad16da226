"""A function for the command line: its trials are kept in modeseek.db, and the same command goes on with them.

    cd examples
    modeseek optimize objective:loss --space space.toml --trials 40
    modeseek optimize objective:loss --show
    optuna-dashboard sqlite:///modeseek.db

`python examples/objective.py` does the first for you.
"""

import math
import sys
from pathlib import Path


def loss(params):
    return (
        0.1 * (math.log10(params["lr"]) + 3) ** 2
        + 0.5 * (params["dropout"] - 0.2) ** 2
        + 0.05 * math.log2(params["units"] / 128) ** 2
        + {"gelu": 0.0, "relu": 0.02, "tanh": 0.08}[params["act"]]
    )


if __name__ == "__main__":
    from modeseek.commands import main

    space = Path(__file__).with_name("space.toml")
    sys.exit(main(["optimize", "objective:loss", "--space", str(space), "--trials", "40", *sys.argv[1:]]))
