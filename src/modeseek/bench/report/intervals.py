"""How large a difference may be that a test does not see: the estimate of Hodges and Lehmann (1963) with its interval.

The estimate is the median of all means of two differences (each with itself, too). The interval has the shifts that
Wilcoxon's signed-rank test does not reject, from its exact distribution without ties, and needs no normal errors.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from modeseek.typing import Array


class Interval(NamedTuple):
    """An estimate between its bounds."""

    estimate: float
    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Whether the data exclude all differences beyond a margin, in either direction."""
        return -margin < self.low and self.high < margin


def shift(differences: Array, level: float) -> Interval:
    """The shift of paired differences; the interval misses the true one with a probability of at most `level`."""
    n = len(differences)
    means = np.sort([(a + b) / 2 for i, a in enumerate(differences) for b in differences[i:]])
    cut = int(np.searchsorted(_signed_rank_cdf(n), level / 2, side="right"))  # sums of ranks that are that rare
    if cut == 0:
        return Interval(float(np.median(means)), -np.inf, np.inf)
    return Interval(float(np.median(means)), float(means[cut - 1]), float(means[-cut]))


@cache
def _signed_rank_cdf(n: int) -> Array:
    """P(W ≤ w) of the sum W of the positive ranks among 1..n, each of either sign with probability ½."""
    chance = np.ones(1)
    for rank in range(1, n + 1):
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    return np.cumsum(chance)
