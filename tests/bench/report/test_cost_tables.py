"""Tables of costs: floors, and exponents of known powers."""

from __future__ import annotations

from pathlib import Path

import pytest

from modeseek.bench.measure.cost import Speed, work_of
from modeseek.bench.measure.measurements import Measurement, write
from modeseek.bench.report.cost import batches_table, exponents, growth_table
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
