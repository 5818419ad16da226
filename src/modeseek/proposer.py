"""What `Optimizer` and the samplers for other tools do alike around a suggestion.

Points are rows of the unit cube, k x d; "proposed" are those that were asked or told before, in any state.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from scipy.spatial import cKDTree

from modeseek.dms import Suggestion
from modeseek.errors import CollapseWarning, DeviceError, FitWarning, ModeseekWarning, SpaceExhausted
from modeseek.pseudo import Rounding
from modeseek.space import Space
from modeseek.typing import Array

SAME_POINT = 1e-9  # points closer than this in every coordinate of the cube are one point
LISTABLE = 100_000  # finite spaces up to this size are searched whole for what is left
DRAWS = 4096  # random points tried where a space is too large to list


def seeds(seed: int, *key: int) -> np.random.SeedSequence:
    """The stream of randomness that a seed has for a purpose, and for a trial's number."""
    return np.random.SeedSequence(seed, spawn_key=key)


def generator(seed: int, *key: int) -> torch.Generator:
    """The same stream as a generator of torch's, on the CPU."""
    state = int(seeds(seed, *key).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(state >> 1)  # torch takes seeds below 2^63


def rounding(space: Space, device: torch.device) -> Rounding | None:
    """What an evaluation in this space makes of a point; None where all parameters are continuous."""
    continuous = [math.isinf(space[name].size) for name in space.coordinates]
    if all(continuous):
        return None

    def snap(x: torch.Tensor) -> torch.Tensor:
        points = space.snap(x.reshape(-1, space.d).cpu().numpy())
        return torch.from_numpy(points).to(device).view(x.shape)

    return Rounding(snap, torch.tensor(continuous, device=device))


def fresh(points: Array, proposed: Array) -> Array:
    """Those of the points that have not been proposed."""
    if not len(proposed):
        return points
    distance, _ = cKDTree(proposed).query(points, p=np.inf, distance_upper_bound=SAME_POINT)
    return np.asarray(points[np.isinf(distance)])


def remaining(space: Space, proposed: Array, rng: np.random.Generator) -> Array:
    """Points not yet proposed, at least one, in random order: all of a listable space, else random ones."""
    if space.size <= LISTABLE:
        points = rng.permutation(space.grid())
    else:
        points = space.snap(rng.random((DRAWS, space.d)))
    points = fresh(points, proposed)
    if not len(points):
        raise SpaceExhausted("no configuration was found that has not been proposed")
    return points


def choose(space: Space, suggestion: Suggestion, proposed: Array, rng: np.random.Generator) -> Array:
    """x_next, or where that was proposed before, the best-labelled point that was not (d)."""
    x_next = space.snap(suggestion.x_next.cpu().numpy())
    if len(fresh(x_next, proposed)):
        return np.asarray(x_next[0])
    pool = torch.cat([suggestion.candidates, suggestion.pseudo_x], dim=-2)[0]
    points = fresh(space.snap(pool.cpu().numpy()), proposed)
    if not len(points):
        points = remaining(space, proposed, rng)
    return best_labelled(points, suggestion)


def best_labelled(points: Array, suggestion: Suggestion) -> Array:
    """The point (d) that the suggestion's surrogate labels highest."""
    labels = suggestion.gp.label(torch.from_numpy(points).to(suggestion.gp.X.device)[None], suggestion.rho)[0]
    return np.asarray(points[int(torch.nan_to_num(labels, nan=-torch.inf).argmax())])


@contextmanager
def computing(device: torch.device, busy: bool) -> Iterator[None]:
    """Around the numerics: one thread while trials are evaluated (`busy`), and errors that name the setting.

    On cores that an objective keeps busy, threads that wait for each other are slower than one (docs/decisions.md).
    """
    threads = torch.get_num_threads()
    try:
        if busy:
            torch.set_num_threads(1)
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise DeviceError(
            f"out of memory with device={str(device)!r}; use device='cpu', or a DMSConfig with smaller m and S"
        ) from error
    finally:
        torch.set_num_threads(threads)


def warn_once(suggestion: Suggestion, warned: set[type[ModeseekWarning]], stacklevel: int) -> None:
    """Say what went wrong in a suggestion, unless its kind of warning is among those `warned` of."""
    for category, flags, message in (
        (CollapseWarning, suggestion.fell_back, "an iteration did without its diffusion model"),
        (FitWarning, suggestion.gp.fit_failed, "an iteration had no fitted surrogate"),
    ):
        if category not in warned and bool(flags.any()):
            warned.add(category)
            warnings.warn(f"{message}; {category.__doc__} This is said once.", category, stacklevel=stacklevel + 1)
