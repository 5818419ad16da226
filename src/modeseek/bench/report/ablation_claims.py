"""The paper's claims about the parts of its method: App. B.7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from scipy import stats

from modeseek.bench.methods.variants import PRESET, ablation, values
from modeseek.bench.report.curves import (
    LEVEL,
    MEASURES,
    REGRET_FLOOR,
    Curves,
    Gathered,
    Measure,
    Verdict,
    difference,
    holm,
    judged,
    paired,
)
from modeseek.bench.report.finding import HIGH, LOW, Evidence, Finding, Status
from modeseek.bench.report.intervals import Interval, shift
from modeseek.typing import Array

LITTLE = 2.0  # times as much regret, or half of it, is the most that counts as a little effect
_ABLATIONS = "run --task styblinski-tang-2,levy-10 --method ablations"


def judge(evidence: Evidence) -> Iterator[Finding]:
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


def _judged(
    of: Gathered, setting: str, value: Any, tasks: Sequence[str], what: Measure = "final"
) -> dict[str, Verdict]:
    """The value beside the paper's, by task, with Holm's correction over these tasks."""
    pairs = {task: (c, of[task][PRESET]) for task in tasks if (c := _variant(of, task, setting, value)) is not None}
    return judged({task: difference(*pair, what) for task, pair in pairs.items()}).corrected


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
    """Whether a value is worse than each of the others on both tasks, with Holm's correction over all of these."""
    differences = {
        (task, other): difference(worst, c, "final")
        for task in (LOW, HIGH)
        for other in values(task, setting)
        if other != value
        and (c := _variant(of, task, setting, other)) is not None
        and (worst := _variant(of, task, setting, value)) is not None
    }
    found = judged(differences).corrected
    if len({task for task, _ in found}) < 2:
        return
    lost = {task: [v == "worse" for (t, _), v in found.items() if t == task] for task in (LOW, HIGH)}
    every = [lost_on for of_task in lost.values() for lost_on in of_task]
    status: Status = "reproduced" if all(every) else "partly" if any(every) else "not"
    counts = ", ".join(
        f"worse than {sum(of_task)} of {len(of_task)} other values on {task}" for task, of_task in lost.items()
    )
    yield Finding(claim, place, status, f"{counts}; {_both_medians(of, setting)}", _ABLATIONS)


def _more_on_high(of: Gathered, setting: str, value: Any, claim: str, place: str) -> Iterator[Finding]:
    """Whether the value costs more on Levy-10, in log regret: a test of two independent samples, one per task."""
    p, texts, more = [], [], []
    for what, when in MEASURES.items():
        costs = []
        for task in (LOW, HIGH):
            without = _variant(of, task, setting, value)
            if without is None:
                return
            costs.append(_log_ratio(without, of[task][PRESET], what))
        p.append(float(stats.mannwhitneyu(costs[0], costs[1]).pvalue))
        medians = [float(np.median(cost)) for cost in costs]
        more.append(medians[1] > medians[0])
        of_tasks = ", ".join(f"×{10**m:.3g} on {task}" for m, task in zip(medians, (LOW, HIGH), strict=True))
        texts.append(f"regret without it {when} {of_tasks}")
    corrected = holm(p)
    higher = [q < LEVEL and is_more for q, is_more in zip(corrected, more, strict=True)]
    status: Status = "reproduced" if all(higher) else "partly" if any(higher) else "not"
    text = "; ".join(f"{text} (p = {q:.2g})" for text, q in zip(texts, corrected, strict=True))
    found = f"median over replications of {text}; Mann and Whitney's test of the two tasks, with Holm's correction"
    yield Finding(claim, place, status, found, _ABLATIONS)


def _log_ratio(curves: Curves, reference: Curves, what: Measure) -> Array:
    """Of each replication that both have: log10 of regret at the end, or its mean all along, minus the reference's."""
    if what == "area":
        return difference(curves, reference, what)
    a, b = (np.log10(np.maximum(x, REGRET_FLOOR)) for x in paired(curves, reference, what))
    return np.asarray(a - b)


def _worse_on(
    of: Gathered, task: str, setting: str, value: Any, claim: str, place: str, what: Measure
) -> Iterator[Finding]:
    if judged := _judged(of, setting, value, (task,), what):
        status: Status = "reproduced" if judged[task] == "worse" else "not"
        text = f"{setting} = {value} is {judged[task]} {'all along' if what == 'area' else 'at the end'}; median final "
        yield Finding(claim, place, status, f"{text}regret by {setting} {_medians(of, setting, task)}", _ABLATIONS)


def _level_everywhere(of: Gathered, setting: str, claim: str, place: str) -> Iterator[Finding]:
    """Whether all values of a setting are as good as the paper's: no test tells them apart and the data exclude that
    regret is more than LITTLE times as high or as low."""
    differences = {
        (task, value, what): _log_ratio(c, of[task][PRESET], what)
        for task in (LOW, HIGH)
        for value in values(task, setting)
        if (c := _variant(of, task, setting, value)) is not None and c is not of[task][PRESET]
        for what in MEASURES
    }
    found = judged(differences).corrected
    if not found:
        return
    intervals = {key: shift(differences[key], LEVEL / len(found)) for key in found}
    apart = [key for key, v in found.items() if v != "level"]
    unsure = [key for key, interval in intervals.items() if not interval.within(np.log10(LITTLE))]
    status: Status = "not" if apart else "open" if unsure else "reproduced"
    text = (
        f"{len(found) - len(apart)} of {len(found)} comparisons with the paper's value, at the end and all along, are "
        f"level, and {len(found) - len(unsure)} exclude regret {LITTLE:g} times as high or as low (a little here). "
        f"Regret by that of the paper's value, all simultaneous {100 * (1 - LEVEL):.0f} % intervals (Hodges and "
        f"Lehmann's) together: {_hulls(intervals)}"
    )
    yield Finding(claim, place, status, text, _ABLATIONS)


def _hulls(intervals: dict[tuple[str, Any, Measure], Interval]) -> str:
    """From the least to the greatest ratio of regret on each task, at the end and all along."""
    texts = []
    for task, what in dict.fromkeys((task, what) for task, _, what in intervals):
        of = [i for (t, _, w), i in intervals.items() if (t, w) == (task, what)]
        low, high = min(i.low for i in of), max(i.high for i in of)
        texts.append(f"×{10**low:.2g} to ×{10**high:.2g} on {task} {MEASURES[what]}")
    return ", ".join(texts)
