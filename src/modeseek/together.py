"""Many proposals at once: the best one first, then where functions drawn from the posterior have their maxima.

One by one, each with those before it expected at the surrogate's mean, proposals of a large batch cost a suggestion
each and crowd around one hill. Samples of x* (paths.py) spread by as much as is not known, and come all at once; from
TOGETHER proposals on they are the better batch as well (docs/decisions.md). Of both kinds, no two proposals that are
evaluated side by side are closer than APART, as long as there are others.
"""

from __future__ import annotations

import numpy as np
import torch

from modeseek.computing import computing
from modeseek.dms import Suggestion
from modeseek.draws import Draws
from modeseek.history import APART, History, fresh
from modeseek.paths import optima
from modeseek.proposer import Proposal, Proposer, Stream, generator, remaining, rounding
from modeseek.surrogate import GP
from modeseek.typing import Array

TOGETHER = 20


def propose_together(
    proposer: Proposer, history: History, number: int, count: int, left: int | None = None
) -> list[Proposal]:
    """At most `count` proposals for trials from `number` on, at least one; the rest is to be asked for again.

    One alone while the initial design goes on, for a small batch, where there are black-box constraints, and where
    something is known that the posterior does not know of (knowledge.py).
    """
    first = proposer.propose(history, number, left)
    found = proposer.suggestion
    if first.origin == "initial" or count < TOGETHER or found is None or type(found.gp) is not GP:
        return [first]
    history = history.with_pending(first.point[None])
    with computing(proposer.settings.device, proposer.settings.threads):
        points = _points(proposer, found, found.gp, history, number + 1, count - 1)
    return [first, *(Proposal(point, "model") for point in points)]


def _points(proposer: Proposer, suggestion: Suggestion, gp: GP, history: History, number: int, count: int) -> Array:
    """At most so many points, k x d: maxima of draws, then the best-labelled pseudo-inputs, then random ones."""
    space, region = proposer.space, proposer.region
    settle = space.snap if region is None else region.settle
    expected = torch.from_numpy(history.pending[-1:]).to(gp.X)[None]
    source = Draws([generator(proposer.settings.seed, Stream.MODEL, number)])
    draws = optima(gp.condition(expected), count, source, rounding(space, gp.X.device, region), region=region).x[0]
    by_label = suggestion.pseudo_x[0][suggestion.pseudo_y[0].argsort(descending=True)]
    chosen, most = history.pending, len(history.pending) + count
    for some in (draws, by_label[: 10 * count]):
        chosen = _add_apart(chosen, fresh(settle(some.cpu().numpy()), history.proposed), most)
    if len(chosen) < most and len(np.unique(np.concatenate([history.proposed, chosen]), axis=0)) < space.size:
        others = remaining(space, np.concatenate([history.proposed, chosen]), proposer.rng(number), region)
        chosen = _add_apart(chosen, others, most)
        more = _distinct(fresh(others, chosen))  # where there are no others that far apart
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


def _distinct(points: Array) -> Array:
    """Each point once, in the order of their first."""
    _, index = np.unique(points, axis=0, return_index=True)
    return np.asarray(points[np.sort(index)])
