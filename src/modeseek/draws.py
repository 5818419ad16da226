"""Random numbers for problems side by side: every row of a batch draws from a generator of its own.

A row of a batch then draws the numbers that it would draw alone, whatever else is in the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Randomness: TypeAlias = "torch.Generator | Sequence[torch.Generator] | Draws"


class Draws:
    """One generator per row, all on one device."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = list(generators)

    @classmethod
    def of(cls, source: Randomness, batch: Sequence[int] = ()) -> Draws:
        """Draws for a batch: from a generator per row, or from one generator, which seeds those of several rows."""
        rows = math.prod(batch)
        if isinstance(source, Draws):
            draws = source
        elif isinstance(source, torch.Generator):
            draws = cls([source] if rows == 1 else [_spawn(source, source.device) for _ in range(rows)])
        else:
            draws = cls(source)
        if len(draws.generators) != rows:
            raise ValueError(f"{rows} rows need as many generators, not {len(draws.generators)}")
        return draws

    def on(self, device: torch.device) -> Draws:
        """Other generators, on `device`, each seeded by one of these."""
        return Draws([_spawn(generator, device) for generator in self.generators])

    def split(self, count: int) -> Draws:
        """Generators for `count` x rows, those of a row seeded by its own."""
        children = [[_spawn(generator, generator.device) for _ in range(count)] for generator in self.generators]
        return Draws([row[i] for i in range(count) for row in children])

    def rand(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Uniform on [0, 1): rows x shape."""
        return self._stack([torch.rand(shape, dtype=dtype, device=g.device, generator=g) for g in self.generators])

    def randn(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal: rows x shape."""
        return self._stack([torch.randn(shape, dtype=dtype, device=g.device, generator=g) for g in self.generators])

    def randint(self, high: int, *shape: int) -> Tensor:
        """Whole numbers below `high`, int64: rows x shape."""
        kind = torch.int64
        return self._stack(
            [torch.randint(high, shape, dtype=kind, device=g.device, generator=g) for g in self.generators]
        )

    def _stack(self, rows: list[Tensor]) -> Tensor:
        return rows[0][None] if len(rows) == 1 else torch.stack(rows)


def _spawn(generator: torch.Generator, device: torch.device) -> torch.Generator:
    seed = int(torch.randint(2**62, (), dtype=torch.int64, device=generator.device, generator=generator))
    return torch.Generator(device).manual_seed(seed)
