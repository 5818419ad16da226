"""The README's table of results, from the report: `make report` makes both.

The table stands between `<!-- results -->` and `<!-- end -->`. Its numbers are those of docs/results/against.csv, which
`modeseek report results/ --out docs/results` writes.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
AGAINST = ROOT / "docs/results/against.csv"
ROWS = {
    "logei": "LogEI",
    "ucb": "UCB",
    "pi": "PI",
    "gpsampler": "Optuna's GPSampler",
    "tpe": "Optuna's TPE",
    "cmaes": "CMA-ES",
    "dms-paper": "the paper's preset",
    "the best of the others": "the best of all others, by task",
}
GROUPS = {"the paper's tasks": "the paper's tasks", "validation tasks": "held-out functions"}


def table(rows: Iterable[dict[str, str]]) -> str:
    """On how many tasks the default ends better / level / worse than each method of ROWS (with Holm's correction still
    better / worse), and where it is worse."""
    counts: dict[str, dict[str, str]] = defaultdict(dict)
    lost: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        method, at_the_end = row["method"], row["measure"] == "at the end"
        if at_the_end and any(int(row[verdict]) for verdict in ("better", "level", "worse")):
            sure = f"{row['better by Holm']} / {row['worse by Holm']}"
            counts[method][row["tasks"]] = f"{row['better']} / {row['level']} / {row['worse']} ({sure})"
        for task in filter(None, row["worse on"].split(", ")):
            lost[method].setdefault(task, task if at_the_end else f"{task} (all along)")
    lines = [f"| the default against | {' | '.join(GROUPS.values())} | worse on |", "|---|---|---|---|"]
    for method, name in ROWS.items():
        of_groups = [counts[method].get(group, "") for group in GROUPS]
        lines.append(f"| {name} | {' | '.join(of_groups)} | {', '.join(lost[method].values())} |")
    return "\n".join(lines) + "\n"


def filled(text: str, against: Path = AGAINST) -> str:
    """The README with the table of the report as it is now."""
    with against.open(newline="") as lines:
        new = table(csv.DictReader(lines))
    text, places = re.subn(r"(<!-- results.*?-->\n).*?(<!-- end -->)", rf"\g<1>\n{new}\n\g<2>", text, flags=re.DOTALL)
    if places != 1:
        raise SystemExit(f"README.md has {places} places for the results, not one")
    return text


if __name__ == "__main__":
    README.write_text(filled(README.read_text()))
