"""What the labels should be, without a diffusion model: the maximum of the label itself is evaluated next.

    python -m studies.labels --device cuda --reps 16 --out labels.json \
        --variants "standard|rho=1" "power+floor|far=1,3" --tasks styblinski-tang-2 levy-10 beale-2

A stand-in for DMS that is fast enough to try many shapes of outcomes and schedules of ρ: all variants and replications
of a task run as one batch. The protocol is the paper's for its tasks; `TUNING` has further functions. A variant is a
shape and a rule, `shape|rule`:

    standard, floor, floor=2, power, power+floor, floor+power, ranks       the outcomes (see modeseek/outcomes.py)
    evidence, evidence+floor        the power transform where the surrogate wants it, asked about all observations
    rho=1                 μ + σ
    cycle=1,1,1,3         ρ takes these values in turn
    far=1,3               ρ = 1, in every 2d-th iteration 3
    mixed=0.5,1,3         ρ alternates between two values, in every 2d-th iteration the third
    exhausted=0.5         ρ = 1, doubled while σ at the maximum is below half the noise's
    logei                 the logarithm of expected improvement
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from botorch.test_functions import synthetic as functions
from scipy.stats import rankdata
from torch import Tensor

from modeseek.bench.campaign.replication import NOISE, initial_design, stream
from modeseek.bench.methods.acquisitions import LogEI, OnGP, rows_of
from modeseek.bench.report.curves import REGRET_FLOOR
from modeseek.bench.tasks import find_task
from modeseek.bench.tasks.problem import Problem
from modeseek.bench.tasks.synthetic import Maximized, on_box
from modeseek.design import sobol
from modeseek.map_fit import evidence, fit
from modeseek.outcome_transforms import BAD_OUTLIER, floor_of, power, standardize
from modeseek.priors import Hyperparameters
from modeseek.pseudo import refine_inputs
from modeseek.surrogate import GP

STARTS, RAW, STEPS = 64, 1000, 40


def _tuning(
    name: str,
    kind: type[functions.SyntheticTestFunction],
    box: list[tuple[float, float]],
    noise: float,
    n_initial: int,
    budget: int,
    optimum: float = 0.0,
) -> Problem:
    """A function beside the paper's, with an initial design and a budget as users have them."""
    f = Maximized(kind, len(box))
    return on_box(name, f, box, [], optimum, noise=noise, n_initial=n_initial, budget=budget, replications=16)


TUNING = {
    problem.name: problem
    for problem in (
        _tuning("Beale", functions.Beale, [(-4.5, 4.5)] * 2, 0.0, 6, 24),
        _tuning("Three-Hump", functions.ThreeHumpCamel, [(-5.0, 5.0)] * 2, 0.0, 5, 25),
        _tuning("Ackley", functions.Ackley, [(-10.0, 22.0)] * 3, 0.0, 9, 51),
        _tuning("Rosenbrock", functions.Rosenbrock, [(-5.0, 10.0)] * 4, 0.1, 10, 60),
        _tuning("Levy", functions.Levy, [(-10.0, 10.0)] * 5, 0.0, 10, 70),
        _tuning("Styblinski-Tang", functions.StyblinskiTang, [(-5.0, 5.0)] * 6, 0.1, 20, 80, 6 * 39.166165703771415),
        _tuning("Powell", functions.Powell, [(-4.0, 5.0)] * 8, 0.1, 16, 84),
    )
}


def shaped(X: Tensor, Y: Tensor, steps: str) -> Tensor:
    """Outcomes (b x n) at X (b x n x d) as a variant has them."""
    y = standardize(Y, BAD_OUTLIER)
    for step in steps.split("+"):
        name, _, factor = step.partition("=")
        if name == "floor":
            median = y.median(-1, keepdim=True).values
            y = standardize(torch.maximum(y, median + float(factor or 1) * (floor_of(y) - median)))
        elif name == "power":
            y = power(y)
        elif name == "evidence":
            y = power(y, lambda y, log_slope: evidence(X, y) + log_slope.sum(-1))
        elif name == "ranks":
            y = standardize(torch.special.ndtri((y.argsort(-1).argsort(-1) + 0.5) / y.shape[-1]))
        elif name != "standard":
            raise SystemExit(f"there is no shape {step!r}")
    return y


