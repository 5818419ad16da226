"""Many proposals at once: the best one first, then where functions drawn from the posterior have their maxima.

One by one, each with those before it expected at the surrogate's mean, proposals of a large batch cost a suggestion
each and crowd around one hill. Samples of x* (paths.py) spread by as much as is not known, and come all at once; from
TOGETHER proposals on they are the better batch as well (docs/decisions.md). Of both kinds, no two proposals that are
evaluated side by side are closer than APART, as long as there are others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from modeseek.computing import computing
from modeseek.dms import Suggestion
from modeseek.draws import Draws
from modeseek.errors import SpaceExhausted
from modeseek.history import APART, History, fresh
from modeseek.paths import optima
from modeseek.proposer import Proposal, Proposer, Stream, common_rounding, generator, propose_with, remaining
from modeseek.surrogate import GP
from modeseek.typing import Array

TOGETHER = 20


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


def _next(
    proposers: Sequence[Proposer], histories: Sequence[History], number: int, count: int, left: int | None
) -> list[list[Proposal]]:
    """At most `count` proposals for each problem, at least one; the rest is to be asked for again.

    One alone while the initial design goes on, for a small batch, where there are black-box constraints or several
    objectives, and where something is known that the posterior does not know of (knowledge.py).
    """
    first, found = propose_with(proposers, histories, number, left)
    batches = [[proposal] for proposal in first]
    if found is None or count < TOGETHER or type(found.gp) is not GP:
        return batches
    x = np.stack([proposal.point for proposal in first])
    settings = proposers[0].settings
    with computing(settings.device, settings.threads):
        candidates = _candidates(proposers, found, found.gp, torch.from_numpy(x).to(found.gp.X), number + 1, count - 1)
    for batch, proposer, history, points in zip(batches, proposers, histories, candidates, strict=True):
        chosen = _chosen(proposer, history.with_pending(batch[0].point[None]), points, number + 1, count - 1)
        batch += [Proposal(point, "model") for point in chosen]
    return batches


def _candidates(
    proposers: Sequence[Proposer], found: Suggestion, gp: GP, first: Tensor, number: int, count: int
) -> Array:
    """Maxima of draws that expect the first proposals (b x d), then the best-labelled pseudo-inputs: b x k x d."""
    source = Draws([generator(proposer.settings.seed, Stream.MODEL, number) for proposer in proposers])
    rounding, region = common_rounding(proposers), proposers[0].region
    draws = optima(gp.condition(first.unsqueeze(-2)), count, source, rounding, region=region).x
    top = found.pseudo_y.topk(min(10 * count, found.pseudo_y.shape[-1]), -1).indices
    by_label = found.pseudo_x.gather(-2, top[..., None].expand(*top.shape, draws.shape[-1]))
    return torch.cat([draws, by_label], -2).cpu().numpy()


def _chosen(proposer: Proposer, history: History, candidates: Array, number: int, count: int) -> Array:
    """The first `count` candidates (k x d) that are new and apart, then random points: at most count x d."""
    space, region = proposer.space, proposer.region
    settle = space.snap if region is None else region.settle
    most = len(history.pending) + count
    chosen = _add_apart(history.pending, fresh(settle(candidates), history.proposed), most)
    if len(chosen) < most and len(np.unique(np.concatenate([history.proposed, chosen]), axis=0)) < space.size:
        others = remaining(space, np.concatenate([history.proposed, chosen]), proposer.rng(number), region)
        chosen = _add_apart(chosen, others, most)
        more = distinct(fresh(others, chosen))  # where there are no others that far apart
        chosen = np.concatenate([chosen, more[: most - len(chosen)]])
    return chosen[len(history.pending) :]


def _add_apart(chosen: Array, points: Array, most: int) -> Array:
    """The chosen points and, one after the other, those that are not close to any before, at most so many: k x d."""
    for point in points:
        if len(chosen) >= most:
            break
        if len(fresh(point[None], chosen, APART)):
            chosen = np.concatenate([chosen, point[None]])
    return chosen


def distinct(points: Array) -> Array:
    """Each point once, in the order of their first."""
    _, index = np.unique(points, axis=0, return_index=True)
    return np.asarray(points[np.sort(index)])
