"""The tables of docs/reproduction.md, from the report and the records: `make report` makes both.

That of the claims, between `<!-- claims -->` and `<!-- end -->`, is docs/results/claims.csv. What has been run, between
`<!-- state -->` and `<!-- end of state -->`, is what `modeseek bench paper --device cuda --plan` finds in results/.
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
CLAIMS = ROOT / "docs/results/claims.csv"
RESULTS = ROOT / "results"
IN_WORDS = {
    "default": "our default, on the tasks of both figures",
    "departures": "from the text to the default, one point at a time",
    "ablations": "ablations of the paper",
}


def table(rows: Iterable[dict[str, str]]) -> str:
    """A line per claim."""
    lines = ["| # | claim | in the paper | reproduced? | found here | command |", "|---|---|---|---|---|---|"]
    for row in rows:
        status = row["status"] if row["status"] == "partly" else f"**{row['status']}**"
        cells = [row["number"], row["claim"], row["place"], status, row["found"], f"`modeseek bench {row['command']}`"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def state(found: Iterable[Part]) -> str:
    """A line per part: its cells of a task and a method, and what is not there."""
    lines = ["| part | cells | full | partly | missing | which |", "|---|---|---|---|---|---|"]
    for part in found:
        counts = [str(count) if count else "" for count in (len(part.cells), part.full, part.partly, part.missing)]
        lines.append(f"| {' | '.join([IN_WORDS.get(part.name, part.name), *counts, part.which()])} |")
    return "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """The page with both tables as they are now."""
    return with_state(with_claims(text))


def with_claims(text: str, claims: Path = CLAIMS) -> str:
    """The page with the claims of a report."""
    with claims.open(newline="") as lines:
        return _between(text, "claims", "end", table(csv.DictReader(lines)))


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
