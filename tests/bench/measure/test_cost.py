"""Costs: floors from independent counts, exponents of known powers, and the commands' files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from modeseek.bench.measure import cost
from modeseek.bench.measure.cost import Speed, measure_batches, measure_growth, speed_of, work_of
from modeseek.bench.measure.measurements import read
from modeseek.bench.report.report import write_report
from modeseek.commands import main
from modeseek.config import DMSConfig
from modeseek.diffusion.network import initialize, layers
from modeseek.dms import STAGES
from shared import SMALLEST


def test_the_floor_counts_the_multiplications_of_training_and_sampling() -> None:
    """With infinitely fast float64 and memory only the network is left: two operations a weight and pass."""
    config = DMSConfig(m=100, S=50, epochs=3, steps=4, hidden=32, w=1.0, p_drop=0.15)
    theta = layers(initialize((), 5, 32, torch.Generator()), 5, 32)
    weights = sum(tensor.numel() for tensor in theta)
    floor = work_of(5, 30, config, 10).seconds(Speed(1.0, float("inf"), float("inf")))
    assert floor == 3 * 100 * 6 * weights + 4 * 2 * 2 * 50 * 2 * weights


def test_the_floor_grows_with_the_cube_of_n_for_a_fit() -> None:
    config = DMSConfig(m=1, K=0, S=1, warp="never")
    speed = Speed(float("inf"), 1.0, float("inf"))
    few, many = (work_of(2, n, config, 10).seconds(speed) for n in (250, 500))
    assert many / few == pytest.approx(8, rel=0.05)
    assert work_of(2, 5000, config, 10).seconds(speed) == pytest.approx(5000**3, rel=0.01), "of many, the last step"


@pytest.mark.parametrize("memory", [4e15, 4e11])
def test_training_waits_for_arithmetic_or_for_memory(memory: float) -> None:
    speed = Speed(5e13, 6e13, memory)
    work = work_of(10, 160, DMSConfig.paper(10), 20)
    arithmetic, traffic = work.training / speed.float32, work.traffic / memory
    assert work.floors(speed)["train"] == max(arithmetic, traffic)
    assert (arithmetic > traffic) == (memory == 4e15), "one case of each"
    assert work.seconds(speed) == pytest.approx(sum(work.floors(speed).values()))
    assert list(work.floors(speed)) == list(STAGES)


def test_the_choice_of_the_outcomes_shape_is_an_evaluation_of_either() -> None:
    fixed, chosen = (work_of(10, 160, DMSConfig(warp=warp), 1) for warp in ("never", "evidence"))
    evaluation = 160**3 + 4 * 160**2 * 10
    assert chosen.fit - fixed.fit == 2 * evaluation
    assert chosen._replace(fit=0) == fixed._replace(fit=0)


def test_a_machine_has_a_speed() -> None:
    speed = speed_of(torch.device("cpu"), size=512, repeats=2)
    assert all(1e6 < rate < 1e16 for rate in speed)
    assert speed.float32 > 0.5 * speed.float64


def test_measurements_become_tables_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "DMSConfig", lambda **sizes: SMALLEST)
    monkeypatch.setattr("modeseek.bench.tasks.Problem.config", lambda self: SMALLEST)
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
        assert row["work"]["float64"] > row["work"]["fit"] > 0
    files = {path.name for path in write_report(tmp_path / "results", tmp_path / "report")}
    assert {"batches.csv", "growth.csv", "growth.png", "report.html"} <= files


def test_each_size_of_the_model_is_changed_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[DMSConfig] = []

    def note(observed: object, config: DMSConfig, repeats: int) -> list[dict[str, object]]:
        seen.append(config)
        return [{"seconds": 1.0, "stages": dict.fromkeys(STAGES, 0.2)}]

    monkeypatch.setattr(cost, "_iterations", note)
    found = list(measure_growth({"E": (3,), "L": (4,), "H": (5,), "m": (6,), "S": (7,)}))
    assert [(row["size"], row["value"]) for row in found] == [("E", 3), ("L", 4), ("H", 5), ("m", 6), ("S", 7)]
    sizes = [(config.epochs, config.steps, config.hidden, config.m, config.S) for config in seen]
    assert sizes == [
        (3, 15, 256, 800, 300), (20, 4, 256, 800, 300), (20, 15, 5, 800, 300), (20, 15, 256, 6, 300),
        (20, 15, 256, 800, 7),
    ]  # fmt: skip
    assert {config.one_hill for config in seen} == {0.0}, "the model is trained whatever the data"


@pytest.mark.parametrize(("given", "batches"), [([], [1]), (["--batch", "2,3"], [2, 3])])
def test_growth_is_measured_with_each_batch(
    given: list[str], batches: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "DMSConfig", lambda **sizes: SMALLEST)
    small = partial(measure_growth, {"n": (5,)}, repeats=1)
    monkeypatch.setattr(cost, "measure_growth", small)
    assert main(["bench", "growth", *given, "--out", str(tmp_path)]) == 0
    assert [row["batch"] for row in read(tmp_path / "growth.json")] == batches


def test_a_gpu_is_measured_with_many_replications_too() -> None:
    assert cost.growth_batches("cpu") == (1,)
    assert cost.growth_batches("cuda:0") == (1, 128)
