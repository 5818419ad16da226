"""Flat-kernel mean shift: the dominant mode (App. A.3; Algorithm 1, line 16), and all modes with their masses.

The algorithm is scikit-learn's `MeanShift(bandwidth=estimate_bandwidth(x, quantile=0.3))` seeded at every sample,
written for batches of sample sets on any device; the tests hold it to scikit-learn's answers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.graphs import iterate

MAX_SHIFTS = 300
STOP = 1e-3  # of the bandwidth, as in scikit-learn
MIN_BANDWIDTH = 1e-6  # identical samples: their mean, rounded, is still within reach of them


def bandwidth(x: Tensor, quantile: float = 0.3) -> Tensor:
    """The mean distance from a sample (b x S x d) to its (quantile·S)-th nearest, itself counted: b."""
    neighbours = max(1, int(x.shape[-2] * quantile))
    return _distances(x, x).kthvalue(neighbours, -1).values.mean(-1).clamp_min(MIN_BANDWIDTH)


class Modes(NamedTuple):
    """The mean-shift clusters of every sample set, by falling mass; S of them, of which the last may be empty."""

    centre: Tensor  # b x S x d
    mass: Tensor  # b x S, the share of the samples; 0: no cluster
    label: Tensor  # b x S, the cluster of each sample


def modes(x: Tensor, quantile: float = 0.3) -> Modes:
    """The clusters of the samples (b x S x d)."""
    centres, members, label = _clusters(x.double(), quantile)
    order = members.argsort(dim=-1, descending=True, stable=True)
    place = order.argsort(dim=-1)
    return Modes(
        centres.gather(-2, order[..., None].expand_as(centres)),
        members.gather(-1, order) / x.shape[-2],
        place.gather(-1, label),
    )


def dominant_mode(x: Tensor, quantile: float = 0.3) -> Tensor:
    """The centre of the mean-shift cluster that holds most of the samples (b x S x d): b x d."""
    centres, members, _ = _clusters(x.double(), quantile)
    largest = members.argmax(-1)
    return centres.gather(-2, largest[..., None, None].expand(*largest.shape, 1, x.shape[-1])).squeeze(-2)


def _clusters(x: Tensor, quantile: float) -> tuple[Tensor, Tensor, Tensor]:
    """Centres (b x S x d), how many samples are nearest to each (b x S), and which is nearest to each sample (b x S).

    A centre too close to another one has no members.
    """
    width = bandwidth(x, quantile)
    centres, intensity = _shift_to_modes(x, width)
    order = _by_intensity(centres, intensity)
    centres = centres.gather(-2, order[..., None].expand_as(centres))
    kept = _suppress_neighbours(centres, width)
    label = _distances(x, centres).masked_fill(~kept.unsqueeze(-2), torch.inf).argmin(-1)
    members = torch.zeros_like(centres[..., 0]).scatter_add_(-1, label, torch.ones_like(centres[..., 0]))
    return centres, members, label


def _distances(x: Tensor, z: Tensor) -> Tensor:
    # Through a matrix product a distance of zero comes out as some 1e-8; without, CUDA is far slower in float64.
    return torch.cdist(x, z, compute_mode=f"{'' if x.is_cuda else 'donot_'}use_mm_for_euclid_dist")


class _Seeds(NamedTuple):
    at: Tensor  # b x S x d
    intensity: Tensor  # b x S, how many samples the last mean was taken over
    moving: Tensor  # b x S


def _shift_to_modes(x: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    """Move a seed from every sample to the mean of the samples within reach until it rests.

    Returns where the seeds rest (b x S x d), and how many samples the last mean was taken over (b x S).
    """

    def shift(seeds: _Seeds) -> _Seeds:
        within = (_distances(seeds.at, x) <= width[..., None, None]).to(x.dtype)
        count = within.sum(-1)
        means = torch.where(count[..., None] > 0, within @ x / count[..., None], seeds.at)
        far = (means - seeds.at).norm(dim=-1) > STOP * width[..., None]
        return _Seeds(
            torch.where(seeds.moving[..., None], means, seeds.at),
            torch.where(seeds.moving, count, seeds.intensity),
            seeds.moving & far,
        )

    none = torch.zeros_like(x[..., 0])
    rest = iterate(shift, _Seeds(x, none, none == 0), lambda seeds: seeds.moving, most=MAX_SHIFTS)
    return rest.at, rest.intensity


def _by_intensity(centres: Tensor, intensity: Tensor) -> Tensor:
    """The order of centres (b x S x d) by falling intensity, ties by falling coordinates: b x S."""
    order = torch.arange(centres.shape[-2], dtype=torch.int64, device=centres.device).expand_as(intensity)
    for key in [*centres.unbind(-1)[::-1], intensity]:
        order = order.gather(-1, key.gather(-1, order).argsort(dim=-1, descending=True, stable=True))
    return order


class _Choice(NamedTuple):
    kept: Tensor  # b x S
    left: Tensor  # b x S, not yet decided


def _suppress_neighbours(centres: Tensor, width: Tensor) -> Tensor:
    """Of centres in order (b x S x d), keep the first, drop those within a bandwidth of it, and so on: b x S."""
    near = _distances(centres, centres) <= width[..., None, None]

    def choose(choice: _Choice) -> _Choice:
        kept, left = choice
        first = torch.zeros_like(left).scatter_(-1, left.int().argmax(-1, keepdim=True), True) & left
        return _Choice(kept | first, left & ~first & ~(near & first.unsqueeze(-1)).any(-2))

    none = torch.zeros_like(near[..., 0])
    return iterate(choose, _Choice(none, ~none), lambda choice: choice.left, most=centres.shape[-2]).kept
