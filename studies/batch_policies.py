"""Ways to make a batch of q proposals, for problems side by side, and rounds of them; for studies.

A policy gives candidates in their order; the first q that are not close to one another are the batch. All have the same
surrogate, that of the default settings. What `Optimizer.ask(q)` does is the policy "ask".
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import TypeAlias

import numpy as np
import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from modeseek import DMSConfig
from modeseek.bench.methods.acquisitions import ACQUISITIONS, maximize
from modeseek.bench.methods.botorch_methods import botorch_model
from modeseek.bench.methods.information import BatchGIBBON, gibbon
from modeseek.computing import computing
from modeseek.design import sobol
from modeseek.dms import Found, Suggestion, row_of, seek
from modeseek.draws import Draws
from modeseek.history import APART, History, fresh
from modeseek.modes import modes
from modeseek.paths import Paths, draw_paths, maxima
from modeseek.proposer import Proposer, choose, suggest_all
from modeseek.settings import Settings, Stream, generator
from modeseek.space import Space
from modeseek.surrogate import GP
from modeseek.together import FEATURES, propose_together
from modeseek.together import SAMPLES as LEAST
from modeseek.typing import Array

SAMPLES = 256  # of x*, where a policy chooses among them


@dataclass(frozen=True)
class Asked:
    """What a policy makes a batch of q proposals per row from."""

    found: Suggestion  # b rows
    gp: GP
    first: Tensor  # b x 1 x d, the proposals that would be made one at a time
    draws: Draws
    config: DMSConfig
    q: int
    left: int

    def paths(self, gp: GP, count: int, share: Share = 1.0) -> Paths:
        """Draws from the posterior whose differences from its mean are shrunk to a share; None: from 0 to 1."""
        paths = draw_paths(gp, count, self.draws)
        share = torch.linspace(0, 1, count, dtype=gp.X.dtype, device=gp.X.device)[:, None] if share is None else share
        return replace(
            paths,
            cosines=share * paths.cosines,
            sines=share * paths.sines,
            update=share * paths.update + (1 - share) * gp.alpha[..., None, :],
        )

    def samples(self, gp: GP, count: int, share: Share = 1.0) -> Tensor:
        """Maxima of such draws: b x count x d."""
        return maxima(self.paths(gp, count, share), self.draws).x


Share: TypeAlias = "float | Tensor | None"
Policy = Callable[[Asked], Tensor]  # to candidates in their order, b x k x d


def one_by_one(asked: Asked, count: int | None = None) -> Tensor:
    """Each with those before it expected at the surrogate's mean."""
    found: Found = asked.found
    gp, x = asked.gp, asked.first
    for i in range(1, asked.q if count is None else count):
        gp = gp.condition(x[..., -1:, :])
        found = seek(gp, asked.config, asked.draws, found.network, expected=i, left=asked.left - i)
        x = torch.cat([x, _chosen(found, gp, x)], -2)
    return x


def _chosen(found: Found, gp: GP, pending: Tensor) -> Tensor:
    """What `Proposer.choose` would take in a box: b x 1 x d."""

    def of_row(i: int, known: Array) -> Array:
        rng = np.random.default_rng(i)
        return choose(
            row_of(found, i),
            row_of(gp, i),
            known,
            pending=known,
            snap=lambda u: u,
            others=lambda: rng.random((64, known.shape[-1])),
        )

    rows = [of_row(i, known) for i, known in enumerate(pending.cpu().numpy())]
    return torch.from_numpy(np.stack(rows)).to(gp.X)[:, None]


def acquired(name: str, asked: Asked) -> Tensor:
    """One of the campaigns' acquisition functions, one by one, each with those before it expected at the mean."""
    gp, x = asked.gp, asked.first[..., :0, :]
    for _ in range(asked.q):
        _, best = maximize(ACQUISITIONS[name](gp, asked.draws), asked.draws)
        x = torch.cat([x, best[:, None]], -2)
        gp = gp.condition(best[:, None])
    return x


