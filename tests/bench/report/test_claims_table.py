"""What became of the paper's claims, from records whose answers are known."""

from __future__ import annotations

import dataclasses
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.measure import distribution, theory
from modeseek.bench.measure.measurements import write
from modeseek.bench.methods import variants
from modeseek.bench.report import ablation_claims, ablations, claims, presets, regret_claims
from modeseek.bench.report.curves import Gathered, gather, p_value
from modeseek.bench.report.finding import HIGH, LOW, Evidence, Finding
from modeseek.bench.tasks import find_task, task_names

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


def test_ours_or_botorchs_is_the_papers_method_and_an_earlier_one_is_neither(tmp_path: Path, make_record: Make) -> None:
    of = gathered(tmp_path, make_record, {("griewank-3", m): 0.1 for m in ("gibbon-botorch", "gibbon-v1")}, reps=3)
    assert presets.baseline(of["griewank-3"], "gibbon") is of["griewank-3"]["gibbon-botorch"]
    assert presets.baseline({"gibbon-v1": of["griewank-3"]["gibbon-v1"]}, "gibbon") is None


def test_two_ways_to_maximize_are_side_by_side_also_where_they_are_too_few_for_a_test(
    tmp_path: Path, make_record: Make
) -> None:
    of = gathered(tmp_path, make_record, {(task, m): 0.1 for task in TASKS for m in ("jes", "ei", "ei-botorch")})
    few = gathered(tmp_path / "few", make_record, {("griewank-3", "jes-botorch"): 0.1}, reps=3)
    of["griewank-3"] |= few["griewank-3"]
    table = presets.agreement(of)
    ei, jes = (dict(zip(table.header, line, strict=True)) for line in table.cells)
    assert (jes["method"], jes["at the end"], jes["all along"]) == ("jes", "", "")
    ours, theirs = (float(np.median(of["griewank-3"][m].final[:3])) for m in ("jes", "jes-botorch"))
    assert jes["p at the end"] == f"griewank-3 (n = 3, no test: {ours:.3g} and {theirs:.3g})"
    assert [float(found.split(" ")[1]) for found in ei["p at the end"].split(", ")] == [
        pytest.approx(p_value(of[task]["ei"], of[task]["ei-botorch"]), rel=0.05) for task in TASKS
    ]
    assert [row["not tested on"] for row in table.rows if row["method"] == "jes"] == ["griewank-3"] * 2
    assert [row["not tested on"] for row in table.rows if row["method"] == "ei"] == [""] * 2


def test_a_count_of_many_tests_is_corrected(tmp_path: Path, make_record: Make) -> None:
    of = gathered(tmp_path, make_record, {("griewank-3", m): 0.1 for m in ("dms-paper", "ei")}, reps=6)
    regret = of["griewank-3"]["ei"].regret
    regret[:, -1] = of["griewank-3"]["dms-paper"].regret[:, -1] + np.arange(1, 7)  # p = 1/32, the least of six pairs
    one = presets.compare(of, "dms-paper", "ei", "final")
    two = presets.compare({**of, "shekel-4": of["griewank-3"]}, "dms-paper", "ei", "final")
    assert (one.count("better"), one.count("better", True)) == (1, 1)
    assert (two.count("better"), two.count("better", True)) == (2, 0)


def test_a_reading_that_mostly_has_no_model_says_so(tmp_path: Path, make_record: Make) -> None:
    store = Store(tmp_path)
    for task, without in zip(TASKS, (3, 1), strict=True):
        for replication in range(6):
            record = make_record(task, "dms-printed", replication, 1.0)
            store.append(dataclasses.replace(record, fell_back=[i < without for i in range(4)]))
            store.append(make_record(task, "dms-paper", replication, 1.0))
            store.append(make_record(task, "ei", replication, 1.0))
    of = gather(store)
    printed, paper, *_ = regret_claims.judge(Evidence(of, {}, {}, tmp_path))
    assert "no model in 50 % of the iterations (mean over tasks; 25 % on shekel-4, 75 % on griewank-3)" in printed.found
    assert "is not recorded" in paper.found
    alone = presets.without_model_table({"griewank-3": of["griewank-3"]})
    assert [list(line) for line in alone.cells] == [["dms-printed", "75"]]
    assert (
        "75 % of the iterations on griewank-3"
        in next(regret_claims.judge(Evidence({"griewank-3": of["griewank-3"]}, {}, {}, tmp_path))).found
    )