@dataclass(frozen=True)
class Labels(OnGP):
    """μ + ρσ with a ρ for each batch element (b x 1), or LogEI over the best posterior mean where `ei` (b)."""

    rho: Tensor
    ei: Tensor

    def label(self, x: Tensor, rho: float = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        return torch.where(self.ei[:, None], self._log_ei.label(x), self.gp.label(x, self.rho))

    def label_and_grad(self, x: Tensor, rho: float = 0.0) -> tuple[Tensor, Tensor]:
        """The label and its gradient: b x m, b x m x d."""
        of_ei, of_rho = self._log_ei.label_and_grad(x), self.gp.label_and_grad(x, self.rho)
        ei = self.ei[:, None]
        return torch.where(ei, of_ei[0], of_rho[0]), torch.where(ei[..., None], of_ei[1], of_rho[1])

    @cached_property  # the best mean is that of all observed inputs, and a climb asks for it many times
    def _log_ei(self) -> LogEI:
        return LogEI(self.gp, self.gp.posterior(self.gp.X)[0].amax(-1, keepdim=True))


def maximize(labels: Labels, generator: torch.Generator) -> Tensor:
    """The best end (b x d) of L-BFGS runs from the best of random points and from around the best observed ones."""
    b, _, d = labels.X.shape
    x = sobol(RAW, d, generator, (b,)).to(labels.X)
    kept = min(8, labels.y.shape[-1])
    best = rows_of(labels.X, labels.y.topk(kept, -1).indices)
    near = [best, *(best + s * torch.randn(best.shape, generator=generator).to(best) for s in (0.02, 0.1))]
    starts = [rows_of(x, labels.label(x).topk(STARTS - 3 * kept, -1).indices), *(z.clamp(0, 1) for z in near)]
    ends = refine_inputs(labels, torch.cat(starts, -2), K=STEPS, rho=0.0)
    return rows_of(ends, labels.label(ends).argmax(-1, keepdim=True)).squeeze(-2)


def propose(gp: GP, rules: list[str], iteration: int, generator: torch.Generator) -> Tensor:
    """The next points (b x d); the batch has as many elements for each rule."""
    b, _, d = gp.X.shape
    reps = b // len(rules)
    rho, ei = gp.X.new_ones(b, 1), torch.zeros(b, dtype=torch.bool, device=gp.X.device)
    exhausted = []
    last = iteration % (2 * d) == 2 * d - 1
    for i, rule in enumerate(rules):
        rows, (name, _, text) = slice(i * reps, (i + 1) * reps), rule.partition("=")
        values = [float(value) for value in text.split(",")] if text else []
        if name in ("rho", "cycle"):
            rho[rows] = values[iteration % len(values)]
        elif name in ("far", "mixed"):
            rho[rows] = values[-1] if last else values[iteration % (len(values) - 1)]
        elif name == "exhausted":
            exhausted.append((rows, values[0]))
        elif name == "logei":
            ei[rows] = True
        else:
            raise SystemExit(f"there is no rule {rule!r}")
    x = maximize(Labels(gp, rho, ei), generator)
    for rows, share in exhausted:
        part = _part(gp, rows)
        for _ in range(3):
            done = part.posterior(x[rows].unsqueeze(-2))[1] < share * part.hyperparameters.noise.sqrt()[:, None]
            if not bool(done.any()):
                break
            rho[rows] = torch.where(done, 2 * rho[rows], rho[rows])
            x[rows] = torch.where(done, maximize(Labels(part, rho[rows], ei[rows]), generator), x[rows])
    return x


def _part(gp: GP, rows: slice) -> GP:
    tensors = {name: getattr(gp, name)[rows] for name in ("X", "y", "mean", "alpha", "inverse", "fit_failed")}
    return replace(gp, hyperparameters=Hyperparameters(*(t[rows] for t in gp.hyperparameters)), **tensors)


def run(task: str, variants: list[str], reps: int, device: str) -> dict[str, dict[str, list[float]]]:
    """Final regret and area under its logarithm, of every replication of every variant."""
    problem = TUNING[task] if task in TUNING else find_task(task)
    assert problem.values is not None
    designs = [
        sobol(problem.n_initial, problem.d, torch.Generator().manual_seed(1000 + r))
        if task in TUNING
        else torch.from_numpy(initial_design(problem, r))
        for r in range(reps)
    ]
    X = torch.stack(designs).to(device).repeat(len(variants), 1, 1)
    shapes, rules = zip(*(variant.split("|") for variant in variants), strict=True)

    def noise(number: int) -> Tensor:
        draws = [np.random.default_rng(stream(task, r, NOISE, number)).standard_normal() for r in range(reps)]
        return problem.noise * torch.tensor(draws, device=device).repeat(len(variants))

    values = problem.values(X)
    Y = values + torch.stack([noise(i) for i in range(problem.n_initial)], -1)
    generator, warm = torch.Generator().manual_seed(7), None
    for iteration in range(problem.budget):
        y = torch.cat([shaped(*part) for part in zip(X.split(reps), Y.split(reps), shapes, strict=True)])
        gp = fit(X, y, warm)
        warm = gp.hyperparameters
        x = propose(gp, list(rules), iteration, generator)
        value = problem.values(x)
        X, values = torch.cat([X, x[:, None]], 1), torch.cat([values, value[:, None]], 1)
        Y = torch.cat([Y, (value + noise(problem.n_initial + iteration))[:, None]], 1)
    regret = (problem.optimum - values.cummax(-1).values).clamp_min(0).view(len(variants), reps, -1).cpu()
    area = regret[..., problem.n_initial :].clamp_min(REGRET_FLOOR).log10().mean(-1)
    return {v: {"final": regret[i, :, -1].tolist(), "area": area[i].tolist()} for i, v in enumerate(variants)}


def mean_ranks(results: dict[str, dict[str, dict[str, list[float]]]]) -> dict[str, dict[str, float]]:
    """Of each variant, over tasks and replications, by final regret and by area."""
    variants = list(next(iter(results.values())))
    of_task = {
        what: [np.mean(rankdata([of[v][what] for v in variants], axis=0), axis=1) for of in results.values()]
        for what in ("final", "area")
    }
    means = {what: np.mean(ranks, axis=0) for what, ranks in of_task.items()}
    return {v: {what: float(means[what][i]) for what in means} for i, v in enumerate(variants)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="+", default=[])
    parser.add_argument("--tasks", nargs="+", default=[])
    parser.add_argument("--reps", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--ranks", type=Path, help="print mean ranks of each round of a file like results/tuning/labels.json"
    )
    args = parser.parse_args()
    if args.ranks is not None:
        for name, results in json.loads(args.ranks.read_text()).items():
            for variant, ranks in mean_ranks(results).items():
                print(f"{name}, {variant}: final {ranks['final']:.2f}, area {ranks['area']:.2f}")
        return
    if not (args.variants and args.tasks and args.out):
        parser.error("--variants, --tasks and --out are needed, or --ranks")
    results = json.loads(args.out.read_text()) if args.out.exists() else {}
    for task in args.tasks:
        began = time.perf_counter()
        results.setdefault(task, {}).update(run(task, args.variants, args.reps, args.device))
        args.out.write_text(json.dumps(results))
        means = {variant: float(np.mean(results[task][variant]["final"])) for variant in args.variants}
        print(f"{task}, {time.perf_counter() - began:.0f} s: {means}", flush=True)


if __name__ == "__main__":
    main()
