"""Many proposals at once."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch

from modeseek import Categorical, Float, Int, Linear, Optimizer, Space
from modeseek.history import APART, History
from modeseek.proposer import Proposer
from modeseek.settings import Settings
from modeseek.together import by_gain, propose_together
from shared import BOX, CHEAP, SMALLEST, generator, run, sphere

MANY = 20
MIXED = Space({"lr": Float(1e-4, 1e-1, log=True), "units": Int(1, 40), "act": Categorical(["relu", "tanh", "gelu"])})


def closest(opt: Optimizer) -> float:
    """The distance of the two closest pending points."""
    points = np.array([trial.unit for trial in opt.pending])
    distance = np.abs(points[:, None] - points[None]).max(-1)
    return float(distance[~np.eye(len(points), dtype=bool)].min())


def after(n: int, space: Space = BOX) -> Optimizer:
    opt = Optimizer(space, seed=0, config=SMALLEST, n_initial=5)
    return run(opt, n, lambda params: sphere(space.encode(params) - 0.3))


@pytest.mark.parametrize("space", [BOX, MIXED])
@pytest.mark.parametrize("q", [3, 60])
def test_proposals_that_are_evaluated_side_by_side_are_apart(q: int, space: Space) -> None:
    opt = after(12, space)
    asked = opt.ask(q)
    assert len(asked) == len({trial.unit for trial in asked}) == q
    assert [trial.number for trial in asked] == list(range(12, 12 + q))
    assert {trial.origin for trial in asked} == {"model"}
    assert closest(opt) >= APART * (1 - 1e-9)


def test_the_first_is_what_one_proposal_would_be() -> None:
    assert after(12).ask(MANY)[0].unit == after(12).ask().unit


def test_one_seed_gives_one_batch_and_later_batches_keep_away() -> None:
    opt = after(12)
    first, second = opt.ask(MANY), opt.ask(MANY)
    assert [trial.unit for trial in after(12).ask(MANY)] == [trial.unit for trial in first]
    assert not {trial.unit for trial in first} & {trial.unit for trial in second}
    assert closest(opt) >= APART * (1 - 1e-9)


def test_the_initial_design_comes_first() -> None:
    opt = Optimizer(BOX, seed=0, config=SMALLEST, n_initial=8)
    opt.tell_params([1.0, 2.0], 5.0)
    assert [trial.origin for trial in opt.ask(30)] == ["initial"] * 7 + ["model"] * 23


def test_a_finite_space_is_used_up_and_no_more() -> None:
    space = Space({"units": Int(1, 6), "act": Categorical(["relu", "tanh", "gelu", "silu", "elu", "selu"])})
    opt = after(8, space)
    asked = opt.ask(100)
    assert len(asked) == len({trial.unit for trial in opt.trials}) - 8 == 28


def test_known_constraints_and_fixed_values_hold() -> None:
    space = Space({name: Float(0, 1) for name in "abc"}, constraints=[Linear(dict.fromkeys("abc", 1), equals=1)])
    for trial in after(8, space).ask(MANY + 5):
        assert sum(trial.params.values()) == pytest.approx(1, abs=1e-9)
    assert {trial.params["act"] for trial in after(8, MIXED).ask(MANY, fixed={"act": "tanh"})} == {"tanh"}


def test_they_spread_where_little_is_known_and_gather_where_much_is() -> None:
    def spread(n: int) -> float:
        opt = Optimizer(BOX, seed=0, config=CHEAP)
        for x in np.random.default_rng(0).uniform(-5, 5, (n, 2)):
            opt.tell_params(x, sphere(x))
        return float(np.median(np.abs(np.array([trial.unit for trial in opt.ask(MANY)]) - 0.5).max(-1)))

    assert spread(60) < spread(11)


@pytest.mark.parametrize("q", [3, MANY])
def test_problems_side_by_side_get_what_they_would_alone(q: int) -> None:
    histories = []
    for i in range(2):
        X = np.random.default_rng(i).random((9, 2))
        histories.append(History.of(X, -np.square(X - 0.3 - 0.2 * i).sum(-1)))

    def proposers() -> list[Proposer]:
        return [Proposer(BOX, Settings.of(seed=i, config=SMALLEST, n_initial=5)) for i in range(2)]

    together = propose_together(proposers(), histories, 9, q)
    for i, of_row in enumerate(together):
        (alone,) = propose_together(proposers()[i : i + 1], histories[i : i + 1], 9, q)
        assert len(of_row) == len(alone) == q
        np.testing.assert_allclose([p.point for p in of_row], [p.point for p in alone], atol=1e-4)


def test_each_next_one_raises_the_best_of_a_batch_most() -> None:
    value = torch.rand(2, 6, 5, dtype=torch.float64, generator=generator())
    best = torch.full((2, 6), 0.4, dtype=torch.float64)
    for row, order in enumerate(by_gain(value, best).tolist()):
        assert sorted(order) == list(range(5))
        for i, chosen in enumerate(order):
            there = torch.cat([best[row, :, None], value[row][:, order[:i]]], -1)
            gains = {j: float(torch.cat([there, value[row, :, j : j + 1]], -1).amax(-1).mean()) for j in order[i:]}
            assert gains[chosen] == max(gains.values())


def test_black_box_constraints_go_one_by_one() -> None:
    opt = Optimizer(BOX, seed=0, config=SMALLEST, n_initial=5)
    for x in np.random.default_rng(0).uniform(-5, 5, (8, 2)):
        opt.tell_params(x, sphere(x), constraints=[float(x[0])])
    with mock.patch("modeseek.together.draw_paths") as drawn:
        assert len(opt.ask(2)) == 2
    drawn.assert_not_called()
