"""Outcomes as the surrogate sees them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from modeseek.config import DMSConfig
from modeseek.fitting import fit_surrogate
from modeseek.outcome_transforms import (
    BAD_OUTLIER,
    POWERS,
    floor_of,
    inverse_yeo_johnson,
    mapped_by_standardize,
    mapped_by_warp,
    most_normal_power,
    standardize,
    warp,
    yeo_johnson,
)

SKEWED = -torch.randn(3, 60, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).exp()


@pytest.mark.parametrize("scale", [1e-300, 1e-10, 1.0, 1e10, 1e300])
@pytest.mark.parametrize("shift", [0.0, 1.0, -7.0])
def test_standardize_does_not_see_the_scale(scale: float, shift: float) -> None:
    Y = torch.randn(3, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = standardize((Y + shift) * scale)
    torch.testing.assert_close(y, standardize(Y), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(y.std(-1), torch.ones(3, dtype=torch.float64))


def test_standardize_of_constant_and_single_outcomes_is_zero() -> None:
    assert standardize(torch.full((2, 5), 0.1 + 0.2, dtype=torch.float64)).abs().max() < 1e-12
    assert standardize(torch.tensor([[1e300]], dtype=torch.float64)).item() == 0


@pytest.mark.parametrize(
    "others", [torch.linspace(0, 1, 20), torch.tensor([0.0, 1, 2]), torch.tensor([0.0] * 6 + [0.5, 1])]
)
@pytest.mark.parametrize("bad", [-1e300, -1e6])
def test_standardize_counts_a_very_bad_outcome_as_the_worst_of_the_others(others: Tensor, bad: float) -> None:
    Y = others.double()[None]
    worst = Y.amin(-1, keepdim=True)
    y = standardize(torch.cat([Y, torch.tensor([[bad]], dtype=torch.float64)], -1), outlier=60.0)
    torch.testing.assert_close(y, standardize(torch.cat([Y, worst], -1)))


def test_a_converged_run_is_standardized_as_botorch_does_and_warped_to_tell_its_best_apart() -> None:
    from botorch.models.transforms.outcome import Standardize

    start = -torch.linspace(0.5, 3, 20, dtype=torch.float64)
    converged = -1e-4 * torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    Y = torch.cat([start, converged])[None]
    theirs, _ = Standardize(m=1)(Y[0, :, None])
    torch.testing.assert_close(standardize(Y)[0], theirs[:, 0], atol=1e-9, rtol=1e-9)
    assert warp(Y)[0, 20:].std() > 0.1, "what is left to be told apart stays apart"


def test_standardize_keeps_a_very_good_outcome_the_best_and_the_others_apart() -> None:
    Y = torch.cat([torch.linspace(0, 1, 20, dtype=torch.float64), torch.tensor([1e300], dtype=torch.float64)])[None]
    y = standardize(Y)
    assert (y.diff() > 1e-9).all()


def test_ordinary_data_is_standardized_as_botorch_does() -> None:
    from botorch.models.transforms.outcome import Standardize

    Y = torch.randn(1, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(4)) * 30 - 100
    theirs, _ = Standardize(m=1)(Y[0, :, None])
    torch.testing.assert_close(standardize(Y)[0], theirs[:, 0], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("lam", [-1.0, 0.0, 0.7, 1.0, 2.0, 2.6])
def test_the_power_transform_is_scipys(lam: float) -> None:
    y = standardize(SKEWED)
    ours = yeo_johnson(y, torch.tensor(lam, dtype=torch.float64))
    np.testing.assert_allclose(ours, stats.yeojohnson(y.numpy(), lam), rtol=1e-9, atol=1e-12)


def test_warped_outcomes_are_what_scipys_most_likely_power_and_the_floor_make() -> None:
    y = standardize(SKEWED, BAD_OUTLIER)
    for ours, row in zip(warp(SKEWED), y.numpy(), strict=True):
        transformed = stats.yeojohnson(row, np.clip(stats.yeojohnson_normmax(row), *POWERS))
        median, best = np.sort(transformed)[(len(row) - 1) // 2], transformed.max()  # torch takes the lower median
        expected = np.maximum(transformed, 2 * median - best)
        expected = (expected - expected.mean()) / expected.std(ddof=1)
        np.testing.assert_allclose(ours, expected, atol=0.05)  # λ on a grid


def test_half_of_skewed_outcomes_have_more_room_than_when_standardized() -> None:
    order = SKEWED.argsort(-1)[..., 30:]
    assert (warp(SKEWED).gather(-1, order).std(-1) > 2 * standardize(SKEWED).gather(-1, order).std(-1)).all()


def test_the_evidence_is_asked_with_the_transforms_own_derivative() -> None:
    """By autograd, of the outcomes that it was asked about: without transform first."""
    asked: list[tuple[Tensor, Tensor]] = []

    def remember(y: Tensor, log_slope: Tensor) -> Tensor:
        asked.append((y, log_slope))
        return y.sum(-1)

    warp(SKEWED, remember)
    y, log_slope = asked[0]
    plain = standardize(SKEWED, BAD_OUTLIER)
    torch.testing.assert_close(y[0], plain)
    assert (log_slope[0] == 0).all()
    x = plain.clone().requires_grad_()
    shaped = yeo_johnson(x, most_normal_power(plain))
    (slope,) = torch.autograd.grad((shaped / shaped.detach().std(-1, keepdim=True)).sum(), x)
    torch.testing.assert_close(log_slope[1].exp(), slope)
    torch.testing.assert_close(y[1], standardize(shaped.detach()))


@pytest.mark.parametrize("transformed", [0.0, 2.0, math.nan])
def test_the_power_transform_is_used_where_the_evidence_is_for_it(transformed: float) -> None:
    y = warp(SKEWED, lambda y, _: torch.tensor([1.0, transformed])[:, None].expand(y.shape[:-1]))
    plain = standardize(SKEWED, BAD_OUTLIER)
    without = standardize(torch.maximum(plain, floor_of(plain)))
    torch.testing.assert_close(y, warp(SKEWED) if transformed > 1 else without)
    assert not torch.allclose(warp(SKEWED), without, atol=0.1)


def by_default(Y: Tensor) -> Tensor:
    """The outcomes as the default's surrogate sees them, at random inputs."""
    X = torch.rand(*Y.shape, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return fit_surrogate(X, Y, DMSConfig()).y


OUTCOMES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def check_order(values: list[float], function: Callable[[Tensor], Tensor]) -> None:
    Y = torch.tensor(values, dtype=torch.float64)
    y = function(Y[None])[0]
    assert y.isfinite().all()
    assert (y[Y.argsort()].diff() >= -1e-9).all()


@given(values=OUTCOMES)
def test_warp_keeps_the_order_and_is_finite(values: list[float]) -> None:
    check_order(values, warp)


@settings(deadline=None, max_examples=25)  # of 60 ms each, and more on a busy machine: the surrogate is fitted
@given(values=OUTCOMES)
def test_the_default_keeps_the_order_and_is_finite(values: list[float]) -> None:
    check_order(values, by_default)


@pytest.mark.parametrize(
    "values", [[1.0] * 5, [0.0, 0.5, 1, 1, 1, 1, 1], [-1e300, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 1e300]]
)
@pytest.mark.parametrize("function", [warp, by_default])
def test_warp_of_ties_and_outliers(function: Callable[[Tensor], Tensor], values: list[float]) -> None:
    Y = torch.tensor([values], dtype=torch.float64)
    y = function(Y)[0]
    assert y.isfinite().all()
    assert y[-1] == y.max()
    distinct = len({v for v in values if v > -1e300})
    assert len(torch.unique(y.round(decimals=9))) >= min(distinct, 3)


@pytest.mark.parametrize("scale", [1e-300, 1e-10, 1e10, 1e300])
def test_warp_does_not_see_the_scale(scale: float) -> None:
    torch.testing.assert_close(warp(SKEWED * scale), warp(SKEWED), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("function", [standardize, warp, by_default])
def test_a_plateau_up_to_rounding_leaves_the_others_apart(function: Callable[[Tensor], Tensor]) -> None:
    plateau = 0.9 + 1e-15 * torch.arange(13, dtype=torch.float64)
    y = function(torch.cat([torch.arange(1, 9, dtype=torch.float64) / 10, plateau])[None])[0]
    assert (y[:8].diff() > 0.01).all()
    assert y[8:].std() < 1e-6


@pytest.mark.parametrize("function", [standardize, warp, by_default])
def test_rounding_error_is_no_signal(function: Callable[[Tensor], Tensor]) -> None:
    assert (function(torch.tensor([[1.0, 1 + 2.3e-16, 1.0]], dtype=torch.float64)) == 0).all()


def test_a_third_of_diverged_runs_leaves_the_others_apart() -> None:
    y = warp(torch.cat([torch.full((10,), -1e300, dtype=torch.float64), torch.linspace(0, 1, 20).double()])[None])[0]
    assert (y[11:].diff() > 0.01).sum() > 10


def test_warp_treats_batch_elements_by_themselves() -> None:
    both = torch.stack([SKEWED, SKEWED.neg()])
    torch.testing.assert_close(warp(both)[0], warp(SKEWED))
    torch.testing.assert_close(warp(both)[1, 2], warp(SKEWED[2].neg()))


def skewed(kind: str, scale: float = 1.0) -> Tensor:
    z = torch.randn(2, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return scale * {"bad tail": -z.exp(), "good tail": (1.5 * z).exp(), "none": z + 40, "heavy": z**3}[kind]


@pytest.mark.parametrize("kind", ["bad tail", "good tail", "none", "heavy"])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_way_back_from_warped_outcomes_is_exact_above_the_floor(kind: str, scale: float) -> None:
    Y = skewed(kind, scale)
    y, back = mapped_by_warp(Y)
    above = y > y.amin(-1, keepdim=True) + 1e-9
    assert above.double().mean() > 0.4
    torch.testing.assert_close(back.inverse(y)[above] / scale, Y[above] / scale, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(back.apply(Y), y, rtol=1e-9, atol=1e-9)
    assert (back.inverse(y)[~above] >= Y[~above] - 1e-7 * scale).all(), "what is under the floor counts as the floor"


@pytest.mark.parametrize("kind", ["bad tail", "good tail", "none", "heavy"])
def test_the_way_back_rises_everywhere_and_is_finite(kind: str) -> None:
    y, back = mapped_by_warp(skewed(kind))
    for z in (torch.linspace(-30, 30, 2001, dtype=torch.float64), torch.linspace(-3, 5, 2001, dtype=torch.float64)):
        Y = back.inverse(z.expand(2, -1))
        assert Y.isfinite().all()
        assert (Y.diff() > 0).all()
    inside = torch.linspace(float(y.amin(-1).amax()), float(y.amax(-1).amin()), 50, dtype=torch.float64).expand(2, -1)
    torch.testing.assert_close(back.apply(back.inverse(inside)), inside, rtol=1e-7, atol=1e-7)


def test_the_way_back_of_each_element_knows_whether_the_power_was_used() -> None:
    Y = skewed("bad tail")
    y, back = mapped_by_warp(Y, lambda y, _: torch.tensor([[1.0, 1.0], [0.0, 2.0]], dtype=torch.float64))
    assert back.power is not None
    assert back.power[0] == 1
    assert back.power[1] != 1
    above = y > y.amin(-1, keepdim=True) + 1e-9
    torch.testing.assert_close(back.inverse(y)[above], Y[above], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0, 2.0], [1.0, 2.0, 4.0], [-1e300, 0.0, 1e300]])
def test_the_way_back_from_standardized_outcomes(values: list[float]) -> None:
    Y = torch.tensor([values], dtype=torch.float64)
    y, back = mapped_by_standardize(Y)
    assert y.equal(standardize(Y))
    largest = Y.abs().amax()
    torch.testing.assert_close(back.inverse(y) / largest, Y / largest, rtol=1e-9, atol=1e-9)
    assert mapped_by_warp(Y)[1].inverse(warp(Y)).isfinite().all()


@pytest.mark.parametrize("lam", [-1.0, -0.3, 0.0, 0.5, 1.0, 2.0, 2.7])
def test_the_inverse_of_the_power_transform(lam: float) -> None:
    y = torch.linspace(-4, 4, 41, dtype=torch.float64)
    power = torch.tensor(lam, dtype=torch.float64)
    torch.testing.assert_close(inverse_yeo_johnson(yeo_johnson(y, power), power), y, rtol=1e-9, atol=1e-9)
