"""Loops as CUDA graphs: the same turns as plain calls."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from modeseek import graphs
from modeseek.config import DMSConfig
from modeseek.dms import suggest
from modeseek.graphs import iterate, recorded, tree_map

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=[gpu, pytest.mark.gpu])]


class Count(NamedTuple):
    number: Tensor
    running: Tensor


def count_to(limit: Tensor) -> tuple[Count, list[int]]:
    calls: list[int] = []

    def turn(count: Count) -> Count:
        calls.append(1)
        number = count.number + count.running
        return Count(number, number < limit)

    zero = torch.zeros_like(limit)
    return iterate(turn, Count(zero, zero < limit), lambda count: count.running, most=50), calls


@pytest.mark.parametrize("device", DEVICES)
def test_each_entry_stops_by_itself(device: str) -> None:
    limit = torch.tensor([0, 3, 7, 49, 100], device=device)
    end, _ = count_to(limit)
    assert end.number.tolist() == [0, 3, 7, 49, 50]
    assert end.running.tolist() == [False, False, False, False, True]


def test_a_cpu_makes_no_turn_too_many() -> None:
    assert len(count_to(torch.tensor([2, 5]))[1]) == 5
    assert count_to(torch.tensor([0]))[1] == []


@gpu
@pytest.mark.gpu
def test_python_runs_a_recorded_turn_twice_only() -> None:
    end, calls = count_to(torch.tensor([30], device="cuda"))
    assert end.number.item() == 30
    assert len(calls) == 2


@pytest.mark.parametrize("device", DEVICES)
def test_recorded_work_is_done_at_every_call(device: str) -> None:
    total = torch.zeros((), device=device)
    work = recorded(lambda: total.add_(1), total.device)
    for _ in range(5):
        work()
    assert total.item() == 5


def test_trees_keep_their_kinds() -> None:
    doubled = tree_map(lambda t: 2 * t, Count(torch.tensor(1), torch.tensor(4)))
    assert doubled == Count(torch.tensor(2), torch.tensor(8))


@gpu
@pytest.mark.gpu
@pytest.mark.parametrize("config", [DMSConfig(), DMSConfig.paper(3), DMSConfig(solver="sde", loss_weight="one")])
@pytest.mark.parametrize("b", [1, 4])
def test_a_suggestion_is_the_same_without_graphs(config: DMSConfig, b: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = torch.rand(b, 30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cuda()
    Y = -(X - 0.4).square().sum(-1) + 0.3 * (9 * X).sin().sum(-1)
    by_graph = suggest(X, Y, config, torch.Generator().manual_seed(1))
    monkeypatch.setattr("modeseek.diffusion.training.recorded", lambda work, device: work)
    monkeypatch.setattr("modeseek.diffusion.sampling.recorded", lambda work, device: work)
    monkeypatch.setattr(graphs, "recorded", lambda work, device: work)
    plainly = suggest(X, Y, config, torch.Generator().manual_seed(1))
    torch.testing.assert_close(by_graph.gp.hyperparameters.lengthscale, plainly.gp.hyperparameters.lengthscale)
    torch.testing.assert_close(by_graph.pseudo_x, plainly.pseudo_x, atol=1e-6, rtol=0)
    torch.testing.assert_close(by_graph.candidates, plainly.candidates, atol=1e-3, rtol=0)
    torch.testing.assert_close(by_graph.x_next, plainly.x_next, atol=1e-3, rtol=0)
