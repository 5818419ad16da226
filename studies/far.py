"""200 dimensions, rounds of 100, 10,000 evaluations: the protocol of DiBO (Yun et al. 2025), with optima shifted.

    python -m studies.far --method ships,whole:ask,turbo --device cuda --out far.jsonl
    python -m studies.far --method cmaes,sobol --out far.jsonl
    python -m studies.far --show far.jsonl

Ackley, Rastrigin, Levy and Rosenbrock on DiBO's boxes, the optimum at a random point of the middle 60 % of the box, 200
Sobol points first. The four run side by side, or those that `--function` names. Other numbers of dimensions and
evaluations are options. Methods:

    ships     `ask(q)` of the default settings
    ships:N   the same with `local_after=N`
    whole:P   a policy P of batch_policies.py on all of the cube, with all observations
    local:P   the same on a trust region around the best point, with the NEAREST observations, scaled to it: what came
              before that which ships (locality.py), which goes by blocks of evaluations instead of rounds
    turbo     TuRBO-1 (Eriksson et al. 2019) from its paper, with our surrogate on the NEAREST observations
    cmaes     CMA-ES (Hansen 2016) with populations of q
    sobol     a Sobol sequence

Trust regions of `local` and `turbo` grow and shrink by TuRBO's rules.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch.test_functions import synthetic
from torch import Tensor

from modeseek import DMSConfig
from modeseek.computing import computing
from modeseek.design import sobol
from modeseek.draws import Draws
from modeseek.history import History
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.paths import draw_paths
from modeseek.priors import Hyperparameters
from modeseek.proposer import Proposer
from modeseek.settings import Settings, Stream, generator
from modeseek.space import Space
from modeseek.typing import Array
from studies.batch_policies import next_round

BOXES = {"Ackley": (-5.0, 10.0), "Rastrigin": (-5.0, 5.0), "Levy": (-10.0, 10.0), "Rosenbrock": (-5.0, 10.0)}
NEAREST = 1000
LONGEST, START, SHORTEST = 1.6, 0.8, 0.5**7  # sides of a trust region, in lengths of the cube
SUCCESSES = 3  # in a row, to grow
CANDIDATES = 5000  # of TuRBO
MOVED = 20  # coordinates of a candidate that differ from the best point's, on average


def objectives(d: int, seed: int) -> list[Callable[[Tensor], Tensor]]:
    """The four functions on the unit cube, m x d to m, larger is better, 0 at the optimum."""

    def shifted(name: str, number: int) -> Callable[[Tensor], Tensor]:
        function, (low, high) = getattr(synthetic, name)(dim=d).double(), BOXES[name]
        rng = np.random.default_rng([seed, d, number])
        move = torch.from_numpy(rng.uniform(low + 0.2 * (high - low), high - 0.2 * (high - low), d))
        centre = torch.as_tensor(function._optimizers[0], dtype=torch.float64)
        return lambda x: -function._evaluate_true(low + (high - low) * x - move + centre)

    return [shifted(name, number) for number, name in enumerate(BOXES)]


@dataclass
class Region:
    """A trust region of each row, by TuRBO's rules."""

    b: int
    patience: int  # rounds without success, to shrink
    length: Array = field(init=False)
    best: Array = field(init=False)

    def __post_init__(self) -> None:
        self.length, self.best = np.full(self.b, START), np.full(self.b, -np.inf)
        self.good, self.bad = np.zeros(self.b, int), np.zeros(self.b, int)

    def learn(self, newest: Array) -> None:
        """After a round whose best values are these (b); a region that is too small starts anew."""
        better = newest > self.best + 1e-3 * np.abs(np.where(np.isinf(self.best), 0, self.best))
        self.good, self.bad = np.where(better, self.good + 1, 0), np.where(better, 0, self.bad + 1)
        grow, shrink = self.good >= SUCCESSES, self.bad >= self.patience
        self.length = np.where(grow, np.minimum(2 * self.length, LONGEST), self.length)
        self.length = np.where(shrink, self.length / 2, self.length)
        self.length = np.where(self.length < SHORTEST, START, self.length)
        self.good[grow], self.bad[shrink] = 0, 0
        self.best = np.maximum(self.best, newest)

    def box(self, centre: Tensor, lengthscale: Tensor | None) -> tuple[Tensor, Tensor]:
        """Its edges (b x d) around centres (b x d), long where the length-scales are, within the cube."""
        weights = torch.ones_like(centre) if lengthscale is None else lengthscale
        weights = weights / weights.log().mean(-1, keepdim=True).exp()
        side = torch.from_numpy(self.length).to(centre)[:, None] * weights.clamp(0.1, 10)
        return (centre - side / 2).clamp(0, 1), (centre + side / 2).clamp(0, 1)


