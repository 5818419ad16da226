"""What became of the paper's claims, from records whose answers are known."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.measure import distribution, theory
from modeseek.bench.measure.measurements import write
from modeseek.bench.methods import variants
from modeseek.bench.report import ablations, claims, presets
from modeseek.bench.report.claims import Evidence
from modeseek.bench.report.curves import Gathered, gather

Make = Callable[[str, str, int, float], Record]
ROOT = Path(__file__).parents[3]
TASKS = ("griewank-3", "shekel-4")


def gathered(tmp_path: Path, make_record: Make, levels: dict[tuple[str, str], float], reps: int = 12) -> Gathered:
    store = Store(tmp_path)
    for (task, method), level in levels.items():
        for replication in range(reps):
            store.append(make_record(task, method, replication, level))
    return gather(store)


def test_a_reading_is_counted_against_each_baseline_and_the_best(tmp_path: Path, make_record: Make) -> None:
    levels = {("griewank-3", "dms-paper"): 0.1, ("griewank-3", "ei"): 1.0, ("griewank-3", "ucb"): 0.01}
    levels |= {("shekel-4", "dms-paper"): 0.1, ("shekel-4", "ei-botorch"): 1.0, ("shekel-4", "logei"): 0.001}
    of = gathered(tmp_path, make_record, levels)
    against_ei = presets.compare(of, "dms-paper", "ei", "final")
    assert against_ei.verdicts == dict.fromkeys(TASKS, "better"), "BoTorch's where ours was not run"
    against_best = presets.compare(of, "dms-paper", presets.BEST, "final")
    assert against_best.verdicts == {"griewank-3": "worse", "shekel-4": "better"}, "LogEI is not the paper's"
    assert str(against_best) == "1 / 0 / 1 (1 / 1)"
    assert str(presets.compare(of, "dms-printed", "ei", "final")) == ""
    lines = {(line[0], line[1]): line[2:] for line in presets.table(presets.groups_of(of, {})).cells}
    assert lines["dms-paper", "ei"][0] == "2 / 0 / 0 (2 / 0)"
    assert ("dms-paper", "pes") not in lines


def test_a_count_of_many_tests_is_corrected(tmp_path: Path, make_record: Make) -> None:
    of = gathered(tmp_path, make_record, {("griewank-3", m): 0.1 for m in ("dms-paper", "ei")}, reps=6)
    regret = of["griewank-3"]["ei"].regret
    regret[:, -1] = of["griewank-3"]["dms-paper"].regret[:, -1] + np.arange(1, 7)  # p = 1/32, the least of six pairs
    one = presets.compare(of, "dms-paper", "ei", "final")
    two = presets.compare({**of, "shekel-4": of["griewank-3"]}, "dms-paper", "ei", "final")
    assert (one.count("better"), one.count("better", True)) == (1, 1)
    assert (two.count("better"), two.count("better", True)) == (2, 0)


def test_claims_about_ablations_follow_the_tests_and_not_the_means(tmp_path: Path, make_record: Make) -> None:
    levels: dict[tuple[str, str], float] = {}
    for task in variants.ABLATION_TASKS:
        levels |= {(task, method): 0.1 for method in variants.ablations(task)}
        levels |= {(task, "dms-paper[K=0]"): 0.2, (task, "dms-paper[rho=3]"): 1.0}
        levels[task, "dms-paper[train_on=observed]"] = 1.0 if task == claims.HIGH else 0.01
    of = gathered(tmp_path, make_record, levels)
    of["levy-10"]["dms-paper"].regret[0, -1] = 1e6  # one stuck run makes the preset's mean the worst of all
    found = {f.claim: f for f in claims._ablations(Evidence({}, {}, ablations.split(of).ablated, tmp_path))}
    status = {claim.split(" ")[0]: f.status for claim, f in found.items()}
    assert status["Without"] == "partly", "worse on Levy-10 alone"
    assert status["Short-run"] == "reproduced"
    assert status["Too"] == "reproduced"
    assert status["ρ"] == "not"
    assert status["The"] == "reproduced"
    assert "0:" in found["Short-run L-BFGS outperforms Sobol points alone (K = 0)"].found


def bound_row(method: str | None = None, **given: object) -> dict[str, object]:
    """Of two seeds; a preset is named by none but younger rows."""
    terms = {term: [1.0, 1.0] for term in ("e1", "e2", "gap")}
    row = {**theory.BASE, **terms, **given} | ({} if method is None else {"method": method})
    return {"subopt": [e1 + e2 for e1, e2 in zip(row["e1"], row["e2"], strict=True)]} | row  # type: ignore[call-overload]


def test_claims_about_the_bound_have_fitted_rates(tmp_path: Path) -> None:
    rows = [bound_row(n=n, e1=[5 / n, 6 / n], subopt=[5 / n + 1.5, 6 / n]) for n in (10, 20, 40)]
    rows += [bound_row(m=m, e2=[(m / 500) ** -0.25, (m / 500) ** -0.27]) for m in (10, 20, 40)]
    rows += [bound_row(t0=t, e2=[1e3 * t, (1e3 * t) ** 1.02]) for t in (0.1, 0.2, 0.4)]
    printed = [bound_row("dms-printed", t0=t, diff=[t**-2.0, t**-2.1]) for t in (0.1, 0.2, 0.4)]
    again = {**rows[2], "varied": "t0"}  # as earlier versions stored it, the base is in several sweeps
    write(tmp_path / "theory.json", [*rows, again, *printed])
    found = {f.claim: f for f in claims._theory(Evidence({}, {}, {}, tmp_path))}
    assert [f.status for claim, f in found.items() if "dms-paper" in claim] == ["partly", "reproduced", "partly", "not"]
    bound, of_n, of_m, of_t0, *_ = found.values()
    assert "held in 15 of 18 measurements, and in 18 with" in bound.found
    assert bound.command == "theory --task styblinski-tang-2 --method dms-paper"
    assert "E1 falls as n^(-1.00 ± 0.00); the bound has -0.5" in of_n.found
    assert "E2 falls as m^(-0.26 ± 0.01)" in of_m.found
    assert "E2 rises as t0^(+1.01 ± 0.01)" in of_t0.found
    of_printed = [f for claim, f in found.items() if "dms-printed" in claim]
    assert [f.status for f in of_printed] == ["reproduced", "not", "reproduced"]
    assert "ε² falls as t0^(-2.05 ± 0.05)" in of_printed[-1].found


def test_claims_about_seconds_are_of_each_device_and_sampler() -> None:
    def row(method: str, seconds: float, device: str = "GPU") -> dict[str, object]:
        return {
            "method": method,
            "task": "levy-10",
            "S": 100,
            "device": device,
            "seconds": [0.5 * seconds, 1.5 * seconds],
        }

    rows = [row("DMS", 1.0), row("PES", 5.0), row("PES, our paths", 0.5), row("PES", 5.0, "CPU")]
    found = claims._draws([*rows, row("DMS, the paper's settings", 4.0)])
    assert [(f.status, f.found) for f in found] == [
        ("reproduced", "PES takes ×1.2 on levy-10 with S = 100"),
        ("not", "PES takes ×0.1 on levy-10 with S = 100"),
        ("reproduced", "PES takes ×5.0 on levy-10 with S = 100"),
        ("not", "PES takes ×0.5 on levy-10 with S = 100"),
    ]
    assert "the paper's settings; BoTorch's" in found[0].claim
    assert "the default's settings; our" in found[3].claim
    slow = [row("dms-paper", 2.0), row("ei", 0.1), row("ucb-botorch", 0.2), row("dms-paper", 61.0, "CPU")]
    found = claims._seconds([*slow, row("ucb", 50.0, "CPU"), row("ucb", 3.0, "TPU")])
    assert [(f.status, "GPU" in f.claim) for f in found] == [("reproduced", True), ("partly", False)]
    assert found[0].found == "`dms-paper`: 2 s on levy-10; it is slower than 2 of 2 of EI and UCB, ours and BoTorch's"
    (partly,) = claims._seconds([*slow[:3], row("ucb", 3.0)])
    assert partly.status == "partly"
    assert partly.found.endswith("2 of 3 of EI and UCB, ours and BoTorch's, but ucb takes ×1.5 on levy-10")


@pytest.mark.parametrize(
    ("models", "status", "counts"),
    [
        ((0.01, 0.02, 0.03), "reproduced", "3 of 3"),
        ((0.01, 0.02, 0.3), "partly", "2 of 3"),
        ((0.01, 0.3, 0.3), "not", "1 of 3"),
        ((0.01, 0.02, None), "reproduced", "2 of 2 replications (1 more had no model)"),
    ],
)
def test_the_concentration_is_judged_over_replications(
    tmp_path: Path, models: tuple[float | None, ...], status: str, counts: str
) -> None:
    rng = np.random.default_rng(0)
    for replication, model in enumerate(models):
        gp, by_model = rng.normal(0.5, 0.2, (100, 2)), rng.normal(0.5, model or 0.0, (100, 2))
        taken = distribution.OptimumSamples(
            10, gp, gp, gp, by_model, None, "dms-printed", replication, fell_back=model is None
        )
        distribution.save(tmp_path / "distribution.json", taken)
    (found,) = claims._concentration(Evidence({}, {}, {}, tmp_path))
    assert found.status == status
    assert f"in {counts}" in found.found
    assert found.claim.endswith("`dms-printed`")


@pytest.mark.parametrize(("by_epochs", "status"), [(1.0, "reproduced"), (0.2, "reproduced"), (1.3, "not")])
def test_the_complexity_is_an_upper_bound_of_each_stage(by_epochs: float, status: str) -> None:
    rows = [
        {
            "device": "GPU",
            "threads": 1,
            "batch": 1,
            "size": size,
            "value": value,
            "seconds": 1.0,
            "stages": {"train": value**by_epochs if size == "E" else 1.0, "sample": value**1.0, "fit": value**3.0},
        }
        for size in ("E", "L")
        for value in (10, 20, 40, 80)
    ]
    (found,) = claims._growth(rows)
    assert found.status == status
    assert found.claim.endswith("(GPU, 1 thread, batch of 1)")
    assert "changed from d = 10, n = 200, m = 800, S = 300, E = 20, L = 15, H = 256" in found.found
    assert found.command == "growth --device cuda --batch 1"
    assert found.found.endswith(f": train as E^{by_epochs:.2f}; sample as L^1.00")
    assert claims._growth(rows[:2]) == []
    others = [row | {"device": "CPU (x)"} for row in rows] + [row | {"batch": 128} for row in rows]
    assert [f.command for f in claims._growth([*rows, *others])] == [
        "growth --device cuda --batch 1", "growth --batch 1", "growth --device cuda --batch 128",
    ]  # fmt: skip


def test_the_page_has_the_table_of_the_report(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "docs/reproduction_table.py"))
    text = script["PAGE"].read_text()
    assert script["with_claims"](text) == text, "`make report` refreshes the table"
    other = tmp_path / "claims.csv"
    other.write_text("number,claim,place,status,found,command\n1,It works,Sec. 5,not,1 of 3,theory\n")
    assert "| 1 | It works | Sec. 5 | **not** | 1 of 3 | `modeseek bench theory` |" in script["with_claims"](
        text, other
    )
