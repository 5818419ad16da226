"""Many proposals at once: the best one first, then those that together leave the least regret.

One by one, each with those before it expected at the surrogate's mean, proposals of a large batch cost a suggestion
each and crowd around one hill. Samples of x*, the maxima of functions drawn from the posterior (paths.py), come all at
once, but most of them are where little is known. So functions are drawn nearer to the posterior's mean, and of their
maxima and the modes of these those are taken, one after the other, that raise the batch's best value most, on average
over the functions:

    x_i = argmax_x Σ_p max(b_p, f_p(x)),    b_p = max f_p(x') over x' observed, pending, or taken before

which is the expected improvement of a batch, greedily (docs/decisions.md has what it was compared with). No two
proposals that are evaluated side by side are closer than APART (history.py), as long as there are others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from modeseek.computing import computing
from modeseek.constraints import ConstrainedGP
from modeseek.dms import Fitted
from modeseek.draws import Draws
from modeseek.errors import SpaceExhausted
from modeseek.history import History, fresh
from modeseek.modes import modes
from modeseek.paths import NEAR, QUICK, SPREAD, ConstrainedPaths, Drawn, draw_paths, maxima
from modeseek.proposer import Proposal, Proposer, apart_in, boxes_of, common_domain, propose_with, remaining
from modeseek.settings import Stream, generator
from modeseek.surrogate import GP
from modeseek.typing import Array

SAMPLES = 64  # functions drawn, at least; and twice as many as proposals
FEATURES = 256  # of each function: fewer than `optimum()` has, since these are only compared with each other
SHARE = 0.5  # of what they differ from the mean by
MODES, QUANTILE = 32, 0.1  # modes of the samples, and the neighbours of each, as a share of the samples


def propose_together(
    proposers: Sequence[Proposer], histories: Sequence[History], number: int, count: int, left: int | None = None
) -> list[list[Proposal]]:
    """So many proposals for each of several problems, side by side in the same tensors; one problem is a batch of one.

    In finite spaces fewer where no more remain, and SpaceExhausted where none does.

    Args:
        proposers, histories: as in `propose_all`.
        number: of the first trial that is to be proposed.
        left: evaluations until the end of the run, the first of these included; None: not known.
    """
    batches: list[list[Proposal]] = [[] for _ in proposers]
    while (done := len(batches[0])) < count:
        rest = None if left is None else max(left - done, 1)
        try:
            more = _next(proposers, histories, number + done, count - done, rest)
        except SpaceExhausted:
            if not done:
                raise
            break
        fewest = min(map(len, more))  # rows stay as long as each other
        batches = [[*batch, *some[:fewest]] for batch, some in zip(batches, more, strict=True)]
        points = [np.stack([proposal.point for proposal in some[:fewest]]) for some in more]
        histories = [history.with_pending(some) for history, some in zip(histories, points, strict=True)]
    return batches


def largest_tensors(count: int, n: int, d: int) -> int:
    """How many numbers the largest tensors of one problem with n observations in d dimensions have."""
    draws = _draws(count)
    climb = sum(QUICK.starts) * (3 * n + 4 * FEATURES + 40 * d)  # kernel rows, features, pairs of L-BFGS
    return draws * (climb + 2 * (SPREAD + NEAR + n + draws))


def _draws(count: int) -> int:
    """How many functions are drawn for so many proposals."""
    return max(2 * count, SAMPLES)


def _next(
    proposers: Sequence[Proposer], histories: Sequence[History], number: int, count: int, left: int | None
) -> list[list[Proposal]]:
    """At most `count` proposals for each problem, at least one; the rest is to be asked for again.

    One alone while the initial design goes on, where there are black-box constraints or several objectives, and where
    something is known that the posterior does not know of (knowledge.py).
    """
    first, found = propose_with(proposers, histories, number, left)
    batches = [[proposal] for proposal in first]
    if found is None or count == 1 or type(_objective(found.gp)) is not GP:
        return batches
    at = np.stack([proposal.point for proposal in first])[:, None]
    source = Draws([generator(proposer.settings.seed, Stream.MODEL, number + 1) for proposer in proposers])
    settings = proposers[0].settings
    boxes, _ = boxes_of(proposers, histories)
    with computing(settings.device, settings.threads):
        one = torch.from_numpy(at).to(found.gp.X)
        if boxes is None:
            x = _candidates(found.gp, one, count, source, proposers)
        else:
            x = _candidates(boxes.gp_inward(found.gp), boxes.inward(one), count, source, proposers)
            x = boxes.outward(x)
        top = found.pseudo_y.topk(min(10 * count, found.pseudo_y.shape[-1]), -1).indices
        candidates = torch.cat([x, _rows(found.pseudo_x, top)], -2).cpu().numpy()
    for batch, proposer, history, points in zip(batches, proposers, histories, candidates, strict=True):
        chosen = _chosen(proposer, history.with_pending(batch[0].point[None]), points, number + 1, count - 1)
        batch += [Proposal(point, "model") for point in chosen]
    return batches


def _objective(gp: Fitted) -> Fitted:
    """What is known of the objective, where that and failures are all that is."""
    return gp.objective if isinstance(gp, ConstrainedGP) else gp


def _drawn(gp: Fitted, count: int, source: Draws) -> Drawn:
    """Functions nearer to the posterior's mean, and of where an evaluation has an outcome."""
    objective = _objective(gp)
    assert isinstance(objective, GP)
    paths = draw_paths(objective, count, source, FEATURES).shrunk(SHARE)
    if not isinstance(gp, ConstrainedGP):
        return paths
    margins = draw_paths(gp.margins, count, source.split(1), FEATURES).shrunk(SHARE)
    met = gp.margins.posterior(gp.X[None])[0] >= gp.thresholds[..., None]
    return ConstrainedPaths(paths, margins, gp.thresholds, met.all(0))


