"""Tables and figures from stored records, checked against what they are made from."""

from __future__ import annotations

import csv
import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from modeseek import problems
from modeseek.cli import main
from modeseek.errors import ConfigError
from modeseek.experiments.records import Record, Store
from modeseek.experiments.tables import gather, p_value, seconds_table, summary_rows, summary_table

TASKS = ("styblinski-tang-2", "levy-10")


def make(task: str, method: str, replication: int, level: float) -> Record:
    """A replication whose regret falls from 10 to about `level`."""
    problem = problems.get(task)
    rng = np.random.default_rng([replication, len(method)])
    count = problem.n_initial + problem.budget
    regret = np.geomspace(10, level * (0.8 + 0.4 * rng.random()), count)
    values = problem.optimum - regret[rng.permutation(count)] if method == "sobol" else problem.optimum - regret
    return Record(
        task=task,
        method=method,
        replication=replication,
        status="complete",
        version="0.1.0",
        config=None,
        seed=0,
        device="cpu",
        batch=2 if method == "dms" else 1,
        n_initial=problem.n_initial,
        observed=values.tolist(),
        values=values.tolist(),
        iterations=[0.4] * problem.budget,
        stages={},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store(tmp_path / "results")
    for task in TASKS:
        for method, level in (("dms", 0.01), ("ei", 0.1), ("sobol", 1.0)):
            for replication in range(8):
                store.append(make(task, method, replication, level))
    store.append(dataclasses.replace(make("levy-10", "dms", 99, 1e-6), status="failed", error="x"))
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
        assert [rows[task, method]["rank"] for method in ("dms", "ei", "sobol")] == [1, 2, 3]
        ei, dms = runs[task]["ei"].final, runs[task]["dms"].final
        assert rows[task, "ei"]["mean"] == pytest.approx(ei.mean())
        assert rows[task, "ei"]["standard error"] == pytest.approx(ei.std(ddof=1) / np.sqrt(8))
        assert rows[task, "ei"]["p against dms"] == pytest.approx(stats.wilcoxon(ei, dms).pvalue)
        assert rows[task, "dms"]["area"] < rows[task, "ei"]["area"]
    table = summary_table(runs)
    bold = re.findall(r"\*\*([\d.e-]+) ±", table)
    assert bold == [f"{runs[task]['dms'].final.mean():.3g}" for task in TASKS]
    assert table.splitlines()[-1] == "| mean rank | 1.00 | 2.00 | 3.00 |"


def test_a_test_with_too_few_pairs_says_nothing(folder: Path) -> None:
    runs = gather(Store(folder))["levy-10"]
    few = dataclasses.replace(runs["ei"], replications=tuple(range(5)), regret=runs["ei"].regret[:5])
    assert np.isnan(p_value(few, runs["dms"]))
    assert p_value(runs["dms"], runs["dms"]) == 1.0


def test_seconds_of_a_batch_are_shared(folder: Path) -> None:
    table = seconds_table(gather(Store(folder)))
    assert "| levy-10 | 0.200 ± 0.000 | 0.400 ± 0.000 |" in table


def test_mixed_configurations_are_refused(folder: Path) -> None:
    Store(folder).append(dataclasses.replace(make("levy-10", "dms", 20, 0.1), config={"m": 1}))
    with pytest.raises(ConfigError, match="dms on levy-10"):
        gather(Store(folder))


def test_the_report_writes_figures_tables_and_a_page_without_a_network(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    assert main(["report", str(folder), "--out", str(out)]) == 0
    assert (out / "figure1.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "figure1.pdf").read_bytes()[:4] == b"%PDF"
    assert "±" in (out / "summary.md").read_text()
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert len(rows) == 6
    page = (out / "report.html").read_text()
    assert "levy-10" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page), "nothing is loaded from elsewhere"


def test_an_empty_folder_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "no complete record" in capsys.readouterr().err
