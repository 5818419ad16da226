"""Hodges and Lehmann's estimate and its interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from modeseek.bench.report.intervals import shift


@pytest.mark.parametrize("n", [6, 13, 30])
def test_the_interval_has_the_shifts_that_wilcoxons_test_does_not_reject(n: int) -> None:
    differences = np.random.default_rng(n).standard_normal(n)
    interval = shift(differences, 0.05)
    assert interval.low < interval.estimate < interval.high
    for end, inwards in ((interval.low, 1e-9), (interval.high, -1e-9)):
        inside, outside = (
            stats.wilcoxon(differences - end - step, method="exact").pvalue for step in (inwards, -inwards)
        )
        assert outside <= 0.05 < inside


def test_the_interval_misses_the_true_shift_as_seldom_as_it_says() -> None:
    rng = np.random.default_rng(0)
    missed = [not low < 0.3 < high for _, low, high in (shift(0.3 + rng.laplace(size=12), 0.1) for _ in range(500))]
    assert 0.05 < np.mean(missed) < 0.13


def test_few_differences_exclude_nothing() -> None:
    interval = shift(np.ones(5), 0.05)
    assert (interval.estimate, interval.within(1e9)) == (1.0, False)
    assert shift(np.ones(6), 0.05).within(2.0)
