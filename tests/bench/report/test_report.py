"""Tables and figures from stored records, checked against what they are made from."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.methods import method_names
from modeseek.bench.report import figures
from modeseek.bench.report.cost import draw_growth, growth_table
from modeseek.bench.report.curves import (
    MIN_PAIRS,
    Curves,
    Gathered,
    gather,
    in_order,
    p_value,
    signed_rank_test,
    unbeaten,
    verdict,
)
from modeseek.bench.report.summary import against_table, summary_rows, summary_table
from modeseek.bench.tasks import find_task
from modeseek.commands import main
from modeseek.dms import STAGES
from modeseek.errors import ConfigError, ModeseekError

TASKS = ("styblinski-tang-2", "levy-10")
VALIDATION = ("final simple regret", "area under log regret", "regret over evaluations")  # its sections
MakeRecord = Callable[[str, str, int, float], Record]
SectionOf = Callable[[Path, str], str]
TITLES = {
    "against": "The default against each method",
    "summary": "Final simple regret",
    "area": "Area under log regret",
    "validation": "Validation tasks: final simple regret",
    "validation-area": "Validation tasks: area under log regret",
    "ablations": "Ablations",
}


@pytest.fixture
def folder(tmp_path: Path, make_record: MakeRecord) -> Path:
    store = Store(tmp_path / "results")
    for task in TASKS:
        for method, level in (("dms", 0.01), ("ei", 0.1), ("sobol", 1.0)):
            for replication in range(8):
                store.append(make_record(task, method, replication, level))
    store.append(dataclasses.replace(make_record("levy-10", "dms", 99, 1e-6), status="failed", error="x"))
    return tmp_path / "results"


def first(curves: Curves, count: int) -> Curves:
    """The first replications."""
    return dataclasses.replace(curves, replications=curves.replications[:count], regret=curves.regret[:count])


def test_regret_is_the_optimum_minus_the_best_value_so_far(folder: Path) -> None:
    runs = gather(Store(folder))
    assert list(runs) == list(TASKS)
    r = runs["levy-10"]["sobol"]
    assert r.replications == tuple(range(8)), "failed replications do not count"
    stored = next(record for record in Store(folder) if record.task == "levy-10" and record.method == "sobol")
    best = [max(stored.values[: i + 1]) for i in range(len(stored.values))]
    np.testing.assert_allclose(r.regret[0], find_task("levy-10").optimum - np.array(best))
    assert (np.diff(r.regret) <= 0).all()


def test_the_summary_has_means_errors_ranks_and_wilcoxons_test(folder: Path) -> None:
    runs = gather(Store(folder))
    rows = {(row["task"], row["method"]): row for row in summary_rows(runs)}
    for task in TASKS:
        for what in ("final", "area"):
            assert [rows[task, method][f"{what} rank"] for method in ("dms", "ei", "sobol")] == [1, 2, 3]
        ei, dms = runs[task]["ei"].final, runs[task]["dms"].final
        assert rows[task, "ei"]["final"] == pytest.approx(ei.mean())
        assert rows[task, "ei"]["final error"] == pytest.approx(ei.std(ddof=1) / np.sqrt(8))
        assert rows[task, "ei"]["final p against dms"] == pytest.approx(stats.wilcoxon(ei, dms).pvalue)
        areas = runs[task]["ei"].area, runs[task]["dms"].area
        assert rows[task, "ei"]["area p against dms"] == pytest.approx(stats.wilcoxon(*areas).pvalue)
        assert rows[task, "dms"]["area"] < rows[task, "ei"]["area"]
    table = summary_table(runs, "final")
    bold = re.findall(r"\*\*([\d.e-]+) ±", table.markdown())
    assert bold == [f"{runs[task]['dms'].final.mean():.3g}" for task in TASKS]
    assert table.header == ["task", "dms", "ei", "sobol"]
    assert table.markdown().splitlines()[-1] == "| mean rank | 1.00 | 2.00 | 3.00 |"


def test_a_test_with_too_few_pairs_says_nothing(folder: Path) -> None:
    runs = gather(Store(folder))["levy-10"]
    assert np.isnan(p_value(first(runs["ei"], MIN_PAIRS - 1), runs["dms"]))
    assert p_value(first(runs["ei"], MIN_PAIRS), runs["dms"]) < 0.05, "the fewest that can say something"
    assert p_value(runs["dms"], runs["dms"]) == 1.0


@pytest.mark.parametrize(
    "differences", [[1, -1, 2, 3, 4, 4], [0, 0, 1, 2, 2, 5, 7], [-1, -1, -1, -1, -1, -1, 0], [3] * 5]
)
def test_the_test_of_tied_differences_is_scipys(differences: list[float]) -> None:
    d = np.array(differences, dtype=float)
    assert signed_rank_test(d) == pytest.approx(stats.wilcoxon(d).pvalue)
    assert signed_rank_test(-d) == pytest.approx(stats.wilcoxon(d).pvalue)


def test_the_default_is_counted_against_each_method_by_the_signed_ranks(folder: Path) -> None:
    runs = gather(Store(folder))
    of_levy = runs["levy-10"]
    dms = of_levy["dms"]
    twelve = dataclasses.replace(
        dms, replications=tuple(range(12)), regret=np.concatenate([dms.regret, dms.regret[:4]])
    )
    regret = 0.5 * twelve.regret
    regret[0] = 100 * twelve.regret[0]
    ei = dataclasses.replace(twelve, method="ei", regret=regret)
    assert ei.final.mean() > twelve.final.mean(), "one pair of twelve turns the mean, not the test"
    of_levy.update({"dms": twelve, "ei": ei, "sobol": dataclasses.replace(twelve, method="sobol")})
    runs["styblinski-tang-2"].pop("sobol")
    table = against_table({"tasks": runs})
    assert table.header == ["method", "tasks, at the end", "tasks, all along", "worse on"]
    assert table.cells == [
        ["ei", "1 / 0 / 1 (1 / 1)", "1 / 0 / 1 (1 / 1)", "levy-10"],
        ["sobol", "0 / 1 / 0 (0 / 0)", "0 / 1 / 0 (0 / 0)", ""],
        # On Levy the best is sobol at the end, ei all along.
        ["the best of the others", "1 / 1 / 0 (1 / 0)", "1 / 0 / 1 (1 / 1)", "levy-10 (all along)"],
    ]
    few = {"levy-10": {m: first(r, 2) for m, r in of_levy.items()}}
    assert not against_table({"tasks": few}).cells, "nothing to be said of two pairs"


def test_the_best_of_the_others_is_no_dms_and_has_enough_pairs(folder: Path) -> None:
    runs = gather(Store(folder))
    for methods in runs.values():
        superb = dataclasses.replace(methods["dms"], regret=0.01 * methods["dms"].regret)
        methods["dms-fast"] = dataclasses.replace(superb, method="dms-fast")
        methods["pes"] = dataclasses.replace(first(superb, MIN_PAIRS - 1), method="pes")
        elsewhere = tuple(i + 3 for i in superb.replications)
        methods["ts"] = dataclasses.replace(superb, method="ts", replications=elsewhere)
    lines = {line[0]: line[1:] for line in against_table({"tasks": runs}).cells}
    assert lines["dms-fast"][0] == "0 / 0 / 2 (0 / 2)"
    assert {"pes", "ts"}.isdisjoint(lines)
    assert lines["the best of the others"] == ["2 / 0 / 0 (2 / 0)", "2 / 0 / 0 (2 / 0)", ""], "ei, on both tasks"
    for methods in runs.values():
        methods["pes"] = dataclasses.replace(first(superb, MIN_PAIRS), method="pes")
    table = against_table({"tasks": runs})
    assert table.cells[-1] == ["the best of the others", "0 / 0 / 2 (0 / 0)", "0 / 0 / 2 (0 / 0)", ", ".join(TASKS)]
    assert [table.rows[-1][f"{v} by Holm"] for v in ("better", "level", "worse")] == [0, 2, 0], "p is 1/32 in each"
    assert table.rows[-1]["worse on"] == ", ".join(TASKS)


def test_methods_are_ordered_by_the_replications_that_they_share_with_dms(folder: Path) -> None:
    """The first six replications are easy. One method ran on these alone, and is behind DMS there."""
    runs = gather(Store(folder))
    dms = runs["levy-10"]["dms"]
    easy = np.where(np.arange(len(dms.replications)) < MIN_PAIRS, 0.01, 1.0)[:, None]
    dms = dataclasses.replace(dms, regret=easy * dms.regret)
    ei = dataclasses.replace(first(dms, MIN_PAIRS), method="ei", regret=1.5 * dms.regret[:MIN_PAIRS])
    sobol = dataclasses.replace(dms, method="sobol", regret=0.9 * dms.regret)
    assert ei.final.mean() < sobol.final.mean() < dms.final.mean()
    runs = {"levy-10": {"dms": dms, "ei": ei, "sobol": sobol}}
    for what in ("final", "area"):
        ranks = {row["method"]: row[f"{what} rank"] for row in summary_rows(runs)}
        assert ranks == {"sobol": 1, "dms": 2, "ei": 3}
    assert against_table({"tasks": runs}).cells[-1][1] == "0 / 0 / 1 (0 / 1)", "sobol"


def test_mixed_configurations_are_refused(folder: Path, make_record: MakeRecord) -> None:
    config = {"m": 1, "rho_stalled": 1.0, "kernel": "matern"}
    Store(folder).append(dataclasses.replace(make_record("levy-10", "dms", 20, 0.1), config=config))
    with pytest.raises(ConfigError, match="dms on levy-10"):
        gather(Store(folder))


def test_fewer_replications_are_said_so(folder: Path) -> None:
    runs = gather(Store(folder))
    ei = runs["levy-10"]["ei"]
    runs["levy-10"]["ei"] = first(ei, MIN_PAIRS)
    cells = summary_table(runs, "final").cells[1]
    assert cells[2].endswith(f"(2, n={MIN_PAIRS}) worse")
    assert "n=" not in cells[1]
    runs["levy-10"]["ei"] = first(ei, 1)
    assert summary_table(runs, "final").cells[1][2] == f"{ei.final[0]:.3g} (n=1)", "no error of a single one, no rank"


def test_a_method_with_hardly_any_replications_has_no_rank_and_is_never_bold(folder: Path) -> None:
    runs = gather(Store(folder))
    runs["levy-10"]["dms"] = first(runs["levy-10"]["dms"], 3)
    rows = {row["method"]: row for row in summary_rows(runs) if row["task"] == "levy-10"}
    for what in ("final", "area"):
        assert [rows[method][f"{what} rank"] for method in ("dms", "ei", "sobol")] == ["", 1, 2]
        table = summary_table(runs, what)
        assert re.fullmatch(r"[\d.e-]+ ± [\d.e-]+ \(n=3\)", table.cells[1][1])
        assert table.cells[1][2].startswith("**")
        assert table.cells[-1] == ["mean rank", "", "1.00", "2.00"], "of those that are ranked everywhere"
    runs["levy-10"] = {name: first(r, 3) for name, r in runs["levy-10"].items()}
    table = summary_table(runs, "final")
    assert re.fullmatch(r"[^*]+ \(1\)", table.cells[1][1]), "where all have few, all are ranked, and none is bold"
    assert table.cells[-1] == ["mean rank", "1.00", "2.00", "3.00"]


def test_regret_from_an_optimum_out_of_reach_is_also_given_from_the_best_value(
    folder: Path, make_record: MakeRecord, tmp_path: Path, section: SectionOf
) -> None:
    task = "protein-structure"
    problem = find_task(task)
    assert problem.true_optimum is not None
    for method, level in (("dms", 0.3), ("ei", 0.5)):
        for replication in range(8):
            Store(folder).append(make_record(task, method, replication, level))
            Store(folder).append(make_record("wine", method, replication, level))
    runs = gather(Store(folder))
    lines = {line[0]: line[1:] for line in summary_table(runs, "final").cells}
    assert list(lines) == [*TASKS, "wine", task, f"{task}, from its best", "mean rank"], "right after the task's"
    dms = runs[task]["dms"].final
    offset = problem.optimum - problem.true_optimum
    assert lines[f"{task}, from its best"][0] == f"{dms.mean() - offset:.3g} ± {dms.std(ddof=1) / np.sqrt(8):.2g}"
    assert lines[f"{task}, from its best"][2] == "", "sobol did not run"
    assert re.fullmatch(r"[\d.]+ ± [\d.]+", lines[f"{task}, from its best"][1]), "no rank, no verdict"
    assert lines[task][1].endswith("(2) worse")
    assert [line[0] for line in summary_table(runs, "area").cells] == [*TASKS, "wine", task, "mean rank"]
    rows = {(row["task"], row["method"]): row for row in summary_rows(runs)}
    assert rows[task, "dms"]["final from the best"] == pytest.approx(dms.mean() - offset)
    assert rows["levy-10", "dms"]["final from the best"] == rows["levy-10", "dms"]["final"]
    assert rows["wine", "dms"]["final from the best"] == "", "not known"
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert "from its best" in section(tmp_path / "out", TITLES["summary"]).splitlines()[0], "explained"


def test_nothing_is_explained_that_is_not_there(folder: Path, tmp_path: Path, section: SectionOf) -> None:
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert "from its best" not in section(tmp_path / "out", TITLES["summary"])


def test_a_method_that_nobody_knows_is_shown_last(
    folder: Path, make_record: MakeRecord, tmp_path: Path, section: SectionOf
) -> None:
    for replication in range(8):
        Store(folder).append(make_record("levy-10", "mine", replication, 0.5))
    assert in_order(["ucb-botorch", "ts", "ucb"]) == ["ucb", "ucb-botorch", "ts"]
    assert in_order(["mine[a=1]", "cmaes", "mine", "dms"]) == ["dms", "cmaes", "mine", "mine[a=1]"]
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert "| task | dms | ei | sobol | mine |" in section(tmp_path / "out", TITLES["summary"])
    assert '"name":"mine","note":"n = 8"' in (tmp_path / "out" / "report.html").read_text(), "among the curves, too"


def test_a_task_that_nobody_knows_is_named(
    folder: Path, make_record: MakeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Store(folder).append(dataclasses.replace(make_record("levy-10", "dms", 0, 0.5), task="levy-11"))
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 1
    assert re.search(
        r"no problem 'levy-11'; did you mean 'levy-10'.* known are styblinski-tang-2", capsys.readouterr().err
    )


def test_records_of_different_lengths_are_refused(
    folder: Path, make_record: MakeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = make_record("levy-10", "ei", 20, 0.1)
    Store(folder).append(dataclasses.replace(record, values=record.values[:-20], observed=record.values[:-20]))
    with pytest.raises(ModeseekError, match=r"ei on levy-10 have different numbers of evaluations \(200, 220\)"):
        gather(Store(folder))
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 1
    assert "ei on levy-10" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "given", "message"),
    [
        ("--workers", "0", "whole number of at least 1"),
        ("--reps", "-1", "whole number of at least 1"),
        ("--reps", "0", "whole number of at least 1"),
        ("--task", "", "'' has no name in it"),
        ("--method", " ,", "' ,' has no name in it"),
    ],
)
def test_options_that_would_run_nothing_are_usage_errors(
    option: str, given: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"--task": "levy-10", "--method": "sobol", "--out": str(tmp_path), option: given}
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "run", *(f"{name}={value}" for name, value in options.items())])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option", "given", "least"),
    [
        ("theory", "--seeds", "1", 2),
        ("theory", "--seeds", "0", 2),
        ("theory", "--seeds", "-1", 2),
        ("distribution", "--reps", "0", 1),
        ("distribution", "--reps", "0.5", 1),
    ],
)
def test_options_have_a_least_value(
    command: str, option: str, given: str, least: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["bench", command, f"{option}={given}", "--out", str(tmp_path)])
    assert f"{option}: '{given}' is not a whole number of at least {least}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "method", "message"),
    [
        ("validatoin", "sobol", "no task 'validatoin'; did you mean 'validation'?"),
        ("levy-10,ALL", "sobol", "no task 'ALL'; did you mean 'all'?"),
        ("levy-10", "ingredient", "no method 'ingredient'; did you mean 'ingredients'?"),
        ("levy-10", "dms,ablation", "no method 'ablation'; did you mean 'ablations'?"),
        ("levy-1O", "sobol", "no problem 'levy-1O'; did you mean 'levy-10'"),
        ("levy-10", "logie", "unknown method 'logie'; did you mean 'logei'?"),
        ("levy-10", "DMS", "unknown method 'DMS'; did you mean 'dms'?"),
    ],
)
def test_an_unknown_name_may_be_that_of_a_list(
    task: str, method: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "run", "--task", task, "--method", method, "--out", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err


def test_mean_ranks_are_among_the_methods_of_every_task(folder: Path) -> None:
    runs = gather(Store(folder))
    del runs["levy-10"]["ei"]
    assert summary_table(runs, "area").cells[-1] == ["mean rank", "1.00", "", "2.00"]


def test_the_report_writes_figures_tables_and_a_page_without_a_network(
    folder: Path, make_record: MakeRecord, tmp_path: Path, section: SectionOf
) -> None:
    for method in ("dms-paper", "dms-paper[rho=0]"):
        for replication in range(3):
            Store(folder).append(make_record("levy-10", method, replication, 0.1))
    out = tmp_path / "report"
    assert main(["report", str(folder), "--out", str(out)]) == 0
    for name in ("figure1", "ablations"):
        assert (out / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (out / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
    assert "±" in section(out, TITLES["summary"])
    for rival in ("ei", "the best of the others"):
        assert f"| {rival} | 2 / 0 / 0 (2 / 0) | 2 / 0 / 0 (2 / 0) |  |" in section(out, TITLES["against"])
    assert "rho=0" not in section(out, TITLES["summary"]), "variants are in the ablations alone"
    assert "| ρ, weight of σ | 0 |" in section(out, TITLES["ablations"])
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert [row["method"] for row in rows] == ["dms", "ei", "sobol", "dms", "dms-paper", "ei", "sobol"]
    page = (out / "report.html").read_text()
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page), "nothing is loaded from elsewhere"
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r'<img [^>]*src="(.{21})', text) == ["data:image/png;base64"]
    assert '<td class="words">levy-10</td>' in text
    assert "nan" not in text


def test_validation_tasks_are_apart_from_the_papers(
    folder: Path, make_record: MakeRecord, tmp_path: Path, section: SectionOf
) -> None:
    for task in ("rotated-levy-8", "branin-2"):
        for method, level in (("dms", 0.1), ("ei", 0.01)):
            for replication in range(8):
                Store(folder).append(make_record(task, method, replication, level))
    assert list(gather(Store(folder))) == [*TASKS, "branin-2", "rotated-levy-8"], "in the order of the sets"
    drawn: dict[str, list[str]] = {}
    original = figures.draw_regret

    def remember(runs: Gathered, path: Path) -> list[Path]:
        drawn[path.name] = list(runs)
        return original(runs, path)

    out = tmp_path / "report"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw_regret", remember)
        assert main(["report", str(folder), "--out", str(out)]) == 0
    assert drawn == {"figure1": list(TASKS), "validation-curves": ["branin-2", "rotated-levy-8"]}
    for name, tasks in (("summary", list(TASKS)), ("validation", ["branin-2", "rotated-levy-8"])):
        for file in (name, "area" if name == "summary" else "validation-area"):
            lines = section(out, TITLES[file]).partition("--- |\n")[2].splitlines()
            assert [line.split(" | ")[0].strip("| ") for line in lines] == [*tasks, "mean rank"]
        rows = csv.DictReader((out / f"{name}.csv").read_text().splitlines())
        assert list(dict.fromkeys(row["task"] for row in rows)) == tasks
    titles = re.findall(r"^## (.+)", (out / "report.md").read_text(), flags=re.MULTILINE)
    assert titles[-3:] == [f"Validation tasks: {what}" for what in VALIDATION]


def test_validation_tasks_alone_make_a_report(make_record: MakeRecord, tmp_path: Path) -> None:
    Store(tmp_path).append(make_record("branin-2", "dms", 0, 0.1))
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "\n## Final" not in (tmp_path / "out" / "report.md").read_text()
    assert (tmp_path / "out" / "validation-curves.png").exists()


def test_a_method_has_one_style_in_all_figures_and_no_other_has_it(folder: Path) -> None:
    runs = gather(Store(folder))
    alone = figures.styles({"levy-10": {"sobol": runs["levy-10"]["sobol"]}})
    assert alone == {"sobol": figures.styles(runs)["sobol"]}
    everyone = figures.styles({"levy-10": dict.fromkeys(method_names(), runs["levy-10"]["sobol"])})
    assert len({(style.colour, style.line) for style in everyone.values()}) == len(method_names())


def test_an_empty_folder_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "no complete record" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for name, fault in (("nowhere", "does not exist"), ("file", "is not a folder")):
        assert main(["report", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 1
        assert f"{tmp_path / name} {fault}" in capsys.readouterr().err


def test_a_missing_package_is_named_before_anything_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 1
    assert 'the report needs matplotlib: pip install -c constraints.txt ".[plots]"' in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_failed_replications_are_counted_under_the_summary(
    folder: Path, make_record: MakeRecord, tmp_path: Path, section: SectionOf
) -> None:
    for task, method, replication in (("levy-10", "ucb", 0), ("levy-10", "ucb", 1), ("branin-2", "dms", 1)):
        failed = dataclasses.replace(
            make_record(task, method, replication, 0.1), status="failed", values=[], observed=[], error="x"
        )
        Store(folder).append(failed)
    Store(folder).append(make_record("branin-2", "dms", 0, 0.1))
    Store(folder).append(make_record("branin-2", "dms", 1, 0.1))  # run again, with success
    out = tmp_path / "out"
    assert main(["report", str(folder), "--out", str(out)]) == 0
    line = "Failed replications, not counted: levy-10, dms: 1; levy-10, ucb: 2."
    assert line in section(out, TITLES["summary"]).splitlines()
    assert f"<p>{line}</p>" in (out / "report.html").read_text()
    for file in ("area", "validation", "validation-area"):
        assert "Failed" not in section(out, TITLES[file])


def test_bold_is_what_nobody_beats_by_the_test_however_the_means_are(folder: Path) -> None:
    """One stuck replication of twelve makes DMS's mean the worst by far, and its test the best."""
    gathered = gather(Store(folder))
    ei = gathered["levy-10"]["ei"]
    ei = dataclasses.replace(ei, replications=tuple(range(12)), regret=np.concatenate([ei.regret, ei.regret[:4]]))
    regret = 0.1 * ei.regret
    regret[0] = 1000 * ei.regret[0]
    dms = dataclasses.replace(ei, method="dms", regret=regret)
    assert dms.final.mean() > ei.final.mean()
    assert verdict(dms, ei, "final") == "better"
    assert verdict(ei, dms, "final") == "worse"
    assert unbeaten({"dms": dms, "ei": ei}, "final") == {"dms"}
    same = dataclasses.replace(ei, method="ts")
    assert unbeaten({"ei": ei, "ts": same}, "final") == {"ei", "ts"}, "level with each other"
    table = summary_table({"levy-10": {"dms": dms, "ei": ei}}, "final")
    assert [cell.startswith("**") for cell in table.cells[0][1:]] == [True, False]
    assert table.cells[0][2].endswith(" worse")


