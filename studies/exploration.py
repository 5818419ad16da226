"""How much to explore, and whether to believe in noise: variants of the default on functions that are for tuning only.

    python -m studies.exploration --method 'dms[train_on=nothing]' --d 5 --noise 0.01 --reps 6 --out exploration.jsonl
    python -m studies.exploration --show exploration.jsonl

Eight functions (bowls, Dixon-Price, Rosenbrock, Levy, Ackley, three Gaussian hills, Styblinski-Tang), each replication
with its optimum moved and, for three of them, rotated anew. All replications run side by side. Noise and regret are in
standard deviations of the function over the cube. `--show` prints, by dimension and noise, each variant's mean rank
over replications, of the regret all along and at the end.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from modeseek.bench.campaign.replication import parse_method
from modeseek.bench.methods import PRESETS, make_side_by_side
from modeseek.design import sobol
from modeseek.history import History
from modeseek.settings import Stream, generator
from modeseek.space import Space

INITIAL = 10


def ellipsoid(x: Tensor) -> Tensor:
    return (x.square() * torch.logspace(0, 2, x.shape[-1], dtype=x.dtype)).sum(-1)


def quartic(x: Tensor) -> Tensor:
    return (x.square() + x.pow(4)).sum(-1)


def dixon_price(x: Tensor) -> Tensor:
    i = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    z = 10 * x + 2 ** (-(2**i - 2) / 2**i)
    return (z[..., 0] - 1).square() + (i[1:] * (2 * z[..., 1:].square() - z[..., :-1]).square()).sum(-1)


def rosenbrock(x: Tensor) -> Tensor:
    z = 1 + 2 * x
    return (100 * (z[..., 1:] - z[..., :-1].square()).square() + (1 - z[..., :-1]).square()).sum(-1)


def levy(x: Tensor) -> Tensor:
    w = 1 + 2.5 * x
    inner = (w[..., :-1] - 1).square() * (1 + 10 * torch.sin(math.pi * w[..., :-1] + 1).square())
    last = (w[..., -1] - 1).square() * (1 + torch.sin(2 * math.pi * w[..., -1]).square())
    return torch.sin(math.pi * w[..., 0]).square() + inner.sum(-1) + last


def ackley(x: Tensor) -> Tensor:
    z = 10 * x
    waves = torch.exp(torch.cos(2 * math.pi * z).mean(-1))
    return 20 + math.e - 20 * torch.exp(-0.2 * z.square().mean(-1).sqrt()) - waves


def hills(x: Tensor) -> Tensor:
    """A narrow one at the origin that is higher than two broad ones."""
    broad = [(0.8, 0.6, 0.5), (0.7, -0.5, 0.6)]
    heights = [torch.exp(-2 * x.square().mean(-1) / 0.15)]
    heights += [height * torch.exp(-2 * (x - at).square().mean(-1) / width) for height, at, width in broad]
    return 1 - torch.stack(heights).amax(0)


def styblinski_tang(x: Tensor) -> Tensor:
    z = 5 * x - 2.903534
    return (z.pow(4) - 16 * z.square() + 5 * z).sum(-1) / 2 + 39.16616570377142 * x.shape[-1]


FUNCTIONS: list[Callable[[Tensor], Tensor]] = [
    ellipsoid, quartic, dixon_price, rosenbrock, levy, ackley, hills, styblinski_tang,
]  # fmt: skip
ROTATED = (ellipsoid, rosenbrock, levy)


class Problem(NamedTuple):
    """One replication, to be maximized on the unit cube; its maximum is 0."""

    function: Callable[[Tensor], Tensor]
    optimum: Tensor  # d
    rotation: Tensor  # d x d
    unit: float  # a standard deviation

    def value(self, x: Tensor) -> Tensor:
        """At x (m x d), in standard deviations: m."""
        return -self.function(2 * (x - self.optimum) @ self.rotation.mT) / self.unit

    @classmethod
    def of(cls, number: int, d: int, replication: int) -> Problem:
        """A replication of one of the functions."""
        function, rng = FUNCTIONS[number], np.random.default_rng([number, replication, d])
        low, high = (0.15, 0.5) if function is styblinski_tang else (0.2, 0.8)
        optimum = torch.from_numpy(rng.uniform(low, high, d))
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0] if function in ROTATED else np.eye(d)
        plain = cls(function, optimum, torch.from_numpy(turn), 1.0)
        over_cube = torch.rand(2000, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        return plain._replace(unit=float(plain.value(over_cube).std()))


def regrets(method: str, d: int, noise: float, replications: int, budget: int, device: str) -> list[list[float]]:
    """Of the best observed point, after each evaluation from the end of the design on: a row per problem."""
    problems = [Problem.of(i, d, r) for i in range(len(FUNCTIONS)) for r in range(replications)]
    b = len(problems)
    base, changes = parse_method(method)
    config = None if base not in PRESETS else PRESETS[base](d)
    config = None if config is None else type(config)(**{**vars(config), **changes})
    propose = make_side_by_side(base, [Space.box([0] * d, [1] * d)] * b, list(range(b)), config=config, device=device)
    rng = [np.random.default_rng([7, i]) for i in range(b)]

    def observe(x: Tensor) -> tuple[Tensor, Tensor]:
        true = torch.stack([problem.value(row) for problem, row in zip(problems, x, strict=True)])
        return true, true + noise * torch.stack([torch.from_numpy(r.normal(size=x.shape[1])) for r in rng])

    X = torch.stack([sobol(INITIAL, d, generator(i % replications, Stream.DESIGN)) for i in range(b)])
    true, seen = observe(X)
    for n in range(INITIAL, budget):
        histories = [History.of(x.numpy(), y.numpy()) for x, y in zip(X, seen, strict=True)]
        x = torch.from_numpy(propose(histories, budget - n))[:, None]
        more = observe(x)
        X, true, seen = torch.cat([X, x], 1), torch.cat([true, more[0]], 1), torch.cat([seen, more[1]], 1)
    best = [seen[:, :k].argmax(-1, keepdim=True) for k in range(INITIAL, budget + 1)]
    return [(-true.gather(1, at)[:, 0]).tolist() for at in best]


def show(path: Path) -> None:
    """Mean ranks, of rows with one dimension, noise and number of replications."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for setting in sorted({(row["d"], row["noise"], row["reps"], row["budget"]) for row in rows}):
        here = [row for row in rows if (row["d"], row["noise"], row["reps"], row["budget"]) == setting]
        regret = np.maximum([row["regret"] for row in here], 1e-9)  # methods x evaluations x problems
        rank = rankdata(regret, axis=0).mean(-1)
        print("d = {}, noise {}, {} replications of eight functions, {} evaluations".format(*setting))
        for row, ranks in zip(here, rank, strict=True):
            print(f"  {row['method']:60} all along {ranks.mean():.2f}, at the end {ranks[-1]:.2f} of {len(here)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="dms", help="one that runs side by side, as in modeseek bench run")
    parser.add_argument("--d", type=int, default=5)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--reps", type=int, default=6)
    parser.add_argument("--budget", type=int, default=50)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("exploration.jsonl"))
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        return
    settings = {name: getattr(options, name) for name in ("method", "d", "noise", "reps", "budget")}
    found = regrets(options.method, options.d, options.noise, options.reps, options.budget, options.device)
    with options.out.open("a") as file:
        file.write(json.dumps({**settings, "regret": found}) + "\n")


if __name__ == "__main__":
    main()
