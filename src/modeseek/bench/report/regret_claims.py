"""The paper's claims about regret: its Figures 1 and 2, and Sec. 5.2."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

from modeseek.bench.report import presets
from modeseek.bench.report.curves import MIN_PAIRS, Comparison, Gathered
from modeseek.bench.report.finding import Evidence, Finding, Status
from modeseek.bench.report.table import percent
from modeseek.bench.tasks import find_task, task_names


def judge(evidence: Evidence) -> Iterator[Finding]:
    """A line per reading and figure, where any reading has run."""
    tasks = {True: 0, False: 0}
    for task in task_names():
        tasks[find_task(task).values is not None] += 1
    for gathered, claim, place, count in (
        (
            evidence.synthetic,
            "On synthetic tasks DMS consistently has lower regret than the baselines",
            "Sec. 5.2, Fig. 1",
            tasks[True],
        ),
        (evidence.real, "On real tasks DMS outperforms the baselines", "Sec. 5.2, Fig. 2", tasks[False]),
    ):
        for reading in _read(gathered):
            end, along = (presets.compare(gathered, reading, presets.BEST, what) for what in ("final", "area"))
            better, worse = (end.count(v, True) + along.count(v, True) for v in ("better", "worse"))
            status: Status = "reproduced" if better == 2 * count else "partly" if better > worse else "not"
            text = (
                "against the best of the paper's baselines, better / level / worse (still better / worse by Holm): at "
                f"the end {end}, all along {along}; {_without_model(gathered, reading)}"
            )
            yield _of_enough(Finding(claim, place, status, text, *_run_as(reading)), end, count)
    for reading in _read(evidence.synthetic):
        late = presets.late(evidence.synthetic, reading)
        better, worse = late.count("better", True), late.count("worse", True)
        fell: Status = "reproduced" if 2 * better > tasks[True] else "partly" if better > worse else "not"
        text = (
            "fall of log regret over the last quarter of the budget, against the median of the paper's baselines in "
            f"the same replication: further / level / less far {late} (who is behind has more left to gain)"
        )
        claim = "DMS keeps falling while many baselines plateau"
        yield _of_enough(Finding(claim, "Sec. 5.2", fell, text, *_run_as(reading)), late, tasks[True])


def _read(gathered: Gathered) -> tuple[str, ...]:
    """The readings, if there is one."""
    return presets.READINGS if any(reading in of for of in gathered.values() for reading in presets.READINGS) else ()


def _run_as(reading: str) -> tuple[str, str]:
    return f"paper --method {reading}", f"`{reading}`"


def _of_enough(finding: Finding, found: Comparison, count: int) -> Finding:
    """The finding with how much it rests on, and open where that is less than half of the figure's tasks."""
    n = sorted(found.replications.values())
    if not n:
        return replace(finding, status="open", found=f"not run with {MIN_PAIRS} replications on any of {count} tasks")
    replications = f"{n[0]} replications" if n[0] == n[-1] else f"{n[0]} to {n[-1]} replications"
    text = f"{len(n)} of {count} tasks with {replications}: {finding.found}"
    return replace(finding, status=finding.status if 2 * len(n) >= count else "open", found=text)


def _without_model(gathered: Gathered, reading: str) -> str:
    """Whether what is judged is the diffusion model at all."""
    shares = presets.shares_without_model(gathered, reading)
    if not shares:
        return "in how many iterations it had no model is not recorded"
    ordered = sorted(shares, key=shares.__getitem__)
    least, most = ordered[0], ordered[-1]
    text = f"it had no model in {percent(statistics.mean(shares.values()))} % of the iterations"
    if least == most:
        return f"{text} on {least}"
    return f"{text} (mean over tasks; {percent(shares[least])} % on {least}, {percent(shares[most])} % on {most})"
