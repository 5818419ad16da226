"""Batched L-BFGS against SciPy, its line search against the definition of the strong Wolfe conditions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import optimize
from torch import Tensor

from modeseek.lbfgs import CURVATURE, SUFFICIENT_DECREASE, Box, Objective, Point, begin_search, lbfgs, search_once
from shared import generator


def quadratic(rows: int, d: int, seed: int = 0) -> tuple[Objective, Tensor, Tensor]:
    """½ (x − c)ᵀ A (x − c) with condition number up to 1e4, each row with its own A and c."""
    g = generator(seed)
    Q, _ = torch.linalg.qr(torch.randn(rows, d, d, dtype=torch.float64, generator=g))
    A = Q @ torch.diag_embed(torch.logspace(-2, 2, d, dtype=torch.float64).expand(rows, d)) @ Q.mT
    c = torch.randn(rows, d, dtype=torch.float64, generator=g)

    def objective(x: Tensor) -> tuple[Tensor, Tensor]:
        grad = (A @ (x - c)[..., None]).squeeze(-1)
        return 0.5 * ((x - c) * grad).sum(-1), grad

    return objective, A, c


def rosenbrock(x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_(True)
    value = (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(-1)
    (grad,) = torch.autograd.grad(value.sum(), x)
    return value.detach(), grad


def test_convex_quadratics_reach_their_minimum() -> None:
    objective, _, c = quadratic(rows=20, d=8)
    end = lbfgs(objective, torch.zeros_like(c), -100.0, 100.0, steps=300, gtol=1e-8)
    torch.testing.assert_close(end.x, c, atol=1e-5, rtol=0)


def test_box_constrained_quadratics_agree_with_scipy() -> None:
    objective, A, c = quadratic(rows=15, d=6, seed=3)
    end = lbfgs(objective, torch.zeros_like(c), -0.4, 0.4, steps=500, gtol=1e-9)
    assert ((end.x >= -0.4) & (end.x <= 0.4)).all()
    assert (end.x.abs() == 0.4).any(), "the box should bite in this test"
    for i in range(15):
        A_i, c_i = A[i].numpy(), c[i].numpy()
        theirs = optimize.minimize(
            lambda x, A, c: (0.5 * (x - c) @ A @ (x - c), A @ (x - c)),
            np.zeros(6),
            (A_i, c_i),
            "L-BFGS-B",
            jac=True,
            bounds=[(-0.4, 0.4)] * 6,
            tol=1e-14,
        )
        assert float(end.value[i]) == pytest.approx(theirs.fun, rel=1e-5, abs=1e-8)
        np.testing.assert_allclose(end.x[i].numpy(), theirs.x, atol=2e-3)


@pytest.mark.parametrize("d", [2, 10])
def test_rosenbrock_reaches_what_scipy_reaches(d: int) -> None:
    x0 = torch.rand(12, d, dtype=torch.float64, generator=generator(1)) * 4 - 2
    end = lbfgs(rosenbrock, x0, -2.048, 2.048, steps=500, gtol=1e-6)
    for i in range(12):
        theirs = optimize.minimize(
            lambda x: tuple(v.numpy() for v in rosenbrock(torch.from_numpy(x))),
            x0[i].numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-2.048, 2.048)] * d,
        )
        # Rosenbrock has a second local minimum from d = 4 on: either solver may end in it, never above it.
        assert float(end.value[i]) <= max(theirs.fun, 4.0 if d >= 4 else 0.0) + 1e-5
    assert (end.value < 1e-5).float().mean() >= 0.6


def test_it_needs_about_as_many_evaluations_as_scipy() -> None:
    x0 = torch.full((1, 2), -1.2, dtype=torch.float64)
    end = lbfgs(rosenbrock, x0, -5.0, 5.0, steps=500, gtol=1e-5)
    theirs = optimize.minimize(
        lambda x: tuple(v.numpy() for v in rosenbrock(torch.from_numpy(x))), x0[0].numpy(), jac=True, method="L-BFGS-B"
    )
    assert end.value < 1e-8
    assert end.evaluations <= 2 * theirs.nfev


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("first", [1e-3, 1.0, 50.0])
def test_accepted_steps_satisfy_the_strong_wolfe_conditions(d: int, first: float) -> None:
    def wavy(x: Tensor) -> tuple[Tensor, Tensor]:
        return (0.1 * x**2 + (3 * x).sin()).sum(-1), 0.2 * x + 3 * (3 * x).cos()

    for objective in (wavy, quadratic(64, d, seed=5)[0], *([rosenbrock] if d > 1 else [])):
        x = torch.randn(64, d, dtype=torch.float64, generator=generator(2))
        at = Point(x, *objective(x))
        search = begin_search(at, -at.grad, torch.full((64,), first, dtype=torch.float64))
        far = torch.tensor(1e9, dtype=torch.float64)
        searching = torch.ones(64, dtype=torch.bool)
        for _ in range(60):
            tried = search.eta
            after, ended = search_once(objective, at, search, searching, Box(-far, far))
            slope, end = -(at.grad * at.grad).sum(-1), after.best
            torch.testing.assert_close(end.x[ended], (x - tried[:, None] * at.grad)[ended])
            assert (end.value <= at.value + SUFFICIENT_DECREASE * tried * slope + 1e-12)[ended].all()
            assert (-(end.grad * at.grad).sum(-1).abs() >= CURVATURE * slope - 1e-12)[ended].all()
            search, searching = after, searching & ~ended
        assert not searching.any()
        assert search.found.all()


def test_every_step_of_a_run_lowers_the_objective() -> None:
    x0 = torch.rand(8, 4, dtype=torch.float64, generator=generator(4)) * 4 - 2
    values = [lbfgs(rosenbrock, x0, -2.0, 2.0, steps=k).value for k in range(12)]
    for before, after in pairwise(values):
        assert (after <= before).all()


def test_rows_do_not_see_each_other() -> None:
    x0 = torch.rand(9, 5, dtype=torch.float64, generator=generator(6)) * 4 - 2
    together = lbfgs(rosenbrock, x0, -2.0, 2.0, steps=15).x
    for i in range(9):
        torch.testing.assert_close(together[i], lbfgs(rosenbrock, x0[i], -2.0, 2.0, steps=15).x, atol=1e-9, rtol=1e-9)


def test_a_row_with_a_nan_start_stays() -> None:
    clean, _, c = quadratic(rows=3, d=2)
    x0 = torch.zeros_like(c)
    x0[1] = torch.nan
    end = lbfgs(clean, x0, -10.0, 10.0, steps=100)
    assert end.x[1].isnan().all()
    torch.testing.assert_close(end.x[[0, 2]], c[[0, 2]], atol=1e-3, rtol=0)


def test_steps_zero_evaluates_once_and_projects() -> None:
    objective, _, _ = quadratic(rows=2, d=2)
    end = lbfgs(objective, torch.full((2, 2), 5.0, dtype=torch.float64), 0.0, 1.0, steps=0)
    assert end.evaluations == 1
    assert (end.x == 1).all()


def test_a_row_ends_with_its_evaluations() -> None:
    x0 = torch.rand(8, 4, dtype=torch.float64, generator=generator(4)) * 4 - 2
    few = lbfgs(rosenbrock, x0, -2.0, 2.0, steps=50, max_evaluations=12)
    many = lbfgs(rosenbrock, x0, -2.0, 2.0, steps=50)
    assert few.evaluations <= 13  # with that of the start
    assert (few.value < rosenbrock(x0)[0]).all()
    assert (many.value <= few.value).all()
