"""How the surrogate sees a point of the cube: choices without order, and no trace of what does not exist.

The cube has one coordinate per parameter, and the choices of a categorical one lie in it as in a row. To the kernel
they are all equally far apart: a coordinate with c choices becomes c features that share its length-scale, 1/√2 for the
choice and 0 for the others, so that unequal choices are 1 apart and, with the squared exponential (kernels.py),

    k(x, x') = Π_i exp(−½ (x_i − x'_i)²/ℓ_i²) · Π_j exp(−½ [x_j ≠ x'_j]/ℓ_j²)      i numbers, j choices

A number is one feature, itself. Of a parameter that does not exist under the point's other choices (conditions.py) the
features are constant. The label of a point is then the same wherever in their bins its choices lie, and its gradient is
0 along coordinates of choices and of what does not exist.

Notation: d, coordinates; D, features; x, ... x d; z, ... x D.
"""

from __future__ import annotations

import copy
import math
from typing import Self

import torch
from torch import Tensor

from modeseek.conditions import ABSENT
from modeseek.kernels import SQUARED_EXPONENTIAL, Kernel, half_squares
from modeseek.parameters import has_no_order
from modeseek.space import Space


class Embedding:
    """The features of a point, and the kernel of these.

    This one has the coordinates themselves: all parameters are numbers that exist.
    """

    kernel: Kernel = SQUARED_EXPONENTIAL

    def with_kernel(self, kernel: Kernel) -> Self:
        """The same features with this kernel."""
        if kernel is self.kernel:
            return self
        changed = copy.copy(self)
        changed.kernel = kernel
        return changed

    def alike(self, x: Tensor, X: Tensor, lengthscale: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803
        """The kernel between points, b x m x d and b x n x d, and its decay, each b x m x n; lengthscale is b x d."""
        return self.kernel.value_and_decay(half_squares(self(x), self(X), self.spread(lengthscale)))

    def __call__(self, x: Tensor) -> Tensor:
        """Points, ... x d, to their features, ... x D."""
        return x

    def exists(self, x: Tensor) -> Tensor:
        """Which parameters exist at x (... x d): ... x d."""
        return torch.ones_like(x, dtype=torch.bool)

    def spread(self, of_coordinates: Tensor) -> Tensor:
        """A number per coordinate (... x d), for each of its features: ... x D."""
        return of_coordinates

    def total(self, of_features: Tensor) -> Tensor:
        """The sum over the features of each coordinate: ... x D to ... x d."""
        return of_features

    def pull_back(self, grad: Tensor, x: Tensor) -> Tensor:
        """A gradient by the features (... x D) at x (... x d), by the coordinates: ... x d."""
        return grad


PLAIN = Embedding()


class Mixed(Embedding):
    """The features where some parameters are choices, or exist only under one."""

    def __init__(self, space: Space, device: torch.device) -> None:
        names, conditions = space.coordinates, space.conditions
        parameters = [space[name] for name in names]
        features = [
            (i, k, p.size if has_no_order(p) else 0)
            for i, p in enumerate(parameters)
            for k in range(p.size if has_no_order(p) else 1)
        ]
        self._owner, self._choice, self._count = torch.tensor(features, device=device).unbind(-1)
        self._is_number = self._count == 0
        self._absent = self._is_number.double() * ABSENT
        coordinates = torch.arange(space.d, device=device)
        self._owners = (self._owner[:, None] == coordinates).double()  # D x d
        self._numbers = self._owners * self._is_number[:, None]
        # The borders between a parent's values, and under which of these a child exists.
        self._rules = [
            (
                names.index(name),
                names.index(parent),
                torch.from_numpy(space[parent].borders()).to(device),
                torch.from_numpy(conditions.allowed(name, parent)).to(device),
            )
            for name in conditions.order
            for parent in space[name].when or {}
        ]

    def __call__(self, x: Tensor) -> Tensor:  # noqa: D102
        z = x[..., self._owner]
        chosen = torch.minimum((z * self._count).floor(), self._count - 1) == self._choice
        z = torch.where(self._is_number, z, chosen.to(z.dtype) * math.sqrt(0.5))
        return torch.where(self.exists(x)[..., self._owner], z, self._absent) if self._rules else z

    def exists(self, x: Tensor) -> Tensor:  # noqa: D102
        exists = list(torch.ones_like(x, dtype=torch.bool).unbind(-1))
        for child, parent, borders, allowed in self._rules:
            met = allowed[torch.bucketize(x[..., parent].contiguous(), borders, right=True)]
            exists[child] = exists[child] & exists[parent] & met
        return torch.stack(exists, -1)

    def spread(self, of_coordinates: Tensor) -> Tensor:  # noqa: D102
        return of_coordinates[..., self._owner]

    def total(self, of_features: Tensor) -> Tensor:  # noqa: D102
        return of_features @ self._owners

    def pull_back(self, grad: Tensor, x: Tensor) -> Tensor:  # noqa: D102
        by_coordinate = grad @ self._numbers
        return by_coordinate * self.exists(x) if self._rules else by_coordinate


def embedding_of(space: Space, device: torch.device) -> Embedding:
    """The features of a space's points."""
    return Mixed(space, device) if has_choices(space) or space.conditions else PLAIN


def has_choices(space: Space) -> bool:
    """Whether some parameters are choices without order."""
    return any(has_no_order(space[name]) for name in space)
