"""Costs: floors from independent counts, exponents of known powers, and the commands' files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from modeseek.bench.campaign.records import Record
from modeseek.bench.measure import cost
from modeseek.bench.measure.cost import (
    Speed,
    batches_table,
    campaign_table,
    exponents,
    growth_table,
    measure_batches,
    measure_growth,
    speed_of,
    work_of,
)
from modeseek.bench.measure.measurements import Measurement, read, write
from modeseek.bench.report.report import write_report
from modeseek.bench.tasks import find_task
from modeseek.config import DMSConfig
from modeseek.diffusion.network import initialize, layers
from modeseek.dms import STAGES

CHEAP = DMSConfig(m=32, K=1, S=16, epochs=2, steps=2, hidden=16)


def test_the_floor_counts_the_multiplications_of_training_and_sampling() -> None:
    """With infinitely fast float64 and memory only the network is left: two operations a weight and pass."""
    config = DMSConfig(m=100, S=50, epochs=3, steps=4, hidden=32, w=1.0, p_drop=0.15)
    theta = layers(initialize((), 5, 32, torch.Generator()), 5, 32)
    weights = sum(tensor.numel() for tensor in theta)
    floor = work_of(5, 30, config, 10).seconds(Speed(1.0, float("inf"), float("inf")))
    assert floor == 3 * 100 * 6 * weights + 4 * 2 * 2 * 50 * 2 * weights


def test_the_floor_grows_with_the_cube_of_n_for_a_fit() -> None:
    config = DMSConfig(m=1, K=0)
    speed = Speed(float("inf"), 1.0, float("inf"))
    few, many = (work_of(2, n, config, 10).seconds(speed) for n in (1000, 2000))
    assert many / few == pytest.approx(8, rel=0.01)


@pytest.mark.parametrize(("memory", "seconds"), [(4e15, 9.266693333e-4), (4e11, 3.950110933e-3)])
def test_the_floor_is_the_work_at_a_devices_speed(memory: float, seconds: float) -> None:
    """Levy-10 half way, where training waits for arithmetic, then for memory; the numbers are of an earlier version."""
    speed = Speed(5e13, 6e13, memory)
    work = work_of(10, 160, DMSConfig.paper(10), 20)
    assert work.seconds(speed) == pytest.approx(seconds, rel=1e-9)
    assert (work.float32, work.float64, work.traffic) == (45_164_400_000, 1_402_880_000, 1_498_428_800)


def test_batches_have_their_floor_and_the_work_of_a_replication() -> None:
    speed, config = Speed(5e13, 6e13, 4e11), find_task("levy-10").config()
    work = work_of(10, 160, config, 20)
    floor = 8 * work.seconds(speed)
    measured = {"task": "levy-10", "method": "dms-paper", "batch": 8, "device": "GPU", "threads": 1}
    measured |= {"seconds": 2 * floor, "stages": dict.fromkeys(STAGES, 0.001), "floor": floor, "work": work._asdict()}
    table = batches_table([measured])
    assert table.header[-4:] == ["GFLOP", "GB", "over floor", "× paper"]
    assert table.cells[0][-4:-1] == ["45.2 + 1.4", "1.5", "2.0 × 0.032"], "of the batch's 8 times 0.00395 s"
    (row,) = table.rows
    assert (row["GFLOP in float32"], row["GFLOP in float64"], row["GB"]) == (45.1644, 1.40288, 1.4984288)
    assert table.csv().count("\n") == 2


def test_exponents_are_those_of_powers() -> None:
    rows = [{"size": "n", "value": v, "seconds": 3 * v**2.5} for v in (10, 20, 50, 100)]
    rows += [{"size": "S", "value": v, "seconds": 0.7} for v in (10, 20, 50)]
    assert exponents(rows) == {"n": pytest.approx(2.5), "S": pytest.approx(0.0, abs=1e-9)}


def test_exponents_are_fitted_to_three_points_at_least() -> None:
    bent = [{"size": "n", "value": v, "seconds": s} for v, s in ((1, 1.0), (10, 10.0), (100, 10.0))]
    assert exponents(bent) == {"n": pytest.approx(0.5)}, "not the level of the upper two"
    assert exponents(bent[:2]) == {}


def test_measurements_of_growth_that_are_not_all_there_make_a_report(tmp_path: Path) -> None:
    def point(device: str, size: str, value: int) -> Measurement:
        stages = dict.fromkeys(STAGES, 0.1 * value)
        place = {"batch": 1, "device": device, "threads": 1}
        return place | {"size": size, "value": value, "seconds": float(value), "stages": stages}

    few = [point("A", "d", 2)]
    some = [*(point("B", "n", n) for n in (20, 50, 100, 200)), point("B", "S", 50), point("B", "S", 100)]
    table = growth_table([*few, *some])
    assert table.header == ["measured on", "batch", "d", "n", "m", "S"]
    assert table.cells == [["A, 1 thread", "1", "", "", "", ""], ["B, 1 thread", "1", "", "1.00", "", ""]]
    write(tmp_path / "results" / "growth.json", [*few, *some])
    write_report(tmp_path / "results", tmp_path / "report")
    lines = (tmp_path / "report" / "growth.csv").read_text().splitlines()
    assert lines[:2] == ["measured on,batch,d,n,m,S", '"A, 1 thread",1,,,,']
    assert (tmp_path / "report" / "growth.png").exists()


def test_a_machine_has_a_speed() -> None:
    speed = speed_of(torch.device("cpu"), size=512, repeats=2)
    assert all(1e6 < rate < 1e16 for rate in speed)
    assert speed.float32 > 0.5 * speed.float64


def test_measurements_become_tables_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "DMSConfig", lambda **sizes: CHEAP)
    monkeypatch.setattr("modeseek.bench.tasks.Problem.config", lambda self: CHEAP)
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
        config = {} if method.startswith("dms") else None
        return replace(record, config=config, device=device, batch=batch, iterations=seconds)

    batch = [on("cuda", "styblinski-tang-2", "dms-paper", r, 4, [1.5] * 40) for r in range(4)]
    variant = on("cuda:0", "levy-10", "dms[K=0]", 0, 1, [30.0])
    default = on("cuda", "levy-10", "dms", 0, 1, [60.0])
    papers = on("cuda", "levy-10", "dms-paper", 0, 1, [120.0])
    elsewhere = on("cpu", "levy-10", "dms", 0, 1, [1e6])
    other = on("cuda", "levy-10", "gibbon", 0, 1, [1e6])
    on_styblinski, on_levy = 4 * 40 * 2.13 / 60, 120 * 4.07 / 60
    assert campaign_table([*batch, variant, default, papers, elsewhere, other]).cells == [
        ["styblinski-tang-2", "dms-paper", "4", "1.0", f"{on_styblinski:.1f}"],
        ["levy-10", "dms", "1", "1.0", ""],
        ["levy-10", "dms-paper", "1", "2.0", f"{on_levy:.1f}"],
        ["", "variants", "", "0.5", ""],
        ["all that the paper timed", "", "", "3.0", f"{on_styblinski + on_levy:.1f}"],
        ["all", "", "", "4.5", ""],
    ]
    assert campaign_table([variant]).cells[-1] == ["all", "", "", "0.5", ""], "the paper has none of it"
    assert campaign_table([elsewhere, other]).cells == []