def test_notes_say_what_bold_and_words_mean(
    folder: Path, make_record: MakeRecord, tmp_path: Path, section: SectionOf
) -> None:
    for method, level in (("dms", 0.1), ("ei", 0.01)):
        for replication in range(8):
            Store(folder).append(make_record("branin-2", method, replication, level))
    out = tmp_path / "out"
    assert main(["report", str(folder), "--out", str(out)]) == 0
    for name, word in {
        "summary": "worse",
        "area": "worse",
        "validation": "better",
        "validation-area": "better",
    }.items():
        note, _, table = section(out, TITLES[name]).partition("\n\n")
        assert f" {word} |" in table
        assert "bold" in note.lower()
        assert "better" in note
    assert "17 were known" in section(out, TITLES["validation"])
    assert "no setting was chosen" not in (out / "report.md").read_text().lower()


@pytest.mark.parametrize("name", ["$\\frac{$", "a|b and $$", "<b>& $x$ \\$"])
def test_any_name_of_a_method_makes_a_report(name: str, make_record: MakeRecord, tmp_path: Path) -> None:
    for method in (name, "dms"):
        for replication in range(6):
            Store(tmp_path).append(make_record("levy-10", method, replication, 0.1))
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "report.md").read_text()
    assert name.replace("|", "\\|") in text
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in section_lines(text, "Final simple regret")}
    assert len(widths) == 1, "every line of the table has as many columns"


