"""The paper's claims about regret: its Figures 1 and 2, and Sec. 5.2."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from modeseek.bench.report import presets
from modeseek.bench.report.curves import Gathered
from modeseek.bench.report.finding import Evidence, Finding, Status
from modeseek.bench.report.table import percent


def judge(evidence: Evidence) -> Iterator[Finding]:
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
            better, worse = (end.count(v, True) + along.count(v, True) for v in ("better", "worse"))
            tasks = len(end.verdicts)
            status: Status = "reproduced" if better == 2 * tasks else "partly" if better > worse else "not"
            text = (
                "against the best of the paper's baselines, better / level / worse (still better / worse by Holm): at "
                f"the end {end}, all along {along} of {tasks} tasks; {_without_model(gathered, reading)}"
            )
            yield Finding(claim, place, status, text, f"paper --method {reading}", f"`{reading}`")
    for reading in presets.READINGS:
        late = presets.late(evidence.synthetic, reading)
        if late.verdicts:
            tasks, better = len(late.verdicts), late.count("better", True)
            fell: Status = (
                "reproduced" if 2 * better > tasks else "partly" if better > late.count("worse", True) else "not"
            )
            text = (
                "fall of log regret over the last quarter of the budget, against the median of the paper's baselines "
                f"in the same replication: further / level / less far {late} of {tasks} tasks "
                "(who is behind has more left to gain)"
            )
            claim = "DMS keeps falling while many baselines plateau"
            yield Finding(claim, "Sec. 5.2", fell, text, f"paper --method {reading}", f"`{reading}`")


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
