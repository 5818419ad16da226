"""The weight ρ of an iteration, from what the last ones have brought."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from modeseek import DMSConfig
from modeseek.exploration import has_stalled, weights

PERIODS = [(1, 4), (2, 4), (5, 10)]


def rising(n: int) -> Tensor:
    return torch.linspace(-1, 2, n, dtype=torch.float64)[None]


def level(n: int) -> Tensor:
    """Nothing is better than the first."""
    return torch.cat([torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, n - 1, dtype=torch.float64)], -1)


def rho(y: Tensor, d: int, config: DMSConfig | None = None, **known: int) -> float:
    return float(weights(y, d, config or DMSConfig(), **known))


@pytest.mark.parametrize(("d", "period"), PERIODS)
def test_a_run_that_gets_better_goes_on_from_there(d: int, period: int) -> None:
    assert {rho(rising(n), d) for n in range(20, 20 + 2 * period)} == {0.3}


@pytest.mark.parametrize(("d", "period"), PERIODS)
def test_one_iteration_in_2d_of_a_stalled_run_looks_far_away(d: int, period: int) -> None:
    found = [rho(level(n), d) for n in range(100, 100 + 5 * period)]
    assert found.count(3.0) == 5
    assert found.count(1.0) == 5 * period - 5
    assert {rho(level(n), d, DMSConfig.paper(d)) for n in range(1, 50)} == {1.0}


@pytest.mark.parametrize(("d", "period"), PERIODS)
@pytest.mark.parametrize("budget", [20, 30, 40])
def test_no_far_look_near_the_end_of_a_run_that_is_known(d: int, period: int, budget: int) -> None:
    numbers = range(period + 4, budget)
    known = [rho(level(n), d, left=budget - n) for n in numbers]
    unknown = [rho(level(n), d) for n in numbers]
    assert set(known[-period:]) == {1.0}
    assert known[:-period] == unknown[:-period]
    assert 3.0 in unknown[-period:]


def test_pending_inputs_count_toward_the_next_far_look_but_bring_nothing() -> None:
    assert rho(level(19), 2) == 3.0
    assert rho(level(17), 2, pending=2) == 3.0
    assert rho(rising(17), 2, pending=2) == 0.3


def test_without_a_rule_for_stalled_runs_far_looks_come_in_any_run() -> None:
    config = DMSConfig(rho=1, rho_stalled=None)
    assert [rho(rising(n), 2, config) for n in range(16, 20)] == [1, 1, 1, 3]
    assert rho(level(18), 2, DMSConfig(rho=2)) == 2  # what is asked for is the least


def test_each_problem_of_a_batch_has_its_own_weight() -> None:
    y = torch.cat([rising(18), level(18)])
    assert weights(y, 2, DMSConfig()).tolist() == [[0.3], [1.0]]


def test_a_run_has_stalled_when_its_last_outcomes_bring_less_than_a_hundredth_of_a_deviation() -> None:
    y = torch.zeros(2, 12, dtype=torch.float64)
    y[:, 7], y[:, 11] = 1, torch.tensor([1.02, 1.005])
    assert has_stalled(y, 2).tolist() == [False, True]
    assert has_stalled(y[:, 3:], 2).all()  # too few to say
    assert has_stalled(y, 12).all()
