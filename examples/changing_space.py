"""A run whose best points lie at a bound, and that goes on with wider bounds and another choice.

python examples/changing_space.py --trials 40

All trials so far stay; those with the choice that is gone are kept, but not learned from.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import modeseek as ms

first = ms.Space({"rate": ms.Float(0, 1), "act": ms.Categorical(["relu", "tanh"])})
then = ms.Space({"rate": ms.Float(0, 10), "act": ms.Categorical(["relu", "gelu"])})


def loss(params):
    return (params["rate"] - 3) ** 2 + {"relu": 0.5, "tanh": 0.8, "gelu": 0.0}[params["act"]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "loss.modeseek"
        result = ms.minimize(loss, first, budget=args.trials // 2, seed=0, checkpoint=checkpoint)
        print(f"with rates up to 1: {result.best.value:.3g} at {result.best.params}")

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = ms.minimize(loss, then, budget=args.trials, seed=0, checkpoint=checkpoint)
        print(*(warning.message for warning in said if warning.category is ms.SpaceChangedWarning), sep="\n")

    kept = sum(not trial.in_space for trial in result.trials)
    print(f"{kept} of {len(result.trials)} trials do not lie in the new space")
    print(f"best value {result.best.value:.3g} at {result.best.params}")
