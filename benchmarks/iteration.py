"""Seconds of one DMS iteration by stage, beside the floor of each stage and BoTorch's LogEI, in one run on the CPU.

The stages and floors are of the paper's preset; whole iterations also of the default and of `DMSConfig.fast()`.

    make bench                            # or: python -m benchmarks.iteration --repeats 5 --threads 2

The floor of a stage is the time of its matrix products alone, of the same shapes and as many: what no implementation
on the same library goes under. Machines are noisy, so the best of several repeats counts, for DMS, floor and peer
alike, taken in turns. All stages run, also where a suggestion would do without some. Each task runs in a process of its
own, whose peak memory is the last column.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from unittest import mock

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.test_functions import Levy, StyblinskiTang
from gpytorch.mlls import ExactMarginalLogLikelihood
from threadpoolctl import threadpool_limits
from torch import Tensor

from modeseek import dms, modes, outcomes, surrogate
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.diffusion.network import initialize, layers
from modeseek.dms import State, Suggestion, suggest

TASKS = {
    "Styblinski-2": (StyblinskiTang, 2, 20),
    "Levy-10": (Levy, 10, 100),
    "Levy-20": (Levy, 20, 200),
    "Levy-50": (Levy, 50, 500),
}
STAGES = ("fit", "pseudo", "train", "sample", "mode")
OURS = {"default": DMSConfig(), "fast": DMSConfig.fast()}


def observations(name: str) -> tuple[Tensor, Tensor]:
    """n Sobol points of a task and their noisy outcomes: 1 x n x d, 1 x n."""
    function, d, n = TASKS[name]
    f = function(dim=d, negate=True).double()
    generator = torch.Generator().manual_seed(0)
    X = sobol(n, d, generator)[None]
    low, high = f.bounds
    return X, f(low + (high - low) * X) + 0.1 * torch.randn(1, n, dtype=torch.float64, generator=generator)


def counted(module: object, name: str) -> mock._patch:
    """Patch a function of a module or class by itself with a counter of its calls."""
    return mock.patch.object(module, name, autospec=True, side_effect=getattr(module, name))


def calls_of_one_iteration(X: Tensor, Y: Tensor, config: DMSConfig, state: State) -> tuple[Suggestion, int, int]:
    """A suggestion, the L-BFGS evaluations of its pseudo-dataset, and the steps of its mean shift."""
    with counted(surrogate.GP, "label_and_grad") as descend, counted(modes, "_distances") as distances:
        out = suggest(X, Y, config, torch.Generator().manual_seed(0), state)
    return out, descend.call_count, distances.call_count


def floors(
    X: Tensor, config: DMSConfig, out: Suggestion, evaluations: int, shifts: int
) -> dict[str, Callable[[], None]]:
    """The matrix products of each stage."""
    n, d = X.shape[-2:]
    m, _, S = config.sizes(d)
    H, double, single = config.hidden, torch.float64, torch.float32
    rows = 2 if config.w > 0 else 1

    def fit_floor() -> None:
        Z, K = torch.rand(2, n, d, dtype=double), torch.eye(n, dtype=double).expand(2, n, n)
        for _ in range(out.gp.evaluations):
            Z @ Z.mT
            torch.cholesky_inverse(torch.linalg.cholesky_ex(K)[0])
            K @ Z

    def pseudo_floor() -> None:
        x, Z, A = torch.rand(m, d, dtype=double), torch.rand(n, d, dtype=double), torch.rand(n, n, dtype=double)
        for _ in range(evaluations):
            k = x @ Z.T
            k @ A
            k @ Z

    def train_floor() -> None:
        theta = initialize((1,), d, H, torch.Generator())
        net, grad = layers(theta, d, H), layers(torch.zeros_like(theta), d, H)
        sizes = [min(config.batch_size, m - start) for start in range(0, m, config.batch_size)]
        buffers = {size: [torch.rand(1, size, k, dtype=single) for k in (d + 16, H, H, d)] for size in sizes}
        for _ in range(config.epochs):
            for size in sizes:
                x, a, z, o = buffers[size]
                torch.bmm(x, net.W1, out=z)
                torch.bmm(a, net.W2, out=z)
                torch.bmm(a, net.W3, out=o)
                torch.bmm(o, net.W3.mT, out=z)
                torch.bmm(a.mT, o, out=grad.W3)
                torch.bmm(a.mT, a, out=grad.W2)
                torch.bmm(a, net.W2.mT, out=z)
                torch.bmm(x.mT, a, out=grad.W1)

    def sample_floor() -> None:
        net = layers(initialize((1,), d, H, torch.Generator()), d, H)
        x, first = torch.rand(1, S, d, dtype=single), torch.empty(1, S, H)
        a, z, o = (torch.rand(1, rows * S, k, dtype=single) for k in (H, H, d))
        for _ in range(2 * config.steps):
            torch.bmm(x, net.W1[:, :d], out=first)
            torch.bmm(a, net.W2, out=z)
            torch.bmm(a, net.W3, out=o)

    def mode_floor() -> None:
        within, x = torch.rand(S, S, dtype=double), torch.rand(S, d, dtype=double)
        for _ in range(shifts):
            within @ x

    return dict(zip(STAGES, (fit_floor, pseudo_floor, train_floor, sample_floor, mode_floor), strict=True))


def logei(X: Tensor, Y: Tensor) -> None:
    """One iteration of BoTorch as its tutorials write it."""
    y = outcomes.standardize(Y)[0, :, None]
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
    # On smooth tasks the paper's K leads all runs into one optimum, and training would be left out.
    mock.patch.object(dms, "_is_one_point", lambda x, *_: torch.zeros(x.shape[:-2], dtype=torch.bool)).start()
    X, Y = observations(name)
    config = DMSConfig.paper(X.shape[-1])
    state = suggest(X, Y, config, torch.Generator().manual_seed(1)).state
    out, evaluations, shifts = calls_of_one_iteration(X, Y, config, state)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    best = {"evaluations": float(evaluations), "peak MB": peak}
    ours = {name: (c, suggest(X, Y, c, torch.Generator().manual_seed(1)).state) for name, c in OURS.items()}
    for repeat in range(repeats):
        step = suggest(X, Y, config, torch.Generator().manual_seed(repeat), state)
        times = dict(step.seconds)
        times["paper"] = sum(step.seconds.values())
        for preset, (settings, its_state) in ours.items():
            found = suggest(X, Y, settings, torch.Generator().manual_seed(repeat), its_state)
            times[preset] = sum(found.seconds.values())
        for stage, floor in floors(X, config, out, evaluations, shifts).items():
            times[stage + " floor"] = seconds(floor)
        times["LogEI"] = seconds(lambda: logei(X, Y))
        best |= {key: min(value, best.get(key, value)) for key, value in times.items()}
    return best


def table(results: dict[str, dict[str, float]]) -> str:
    """A Markdown table, a row a task and stage, and one of whole iterations."""
    lines = ["| task | stage | seconds | floor | ratio | share |", "|---|---|---|---|---|---|"]
    for name, best in results.items():
        for stage in STAGES:
            seconds, floor = best[stage], best[stage + " floor"]
            share = seconds / sum(best[s] for s in STAGES)
            lines.append(f"| {name} | {stage} | {seconds:.4f} | {floor:.4f} | {seconds / floor:.2f} | {share:.0%} |")
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
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.threads} threads, stages of the paper's preset, best of {args.repeats}\n")
    results = {}
    for name in args.tasks:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            results[name] = pool.apply(measure, (name, args.repeats, args.threads))
    print(table(results))


if __name__ == "__main__":
    main()
