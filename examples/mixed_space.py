"""A space of every kind of parameter: real, logarithmic, in steps, whole numbers, choices.

    python examples/mixed_space.py

The function stands in for a training run that takes hours: it is small at a learning rate of 1e-3, 3 layers of 128
units, a dropout of 0.2 and "gelu". What cannot be computed raises an error, and the search goes on (`catch`).
"""

import argparse
import math

import modeseek as ms

space = ms.Space(
    {
        "lr": ms.Float(1e-5, 1e-1, log=True),
        "dropout": ms.Float(0.0, 0.5, step=0.05),
        "layers": ms.Int(1, 6),
        "units": ms.Int(16, 512, log=True),
        "act": ms.Categorical(["relu", "gelu", "tanh"]),
    }
)


def validation_error(params):
    if params["layers"] * params["units"] > 2000:
        raise MemoryError("the network does not fit")
    return (
        0.05
        + 0.10 * (math.log10(params["lr"]) + 3) ** 2
        + 0.50 * (params["dropout"] - 0.2) ** 2
        + 0.02 * abs(params["layers"] - 3)
        + 0.05 * math.log2(params["units"] / 128) ** 2
        + {"gelu": 0.0, "relu": 0.02, "tanh": 0.08}[params["act"]]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    args = parser.parse_args()

    result = ms.minimize(validation_error, space, budget=args.trials, seed=0, catch=(MemoryError,))
    print(result)  # has the best value and its parameters