def section_lines(text: str, title: str) -> list[str]:
    """The lines of a section's table."""
    return [line for line in text.partition(f"## {title}\n")[2].partition("\n## ")[0].splitlines() if line[:1] == "|"]


def test_a_packed_file_makes_the_report_of_its_journal(folder: Path, tmp_path: Path) -> None:
    for source, out in ((folder, "a"), (tmp_path / "all.parquet", "b")):
        if out == "b":
            assert main(["bench", "pack", str(folder), "--out", str(source)]) == 0
        assert main(["report", str(source), "--out", str(tmp_path / out)]) == 0
    assert (tmp_path / "a" / "report.md").read_text() == (tmp_path / "b" / "report.md").read_text()
    assert (tmp_path / "a" / "summary.csv").exists()


@pytest.mark.parametrize("name", ["distribution", "theory", "draws", "seconds", "batches", "growth"])
@pytest.mark.parametrize(
    "rows", [{}, [1], "rows", [{}], [{"method": "dms", "device": "CPU", "threads": None}]], ids=str
)
def test_measurements_of_another_shape_are_said_so(
    name: str, rows: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(rows))
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert f"{path} is not what `modeseek bench {name}` wrote" in capsys.readouterr().err


def test_what_a_figure_misses_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"size": "d", "value": 2, "batch": 1, "seconds": 1.0, "device": "CPU", "threads": 1}
    (tmp_path / "growth.json").write_text(json.dumps([row]))
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "`modeseek bench growth` wrote (KeyError: 'stages')" in capsys.readouterr().err


