"""A problem and a method of your own in a campaign, beside modeseek's methods, without a change to the package.

    modeseek bench run --task examples/own_problem.py:problem --method dms,sobol,examples/own_problem.py:Nearby \
        --reps 10 --workers 2 --out my_results/
    modeseek report my_results/ --out my_report/

`python examples/own_problem.py` runs one replication of the method here.
"""

import argparse

import numpy as np

import modeseek as ms
from modeseek.bench.methods import make_method
from modeseek.bench.tasks import Problem
from modeseek.history import History


def yield_of_reaction(params):
    """Percent, at most 90: at 350 K, 2 hours and catalyst B."""
    lost = ((params["temperature"] - 350) / 60) ** 2 + ((params["hours"] - 2) / 3) ** 2
    return 90 - 40 * lost - {"A": 10, "B": 0, "C": 25}[params["catalyst"]]


problem = Problem(
    name="reaction",  # what records and tables call it
    title="Yield of a reaction",
    space=ms.Space(
        {
            "temperature": ms.Float(280, 420),
            "hours": ms.Float(0.5, 8),
            "catalyst": ms.Categorical(["A", "B", "C"]),
        }
    ),
    f=yield_of_reaction,  # to be maximized
    noise=1.0,  # standard deviation of what a method gets to see
    optimum=90.0,  # regret is measured against it
    n_initial=6,  # points of a Sobol design, the same for every method
    budget=24,  # evaluations after it
    replications=10,
)


class Nearby:
    """Evaluates near the best point so far; one object per replication."""

    def __init__(self, space, seed):
        self.space, self.rng = space, np.random.default_rng(seed)

    def __call__(self, history, left=None):
        """The next point on the unit cube (d), from `history.X` (n x d) and `history.Y` (n, larger is better)."""
        best = history.X[history.Y.argmax()]
        width = 0.2 if left is None or left > 10 else 0.05
        return np.clip(best + width * self.rng.standard_normal(self.space.d), 0, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=problem.budget)
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    method = make_method(f"{__file__}:Nearby", problem.space, seed=0)
    X = list(problem.space.snap(rng.random((problem.n_initial, problem.space.d))))
    Y = [problem.evaluate(problem.space.decode(x), rng) for x in X]
    for left in range(args.trials, 0, -1):
        u = method(History.of(X, Y), left)
        X.append(problem.space.snap(u[None])[0])
        Y.append(problem.evaluate(problem.space.decode(X[-1]), rng))
    print(f"best value {max(Y):.2f}, the maximum is {problem.optimum:g}")
