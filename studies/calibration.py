"""Does what is said of the optimum hold? On functions drawn from the Gaussian process's own prior.

    python -m studies.calibration [--functions 24] [--draws 100] [--sizes 1,10 2,50] [--lengthscales prior]

Every function has noise from the prior, observations at uniform random inputs, and length-scales either from the prior
(at least 0.1), most of them so long that the maximum is in a corner, or uniform between 0.15 and 0.6 times √d, which
makes hills. Counted is how often its maximum lies in the 90 % interval, over functions and parameters, and how often
the 95 % bound on the regret of the point with the best posterior mean holds; with the hyperparameters known, with those
of the fit, and with those drawn around the fit; the latter two also with standardized outcomes, as `Optimum` has them,
which cannot know the scale of the function. A row per d and n.

    python -m studies.calibration --features

The error of random Fourier features: root mean square over pairs of uniform random inputs, length-scales 0.3·√d.
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.dms import fit_mapped
from modeseek.draws import Draws
from modeseek.hyperparameters import Several, draw_hyperparameters
from modeseek.linalg import kernel
from modeseek.optimum import HYPERPARAMETERS, above, outside
from modeseek.outcome_transforms import OutcomeMap
from modeseek.paths import Paths, maxima, optima
from modeseek.surrogate import (
    GP,
    LENGTHSCALE_SCALE,
    LOG_NORMAL,
    Hyperparameters,
    fit,
    posterior_of,
)

SIZES = ((1, 10), (1, 30), (2, 10), (2, 50), (5, 20), (5, 100), (10, 50), (10, 200))
MIN_LENGTHSCALE = 0.1
HILLS = (0.15, 0.6)  # times √d
FEATURES = 2048  # of the functions drawn


class Truth(NamedTuple):
    """Functions, what was observed of them, and their maxima."""

    function: Paths  # b x 1
    known: GP  # with the hyperparameters that the functions were drawn with
    x: Tensor  # b x d
    value: Tensor  # b


def draw(b: int, n: int, d: int, hills: bool, generator: torch.Generator, device: torch.device) -> Truth:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, device="cpu", generator=generator).to(device)

    loc = math.sqrt(2) + 0.5 * math.log(d)
    lengthscale = (loc + LENGTHSCALE_SCALE * normal(b, d)).exp().clamp_min(MIN_LENGTHSCALE)
    if hills:
        share = torch.rand(b, d, dtype=torch.float64, device="cpu", generator=generator).to(device)
        lengthscale = (HILLS[0] + (HILLS[1] - HILLS[0]) * share) * math.sqrt(d)
    noise = (LOG_NORMAL.loc + LOG_NORMAL.scale * normal(b)).exp().clamp_min(LOG_NORMAL.least)
    X = torch.rand(b, n, d, dtype=torch.float64, device="cpu", generator=generator).to(device)
    frequencies = normal(b, FEATURES, d) / lengthscale[:, None, :]
    amplitudes = normal(2, b, 1, FEATURES) / math.sqrt(FEATURES)
    hyperparameters, zero = Hyperparameters(lengthscale, noise), torch.zeros_like(noise)
    prior = posterior_of(X, torch.zeros_like(X[..., 0]), hyperparameters, zero)
    function = Paths(prior, frequencies, *amplitudes, torch.zeros_like(X[..., 0])[:, None])
    y = function.everywhere(X)[:, 0] + noise.sqrt()[:, None] * normal(b, n)
    known = posterior_of(X, y, hyperparameters, zero)
    function = Paths(known, frequencies, *amplitudes, function.update)  # the candidates for its maximum know y
    found = maxima(function, Draws.of(generator, (b,)))
    return Truth(function, known, found.x[:, 0], found.value[:, 0])


def covered(
    truth: Truth, several: Several, outcomes: OutcomeMap | None, draws: int, generator: torch.Generator
) -> list[float]:
    """How often the intervals hold x*, how often the regret's bound holds, and the intervals' mean width."""
    gp, scale = several.gp, several.scale[..., None]
    H, b, _, d = gp.X.shape
    best = (gp.posterior(gp.X)[0] * scale).mean(0).argmax(-1)
    point = gp.X[0].gather(-2, best[:, None, None].expand(b, 1, d))
    found = optima(gp, -(-draws // H), Draws.of(generator, (H, b)), also=point.expand(H, b, 1, d))
    x, value = (part.movedim(0, 1).flatten(1, 2) for part in (found.x, found.value * scale))
    at_point = (found.paths.everywhere(point.expand(H, b, 1, d))[..., 0] * scale).movedim(0, 1).flatten(1, 2)
    u, k = x.sort(-2).values, outside(value.shape[-1], 0.9)
    low, high = u[:, k], u[:, -1 - k]
    inside = (low - 1e-6 <= truth.x) & (truth.x <= high + 1e-6)
    back = (lambda y: y) if outcomes is None else outcomes.inverse
    gained = back(value) - back(torch.minimum(at_point, value))
    bound = gained.sort(-1).values[:, above(value.shape[-1], 0.95)]
    regret = truth.value - truth.function.everywhere(point)[:, 0, 0]
    return [float(part.double().mean()) for part in (inside, regret <= bound + 1e-6, high - low)]


def print_features() -> None:
    sizes = (128, 256, 512, 1024)
    print("| d | " + " | ".join(f"{F}: independent, Sobol" for F in sizes) + " |\n" + "|---" * (1 + len(sizes)) + "|")
    generator = torch.Generator("cpu").manual_seed(0)
    for d in (1, 2, 5, 10, 20):
        X = torch.rand(200, d, dtype=torch.float64, generator=generator)
        lengthscale = torch.full((d,), 0.3 * math.sqrt(d), dtype=torch.float64)
        exact = kernel(X, X, lengthscale)
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
    parser.add_argument("--lengthscales", choices=("hills", "prior"), default="hills")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", nargs="+", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", action="store_true", help="the error of random Fourier features instead")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.features:
        return print_features()
    names = ("known", "fitted", "drawn", "standardized, fitted", "standardized, drawn")
    print("| d | n | " + " | ".join(f"{name}: interval, bound, width" for name in names) + " |")
    print("|---" * (2 + len(names)) + "|", flush=True)
    device = torch.device(args.device)
    for d, n in args.sizes:
        generator = torch.Generator("cpu").manual_seed(args.seed)
        truth = draw(args.functions, n, d, args.lengthscales == "hills", generator, device)
        X, y = truth.known.X, truth.known.y
        cells = [covered(truth, repeated(truth.known), None, args.draws, generator)]
        for gp, outcomes in ((fit(X, y), None), fit_mapped(X, y, DMSConfig(warp="never"))):
            for several in (repeated(gp), draw_hyperparameters(gp, HYPERPARAMETERS, generator)):
                cells.append(covered(truth, several, outcomes, args.draws, generator))
        row = [f"{inside:.0%}, {bound:.0%}, {width:.2f}" for inside, bound, width in cells]
        print(f"| {d} | {n} | " + " | ".join(row) + " |", flush=True)


def repeated(gp: GP) -> Several:
    """A batch of 1 x b with the hyperparameters as they are."""
    hyperparameters = Hyperparameters(*(part[None] for part in gp.hyperparameters))
    return Several(posterior_of(gp.X[None], gp.y[None], hyperparameters, gp.mean[None]), torch.ones_like(gp.mean)[None])


if __name__ == "__main__":
    main()
