"""Tables of `modeseek bench draws` and `bench seconds`, beside the paper's Tables 3 and 4."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from modeseek.bench.measure.measurements import Measurement, as_written, read, where
from modeseek.bench.measure.seconds import DRAW_SIZES, PAPER_DEVICE, PAPER_ITERATIONS, PAPERS_DMS
from modeseek.bench.report.curves import in_order, tasks_in_order
from modeseek.bench.report.section import Section
from modeseek.bench.report.table import Row, Table

Figure = tuple[float, float]  # a mean and a standard deviation
PAPER_DRAWS: dict[tuple[str, str], tuple[Figure, ...]] = {  # Table 3: seconds for S = 100, 200, 300
    ("styblinski-tang-2", PAPERS_DMS): ((1.32, 0.08), (1.46, 0.07), (1.60, 0.13)),
    ("styblinski-tang-2", "PES"): ((1.25, 0.04), (2.60, 0.16), (5.73, 0.09)),
    ("levy-10", PAPERS_DMS): ((2.20, 0.07), (2.48, 0.03), (2.67, 0.06)),
    ("levy-10", "PES"): ((9.58, 2.36), (14.49, 3.31), (28.74, 2.55)),
}


def sections(results: Path) -> list[Section]:
    """What there is of both."""
    found = []
    for name, title, note, table in (
        (
            "draws",
            "Seconds to draw S samples of x*",
            "Mean ± standard deviation over repeats. DMS: training and sampling, given the GP and the pseudo-dataset, "
            "by the default's settings and by the paper's. PES: posterior paths, drawn by Matheron's rule and "
            "maximized. The paper's numbers are of its Table 3.",
            draws_table,
        ),
        (
            "seconds",
            "Seconds per iteration",
            "Mean ± standard deviation over successive calls within one process; a call of over two minutes is made "
            "once, and has none. Observed are Sobol points, as many as half way through the paper's budget, of a "
            "function with many optima. The paper's numbers are of its Table 4.",
            iterations_table,
        ),
    ):
        path = results / f"{name}.json"
        if measurements := read(path):
            found.append(Section(name, title, note, as_written(path)(table)(measurements)))
    return found


def paper_seconds(task: str, method: str) -> float | None:
    """Seconds per iteration in the paper's Table 4, beside which any way to optimize an acquisition function stands."""
    found = _of_paper(task, method)
    return None if found is None else found[0]


def _of_paper(task: str, method: str) -> Figure | None:
    return PAPER_ITERATIONS.get(task, {}).get(method.removesuffix("-botorch"))


def draws_table(measurements: Sequence[Measurement]) -> Table:
    """Seconds for S samples of x*, beside the paper's Table 3."""
    sizes = sorted({m["S"] for m in measurements})
    cells: list[list[str]] = []
    for task in dict.fromkeys(m["task"] for m in measurements):
        lines: dict[tuple[str, str], dict[int, str]] = {}
        for m in measurements:
            if m["task"] == task:
                lines.setdefault((m["method"], where(m)), {})[m["S"]] = _text(m)
        for method in (PAPERS_DMS, "PES"):
            of_paper = zip(DRAW_SIZES, PAPER_DRAWS.get((task, method), ()), strict=False)
            lines[method, PAPER_DEVICE] = {S: _printed(seconds) for S, seconds in of_paper}
        for (method, place), by_size in sorted(lines.items()):
            cells.append([task, method, place, *(by_size.get(S, "") for S in sizes)])
    return Table(["task", "method", "measured on", *(f"S = {S}" for S in sizes)], cells, _rows(measurements))


def iterations_table(measurements: Sequence[Measurement]) -> Table:
    """Seconds per iteration, beside the paper's Table 4."""
    methods = in_order({m["method"] for m in measurements})
    cells: list[list[str]] = []
    for task in tasks_in_order({m["task"] for m in measurements}):
        lines: dict[str, dict[str, str]] = {}
        for m in measurements:
            if m["task"] == task:
                lines.setdefault(where(m), {})[m["method"]] = _text(m)
        lines[PAPER_DEVICE] = {name: _printed(s) for name in methods if (s := _of_paper(task, name)) is not None}
        for place, by_method in lines.items():
            cells.append([task, place, *(by_method.get(name, "") for name in methods)])
    return Table(["task", "measured on", *methods], cells, _rows(measurements))


def _printed(figure: Figure) -> str:
    return f"{figure[0]:.2f} ± {figure[1]:.2f}"


def _text(measurement: Measurement) -> str:
    seconds = measurement["seconds"]
    mean = statistics.mean(seconds)
    if mean < 0.001:
        return "< 0.001"
    return f"{mean:.3g} ± {statistics.stdev(seconds):.2g}" if len(seconds) > 1 else f"{mean:.3g}"


def _rows(measurements: Sequence[Measurement]) -> list[Row]:
    rows = []
    for m in measurements:
        several = len(m["seconds"]) > 1
        figures: Row = {
            "seconds": statistics.mean(m["seconds"]),
            "standard deviation": statistics.stdev(m["seconds"]) if several else "",
            "median": statistics.median(m["seconds"]),
            "repeats": len(m["seconds"]),
        }
        rows.append(m | figures)
    return rows
