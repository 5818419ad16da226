"""The paper's claims about the parts of its method: App. B.7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from modeseek.bench.methods.variants import PRESET, ablation, values
from modeseek.bench.report.curves import LEVEL, Curves, Gathered, Measure, holm, p_value, verdict
from modeseek.bench.report.finding import HIGH, LOW, Evidence, Finding, Status

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