def gibbon_batch(asked: Asked) -> Tensor:
    """GIBBON's batch, one by one."""
    alone, gp, x = gibbon(asked.gp, asked.draws), asked.gp, asked.first[..., :0, :]
    for _ in range(asked.q):
        _, best = maximize(BatchGIBBON(asked.gp, alone, gp), asked.draws)
        x, gp = torch.cat([x, best[:, None]], -2), gp.condition(best[:, None])
    return x


def qlogei(asked: Asked) -> Tensor:
    """BoTorch's qLogEI by its own `optimize_acqf`, sequential greedy, on the same surrogate; a process per row."""
    rows = [row_of(asked.gp, i) for i in range(len(asked.gp.X))]
    with ProcessPoolExecutor(int(os.environ.get("WORKERS", "1")), get_context("spawn")) as pool:
        return torch.stack(list(pool.map(_qlogei, rows, [asked.q] * len(rows))))


def _qlogei(gp: GP, q: int) -> Tensor:
    torch.set_num_threads(1)
    torch.manual_seed(gp.X.shape[-2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, bounds = botorch_model(gp), torch.stack([torch.zeros_like(gp.X[0, 0]), torch.ones_like(gp.X[0, 0])])
        sampler = SobolQMCNormalSampler(torch.Size([128]), seed=0)
        function = qLogExpectedImprovement(model, model.posterior(gp.X[0]).mean.max(), sampler)
        options = {"maxiter": 100}
        x, _ = optimize_acqf(function, bounds, q, num_restarts=5, raw_samples=256, options=options, sequential=True)
    return x


def drawn(asked: Asked, share: Share = 1.0) -> Tensor:
    """Maxima of draws alone."""
    return asked.samples(asked.gp, asked.q, share)


def first_then_drawn(asked: Asked, share: Share = 1.0) -> Tensor:
    """The first proposal, then maxima of draws that expect it."""
    rest = asked.samples(asked.gp.condition(asked.first), asked.q - 1, share)
    return torch.cat([asked.first, rest], -2)


def some_then_drawn(asked: Asked, part: float, share: Share = 1.0) -> Tensor:
    """A part of the batch one by one, then maxima of draws that expect those."""
    some = one_by_one(asked, max(1, round(part * asked.q)))
    left = asked.q - some.shape[-2]
    return torch.cat([some, asked.samples(asked.gp.condition(some), left, share)], -2) if left else some


def modes_of_draws(asked: Asked) -> Tensor:
    """The first proposal, then the modes of samples of x* by falling mass."""
    x = asked.samples(asked.gp.condition(asked.first), SAMPLES)
    found = modes(x, max(1 / asked.q, 2 / SAMPLES))
    return torch.cat([asked.first, found.centre[..., : asked.q, :]], -2)


def middle_of_draws(asked: Asked) -> Tensor:
    """As `modes_of_draws`, of fewer samples, sought for as `Optimizer.ask(q)` does."""
    paths = draw_paths(asked.gp.condition(asked.first), max(2 * asked.q, LEAST), asked.draws, FEATURES)
    found = modes(maxima(paths, asked.draws, quick=True).x, max(1 / asked.q, 2 / SAMPLES))
    return torch.cat([asked.first, found.centre[..., : asked.q, :]], -2)


def least_regret(asked: Asked, share: Share = 1.0, least: int = SAMPLES, with_modes: bool = False) -> Tensor:
    """The samples of x* that leave the least regret: each next one raises the mean over draws of the batch's best most.

    That is greedy expected improvement of a batch, with candidates and draws that belong together.
    """
    paths = asked.paths(asked.gp, max(2 * asked.q, least), share)
    x = maxima(paths, asked.draws).x
    candidates = torch.cat([asked.first, x], -2)
    if with_modes:
        candidates = torch.cat([candidates, modes(x, 0.1).centre[..., :32, :]], -2)
    value = paths.everywhere(candidates)  # b x P x N
    best = paths.everywhere(asked.gp.X).amax(-1, keepdim=True)  # b x P x 1
    return _greedy(candidates, value, best, asked.q)


def _greedy(candidates: Tensor, value: Tensor, best: Tensor, q: int) -> Tensor:
    taken = []
    for i in range(q):
        gain = torch.maximum(value, best).mean(-2)  # b x N
        for before in taken:
            gain = gain.scatter(-1, before, -torch.inf)
        index = torch.zeros_like(gain[..., :1], dtype=torch.int64) if i == 0 else gain.argmax(-1, keepdim=True)
        taken.append(index)
        best = torch.maximum(best, value.gather(-1, index[..., None, :].expand(*value.shape[:-1], 1)))
    order = torch.cat(taken, -1)
    return candidates.gather(-2, order[..., None].expand(*order.shape, candidates.shape[-1]))


def highest_labels(asked: Asked, rho: float = 1.0) -> Tensor:
    """Of samples of x*, one by one that with the highest μ + ρσ, where σ shrinks by those taken before."""
    x = torch.cat([asked.first, asked.samples(asked.gp, SAMPLES)], -2)
    at = asked.gp.moments(x)
    covariance = asked.gp.kernel(x, x) - at.k @ at.v.mT
    noise = asked.gp.hyperparameters.noise[..., None]
    taken: list[Tensor] = []
    for i in range(asked.q):
        variance = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12)
        label = at.mu + rho * variance.sqrt()
        for before in taken:
            label = label.scatter(-1, before, -torch.inf)
        index = label.argmax(-1, keepdim=True) if i else torch.zeros_like(label[..., :1], dtype=torch.int64)
        taken.append(index)
        column = covariance.gather(-1, index[..., None, :].expand(*covariance.shape[:-1], 1))
        covariance = covariance - column @ column.mT / (variance.gather(-1, index) + noise)[..., None]
    order = torch.cat(taken, -1)
    return x.gather(-2, order[..., None].expand(*order.shape, x.shape[-1]))


POLICIES: dict[str, Policy] = {
    "one": one_by_one,
    "ucb": partial(acquired, "ucb"),
    "gibbon": gibbon_batch,
    "qlogei": qlogei,
    "draws": drawn,
    "first+draws": first_then_drawn,
    "first+draws/2": partial(first_then_drawn, share=0.5),
    "first+draws/4": partial(first_then_drawn, share=0.25),
    "quarter+draws": partial(some_then_drawn, part=0.25),
    "quarter+draws/2": partial(some_then_drawn, part=0.25, share=0.5),
    "modes": modes_of_draws,
    "middle": middle_of_draws,
    "first+ladder": partial(first_then_drawn, share=None),
    "regret": least_regret,
    "regret/2": partial(least_regret, share=0.5),
    "regret2q": partial(least_regret, least=1),
    "regret2q/2": partial(least_regret, share=0.5, least=1),
    "regret64": partial(least_regret, least=64),
    "regret64/2": partial(least_regret, share=0.5, least=64),
    "regret64/4": partial(least_regret, share=0.25, least=64),
    "regret64~": partial(least_regret, share=None, least=64),
    "regret64/2+modes": partial(least_regret, share=0.5, least=64, with_modes=True),
    "labels": highest_labels,
}


def apart(candidates: Array, more: Array, known: Array, q: int, rng: np.random.Generator) -> Array:
    """The first q of the candidates (k x d) that are not close to one another, then of others: q x d."""
    chosen = np.zeros((0, candidates.shape[1]))
    for some in (candidates, more, rng.random((4096, candidates.shape[1]))):
        for point in fresh(some, known):
            if len(chosen) < q and len(fresh(point[None], chosen, APART)):
                chosen = np.concatenate([chosen, point[None]])
    return chosen


def next_round(policy: str, proposers: list[Proposer], histories: list[History], q: int, left: int) -> Array:
    """The next batch of every row: b x q x d."""
    number, device = len(histories[0].Y), proposers[0].settings.device
    draws = Draws([generator(proposer.settings.seed, Stream.MODEL, number + 1) for proposer in proposers])
    if policy == "sobol":
        return sobol(q, histories[0].d, draws, (len(histories),)).numpy()
    if policy == "ask":
        batches = propose_together(proposers, histories, number, q, left)
        for proposer in proposers:
            proposer.suggestion = None
        return np.array([[proposal.point for proposal in batch] for batch in batches])
    suggestion = suggest_all(proposers, histories, number, left)
    assert isinstance(suggestion.gp, GP)
    first = []
    for i, (proposer, history) in enumerate(zip(proposers, histories, strict=True)):
        first.append(proposer.choose(suggestion.row(i), history, number))
        proposer.learn(suggestion.row(i))
        proposer.suggestion = None
    with computing(device):
        at = torch.from_numpy(np.stack(first)).to(suggestion.gp.X)[:, None]
        config = proposers[0].settings.config
        found = POLICIES[policy](Asked(suggestion, suggestion.gp, at, draws, config, q, left)).clamp(0, 1).cpu().numpy()
    top = suggestion.pseudo_y.topk(min(10 * q, suggestion.pseudo_y.shape[-1]), -1).indices
    more = suggestion.pseudo_x.gather(-2, top[..., None].expand(*top.shape, found.shape[-1])).cpu().numpy()
    rng = np.random.default_rng(number)
    rows = zip(found, more, histories, strict=True)
    return np.stack([apart(points, others, history.proposed, q, rng) for points, others, history in rows])


@dataclass(frozen=True)
class Course:
    """What happened in rounds of proposals, of b problems."""

    true: Tensor  # b x n, values without noise, larger is better
    seen: Tensor  # b x n, as observed
    seconds: float

    def best(self, initial: int, q: int) -> list[list[float]]:
        """The true value of the best observed point after the design and after each round: rounds + 1 x b."""
        ends = range(initial, self.seen.shape[-1] + 1, q)
        at = [self.seen[:, :end].argmax(-1, keepdim=True) for end in ends]
        return [[float(f"{value:.5g}") for value in self.true.gather(1, index)[:, 0]] for index in at]


def rounds_of(
    policy: str,
    values: Callable[[Tensor], Tensor],
    X: Tensor,
    q: int,
    rounds: int,
    *,
    noise: Tensor | None = None,
    device: str = "cpu",
    seconds: float = math.inf,
    config: DMSConfig | None = None,
) -> Course:
    """Rounds of q proposals from a design.

    Args:
        values: b x m x d points of the cube to b x m values, larger is better.
        X: b x n x d, the design.
        noise: b, standard deviations; None: none.
        seconds: no round begins after so many.
        config: other settings than the default's.
    """
    b, _, d = X.shape
    space = Space.box([0] * d, [1] * d)
    proposers = [
        Proposer(space, Settings.of(seed=i, n_initial=X.shape[1], device=device, config=config)) for i in range(b)
    ]
    rng = [np.random.default_rng([7, i]) for i in range(b)]

    def observe(x: Tensor) -> tuple[Tensor, Tensor]:
        true = values(x)
        drawn = torch.stack([torch.from_numpy(r.normal(size=x.shape[1])) for r in rng])
        return true, true if noise is None else true + noise[:, None] * drawn

    true, seen = observe(X)
    began = time.perf_counter()
    for i in range(rounds):
        if time.perf_counter() - began > seconds:
            break
        histories = [History.of(x.numpy(), y.numpy()) for x, y in zip(X, seen, strict=True)]
        x = torch.from_numpy(next_round(policy, proposers, histories, q, (rounds - i) * q))
        more = observe(x)
        X, true, seen = torch.cat([X, x], 1), torch.cat([true, more[0]], 1), torch.cat([seen, more[1]], 1)
    return Course(true, seen, round(time.perf_counter() - began, 2))