def test_growth_is_drawn_a_row_a_line_of_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measurements = [
        {"size": "d", "value": value, "batch": batch, "seconds": 1.0, "stages": dict.fromkeys(STAGES, 0.1)}
        | {"device": "CPU", "threads": threads}
        for batch, threads in ((1, 1), (1, 2), (8, 2))
        for value in (2, 5, 10)
    ]
    titles = []
    monkeypatch.setattr(
        figures, "save", lambda figure, path: titles.extend(a.get_title("left") for a in figure.axes) or []
    )
    draw_growth(measurements, tmp_path / "growth")
    assert titles == [f"{place}, batch of {batch}" for place, batch, *_ in growth_table(measurements).cells]
    assert len(titles) == 3


def test_a_record_cannot_name_a_file_to_be_run(
    tmp_path: Path, make_record: MakeRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    trap, sprung = tmp_path / "trap.py", tmp_path / "sprung"
    trap.write_text(f"open({str(sprung)!r}, 'w')\nproblem = None\n")
    record = make_record("levy-10", "dms", 0, 0.1)
    Store(tmp_path / "results").append(dataclasses.replace(record, task=f"{trap}:problem"))
    assert main(["report", str(tmp_path / "results"), "--out", str(tmp_path / "out")]) == 1
    assert "not a task of this package" in capsys.readouterr().err
    assert not sprung.exists()


def test_a_task_of_a_file_has_tables_of_its_own(tmp_path: Path, make_record: MakeRecord, section: SectionOf) -> None:
    results = tmp_path / "results"
    for method, level in (("dms", 0.01), ("ei", 0.1)):
        for replication in range(8):
            record = make_record("levy-10", method, replication, level)
            Store(results).append(dataclasses.replace(record, task="mine", optimum=0.0))
    assert main(["bench", "pack", str(results), "--inputs", "real"]) == 0
    shutil.rmtree(next(path for path in results.iterdir() if path.is_dir()))
    assert [path.name for path in results.glob("*")] == ["own.parquet"]
    assert main(["report", str(results), "--out", str(tmp_path / "out")]) == 0
    assert "| mine | **" in section(tmp_path / "out", "Own tasks: final simple regret")
    assert "own tasks, at the end" in section(tmp_path / "out", TITLES["against"])
    assert (tmp_path / "out" / "own-curves.png").exists()
