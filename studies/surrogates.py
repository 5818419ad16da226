"""Other surrogates than the default's, without the diffusion model, many problems side by side.

    python -m studies.surrogates --set tuning --d 5 --variant default --variant rotated --out surrogates.jsonl
    python -m studies.surrogates --show studies/runs/surrogates.jsonl
    python -m studies.surrogates --predict --set tuning --d 5 --variant default --variant rotated

Sets: `tuning` and `confirmation` are COCO's functions 2, 5, 9, 12, 14, 18, 20 and 1, 4, 7, 11, 13, 16, 19, 23 (five
instances of each unless `--each` says otherwise, 10 d evaluations after 2 d + 2, no noise), `exploration` the eight of
studies/exploration.py with 1 % noise, and the name of a task is that task. The variants are in
studies/surrogate_variants.py. What the file has of a variant is not run again. `--show` prints, by set and dimension,
the mean difference to the default of the log10 of the regret, with its standard error over problems, and mean ranks, at
the end and all along, and the difference at the end by function. A regret under 1e-8 counts as that. `--predict`
prints, by function, how well a variant fitted to outcomes at 12 d random points foresees those at others: the root mean
square error over their standard deviation, in the units of the surrogate, where outcomes have the shape that the
default gives them.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from modeseek.bench.campaign.replication import initial_design, observe_all, seed_of_replication
from modeseek.bench.tasks import coco, find_task
from modeseek.computing import computing
from modeseek.design import sobol
from modeseek.dms import row_of, seek
from modeseek.fitting import fit_mapped
from modeseek.proposer import Stream, choose, generator
from modeseek.typing import Array
from studies import exploration
from studies.surrogate_variants import CONFIG, VARIANTS, Fit, Memory

TUNING = (2, 5, 9, 12, 14, 18, 20)
CONFIRMATION = (1, 4, 7, 11, 13, 16, 19, 23)
SOLVED = 1e-8
KEPT = 20  # regrets of a run, evenly from the end of the design to that of the run
SEEN = 500  # points at which outcomes are foreseen
CPU = torch.device("cpu")


class Problems(NamedTuple):
    """As many problems side by side, of one size."""

    names: list[str]
    seeds: list[int]
    design: Tensor  # b x n x d
    observe: Callable[[Tensor, int], tuple[Tensor, Tensor]]  # points b x m x d, the first's number: seen, regret
    evaluations: int  # in all


def of_coco(functions: tuple[int, ...], d: int, instances: int) -> Problems:
    names = [coco.name_of("bbob", f, i, d) for f in functions for i in coco.INSTANCES[:instances]]
    tasks = [find_task(name) for name in names]
    values = [task.values for task in tasks]

    def observe(x: Tensor, _: int) -> tuple[Tensor, Tensor]:
        value = torch.stack([f(rows) for f, rows in zip(values, x, strict=True) if f is not None])
        return value + torch.tensor([task.offset for task in tasks], dtype=value.dtype)[:, None], -value

    design = torch.from_numpy(np.stack([initial_design(task, 0) for task in tasks]))
    return Problems(names, [seed_of_replication(name, 0) for name in names], design, observe, sum(coco.sizes(d)))


def of_exploration(d: int, replications: int, noise: float = 0.01, evaluations: int = 50) -> Problems:
    pairs = [(i, r) for i in range(len(exploration.FUNCTIONS)) for r in range(replications)]
    problems = [exploration.Problem.of(i, d, r) for i, r in pairs]
    rng = [np.random.default_rng([7, k]) for k in range(len(pairs))]

    def observe(x: Tensor, _: int) -> tuple[Tensor, Tensor]:
        true = torch.stack([problem.value(row) for problem, row in zip(problems, x, strict=True)])
        return true + noise * torch.stack([torch.from_numpy(r.normal(size=x.shape[1])) for r in rng]), -true

    design = torch.stack([sobol(exploration.INITIAL, d, generator(r, Stream.DESIGN)) for _, r in pairs])
    names = [f"{exploration.FUNCTIONS[i].__name__}-{r}" for i, r in pairs]
    return Problems(names, list(range(len(pairs))), design, observe, evaluations)


def of_task(name: str, replications: int) -> Problems:
    task, numbers = find_task(name), range(replications)

    def observe(x: Tensor, first: int) -> tuple[Tensor, Tensor]:
        pairs = [observe_all(task, x[:, i].numpy(), numbers, first + i) for i in range(x.shape[1])]
        seen, value = (torch.from_numpy(np.stack(arrays, 1)) for arrays in zip(*pairs, strict=True))
        return seen, task.optimum - value

    design = torch.from_numpy(np.stack([initial_design(task, r) for r in numbers]))
    seeds = [seed_of_replication(name, r) for r in numbers]
    return Problems([f"{name}-{r}" for r in numbers], seeds, design, observe, task.n_initial + task.budget)


def problems_of(which: str, d: int, each: int) -> Problems:
    if which in ("tuning", "confirmation"):
        return of_coco(TUNING if which == "tuning" else CONFIRMATION, d, each)
    return of_exploration(d, each) if which == "exploration" else of_task(which, each)


@dataclass
class Run:
    """What is known of a set of problems."""

    X: Tensor
    seen: Tensor
    regret: Tensor
    memory: Memory = field(default_factory=dict)


def as_it_is(points: Array) -> Array:
    return points


def regrets(problems: Problems, fit_it: Fit) -> Array:
    """The regret of the best observed point, at KEPT + 1 evaluations: b x (KEPT + 1)."""
    run = Run(problems.design, *problems.observe(problems.design, 0))
    n_initial, d = problems.design.shape[1:]
    with computing(CPU, 1):
        for n in range(n_initial, problems.evaluations):
            gp = fit_it(run.X, run.seen, run.memory)
            sources = [generator(seed, Stream.MODEL, n) for seed in problems.seeds]
            found = seek(gp, CONFIG, sources, left=problems.evaluations - n)
            instead = run.memory.get("instead")
            x = found.x_next if instead is None else torch.where(instead.isfinite(), instead, found.x_next)
            x = x[:, None].clone()
            for i in ((x - run.X).abs().amax(-1).amin(-1) < 1e-9).nonzero()[:, 0].tolist():
                others = np.random.default_rng([n, i]).random((64, d))
                at = choose(row_of(found, i), row_of(gp, i), run.X[i].numpy(), snap=as_it_is, others=others.copy)
                x[i, 0] = torch.from_numpy(at)
            seen, regret = problems.observe(x, n)
            run.X = torch.cat([run.X, x], 1)
            run.seen, run.regret = torch.cat([run.seen, seen], 1), torch.cat([run.regret, regret], 1)
    at = np.linspace(n_initial, problems.evaluations, KEPT + 1).round().astype(int)
    best = [run.seen[:, :k].argmax(-1, keepdim=True) for k in at]
    return torch.cat([run.regret.gather(1, i) for i in best], 1).numpy()


def predict(problems: Problems, fit_it: Fit) -> Array:
    """How far a surrogate of random points is off at others: b."""
    b, _, d = problems.design.shape
    source = torch.Generator().manual_seed(0)
    X, others = (torch.rand(b, m, d, dtype=torch.float64, generator=source) for m in (12 * d, SEEN))
    memory: Memory = {}
    with computing(CPU, 1):
        Y = problems.observe(X, 0)[0]
        for _ in range(2):  # some variants go on from where they have ended
            gp = fit_it(X, Y, memory)
        _, outcomes = fit_mapped(X, Y, CONFIG)
        y = outcomes.apply(problems.observe(others, 0)[0])
        error = (gp.posterior(others)[0] - y).square().mean(-1).sqrt()
    return (error / y.std(-1)).numpy()


def show_predictions(problems: Problems, variants: list[str]) -> None:
    for variant in variants:
        print(f"{variant:16}", by_function(problems.names, predict(problems, VARIANTS[variant])))


def by_function(names: list[str], values: Array) -> str:
    """Means over the instances or replications of each function."""
    of = np.array([re.sub(r"(-i\d+-d\d+|-\d+)$", "", name) for name in names])
    return ", ".join(f"{name} {values[of == name].mean():.2f}" for name in dict.fromkeys(of))


def key_of(row: dict[str, Any]) -> tuple[str, int, int, str]:
    return row["set"], row["d"], row["each"], row["variant"]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def show(path: Path) -> None:
    rows = read(path)
    for group in dict.fromkeys(key_of(row)[:3] for row in rows):
        here = [row for row in rows if key_of(row)[:3] == group]
        logs = np.array([np.log10(np.maximum(row["regret"], SOLVED)) for row in here])  # variants x problems x times
        rank = rankdata(logs, axis=0)[..., 1:]
        base = next((log for row, log in zip(here, logs, strict=True) if row["variant"] == "default"), logs[0])
        print(
            "{}, d = {}, {} each".format(*group) + f": {logs.shape[1]} problems, mean log10 of the default's final "
            f"regret {base[:, -1].mean():.2f}"
        )
        for row, log, ranks in zip(here, logs, rank, strict=True):
            cells = []
            for change in (log[:, -1] - base[:, -1], (log - base)[:, 1:].mean(-1)):
                cells.append(f"{change.mean():+.2f} ± {change.std(ddof=1) / math.sqrt(len(change)):.2f}")
            print(
                f"  {row['variant']:16} end {cells[0]}, along {cells[1]}, rank all along {ranks.mean():.2f}, "
                f"at the end {ranks[..., -1].mean():.2f} of {len(here)}; {row['seconds']:.0f} s"
            )
            if row["variant"] != "default":
                print("    at the end,", by_function(row["problems"], log[:, -1] - base[:, -1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="tuning")
    parser.add_argument("--d", type=int, default=5, help="of COCO's functions and those of exploration")
    parser.add_argument("--each", type=int, default=5, help="instances or replications of each function")
    parser.add_argument("--variant", action="append", choices=[*VARIANTS], default=[])
    parser.add_argument("--out", type=Path, default=Path("surrogates.jsonl"))
    parser.add_argument("--show", type=Path)
    parser.add_argument("--predict", action="store_true")
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        return
    if options.predict:
        show_predictions(problems_of(options.set, options.d, options.each), options.variant or ["default"])
        return
    for variant in options.variant or ["default"]:
        problems = problems_of(options.set, options.d, options.each)
        d = problems.design.shape[-1]
        row = {"set": options.set, "d": d, "each": options.each, "variant": variant}
        if key_of(row) in map(key_of, read(options.out)):
            continue
        started = time.perf_counter()
        found = regrets(problems, VARIANTS[variant])
        row["seconds"] = round(time.perf_counter() - started, 1)
        row["problems"] = problems.names
        row["regret"] = [[float(f"{value:.3g}") for value in values] for values in found]
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
