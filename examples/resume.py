"""A run that can be stopped at any time and goes on where it was.

    python examples/resume.py     # 10 evaluations
    python examples/resume.py     # 10 more, as if it had never stopped

Ctrl-C or a crash in between loses nothing that was evaluated: the file is written after every step.
"""

import argparse
from pathlib import Path

import modeseek as ms

space = ms.Space({"temperature": ms.Float(20, 90), "ph": ms.Float(4, 10), "minutes": ms.Int(5, 120)})


def reaction_yield(params):
    heat, acid, time = (params["temperature"] - 62) / 20, params["ph"] - 7.4, (params["minutes"] - 45) / 60
    return 92 - 15 * heat**2 - 6 * acid**2 - 10 * time**2 + 4 * heat * acid


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10, help="evaluations to add (default: 10)")
    parser.add_argument("--checkpoint", type=Path, default=Path("reaction.modeseek"))
    args = parser.parse_args()

    done = len(ms.Optimizer.load(args.checkpoint).trials) if args.checkpoint.exists() else 0
    print(f"{done} evaluations are there")
    result = ms.maximize(reaction_yield, space, budget=done + args.trials, seed=0, checkpoint=args.checkpoint)
    print(f"best value {result.best.value:.4f} at {result.best.params}")
