"""Tables of `modeseek bench draws` and `bench seconds`, beside the paper's Tables 3 and 4."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from modeseek.bench.measure.measurements import Measurement, as_written, read, where
from modeseek.bench.measure.seconds import DRAW_SIZES
from modeseek.bench.report.curves import in_order, tasks_in_order
from modeseek.bench.report.section import Section
from modeseek.bench.report.table import Row, Table

PAPER_DEVICE = "RTX 4090 (paper)"
PAPER_DRAWS = {  # Table 3: seconds for S = 100, 200, 300
    ("styblinski-tang-2", "DMS"): (1.32, 1.46, 1.60),
    ("styblinski-tang-2", "PES"): (1.25, 2.60, 5.73),
    ("levy-10", "DMS"): (2.20, 2.48, 2.67),
    ("levy-10", "PES"): (9.58, 14.49, 28.74),
}
PAPER_ITERATIONS = {  # Table 4
    "styblinski-tang-2": {
        "ei": 0.34, "gibbon": 0.29, "ucb": 0.20, "dms-paper": 2.13, "pi": 0.43, "pes": 8.90, "ts": 0.23,
    },
    "levy-10": {"ei": 0.70, "gibbon": 2.04, "ucb": 0.50, "dms-paper": 4.07, "pi": 3.20, "pes": 390.20, "ts": 0.47},
    "levy-20": {"ei": 1.70, "gibbon": 4.26, "ucb": 1.20, "dms-paper": 8.16, "pi": 3.82, "ts": 1.07},
    "levy-50": {"ei": 2.74, "gibbon": 6.85, "ucb": 3.64, "dms-paper": 12.23, "pi": 3.98, "ts": 5.99},
}  # fmt: skip


def sections(results: Path) -> list[Section]:
    """What there is of both."""
    found = []
    for name, title, note, table in (
        (
            "draws",
            "Seconds to draw S samples of x*",
            "Median. DMS: the default's training and sampling, given the GP and the pseudo-dataset. PES: posterior "
            "paths, drawn by Matheron's rule and maximized. The paper's numbers are of its Table 3.",
            draws_table,
        ),
        (
            "seconds",
            "Seconds per iteration",
            "Median over successive calls within one process, of a call of over two minutes only one; observed are "
            "Sobol points, as many as half way through the paper's budget, of a function with many optima. The paper's "
            "numbers are of its Table 4.",
            iterations_table,
        ),
    ):
        path = results / f"{name}.json"
        if measurements := read(path):
            found.append(Section(name, title, note, as_written(path)(table)(measurements)))
    return found


def paper_seconds(task: str, method: str) -> float | None:
    """Seconds per iteration in the paper's Table 4, beside which any way to optimize an acquisition function stands."""
    return PAPER_ITERATIONS.get(task, {}).get(method.removesuffix("-botorch"))


def draws_table(measurements: Sequence[Measurement]) -> Table:
    """Median seconds for S samples of x*, beside the paper's Table 3."""
    sizes = sorted({m["S"] for m in measurements})
    cells: list[list[str]] = []
    for task in dict.fromkeys(m["task"] for m in measurements):
        lines: dict[tuple[str, str], dict[int, str]] = {}
        for m in measurements:
            if m["task"] == task:
                lines.setdefault((m["method"], where(m)), {})[m["S"]] = _median(m)
        for method in ("DMS", "PES"):
            of_paper = zip(DRAW_SIZES, PAPER_DRAWS.get((task, method), ()), strict=False)
            lines[method, PAPER_DEVICE] = {S: f"{seconds:.2f}" for S, seconds in of_paper}
        for (method, place), by_size in sorted(lines.items()):
            cells.append([task, method, place, *(by_size.get(S, "") for S in sizes)])
    return Table(["task", "method", "measured on", *(f"S = {S}" for S in sizes)], cells, _rows(measurements))


def iterations_table(measurements: Sequence[Measurement]) -> Table:
    """Median seconds per iteration, beside the paper's Table 4."""
    methods = in_order({m["method"] for m in measurements})
    cells: list[list[str]] = []
    for task in tasks_in_order({m["task"] for m in measurements}):
        lines: dict[str, dict[str, str]] = {}
        for m in measurements:
            if m["task"] == task:
                lines.setdefault(where(m), {})[m["method"]] = _median(m)
        lines[PAPER_DEVICE] = {name: f"{s:.2f}" for name in methods if (s := paper_seconds(task, name)) is not None}
        for place, by_method in lines.items():
            cells.append([task, place, *(by_method.get(name, "") for name in methods)])
    return Table(["task", "measured on", *methods], cells, _rows(measurements))


def _median(measurement: Measurement) -> str:
    seconds = statistics.median(measurement["seconds"])
    return f"{seconds:.3g}" if seconds >= 0.001 else "< 0.001"


def _rows(measurements: Sequence[Measurement]) -> list[Row]:
    return [m | {"seconds": statistics.median(m["seconds"]), "repeats": len(m["seconds"])} for m in measurements]
