"""How many hills of the label the best pseudo-inputs are on, and how much of a model these are worth.

On one hill a model can only say where its top is, which the best pseudo-input says as well; what a model is for is to
weigh several. docs/decisions.md has what each rule is worth.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH = 0.2  # of a hill, as the largest difference of a coordinate, on the unit cube


def is_one_hill(x: Tensor, y_hat: Tensor, width: float) -> Tensor:
    """Whether most of the best quarter of the pseudo-inputs (b x m x d) lie within `width` of the best of all: b.

    That is where the modes of a model would lead, too.
    """
    top = best_quarter(x, y_hat)
    return (top - top[..., :1, :]).abs().amax(-1).median(-1).values < width


def count_hills(x: Tensor, y_hat: Tensor, width: float = WIDTH) -> Tensor:
    """How many of the best quarter of the pseudo-inputs (b x m x d) have none with a better label within `width`: b."""
    top = best_quarter(x, y_hat)
    near = torch.cdist(top, top, p=torch.inf) < width
    return (~near.tril(-1).any(-1)).sum(-1)


def best_quarter(x: Tensor, y_hat: Tensor) -> Tensor:
    """The quarter of the inputs (b x m x d) that has the best labels (b x m), by falling label: b x m/4 x d."""
    top = y_hat.argsort(dim=-1, descending=True, stable=True)[..., : -(-x.shape[-2] // 4), None]
    return x.gather(-2, top.expand(*top.shape[:-1], x.shape[-1]))
