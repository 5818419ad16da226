"""The numerics do not see torch's defaults: dtype, device, autocast, inference mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch
from torch import Tensor

from modeseek import Float, Int, Linear, Space, map_fit, priors, surrogate
from modeseek.lbfgs import lbfgs
from modeseek.map_fit import evidence, fit
from modeseek.modes import dominant_mode, modes
from modeseek.outcome_transforms import mapped_by_warp, standardize, warp
from modeseek.paths import optima
from modeseek.sketch import sketch

G = torch.Generator().manual_seed(0)
X = torch.rand(2, 30, 3, dtype=torch.float64, generator=G)
Y = (5 * X).sin().sum(-1).exp() + 0.1 * torch.randn(2, 30, dtype=torch.float64, generator=G)
POINTS = torch.rand(2, 9, 3, dtype=torch.float64, generator=G)


def outcomes() -> list[Tensor]:
    y, back = mapped_by_warp(Y, lambda y, log_slope: evidence(X, y) + log_slope.sum(-1))
    return [standardize(Y), warp(Y), y, back.inverse(y), back.apply(Y)]


def fitted() -> list[Tensor]:
    gp = fit(X, standardize(Y))
    conditioned = gp.condition(POINTS)
    return [*gp.hyperparameters, *gp.posterior(POINTS), *gp.label_and_grad(POINTS, 1.0), conditioned.alpha]


def fitted_to_some() -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MANY", 10), ("FEW", 15), ("ENOUGH", 20)):
            patch.setattr(map_fit, name, value)
        patch.setattr(surrogate, "MANY", 10)
        gp = fit(X, standardize(Y))
        return [*gp.hyperparameters, gp.condition(POINTS).inverse, *sketch(gp, 12).label_and_grad(POINTS, 1.0)]


def fitted_to_one_input_often() -> list[Tensor]:
    gp = surrogate.posterior_of(  # needs jitter
        X[:, :1].expand(2, 40, 3),
        torch.zeros(2, 40, dtype=torch.float64, device="cpu"),
        priors.Hyperparameters(torch.ones_like(X[:, 0]), torch.full_like(Y[:, 0], 1e-17)),
    )
    return [gp.inverse, gp.fit_failed]


def minimized() -> list[Tensor]:
    end = lbfgs(lambda x: ((x - 0.3).pow(4).sum(-1), 4 * (x - 0.3).pow(3)), X, 0.0, 1.0, steps=20)
    return [end.x, end.value]


def clustered() -> list[Tensor]:
    return [dominant_mode(X), dominant_mode(X.float()), *modes(X)]


def optima_of_draws() -> list[Tensor]:
    found = optima(fit(X, standardize(Y)), 3, torch.Generator("cpu").manual_seed(1))
    return [found.x, found.value]


def within_constraints() -> list[Tensor]:
    """Two linear constraints, whole numbers, a function, fixed values."""
    space = Space(
        {"a": Float(0, 1), "b": Float(0, 1), "n": Int(0, 3)},
        [Linear({"a": 1, "b": 1, "n": 0.5}, equals=1.5), Linear({"a": 1, "b": -1}, upper=0.5), lambda p: p["a"] > 0.1],
    )
    region = space.region({"n": 1})
    assert region is not None
    points = region.sample(8, torch.Generator("cpu").manual_seed(1), (2,), X)
    climbed = region.climb(lambda x: (x.square().sum(-1), 2 * x), points, steps=5, free=None, joint=True, record=True)
    settled = torch.from_numpy(region.settle(climbed[0].numpy()))
    return [points, climbed, region.keep(climbed, points), region.repair(X, points), settled]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


CONTEXTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "float64": lambda: default_dtype(torch.float64),
    "float16": lambda: default_dtype(torch.float16),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "meta": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
}
WORK = [
    outcomes,
    fitted,
    fitted_to_some,
    fitted_to_one_input_often,
    minimized,
    clustered,
    optima_of_draws,
    within_constraints,
]


@pytest.mark.parametrize("work", WORK)
def test_results_are_the_same_bit_for_bit(work: Callable[[], list[Tensor]]) -> None:
    expected = work()
    assert all(part.isfinite().all() for part in expected)
    for name, context in CONTEXTS.items():
        with context():
            found = work()
        for ours, plain in zip(found, expected, strict=True):
            assert ours.dtype == plain.dtype, name
            assert ours.equal(plain), name
