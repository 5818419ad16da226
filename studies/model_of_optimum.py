"""Is a diffusion model of (x*, y*) as true as the path optima that it was trained on?

    python -m studies.model_of_optimum [--functions 8] [--pairs 1024] [--sizes 2,50 5,20] [--settings] [--device cuda]

Functions as in studies/calibration.py (hills). Of each, after n observations, optima of posterior paths are drawn as
`optimum()` draws them: N pairs to learn from, and REFERENCE others that stand for the truth. Columns, medians over the
functions but for seconds, the paths' own number in brackets:

    floor ratio   energy distance of SET samples of the model to SET path optima, over that of two sets of path optima
    worth         how many path optima are as far from the truth as the model, E|X − X'|/D² (N: as the pairs)
    given y*      the same for those with the best fifth of values and the model given those: of the pairs it is N/5
    interval      mean error of the ends of the 90 % intervals, of MANY samples (of the N pairs)
    mass          error of the masses of the regions that mean shift finds in the truth: total variation (of the pairs)
    density       mean log density of other optima under noise, BLUR of their spread (by the best kernels on the pairs)
    seconds       to draw the N paths; to train; to draw MANY samples

A row per d, n and, with --settings, per setting of the model.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from modeseek.config import DMSConfig
from modeseek.diffusion.optima import Learning, OptimaModel
from modeseek.draws import Draws
from modeseek.fitting import fit_mapped
from modeseek.hyperparameters import Several, draw_hyperparameters
from modeseek.modes import modes
from modeseek.optimizer import Optimizer
from modeseek.paths import optima
from modeseek.sampled_optimum import HYPERPARAMETERS
from modeseek.space import Space
from studies.calibration import draw

SIZES = ((1, 10), (1, 50), (2, 10), (2, 50), (5, 20), (5, 100), (10, 50), (10, 200))
REFERENCE, SET, MANY = 2048, 256, 4096
BLUR = 0.1  # noise under which densities are compared, over the spread of x*: border points have none without
BASE = Learning()
SETTINGS = [
    {},
    {"hidden": 64},
    {"hidden": 256},
    {"updates": 1000},
    {"updates": 16000},
    {"lr": 1e-3},
    {"lr": 1e-2},
    {"batch_size": 64},
    {"batch_size": 1024},
    {"t0": 1e-3},
    {"t0": 1e-5},
    {"steps": 20},
    {"steps": 100},
    {"p_drop": 0.1},
    {"time_power": 1.0},
]


def drawn_optima(several: Several, count: int, source: torch.Generator, at_once: int) -> tuple[Tensor, Tensor]:
    """`count` path optima of each problem, b x count x d, and their values, b x count, the H shuffled."""
    gp, scale = several
    H, b = gp.y.shape[:2]
    x, y = [], []
    for _ in range(math.ceil(count / (H * at_once))):
        found = optima(gp, at_once, Draws.of(source, (H, b)))
        x.append(found.x.movedim(0, 1).flatten(1, 2))
        y.append((found.value * scale[..., None]).movedim(0, 1).flatten(1, 2))
    order = torch.randperm(H * at_once * len(x), generator=source)[:count].to(gp.X.device)
    return torch.cat(x, 1)[:, order], torch.cat(y, 1)[:, order]


def between(x: Tensor, y: Tensor) -> Tensor:
    """E|X − Y| of samples b x S x d and b x T x d: b."""
    return torch.stack([torch.cdist(one, other).mean() for one, other in zip(x, y, strict=True)])


def within(x: Tensor) -> Tensor:
    """E|X − X'| without pairs of a sample with itself: b."""
    S = x.shape[-2]
    return between(x, x) * (S / (S - 1))


def energy_distance(x: Tensor, y: Tensor) -> Tensor:
    """As in the report: with pairs of a sample with itself, so that two sets of one distribution are apart; b."""
    return (2 * between(x, y) - between(x, x) - between(y, y)).clamp_min(0).sqrt()


def interval_error(x: Tensor, truth: Tensor) -> Tensor:
    q = x.new_tensor([0.05, 0.95])
    return (x.quantile(q, -2) - truth.quantile(q, -2)).abs().mean((0, -1))


def mass_error(x: Tensor, truth: Tensor) -> Tensor:
    """Total variation between the shares of x and of the truth in the truth's regions: b."""
    errors = []
    for one, true in zip(x, truth, strict=True):
        found = modes(true[None, :512])
        centre = found.centre[0][found.mass[0] > 0]
        shares = [torch.cdist(s, centre).argmin(-1).bincount(minlength=len(centre)) / len(s) for s in (one, true)]
        errors.append((shares[0] - shares[1]).abs().sum() / 2)
    return torch.stack(errors)


def best_kernel_density(x: Tensor, blurred: Tensor, alpha: Tensor, h: Tensor) -> Tensor:
    """Mean log density of blurred points (b x S x d) by kernels on the pairs (b x N x d), of the best width: b."""
    d, best = x.shape[-1], torch.full_like(x[:, 0, 0], -torch.inf)
    for width in (0.0, 0.05, 0.1, 0.2, 0.4, 0.8):
        variance = h + (alpha * width) ** 2
        log = torch.logsumexp(-0.5 * torch.cdist(blurred, alpha * x).square() / variance, -1) - math.log(x.shape[-2])
        best = torch.maximum(best, log.mean(-1) - 0.5 * d * torch.log(2 * math.pi * variance))
    return best


def worth(x: Tensor, true: Tensor) -> Tensor:
    """How many samples of the truth (b x T x d) would be as far from it as x (b x S x d): b."""
    squared = 2 * between(x, true) - within(x) - within(true)
    return within(true) / squared.clamp_min(1e-9)


