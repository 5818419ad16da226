"""Rounds of q proposals by several policies, on the functions of studies/exploration.py, which are for tuning only.

    python -m studies.many_at_once --policy one,draws --d 5,10 --q 4,50 --device cuda --out many.jsonl
    python -m studies.many_at_once --show many.jsonl

All replications run side by side. A round is q proposals that are evaluated together; the design has max(10, q) points.
Noise and regret are in standard deviations of the function over the cube. `--show` prints each policy's mean rank over
replications, of the regret over all rounds and after the last.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from modeseek.design import sobol
from modeseek.proposer import Stream, generator
from studies.batch_policies import POLICIES, rounds_of
from studies.exploration import FUNCTIONS, Problem

NOISE = 0.01


def run(policy: str, d: int, q: int, rounds: int, replications: int, device: str) -> dict[str, object]:
    """Regret of the best observed point after the design and after each round, by problem; and the seconds."""
    problems = [Problem.of(i, d, r) for i in range(len(FUNCTIONS)) for r in range(replications)]
    initial = max(10, q)

    def values(x: Tensor) -> Tensor:
        return torch.stack([problem.value(row) for problem, row in zip(problems, x, strict=True)])

    X = torch.stack([sobol(initial, d, generator(i % replications, Stream.DESIGN)) for i in range(len(problems))])
    course = rounds_of(policy, values, X, q, rounds, noise=NOISE, device=device)
    regret = [[-value for value in row] for row in course.best(initial, q)]
    return {"regret": regret, "seconds": course.seconds}


def show(path: Path) -> None:
    """Mean ranks of the policies, of rows with one dimension and batch size."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for setting in sorted({(row["d"], row["q"], row["rounds"], row["reps"]) for row in rows}):
        here = [row for row in rows if (row["d"], row["q"], row["rounds"], row["reps"]) == setting]
        regret = np.maximum([row["regret"] for row in here], 1e-9)  # policies x rounds x problems
        rank, log = rankdata(regret[:, 1:], axis=0).mean(-1), np.log10(regret[:, 1:]).mean(-1)
        print("d = {}, q = {}, {} rounds, {} replications of eight functions".format(*setting))
        for i in np.argsort(rank.mean(-1)):
            print(
                f"  {here[i]['policy']:18} rank over rounds {rank[i].mean():5.2f}, at the end {rank[i, -1]:5.2f} of "
                f"{len(here)}; log10 regret {log[i].mean():6.2f}, {log[i, -1]:6.2f}; {here[i]['seconds']:.0f} s"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default=",".join(name for name in POLICIES if name != "qlogei"))
    parser.add_argument("--d", default="5,10")
    parser.add_argument("--q", default="2,4,10,50,100")
    parser.add_argument("--rounds", type=int, help="(default: 60 evaluations, at least 6 rounds)")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("many.jsonl"))
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        return
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    for d in map(int, options.d.split(",")):
        for q in map(int, options.q.split(",")):
            rounds = options.rounds or max(60 // q, 6)
            for policy in options.policy.split(","):
                key = {"policy": policy, "d": d, "q": q, "rounds": rounds, "reps": options.reps}
                if any(key.items() <= row.items() for row in done):
                    continue
                row = key | run(policy, d, q, rounds, options.reps, options.device)
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
