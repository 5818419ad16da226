"""The paper's method in three readings against its own baselines: on how many tasks better, level, worse."""

from __future__ import annotations

import math

import numpy as np

from modeseek.bench.methods.variants import DEFAULT, PRESET, PRINTED
from modeseek.bench.report.curves import (
    MEASURES,
    MIN_PAIRS,
    VERDICTS,
    Comparison,
    Curves,
    Gathered,
    Measure,
    difference,
    judged,
    p_value,
    paired,
)
from modeseek.bench.report.table import Row, Table, percent

READINGS = (PRINTED, PRESET, DEFAULT)
BASELINES = ("pi", "ei", "ucb", "ts", "gibbon", "jes", "pes")  # the paper's
BEST = "the best of them"

NOTE = (
    "On how many of the paper's tasks each reading of its method is better / level / worse than each of its baselines "
    "(Wilcoxon signed-rank over replications, 5 %), at the end and all along (area under log regret); in brackets, how "
    "many are still better / worse with Holm's correction for the tasks of the cell. Of our own and BoTorch's way to "
    f"maximize an acquisition function the one with more replications counts. {BEST.capitalize()}: by task, the one "
    "with the lowest mean difference, which favours the baselines, since the same replications choose it."
)


def baseline(methods: dict[str, Curves], name: str) -> Curves | None:
    """The paper's method of this name as far as it was run: ours or BoTorch's, whichever has more replications."""
    found = [c for key in (name, f"{name}-botorch") if (c := methods.get(key)) is not None]
    return max(found, key=lambda c: len(c.replications), default=None)


def best_baseline(methods: dict[str, Curves], reading: Curves, what: Measure) -> Curves | None:
    """The one of the paper's baselines with the lowest mean difference from a reading, with enough pairs for a test."""
    found = [c for name in BASELINES if (c := baseline(methods, name)) is not None]
    able = [c for c in found if len(difference(c, reading, what)) >= MIN_PAIRS]
    return min(able, key=lambda c: float(difference(c, reading, what).mean()), default=None)


def compare(gathered: Gathered, reading: str, rival: str, what: Measure) -> Comparison:
    """A reading against one of BASELINES, or against BEST, on the tasks where both have enough replications."""
    pairs: dict[str, tuple[Curves, Curves]] = {}
    for task, methods in gathered.items():
        if (ours := methods.get(reading)) is None:
            continue
        theirs = best_baseline(methods, ours, what) if rival == BEST else baseline(methods, rival)
        if theirs is not None:
            pairs[task] = ours, theirs
    return _compared(pairs, what)


def _compared(pairs: dict[str, tuple[Curves, Curves]], what: Measure) -> Comparison:
    return judged({task: difference(*pair, what) for task, pair in pairs.items()})


def table(groups: dict[str, Gathered]) -> Table:
    """A line per reading and rival, a column per group of tasks and measure."""
    cells, rows = [], list[Row]()
    for reading in READINGS:
        for rival in (*BASELINES, BEST):
            texts = []
            for group, gathered in groups.items():
                for what, label in MEASURES.items():
                    found = compare(gathered, reading, rival, what)
                    texts.append(str(found))
                    rows.append(_row(reading, rival, group, label, found))
            if any(texts):
                cells.append([reading, rival, *texts])
    header = [f"{group}, {label}" for group in groups for label in MEASURES.values()]
    return Table(["method", "against", *header], cells, rows)


def _row(reading: str, rival: str, group: str, label: str, found: Comparison) -> Row:
    row: Row = {"method": reading, "against": rival, "tasks": group, "measure": label}
    for v in VERDICTS:
        row[v] = found.count(v)
        row[f"{v} by Holm"] = found.count(v, True)
    row["better on"], row["worse on"] = (_on(found, v) for v in ("better", "worse"))
    return row


def _on(found: Comparison, which: str) -> str:
    return ", ".join(task for task, v in found.verdicts.items() if v == which)


