"""Does what is said of the optimum hold? On functions drawn from the Gaussian process's own prior.

    python -m studies.calibration [--functions 24] [--draws 100] [--sizes 1,10 2,50] [--lengthscales hills]
        [--kinds drawn] [--out rows.jsonl]

Every function has noise from the default's prior, observations at uniform random inputs, and length-scales from the
prior of the fit (at least 0.1), most of them so long that the maximum is in a corner, or uniform between 0.15 and 0.6
times √d, which makes hills that this prior does not expect. With the hyperparameters known, with those of the fit, and
with those that `optimum()` draws; the latter two of standardized outcomes, which do not know the scale of the function.
Columns:

    interval   how often x* is in the shortest 90 % interval, over functions and parameters
    said       the share of the samples that is: above 90 % where many are on the border, and the interval ends there
    trimmed    how often x* is in it if of samples on the border (and of x* there) only as many count as make it 90 %
    inner      how often it is in the interval where x* is not on the border, and how often it is not
    width      of the interval, on the unit cube, on average
    bound      how often the 95 % bound on the regret of the recommended point holds
    rank       the share of the samples of that regret which the true one exceeds, on average: 0.5
    z          root mean square of (f − mean)/std of predictions at random inputs: 1

A row per d and n. What --out has already, of the same settings, is not measured again.

    python -m studies.calibration --features

The error of random Fourier features: root mean square over pairs of uniform random inputs, length-scales 0.3·√d.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from scipy.special import gammaincinv
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
from modeseek.priors import LENGTHSCALE_SCALE, PRIORS, Hyperparameters
from modeseek.sampled_optimum import HYPERPARAMETERS, above, as_fitted, moments_in_own_units, sample_optimum, shortest
from modeseek.surrogate import GP, Given, posterior_of

SIZES = ((1, 10), (1, 50), (2, 10), (2, 50), (5, 20), (5, 100), (10, 50), (10, 200))
NOISE = PRIORS[DMSConfig().noise_prior]
MIN_LENGTHSCALE = 0.1
HILLS = (0.15, 0.6)  # times √d
FEATURES = 2048  # of the functions drawn
PREDICTED = 20  # inputs of each function
AT_ONCE = 50  # functions, for the sake of memory
SAME = 1e-6  # on the unit cube
KINDS = ("known", "fitted", "drawn")


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
    uniform = torch.rand(b, dtype=torch.float64, device="cpu", generator=generator)
    noise = torch.from_numpy(gammaincinv(1 + NOISE.slope, uniform.numpy()) / NOISE.rate)
    noise = noise.clamp_min(NOISE.least).to(device)
    X = torch.rand(b, n, d, dtype=torch.float64, device="cpu", generator=generator).to(device)
    kernel = KERNELS[name]
    uniform = torch.rand(b, FEATURES, d + kernel.extra, dtype=torch.float64, device="cpu", generator=generator)
    frequencies = kernel.frequencies(uniform).to(device) / lengthscale[:, None, :]
    embedding = PLAIN.with_kernel(kernel)
    amplitudes = normal(2, b, 1, FEATURES) / math.sqrt(FEATURES)
    hyperparameters, zero = Hyperparameters(lengthscale, noise), torch.zeros_like(noise)
    prior = posterior_of(X, torch.zeros_like(X[..., 0]), hyperparameters, zero, Given(embedding))
    function = Paths(prior, frequencies, *amplitudes, torch.zeros_like(X[..., 0])[:, None])
    y = function.everywhere(X)[:, 0] + noise.sqrt()[:, None] * normal(b, n)
    known = posterior_of(X, y, hyperparameters, zero, Given(embedding))
    function = Paths(known, frequencies, *amplitudes, function.update)  # the candidates for its maximum know y
    found = maxima(function, Draws.of(generator, (b,)))
    return Truth(function, known, found.x[:, 0], found.value[:, 0])


class Held(NamedTuple):
    """What was said of each function, and whether it held."""

    inside: Tensor  # b x d, whether the shortest 90 % interval holds x*
    said: Tensor  # b x d, the share of the samples in it
    trimmed: Tensor  # b x d, how probable it is that it holds x* with ties broken at random
    inner: Tensor  # b x d, whether x* is not on the border
    width: Tensor  # b x d, of the interval
    bound: Tensor  # b, whether the 95 % bound on the regret held
    rank: Tensor  # b, the share of the samples of the regret below the true one: uniform where they are calibrated
    z: Tensor  # b x PREDICTED, (f − mean)/std of predictions at random inputs


def trimmed(samples: Tensor, low: Tensor, high: Tensor, x: Tensor, probability: float) -> Tensor:
    """How probable it is that an interval holds x if the ranks of equal samples, and of x among them, are random.

    The interval goes from the i-th to the (i + j)-th of S samples in order, and holds one more with probability
    j/(S + 1) if no two are equal. Of samples on the border many are, and it holds all that equal its ends, too many for
    that probability. With ties broken at random the number is right again.

    Args:
        samples: b x S x d; low, high, x: b x d.
    """
    S = samples.shape[-2]
    j = min(math.ceil(probability * (S + 1) - 1e-9), S - 1)

    def ranks(value: Tensor) -> tuple[Tensor, Tensor]:
        """How many samples are below a value, and how many are not above it."""
        return tuple((samples < value[:, None] + end).sum(-2) for end in (-SAME, SAME))  # type: ignore[return-value]

    (low_from, low_to), (high_from, high_to), (below, up_to) = (ranks(value) for value in (low, high, x))
    i = (torch.maximum(low_from, high_from - j) + torch.minimum(low_to, high_to - j) - 1).div(2, rounding_mode="floor")
    common = torch.minimum(up_to, i + j) - torch.maximum(below, i + 1) + 1
    return common.clamp_min(0).double() / (up_to - below + 1)


def held(
    truth: Truth, gp: GP, several: Several, outcomes: OutcomeMap | None, draws: int, generator: torch.Generator
) -> Held:
    """Intervals, bounds and predictions with these hyperparameters against the functions themselves."""
    found = sample_optimum(gp, draws, generator, several=several)
    low, high = shortest(found.x, 0.9)
    inside = (low - SAME <= truth.x) & (truth.x <= high + SAME)
    said = ((low[:, None] - SAME <= found.x) & (found.x <= high[:, None] + SAME)).double().mean(-2)
    random_ties = trimmed(found.x, low, high, truth.x, 0.9)
    inner = (truth.x > SAME) & (truth.x < 1 - SAME)
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
    return Held(inside, said, random_ties, inner, high - low, regret <= bound + 1e-6, rank, z)


def measure(args: argparse.Namespace, d: int, n: int) -> list[Held]:
    """By kind of hyperparameters that is asked for, in parts of AT_ONCE functions."""
    device, parts = torch.device(args.device), []
    for first in range(0, args.functions, AT_ONCE):
        generator = torch.Generator("cpu").manual_seed(args.seed + first)
        count = min(AT_ONCE, args.functions - first)
        truth = draw(count, n, d, args.lengthscales == "hills", generator, device, args.kernel)
        X, y = truth.known.X, truth.known.y
        gp, outcomes = fit_mapped(X, y, DMSConfig(warp="never", kernel=args.kernel))
        cells = []
        for kind in args.kinds:
            if kind == "known":
                cells.append(held(truth, truth.known, as_fitted(truth.known), None, args.draws, generator))
                continue
            several = as_fitted(gp) if kind == "fitted" else draw_hyperparameters(gp, HYPERPARAMETERS, generator)
            cells.append(held(truth, gp, several, outcomes, args.draws, generator))
        parts.append(cells)
    return [Held(*(torch.cat(part) for part in zip(*cells, strict=True))) for cells in zip(*parts, strict=True)]


def row_of(of: Held) -> dict[str, float]:
    """The columns."""
    row = {name: float(getattr(of, name).double().mean()) for name in Held._fields if name not in ("z", "inner")}
    inner = of.inner.double()
    row |= {"inner": float((of.inside & of.inner).double().sum() / inner.sum()), "inner_share": float(inner.mean())}
    return row | {"z": float(of.z.square().mean().sqrt())}


def rows_of(args: argparse.Namespace, d: int, n: int) -> list[dict[str, Any]]:
    """A row per kind: from the file where it has those, else measured, and appended to it."""
    settings = {"d": d, "n": n} | {
        name: getattr(args, name) for name in ("lengthscales", "kernel", "functions", "draws", "seed")
    }
    path: Path | None = args.out
    known = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []
    rows = [row for kind in args.kinds for row in known if (settings | {"kind": kind}).items() <= row.items()]
    if len(rows) < len(args.kinds):
        found = zip(args.kinds, measure(args, d, n), strict=True)
        rows = [settings | {"kind": kind} | row_of(of) for kind, of in found]
        if path:
            with open(path, "a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
    return rows


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
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of hyperparameters")
    parser.add_argument("--out", type=Path, help="JSON lines that rows are appended to")
    parser.add_argument("--features", action="store_true", help="the error of random Fourier features instead")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.features:
        return print_features()
    columns = "interval, said, trimmed, inner, width, bound, rank, z"
    print("| d | n | " + " | ".join(f"{kind}: {columns}" for kind in args.kinds) + " |")
    print("|---" * (2 + len(args.kinds)) + "|", flush=True)
    for d, n in args.sizes:
        cells = [
            "{interval:.0%}, {said:.0%}, {trimmed:.0%}, {inner:.0%} of {inner_share:.0%}, {width:.2f}, {bound:.0%}, "
            "{rank:.2f}, {z:.2f}".format(interval=row["inside"], **row)
            for row in rows_of(args, d, n)
        ]
        print(f"| {d} | {n} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
