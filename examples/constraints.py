"""A mixture of seven parts whose shares sum to one, with a limit on two of them and a rule that is a function.

python examples/constraints.py --trials 30

No trial breaks a rule, not even in the initial design.
"""

import argparse

import modeseek as ms

PARTS = ["cement", "water", "sand", "gravel", "ash", "slag", "fibre"]
GOOD = {"cement": 0.15, "water": 0.1, "sand": 0.3, "gravel": 0.4, "slag": 0.05}


def workable(params):
    return params["water"] >= 0.3 * params["cement"]


def weakness(params):
    return sum((params[part] - GOOD.get(part, 0.0)) ** 2 for part in PARTS)


space = ms.Space(
    {part: ms.Float(0, 1) for part in PARTS},
    constraints=[
        ms.Linear({part: 1 for part in PARTS}, equals=1),
        ms.Linear({"ash": 1, "slag": 1}, upper=0.2),
        workable,
    ],
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30)
    args = parser.parse_args()

    result = ms.minimize(weakness, space, budget=args.trials, seed=0)
    print(result)
    worst = max(abs(sum(trial.params.values()) - 1) for trial in result.trials)
    print(f"shares sum to one within {worst:.0e} in all {len(result.trials)} trials")
