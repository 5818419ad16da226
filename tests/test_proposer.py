from __future__ import annotations

import numpy as np
import pytest
import torch

from modeseek.domain import rounding_of
from modeseek.errors import SpaceExhausted
from modeseek.history import SAME_POINT, fresh
from modeseek.proposer import remaining
from modeseek.settings import generator
from modeseek.space import Float, Int, Space

FINITE = Space({"a": Int(0, 2), "b": Int(0, 3)})


def test_points_are_the_same_up_to_rounding_error():
    proposed = np.array([[0.5, 0.5]])
    points = np.array([[0.5, 0.5], [0.5, 0.5 + SAME_POINT / 2], [0.5, 0.5 + 2 * SAME_POINT], [0.1, 0.5]])
    assert fresh(points, proposed).tolist() == points[2:].tolist()
    assert fresh(points, np.empty((0, 2))).tolist() == points.tolist()


def test_all_that_remains_of_a_finite_space():
    grid = FINITE.grid()
    left = remaining(FINITE, grid[:9], np.random.default_rng(0))
    assert sorted(left.tolist()) == sorted(grid[9:].tolist())
    with pytest.raises(SpaceExhausted):
        remaining(FINITE, grid, np.random.default_rng(0))


def test_something_always_remains_of_a_continuous_space():
    space = Space({"x": Float(0, 1), "k": Int(0, 1)})
    left = remaining(space, space.snap(np.random.default_rng(1).random((50, 2))), np.random.default_rng(0))
    assert len(left) > 1000
    assert np.array_equal(space.snap(left), left)


def test_streams_of_one_seed_differ_by_purpose_and_number():
    draws = [torch.rand((), generator=generator(*key)).item() for key in [(0, 0), (0, 1), (1, 0), (0, 1, 0), (0, 1, 1)]]
    assert len(set(draws)) == len(draws)
    assert torch.rand((), generator=generator(0, 1, 1)).item() == draws[-1]


def test_rounding_is_what_the_space_evaluates():
    space = Space({"x": Float(0, 1), "k": Int(0, 3), "a": Float(1, 9, log=True), "s": Float(0, 1, step=0.1)})
    device = torch.device("cpu")
    found = rounding_of(space, device)
    assert [name for name, free in zip(space.coordinates, found.continuous.tolist(), strict=True) if free] == ["a", "x"]
    points = torch.rand(2, 5, 4, dtype=torch.float64, generator=generator(0))
    snapped = found.snap(points)
    assert snapped.shape == points.shape
    for row, original in zip(snapped.reshape(-1, 4), points.reshape(-1, 4), strict=True):
        assert np.allclose(space.encode(space.decode(original)), row, atol=1e-12)
    assert snapped[..., found.continuous].equal(points[..., found.continuous])
    assert rounding_of(Space.box([0, 0], [1, 1]), device) is None
