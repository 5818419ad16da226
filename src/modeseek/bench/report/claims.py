"""Every claim of the paper that can be counted: reproduced, partly, or not, with the number and the command.

A claim about regret is judged by tests (Wilcoxon signed-rank over replications, 5 %, with Holm's correction over the
tests of a count), that something has little effect by what the records exclude, a claim about sizes and speeds by the
numbers themselves. What is not measured has no line.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from modeseek.bench.measure import cost, distribution, theory
from modeseek.bench.measure.measurements import Measurement, as_written, read, where
from modeseek.bench.measure.seconds import OUR_PATHS, PAPERS_DMS
from modeseek.bench.methods.variants import DEFAULT, PRESET
from modeseek.bench.report import ablation_claims, regret_claims
from modeseek.bench.report.cost import exponents
from modeseek.bench.report.curves import judged
from modeseek.bench.report.finding import HIGH, LOW, Evidence, Finding, Status
from modeseek.bench.report.rates import rate
from modeseek.bench.report.table import Row, Table
from modeseek.bench.report.theory import CLAIMED, NAMES, counts
from modeseek.typing import Array

NOTE = (
    "Each claim of the paper that can be counted, as far as there are records: where it stands, how the method was "
    "read, whether it is reproduced (open: the records do not suffice), and the numbers. Tests are Wilcoxon's "
    "signed-rank test over replications at 5 %, where nothing else is said, with Holm's correction over the tests of a "
    "count; a rate of the bound is reproduced where its 95 % interval over seeds is below zero and does not lie above "
    "the rate, partly where it is only below zero or more steps fall than rise. `dms-printed` is the text to the "
    "letter and `dms-paper` its usual reading; `dms`, our default, says nothing about the paper."
)


def table(evidence: Evidence) -> Table:
    """A numbered line per claim."""
    found = [
        replace(finding, reading=finding.reading or reading)
        for judge, reading in JUDGES.items()
        for finding in judge(evidence)
    ]
    lines = [
        [str(i), f.claim, f.place, f.reading, f.status, f.found, f"`modeseek bench {f.command}`"]
        for i, f in enumerate(found, 1)
    ]
    rows: list[Row] = [{"number": i, **vars(f)} for i, f in enumerate(found, 1)]
    return Table(["#", "claim", "in the paper", "read as", "reproduced?", "found here", "command"], lines, rows)


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
            smaller = sum(gp > model for gp, model in spreads)
            sharper += [gp > model for gp, model in spreads]
            text = f"at iteration {iteration} no model in {len(of)} replications"
            if spreads:
                gp, model = np.mean(spreads, axis=0)
                text = (
                    f"mean spread {gp:.3g} by the GP and {model:.2g} by the model at iteration {iteration}, smaller in "
                )
                text += f"{smaller} and under half of the GP's in {sum(halved)} of {len(halved)} replications"
                text += f" ({len(of) - len(halved)} more had no model)" if len(halved) < len(of) else ""
            texts.append(text)
        if sharper:
            status: Status = "reproduced" if all(sharper) else "partly" if np.mean(sharper) > 0.5 else "not"
            claim = "The learned distribution of x* is more sharply concentrated than the GP's"
            command = f"distribution --method {method}"
            yield Finding(claim, "Sec. 3.2, App. C, Fig. 8", status, "; ".join(texts), command, f"`{method}`")


def _cost(evidence: Evidence) -> Iterator[Finding]:
    """App. D: complexity, Tables 3 and 4."""
    for name, judge, reading in (
        ("growth", _growth, f"`{DEFAULT}`"),
        ("batches", _pseudo_seconds, ""),
        ("draws", _draws, ""),
        ("seconds", _seconds, ""),
        ("seconds", _pes_seconds, ""),
    ):
        path = evidence.results / f"{name}.json"
        yield from (replace(f, reading=f.reading or reading) for f in as_written(path)(judge)(read(path)))


def _draws(rows: list[Measurement]) -> list[Finding]:
    """Table 3."""
    found = []
    for device in dict.fromkeys(row["device"] for row in rows):
        of_device = {(row["method"], row["task"], row["S"]): _mean(row) for row in rows if row["device"] == device}
        for ours, reading in OF_DMS.items():
            for sampler, whose in (("PES", "BoTorch's path sampler"), (OUR_PATHS, "our path sampler")):
                ratios = {
                    (task, S): seconds / of_device[ours, task, S]
                    for (method, task, S), seconds in of_device.items()
                    if method == sampler and (ours, task, S) in of_device
                }
                for claim, status, text in (*_comparable(ratios), *_faster(ratios)):
                    where = f"{claim} ({device}; {whose})"
                    found.append(Finding(where, "App. D.2, Table 3", status, f"PES takes {text}", "draws", reading))
    return found


def _comparable(ratios: dict[tuple[str, int], float]) -> Iterator[tuple[str, Status, str]]:
    """Of the least that is to be drawn."""
    if sizes := sorted(S for task, S in ratios if task == LOW):
        ratio = ratios[LOW, sizes[0]]
        status: Status = "reproduced" if 1 / COMPARABLE <= ratio <= COMPARABLE else "not"
        so = "" if status == "reproduced" else f": DMS is {'cheaper' if ratio > 1 else 'dearer'} from the first"
        yield f"Few samples of x* cost DMS as much as PES on {LOW}", status, f"×{ratio:.1f} with S = {sizes[0]}{so}"


def _faster(ratios: dict[tuple[str, int], float]) -> Iterator[tuple[str, Status, str]]:
    """Of all others, and how the gap grows."""
    sizes = sorted({S for _, S in ratios})
    if len(sizes) > 1:
        by_S = [ratios[t, a] < ratios[t, b] for t, a in ratios for b in sizes if b > a and (t, b) in ratios]
        by_d = [ratios[LOW, S] < ratios[HIGH, S] for S in sizes if {(LOW, S), (HIGH, S)} <= ratios.keys()]
        others = [ratio > 1 for key, ratio in ratios.items() if key != (LOW, sizes[0])]
        all_of_them = [all(others), all(by_S), bool(by_d) and all(by_d)]
        status: Status = "reproduced" if all(all_of_them) else "partly" if any(all_of_them) else "not"
        text = ", ".join(f"×{ratio:.1f} on {task} with S = {S}" for (task, S), ratio in ratios.items())
        grows = f"{sum(by_S)} of {len(by_S)} pairs of S and from d = 2 to 10 in {sum(by_d)} of {len(by_d)}"
        text += f"; the gap grows in {grows}"
        yield "Otherwise DMS draws them faster than PES, the more so the larger S and d", status, text


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


def _pes_seconds(rows: list[Measurement]) -> list[Finding]:
    """Table 4: PES."""
    seconds = {(row["device"], row["task"], row["method"]): _mean(row) for row in rows}
    found = []
    for device, method in dict.fromkeys((d, m) for d, t, m in seconds if t == HIGH and m in ("pes", "pes-botorch")):
        ratios = {
            task: seconds[device, task, method] / seconds[device, task, PRESET]
            for task in (LOW, HIGH)
            if (device, task, method) in seconds and (device, task, PRESET) in seconds
        }
        if HIGH in ratios:
            grows = ratios[HIGH] > ratios.get(LOW, 0)
            status: Status = "reproduced" if ratios[HIGH] >= MUCH and grows else "partly" if ratios[HIGH] > 1 else "not"
            times = " and ".join(f"×{ratio:.1f} on {task}" for task, ratio in ratios.items())
            text = f"`{method}` takes {times} as many seconds per iteration as DMS; in the paper ×4.2 and ×96"
            whose = "ours, which climbs all paths at once" if method == "pes" else "BoTorch's"
            claim = f"PES is much more expensive than DMS on Levy-10 ({device}; {whose})"
            found.append(Finding(claim, "App. D.3, Table 4", status, text, "seconds"))
    return found


def _pseudo_seconds(rows: list[Measurement]) -> list[Finding]:
    """App. D.1: what the complexity leaves out."""
    found = []
    rows = [row for row in rows if row["method"] == PRESET]
    for device in dict.fromkeys(row["device"] for row in rows):
        share = {
            (row["batch"], row["task"]): row["stages"]["pseudo"] / (row["stages"]["train"] + row["stages"]["sample"])
            for row in rows
            if row["device"] == device
        }
        alone, together = min(b for b, _ in share), max(b for b, _ in share)
        less = [ratio < 1 for (batch, _), ratio in share.items() if batch == alone]
        status: Status = "reproduced" if all(less) else "partly" if any(less) else "not"
        texts = [
            f"in a batch of {batch} {', '.join(f'×{r:.2f} on {task}' for (b, task), r in share.items() if b == batch)}"
            for batch in dict.fromkeys((alone, together))
        ]
        text = f"its seconds by those of training and sampling: {'; '.join(texts)}"
        claim = f"Making the pseudo-dataset is not the dominant term of an iteration ({device})"
        found.append(Finding(claim, "App. D.1", status, text, "batches"))
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
OF_DMS = {  # the readings, by the names that measurements have
    PAPERS_DMS: f"`{PRESET}`",
    "DMS": f"`{DEFAULT}`",
    "DMS, an earlier default": f"an earlier `{DEFAULT}`",
}
COMPARABLE = 1.5  # times as many seconds at most
PAPERS_W = 2.0
MUCH = 10.0  # times as many seconds are much more
SIMPLE = ("ei", "ucb", "ei-botorch", "ucb-botorch")


def _mean(row: Measurement) -> float:
    return float(statistics.mean(row["seconds"]))


def _theory(evidence: Evidence) -> Iterator[Finding]:
    """Theorem 1, the lemmas and the remarks, of each preset of the paper."""
    for task in theory.TASKS:
        for method in theory.METHODS:
            if found := theory.load(evidence.results / "theory.json", task, method):
                yield from _bound(task, method, found)


def _guidance(evidence: Evidence) -> Iterator[Finding]:
    """App. A.2: whether samples with the paper's guidance are better than without, in the same runs."""
    for method in theory.METHODS:
        better, texts = dict[tuple[str, str], Array](), []
        for task in theory.TASKS:
            by_w = {r.w: r for r in theory.sweep(theory.load(evidence.results / "theory.json", task, method), "w")}
            if {0.0, PAPERS_W} <= by_w.keys():
                for name, term in (("SubOpt", "subopt"), ("E2", "e2")):
                    off, on = (getattr(by_w[w], term) for w in (0.0, PAPERS_W))
                    both = np.isfinite(off + on)
                    better[task, name] = (on - off)[both]
                    texts.append(f"{name} {off[both].mean():.2f} without, {on[both].mean():.2f} with it on {task}")
        found = judged(better)
        if found.verdicts:
            improved = [v == "better" for v in found.corrected.values()]
            status: Status = "reproduced" if all(improved) else "partly" if any(improved) else "not"
            text = (
                f"with w = {PAPERS_W:g} samples of the best label are better / level / worse than with w = 0 in "
                f"{found} of {len(found.verdicts)} comparisons: {', '.join(texts)}"
            )
            command = f"theory --method {method}"
            yield Finding("Guidance gives better samples", "App. A.2", status, text, command, _always(method))