def test_claims_about_ablations_follow_the_tests_and_not_the_means(tmp_path: Path, make_record: Make) -> None:
    levels: dict[tuple[str, str], float] = {}
    for task in variants.ABLATION_TASKS:
        levels |= {(task, method): 0.1 for method in variants.ablations(task)}
        levels |= {(task, "dms-paper[K=0]"): 0.2, (task, "dms-paper[rho=3]"): 1.0}
        levels[task, "dms-paper[train_on=observed]"] = 1.0 if task == HIGH else 0.01
    of = gathered(tmp_path, make_record, levels)
    of["levy-10"]["dms-paper"].regret[0, -1] = 1e6  # one stuck run makes the preset's mean the worst of all
    found = {f.claim: f for f in ablation_claims.judge(Evidence({}, {}, ablations.split(of).ablated, tmp_path))}
    status = {claim.split(" ")[0]: f.status for claim, f in found.items()}
    assert status["Without"] == "partly", "worse on Levy-10 alone"
    assert status["Short-run"] == "reproduced"
    assert status["Too"] == "reproduced"
    assert status["ρ"] == "not"
    assert status["The"] == "open", "one stuck run of twelve is more than such wide intervals leave out"
    assert status["Its"] == "not"
    assert "0:" in found["Short-run L-BFGS outperforms Sobol points alone (K = 0)"].found


@pytest.mark.parametrize(
    ("on_low", "on_high", "status"), [(2.0, 20.0, "reproduced"), (20.0, 2.0, "not"), (2, 2, "not")]
)
def test_that_one_gain_is_larger_than_another_is_tested(
    tmp_path: Path, make_record: Make, on_low: float, on_high: float, status: str
) -> None:
    levels = {}
    for task, cost in ((LOW, on_low), (HIGH, on_high)):
        levels |= {(task, "dms-paper"): 0.01, (task, "dms-paper[K=0]"): 0.01 * cost}
    of = gathered(tmp_path, make_record, levels)
    (found,) = ablation_claims._more_on_high(of, "K", 0, "more", "App. B.7.3")
    assert found.status == status


@pytest.mark.parametrize(
    ("factor", "reps", "status"),
    [(1.0, 12, "reproduced"), (1.3, 12, "reproduced"), (3.0, 12, "not"), (1.0, 6, "open")],
)
def test_a_little_effect_is_what_the_records_exclude_not_what_they_fail_to_show(
    tmp_path: Path, make_record: Make, factor: float, reps: int, status: str
) -> None:
    levels = {(t, m): 0.1 * factor ** ("S=" in m) for t in variants.ABLATION_TASKS for m in variants.ablations(t)}
    of = gathered(tmp_path, make_record, levels, reps)
    (found,) = ablation_claims._level_everywhere(of, "S", "The number of candidates S has little effect", "")
    assert found.status == status, "six replications are too few for intervals that hold for twelve comparisons"


def test_the_effect_of_m_is_judged_at_the_end_and_on_the_task_that_the_claim_is_about(
    tmp_path: Path, make_record: Make
) -> None:
    levels = {(t, m): 0.1 for t in variants.ABLATION_TASKS for m in variants.ablations(t)}
    levels |= {(HIGH, "dms-paper[m=100]"): 1.0}
    for low, status in ((0.1, "reproduced"), (1.0, "not")):
        of = gathered(tmp_path / status, make_record, levels | {(LOW, "dms-paper[m=100]"): low})
        found = {f.claim: f for f in ablation_claims.judge(Evidence({}, {}, ablations.split(of).ablated, tmp_path))}
        limited = found["m has a limited effect on the final result on Styblinski–Tang-2"]
        assert limited.status == status
        assert "all along" not in limited.found