def _candidates(gp: Fitted, first: Tensor, count: int, source: Draws, proposers: Sequence[Proposer]) -> Tensor:
    """Samples of x* and their modes beside the first proposals (b x 1 x d), in the order to take them: b x N x d."""
    domain = common_domain(proposers)
    paths = _drawn(gp, _draws(count), source)
    x = maxima(paths, source, domain, quick=True).x
    centres = domain.repair(modes(x, QUANTILE).centre[..., :MODES, :], x)
    x = torch.cat([x, domain.snap(centres)], -2)
    value = paths.everywhere(torch.cat([first, x], -2))
    best = torch.maximum(paths.everywhere(gp.X).amax(-1), value[..., 0])
    return _rows(x, by_gain(value[..., 1:], best))


def by_gain(value: Tensor, best: Tensor) -> Tensor:
    """The order in which candidates, each the next, raise the mean over draws of the best value most: b x N.

    Args:
        value: b x P x N, of P draws at N candidates.
        best: b x P, of what is there already.
    """
    order: list[Tensor] = []
    taken = torch.zeros_like(value[..., 0, :], dtype=torch.bool)
    for _ in range(value.shape[-1]):
        gain = torch.maximum(value, best[..., None]).mean(-2).masked_fill(taken, -torch.inf)
        order.append(gain.argmax(-1, keepdim=True))
        taken = taken.scatter(-1, order[-1], True)
        newest = value.gather(-1, order[-1].unsqueeze(-2).expand(*best.shape, 1)).squeeze(-1)
        best = torch.maximum(best, newest)
    return torch.cat(order, -1)


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """x is b x m x d, index b x k: b x k x d."""
    return x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))


def _chosen(proposer: Proposer, history: History, candidates: Array, number: int, count: int) -> Array:
    """The first `count` candidates (k x d) that are new and apart, then random points: at most count x d."""
    space, region, near = proposer.space, proposer.region, proposer.near(history)
    settle = space.snap if region is None else region.settle
    most = len(history.pending) + count
    apart = apart_in(near)
    chosen = _add_apart(history.pending, fresh(settle(candidates), history.proposed), most, apart)
    if len(chosen) < most and len(np.unique(np.concatenate([history.proposed, chosen]), axis=0)) < space.size:
        others = remaining(space, np.concatenate([history.proposed, chosen]), proposer.rng(number), region, near)
        chosen = _add_apart(chosen, others, most, apart)
        more = distinct(fresh(others, chosen))  # where there are no others that far apart
        chosen = np.concatenate([chosen, more[: most - len(chosen)]])
    return chosen[len(history.pending) :]


def _add_apart(chosen: Array, points: Array, most: int, apart: float | Array) -> Array:
    """The chosen points and, one after the other, those that are not close to any before, at most so many: k x d."""
    for point in points:
        if len(chosen) >= most:
            break
        if len(fresh(point[None], chosen, apart)):
            chosen = np.concatenate([chosen, point[None]])
    return chosen


def distinct(points: Array) -> Array:
    """Each point once, in the order of their first."""
    _, index = np.unique(points, axis=0, return_index=True)
    return np.asarray(points[np.sort(index)])
