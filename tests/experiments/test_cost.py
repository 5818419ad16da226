"""Costs: floors from independent counts, exponents of known powers, and the commands' files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from modeseek.diffusion.network import initialize, layers
from modeseek.dms import DMSConfig
from modeseek.experiments import cost
from modeseek.experiments.cost import (
    Speed,
    campaign_table,
    exponents,
    floor_of,
    measure_batches,
    measure_growth,
    speed_of,
)
from modeseek.experiments.measurements import read
from modeseek.experiments.records import Record
from modeseek.experiments.report import write_report

CHEAP = DMSConfig(m=32, K=1, S=16, epochs=2, steps=2, hidden=16)


def test_the_floor_counts_the_multiplications_of_training_and_sampling() -> None:
    """With infinitely fast float64 and memory only the network is left: two operations a weight and pass."""
    config = DMSConfig(m=100, S=50, epochs=3, steps=4, hidden=32, w=1.0)
    theta = layers(initialize((), 5, 32, torch.Generator()), 5, 32)
    weights = sum(tensor.numel() for tensor in theta)
    floor = floor_of(5, 30, config, 10, Speed(1.0, float("inf"), float("inf")))
    assert floor == 3 * 100 * 6 * weights + 4 * 2 * 2 * 50 * 2 * weights


def test_the_floor_grows_with_the_cube_of_n_for_a_fit() -> None:
    config = DMSConfig(m=1, K=0)
    speed = Speed(float("inf"), 1.0, float("inf"))
    assert floor_of(2, 2000, config, 10, speed) / floor_of(2, 1000, config, 10, speed) == pytest.approx(8, rel=0.01)


def test_exponents_are_those_of_powers() -> None:
    rows = [{"size": "n", "value": v, "seconds": 3 * v**2.5} for v in (10, 20, 50, 100)]
    rows += [{"size": "S", "value": v, "seconds": 0.7} for v in (10, 20, 50)]
    assert exponents(rows) == {"n": pytest.approx(2.5), "S": pytest.approx(0.0, abs=1e-9)}


def test_a_machine_has_a_speed() -> None:
    speed = speed_of(torch.device("cpu"), size=512, repeats=2)
    assert all(1e6 < rate < 1e16 for rate in speed)
    assert speed.float32 > 0.5 * speed.float64


def test_measurements_become_tables_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "DMSConfig", lambda **sizes: CHEAP)
    monkeypatch.setattr("modeseek.problems.Problem.config", lambda self: CHEAP)
    monkeypatch.setattr(cost, "speed_of", lambda device: Speed(1e10, 1e10, 1e10))
    for _ in range(2):  # measured again, a row is replaced
        for m in measure_batches(["styblinski-tang-2"], [1, 3], repeats=1):
            cost.save(tmp_path / "results" / "batches.json", m)
    for m in measure_growth({"n": (5, 10), "d": (2, 3)}, repeats=1):
        cost.save(tmp_path / "results" / "growth.json", m)
    rows = read(tmp_path / "results" / "batches.json")
    assert [(row["method"], row["batch"]) for row in rows] == [
        ("dms-paper", 1), ("dms-paper", 3), ("dms", 1), ("dms", 3),
    ]  # fmt: skip
    for row in rows:
        assert 0 < sum(row["stages"].values()) <= row["seconds"]
        assert row["floor"] > 0
    files = {path.name for path in write_report(tmp_path / "results", tmp_path / "report")}
    assert {"batches.md", "batches.csv", "growth.md", "growth.png", "report.html"} <= files


def test_the_minutes_of_a_campaign_are_those_of_its_batches(
    make_record: Callable[[str, str, int, float], Record],
) -> None:
    def on(device: str, task: str, method: str, replication: int, batch: int, seconds: list[float]) -> Record:
        record = make_record(task, method, replication, 1.0)
        return replace(record, device=device, batch=batch, iterations=seconds)

    batch = [on("cuda", "styblinski-tang-2", "dms-paper", r, 4, [1.5] * 40) for r in range(4)]
    variant = on("cuda:0", "levy-10", "dms[K=0]", 0, 1, [30.0])
    elsewhere = on("cpu", "levy-10", "dms", 0, 1, [1e6])
    papers = 4 * 40 * 2.13 / 60
    assert campaign_table([*batch, variant, elsewhere]).cells == [
        ["styblinski-tang-2", "dms-paper", "4", "1.0", f"{papers:.1f}"],
        ["", "variants", "", "0.5", ""],
        ["all", "", "", "1.5", ""],
    ]
