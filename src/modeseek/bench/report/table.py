"""A table as readers and as programs see it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modeseek.typing import Array

Row = dict[str, str | float | int]


@dataclass(frozen=True)
class Table:
    """What a reader sees, in Markdown, and the numbers behind it."""

    header: Sequence[str]
    cells: Sequence[Sequence[str]]
    rows: Sequence[Row] = ()

    def markdown(self) -> str:
        """As Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.cells]
        return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)

    def csv(self) -> str:
        """The numbers as CSV."""
        out = io.StringIO()
        writer = csv.DictWriter(out, fieldnames=list(dict.fromkeys(name for row in self.rows for name in row)))
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def mean_and_error(sample: Array) -> tuple[float, float]:
    """Mean and standard error; of a single number there is no error."""
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else float("nan")


def plus_minus(mean: float, error: float) -> str:
    """For a cell."""
    return f"{mean:.3g}" if np.isnan(error) else f"{mean:.3g} ± {error:.2g}"


def percent(share: float) -> str:
    """For a cell; a dash for a share that is not known."""
    return "–" if math.isnan(share) else f"{100 * share:.0f}"
