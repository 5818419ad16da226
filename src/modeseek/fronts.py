"""The front of several objectives, its hypervolume, and reference points; BoTorch's, imported where they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from modeseek.errors import ConfigError
from modeseek.typing import Array

if TYPE_CHECKING:
    from torch import Tensor

MOST = 5  # objectives: what it takes to cut a front's surroundings into boxes grows with the power of their number


def non_dominated(Y: Tensor) -> Tensor:
    """Which rows of Y (k x M) no other is at least as good as in every objective, the first of equals: k."""
    from botorch.utils.multi_objective.pareto import is_non_dominated

    mask: Tensor = is_non_dominated(Y, deduplicate=True)
    return mask


def front_of(values: ArrayLike, signs: ArrayLike) -> list[int]:
    """The indices of the front of values (k x M), maximized where a sign (M) is 1 and minimized where it is −1."""
    sign = np.asarray(signs, dtype=np.float64)
    Y = np.asarray(values, dtype=np.float64).reshape(-1, len(sign)) * sign
    if not len(Y):
        return []
    import torch

    return np.flatnonzero(non_dominated(torch.from_numpy(Y)).numpy()).tolist()


def hypervolume(values: ArrayLike, signs: ArrayLike, reference: ArrayLike | None = None) -> float:
    """The volume between a reference point (M) and the front of values (k x M), with signs as in `front_of`.

    None infers a reference point from the front, as BoTorch does; such volumes compare only on the same front.
    """
    import torch
    from botorch.utils.multi_objective.hypervolume import Hypervolume, infer_reference_point

    sign = np.asarray(signs, dtype=np.float64)
    Y = torch.from_numpy(np.asarray(values, dtype=np.float64).reshape(-1, len(sign)) * sign)
    if not len(Y):
        return 0.0
    front = Y[non_dominated(Y)]
    low = infer_reference_point(front) if reference is None else torch.from_numpy(np.asarray(reference) * sign)
    return float(Hypervolume(low).compute(front))


def as_reference(reference: object, count: int) -> Array:
    """A reference point as numbers (M); ConfigError where it is none."""
    try:
        point = np.asarray(reference, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"reference must be {count} numbers, not {reference!r:.60}") from error
    if count == 1:
        raise ConfigError("reference is for several objectives; there is one")
    if point.shape != (count,) or not np.isfinite(point).all():
        raise ConfigError(f"reference must be {count} finite numbers, one per objective, not {reference!r:.60}")
    return point
