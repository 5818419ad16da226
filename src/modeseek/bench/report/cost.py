"""Tables and figure of what DMS costs: `modeseek bench batches` and `bench growth`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from modeseek.bench.measure.cost import GRID
from modeseek.bench.measure.measurements import Measurement, as_written, read, where
from modeseek.bench.report import figures
from modeseek.bench.report.seconds import paper_seconds
from modeseek.bench.report.section import Section
from modeseek.bench.report.table import Row, Table
from modeseek.dms import STAGES

MIN_POINTS = 3  # of a slope


def sections(results: Path) -> list[Section]:
    """What there is of measured batches and growth."""
    found = []
    path = results / "batches.json"
    if batches := read(path):
        found.append(
            Section(
                "batches",
                "Seconds per iteration of DMS in batches",
                "Replications side by side on one device, with as many observations as half way through the paper's "
                "budget, of a function with many optima: the batch's seconds, those of one replication, and the "
                "batch's by stage. GFLOP: the operations of one replication's iteration, in float32 (the network) + in "
                "float64 (the rest); GB: the memory traffic of its training. Over floor: the batch's seconds as a "
                "multiple of its floor in seconds, the time that the device needs for this work at the speeds that it "
                "reaches on large matrices. × paper: the seconds of the paper's Table 4 over a replication's.",
                as_written(path)(batches_table)(batches),
            )
        )
    path = results / "growth.json"
    if growth := read(path):
        found.append(
            Section(
                "growth",
                "Growth of an iteration's cost",
                "Seconds per iteration of the default with one size changed at a time from d = 10, n = 200, m = 800, "
                "S = 300, E = 20 (epochs), L = 15 (solver steps), H = 256 (width); the table has the exponents fitted "
                "to the upper half of each size's values, and to three at least.",
                as_written(path)(growth_table)(growth),
                as_written(path)(partial(draw_growth, growth)),
            )
        )
    return found


def batches_table(measurements: Sequence[Measurement]) -> Table:
    """Seconds per iteration of one replication, alone and in batches, beside its work, its floor and the paper's."""
    cells, rows = [], list[Row]()
    for m in measurements:
        share = m["seconds"] / m["batch"]
        stages = [f"{m['stages'][stage]:.3f}" for stage in STAGES]
        paper = paper_seconds(m["task"], m["method"])
        faster = f"{paper / share:.0f}" if paper else ""
        work = m["work"]
        in_float32 = work["training"] + work["sampling"]
        flops, traffic = _giga(in_float32, work["float64"]), _giga(work["traffic"])
        floor = f"{m['seconds'] / m['floor']:.1f} × {m['floor']:.2g}"
        total, each = f"{m['seconds']:.3f}", f"{share:.4f}"
        place = [m["task"], m["method"], where(m), str(m["batch"])]
        cells.append([*place, total, each, *stages, flops, traffic, floor, faster])
        plain = {name: value for name, value in m.items() if name not in ("stages", "speed", "work")}
        rows.append(
            plain
            | m["stages"]
            | {
                "GFLOP in float32": in_float32 / 1e9,
                "GFLOP in float64": work["float64"] / 1e9,
                "GB": work["traffic"] / 1e9,
            }
        )
    header = ["task", "method", "measured on", "batch", "seconds", "per replication", *STAGES]
    return Table([*header, "GFLOP", "GB", "over floor", "× paper"], cells, rows)


def _giga(*amounts: float) -> str:
    return " + ".join(f"{amount / 1e9:.3g}" for amount in amounts)


def exponents(measurements: Sequence[Measurement]) -> dict[str, float]:
    """The slope of log seconds over the log of each size, in the upper half of its values, of three at least.

    Sizes with fewer values have none.
    """
    slopes = {}
    for size in dict.fromkeys(m["size"] for m in measurements):
        points = sorted((m["value"], m["seconds"]) for m in measurements if m["size"] == size)
        if len(points) < MIN_POINTS:
            continue
        upper = np.log(np.array(points[min((len(points) - 1) // 2, len(points) - MIN_POINTS) :]))
        slopes[size] = float(np.polyfit(upper[:, 0], upper[:, 1], 1)[0])
    return slopes


def growth_table(measurements: Sequence[Measurement]) -> Table:
    """The exponents, a line per device and batch."""
    groups: dict[tuple[str, int], list[Measurement]] = {}
    for m in measurements:
        groups.setdefault((where(m), m["batch"]), []).append(m)
    cells, rows = [], list[Row]()
    for (place, batch), group in groups.items():
        slopes = exponents(group)
        cells.append([place, str(batch), *(f"{slopes[size]:.2f}" if size in slopes else "" for size in GRID)])
        rows.append({"measured on": place, "batch": batch, **{size: slopes.get(size, "") for size in GRID}})
    return Table(["measured on", "batch", *GRID], cells, rows)


def draw_growth(measurements: Sequence[Measurement], path: Path) -> list[Path]:
    """Seconds per iteration over each size, logarithmic, in all and by stage: a row per line of the table."""
    groups: dict[tuple[str, int], list[Measurement]] = {}
    for m in measurements:
        groups.setdefault((where(m), m["batch"]), []).append(m)
    figure = figures.blank(14, 3.3 * len(groups) + 0.5)
    sizes = list(dict.fromkeys(m["size"] for m in measurements))
    for row, ((place, batch), group) in zip(
        figure.subplots(len(groups), len(sizes), squeeze=False, sharey="row"), groups.items(), strict=True
    ):
        for axes, size in zip(row, sizes, strict=True):
            points = sorted((m for m in group if m["size"] == size), key=lambda m: m["value"])
            values = [m["value"] for m in points]
            for stage, colour in zip(STAGES, figures.PALETTE[1:], strict=False):
                axes.plot(values, [m["stages"][stage] for m in points], color=colour, linewidth=1.1, label=stage)
            axes.plot(
                values, [m["seconds"] for m in points], "o-", color=figures.PALETTE[0], linewidth=2.2, label="all"
            )
            axes.set(xscale="log", yscale="log", xlabel=size)
        row[0].set_ylabel("seconds per iteration")
        row[0].set_title(f"{place}, batch of {batch}", loc="left", fontsize=9)
    handles = {h.get_label(): h for h in row[0].get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, frameon=False)
    return figures.save(figure, path)
