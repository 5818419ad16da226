"""Several objectives: their Gaussian processes, the front of their means, and what lies above it.

Everything is maximized here. Pareto sets and the boxes above a front are BoTorch's.

Notation: M objectives; C boxes; b, n, d as in surrogate.py; r, the reference point, below which nothing counts.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from modeseek.constraints import margins_of
from modeseek.fronts import non_dominated
from modeseek.improvement import UNBOUNDED, Boxes, ImprovementGP
from modeseek.informed import InformedGP
from modeseek.map_fit import fit
from modeseek.outcome_transforms import BAD_OUTLIER, OutcomeMap, Scaling, mapped_by_standardize
from modeseek.priors import Hyperparameters
from modeseek.surrogate import GP, USUAL, Given

MARGIN = 0.1  # from the worst of the front to an inferred reference point, as a share of the front's range
LEAST_RANGE = 1.0  # of a front in standard deviations, for that matter


def fit_objectives(
    X: Tensor,
    Y: Tensor,
    warm: Hyperparameters | None = None,
    given: Given = USUAL,
    sem: Tensor | None = None,
) -> tuple[GP, OutcomeMap]:
    """A GP per objective (M x b) on the outcomes Y (b x n x M) at X (b x n x d), and the map to its units.

    `sem` has the standard errors of Y, NaN where the noise is to be fitted.

    Outcomes keep their shape: a front holds points that are among the worst in some objective, and the volume that it
    dominates is one of plain outcomes.
    """
    y, outcomes = mapped_by_standardize(Y.movedim(-1, 0), BAD_OUTLIER)
    if warm is not None:
        warm = Hyperparameters(warm.lengthscale.movedim(-2, 0), warm.noise.movedim(-1, 0))
    known = None if sem is None else outcomes.variance(Y.movedim(-1, 0), sem.movedim(-1, 0))
    X = X.expand(*y.shape, X.shape[-1])
    return fit(X, y, warm, given=given._replace(known_noise=known)), outcomes


def improve(
    X: Tensor,
    Y: Tensor,
    *,
    constraints: Tensor | None = None,
    reference: Tensor | None = None,
    warm: Hyperparameters | None = None,
    pending: Tensor | None = None,
    lost: Tensor | None = None,
    given: Given = USUAL,
    sem: Tensor | None = None,
) -> ImprovementGP:
    """What improves on the front of the posterior means at X (b x n x d).

    Args:
        Y: b x n x M, outcomes to be maximized.
        constraints: b x n x q, feasible where all are at most 0.
        reference: b x M, in the outcomes' units; inferred where it is NaN, or None.
        warm: where the fit starts, b x M x d and b x M.
        pending: b x p x d, taken to be observed at their posterior mean.
        lost: b x l x d, those of them that gave no outcome.
        given: to the GPs.
        sem: b x n x M, standard errors of Y; NaN where the noise is to be fitted.
    """
    gp, outcomes = fit_objectives(X, Y, warm, given, sem)
    if pending is not None and pending.shape[-2]:
        gp = gp.condition(pending.expand(len(gp.X), *pending.shape))
    if reference is not None:
        reference = _unclamped(outcomes.first, reference.movedim(-1, 0)).movedim(0, -1)
    return _improving(gp, X, constraints, lost, reference)


def _unclamped(scaling: Scaling, Y: Tensor) -> Tensor:
    """Outcomes (M x b) in the surrogate's units, however far they are from all that was observed."""
    unit, _, _, size, mean, std = (part[..., 0] for part in scaling)
    return (Y / unit / size - mean) / torch.where(std > 0, std, 1.0)


def improve_one(objective: GP, X: Tensor, constraints: Tensor, lost: Tensor | None = None) -> ImprovementGP:
    """What improves on the best feasible posterior mean of one objective.

    Args:
        objective: its GP; pending inputs are its last.
        X: b x n x d, those with an outcome.
        constraints: b x n x q.
        lost: b x l x d, evaluated without an outcome.
    """
    names = ["X", "y", "mean", "alpha", "inverse", "fit_failed"]
    names += ["shares", "scale"] if isinstance(objective, InformedGP) and objective.stack is not None else []
    parts = {name: getattr(objective, name)[None] for name in names}
    hyperparameters = Hyperparameters(*(part[None] for part in objective.hyperparameters))
    known = objective.given.known_noise
    given = objective.given if known is None else objective.given._replace(known_noise=known[None])
    gp = replace(objective, hyperparameters=hyperparameters, given=given, **parts)
    return _improving(gp, X, constraints, lost)


