"""Does what is said of the optimum hold on the paper's tasks, and what would `WhenSure` have saved?

    modeseek bench run --task all --method dms --reps 10 --engine batch --device cuda --out runs
    python -m studies.when_sure runs said.jsonl [--tasks levy-10 ...] [--every 4] [--draws 128] [--device cuda]
    python -m studies.when_sure --table said.jsonl

The second command asks, after every few evaluations of every replication, what `optimum()` would say: one line of
said.jsonl per task and number of evaluations (what is there already is not asked again). The third makes the tables.

The first table: how often x* is in its 90 % interval, over replications and parameters, and how often the 95 % bound on
the regret of the recommended point holds, after the initial design, half way, and at the end. The second: stopping as
soon as P(regret of the recommendation ≤ ε) ≥ 95 %, for ε of some shares of the spread of the initial design's
outcomes: the share of runs that stop before the end, the evaluations after the design that those save, and the share
of them whose regret is larger than ε. The third: the same if noise that is not known is taken for noise.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.tasks import find_task
from modeseek.config import DMSConfig
from modeseek.domain import Domain
from modeseek.fitting import fit_mapped
from modeseek.sampled_optimum import above, sample_optimum, shortest

SHARES = (0.01, 0.05, 0.1, 0.2, 0.3)
PROBABILITY = 0.95


def say(records: list[Record], n: int, draws: int, device: torch.device) -> dict[str, Any]:
    """What is known of the optimum after n evaluations of each replication, and what is true."""
    problem = find_task(records[0].task)
    X, Y = (
        torch.tensor([getattr(r, name)[:n] for r in records], dtype=torch.float64, device=device)
        for name in ("inputs", "observed")
    )
    gp, outcomes = fit_mapped(X, Y, DMSConfig(warp="never"))
    generators = [torch.Generator().manual_seed(1000 * n + r.replication) for r in records]
    found = sample_optimum(gp, draws, generators, domain=Domain.of(problem.space, device))
    regrets = found.regrets(outcomes)
    same = (found.point[:, None] == X).all(-1)
    values = torch.tensor([r.values[:n] for r in records], dtype=torch.float64, device=device)
    best = torch.where(same, values, -torch.inf).amax(-1)
    first = Y[:, : records[0].n_initial]
    epsilon = (first.amax(-1) - first.amin(-1))[:, None] * first.new_tensor(SHARES)
    said = {
        "task": records[0].task,
        "n": n,
        "n_initial": records[0].n_initial,
        "evaluations": len(records[0].observed),
        "regret": (problem.optimum - best).tolist(),
        "bound": regrets[:, above(regrets.shape[-1], PROBABILITY)].tolist(),
        "epsilon": epsilon.tolist(),
    }
    for name, ripples in (("probability", True), ("plain", False)):
        within = found.regrets(outcomes, ripples)[:, None, :] <= epsilon[..., None]
        said[name] = within.double().mean(-1).tolist()
    if problem.optimizers:
        x_star = torch.tensor(np.array([problem.space.encode(np.array(x)) for x in problem.optimizers])).to(X)
        low, high = (end[:, None] for end in shortest(found.x, 0.9))
        inside = ((low - 1e-6 <= x_star) & (x_star <= high + 1e-6)).double().mean(-1).amax(-1)
        said |= {"inside": inside.tolist(), "width": (high - low).mean((-2, -1)).tolist()}
    return said


def ask(args: argparse.Namespace) -> None:
    """Append what is missing."""
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in Store(args.runs):
        if record.inputs and record.status == "complete" and (not args.tasks or record.task in args.tasks):
            by_task[record.task].append(record)
    known = {(row["task"], row["n"]) for row in rows_of(args.said)}
    for task, records in by_task.items():
        first, last = records[0].n_initial, len(records[0].observed)
        for n in [*range(first, last, args.every), last]:
            if (task, n) not in known:
                said = say(records, n, args.draws, torch.device(args.device))
                with open(args.said, "a") as file:
                    file.write(json.dumps(said) + "\n")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_tables(path: Path) -> None:
    """The tables of the docs."""
    by_task: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(path):
        by_task[row["task"]].append(row)
    moments = ("after the design", "half way", "at the end")
    print("| task | runs | " + " | ".join(f"{m}: interval, width, bound" for m in moments) + " |\n" + "|---" * 5 + "|")
    for task, rows in by_task.items():
        rows.sort(key=lambda row: row["n"])
        cells = []
        for row in (rows[0], rows[len(rows) // 2], rows[-1]):
            holds = np.mean(np.array(row["regret"]) <= np.array(row["bound"]) + 1e-9)
            inside = f"{np.mean(row['inside']):.0%}, {np.mean(row['width']):.2f}" if "inside" in row else "–, –"
            cells.append(f"{inside}, {holds:.0%}")
        print(f"| {task} | {len(rows[0]['regret'])} | " + " | ".join(cells) + " |")
    shares = [f"ε = {share:.0%} of the spread: stopped, saved, wrongly" for share in SHARES]
    for name in ("probability", "plain"):
        print(
            "\n| task | evaluations after the design | "
            + " | ".join(shares)
            + " |\n"
            + "|---" * (2 + len(SHARES))
            + "|"
        )
        for task, rows in by_task.items():
            cells = [_stops(rows, i, name) for i in range(len(SHARES))]
            print(f"| {task} | {rows[0]['evaluations'] - rows[0]['n_initial']} | " + " | ".join(cells) + " |")


def _stops(rows: list[dict[str, Any]], share: int, name: str) -> str:
    runs = len(rows[0]["regret"])
    saved, wrong = [], 0
    for i in range(runs):
        stop = next((row for row in rows[:-1] if row[name][i][share] >= PROBABILITY), None)
        if stop is not None:
            saved.append((stop["evaluations"] - stop["n"]) / (stop["evaluations"] - stop["n_initial"]))
            wrong += stop["regret"][i] > stop["epsilon"][i][share]
    if not saved:
        return "0%, –, –"
    return f"{len(saved) / runs:.0%}, {np.mean(saved):.0%}, {wrong} of {len(saved)}"


def main() -> None:
    """Ask, or print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path)
    parser.add_argument("said", nargs="?", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--tasks", nargs="+", default=[])
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--draws", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.table is not None:
        print_tables(args.table)
    elif args.said is None:
        parser.error("either RUNS and SAID, or --table SAID")
    else:
        ask(args)


if __name__ == "__main__":
    main()
