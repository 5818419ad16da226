"""How many hills the best pseudo-inputs are on, and that a model is as large as these are worth, row by row."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from modeseek import dms
from modeseek.config import DMSConfig
from modeseek.dms import Found, seek
from modeseek.fitting import fit_surrogate
from modeseek.hills import WIDTH, best_quarter, count_hills, is_one_hill
from shared import TRAINED, generator, hill

FEW, FULL = dataclasses.replace(TRAINED, hills=4, polish=False), dataclasses.replace(TRAINED, polish=False)


def clusters(count: int, m: int = 80, d: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs around so many places that are 0.3 apart, at least, with the best label in the midst of each: m x d, m."""
    middle = torch.full((m, d), 0.5, dtype=torch.float64)
    middle[:, 0] = 0.05 + 0.3 * (torch.arange(m) % count)
    off = 0.04 * (torch.rand(m, d, dtype=torch.float64, generator=generator(seed)) - 0.5)
    return middle + off, -off.abs().amax(-1)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_hills_are_counted_row_by_row(count: int) -> None:
    x, y = (torch.stack(parts) for parts in zip(*map(clusters, (count, 1, 4)), strict=True))
    assert count_hills(x, y).tolist() == [count, 1, 4]
    assert count_hills(x[None], y[None]).tolist() == [[count, 1, 4]]
    assert is_one_hill(x, y, WIDTH).tolist()[1:] == [True, False]
    order = torch.randperm(80, generator=generator(3))
    assert count_hills(x[:, order], y[:, order]).tolist() == [count, 1, 4]


def test_a_hill_is_where_nothing_near_is_better() -> None:
    x = torch.rand(200, 2, dtype=torch.float64, generator=generator(1))
    y = (9 * x).sin().sum(-1)
    top = sorted(range(200), key=lambda i: -float(y[i]))[:50]
    torch.testing.assert_close(best_quarter(x, y), x[top])
    alone = [i for i in top if not any(y[j] > y[i] and (x[i] - x[j]).abs().max() < WIDTH for j in range(200))]
    assert count_hills(x, y) == len(alone) > 1


def test_what_is_on_a_low_hill_does_not_count() -> None:
    x, y = clusters(4)
    low = torch.arange(80) % 4 == 3
    assert count_hills(x, y - 10 * low) == 3


def test_equal_inputs_and_labels_are_one_hill() -> None:
    x = torch.full((2, 12, 3), 0.4, dtype=torch.float64)
    assert count_hills(x, torch.zeros(2, 12, dtype=torch.float64)).tolist() == [1, 1]


def found(
    counts: list[int], config: DMSConfig, monkeypatch: pytest.MonkeyPatch, rows: list[int] | None = None
) -> Found:
    """What is found from a pseudo-dataset with so many hills in each row, of some of the rows."""
    rows = list(range(len(counts))) if rows is None else rows
    parts = [clusters(counts[row], m=96, seed=row) for row in rows]
    x, y = (torch.stack(part) for part in zip(*parts, strict=True))
    monkeypatch.setattr(dms, "pseudo_dataset", lambda *_, **__: (x, y))
    gp = fit_surrogate(*hill(20, 3, len(rows)), config)
    return seek(gp, config, [generator(row) for row in rows])


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Rows, pseudo-inputs and epochs of each training."""
    seen: list[tuple[int, int, int]] = []
    real = dms.train

    def spy(theta: Tensor, x: Tensor, y: Tensor, **rest: Any) -> tuple[Tensor, Tensor]:
        seen.append((len(theta), x.shape[-2], rest["schedule"].epochs))
        return real(theta, x, y, **rest)

    monkeypatch.setattr(dms, "train", spy)
    return seen


def test_few_hills_are_worth_a_part_of_the_model(
    monkeypatch: pytest.MonkeyPatch, trained: list[tuple[int, int, int]]
) -> None:
    found([1, 4, 2, 1], FEW, monkeypatch)
    assert trained == [(2, 24, 3), (1, 48, 5), (1, 96, 10)]
    trained.clear()
    found([1, 4, 2, 1], FULL, monkeypatch)
    assert trained == [(4, 96, 10)]


def test_enough_hills_are_worth_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    adapted, fixed = (found([4, 4], config, monkeypatch) for config in (FEW, FULL))
    assert adapted.candidates.equal(fixed.candidates)
    assert adapted.network.equal(fixed.network)
    one = found([1], FEW, monkeypatch)
    small = dataclasses.replace(FULL, epochs=3, hold_epochs=2)
    x, y = clusters(1, m=96)
    monkeypatch.setattr(dms, "pseudo_dataset", lambda *_, **__: (x[None, :24], y[None, :24]))
    alike = seek(fit_surrogate(*hill(20, 3), small), small, [generator(0)])
    assert one.network.equal(alike.network), "as with these sizes for all"
    assert one.candidates.equal(alike.candidates)


def test_a_row_gets_what_it_would_get_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [1, 4, 2, 1]
    together = found(counts, FEW, monkeypatch)
    for row in range(4):
        alone = found(counts, FEW, monkeypatch, [row])
        for name in ("candidates", "network", "mode"):
            torch.testing.assert_close(getattr(together, name)[row], getattr(alone, name)[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("batch", [(), (2, 2)])
def test_any_leading_dimensions(batch: tuple[int, ...]) -> None:
    X = torch.rand(*batch, 12, 2, dtype=torch.float64, generator=generator())
    gp = fit_surrogate(X, (9 * X).sin().sum(-1), FEW)
    assert seek(gp, FEW, generator()).network.shape[:-1] == batch


def test_observations_are_never_cut(monkeypatch: pytest.MonkeyPatch, trained: list[tuple[int, int, int]]) -> None:
    config = dataclasses.replace(FEW, train_on="observed")
    seek(fit_surrogate(*hill(20, 3), config), config, generator())
    assert trained == [(1, 20, 10)]
