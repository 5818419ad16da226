"""Tables of costs: floors, exponents of known powers, and the minutes of campaigns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modeseek.bench.campaign.records import Record
from modeseek.bench.measure.cost import Speed, work_of
from modeseek.bench.measure.measurements import Measurement, write
from modeseek.bench.report.cost import batches_table, campaign_table, exponents, growth_table
from modeseek.bench.report.report import write_report
from modeseek.bench.tasks import find_task
from modeseek.dms import STAGES


def test_batches_have_their_floor_and_the_work_of_a_replication() -> None:
    speed, config = Speed(5e13, 6e13, 4e11), find_task("levy-10").config()
    work = work_of(10, 160, config, 20)
    floor = 8 * work.seconds(speed)
    measured = {"task": "levy-10", "method": "dms-paper", "batch": 8, "device": "GPU", "threads": 1}
    measured |= {"seconds": 2 * floor, "stages": dict.fromkeys(STAGES, 0.001), "floor": floor}
    measured["work"] = work._asdict() | {"float64": work.float64}
    table = batches_table([measured])
    assert table.header[-4:] == ["GFLOP", "GB", "over floor", "× paper"]
    flops = f"{work.float32 / 1e9:.3g} + {work.float64 / 1e9:.3g}"
    assert table.cells[0][-4:-1] == [flops, f"{work.traffic / 1e9:.3g}", f"2.0 × {floor:.2g}"]
    (row,) = table.rows
    numbers = [row[name] for name in ("GFLOP in float32", "GFLOP in float64", "GB")]
    assert numbers == [work.float32 / 1e9, work.float64 / 1e9, work.traffic / 1e9]
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
    assert table.header == ["measured on", "batch", "d", "n", "m", "S", "E", "L", "H"]
    assert table.cells == [["A, 1 thread", "1", *7 * [""]], ["B, 1 thread", "1", "", "1.00", *5 * [""]]]
    write(tmp_path / "results" / "growth.json", [*few, *some])
    write_report(tmp_path / "results", tmp_path / "report")
    lines = (tmp_path / "report" / "growth.csv").read_text().splitlines()
    assert lines[:2] == ["measured on,batch,d,n,m,S,E,L,H", '"A, 1 thread",1,,,,,,,']
    assert (tmp_path / "report" / "growth.png").exists()


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
