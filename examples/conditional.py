"""Parameters that exist only under a choice: a support-vector machine or a random forest, each with its own.

    python examples/conditional.py

The function stands in for a cross-validation. The forest is better, once its depth and share of features are right.
"""

import argparse
import math

import modeseek as ms

space = ms.Space(
    {
        "model": ms.Categorical(["svm", "forest"]),
        "C": ms.Float(1e-3, 1e3, log=True, when={"model": "svm"}),
        "kernel": ms.Categorical(["rbf", "poly"], when={"model": "svm"}),
        "degree": ms.Int(2, 5, when={"kernel": "poly"}),  # and so only where the model is "svm"
        "depth": ms.Int(1, 20, when={"model": "forest"}),
        "share": ms.Float(0.1, 1.0, when={"model": "forest"}),
    }
)


def error(params):
    if params["model"] == "svm":  # there is no "depth" and no "share" in params
        penalty = 0.02 * params["degree"] if params["kernel"] == "poly" else 0.05
        return 0.15 + 0.1 * (math.log10(params["C"]) - 1) ** 2 + penalty
    return 0.1 + 0.01 * (params["depth"] - 13) ** 2 + 2 * (params["share"] - 0.35) ** 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()

    result = ms.minimize(error, space, budget=args.trials, seed=0)
    print(result)  # has the parameters of the best model, and only those