def best_fifth(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The optima with the highest values, b x N/5 x d, and those."""
    top = y.topk(y.shape[-1] // 5, -1)
    return x.gather(-2, top.indices[..., None].expand(*top.indices.shape, x.shape[-1])), top.values


def measure(truth: tuple[Tensor, Tensor], pairs: tuple[Tensor, Tensor], learning: Learning, seed: int) -> list[Tensor]:
    """The columns but for the seconds of the paths, b each (a number for seconds)."""
    source = torch.Generator().manual_seed(seed)
    (true, _), (x, y) = truth, pairs
    begin = clock(x.device)
    model = OptimaModel.learn(x, y, source, learning)
    trained = clock(x.device)
    samples = model.sample(MANY, source)
    sampled = clock(x.device)
    sets = true.split(SET, -2)
    of_model = torch.stack([energy_distance(s, t) for s, t in zip(samples.split(SET, -2), sets, strict=False)])
    of_paths = torch.stack([energy_distance(s, t) for s, t in zip(sets, [*sets[1:], sets[0]], strict=True)])
    top, values = best_fifth(*truth)
    given = model.sample(MANY // 2, source, values.repeat(1, 1 + MANY // 2 // values.shape[-1])[:, : MANY // 2])
    t, low, high = 0.0, 0.0, 1.0  # h(t) = BLUR²
    for _ in range(60):
        t = (low + high) / 2
        low, high = (t, high) if float(model.sde.h(torch.tensor(t).double())) < BLUR**2 else (low, t)
    at = torch.tensor(t, dtype=torch.float64)
    alpha, h = (part.to(x.device) for part in (model.sde.alpha(at), model.sde.h(at)))
    noise = torch.randn(true.shape, generator=source, dtype=torch.float64).to(x.device)[:, :512]
    blurred = alpha * model.of_x(true[:, :512]).double() + h.sqrt() * noise
    labels = y.gather(-1, torch.randint(y.shape[-1], (len(y), 512), generator=source).to(x.device))
    of = model.of_x.back(blurred)
    marginal = [model.log_density(of, labels.roll(k, -1), at=t) for k in range(8)]  # p(x) = E p(x | y*)
    density = (torch.stack(marginal).logsumexp(0) - math.log(8)).mean(-1)
    kernels = best_kernel_density(model.of_x(x).double(), blurred, alpha, h) - model.of_x.std.log().sum((-2, -1))
    return [
        (of_model.mean(0) / of_paths.mean(0)),
        worth(samples, true),
        worth(given, top),
        interval_error(samples, true),
        interval_error(x, true),
        mass_error(samples, true),
        mass_error(x, true),
        density,
        kernels,
        torch.tensor([trained - begin]),
        torch.tensor([sampled - trained]),
    ]


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def problem(b: int, n: int, d: int, seed: int, device: torch.device) -> Several:
    """Functions after n observations, with hyperparameters drawn as in `optimum()`."""
    generator = torch.Generator("cpu").manual_seed(seed)
    truth = draw(b, n, d, True, generator, device)
    gp, _ = fit_mapped(truth.known.X, truth.known.y, DMSConfig(warp="never"))
    return draw_hyperparameters(gp, HYPERPARAMETERS, generator)


def print_seconds() -> None:
    """CPU seconds of what users call, on a bowl with ripples."""
    print("| d | n | optimum() | optimum(draws=1024) | more(10_000) | again |\n" + "|---" * 6 + "|", flush=True)
    for d, n in ((2, 30), (5, 50), (10, 100), (10, 200)):
        opt = Optimizer(Space.box([0] * d, [1] * d), seed=0)
        for x in np.random.default_rng(0).random((n, d)):
            opt.tell_params(x, float(((x - 0.4) ** 2).sum() + 0.05 * np.sin(9 * x).sum()))
        opt.optimum(draws=1)  # what is loaded at the first call
        marks = [time.process_time()]
        known = opt.optimum()
        marks.append(time.process_time())
        opt.optimum(draws=1024)
        for _ in range(2):
            marks.append(time.process_time())
            known.more(10_000)
        marks.append(time.process_time())
        cells = [f"{after - before:.1f}" for before, after in itertools.pairwise(marks)]
        print(f"| {d} | {n} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=8)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1024])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", nargs="+", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--seconds", action="store_true", help="of optimum() and more() on one core, instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=16, help="paths of each GP that are maximized together")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.seconds:
        return print_seconds()
    device = torch.device(args.device)
    names = "floor ratio | worth | given y* | interval | mass | density | seconds: paths, train, sample"
    print(f"| d | n | pairs | setting | {names} |\n" + "|---" * 11 + "|", flush=True)
    for d, n in args.sizes:
        several = problem(args.functions, n, d, args.seed, device)
        source = torch.Generator().manual_seed(args.seed + 1)
        truth = drawn_optima(several, REFERENCE, source, args.at_once)
        for N in args.pairs:
            begin = clock(device)
            pairs = drawn_optima(several, N, source, args.at_once)
            seconds = clock(device) - begin
            for setting in SETTINGS if args.settings else SETTINGS[:1]:
                columns = measure(truth, pairs, replace(BASE, **setting), args.seed + 2)
                ratio, w, g, i1, i0, m1, m0, p1, p0, train, sample = (float(c.median()) for c in columns)
                cells = (
                    f"{ratio:.2f} | {w:.0f} | {g:.0f} | {i1:.3f} ({i0:.3f}) | {m1:.3f} ({m0:.3f}) | {p1:.2f} ({p0:.2f})"
                )
                text = ", ".join(f"{k} {v:g}" for k, v in setting.items()) or "default"
                print(f"| {d} | {n} | {N} | {text} | {cells} | {seconds:.2f}, {train:.2f}, {sample:.2f} |", flush=True)


if __name__ == "__main__":
    main()
