"""Every claim of the paper that can be counted: reproduced, partly, or not, with the number and the command.

A claim about regret is judged by tests (Wilcoxon signed-rank over replications, 5 %, with Holm's correction over the
tests that it rests on), a claim about sizes and speeds by the numbers themselves. What is not measured has no line.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from modeseek.bench.measure import cost, distribution, theory
from modeseek.bench.measure.measurements import Measurement, as_written, read, where
from modeseek.bench.measure.seconds import OUR_PATHS, PAPERS_DMS
from modeseek.bench.methods.variants import PRESET, ablation, values
from modeseek.bench.report import presets
from modeseek.bench.report.cost import exponents
from modeseek.bench.report.curves import LEVEL, Curves, Gathered, Measure, holm, p_value, verdict
from modeseek.bench.report.rates import rate
from modeseek.bench.report.table import Row, Table
from modeseek.bench.report.theory import CLAIMED, NAMES, counts

Status = Literal["reproduced", "partly", "not"]
LOW, HIGH = "styblinski-tang-2", "levy-10"  # of the paper's ablations and tables of seconds
NOTE = (
    "Each claim of the paper that can be counted, as far as there are records: where it stands, whether it is "
    "reproduced, and the numbers. Tests are Wilcoxon's signed-rank test over replications at 5 %, with Holm's "
    "correction over the tests of a claim; a rate of the bound is reproduced where its 95 % interval over seeds is "
    "below zero and does not lie above the rate, partly where it is only below zero or more steps fall than rise. "
    "Claims about the method are judged by `dms-printed`, the text to the letter, and by `dms-paper`, its usual "
    "reading."
)


@dataclass(frozen=True)
class Evidence:
    """What a report has."""

    synthetic: Gathered
    real: Gathered
    ablated: Gathered
    results: Path


@dataclass(frozen=True)
class Finding:
    """A claim, where the paper makes it, what became of it, and what measures it."""

    claim: str
    place: str
    status: Status
    found: str
    command: str


def table(evidence: Evidence) -> Table:
    """A numbered line per claim."""
    found = [finding for judge in JUDGES for finding in judge(evidence)]
    lines = [
        [str(i), f.claim, f.place, f.status, f.found, f"`modeseek bench {f.command}`"] for i, f in enumerate(found, 1)
    ]
    rows: list[Row] = [{"number": i, **vars(f)} for i, f in enumerate(found, 1)]
    return Table(["#", "claim", "in the paper", "reproduced?", "found here", "command"], lines, rows)


def _regret(evidence: Evidence) -> Iterator[Finding]:
    """Figures 1 and 2."""
    for gathered, claim, place in (
        (
            evidence.synthetic,
            "On synthetic tasks DMS consistently has lower regret than the baselines",
            "Sec. 5.2, Fig. 1",
        ),
        (evidence.real, "On real tasks DMS outperforms the baselines", "Sec. 5.2, Fig. 2"),
    ):
        for reading in presets.READINGS:
            end, along = (presets.compare(gathered, reading, presets.BEST, what) for what in ("final", "area"))
            if not end.verdicts:
                continue
            better, worse, tasks = end.count("better", True), end.count("worse", True), len(end.verdicts)
            status: Status = "reproduced" if better == tasks else "partly" if better > worse else "not"
            text = (
                "against the best of the paper's baselines, better / level / worse (still better / worse by Holm): at "
                f"the end {end}, all along {along} of {tasks} tasks"
            )
            yield Finding(f"{claim}: `{reading}`", place, status, text, f"paper --method {reading}")
    progress = {m: presets.late_progress(evidence.synthetic, m) for m in (*presets.READINGS, *presets.BASELINES)}
    known = {m: share for m, share in progress.items() if not math.isnan(share)}
    ours = [known[m] for m in presets.READINGS[:2] if m in known]
    theirs = [known[m] for m in presets.BASELINES if m in known]
    if ours and theirs:
        status = (
            "reproduced" if max(ours) < min(theirs) else "partly" if min(ours) < statistics.median(theirs) else "not"
        )
        shares = ", ".join(f"{m} {share:.2f}" for m, share in known.items())
        text = f"regret at the end over regret at three quarters of the budget, median over the tasks of each: {shares}"
        yield Finding("DMS keeps falling while many baselines plateau", "Sec. 5.2", status, text, "paper")


def _ablations(evidence: Evidence) -> Iterator[Finding]:
    """App. B.7, on the two tasks that the paper has."""
    of = evidence.ablated
    if not all(task in of and PRESET in of[task] for task in (LOW, HIGH)):
        return
    yield from _worse_on_both(
        of, "train_on", "observed", "Without pseudo-labels regret is substantially higher", "App. B.7.1", "all"
    )
    yield from _worst_of_all(of, "rho", 0, "ρ = 0 consistently performs worst", "App. B.7.2")
    yield from _worse_on_both(of, "rho", 3, "Too large a ρ degrades performance", "App. B.7.2", "any")
    yield from _worse_on_both(
        of, "K", 0, "Short-run L-BFGS outperforms Sobol points alone (K = 0)", "App. B.7.3", "all"
    )
    yield from _more_on_high(of, "K", 0, "Its gain is larger on Levy-10 than on Styblinski–Tang-2", "App. B.7.3")
    yield from _worse_on(of, LOW, "m", 100, "m = 100 is noticeably slower on Styblinski–Tang-2", "App. B.7.4", "area")
    yield from _worse_on(of, HIGH, "m", 100, "A larger m helps on Levy-10", "App. B.7.4", "final")
    yield from _level_everywhere(of, "S", "The number of candidates S has little effect", "App. B.7.5")


def _variant(of: Gathered, task: str, setting: str, value: Any) -> Curves | None:
    return of[task].get(ablation(task, setting, value))


def _judged(of: Gathered, setting: str, value: Any, tasks: Sequence[str], what: Measure = "final") -> dict[str, str]:
    """The value beside the paper's, by task, with Holm's correction over these tasks."""
    pairs = {task: (c, of[task][PRESET]) for task in tasks if (c := _variant(of, task, setting, value)) is not None}
    corrected = holm([p_value(*pair, what) for pair in pairs.values()])
    return {
        task: (verdict(*pair, what) or "level") if p < LEVEL else "level"
        for (task, pair), p in zip(pairs.items(), corrected, strict=True)
    }


def _medians(of: Gathered, setting: str, task: str) -> str:
    found = [(value, c) for value in values(task, setting) if (c := _variant(of, task, setting, value)) is not None]
    return ", ".join(f"{value}: {np.median(c.final):.3g}" for value, c in found)


def _both_medians(of: Gathered, setting: str) -> str:
    return "; ".join(
        f"median final regret on {task} by {setting} {_medians(of, setting, task)}" for task in (LOW, HIGH)
    )


def _worse_on_both(
    of: Gathered, setting: str, value: Any, claim: str, place: str, needed: Literal["all", "any"]
) -> Iterator[Finding]:
    judged = _judged(of, setting, value, (LOW, HIGH))
    if len(judged) < 2:
        return
    worse = [v == "worse" for v in judged.values()]
    status: Status = "reproduced" if all(worse) else "partly" if any(worse) else "not"
    text = f"{', '.join(f'{v} on {t}' for t, v in judged.items())} than the paper's value; {_both_medians(of, setting)}"
    yield Finding(claim, place, status, text, _ABLATIONS)


def _worst_of_all(of: Gathered, setting: str, value: Any, claim: str, place: str) -> Iterator[Finding]:
    """Whether a value is worse than each of the others on both tasks."""
    lost: dict[str, list[bool]] = {}
    for task in (LOW, HIGH):
        worst = _variant(of, task, setting, value)
        others = [c for v in values(task, setting) if v != value and (c := _variant(of, task, setting, v)) is not None]
        if worst is None or not others:
            return
        corrected = holm([p_value(worst, other) for other in others])
        lost[task] = [
            p < LEVEL and verdict(worst, other, "final") == "worse" for other, p in zip(others, corrected, strict=True)
        ]
    every = [all(of_task) for of_task in lost.values()]
    status: Status = "reproduced" if all(every) else "partly" if any(map(any, lost.values())) else "not"
    counts = ", ".join(
        f"worse than {sum(of_task)} of {len(of_task)} other values on {task}" for task, of_task in lost.items()
    )
    yield Finding(claim, place, status, f"{counts}; {_both_medians(of, setting)}", _ABLATIONS)


def _more_on_high(of: Gathered, setting: str, value: Any, claim: str, place: str) -> Iterator[Finding]:
    ratios = {}
    for task in (LOW, HIGH):
        without = _variant(of, task, setting, value)
        if without is None:
            return
        ratios[task] = float(np.median(without.final) / np.median(of[task][PRESET].final))
    status: Status = "reproduced" if ratios[HIGH] > max(ratios[LOW], 1) else "not"
    text = ", ".join(f"median final regret without it ×{ratio:.2f} on {task}" for task, ratio in ratios.items())
    yield Finding(claim, place, status, text, _ABLATIONS)


def _worse_on(
    of: Gathered, task: str, setting: str, value: Any, claim: str, place: str, what: Measure
) -> Iterator[Finding]:
    if judged := _judged(of, setting, value, (task,), what):
        status: Status = "reproduced" if judged[task] == "worse" else "not"
        text = f"{setting} = {value} is {judged[task]} {'all along' if what == 'area' else 'at the end'}; median final "
        yield Finding(claim, place, status, f"{text}regret by {setting} {_medians(of, setting, task)}", _ABLATIONS)


def _level_everywhere(of: Gathered, setting: str, claim: str, place: str) -> Iterator[Finding]:
    judged = [
        v
        for task in (LOW, HIGH)
        for value in values(task, setting)
        if ablation(task, setting, value) != PRESET
        for v in _judged(of, setting, value, (task,)).values()
    ]
    if judged:
        status: Status = "reproduced" if set(judged) == {"level"} else "not"
        text = f"{judged.count('level')} of {len(judged)} other values are level; {_both_medians(of, setting)}"
        yield Finding(claim, place, status, text, _ABLATIONS)


def _concentration(evidence: Evidence) -> Iterator[Finding]:
    """App. C, over replications; an iteration without a model says nothing."""
    taken = distribution.load(evidence.results / "distribution.json")
    for method in dict.fromkeys(s.method for s in taken):
        sharper: list[bool] = []
        texts = []
        for iteration in dict.fromkeys(s.iteration for s in taken if s.method == method):
            of = [s for s in taken if (s.method, s.iteration) == (method, iteration)]
            spreads = [(distribution.spread(s.gp), distribution.spread(s.diffusion)) for s in of if not s.fell_back]
            halved = [gp > 2 * model for gp, model in spreads]
            sharper += halved
            text = f"at iteration {iteration} no model in {len(of)} replications"
            if spreads:
                gp, model = np.mean(spreads, axis=0)
                text = f"mean spread {gp:.3g} by the GP and {model:.2g} by the model at iteration {iteration}, under "
                text += f"half of the GP's in {sum(halved)} of {len(halved)} replications"
                text += f" ({len(of) - len(halved)} more had no model)" if len(halved) < len(of) else ""
            texts.append(text)
        if sharper:
            status: Status = "reproduced" if all(sharper) else "partly" if np.mean(sharper) > 0.5 else "not"
            claim = f"The learned distribution of x* is more sharply concentrated than the GP's: `{method}`"
            command = f"distribution --method {method}"
            yield Finding(claim, "Sec. 3.2, App. C, Fig. 8", status, "; ".join(texts), command)


def _cost(evidence: Evidence) -> Iterator[Finding]:
    """App. D: complexity, Tables 3 and 4."""
    for name, judge in (("growth", _growth), ("draws", _draws), ("seconds", _seconds)):
        path = evidence.results / f"{name}.json"
        yield from as_written(path)(judge)(read(path))


def _draws(rows: list[Measurement]) -> list[Finding]:
    """Table 3."""
    found = []
    for device in dict.fromkeys(row["device"] for row in rows):
        of_device = {(row["method"], row["task"], row["S"]): _mean(row) for row in rows if row["device"] == device}
        for ours, settings in OF_DMS.items():
            for sampler, whose in (("PES", "BoTorch's path sampler"), (OUR_PATHS, "our path sampler")):
                ratios = {
                    (task, S): seconds / of_device[ours, task, S]
                    for (method, task, S), seconds in of_device.items()
                    if method == sampler and (ours, task, S) in of_device
                }
                if ratios:
                    least, most = min(ratios.values()), max(ratios.values())
                    status: Status = "reproduced" if least > 1 else "partly" if most > 1 else "not"
                    text = ", ".join(f"×{ratio:.1f} on {task} with S = {S}" for (task, S), ratio in ratios.items())
                    claim = f"DMS draws samples of x* faster than PES ({device}; {settings}; {whose})"
                    found.append(Finding(claim, "App. D.2, Table 3", status, f"PES takes {text}", "draws"))
    return found


def _seconds(rows: list[Measurement]) -> list[Finding]:
    """Table 4."""
    seconds = {(row["device"], row["task"], row["method"]): _mean(row) for row in rows}
    found = []
    for device in dict.fromkeys(device for device, _, method in seconds if method == PRESET):
        ours = {task: s for (d, task, method), s in seconds.items() if d == device and method == PRESET}
        simple = {(m, task): s for (d, task, m), s in seconds.items() if d == device and m in SIMPLE and task in ours}
        slower = [f"{m} takes ×{s / ours[task]:.1f} on {task}" for (m, task), s in simple.items() if s >= ours[task]]
        status: Status = "reproduced" if max(ours.values()) < 60 and not slower else "partly"
        text = f"`{PRESET}`: {', '.join(f'{s:.2g} s on {task}' for task, s in ours.items())}"
        text += f"; it is slower than {len(simple) - len(slower)} of {len(simple)} of EI and UCB, ours and BoTorch's"
        text += f", but {', '.join(slower)}" if slower else ""
        claim = f"DMS is slower than EI and UCB, but in the regime of seconds per iteration ({device})"
        found.append(Finding(claim, "App. D.3, Table 4", status, text, "seconds"))
    return found


def _growth(rows: list[Measurement]) -> list[Finding]:
    """App. D.1: upper bounds, so that what grows more slowly is within them."""
    found = []
    for place, batch in dict.fromkeys((where(row), row["batch"]) for row in rows):
        of_place = [row for row in rows if (where(row), row["batch"]) == (place, batch)]
        texts, within = [], True
        for stage, bounds in COMPLEXITY.items():
            slopes = exponents([row | {"seconds": row["stages"][stage]} for row in of_place])
            measured = {size: slopes[size] for size in bounds if size in slopes}
            within = within and all(slope <= bounds[size] + TOLERANCE for size, slope in measured.items())
            if measured:
                texts.append(f"{stage} as {', '.join(f'{size}^{slope:.2f}' for size, slope in measured.items())}")
        if texts:
            status: Status = "reproduced" if within else "not"
            text = f"the default, one size at a time changed from {cost.IN_WORDS}: seconds grow "
            text += f"{'no faster' if within else 'faster'}: {'; '.join(texts)}"
            claim = f"Training costs O(E ⌈m/B⌉ H²) and sampling O(S L H²) ({place}, batch of {batch})"
            device = "" if place.startswith("CPU") else " --device cuda"
            found.append(Finding(claim, "App. D.1", status, text, f"growth{device} --batch {batch}"))
    return found


COMPLEXITY = {"train": {"E": 1, "m": 1, "H": 2}, "sample": {"S": 1, "L": 1, "H": 2}}  # exponents in the paper
TOLERANCE = 0.1  # of a fitted exponent
OF_DMS = {  # by the names that measurements have
    PAPERS_DMS: "the paper's settings",
    "DMS": "the default's settings",
    "DMS, an earlier default": "an earlier default's settings",
}
SIMPLE = ("ei", "ucb", "ei-botorch", "ucb-botorch")
_ABLATIONS = "run --task styblinski-tang-2,levy-10 --method ablations"


def _mean(row: Measurement) -> float:
    return float(statistics.mean(row["seconds"]))


def _theory(evidence: Evidence) -> Iterator[Finding]:
    """Theorem 1, the lemmas and the remarks, of each preset of the paper."""
    for task in theory.TASKS:
        for method in theory.METHODS:
            if found := theory.load(evidence.results / "theory.json", task, method):
                yield from _bound(task, method, found)


def _bound(task: str, method: str, found: list[theory.Suboptimality]) -> Iterator[Finding]:
    """The inequality, counted once for each measurement, and the rates, judged by `rates.RULE`."""
    held, total = np.sum([counts(r) for r in found], axis=0)
    with_gap, _ = np.sum([counts(r, with_gap=True) for r in found], axis=0)
    status: Status = "reproduced" if held == total else "partly" if with_gap == total else "not"
    text = f"held in {held} of {total} measurements, and in {with_gap} with the gap between a and its mean label added"
    if diverged := sum(r.diverged for r in found):
        text += f"; {diverged} more had no finite samples"
    of, command = f"({task}, `{method}`)", f"theory --task {task} --method {method}"
    yield Finding(f"SubOpt ≤ E1 + E2 {of}", "Lemma 1, Theorem 1", status, text, command)
    for varied, term, claim, place in (
        ("n", "e1", "E1 falls with the number of observations, as n^(−1/2)", "Theorem 1, Remark 2"),
        ("m", "e2", "E2 falls with the size of the pseudo-dataset, as m^(−1/2)", "Theorem 1, Remark 3"),
        ("t0", "e2", "E2 grows as t0 gets smaller, as t0^(−2)", "Theorem 1, Remark 3"),
        ("m", "diff", "The diffusion error ε² falls with the size of the pseudo-dataset, as m^(−1/2)", "Lemma 4"),
        ("t0", "diff", "The diffusion error ε² grows as t0 gets smaller, as t0^(−2)", "Lemma 4"),
    ):
        of_sweep, claimed = theory.sweep(found, varied), CLAIMED[varied, term]
        measured = rate(of_sweep, varied, term)
        if measured is None:
            continue
        text = f"{NAMES[term]} {measured}; the bound has {claimed:+.1f}"
        if exceptions := measured.exceptions():
            text += f"; it {exceptions}"
        if varied == "n" and (other := rate(of_sweep, varied, "e2")) is not None:
            text += f"; E2 {other}"
        yield Finding(f"{claim} {of}", place, measured.status(claimed), text, command)


JUDGES: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (_regret, _ablations, _concentration, _cost, _theory)
