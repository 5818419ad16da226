"""The tables of docs/reproduction.md, from the report: `make report` makes both.

Each stands between a comment with its name, `<!-- claims -->` or `<!-- readings -->`, and `<!-- end -->`, and is of the
CSV file of that name in docs/results.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reproduction.md"
RESULTS = ROOT / "docs/results"
VERDICTS = ("better", "level", "worse")


def claims(rows: Iterable[dict[str, str]]) -> str:
    """A line per claim."""
    header = ("#", "claim", "in the paper", "read as", "reproduced?", "found here", "command")
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for row in rows:
        status = row["status"] if row["status"] in ("partly", "open") else f"**{row['status']}**"
        command = f"`modeseek bench {row['command']}`"
        cells = [row["number"], row["claim"], row["place"], row["reading"], status, row["found"], command]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def readings(rows: Iterable[dict[str, str]]) -> str:
    """For each group of tasks: a line per baseline, a column per reading and measure, counts of tasks."""
    cells: dict[str, dict[tuple[str, str], dict[str, str]]] = {}
    for row in rows:
        if any(int(row[v]) for v in VERDICTS):
            counts = " / ".join(row[v] for v in VERDICTS)
            text = f"{counts} ({row['better by Holm']} / {row['worse by Holm']})"
            cells.setdefault(row["tasks"], {}).setdefault((row["method"], row["measure"]), {})[row["against"]] = text
    tables = []
    for group, columns in cells.items():
        header = [f"{group}, against", *(f"`{method}`, {measure}" for method, measure in columns)]
        lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
        for rival in dict.fromkeys(rival for column in columns.values() for rival in column):
            lines.append(f"| {' | '.join([rival, *(column.get(rival, '') for column in columns.values())])} |")
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def filled(text: str, results: Path = RESULTS) -> str:
    """The page with the tables of the report as it is now."""
    for name, table in (("claims", claims), ("readings", readings)):
        with (results / f"{name}.csv").open(newline="") as lines:
            new = table(csv.DictReader(lines))
        text, places = re.subn(
            rf"(<!-- {name}.*?-->\n).*?(<!-- end -->)",
            lambda m, new=new: f"{m[1]}\n{new}\n{m[2]}",
            text,
            flags=re.DOTALL,
        )
        if places != 1:
            raise SystemExit(f"docs/reproduction.md has {places} places for the {name}, not one")
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
