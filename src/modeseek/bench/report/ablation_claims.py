"""The paper's claims about the parts of its method: App. B.7."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import stats

from modeseek.bench.methods.variants import PRESET, PRINTED, WHERE_COLLAPSED, ablation, departures, values
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
from modeseek.bench.report.table import percent
from modeseek.bench.tasks import find_task
from modeseek.typing import Array

LITTLE = 2.0  # times as much regret, or half of it, is the most that counts as a little effect
_ABLATIONS = "run --task styblinski-tang-2,levy-10 --method ablations"


def judge(evidence: Evidence) -> Iterator[Finding]:
    """App. B.7, on the two tasks that the paper has."""
    of = evidence.ablated
    if all(task in of and PRESET in of[task] for task in (LOW, HIGH)):
        yield from _ablations(of)
    yield from _collapse(evidence.departed)


def _ablations(of: Gathered) -> Iterator[Finding]:
    claim = "Without pseudo-labels regret is substantially higher throughout"
    yield from _worse_on_both(of, "train_on", "observed", claim, "App. B.7.1", tuple(MEASURES))
    yield from _pronounced_early(of, "train_on", "observed")
    yield from _worst_of_all(of, "rho", 0, "ρ = 0 consistently performs worst", "App. B.7.2")
    yield from _worse_on_both(of, "rho", 3, "Too large a ρ degrades performance", "App. B.7.2")
    claim = "Short-run L-BFGS outperforms Sobol points alone (K = 0)"
    yield from _worse_on_both(of, "K", 0, claim, "App. B.7.3")
    yield from _more_on_high(of, "K", 0, "Its gain is larger on Levy-10 than on Styblinski–Tang-2", "App. B.7.3")
    yield from _worse_on(of, LOW, "m", 100, "m = 100 is noticeably slower on Styblinski–Tang-2", "App. B.7.4", "area")
    claim = "m has a limited effect on the final result on Styblinski–Tang-2"
    yield from _level_everywhere(of, "m", claim, "App. B.7.4", (LOW,), ("final",))
    yield from _worse_on(of, HIGH, "m", 100, "A larger m helps on Levy-10", "App. B.7.4", "final")
    yield from _level_everywhere(of, "S", "The number of candidates S has little effect", "App. B.7.5")


def _variant(of: Gathered, task: str, setting: str, value: Any) -> Curves | None:
    return of[task].get(ablation(task, setting, value))


def _judged(
    of: Gathered, setting: str, value: Any, tasks: Sequence[str], measures: Sequence[Measure] = ("final",)
) -> dict[tuple[str, Measure], Verdict]:
    """The value beside the paper's, by task and measure, with Holm's correction over all of these."""
    pairs = {task: (c, of[task][PRESET]) for task in tasks if (c := _variant(of, task, setting, value)) is not None}
    return judged({(t, what): difference(*pair, what) for t, pair in pairs.items() for what in measures}).corrected


def _medians(of: Gathered, setting: str, task: str) -> str:
    found = [(value, c) for value in values(task, setting) if (c := _variant(of, task, setting, value)) is not None]
    return ", ".join(f"{value}: {np.median(c.final):.3g}" for value, c in found)


def _both_medians(of: Gathered, setting: str) -> str:
    return "; ".join(
        f"median final regret on {task} by {setting} {_medians(of, setting, task)}" for task in (LOW, HIGH)
    )


def _worse_on_both(
    of: Gathered,
    setting: str,
    value: Any,
    claim: str,
    place: str,
    measures: Sequence[Measure] = ("final",),
) -> Iterator[Finding]:
    found = _judged(of, setting, value, (LOW, HIGH), measures)
    if len(found) < 2 * len(measures):
        return
    worse = [v == "worse" for v in found.values()]
    status: Status = "reproduced" if all(worse) else "partly" if any(worse) else "not"
    verdicts = ", ".join(f"{v} {MEASURES[what]} on {task}" for (task, what), v in found.items())
    text = f"{verdicts} than the paper's value; {_both_medians(of, setting)}"
    yield Finding(claim, place, status, text, _ABLATIONS)


def _pronounced_early(of: Gathered, setting: str, value: Any) -> Iterator[Finding]:
    """Whether what the value costs, in regret as in the paper's figures, is more in the first two thirds of the budget
    than in the last one."""
    gaps, texts = {}, []
    for task in (LOW, HIGH):
        worse, preset = _variant(of, task, setting, value), of[task][PRESET]
        if worse is None:
            return
        thirds, in_logs = (_by_thirds(worse, preset, scale) for scale in (np.asarray, _log))
        gaps[task] = thirds[2] - thirds[:2].mean(0)  # negative: more at first
        texts.append(
            f"{', '.join(f'{np.median(third):.3g}' for third in thirds)} on {task} (of log10 regret "
            f"{', '.join(f'{np.median(third):.2f}' for third in in_logs)})"
        )
    found = judged(gaps).corrected
    if len(found) < 2:
        return
    early = [v == "better" for v in found.values()]
    status: Status = "reproduced" if all(early) else "partly" if any(early) else "not"
    words = {"better": "larger", "level": "level", "worse": "smaller"}
    text = (
        f"the gap in regret is {', '.join(f'{words[v]} on {task}' for task, v in found.items())} in the first two "
        f"thirds of the budget than in the last; its median in each third is {'; '.join(texts)}"
    )
    yield Finding("The gap without pseudo-labels is largest early on", "App. B.7.1", status, text, _ABLATIONS)


def _by_thirds(curves: Curves, reference: Curves, scale: Callable[[Array], Array]) -> Array:
    """3 x replications that both have: the mean difference in scaled regret over each third of the budget."""
    common = sorted(set(curves.replications) & set(reference.replications))
    a, b = (scale(c.regret[[c.replications.index(i) for i in common], c.n_initial :]) for c in (curves, reference))
    return np.array([third.mean(axis=1) for third in np.array_split(a - b, 3, axis=1)])


def _log(regret: Array) -> Array:
    return np.asarray(np.log10(np.maximum(regret, REGRET_FLOOR)))


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
    a, b = paired(curves, reference, what)
    return _log(a) - _log(b)


def _worse_on(
    of: Gathered, task: str, setting: str, value: Any, claim: str, place: str, what: Measure
) -> Iterator[Finding]:
    if found := _judged(of, setting, value, (task,), (what,)):
        verdict = found[task, what]
        status: Status = "reproduced" if verdict == "worse" else "not"
        text = f"{setting} = {value} is {verdict} {MEASURES[what]}; median final "
        yield Finding(claim, place, status, f"{text}regret by {setting} {_medians(of, setting, task)}", _ABLATIONS)


def _level_everywhere(
    of: Gathered,
    setting: str,
    claim: str,
    place: str,
    tasks: Sequence[str] = (LOW, HIGH),
    measures: Sequence[Measure] = tuple(MEASURES),
) -> Iterator[Finding]:
    """Whether all values of a setting are about as good as the paper's: the data exclude that regret is more than
    LITTLE times as high or as low. Where they do not, it is not so if a test tells a value apart, and else open."""
    differences = {
        (task, value, what): _log_ratio(c, of[task][PRESET], what)
        for task in tasks
        for value in values(task, setting)
        if (c := _variant(of, task, setting, value)) is not None and c is not of[task][PRESET]
        for what in measures
    }
    found = judged(differences).corrected
    if not found:
        return
    intervals = {key: shift(differences[key], LEVEL / len(found)) for key in found}
    apart = [key for key, v in found.items() if v != "level"]
    unsure = [key for key, interval in intervals.items() if not interval.within(np.log10(LITTLE))]
    status: Status = "reproduced" if not unsure else "not" if apart else "open"
    names = [f"{setting} = {v} {found[t, v, what]} {MEASURES[what]} on {t}" for t, v, what in apart]
    level = f"{len(found) - len(apart)} of {len(found)} comparisons with the paper's value are level"
    text = (
        f"{', '.join([level, *names])}; {len(found) - len(unsure)} exclude regret {LITTLE:g} times as high or low (a "
        f"little here). Regret by that of the paper's value, all simultaneous {100 * (1 - LEVEL):.0f} % intervals "
        f"(Hodges and Lehmann's) together: {_hulls(intervals)}"
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


def _collapse(departed: Gathered) -> Iterator[Finding]:
    """How often the pseudo-inputs end in one point, by the step that does without a model there and nowhere else."""
    shares: dict[int, dict[str, float]] = {}
    for task, of in departed.items():
        problem = find_task(task)
        (step,) = (method for method, point in departures(task).items() if point == WHERE_COLLAPSED)
        if step in of and not np.isnan(of[step].without_model):
            _, K, _ = problem.config().sizes(problem.d)
            shares.setdefault(K, {})[task] = of[step].without_model
    if len(shares) < 2:
        return
    most = shares[max(shares)].values()
    fewer = [share for K, of_K in shares.items() if max(shares) > K for share in of_K.values()]
    status: Status = "reproduced" if min(most) > max(fewer) else "partly" if max(most) > 0 else "not"
    texts = [
        f"with K = {K} in {', '.join(f'{percent(share)} % on {task}' for task, share in of_K.items())}"
        for K, of_K in sorted(shares.items())
    ]
    text = f"in how many iterations all pseudo-inputs are one point: {'; '.join(texts)}"
    claim = "Too large a K lets all pseudo-inputs collapse to one point"
    command = f"run --task {','.join(t for of_K in shares.values() for t in of_K)} --method departures"
    yield Finding(claim, "App. B.7.3", status, text, command, f"`{PRINTED}` with the model of `{PRESET}`")
