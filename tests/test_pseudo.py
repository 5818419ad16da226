"""The pseudo-dataset: Sobol starts, what refinement must do, and what a batch must not change."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import qmc
from torch import Tensor

from modeseek.design import sobol
from modeseek.domain import Domain, Rounding
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.pseudo import polish, pseudo_dataset, refine_inputs, spread
from modeseek.surrogate import GP
from modeseek.typing import Refinement
from shared import generator


def some_gp(n: int = 25, d: int = 2, b: int = 1, seed: int = 0) -> GP:
    X = torch.rand(b, n, d, dtype=torch.float64, generator=generator(seed))
    return fit(X, standardize((7 * X).sin().sum(-1)))


def test_sobol_points_are_even_and_inside() -> None:
    x = sobol(256, 3, generator(), (4,))
    assert x.shape == (4, 256, 3)
    assert ((x > 0) & (x < 1)).all()
    for element in x:
        uniform = torch.rand(256, 3, dtype=torch.float64, generator=generator(1))
        assert qmc.discrepancy(element.numpy()) < 0.2 * qmc.discrepancy(uniform.numpy())
        for j in range(3):  # a net: every one of 256 intervals of an axis holds exactly one point
            assert (element[:, j] * 256).long().sort().values.equal(torch.arange(256))


def test_sobol_points_depend_on_the_generator_alone() -> None:
    assert sobol(10, 2, generator(3)).equal(sobol(10, 2, generator(3)))
    assert not sobol(10, 2, generator(3)).equal(sobol(10, 2, generator(4)))
    a, b = sobol(10, 2, generator(3), (2,))
    assert not a.equal(b)


@pytest.mark.parametrize("refine", ["point", "joint"])
@pytest.mark.parametrize("rho", [0.0, 1.0, 3.0])
def test_refinement_stays_in_the_cube_and_raises_labels(refine: str, rho: float) -> None:
    gp = some_gp(d=3)
    start, label_start = pseudo_dataset(gp, m=64, K=0, rho=rho, refine=refine, source=generator(1))
    last = label_start.mean()
    for K in (1, 5, 20):
        x, label = pseudo_dataset(gp, m=64, K=K, rho=rho, refine=refine, source=generator(1))
        assert ((x >= 0) & (x <= 1)).all()
        torch.testing.assert_close(label, gp.label(x, rho))
        assert label.mean() >= last
        if refine == "point":
            assert (label >= label_start - 1e-12).all()
        last = label.mean()
    assert last > label_start.mean()
    assert not x.equal(start)


def test_a_long_run_ends_where_scipy_finds_nothing_better() -> None:
    gp = some_gp(d=2)
    x0 = sobol(20, 2, generator(5))[None]
    ends = refine_inputs(gp, x0, K=200, rho=1.0)
    for i in range(20):

        def one(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, grad = gp.label_and_grad(torch.from_numpy(x)[None, None], 1.0)
            return -float(value), -grad[0, 0].numpy()

        again = minimize(one, ends[0, i].numpy(), jac=True, method="L-BFGS-B", bounds=[(0, 1)] * 2)
        assert -float(gp.label(ends[:, i : i + 1], 1.0)) <= again.fun + 1e-6


def test_joint_refinement_keeps_points_further_apart_on_a_single_hill() -> None:
    X = torch.rand(1, 80, 6, dtype=torch.float64, generator=generator())
    gp = fit(X, standardize(-(X - 0.4).square().sum(-1)))

    def spread(refine: str) -> Tensor:
        x, _ = pseudo_dataset(gp, m=128, K=6, rho=1.0, refine=refine, source=generator())
        return torch.cdist(x, x).median()

    assert spread("joint") > 1.2 * spread("point")


@pytest.mark.parametrize("refine", ["point", "joint"])
def test_a_batch_refines_each_element_as_it_would_alone(refine: str) -> None:
    gp = some_gp(d=2, b=3)
    x0 = sobol(40, 2, generator(2), (3,))
    together = refine_inputs(gp, x0, K=5, rho=1.0, refine=refine)
    for i in range(3):
        alone = GP(
            X=gp.X[i : i + 1],
            y=gp.y[i : i + 1],
            hyperparameters=type(gp.hyperparameters)(*(h[i : i + 1] for h in gp.hyperparameters)),
            mean=gp.mean[i : i + 1],
            alpha=gp.alpha[i : i + 1],
            inverse=gp.inverse[i : i + 1],
            fit_failed=gp.fit_failed[i : i + 1],
        )
        expected = refine_inputs(alone, x0[i : i + 1], K=5, rho=1.0, refine=refine)
        torch.testing.assert_close(together[i : i + 1], expected, atol=1e-6, rtol=1e-6)


def halves(d: int, continuous: int) -> Rounding:
    """The first coordinates continuous, the others 1/4 or 3/4."""
    free = torch.arange(d) < continuous
    return Rounding(lambda x: torch.where(free, x, (x >= 0.5) / 2 + 0.25), free)


def test_rounded_inputs_are_labelled_where_they_are_evaluated() -> None:
    gp = some_gp(b=3, d=3)
    rounding = halves(gp.X.shape[-1], 1)
    x, label = pseudo_dataset(gp, m=64, K=3, rho=1.0, refine="joint", source=generator(1), domain=Domain(rounding))
    assert x.equal(rounding.snap(x))
    assert len(x[..., 0].unique()) > 10
    torch.testing.assert_close(label, gp.label(x, 1.0))


def test_polish_climbs_to_an_optimum() -> None:
    gp = some_gp(b=3, d=3)
    x = sobol(1, gp.X.shape[-1], generator(3), tuple(gp.X.shape[:-2]))[..., 0, :]
    top = polish(gp, x[..., None, :], rho=1.0)
    assert (gp.label(top[..., None, :], 1.0) >= gp.label(x[..., None, :], 1.0)).all()
    _, grad = gp.label_and_grad(top[..., None, :], 1.0)
    inside = (top > 0) & (top < 1)
    assert grad.squeeze(-2)[inside].abs().max() < 1e-3


def test_rounded_polish_moves_along_continuous_coordinates_only() -> None:
    gp = some_gp(b=3, d=3)
    rounding = halves(gp.X.shape[-1], 1)
    x = sobol(1, gp.X.shape[-1], generator(3), tuple(gp.X.shape[:-2]))[..., 0, :]
    top = polish(gp, x[..., None, :], rho=1.0, domain=Domain(rounding))
    assert top.equal(rounding.snap(top))
    start = rounding.snap(x)[..., None, :]
    assert (gp.label(top[..., None, :], 1.0) >= gp.label(start, 1.0) - 1e-12).all()
    _, grad = gp.label_and_grad(top[..., None, :], 1.0)
    inside = (top[..., 0] > 0) & (top[..., 0] < 1)
    assert grad[..., 0, 0][inside].abs().max() < 1e-3


@pytest.mark.parametrize("refine", ["point", "joint"])
def test_inputs_that_shall_stay_apart_do_and_the_others_climb_as_ever(refine: Refinement) -> None:
    """One hill, where every run ends at its top, beside several, where they do not."""
    X = torch.rand(1, 30, 2, dtype=torch.float64, generator=generator())
    gp = fit(X.expand(2, -1, -1), standardize(torch.stack([-(X[0] - 0.6).square().sum(-1), (9 * X[0]).sin().sum(-1)])))
    kept = pseudo_dataset(gp, m=64, K=60, rho=0.0, refine=refine, source=generator(1), apart=0.05)
    free = pseudo_dataset(gp, m=64, K=60, rho=0.0, refine=refine, source=generator(1))
    start = pseudo_dataset(gp, m=64, K=0, rho=0.0, refine=refine, source=generator(1))
    assert spread(*free)[0] < 0.02
    assert 0.03 < spread(*kept)[0] < 0.08
    assert kept[1][0].mean() > start[1][0].mean()
    torch.testing.assert_close(kept[0][1], free[0][1])
