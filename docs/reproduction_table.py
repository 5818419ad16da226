"""The table of docs/reproduction.md, from the report: `make report` makes both.

It stands between `<!-- claims -->` and `<!-- end -->`, and is that of docs/results/claims.csv.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reproduction.md"
CLAIMS = ROOT / "docs/results/claims.csv"


def table(rows: Iterable[dict[str, str]]) -> str:
    """A line per claim."""
    header = ("#", "claim", "in the paper", "read as", "reproduced?", "found here", "command")
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for row in rows:
        status = row["status"] if row["status"] in ("partly", "open") else f"**{row['status']}**"
        command = f"`modeseek bench {row['command']}`"
        cells = [row["number"], row["claim"], row["place"], row["reading"], status, row["found"], command]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def filled(text: str, claims: Path = CLAIMS) -> str:
    """The page with the table of the report as it is now."""
    with claims.open(newline="") as lines:
        new = table(csv.DictReader(lines))
    text, places = re.subn(
        r"(<!-- claims.*?-->\n).*?(<!-- end -->)", lambda m: f"{m[1]}\n{new}\n{m[2]}", text, flags=re.DOTALL
    )
    if places != 1:
        raise SystemExit(f"docs/reproduction.md has {places} places for the claims, not one")
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
