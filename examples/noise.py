"""Noise that is known: each point is measured a few times, and told with the standard error of the mean.

    python examples/noise.py

The noise grows with x, so that one fitted variance for all points would be wrong on either side.
"""

import argparse
import math
import random
import statistics

import modeseek as ms

space = ms.Space({"x": ms.Float(0.0, 1.0), "y": ms.Float(0.0, 1.0)})
rng = random.Random(0)


def measure(params):
    exact = (params["x"] - 0.3) ** 2 + (params["y"] - 0.7) ** 2
    return exact + rng.gauss(0.0, 0.02 + 0.3 * params["x"])


def mean_of_four(params):
    values = [measure(params) for _ in range(4)]
    return ms.Outcome(statistics.mean(values), sem=statistics.stdev(values) / math.sqrt(len(values)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=25)
    args = parser.parse_args()

    result = ms.minimize(mean_of_four, space, budget=args.trials, seed=0)
    print(result)
    print("recommended:", result.recommended.params, "told with a standard error of", result.recommended.sem)
