"""Tables and figures from stored records, checked against what they are made from."""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from modeseek import baselines, problems
from modeseek.cli import main
from modeseek.errors import ConfigError
from modeseek.experiments import figures
from modeseek.experiments.records import Record, Store
from modeseek.experiments.tables import Gathered, against_table, gather, p_value, summary_rows, summary_table

TASKS = ("styblinski-tang-2", "levy-10")
VALIDATION = ("final simple regret", "area under log regret", "regret over evaluations")  # its sections
MakeRecord = Callable[[str, str, int, float], Record]


@pytest.fixture
def folder(tmp_path: Path, make_record: MakeRecord) -> Path:
    store = Store(tmp_path / "results")
    for task in TASKS:
        for method, level in (("dms", 0.01), ("ei", 0.1), ("sobol", 1.0)):
            for replication in range(8):
                store.append(make_record(task, method, replication, level))
    store.append(dataclasses.replace(make_record("levy-10", "dms", 99, 1e-6), status="failed", error="x"))
    return tmp_path / "results"


def test_regret_is_the_optimum_minus_the_best_value_so_far(folder: Path) -> None:
    runs = gather(Store(folder))
    assert list(runs) == list(TASKS)
    r = runs["levy-10"]["sobol"]
    assert r.replications == tuple(range(8)), "failed replications do not count"
    stored = next(record for record in Store(folder) if record.task == "levy-10" and record.method == "sobol")
    best = [max(stored.values[: i + 1]) for i in range(len(stored.values))]
    np.testing.assert_allclose(r.regret[0], problems.get("levy-10").optimum - np.array(best))
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
        assert rows[task, "ei"]["p against dms"] == pytest.approx(stats.wilcoxon(ei, dms).pvalue)
        assert rows[task, "dms"]["area"] < rows[task, "ei"]["area"]
    table = summary_table(runs, "final")
    bold = re.findall(r"\*\*([\d.e-]+) ±", table.markdown())
    assert bold == [f"{runs[task]['dms'].final.mean():.3g}" for task in TASKS]
    assert table.header == ["task", "dms", "sobol", "ei"]
    assert table.markdown().splitlines()[-1] == "| mean rank | 1.00 | 3.00 | 2.00 |"


def test_a_test_with_too_few_pairs_says_nothing(folder: Path) -> None:
    runs = gather(Store(folder))["levy-10"]
    few = dataclasses.replace(runs["ei"], replications=tuple(range(5)), regret=runs["ei"].regret[:5])
    assert np.isnan(p_value(few, runs["dms"]))
    assert p_value(runs["dms"], runs["dms"]) == 1.0


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
    assert table.header == ["method", "tasks, at the end", "tasks, all along", "worse at the end on"]
    assert table.cells == [["sobol", "0 / 1 / 0", "0 / 1 / 0", ""], ["ei", "1 / 0 / 1", "1 / 0 / 1", "levy-10"]]
    few = {"levy-10": {m: dataclasses.replace(r, replications=(0, 1), regret=r.regret[:2]) for m, r in of_levy.items()}}
    assert not against_table({"tasks": few}).cells, "nothing to be said of two pairs"


def test_mixed_configurations_are_refused(folder: Path, make_record: MakeRecord) -> None:
    Store(folder).append(dataclasses.replace(make_record("levy-10", "dms", 20, 0.1), config={"m": 1}))
    with pytest.raises(ConfigError, match="dms on levy-10"):
        gather(Store(folder))


def test_fewer_replications_and_a_single_one_are_said_so(folder: Path) -> None:
    runs = gather(Store(folder))
    ei = runs["levy-10"]["ei"]
    runs["levy-10"]["ei"] = dataclasses.replace(ei, replications=(0,), regret=ei.regret[:1])
    cells = summary_table(runs, "final").cells[1]
    assert cells[3] == f"{ei.final[0]:.3g} (2, n=1)"
    assert "n=" not in cells[1]


def test_mean_ranks_are_among_the_methods_of_every_task(folder: Path) -> None:
    runs = gather(Store(folder))
    del runs["levy-10"]["ei"]
    assert summary_table(runs, "area").cells[-1] == ["mean rank", "1.00", "2.00", ""]


def test_the_report_writes_figures_tables_and_a_page_without_a_network(
    folder: Path, make_record: MakeRecord, tmp_path: Path
) -> None:
    for method in ("dms-paper", "dms-paper[rho=0]"):
        for replication in range(3):
            Store(folder).append(make_record("levy-10", method, replication, 0.1))
    out = tmp_path / "report"
    assert main(["report", str(folder), "--out", str(out)]) == 0
    for name in ("figure1", "ablations"):
        assert (out / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (out / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
    assert "±" in (out / "summary.md").read_text()
    assert "| ei | 2 / 0 / 0 | 2 / 0 / 0 |  |" in (out / "against.md").read_text()
    assert "rho=0" not in (out / "summary.md").read_text(), "variants are in the ablations alone"
    assert "| ρ, weight of σ | 0 |" in (out / "ablations.md").read_text()
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert [row["method"] for row in rows] == ["dms", "sobol", "ei", "dms", "dms-paper", "sobol", "ei"]
    page = (out / "report.html").read_text()
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page), "nothing is loaded from elsewhere"
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r'<img [^>]*src="(.{21})', text) == ["data:image/png;base64"]
    assert "<td class=words>levy-10</td>" in text
    assert "nan" not in text


def test_validation_tasks_are_apart_from_the_papers(folder: Path, make_record: MakeRecord, tmp_path: Path) -> None:
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
            lines = (out / f"{file}.md").read_text().splitlines()[4:]
            assert [line.split(" | ")[0].strip("| ") for line in lines] == [*tasks, "mean rank"]
        rows = csv.DictReader((out / f"{name}.csv").read_text().splitlines())
        assert list(dict.fromkeys(row["task"] for row in rows)) == tasks
    titles = re.findall(r"^## (.+)", (out / "report.md").read_text(), flags=re.MULTILINE)
    assert titles[-3:] == [f"Validation tasks: {what}" for what in VALIDATION]


def test_validation_tasks_alone_make_a_report(make_record: MakeRecord, tmp_path: Path) -> None:
    Store(tmp_path).append(make_record("branin-2", "dms", 0, 0.1))
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "summary.md").exists()
    assert (tmp_path / "out" / "validation-curves.png").exists()


def test_a_method_has_one_style_in_all_figures_and_no_other_has_it(folder: Path) -> None:
    runs = gather(Store(folder))
    alone = figures.styles({"levy-10": {"sobol": runs["levy-10"]["sobol"]}})
    assert alone == {"sobol": figures.styles(runs)["sobol"]}
    everyone = figures.styles({"levy-10": dict.fromkeys(baselines.names(), runs["levy-10"]["sobol"])})
    assert len({(style.colour, style.dashed) for style in everyone.values()}) == len(baselines.names())


def test_an_empty_folder_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "no complete record" in capsys.readouterr().err
