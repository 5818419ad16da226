"""Charts of the HTML page as data: what `web/charts.js` draws."""

from __future__ import annotations

from collections.abc import Iterable

from modeseek.bench.report import page
from modeseek.bench.report.curves import Gathered
from modeseek.bench.report.figures import band, counts, limits, styles

DIGITS = 4  # of a number: no screen shows more


def regret_charts(gathered: Gathered) -> str:
    """Mean regret and one standard error over evaluations, one chart per task."""
    content = []
    for task, methods in gathered.items():
        bands = {name: band(c) for name, c in methods.items()}
        first = int(min(b.number[0] for b in bands.values()))
        last = int(max(b.number[-1] for b in bands.values()))
        low, high = limits(list(bands.values()))
        series = [
            {
                "name": name,
                "note": f"n = {len(methods[name].replications)}",
                "start": int(b.number[0]) - first,
                "mean": rounded(b.mean),
                "lower": rounded(b.low),
                "upper": rounded(b.high),
            }
            for name, b in bands.items()
        ]
        content.append(
            {
                "title": task,
                "note": f"n = {counts(methods)}",
                "x": list(range(first, last + 1)),
                "label_x": "evaluations",
                "log_y": True,
                "low": low,
                "high": high,
                "series": series,
            }
        )
    return page.charts(content, styles(gathered))


def rounded(values: Iterable[float]) -> list[float]:
    """Numbers for the page."""
    return [float(f"{value:.{DIGITS}g}") for value in values]
