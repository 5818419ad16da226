"""The paper's claims about regret: its Figures 1 and 2, and Sec. 5.2."""

from __future__ import annotations

import math
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
            better, worse, tasks = end.count("better", True), end.count("worse", True), len(end.verdicts)
            status: Status = "reproduced" if better == tasks else "partly" if better > worse else "not"
            text = (
                "against the best of the paper's baselines, better / level / worse (still better / worse by Holm): at "
                f"the end {end}, all along {along} of {tasks} tasks; {_without_model(gathered, reading)}"
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