def late(gathered: Gathered, reading: str) -> Comparison:
    """How much further a reading still falls in the last quarter of the budget than the median of the baselines does in
    the same replication."""
    differences = {}
    for task, methods in gathered.items():
        rivals = [c for name in BASELINES if (c := baseline(methods, name)) is not None]
        rivals = [c for c in rivals if len(c.replications) >= MIN_PAIRS]
        if (ours := methods.get(reading)) is not None and rivals:
            common = sorted(set.intersection(*(set(c.replications) for c in (ours, *rivals))))
            falls = [c.late[[c.replications.index(i) for i in common]] for c in (ours, *rivals)]
            differences[task] = np.asarray(falls[0] - np.median(falls[1:], axis=0))
    return judged(differences)


WITHOUT_MODEL = (
    "Share of its iterations, in percent, in which a reading had no diffusion model and evaluated the best "
    "pseudo-input: with `dms-printed` because the loss or a sample was not finite, with `dms-paper` also where all "
    "pseudo-inputs were one point, with `dms` also where they were on one hill. A dash: the records are from before it "
    "was written down."
)


def shares_without_model(gathered: Gathered, reading: str) -> dict[str, float]:
    """How many of a reading's iterations had no model, by task; of the tasks whose records say it."""
    shares = {task: of[reading].without_model for task, of in gathered.items() if reading in of}
    return {task: share for task, share in shares.items() if not math.isnan(share)}


def without_model_table(gathered: Gathered) -> Table:
    """A line per reading, a column per task."""
    cells, rows = [], list[Row]()
    for reading in READINGS:
        shares = shares_without_model(gathered, reading)
        if shares:
            cells.append([reading, *(percent(shares.get(task, math.nan)) for task in gathered)])
            rows += [{"method": reading, "task": task, "without a model": share} for task, share in shares.items()]
    return Table(["method", *gathered], cells, rows)


AGREEMENT = (
    "Our batched acquisition functions beside BoTorch's own with `optimize_acqf`, on the same surrogate, designs and "
    "noise: on how many tasks ours are better / level / worse (Wilcoxon signed-rank over replications, 5 %), in "
    "brackets with Holm's correction, and the p-values at the end by task. With fewer than "
    f"{MIN_PAIRS} common replications there is no test: n of them, and the median final regret of ours and of "
    "BoTorch's in these."
)


def agreement(gathered: Gathered) -> Table:
    """A line per method that was run in both ways."""
    cells, rows = [], list[Row]()
    for name in dict.fromkeys(m.removesuffix("-botorch") for of in gathered.values() for m in of if "-botorch" in m):
        both = {
            task: pair
            for task, of in gathered.items()
            if {name, f"{name}-botorch"} <= of.keys()
            and len(difference(*(pair := (of[name], of[f"{name}-botorch"])), "final"))
        }
        if both:
            found = [_compared(both, what) for what in MEASURES]
            cells.append([name, *map(str, found), ", ".join(f"{t} {_beside(*pair)}" for t, pair in both.items())])
            for label, comparison in zip(MEASURES.values(), found, strict=True):
                untested = [task for task in both if task not in comparison.verdicts]
                row = _row(name, f"{name}-botorch", "all", label, comparison)
                rows.append(row | {"not tested on": ", ".join(untested)})
    return Table(["method", *MEASURES.values(), "p at the end"], cells, rows)


def _beside(ours: Curves, theirs: Curves) -> str:
    """The p-value at the end, or what there is where they are too few for one."""
    p = p_value(ours, theirs)
    if not math.isnan(p):
        return f"{p:.2g}"
    a, b = paired(ours, theirs)
    return f"(n = {len(a)}, no test: {np.median(a):.3g} and {np.median(b):.3g})"


def groups_of(synthetic: Gathered, real: Gathered) -> dict[str, Gathered]:
    """As the columns are called."""
    return {name: of for name, of in (("synthetic tasks", synthetic), ("real tasks", real)) if of}
