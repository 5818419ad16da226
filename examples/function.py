"""Minimize a function of two variables whose minimum is known: Branin's, 0.397887.

python examples/function.py
"""

import argparse
from math import cos, pi

import modeseek as ms


def branin(x):
    a, b = x  # a box without names gives an array
    return (b - 5.1 * a**2 / (4 * pi**2) + 5 * a / pi - 6) ** 2 + 10 * (1 - 1 / (8 * pi)) * cos(a) + 10


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()

    result = ms.minimize(branin, ms.Space.box([-5, 0], [10, 15]), budget=args.trials, seed=0)
    print(result)
    print(f"best value {result.best.value:.6f}, the minimum is 0.397887")
