"""Ablations: which methods they need, and that they stay out of the comparison of methods."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from modeseek.bench.campaign import campaign
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.replication import Work
from modeseek.bench.methods import variants
from modeseek.bench.report import ablations, figures
from modeseek.bench.report.curves import Gathered, gather
from modeseek.bench.tasks import find_task
from modeseek.commands import main


@pytest.fixture
def runs(tmp_path: Path, make_record: Callable[[str, str, int, float], Record]) -> Gathered:
    store = Store(tmp_path)
    for task, method, level in (
        ("styblinski-tang-2", "dms-paper", 0.1),
        ("styblinski-tang-2", "dms-paper[rho=0]", 1.0),
        ("styblinski-tang-2", "dms-paper[rho=3]", 0.01),
        ("styblinski-tang-2", "ei", 0.1),
        ("styblinski-tang-2", "dms[w=0]", 0.1),
        ("levy-10", "dms-paper", 0.1),
        ("levy-10", "dms-paper[K=0]", 1.0),
        ("levy-10", "dms-paper[m=500]", 0.5),
    ):
        for replication in range(8):
            store.append(make_record(task, method, replication, level))
    return gather(Store(tmp_path))


@pytest.mark.parametrize("task", variants.ABLATION_TASKS)
def test_every_value_is_run_once_and_differs_from_the_preset(task: str) -> None:
    names = variants.ablations(task)
    configs = [Work(task, name, 0).config for name in names]
    assert configs[0] == find_task(task).config()
    assert len({dataclasses.replace(config, name="") for config in configs}) == len(names)
    assert {f"dms-paper[rho={rho}]" for rho in (0, 2, 3)} | {"dms-paper[train_on=observed]"} <= set(names)


def test_the_command_line_knows_the_list_of_each_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[Sequence[str], Sequence[str]]] = []

    def remember(tasks: Sequence[str], methods: Sequence[str], *_: Any, **__: Any) -> list[Any]:
        asked.append((tasks, methods))
        return []

    monkeypatch.setattr(campaign, "run_campaign", remember)
    main(["bench", "run", "--task", ",".join(variants.ABLATION_TASKS), "--method", "ablations", "--out", str(tmp_path)])
    assert asked == [([task], variants.ablations(task)) for task in variants.ABLATION_TASKS]
    asked.clear()
    main(["bench", "run", "--task", "levy-10", "--method", "dms,ablations,ei", "--out", str(tmp_path)])
    assert asked == [(["levy-10"], ["dms", *variants.ablations("levy-10"), "ei"])], "beside others, too"


def test_variants_are_apart_from_the_methods_that_are_compared(runs: Gathered) -> None:
    compared, ablated, *_ = ablations.split(runs)
    assert list(compared["styblinski-tang-2"]) == ["dms[w=0]", "dms-paper", "ei"]
    assert list(compared["levy-10"]) == ["dms-paper"]
    assert list(ablated["styblinski-tang-2"]) == ["dms-paper", "dms-paper[rho=0]", "dms-paper[rho=3]"]
    del runs["levy-10"]["dms-paper[K=0]"], runs["levy-10"]["dms-paper[m=500]"]
    assert list(ablations.split(runs).ablated) == ["styblinski-tang-2"], "a preset alone is no ablation"


def test_curves_are_by_value_with_the_preset_among_them(runs: Gathered) -> None:
    found = ablations.variants_of(runs, "styblinski-tang-2", "rho")
    assert [(variant.value, variant.is_preset) for variant in found] == [(0, False), (1, True), (3, False)]
    assert [variant.value for variant in ablations.variants_of(runs, "levy-10", "m")] == [500, 800]
    assert ablations.variants_of(runs, "levy-10", "rho") == []


def test_the_table_has_final_regret_and_the_test_against_the_preset(runs: Gathered) -> None:
    table = ablations.table(ablations.split(runs).ablated)
    lines = {(line[0], line[1]): line[2:] for line in table.cells}
    assert lines["ρ, weight of σ", "1"][0].endswith("(paper)")
    assert re.fullmatch(r"\*\*0\.0\d+ ± 0\.0\d+\*\* better", lines["ρ, weight of σ", "3"][0])
    assert re.fullmatch(r"[^*]+ worse", lines["ρ, weight of σ", "0"][0])
    assert lines["ρ, weight of σ", "3"][1] == "", "not run on this task"
    final = {(row["task"], row["setting"], row["value"]): row["final"] for row in table.rows}
    assert final["levy-10", "K", 0] == pytest.approx(runs["levy-10"]["dms-paper[K=0]"].final.mean())
    assert final["levy-10", "K", 25] == final["levy-10", "m", 800]


def test_the_figure_has_a_panel_only_where_there_is_an_ablation(runs: Gathered, tmp_path: Path) -> None:
    drawn: list[Any] = []
    original = figures.save

    def remember(figure: Any, path: Path) -> list[Path]:
        drawn.extend(axes for axes in figure.axes if axes.axison)
        return original(figure, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save", remember)
        png, pdf = ablations.draw(ablations.split(runs).ablated, tmp_path / "ablations")
    titles = [axes.get_title() for axes in drawn]
    assert [title.split("\n")[0] for title in titles] == ["styblinski-tang-2", "levy-10", "levy-10"]
    labels = [text.get_text() for text in drawn[0].get_legend().get_texts()]
    assert labels == ["0", "1 (paper)", "3"]
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert pdf.read_bytes()[:4] == b"%PDF"