def _improving(
    gp: GP, X: Tensor, constraints: Tensor | None, lost: Tensor | None, reference: Tensor | None = None
) -> ImprovementGP:
    """On the front of the means at all inputs of the GPs (M x b), of which those after X are pending."""
    inputs, n = gp.X[0], X.shape[-2]
    counted = torch.ones(inputs.shape[:-1], dtype=torch.bool, device=X.device)
    margins = thresholds = None
    if constraints is not None or lost is not None:
        margins, thresholds = margins_of(X, constraints, gp.given, lost)
        pending = inputs[..., n:, :]
        mu, _ = margins.posterior(pending.expand(len(thresholds), *pending.shape))
        met = counted[..., :n] if constraints is None else (constraints <= 0).all(-1)
        counted = torch.cat([met, (mu >= thresholds[..., None]).all(0)], -1)
    means = gp.posterior(gp.X)[0].movedim(0, -1)  # b x n x M
    leaders = leaders_of(means, counted)
    boxes = boxes_above(means, counted & leaders, reference)
    return ImprovementGP(gp, boxes, leaders, margins, thresholds).with_top()


def leaders_of(means: Tensor, counted: Tensor) -> Tensor:
    """Which of the means (b x n x M) that count (b x n) make the front, or of one objective are the best: b x n.

    All of them where none counts.
    """
    rows, count = means.reshape(-1, *means.shape[-2:]), counted.reshape(-1, counted.shape[-1])
    leads = torch.ones_like(count)
    for i, row in enumerate(rows):
        if bool(count[i].any()):
            front = row[count[i]]
            leads[i] = False
            leads[i, count[i]] = non_dominated(front) if row.shape[-1] > 1 else (front == front.amax(0)).squeeze(-1)
    return leads.view(counted.shape)


def boxes_above(means: Tensor, counted: Tensor, reference: Tensor | None = None) -> Boxes:
    """The boxes above the front of those of the means (b x n x M) that count (b x n), and above r (b x M).

    Where r is NaN it is inferred from the front. Where none counts, one box without end that holds everything: all
    improve alike.
    """
    batch, M = means.shape[:-2], means.shape[-1]
    rows, count = means.reshape(-1, *means.shape[-2:]), counted.reshape(-1, counted.shape[-1])
    given = None if reference is None else reference.reshape(-1, M)
    cells = []
    for i, row in enumerate(rows):
        front = row[count[i]]
        if not len(front):
            cells.append(torch.stack([row.new_full((1, M), -UNBOUNDED), row.new_full((1, M), UNBOUNDED)]))
            continue
        front = front[non_dominated(front)] if M > 1 else front.amax(0, keepdim=True)
        low = _inferred(front)
        low = low if given is None else torch.where(given[i].isnan(), low, given[i])
        cells.append(_above(front, low))
    return _stacked(cells, count.any(-1), tuple(batch))


def _above(front: Tensor, reference: Tensor) -> Tensor:
    """The boxes (2 x C x M) above a front (k x M) and a reference point (M)."""
    from botorch.utils.multi_objective.box_decompositions.non_dominated import FastNondominatedPartitioning

    if len(reference) == 1:
        return torch.stack([front, front + UNBOUNDED])
    cells = FastNondominatedPartitioning(reference.cpu(), Y=front.cpu()).get_hypercell_bounds().to(front)
    return torch.stack([cells[0], torch.minimum(cells[1], cells[0] + UNBOUNDED)])


def _stacked(cells: list[Tensor], known: Tensor, batch: tuple[int, ...]) -> Boxes:
    """The boxes of all rows, those of shorter ones filled up with their first, which then does not count."""
    most, M = max(cell.shape[-2] for cell in cells), cells[0].shape[-1]
    filled = torch.stack([torch.cat([c, c[:, :1].expand(2, most - c.shape[1], M)], 1) for c in cells], 1)
    number = torch.arange(most, dtype=torch.int64, device=known.device)
    counts = number < torch.tensor([[cell.shape[-2]] for cell in cells], dtype=torch.int64, device=known.device)
    weight = torch.where(counts, 0.0, -torch.inf).to(filled.dtype)
    weight = weight - torch.where(known, 0.0, M * math.log(UNBOUNDED)).to(filled.dtype)[:, None]
    return Boxes(filled[0].view(*batch, most, M), filled[1].view(*batch, most, M), weight.view(*batch, most))


def _inferred(front: Tensor) -> Tensor:
    """A reference point (M) for a front (k x M) in standard deviations, as BoTorch's `infer_reference_point`.

    A front of few points is taken to be wider than it is: other points of the true front may be worse in an objective.
    """
    worst = front.amin(0)
    return worst - MARGIN * (front.amax(0) - worst).clamp_min(LEAST_RANGE)
