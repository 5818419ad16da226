"""Matrices made of a kernel; shapes and notation as in surrogate.py."""

from __future__ import annotations

import torch
from torch import Tensor


def with_diagonal(K: Tensor, added: Tensor) -> Tensor:
    """K + diag(added) in K's own memory: K is b x n x n, added b x n or b x 1."""
    K.diagonal(dim1=-2, dim2=-1).add_(added)
    return K


def inverse_of(chol: Tensor) -> Tensor:
    """(LLᵀ)⁻¹ from L, b x n x n."""
    if not chol.is_cuda:
        return torch.cholesky_inverse(chol)
    # CUDA's cholesky_inverse cannot be part of a graph, and takes longer for a batch.
    eye = torch.eye(chol.shape[-1], dtype=chol.dtype, device=chol.device).expand_as(chol)
    W: Tensor = torch.linalg.solve_triangular(chol, eye, upper=False)
    return W.mT @ W


def bordered(inverse: Tensor, k: Tensor, v: Tensor, corner: Tensor) -> Tensor:
    """The inverse of K with p more rows and columns, from the one without: b x (n+p) x (n+p), in n² p operations.

    k (b x p x n) is what the new ones share with the old ones, v = k K⁻¹, and `corner` (b x p x p) what they share with
    each other. With S = corner − v kᵀ the inverse is [[K⁻¹ + vᵀ S⁻¹ v, −vᵀ S⁻¹], [−S⁻¹ v, S⁻¹]].
    """
    n, p = inverse.shape[-1], corner.shape[-1]
    S = corner - k @ v.mT
    last = inverse_of(torch.linalg.cholesky_ex((S + S.mT) / 2).L)
    side = last @ v
    whole = inverse.new_empty(*inverse.shape[:-2], n + p, n + p)
    torch.add(inverse, v.mT @ side, out=whole[..., :n, :n])
    whole[..., n:, :n] = -side
    whole[..., :n, n:] = -side.mT
    whole[..., n:, n:] = last
    return whole
