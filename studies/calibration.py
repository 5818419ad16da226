"""Does what is said of the optimum hold? On functions drawn from the Gaussian process's own prior.

    python -m studies.calibration [--functions 24] [--draws 100] [--sizes 1,10 2,50] [--lengthscales hills]

Every function has noise from the prior, observations at uniform random inputs, and length-scales from the prior (at
least 0.1), most of them so long that the maximum is in a corner, or uniform between 0.15 and 0.6 times √d, which makes
hills that the prior does not expect. With the hyperparameters known, with those of the fit, and with those that
`optimum()` draws; the latter two of standardized outcomes, which do not know the scale of the function. Columns:

    equal tails  how often x* is in the 90 % interval with as many samples below as above, over functions and parameters
    interval   how often it is in the shortest 90 % interval
    width      of that, on the unit cube, on average
    bound      how often the 95 % bound on the regret of the recommended point holds
    rank       the share of the samples of that regret which the true one exceeds, on average: 0.5
    z          root mean square of (f − mean)/std of predictions at random inputs: 1

A row per d and n.

    python -m studies.calibration --features

The error of random Fourier features: root mean square over pairs of uniform random inputs, length-scales 0.3·√d.
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.config import DMSConfig, KernelName
from modeseek.design import sobol
from modeseek.draws import Draws
from modeseek.embedding import PLAIN
from modeseek.fitting import fit_mapped
from modeseek.hyperparameters import Several, draw_hyperparameters
from modeseek.kernels import KERNELS, SQUARED_EXPONENTIAL, half_squares
from modeseek.outcome_transforms import OutcomeMap, Scaling
from modeseek.paths import Paths, maxima
from modeseek.sampled_optimum import HYPERPARAMETERS, above, as_fitted, moments_in_own_units, sample_optimum, shortest
from modeseek.surrogate import (
    GP,
    LENGTHSCALE_SCALE,
    LOG_NORMAL,
    Hyperparameters,
    posterior_of,
)

SIZES = ((1, 10), (1, 50), (2, 10), (2, 50), (5, 20), (5, 100), (10, 50), (10, 200))
MIN_LENGTHSCALE = 0.1
HILLS = (0.15, 0.6)  # times √d
FEATURES = 2048  # of the functions drawn
PREDICTED = 20  # inputs of each function
AT_ONCE = 50  # functions, for the sake of memory


class Truth(NamedTuple):
    """Functions, what was observed of them, and their maxima."""

    function: Paths  # b x 1
    known: GP  # with the hyperparameters that the functions were drawn with
    x: Tensor  # b x d
    value: Tensor  # b


def draw(
    b: int, n: int, d: int, hills: bool, generator: torch.Generator, device: torch.device, name: KernelName = "matern"
) -> Truth:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, device="cpu", generator=generator).to(device)

    loc = math.sqrt(2) + 0.5 * math.log(d)
    lengthscale = (loc + LENGTHSCALE_SCALE * normal(b, d)).exp().clamp_min(MIN_LENGTHSCALE)
    if hills:
        share = torch.rand(b, d, dtype=torch.float64, device="cpu", generator=generator).to(device)
        lengthscale = (HILLS[0] + (HILLS[1] - HILLS[0]) * share) * math.sqrt(d)
    noise = (LOG_NORMAL.loc + LOG_NORMAL.scale * normal(b)).exp().clamp_min(LOG_NORMAL.least)
    X = torch.rand(b, n, d, dtype=torch.float64, device="cpu", generator=generator).to(device)
    kernel = KERNELS[name]
    uniform = torch.rand(b, FEATURES, d + kernel.extra, dtype=torch.float64, device="cpu", generator=generator)
    frequencies = kernel.frequencies(uniform).to(device) / lengthscale[:, None, :]
    embedding = PLAIN.with_kernel(kernel)
    amplitudes = normal(2, b, 1, FEATURES) / math.sqrt(FEATURES)
    hyperparameters, zero = Hyperparameters(lengthscale, noise), torch.zeros_like(noise)
    prior = posterior_of(X, torch.zeros_like(X[..., 0]), hyperparameters, zero, embedding)
    function = Paths(prior, frequencies, *amplitudes, torch.zeros_like(X[..., 0])[:, None])
    y = function.everywhere(X)[:, 0] + noise.sqrt()[:, None] * normal(b, n)
    known = posterior_of(X, y, hyperparameters, zero, embedding)
    function = Paths(known, frequencies, *amplitudes, function.update)  # the candidates for its maximum know y
    found = maxima(function, Draws.of(generator, (b,)))
    return Truth(function, known, found.x[:, 0], found.value[:, 0])


class Held(NamedTuple):
    """What was said of each function, and whether it held."""

    equal: Tensor  # b x d, whether the 90 % interval with equal tails holds x*
    inside: Tensor  # b x d, whether the shortest 90 % interval does
    width: Tensor  # b x d, of that
    bound: Tensor  # b, whether the 95 % bound on the regret held
    rank: Tensor  # b, the share of the samples of the regret below the true one: uniform where they are calibrated
    z: Tensor  # b x PREDICTED, (f − mean)/std of predictions at random inputs


def outside(count: int, probability: float) -> int:
    """How many of so many samples, in order, are outside of an interval at either end.

    With k of S samples below it and k above, an interval holds one more with probability 1 − 2(k + 1)/(S + 1).
    """
    return max(math.floor((1 - probability) / 2 * (count + 1) + 1e-9) - 1, 0)


def held(
    truth: Truth, gp: GP, several: Several, outcomes: OutcomeMap | None, draws: int, generator: torch.Generator
) -> Held:
    """Intervals, bounds and predictions with these hyperparameters against the functions themselves."""
    found = sample_optimum(gp, draws, generator, several=several)
    u, k = found.x.sort(-2).values, outside(found.value.shape[-1], 0.9)
    ends = shortest(found.x, 0.9)
    equal, inside = (
        (low - 1e-6 <= truth.x) & (truth.x <= high + 1e-6) for low, high in ((u[:, k], u[:, -1 - k]), ends)
    )
    one = torch.ones_like(gp.mean)[:, None]
    plain = OutcomeMap(Scaling(one, -torch.inf * one, torch.inf * one, one, 0 * one, one), None)
    outcomes = plain if outcomes is None else outcomes
    regrets = found.regrets(outcomes)
    regret = truth.value - truth.function.everywhere(found.point[:, None])[:, 0, 0]
    bound = regrets[:, above(regrets.shape[-1], 0.95)]
    x = torch.rand(*gp.X.shape[:-2], PREDICTED, gp.X.shape[-1], dtype=torch.float64, generator=generator).to(gp.X)
    mean, std = moments_in_own_units(several, outcomes, x)
    rank = (regrets < regret[:, None]).double().mean(-1)
    z = (truth.function.everywhere(x)[:, 0] - mean) / std
    return Held(equal, inside, ends[1] - ends[0], regret <= bound + 1e-6, rank, z)


def measure(args: argparse.Namespace, d: int, n: int) -> list[Held]:
    """By kind of hyperparameters, in parts of AT_ONCE functions."""
    device, parts = torch.device(args.device), []
    for first in range(0, args.functions, AT_ONCE):
        generator = torch.Generator("cpu").manual_seed(args.seed + first)
        count = min(AT_ONCE, args.functions - first)
        truth = draw(count, n, d, args.lengthscales == "hills", generator, device, args.kernel)
        X, y = truth.known.X, truth.known.y
        cells = [held(truth, truth.known, as_fitted(truth.known), None, args.draws, generator)]
        gp, outcomes = fit_mapped(X, y, DMSConfig(warp="never", kernel=args.kernel))
        for several in (as_fitted(gp), draw_hyperparameters(gp, HYPERPARAMETERS, generator)):
            cells.append(held(truth, gp, several, outcomes, args.draws, generator))
        parts.append(cells)
    return [Held(*(torch.cat(part) for part in zip(*cells, strict=True))) for cells in zip(*parts, strict=True)]


def print_features() -> None:
    sizes = (128, 256, 512, 1024)
    print("| d | " + " | ".join(f"{F}: independent, Sobol" for F in sizes) + " |\n" + "|---" * (1 + len(sizes)) + "|")
    generator = torch.Generator("cpu").manual_seed(0)
    for d in (1, 2, 5, 10, 20):
        X = torch.rand(200, d, dtype=torch.float64, generator=generator)
        lengthscale = torch.full((d,), 0.3 * math.sqrt(d), dtype=torch.float64)
        exact = SQUARED_EXPONENTIAL.value(half_squares(X, X, lengthscale))
        cells = []
        for F in sizes:
            independent = torch.randn(8, F, d, dtype=torch.float64, generator=generator)
            shifted = torch.special.ndtri(sobol(F, d, Draws.of(generator, (8,)), (8,)))
            errors = []
            for normal in (independent, shifted):
                phase = X @ (normal / lengthscale).mT
                found = (phase.cos() @ phase.cos().mT + phase.sin() @ phase.sin().mT) / F
                errors.append(float((found - exact).square().mean().sqrt()))
            cells.append("{:.3f}, {:.4f}".format(*errors))
        print(f"| {d} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=24)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--lengthscales", choices=("prior", "hills"), default="prior")
    parser.add_argument("--kernel", choices=tuple(KERNELS), default="matern")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", nargs="+", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", action="store_true", help="the error of random Fourier features instead")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.features:
        return print_features()
    names = ("known", "fitted", "drawn")
    print("| d | n | " + " | ".join(f"{name}: equal tails, interval, width, bound, rank, z" for name in names) + " |")
    print("|---" * (2 + len(names)) + "|", flush=True)
    for d, n in args.sizes:
        cells = []
        for of in measure(args, d, n):
            equal, inside, width, bound, rank = (float(part.double().mean()) for part in of[:5])
            spread = float(of.z.square().mean().sqrt())
            cells.append(f"{equal:.0%}, {inside:.0%}, {width:.2f}, {bound:.0%}, {rank:.2f}, {spread:.2f}")
        print(f"| {d} | {n} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
