"""Put the report's regret into the README: `python -m benchmarks.readme`.

The report is what `modeseek report results/ --out docs/results` has written. What stands between `<!-- against -->` or
`<!-- regret -->` and its end is replaced.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from modeseek.bench.report.tables import BEST_OF_OTHERS, LEVEL, REFERENCE, Table, plus_minus
from modeseek.bench.tasks import find_task

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "docs/results"
COLUMNS = {
    "dms": "DMS",
    "dms-fast": "fast",
    "dms-paper": "paper",
    "pi": "PI",
    "ei": "EI",
    "logei": "LogEI",
    "ucb": "UCB",
    "ts": "TS",
    "gibbon": "GIBBON",
    "gpsampler": "GPSampler",
    "tpe": "TPE",
    "cmaes": "CMA-ES",
}
NAMES = COLUMNS | {"dms-fast": "`DMSConfig.fast()`", "dms-paper": "`DMSConfig.paper(d)`", "sobol": "Sobol search"}

Row = dict[str, str]


def against() -> str:
    """On how many tasks the default is better / level / worse, a line a method; then in words, against the best."""
    lines = [line for line in (REPORT / "against.md").read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    header = ["DMS against", "the paper's tasks", "all along", "validation tasks", "all along", "worse on"]
    table = Table(header, [[NAMES.get(method, method), *cells] for method, *cells in rows])
    counts = dict(zip(header[1::2], next(row for row in rows if row[0] == BEST_OF_OTHERS)[1::2], strict=True))
    ours, validation = (_in_words(counts[tasks]) for tasks in ("the paper's tasks", "validation tasks"))
    return (
        f"{table.markdown()}\n\n"
        "Against the best of the others on each task, whichever that is, the default ends\n"
        f"{ours} of the paper's tasks, and {validation} of the validation functions.\n"
    )


def _in_words(counts: str) -> str:
    better, level, worse = counts.split(" / ")
    return f"better on {better}, level on {level} and worse on {worse}"


def regret() -> str:
    """Mean final regret and its error of the paper's tasks, the best in bold."""
    of_task: dict[str, dict[str, Row]] = {}
    with (REPORT / "summary.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            of_task.setdefault(row["task"], {})[row["method"]] = row
    cells = [[task, *(_cell(of.get(method)) for method in COLUMNS)] for task, of in of_task.items()]
    return Table(["task", *COLUMNS.values()], cells).markdown() + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    text = plus_minus(float(row["final"]), float(row["final error"]))
    text = f"**{text}**" if row["final rank"] == "1" else text
    few = int(row["replications"]) < find_task(row["task"]).replications
    differs = float(row[f"p against {REFERENCE}"]) < LEVEL
    return text + (f" (n={row['replications']})" if few else "") + (" *" if differs else "")


def filled(text: str) -> str:
    """The README with today's tables."""
    for name, block in (("against", against()), ("regret", regret())):
        place = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = place.subn(rf"\g<1>\n{block}\n\g<2>", text)
        if found != 1:
            raise SystemExit(f"README.md has {found} places for {name}, not one")
    return text


def main() -> None:
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text()))


if __name__ == "__main__":
    main()
