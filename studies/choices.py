"""How the surrogate should see choices: as bins in a row, or all equally far apart (`python -m studies.choices`).

Mixed functions of choices and numbers. Root-mean-square error of the surrogate at 500 random points, over the standard
deviation of the function there, after n random observations: mean and standard error of 20 seeds. What that makes of a
run is in studies/mixed.py.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import modeseek as ms
from modeseek.config import DMSConfig
from modeseek.embedding import PLAIN, Embedding, embedding_of
from modeseek.fitting import fit_mapped

Problem = tuple[ms.Space, Callable[[dict[str, Any]], float]]
CPU = torch.device("cpu")


def offsets() -> Problem:
    """Each of six choices adds a number, in no order."""
    added = dict(zip("abcdef", (0.5, 0.0, 0.9, 0.2, 0.7, 0.1), strict=True))
    space = ms.Space({"kind": ms.Categorical(list(added)), "x": ms.Float(0, 1), "y": ms.Float(0, 1)})
    return space, lambda p: added[p["kind"]] + (p["x"] - 0.3) ** 2 + (p["y"] - 0.6) ** 2


def own_optima() -> Problem:
    """Each of four choices has its optimum elsewhere."""
    best = {"a": (0.2, 0.3), "b": (0.8, 0.1), "c": (0.4, 0.9), "d": (0.7, 0.0)}
    space = ms.Space({"kind": ms.Categorical(list(best)), "x": ms.Float(0, 1), "y": ms.Float(0, 1)})
    return space, lambda p: best[p["kind"]][1] + 3 * (p["x"] - best[p["kind"]][0]) ** 2 + (p["y"] - 0.5) ** 2


def training() -> Problem:
    """A learning rate, whole numbers, and two choices of three."""
    space = ms.Space(
        {
            "lr": ms.Float(1e-5, 1e-1, log=True),
            "units": ms.Int(16, 512, log=True),
            "act": ms.Categorical(["relu", "tanh", "gelu"]),
            "solver": ms.Categorical(["adam", "sgd", "rms"]),
        }
    )
    rate = {"adam": -3.0, "sgd": -1.5, "rms": -3.5}

    def f(p: dict[str, Any]) -> float:
        value = 0.2 * (math.log10(p["lr"]) - rate[p["solver"]]) ** 2 + 0.05 * math.log2(p["units"] / 128) ** 2
        return value + {"gelu": 0.0, "relu": 0.1, "tanh": 0.5}[p["act"]] + 0.1 * (p["solver"] != "adam")

    return space, f


def ordered() -> Problem:
    """Five choices that are in order after all, as bins have them."""
    space = ms.Space({"kind": ms.Categorical(list(range(5))), "x": ms.Float(0, 1), "y": ms.Float(0, 1)})
    return space, lambda p: 0.2 * (p["kind"] - 3) ** 2 + (p["x"] - 0.1 * p["kind"]) ** 2 + (p["y"] - 0.6) ** 2


PROBLEMS = {problem.__name__: problem for problem in (offsets, own_optima, training, ordered)}
WAYS: dict[str, Callable[[ms.Space, torch.device], Embedding]] = {"bins": lambda *_: PLAIN, "equal": embedding_of}


def error(problem: str, way: str, n: int, seed: int) -> float:
    """Of the surrogate, relative to the function's own spread."""
    space, f = PROBLEMS[problem]()
    U = space.snap(np.random.default_rng(seed).random((n + 500, space.d)))
    Y = torch.tensor([f(space.decode(u)) for u in U], dtype=torch.float64)
    X = torch.from_numpy(U)
    embedding = WAYS[way](space, CPU)
    gp, outcomes = fit_mapped(X[None, :n], Y[None, :n], DMSConfig(warp="never"), embedding=embedding)
    expected = outcomes.inverse(gp.posterior(X[None, n:])[0])[0]
    return float((expected - Y[n:]).square().mean().sqrt() / Y[n:].std())


def _text(numbers: Any) -> str:
    numbers = np.array(numbers)
    return f"{numbers.mean():.4f} ± {numbers.std(ddof=1) / math.sqrt(len(numbers)):.4f}"


def main() -> None:
    """Print a row per problem and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default=",".join(PROBLEMS))
    args = parser.parse_args()
    print("| problem | way | n = 15 | n = 30 | n = 60 |\n|---|---|---|---|---|")
    for problem in args.problem.split(","):
        for way in WAYS:
            errors = [_text([error(problem, way, n, seed) for seed in range(20)]) for n in (15, 30, 60)]
            print(f"| {problem} | {way} | {' | '.join(errors)} |", flush=True)


if __name__ == "__main__":
    main()
