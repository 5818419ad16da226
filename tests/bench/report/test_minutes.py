"""Minutes of a GPU: shares of batches, the sum over Figure 1, and what it says about the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.report import minutes
from modeseek.bench.report.minutes import TARGET, minutes_table, sections, verdict

Make = Callable[[str, str, int, float], Record]


@pytest.fixture
def on(make_record: Make) -> Callable[..., list[Record]]:
    def batch(device: str, task: str, method: str, seconds: list[float], size: int = 1) -> list[Record]:
        """A whole batch, each of whose records has its seconds."""
        each = [make_record(task, method, r, 1.0) for r in range(size)]
        return [replace(record, device=device, batch=size, iterations=seconds) for record in each]

    return batch


def test_a_batch_counts_once_and_the_paper_on_the_tasks_that_it_timed(on: Callable[..., list[Record]]) -> None:
    records = [
        *on("cuda", "styblinski-tang-2", "dms-paper", [1.5] * 40, 4),
        *on("cuda:0", "ackley-8", "dms-paper", [30.0] * 4),
        *on("cuda", "levy-10", "dms[K=0]", [30.0]),
        *on("cuda", "levy-10", "gibbon", [120.0]),
        *on("cuda", "hartmann-6", "gibbon", [60.0]),
        *on("cpu", "levy-10", "gibbon", [1e6]),
    ]
    table = minutes_table(records)
    on_styblinski, on_levy = 4 * 40 * 2.13 / 60, 120 * 2.04 / 60
    assert table.cells == [
        ["gibbon", "1 of 280", "2.0", "2.0", f"{on_levy:.0f}"],
        ["dms-paper", "5 of 280", "3.0", "1.0", f"{on_styblinski:.0f}"],
        ["all of Figure 1", "6 of 2740", "5.0, not all has run", "3.0", f"{on_styblinski + on_levy:.0f}"],
        ["other tasks, variants, earlier defaults", "2", "1.5", "", ""],
    ]
    by_task = {(row["task"], row["method"]): (row["replications"], row["minutes"]) for row in table.rows}
    assert by_task["styblinski-tang-2", "dms-paper"] == (4, 1.0)
    assert by_task["levy-10", "variants"] == (1, 0.5)
    assert sections([]) == []


def test_the_whole_of_figure_1_is_judged_by_its_sum(
    on: Callable[..., list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = minutes._of_figure_1()
    assert sum(wanted.values()) == 10 * 8 * 30 + 10 * 4 * 10 - 6 * 10, "without PES in 20, and PES and JES in 50"
    monkeypatch.setattr(minutes, "_of_figure_1", lambda: {("levy-10", "ei"): 3, ("levy-10", "ts"): 1})
    ours = on("cuda", "levy-10", "ei", [60.0 * TARGET], 3)
    most = on("cuda", "levy-10", "ts", [60.0])
    assert minutes_table(ours).cells[-1][1:3] == ["3 of 4", "90.0, not all has run"]
    assert minutes_table([*ours, *most]).cells[-1][1:3] == ["4 of 4", "91.0, over 90 by this sum"]
    alone = on("cuda", "levy-10", "ei", [60.0], 3)
    assert minutes_table([*alone, *most]).cells[-1][1:3] == ["4 of 4", "2.0, within 90"]
    assert verdict(91.0, complete=False) == "not all has run, and over 90 already by this sum"


def test_the_report_of_the_records_here_is_short() -> None:
    folder = Path(__file__).parents[3] / "results"
    (section,) = sections(Store(folder / "paper.parquet"))
    assert len(section.markdown().splitlines()) < 30
    assert "| all of Figure 1 |" in section.markdown()
