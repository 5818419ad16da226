"""A belief where the optimum is: a right one saves evaluations, a wrong one costs a few.

    python examples/prior.py --trials 20

The learning rate that usually works, a range for the width, a favourite activation.
"""

import argparse
import math

import modeseek as ms

space = ms.Space(
    {
        "lr": ms.Float(1e-5, 1e-1, log=True),
        "units": ms.Int(16, 512, log=True),
        "act": ms.Categorical(["relu", "tanh", "gelu"]),
    }
)


def loss(params):
    off = (math.log10(params["lr"]) + 3.2) ** 2 + math.log2(params["units"] / 150) ** 2
    return 0.1 * off + {"relu": 0.05, "tanh": 0.3, "gelu": 0.0}[params["act"]]


beliefs = {
    "none": None,
    "right": {"lr": ms.Normal(1e-3, 0.5), "units": (64, 256), "act": {"relu": 3, "gelu": 2, "tanh": 1}},
    "wrong": {"lr": ms.Normal(3e-2, 0.5), "units": (16, 32), "act": "tanh"},
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    args = parser.parse_args()

    for name, prior in beliefs.items():
        result = ms.minimize(loss, space, budget=args.trials, seed=0, prior=prior, progress=False)
        print(f"belief {name}: best value {result.best.value:.4g} at {result.best.params}")
