"""The default without each of its ingredients: which methods those are, and what the table says they are worth."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modeseek.bench.campaign import campaign
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.replication import Work
from modeseek.bench.methods import PRESETS
from modeseek.bench.methods.variants import WITHOUT
from modeseek.bench.report import ablations, ingredients
from modeseek.bench.report.curves import Curves, Gathered, gather
from modeseek.bench.report.table import Table
from modeseek.commands import main
from modeseek.config import DMSConfig

TASKS = ("levy-10", "hartmann-6")


@pytest.fixture
def runs(tmp_path: Path, make_record: Callable[[str, str, int, float], Record]) -> Gathered:
    store = Store(tmp_path)
    for task, method, level in (
        ("levy-10", "dms-v1", 0.1),
        ("levy-10", "dms-v1[warp=never]", 1.0),
        ("levy-10", "dms-v1[w=2;p_drop=0.15]", 0.01),
        ("levy-10", "dms-v1[K=0]", 0.01),
        ("levy-10", "dms-paper", 0.3),
        ("levy-10", "ei", 0.1),
        ("hartmann-6", "dms-v1", 0.1),
        ("hartmann-6", "dms-v1[warp=never]", 0.2),
        ("ackley-8", "dms-v1", 0.2),
    ):
        for replication in range(8):
            store.append(make_record(task, method, replication, level))
    return gather(Store(tmp_path))


@pytest.mark.parametrize("task", TASKS)
def test_each_method_has_the_papers_setting_where_the_default_has_its_own(task: str) -> None:
    default, paper = PRESETS["dms-v1"](10), DMSConfig.paper(10)
    changed = []
    for method in WITHOUT:
        config = Work(task, method, 0).config
        assert config is not None
        names = {f.name for f in dataclasses.fields(config) if getattr(config, f.name) != getattr(default, f.name)}
        assert names > {"name"}
        if method == "dms-v1[warp=always]":  # half of an ingredient: the other half, and all of it, is another line
            assert (names, config.warp) == ({"name", "warp"}, "always")
            continue
        if method == "dms-v1[train_on=nothing]":  # which the paper has as well
            assert (names, config.train_on) == ({"name", "train_on"}, "nothing")
            continue
        changed += sorted(names - {"name"})
        assert all(getattr(config, name) == getattr(paper, name) for name in names - {"name"})
    assert len(changed) == len(set(changed)), "no ingredient is removed twice"
    differs = {f.name for f in dataclasses.fields(paper) if getattr(paper, f.name) != getattr(default, f.name)}
    assert set(changed) == differs - {"name", "m", "S"}, "and none is forgotten"


def test_the_command_line_knows_them_on_any_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[Sequence[str], Sequence[str]]] = []

    def remember(tasks: Sequence[str], methods: Sequence[str], *_: Any, **__: Any) -> list[Any]:
        asked.append((tasks, methods))
        return []

    monkeypatch.setattr(campaign, "run_campaign", remember)
    main(["bench", "run", "--task", ",".join(TASKS), "--method", "ingredients,dms-v1", "--out", str(tmp_path)])
    assert asked == [(list(TASKS), ["dms-v1", *WITHOUT])]


def test_they_are_apart_from_the_methods_that_are_compared(runs: Gathered) -> None:
    compared, ablated, removed, _ = ablations.split(runs)
    assert list(compared["levy-10"]) == ["dms-paper", "dms-v1", "dms-v1[K=0]", "ei"]
    assert list(compared["hartmann-6"]) == ["dms-v1"]
    assert ablated == {}
    assert {task: list(of) for task, of in removed.items()} == {
        "levy-10": ["dms-v1", "dms-v1[w=2;p_drop=0.15]", "dms-v1[warp=never]"],
        "hartmann-6": ["dms-v1", "dms-v1[warp=never]"],
    }


def ratio(of: dict[str, Curves], method: str) -> float:
    return float(np.exp((np.log(of[method].final) - np.log(of["dms-v1"].final)).mean()))


def columns(table: Table) -> dict[str, list[str]]:
    """The cells under each method, of the tasks and of the mean ratio."""
    names = {title: method for method, title in WITHOUT.items()} | {"(nothing)": "dms-v1"}
    return {names[title]: [line[i] for line in table.cells] for i, title in enumerate(table.header) if i}


def test_the_table_has_final_regret_the_test_and_the_geometric_mean_of_ratios(runs: Gathered) -> None:
    table = ingredients.table(ablations.split(runs).removed)
    assert table.header == ["without", "(nothing)", "warped outcomes", "samples without guidance"], "and no other"
    counts = ["at the end: worse / level / better", "all along: worse / level / better"]
    assert [line[0] for line in table.cells] == ["levy-10", "hartmann-6", *counts, "mean ratio"]
    lines = columns(table)
    assert lines["dms-v1"][-1] == "×1.00"
    both = np.sqrt(ratio(runs["levy-10"], "dms-v1[warp=never]") * ratio(runs["hartmann-6"], "dms-v1[warp=never]"))
    assert lines["dms-v1[warp=never]"][-1] == f"×{both:.2f}"
    assert re.fullmatch(r"[\d.]+ ± [\d.]+, worse at the end, worse all along", lines["dms-v1[warp=never]"][0])
    assert re.fullmatch(r".+, better at the end, better all along", lines["dms-v1[w=2;p_drop=0.15]"][0])
    assert [lines[name][2] for name in ("dms-v1", "dms-v1[warp=never]", "dms-v1[w=2;p_drop=0.15]")] == [
        "",
        "2 / 0 / 0",
        "0 / 0 / 1",
    ]
    assert lines["dms-v1[w=2;p_drop=0.15]"][-1] == f"×{ratio(runs['levy-10'], 'dms-v1[w=2;p_drop=0.15]'):.2f}"
    assert lines["dms-v1[w=2;p_drop=0.15]"][1] == "", "not run on this task"
    assert not any(word in "".join(lines["dms-v1"]) for word in ("worse", "better"))
    final = {(row["task"], row["method"]): row["final"] for row in table.rows}
    assert final["hartmann-6", "dms-v1"] == pytest.approx(runs["hartmann-6"]["dms-v1"].final.mean())


def test_without_the_default_there_is_nothing_to_compare_with(runs: Gathered) -> None:
    del runs["levy-10"]["dms-v1"]
    lines = columns(ingredients.table(ablations.split(runs).removed))
    assert lines["dms-v1[w=2;p_drop=0.15]"][-1] == ""
    assert not any(word in "".join(lines["dms-v1[w=2;p_drop=0.15]"]) for word in ("worse", "better"))
    assert lines["dms-v1[warp=never]"][-1] == f"×{ratio(runs['hartmann-6'], 'dms-v1[warp=never]'):.2f}"


def test_the_ratio_is_of_the_replications_that_both_have(runs: Gathered) -> None:
    of_levy = runs["levy-10"]
    dms, changed = of_levy["dms-v1"], of_levy["dms-v1[w=2;p_drop=0.15]"]
    regret = changed.regret.copy()
    regret[6:] *= 1000  # where the default did not run
    of_levy["dms-v1[w=2;p_drop=0.15]"] = dataclasses.replace(changed, regret=regret)
    of_levy["dms-v1"] = dataclasses.replace(dms, replications=dms.replications[:6], regret=dms.regret[:6])
    lines = columns(ingredients.table(ablations.split(runs).removed))
    common = np.exp((np.log(changed.final[:6]) - np.log(dms.final[:6])).mean())
    assert lines["dms-v1[w=2;p_drop=0.15]"][-1] == f"×{common:.2f}"
    assert "(n=6)" in lines["dms-v1"][0]
    of_levy["dms-v1"] = dataclasses.replace(dms, replications=tuple(range(20, 28)))
    lines = columns(ingredients.table(ablations.split(runs).removed))
    assert lines["dms-v1[w=2;p_drop=0.15]"][-1] == "", "nothing in common"


def test_regret_of_zero_has_a_ratio(runs: Gathered) -> None:
    for method in ("dms-v1", "dms-v1[w=2;p_drop=0.15]"):
        r = runs["levy-10"][method]
        runs["levy-10"][method] = dataclasses.replace(r, regret=np.zeros_like(r.regret))
    lines = columns(ingredients.table(ablations.split(runs).removed))
    assert lines["dms-v1[w=2;p_drop=0.15]"][-1] == "×1.00"


def test_the_report_has_them_in_a_table_of_their_own(
    runs: Gathered, tmp_path: Path, section: Callable[[Path, str], str]
) -> None:
    assert runs
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report")]) == 0
    assert "| without | (nothing) | warped outcomes | samples without guidance |" in section(
        tmp_path / "report", "Each ingredient of the default"
    )
    for title in ("Final simple regret", "Validation tasks: final simple regret"):
        assert "warp=never" not in section(tmp_path / "report", title)
    assert '<h2 id="ingredients">Each ingredient of the default</h2>' in (tmp_path / "report/report.html").read_text()