@pytest.mark.parametrize(("early", "late", "status"), [(2.0, 1.0, "reproduced"), (1.0, 2.0, "not")])
def test_a_gap_is_compared_with_itself_later_in_the_run(
    tmp_path: Path, make_record: Make, early: float, late: float, status: str
) -> None:
    levels = {(task, m): 0.1 for task in (LOW, HIGH) for m in ("dms-paper", "dms-paper[train_on=observed]")}
    of = gathered(tmp_path, make_record, levels)
    for methods in of.values():
        preset, observed = (c.regret[:, c.n_initial :] for c in methods.values())
        gap = np.repeat([early, early, late], preset.shape[1] // 3 + 1)[: preset.shape[1]]
        observed[:] = preset + gap * np.linspace(1, 1.1, len(preset))[:, None]
    (found,) = ablation_claims._pronounced_early(of, "train_on", "observed")
    assert found.status == status


def test_a_collapse_is_counted_by_the_number_of_steps(tmp_path: Path, make_record: Make) -> None:
    def judge(shares: dict[str, int]) -> str:
        store = Store(tmp_path / "-".join(map(str, shares.values())))
        for task, of_four in shares.items():
            step = next(m for m, point in variants.departures(task).items() if point == variants.WHERE_COLLAPSED)
            record = make_record(task, step, 0, 1.0)
            store.append(dataclasses.replace(record, fell_back=[i < of_four for i in range(4)]))
        departed = ablations.split(gather(store)).departed
        (found,) = ablation_claims.judge(Evidence({}, {}, {}, tmp_path, departed))
        assert "with K = 5 in" in found.found
        return found.status

    assert judge({"griewank-3": 0, "levy-10": 2}) == "reproduced"
    assert judge({"griewank-3": 3, "levy-10": 2}) == "partly", "few steps collapse as well"
    assert judge({"griewank-3": 0, "levy-10": 0}) == "not"


@pytest.mark.parametrize(("by_guidance", "status"), [(-1.0, "reproduced"), (0.0, "not"), (1.0, "not")])
def test_guidance_is_judged_by_the_same_runs_without_it(tmp_path: Path, by_guidance: float, status: str) -> None:
    base = np.linspace(2, 3, 10)
    rows = [
        {**theory.BASE, "w": w, "e1": [1.0] * 10, "gap": [0.0] * 10, "method": "dms-printed"}
        | {term: [*(base + by_guidance * w / 4).tolist()[:-1], None if w else 9.0] for term in ("subopt", "e2")}
        for w in (0.0, 1.0, 2.0)
    ]
    write(tmp_path / "theory.json", rows)
    (found,) = claims._guidance(Evidence({}, {}, {}, tmp_path))
    assert (found.status, found.reading) == (status, "`dms-printed`, always with a model")
    mean = base[:-1].mean()
    text = f"SubOpt {mean:.2f} without, {mean + by_guidance / 2:.2f} with it on styblinski-tang-2"
    assert text in found.found, "the last seed diverged with guidance, and counts for neither"


def test_what_pes_costs_is_beside_dms_on_both_tasks() -> None:
    def rows(low: float, high: float) -> list[dict[str, object]]:
        seconds = {(LOW, "pes"): low, (HIGH, "pes"): high, (LOW, "dms-paper"): 2.0, (HIGH, "dms-paper"): 4.0}
        return [{"device": "GPU", "task": t, "method": m, "seconds": [s]} for (t, m), s in seconds.items()]

    (much,) = claims._pes_seconds(rows(8.0, 400.0))
    assert (much.status, "×4.0 on styblinski-tang-2 and ×100.0 on levy-10" in much.found) == ("reproduced", True)
    assert [claims._pes_seconds(rows(2.0, high))[0].status for high in (8.0, 3.0)] == ["partly", "not"]
    assert claims._pes_seconds(rows(1.0, 1.0)[2:]) == []


def test_the_pseudo_dataset_is_beside_what_it_is_said_to_be_less_than() -> None:
    def row(batch: int, pseudo: float) -> dict[str, object]:
        stages = {"fit": 9.0, "pseudo": pseudo, "train": 1.5, "sample": 0.5, "mode": 9.0}
        return {"device": "GPU", "task": "levy-10", "method": "dms-paper", "batch": batch, "stages": stages}

    (found,) = claims._pseudo_seconds([row(1, 1.0), row(8, 7.0), row(128, 4.0), row(1, 9.0) | {"method": "dms"}])
    assert found.status == "reproduced", "of a single run, as the paper's"
    assert found.found.endswith("in a batch of 1 ×0.50 on levy-10; in a batch of 128 ×2.00 on levy-10")
    assert claims._pseudo_seconds([row(1, 3.0)])[0].status == "not"


def test_a_late_fall_is_compared_with_the_median_baseline_of_the_replication(tmp_path: Path, make_record: Make) -> None:
    levels = {(task, method): 1.0 for task in TASKS for method in ("dms-paper", "pi", "ei", "ucb")}
    of = gathered(tmp_path, make_record, levels)
    for methods in of.values():
        for name, fall in (("dms-paper", 0.5), ("pi", 1.0), ("ei", 1.0), ("ucb", 0.01)):
            curves = methods[name]
            late = curves.n_initial + (curves.regret.shape[1] - curves.n_initial) * 3 // 4
            curves.regret[:, late - 1 :] = np.linspace(1, 1 + 0.1 * fall, 12)[:, None]
            curves.regret[:, -1] *= fall
            assert curves.late == pytest.approx(np.log10(fall))
    assert presets.late(of, "dms-paper").corrected == dict.fromkeys(TASKS, "better"), "UCB falls further, but is one"
    found = [f for f in regret_claims.judge(Evidence(of, {}, {}, tmp_path)) if "plateau" in f.claim]
    assert [f.status for f in found] == ["open"] * 3, "on two tasks of twelve"
    assert "further / level / less far 2 / 0 / 0 (2 / 0)" in found[1].found


def test_to_be_better_consistently_is_to_be_so_all_along_and_everywhere(tmp_path: Path, make_record: Make) -> None:
    synthetic = [task for task in task_names() if find_task(task).values is not None]
    of = gathered(tmp_path, make_record, {(t, m): 0.1 for t in synthetic for m in ("dms-paper", "ei")})

    def status() -> str:
        (found,) = (f for f in regret_claims.judge(Evidence(of, {}, {}, tmp_path)) if is_first(f))
        assert found.found.startswith(f"{len(of)} of {len(synthetic)} tasks with 12 replications")
        return found.status

    def is_first(finding: Finding) -> bool:
        return finding.reading == "`dms-paper`" and "consistently" in finding.claim

    for methods in of.values():
        methods["dms-paper"].regret[:, -1] *= 0.1
    assert status() == "partly", "at the end alone"
    for methods in of.values():
        methods["dms-paper"].regret[:] *= 0.1
    assert status() == "reproduced"
    del of[synthetic[0]]
    assert status() == "partly", "on all but one"
    for task in synthetic[1:7]:
        del of[task]
    assert status() == "open", "on five of twelve"


def test_a_reading_that_has_not_run_enough_is_open(tmp_path: Path, make_record: Make) -> None:
    of = gathered(tmp_path, make_record, {(t, m): 0.1 for t in TASKS for m in ("dms-paper", "ei")}, reps=5)
    found = list(regret_claims.judge(Evidence({}, of, {}, tmp_path)))
    assert [f.reading for f in found] == ["`dms-printed`", "`dms-paper`", "`dms`"]
    assert {(f.status, f.found) for f in found} == {("open", "not run with 6 replications on any of 4 tasks")}


def test_every_line_says_which_reading_it_is_about(tmp_path: Path, make_record: Make) -> None:
    of = gathered(tmp_path, make_record, {("griewank-3", m): 0.1 for m in ("dms-printed", "dms", "ei")})
    rows = [{"device": "GPU", "task": "levy-10", "method": m, "seconds": [1.0]} for m in ("dms-paper", "ei")]
    write(tmp_path / "seconds.json", rows)
    table = claims.table(Evidence(of, {}, {}, tmp_path))
    assert [row["reading"] for row in table.rows] == ["`dms-printed`", "`dms-paper`", "`dms`"] * 2 + ["`dms-paper`"]


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
    found = list(claims._theory(Evidence({}, {}, {}, tmp_path)))
    assert [f.status for f in found if "dms-paper" in f.reading] == ["partly", "reproduced", "partly", "not"]
    bound, of_n, of_m, of_t0, *_ = found
    assert "held in 15 of 18 measurements, and in 18 with" in bound.found
    assert bound.command == "theory --task styblinski-tang-2 --method dms-paper"
    assert "E1 falls as n^(-1.00 ± 0.00); the bound has -0.5" in of_n.found
    assert "E2 falls as m^(-0.26 ± 0.01)" in of_m.found
    assert "E2 rises as t0^(+1.01 ± 0.01)" in of_t0.found
    of_printed = [f for f in found if "dms-printed" in f.reading]
    assert [f.status for f in of_printed] == ["reproduced", "not", "reproduced"]
    assert "ε² falls as t0^(-2.05 ± 0.05)" in of_printed[-1].found


def test_what_few_samples_cost_and_how_the_gap_grows_are_claims_of_their_own() -> None:
    def rows(low: tuple[float, float], high: tuple[float, float], **more: str) -> list[dict[str, object]]:
        seconds = {(t, S): s for t, of in ((LOW, low), (HIGH, high)) for S, s in zip((100, 300), of, strict=True)}
        base = {"device": "GPU"} | more
        return [
            {"method": method, "task": t, "S": S, "seconds": [0.5 * s * factor, 1.5 * s * factor]} | base
            for (t, S), s in seconds.items()
            for method, factor in (("PES", 1.0), ("DMS", 1 / s), ("PES, our paths", 0.1))
        ]

    def judge(low: tuple[float, float], high: tuple[float, float]) -> list[str]:
        return [f.status for f in claims._draws(rows(low, high)) if "BoTorch's" in f.claim]

    assert judge((0.95, 3.6), (4.3, 10.8)) == ["reproduced", "reproduced"], "the paper's own numbers"
    assert judge((7.0, 9.6), (19.9, 27.2)) == ["not", "reproduced"], "faster with few samples already"
    assert judge((1.0, 3.6), (10.8, 4.3)) == ["reproduced", "partly"], "all are faster, but the gap shrinks"
    assert judge((1.0, 0.9), (0.8, 0.5)) == ["reproduced", "not"]
    on_gpu, _, _, ours, *others = claims._draws([*rows((7.0, 9.6), (19.9, 27.2)), *rows((1, 2), (3, 4), device="CPU")])
    assert on_gpu.found == "PES takes ×7.0 with S = 100: DMS is cheaper from the first"
    assert "our path sampler" in ours.claim
    assert [f.reading for f in others] == ["`dms`"] * 4
    found = ours.found
    assert found.endswith("grows in 2 of 2 pairs of S and from d = 2 to 10 in 2 of 2"), found
    assert claims._draws([{**row, "method": "DMS"} for row in rows((1, 2), (3, 4))]) == []


def test_claims_about_seconds_are_of_each_device_and_sampler() -> None:
    def row(method: str, seconds: float, device: str = "GPU") -> dict[str, object]:
        return {
            "method": method,
            "task": "levy-10",
            "S": 100,
            "device": device,
            "seconds": [0.5 * seconds, 1.5 * seconds],
        }

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
    assert found.reading == "`dms-printed`"


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
    assert script["with_tables"](text) == text, "`make report` refreshes the tables"
    (tmp_path / "claims.csv").write_text(
        "number,claim,place,status,found,command,reading\n1,It works,Sec. 5,open,1 of 3,theory,`dms`\n"
    )
    (tmp_path / "readings.csv").write_text(
        "method,against,tasks,measure,better,better by Holm,level,level by Holm,worse,worse by Holm\n"
        "dms,ei,real tasks,at the end,2,1,1,3,1,0\ndms,ei,real tasks,all along,0,0,0,0,0,0\n"
        "dms-paper,ucb,real tasks,at the end,1,1,0,0,0,0\n"
    )
    other = script["with_tables"](text, tmp_path)
    assert "| 1 | It works | Sec. 5 | `dms` | open | 1 of 3 | `modeseek bench theory` |" in other
    assert "| real tasks, against | `dms`, at the end | `dms-paper`, at the end |\n|---|---|---|\n" in other
    assert "| ei | 2 / 1 / 1 (1 / 0) |  |\n| ucb |  | 1 / 0 / 0 (1 / 0) |\n" in other
    with pytest.raises(SystemExit, match="0 places"):
        script["with_tables"]("", tmp_path)
