"""Seconds of one DMS iteration by stage, beside the floor of each stage and BoTorch's LogEI, in one run on the CPU.

The stages and floors are of the paper's preset; whole iterations also of the default and of `DMSConfig.fast()`.

    make bench                            # or: python -m benchmarks.iteration --repeats 5 --threads 2

Floors are those of `modeseek bench batches` (modeseek/bench/measure/cost.py): the arithmetic and the memory traffic
that cannot be left out, at the speeds that this machine reaches on large matrices in the same run. Observed is a
function with so many optima that no stage is left out. Machines are noisy, so the best of several repeats counts, for
DMS, floor and peer alike, taken in turns. Each task runs in a process of its own, whose peak memory is the last column.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from threadpoolctl import threadpool_limits
from torch import Tensor

from modeseek.bench.measure.cost import speed_of, work_of
from modeseek.bench.measure.seconds import many_optima
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.dms import STAGES, suggest
from modeseek.outcome_transforms import standardize

TASKS = {"Styblinski-2": (2, 20), "Levy-10": (10, 100), "Levy-20": (20, 200), "Levy-50": (50, 500)}  # d and n
OURS = {"default": DMSConfig(), "fast": DMSConfig.fast()}


def observations(name: str) -> tuple[Tensor, Tensor]:
    """Sobol points, as many as the initial design of a task has, and noisy outcomes: 1 x n x d, 1 x n."""
    d, n = TASKS[name]
    generator = torch.Generator().manual_seed(0)
    X = sobol(n, d, generator)[None]
    return X, many_optima(X) + 0.1 * torch.randn(1, n, dtype=torch.float64, generator=generator)


def logei(X: Tensor, Y: Tensor) -> None:
    """One iteration of BoTorch as its tutorials write it."""
    y = standardize(Y)[0, :, None]
    model = SingleTaskGP(X[0], y, outcome_transform=None)
    with threadpool_limits(1, user_api="blas"):  # SciPy's L-BFGS-B slows many times beside a threaded BLAS
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        bounds = torch.tensor([[0.0], [1.0]], dtype=X.dtype).expand(2, X.shape[-1])
        optimize_acqf(LogExpectedImprovement(model, y.max()), bounds, q=1, num_restarts=10, raw_samples=512)


def seconds(function: Callable[[], object]) -> float:
    """The wall-clock time of a call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(name: str, repeats: int, threads: int) -> dict[str, float]:
    """The best times of all stages, floors and of LogEI for a task, and the process's peak memory."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    X, Y = observations(name)
    n, d = X.shape[-2:]
    config = DMSConfig.paper(d)
    first = suggest(X, Y, config, torch.Generator().manual_seed(1))
    out = suggest(X, Y, config, torch.Generator().manual_seed(0), first.state)
    if bool(out.fell_back.any()):
        raise SystemExit(f"{name}: the diffusion model was left out, and so were two stages")
    best = {"peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    work = work_of(d, n, config, out.gp.evaluations)
    ours = {name: (c, suggest(X, Y, c, torch.Generator().manual_seed(1)).state) for name, c in OURS.items()}
    for repeat in range(repeats):
        step = suggest(X, Y, config, torch.Generator().manual_seed(repeat), first.state)
        times = dict(step.seconds)
        times["paper"] = sum(step.seconds.values())
        for preset, (settings, its_state) in ours.items():
            found = suggest(X, Y, settings, torch.Generator().manual_seed(repeat), its_state)
            times[preset] = sum(found.seconds.values())
        for stage, floor in work.floors(speed_of(X.device, repeats=1)).items():
            times[stage + " floor"] = floor
        times["LogEI"] = seconds(lambda: logei(X, Y))
        best |= {key: min(value, best.get(key, value)) for key, value in times.items()}
    return best


def table(results: dict[str, dict[str, float]]) -> str:
    """A Markdown table, a row per task and stage, and one of whole iterations."""
    lines = ["| task | stage | seconds | floor | over floor | share |", "|---|---|---|---|---|---|"]
    for name, best in results.items():
        for stage in STAGES:
            seconds, floor = best[stage], best[stage + " floor"]
            share = seconds / sum(best[s] for s in STAGES)
            lines.append(f"| {name} | {stage} | {seconds:.4f} | {floor:.2g} | {seconds / floor:.1f} | {share:.0%} |")
    presets = ["paper", *OURS]
    lines += [
        "",
        f"| task | {' | '.join(f'{preset}, s' for preset in presets)} | LogEI, s | "
        f"{' | '.join(f'{preset} / LogEI' for preset in presets)} | peak memory, MB |",
        "|---" * (3 + 2 * len(presets)) + "|",
    ]
    for name, best in results.items():
        cells = [f"{best[key]:.3f}" for key in (*presets, "LogEI")]
        cells += [f"{best[preset] / best['LogEI']:.2f}" for preset in presets]
        lines.append(f"| {name} | {' | '.join(cells)} | {best['peak MB']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.threads} threads, stages of the paper's preset, best of {args.repeats}\n")
    results = {}
    for name in args.tasks:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            results[name] = pool.apply(measure, (name, args.repeats, args.threads))
    print(table(results))


if __name__ == "__main__":
    main()
