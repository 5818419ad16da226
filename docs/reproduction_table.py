"""The tables of docs/reproduction.md, from the report and the records: `make report` makes all.

Those of the claims and of each reading against each baseline stand between a comment with their name,
`<!-- claims -->` or `<!-- readings -->`, and `<!-- end -->`, and are of the CSV files of these names in docs/results.
What has been run, between `<!-- state -->` and `<!-- end of state -->`, is what `modeseek bench paper --device cuda
--plan` finds in results/.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

from modeseek.bench.campaign.paper import steps
from modeseek.bench.campaign.records import Store
from modeseek.bench.campaign.state import Part, parts

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reproduction.md"
REPORT = ROOT / "docs/results"
VERDICTS = ("better", "level", "worse")
RESULTS = ROOT / "results"
IN_WORDS = {
    "default": "our default, on the tasks of both figures",
    "departures": "from the text to the default, one point at a time",
    "ablations": "ablations of the paper",
}


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


def state(found: Iterable[Part]) -> str:
    """A line per part: its cells of a task and a method, and what is not there."""
    lines = ["| part | cells | full | partly | missing | which |", "|---|---|---|---|---|---|"]
    for part in found:
        counts = [str(count) if count else "" for count in (len(part.cells), part.full, part.partly, part.missing)]
        lines.append(f"| {' | '.join([IN_WORDS.get(part.name, part.name), *counts, part.which()])} |")
    return "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """The page with all tables as they are now."""
    return with_state(with_tables(text))


def with_tables(text: str, report: Path = REPORT) -> str:
    """The page with the tables of a report."""
    for name, table in (("claims", claims), ("readings", readings)):
        with (report / f"{name}.csv").open(newline="") as lines:
            text = _between(text, name, "end", table(csv.DictReader(lines)))
    return text


def with_state(text: str, results: Path = RESULTS) -> str:
    """The page with what there is of the reproduction in a folder of records."""
    found = parts(Store(results), steps("cuda", whichever=True))
    return _between(text, "state", "end of state", state(found))


def _between(text: str, begin: str, end: str, new: str) -> str:
    pattern = rf"(<!-- {begin}\b.*?-->\n).*?(<!-- {end} -->)"
    text, places = re.subn(pattern, lambda m: f"{m[1]}\n{new}\n{m[2]}", text, flags=re.DOTALL)
    if places != 1:
        raise SystemExit(f"docs/reproduction.md has {places} places for the {begin}, not one")
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
