"""Mean ranks of methods over problems, and which differences between them are beyond chance (Demsar, 2006).

Friedman's test:  do the methods differ at all?  chi-square of the mean ranks, corrected for ties
Nemenyi's test:   two methods differ if their mean ranks are CD = q sqrt(k (k + 1) / (6 N)) apart, where q is the
                  quantile of the studentized range of k methods over sqrt(2), and N is the number of problems
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from scipy import stats

from modeseek.bench.report.curves import LEVEL
from modeseek.typing import Array


@dataclass(frozen=True)
class Ranking:
    """Methods by mean rank, the best first."""

    methods: tuple[str, ...]
    ranks: Array  # k, mean ranks in the same order
    n: int  # problems
    p: float  # of Friedman's test; NaN with fewer than three methods or two problems
    critical_difference: float

    @property
    def groups(self) -> list[tuple[int, int]]:
        """First and last place of each maximal run of methods that are level with each other; none is a single one.

        The mean ranks at the ends of a run are less than the critical difference apart.
        """
        if self.p >= LEVEL:  # Friedman's test sees no difference at all
            return [(0, len(self.ranks) - 1)]
        last = [int(np.searchsorted(self.ranks, rank + self.critical_difference)) - 1 for rank in self.ranks]
        longer = [True, *(after > before for before, after in pairwise(last))]
        return [(i, end) for i, end in enumerate(last) if end > i and longer[i]]

    @property
    def level_with_best(self) -> set[str]:
        """The best method and those that are level with it."""
        ends = [end for start, end in self.groups if start == 0]
        return set(self.methods[: max(ends, default=0) + 1])


def rank(methods: Sequence[str], losses: Array) -> Ranking:
    """From what each method lost on each problem, lower is better.

    Args:
        losses: N x k, with no problem missing; equal losses share their mean rank.
    """
    n, k = losses.shape
    means = stats.rankdata(losses, axis=1).mean(0) if n else np.full(k, math.nan)
    order = np.argsort(means, kind="stable")
    return Ranking(
        methods=tuple(methods[i] for i in order),
        ranks=means[order],
        n=n,
        p=_friedman(losses),
        critical_difference=critical_difference(k, n),
    )


def _friedman(losses: Array) -> float:
    n, k = losses.shape
    if n < 2 or k < 3:
        return math.nan
    if (losses == losses[:, :1]).all():  # nothing but ties
        return 1.0
    return float(stats.friedmanchisquare(*losses.T).pvalue)


def critical_difference(k: int, n: int, level: float = LEVEL) -> float:
    """Of the mean ranks of k methods over n problems, by Nemenyi's test; infinite where there is nothing to compare."""
    return nemenyi_quantile(k, level) * math.sqrt(k * (k + 1) / (6 * n)) if n and k > 1 else math.inf


@cache
def nemenyi_quantile(k: int, level: float = LEVEL) -> float:
    """The studentized range's over sqrt(2): Table 5 of Demsar (2006)."""
    return float(stats.studentized_range.ppf(1 - level, k, np.inf)) / math.sqrt(2)