def _always(method: str) -> str:
    """The reading that the theory is measured of."""
    return f"`{method}`, always with a model"


def _bound(task: str, method: str, found: list[theory.Suboptimality]) -> Iterator[Finding]:
    """The inequality, counted once for each measurement, and the rates, judged by `rates.RULE`."""
    held, total = np.sum([counts(r) for r in found], axis=0)
    with_gap, _ = np.sum([counts(r, with_gap=True) for r in found], axis=0)
    status: Status = "reproduced" if held == total else "partly" if with_gap == total else "not"
    text = f"held in {held} of {total} measurements, and in {with_gap} with the gap between a and its mean label added"
    if diverged := sum(r.diverged for r in found):
        text += f"; {diverged} more had no finite samples"
    command, reading = f"theory --task {task} --method {method}", _always(method)
    yield Finding(f"SubOpt ≤ E1 + E2 ({task})", "Lemma 1, Theorem 1", status, text, command, reading)
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
        yield Finding(f"{claim} ({task})", place, measured.status(claimed), text, command, reading)


JUDGES: dict[Callable[[Evidence], Iterator[Finding]], str] = {  # and the reading of the method that each is about
    regret_claims.judge: "",
    ablation_claims.judge: f"`{PRESET}`",
    _concentration: "",
    _cost: f"`{PRESET}`",
    _guidance: "",
    _theory: "",
}
