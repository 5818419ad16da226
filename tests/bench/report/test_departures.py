"""The way from the paper's text to the default."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from modeseek.bench.campaign import campaign
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.replication import Work
from modeseek.bench.methods import variants
from modeseek.bench.report import ablations, departures
from modeseek.bench.report.curves import gather, holm
from modeseek.bench.tasks import find_task
from modeseek.commands import main
from modeseek.config import DMSConfig

TASK = "levy-10"


@pytest.mark.parametrize("task", [*variants.DEPARTURE_TASKS, "protein-structure"])
def test_each_step_changes_one_point_and_the_ends_are_the_presets(task: str) -> None:
    way = variants.departures(task)
    assert [name for name in way if "[" not in name] == ["dms-printed", "dms-paper", "dms"]
    configs = [Work(task, name, 0).config for name in way]
    d = find_task(task).d
    points = [*variants.TO_PAPER.values(), *variants.TO_DEFAULT.values()]
    for before, after in itertools.pairwise(configs):
        assert before is not None
        assert after is not None
        changed = {
            field.name
            for field in dataclasses.fields(DMSConfig)
            if getattr(before, field.name) != getattr(after, field.name)
        } - {"name"}
        same_sizes = {size for size, a, b in zip("mKS", before.sizes(d), after.sizes(d), strict=True) if a == b}
        idle = set() if task == "protein-structure" else {"round_inputs"}  # of a continuous space
        assert sum(not (changed - same_sizes - idle).isdisjoint(point) for point in points) == 1


def test_the_table_judges_each_step_by_the_one_before(
    tmp_path: Path, make_record: Callable[[str, str, int, float], Record]
) -> None:
    store = Store(tmp_path)
    methods = list(variants.departures(TASK))
    levels = dict(zip(methods, [1.0, 0.1, 0.1, 1.0], strict=False)) | {"dms-paper": 0.5, "dms": 0.5, "ei": 0.1}
    for method, level in levels.items():
        for replication in range(12):
            store.append(make_record(TASK, method, replication, level))
    compared, _, _, departed = ablations.split(gather(store))
    assert list(compared[TASK]) == ["dms", "dms-paper", "dms-printed", "ei"]
    assert list(departed[TASK]) == [method for method in methods if method in levels]
    table = departures.table(departed)
    judged = {row["method"]: row["beside the one before"] for row in table.rows}
    assert [judged[method] for method in methods[:4]] == ["", "better", "level", "worse"]
    assert judged["dms-paper"] == "", "the step before was not run"
    assert table.cells[1][1].endswith("better*")
    assert [line[-2] for line in table.cells[:4]] == ["", "1 / 0 / 0 (1 / 0)", "0 / 1 / 0 (0 / 0)", "0 / 0 / 1 (0 / 1)"]


def test_a_verdict_that_many_tests_may_bring_is_no_count_in_brackets(
    tmp_path: Path, make_record: Callable[[str, str, int, float], Record]
) -> None:
    store = Store(tmp_path)
    methods = list(variants.departures(TASK))[:4]
    for method, level in zip(methods, [1.0, 0.1, 0.1, 0.1], strict=True):
        for replication in range(6):
            store.append(make_record(TASK, method, replication, level))
    line = departures.table(ablations.split(gather(store)).departed).cells[1]
    assert (line[1].endswith("better"), line[-2]) == (True, "1 / 0 / 0 (0 / 0)"), "p is 1/32, and there are three tests"


def test_the_table_says_how_often_there_was_no_model(
    tmp_path: Path, make_record: Callable[[str, str, int, float], Record]
) -> None:
    store = Store(tmp_path)
    printed, step, *_ = variants.departures(TASK)
    for replication in range(4):
        record = make_record(TASK, printed, replication, 1.0)
        store.append(dataclasses.replace(record, fell_back=[replication == 0, True]))
        store.append(make_record(TASK, step, replication, 1.0))
    departed = ablations.split(gather(store)).departed
    table = departures.table(departed)
    assert [line[-1] for line in table.cells] == ["62", "–"], "five of eight iterations, and not recorded"
    assert [row["without a model"] for row in table.rows] == pytest.approx([0.625, np.nan], nan_ok=True)


def test_holms_correction_is_that_of_an_independent_computation() -> None:
    p = np.random.default_rng(0).random(20) ** 3
    by_definition = [min(1.0, max((20 - j) * q for j, q in enumerate(np.sort(p)) if q <= one)) for one in p]
    assert holm(list(p)) == pytest.approx(by_definition)
    assert holm([]) == []
    assert all(a <= b + 1e-12 for a, b in zip(stats.false_discovery_control(p), holm(list(p)), strict=True))


def test_a_variant_is_not_taken_for_a_misspelt_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr(campaign, "run_campaign", lambda tasks, methods, *_, **__: asked.extend(methods) or [])
    methods = [*variants.departures(TASK), "dms[keep_apart=true]", "dms-paper[keep_apart=true]"]
    assert main(["bench", "run", "--task", TASK, "--method", ",".join(methods), "--out", str(tmp_path)]) == 0
    assert asked == methods
    assert main(["bench", "run", "--task", TASK, "--method", "departure", "--out", str(tmp_path)]) == 1
