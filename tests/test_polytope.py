"""Polytopes: the nearest point, uniform points, dimensions, whole numbers; and descent within them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from torch import Tensor

from modeseek import Float, Int, Linear, Space
from modeseek.polytope import Empty, Limits, Polytope, nearest_on_lattice
from modeseek.spg import spg
from modeseek.typing import Array
from shared import generator


def simplex(d: int) -> Limits:
    row = np.full((1, d), 1 / np.sqrt(d))
    return Limits(row, np.full(1, 1 / np.sqrt(d)), np.full(1, 1 / np.sqrt(d)), np.zeros(d), np.ones(d))


def some_limits(seed: int, d: int = 4) -> Limits:
    """An equality and two inequalities around a point inside the cube."""
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(3, d))
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    at = C @ np.full(d, 0.4)
    return Limits(C, at + np.array([0, -np.inf, -0.1]), at + np.array([0, 0.1, 0.2]), np.zeros(d), np.ones(d))


def nearest(y: Array, limits: Limits, start: Array) -> Array:
    C, lo, hi, lower, upper = limits
    below = np.isfinite(lo) & ~limits.exact
    end = minimize(
        lambda x: float(np.square(x - y).sum()),
        start,
        jac=lambda x: 2 * (x - y),
        bounds=list(zip(lower, upper, strict=True)),
        constraints=[
            {"type": "eq", "fun": lambda x: C[limits.exact] @ x - hi[limits.exact]},
            {"type": "ineq", "fun": lambda x: (hi - C @ x)[~limits.exact]},
            {"type": "ineq", "fun": lambda x: (C @ x)[below] - lo[below]},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 300},
    )
    return np.asarray(end.x)


def on_simplex(y: Array) -> Array:
    """The nearest point whose coordinates sum to one, by sorting (Held, Wolfe and Crowder 1974)."""
    sorted_ = np.sort(y)[::-1]
    excess = np.cumsum(sorted_) - 1
    last = np.flatnonzero(sorted_ > excess / np.arange(1, len(y) + 1))[-1]
    return np.maximum(y - excess[last] / (last + 1), 0)


def test_the_nearest_point_of_a_simplex() -> None:
    y = torch.randn(3, 50, 7, dtype=torch.float64, generator=generator())
    expected = np.array([[on_simplex(row) for row in rows] for rows in y.numpy()])
    np.testing.assert_allclose(Polytope.of(simplex(7)).project(y).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_nearest_point_under_several_constraints(seed: int) -> None:
    limits = some_limits(seed)
    polytope = Polytope.of(limits)
    y = 0.5 + torch.randn(8, 4, dtype=torch.float64, generator=generator(seed))
    found = polytope.inside(polytope.project(y)).numpy()
    expected = np.array([nearest(row, limits, polytope.centre.numpy()) for row in y.numpy()])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert bool(polytope.contains(torch.from_numpy(found), 1e-12).all())


def test_coordinates_that_are_held_stay() -> None:
    polytope = Polytope.of(simplex(4))
    y = torch.tensor([[0.2, 0.9, 0.4, -0.3]], dtype=torch.float64)
    x = polytope.project(y, torch.tensor([True, False, False, False]))[0]
    assert x[0] == 0.2
    np.testing.assert_allclose(x[1:].numpy(), 0.8 * on_simplex(y[0, 1:].numpy() / 0.8), atol=1e-12)


def test_points_of_a_simplex_are_uniform_and_on_it() -> None:
    x = Polytope.of(simplex(5)).sample(4000, generator(), (2,))
    assert x.shape == (2, 4000, 5)
    assert float((x.sum(-1) - 1).abs().max()) < 1e-12
    assert float(x.min()) >= 0
    # A flat Dirichlet distribution: mean 1/5, variance 4/150; five standard errors.
    np.testing.assert_allclose(x.mean((0, 1)).numpy(), 0.2, atol=5 * np.sqrt(4 / 150 / 8000))
    np.testing.assert_allclose(x.var((0, 1)).numpy(), 4 / 150, rtol=0.1)


def test_a_row_of_a_batch_draws_what_it_draws_alone() -> None:
    polytope = Polytope.of(some_limits(1))
    both = polytope.sample(6, [generator(1), generator(2)], (2,))
    torch.testing.assert_close(both[1], polytope.sample(6, generator(2)), rtol=0, atol=0)


def test_a_thin_part_is_sampled_along_its_length() -> None:
    row = np.array([[1.0, 1.0, 0.0]]) / np.sqrt(2)
    thin = Limits(row, np.array([0.5]), np.array([0.5 + 1e-6]), np.zeros(3), np.ones(3))
    x = Polytope.of(thin).sample(400, generator())
    assert bool((x.std(0) > 0.15).all())


def test_equalities_that_follow_from_inequalities_take_a_dimension() -> None:
    row = np.array([[1.0, 1.0, 0.0]]) / np.sqrt(2)
    twice = np.concatenate([row, row])
    limits = Limits(twice, np.array([-np.inf, 0.5]), np.array([0.5, np.inf]), np.zeros(3), np.ones(3))
    polytope = Polytope.of(limits)
    assert polytope.k == 2
    x = polytope.sample(20, generator()).numpy()
    np.testing.assert_allclose(x @ row[0], 0.5, atol=1e-9)


def test_a_single_point_and_none() -> None:
    corner = simplex(3)._replace(upper=np.array([1.0, 0.0, 0.0]))
    polytope = Polytope.of(corner)
    assert polytope.k == 0
    np.testing.assert_allclose(polytope.sample(2, generator()).numpy(), [[1, 0, 0]] * 2, atol=1e-12)
    with pytest.raises(Empty):
        Polytope.of(simplex(3)._replace(upper=np.full(3, 0.3)))


def test_the_nearest_whole_numbers() -> None:
    """By brute force over all of them."""
    counts = np.array([5, 5, 5])
    centres = (np.arange(5) + 0.5) / 5
    row = np.array([[1.0, 2.0, 1.0]]) / np.sqrt(6)
    limits = Limits(row, np.array([0.5]), np.array([0.9]), np.full(3, 0.1), np.full(3, 0.9))
    points = np.array(list(itertools.product(centres, repeat=3)))
    points = points[(points @ row[0] >= 0.5) & (points @ row[0] <= 0.9)]
    for y in np.random.default_rng(0).random((5, 3)):
        found = nearest_on_lattice(y, counts, limits)
        assert np.abs(points - found).sum(1).min() < 1e-9
        assert np.abs(found - y).sum() == pytest.approx(np.abs(points - y).sum(1).min())
    with pytest.raises(Empty):
        nearest_on_lattice(points[0], counts, limits._replace(lo=np.array([0.51]), hi=np.array([0.52])))


@pytest.mark.parametrize("seed", [1, 2])
def test_descent_ends_where_an_independent_method_does(seed: int) -> None:
    """Quadratics of condition 100, most of whose minima are on the border."""
    limits = some_limits(seed)
    polytope = Polytope.of(limits)
    scale = torch.logspace(0, 2, 4, dtype=torch.float64)
    goal = 0.5 + torch.randn(2, 3, 4, dtype=torch.float64, generator=generator(seed))

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return (scale * (x - goal).square()).sum(-1), 2 * scale * (x - goal)

    start = polytope.centre.expand_as(goal).clone()
    end = spg(f, start, polytope.project, steps=200)
    x = polytope.inside(end.x)
    for i, j in itertools.product(range(2), range(3)):
        half = np.sqrt(scale.numpy())
        scaled = limits._replace(C=limits.C / half, lower=limits.lower * half, upper=limits.upper * half)
        expected = nearest(goal[i, j].numpy() * half, scaled, polytope.centre.numpy() * half) / half
        np.testing.assert_allclose(x[i, j].numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_descent_of_a_slope_ends_at_the_corner_of_a_linear_program(seed: int) -> None:
    """Steps grow where there is no curvature, and what is projected from afar would not be inside."""
    limits = some_limits(seed)
    polytope = Polytope.of(limits)
    slope = torch.randn(20, 4, dtype=torch.float64, generator=generator(seed))
    start = polytope.sample(20, generator(seed))
    end = spg(lambda x: ((x * slope).sum(-1), slope.clone()), start, polytope.project, steps=40)
    assert bool(polytope.contains(end.x, 1e-6).all())
    rows, most = np.concatenate([limits.C, -limits.C]), np.concatenate([limits.hi, -limits.lo])
    real = np.isfinite(most)
    least = [linprog(row, A_ub=rows[real], b_ub=most[real], bounds=(0, 1)).fun for row in slope.numpy()]
    np.testing.assert_allclose(end.value.numpy(), least, atol=1e-5)


def test_descent_where_the_objective_is_not_a_number() -> None:
    """Such a row stays where it is, the others go on."""
    polytope = Polytope.of(simplex(3))
    start = polytope.sample(2, generator())

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        bad = torch.tensor([torch.nan, 1.0], dtype=torch.float64)
        return bad * x.square().sum(-1), 2 * bad[:, None] * x

    end = spg(f, start, polytope.project, steps=50).x
    torch.testing.assert_close(end[0], start[0], rtol=0, atol=0)
    np.testing.assert_allclose(end[1].numpy(), 1 / 3, atol=1e-5)


def test_the_nearest_point_beside_coordinates_that_are_held_is_found_from_afar() -> None:
    """What is left of an equality may be short: x is 10 of 58 here, with the others held."""
    parameters = {"n": Int(1, 30), "k": Int(1, 30), "x": Float(0, 10), "y": Float(0, 10)}
    limits = [Linear({"n": 1, "k": 1, "x": 1}, equals=20), Linear({"k": 1, "y": -1}, upper=3)]
    polytope = Space(parameters, constraints=limits).region().polytope
    inside = polytope.sample(200, generator())
    held = torch.tensor([True, True, False, False])
    far = torch.where(held, inside, inside + torch.randn(200, 4, dtype=torch.float64, generator=generator(1)))
    found = polytope.project(far, held)
    assert bool((found[:, :2] == inside[:, :2]).all())
    torch.testing.assert_close(found[:, 2], inside[:, 2], atol=1e-4, rtol=0)
    assert bool(polytope.contains(found, 1e-4).all())
