"""Rates of the bound: a slope for each seed, and a direction only beyond noise."""

from __future__ import annotations

import numpy as np
import pytest

from modeseek.bench.measure.theory import BASE, TERMS, Suboptimality
from modeseek.bench.report.rates import Rate, fitted_exponents, rate

NS = (10, 20, 40, 80)


def found(e1: np.ndarray) -> list[Suboptimality]:
    """A sweep over n; e1: settings x seeds."""
    empty = {term: np.array([]) for term in TERMS}
    return [Suboptimality(**BASE | {"n": n} | empty | {"e1": row}) for n, row in zip(NS, e1, strict=True)]


def powers(exponents: list[float], scatter: float = 0.0) -> np.ndarray:
    """3·n^r for each seed's r, with scatter in logarithms."""
    rng = np.random.default_rng(0)
    exact = 3 * np.array(NS, float)[:, None] ** np.array(exponents)
    return exact * np.exp(scatter * rng.standard_normal(exact.shape))


def of(e1: np.ndarray) -> Rate:
    r = rate(found(e1), "n", "e1")
    assert r is not None
    return r


def test_each_seed_has_an_exponent_whatever_its_scale() -> None:
    assert fitted_exponents([1, 2, 4], np.array([[3.0, 1], [12, 0.5], [48, 0.25]])) == pytest.approx([2, -1])
    r = of(powers([-1.0, -0.5, -0.6]) * [1, 100, 1e4])
    assert r.exponent == pytest.approx(-0.7)
    assert r.error == pytest.approx(np.std([-1.0, -0.5, -0.6], ddof=1) / np.sqrt(3))
    assert r.low < r.exponent - 4 * r.error, "Student's t of three seeds is wide"


@pytest.mark.parametrize(
    ("exponents", "direction", "status"),
    [
        ([-0.9, -1.0, -1.1, -1.0], "falls", "reproduced"),
        ([-0.4, -0.5, -0.5, -0.55], "falls", "reproduced"),
        ([-0.2, -0.21, -0.19, -0.2], "falls", "partly"),
        ([-1.2, 0.4, -0.6, 0.3], "", "not"),
        ([0.2, 0.3, 0.25, 0.25], "rises", "not"),
    ],
)
def test_a_claim_stands_beyond_noise_only(exponents: list[float], direction: str, status: str) -> None:
    r = of(powers(exponents))
    assert (r.direction, r.status(-0.5)) == (direction, status)
    assert ("within noise" in str(r)) == (direction == "")


def test_steps_that_rise_are_named() -> None:
    e1 = powers([-1.0] * 5, scatter=0.05)
    e1[3] = 2 * e1[2]
    e1[1, 0] = 1.5 * e1[0, 0]  # one seed alone, which makes this step uncertain
    assert of(e1).exceptions() == "rises from n = 40 to 80"


def test_a_claim_that_holds_on_most_steps_alone_stands_in_part() -> None:
    rising_at_the_end = powers([-0.1] * 5, scatter=0.01)
    rising_at_the_end[3] *= 3
    r = of(rising_at_the_end)
    assert (r.direction, r.status(-0.5)) == ("rises", "partly")
    assert r.exceptions() == "falls from n = 10 to 20, 20 to 40"
    rising_at_the_end[2] *= 2
    assert of(rising_at_the_end).status(-0.5) == "not"


def test_seeds_without_finite_terms_are_left_out() -> None:
    e1 = powers([-1.0, -0.9, -1.1])
    e1[2, 1] = np.nan
    assert of(e1).exponent == pytest.approx(-1.05)
    e1[0, 0] = np.nan
    assert rate(found(e1), "n", "e1") is None, "one seed has no error"


def test_two_settings_or_none_measured_have_no_rate() -> None:
    assert rate(found(powers([-1.0, -1.0]))[:2], "n", "e1") is None
    assert rate(found(powers([-1.0, -1.0])), "n", "e2") is None