def nearest(X: Tensor, y: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The NEAREST observations to the middles of boxes, measured in their sides: b x k x d, b x k."""
    distance = ((X - (low + high)[:, None] / 2) / (high - low)[:, None]).abs().amax(-1)
    index = distance.topk(min(NEAREST, X.shape[1]), -1, largest=False).indices
    return X.gather(1, index[..., None].expand(*index.shape, X.shape[-1])), y.gather(1, index)


class Run:
    """Rounds of one method on some of the functions: b rows, each as it is with all of them."""

    def __init__(self, method: str, d: int, q: int, initial: int, seed: int, device: str, names: Sequence[str]) -> None:
        self.kind, _, self.policy = method.partition(":")
        self.d, self.q, self.seed, self.device = d, q, seed, torch.device(device)
        self.rows = [list(BOXES).index(name) for name in names]
        self.functions = [objectives(d, seed)[i] for i in self.rows]
        b = len(self.rows)
        cube = Space.box([0] * d, [1] * d)
        config = DMSConfig(local_after=None)
        if self.kind == "ships":
            config, self.policy = DMSConfig(local_after=int(self.policy)) if self.policy else DMSConfig(), "ask"
        seeds = [seed * len(BOXES) + i for i in self.rows]
        settings = [Settings.of(seed=of_row, n_initial=initial, device=device, config=config) for of_row in seeds]
        self.proposers = [Proposer(cube, of_row) for of_row in settings]
        self.region = Region(b, math.ceil(max(4 / q, d / q)))
        self.evolutions = [CMAES(d, q, [seed, i]) for i in self.rows] if self.kind == "cmaes" else []
        self.warm: Hyperparameters | None = None

    def evaluate(self, X: Tensor) -> Tensor:
        """At b x m x d: b x m."""
        return torch.stack([function(x) for function, x in zip(self.functions, X.cpu(), strict=True)])

    def propose(self, X: Tensor, y: Tensor, left: int) -> Tensor:
        """The next round, b x q x d."""
        if self.kind == "sobol":
            draws = Draws([generator(self.seed, Stream.DESIGN)])
            return sobol(X.shape[1] + self.q, self.d, draws)[-self.q :].expand(len(X), -1, -1)
        if self.kind == "cmaes":
            return torch.from_numpy(np.stack([evolution.ask() for evolution in self.evolutions]))
        if self.kind in ("whole", "ships"):
            return self._batch(X, y, left)
        at = y.argmax(-1)
        centre = X[torch.arange(len(X)), at]
        low, high = self.region.box(centre, None if self.warm is None else self.warm.lengthscale.cpu())
        near, outcomes = nearest(X, y, low, high)
        if self.kind == "turbo":
            return self._turbo(near, outcomes, centre, low, high)
        side = (high - low)[:, None]
        return low[:, None] + side * self._batch((near - low[:, None]) / side, outcomes, left)

    def _batch(self, X: Tensor, y: Tensor, left: int) -> Tensor:
        histories = [History.of(x.numpy(), values.numpy()) for x, values in zip(X, y, strict=True)]
        return torch.from_numpy(next_round(self.policy or "first+draws", self.proposers, histories, self.q, left))

    def _turbo(self, X: Tensor, y: Tensor, centre: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Thompson sampling on candidates that differ from the best point in some coordinates."""
        b, n, d = X.shape
        draws = Draws([generator(self.seed, Stream.MODEL, n, i) for i in self.rows])
        with computing(self.device):
            gp = fit(X.to(self.device), standardize(y.to(self.device)), self.warm)
            self.warm = gp.hyperparameters
            points = low[:, None] + (high - low)[:, None] * sobol(CANDIDATES, d, draws, (b,))
            moved = draws.rand(CANDIDATES, d) < min(MOVED / d, 1)
            moved.scatter_(-1, draws.randint(d, CANDIDATES)[..., None], True)  # one at least
            points = torch.where(moved, points, centre[:, None])
            paths, chosen = draw_paths(gp, self.q, draws), []
            values = paths.everywhere(points.to(self.device)).cpu()
            for i in range(self.q):
                index = values[:, i].argmax(-1)
                chosen.append(points[torch.arange(b), index])
                values[torch.arange(b), :, index] = -torch.inf
        return torch.stack(chosen, 1)

    def learn(self, x: Tensor, y: Tensor) -> None:
        """What a round gave: b x q x d, b x q."""
        self.region.learn(y.amax(-1).numpy())
        for evolution, points, values in zip(self.evolutions, x.numpy(), y.numpy(), strict=False):
            evolution.tell(points, values)


class CMAES:
    """CMA-ES on the unit cube (Hansen 2016, its default weights and rates), from the middle with step size 0.3.

    Points outside are moved to the edge, and it learns what they were there.
    """

    def __init__(self, d: int, q: int, seed: list[int]) -> None:
        self.rng, self.mean, self.sigma = np.random.default_rng([5, *seed]), np.full(d, 0.5), 0.3
        mu = q // 2
        weights = math.log((q + 1) / 2) - np.log(np.arange(1, mu + 1))
        self.weights = weights / weights.sum()
        effective = 1 / (self.weights**2).sum()
        self.c_sigma = (effective + 2) / (d + effective + 5)
        self.damping = 1 + 2 * max(0, math.sqrt((effective - 1) / (d + 1)) - 1) + self.c_sigma
        self.c_path = (4 + effective / d) / (d + 4 + 2 * effective / d)
        self.c_one = 2 / ((d + 1.3) ** 2 + effective)
        self.c_mu = min(1 - self.c_one, 2 * (effective - 2 + 1 / effective) / ((d + 2) ** 2 + effective))
        self.effective, self.d, self.q, self.generation = effective, d, q, 0
        self.C, self.path, self.path_sigma = np.eye(d), np.zeros(d), np.zeros(d)

    def ask(self) -> Array:
        """A population, q x d."""
        scale, self.basis = np.linalg.eigh(self.C)
        self.scale = np.sqrt(scale.clip(1e-20))
        steps = self.rng.normal(size=(self.q, self.d)) * self.scale @ self.basis.T
        return np.asarray((self.mean + self.sigma * steps).clip(0, 1))

    def tell(self, x: Array, y: Array) -> None:
        """The values of the population, larger is better."""
        self.generation += 1
        best = x[np.argsort(-y)[: len(self.weights)]]
        steps = (best - self.mean) / self.sigma
        step = self.weights @ steps
        self.mean = self.mean + self.sigma * step
        white = self.basis @ ((self.basis.T @ step) / self.scale)
        rate = math.sqrt(self.c_sigma * (2 - self.c_sigma) * self.effective)
        self.path_sigma = (1 - self.c_sigma) * self.path_sigma + rate * white
        expected = math.sqrt(self.d) * (1 - 1 / (4 * self.d) + 1 / (21 * self.d**2))
        length = np.linalg.norm(self.path_sigma)
        straight = (
            length / math.sqrt(1 - (1 - self.c_sigma) ** (2 * self.generation)) < (1.4 + 2 / (self.d + 1)) * expected
        )
        rate = math.sqrt(self.c_path * (2 - self.c_path) * self.effective)
        self.path = (1 - self.c_path) * self.path + straight * rate * step
        lost = (1 - straight) * self.c_one * self.c_path * (2 - self.c_path)
        self.C = (1 - self.c_one - self.c_mu + lost) * self.C + self.c_one * np.outer(self.path, self.path)
        self.C += self.c_mu * (steps.T * self.weights) @ steps
        self.sigma *= math.exp(self.c_sigma / self.damping * (length / expected - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="cmaes,sobol")
    parser.add_argument("--d", type=int, default=200)
    parser.add_argument("--q", type=int, default=100)
    parser.add_argument("--initial", type=int, default=200)
    parser.add_argument("--evaluations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.0, help="in standard deviations over the initial points")
    parser.add_argument("--function", default=",".join(BOXES), help="one or several of these (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no round begins after so many")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("far.jsonl"))
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        return
    for method in options.method.split(","):
        names = ("d", "q", "initial", "seed", *(("noise",) if options.noise else ()))
        key = {name: getattr(options, name) for name in names}
        for line in course(method, options):
            with options.out.open("a") as file:
                file.write(
                    json.dumps({"method": method, **key, "function": options.function.split(","), **line}) + "\n"
                )


def course(method: str, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Run a method; now and then what it has reached: regret by function, evaluations and seconds.

    Under noise it is the regret, without noise, of the point with the best outcome.
    """
    names = options.function.split(",")
    run = Run(method, options.d, options.q, options.initial, options.seed, options.device, names)
    b, began = len(run.functions), time.perf_counter()
    X = sobol(options.initial, options.d, generator(options.seed, Stream.DESIGN)).expand(b, -1, -1)
    true = run.evaluate(X)
    spread, noise = true.std(-1, keepdim=True), generator(options.seed, Stream.OTHER)

    def told(values: Tensor) -> Tensor:
        return values + options.noise * spread * torch.randn(values.shape, generator=noise, dtype=torch.float64)

    y = told(true)
    rounds = range((options.evaluations - options.initial) // options.q)
    for i in rounds:
        if time.perf_counter() - began > options.seconds:
            return
        x = run.propose(X, y, (len(rounds) - i) * options.q).cpu()
        values = run.evaluate(x)
        more = told(values)
        run.learn(x, more)
        X, y, true = torch.cat([X, x], 1), torch.cat([y, more], 1), torch.cat([true, values], 1)
        if (i + 1) % max(1, min(500 // options.q, 50)) == 0 or i + 1 == len(rounds):
            best = true.gather(1, y.argmax(-1, keepdim=True))[:, 0]
            regret = [float(f"{-value:.5g}") for value in best]
            yield {"evaluations": y.shape[1], "regret": regret, "seconds": round(time.perf_counter() - began, 1)}


def show(path: Path) -> None:
    """The regret by function at some numbers of evaluations."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]

    def setting_of(row: dict[str, Any]) -> tuple[float, ...]:
        return row["d"], row["q"], row["initial"], row["seed"], row.get("noise", 0)

    for setting in sorted({setting_of(row) for row in rows}):
        print("d = {}, q = {}, {} initial, seed {}, noise {}".format(*setting), "; regret on", ", ".join(BOXES))
        here = [row for row in rows if setting_of(row) == setting]
        for method in dict.fromkeys(row["method"] for row in here):
            courses = _joined([row for row in here if row["method"] == method])
            for evaluations, (regret, seconds) in [*courses[:: max(1, len(courses) // 4)], courses[-1]]:
                numbers = "".join(f"{regret.get(name, math.nan):12.4g}" for name in BOXES)
                print(f"  {method:24} {evaluations:6}{numbers}   {seconds:7.0f} s")


def _joined(rows: list[dict[str, Any]]) -> list[tuple[int, tuple[dict[str, float], float]]]:
    """By evaluations: the regret of each function, and the seconds of the runs that these were in together."""
    found: dict[int, tuple[dict[str, float], float]] = {}
    for row in rows:
        regret, seconds = found.get(row["evaluations"], ({}, 0.0))
        regret |= dict(zip(row.get("function", BOXES), row["regret"], strict=True))
        found[row["evaluations"]] = regret, seconds + row["seconds"]
    return sorted(found.items())


if __name__ == "__main__":
    main()
