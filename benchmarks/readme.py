"""Put the report's regret into the README: `python -m benchmarks.readme`.

The report is what `modeseek report results/ --out docs/results` has written. What stands between `<!-- against -->` or
`<!-- regret -->` and its end is replaced; a README without such a place stays as it is.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from modeseek.bench.report.curves import MEASURES, REFERENCE
from modeseek.bench.report.summary import BEST_OF_OTHERS
from modeseek.bench.report.table import Table, plus_minus
from modeseek.bench.tasks import find_task

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "docs/results"
COLUMNS = {
    "dms": "DMS",
    "dms-fast": "fast",
    "dms-paper": "paper",
    "pi": "PI",
    "pi-botorch": "PI, BoTorch",
    "ei": "EI",
    "logei": "LogEI",
    "logei-botorch": "LogEI, BoTorch",
    "ucb": "UCB",
    "ucb-botorch": "UCB, BoTorch",
    "ts": "TS",
    "gibbon": "GIBBON",
    "gpsampler": "GPSampler",
    "tpe": "TPE",
    "cmaes": "CMA-ES",
}
NAMES = COLUMNS | {"dms-fast": "`DMSConfig.fast()`", "dms-paper": "`DMSConfig.paper(d)`", "sobol": "Sobol search"}

Row = dict[str, str]


def _rows(name: str) -> Iterator[Row]:
    with (REPORT / f"{name}.csv").open(newline="") as lines:
        yield from csv.DictReader(lines)


def against() -> str:
    """On how many tasks the default is better / level / worse, a line per method; then in words, against the best."""
    by_method: dict[str, dict[tuple[str, str], Row]] = {}
    for row in _rows("against"):
        by_method.setdefault(row["method"], {})[row["tasks"], row["measure"]] = row
    places = list(next(iter(by_method.values())))
    cells = []
    for method, of in by_method.items():
        counts = [_counts(of[place]) for place in places]
        lost = dict.fromkeys(task for row in of.values() for task in row["worse on"].split(", ") if task)
        if any(counts):
            cells.append([NAMES.get(method, method), *counts, ", ".join(lost)])
    table = Table(["DMS against", *(f"{tasks}, {measure}" for tasks, measure in places), "worse on"], cells)
    at_the_end = {
        tasks: row for (tasks, measure), row in by_method[BEST_OF_OTHERS].items() if measure == MEASURES["final"]
    }
    ours, validation = (_in_words(at_the_end[tasks]) for tasks in ("the paper's tasks", "validation tasks"))
    return (
        f"{table.markdown()}\n\n"
        "Against the best of the others on each task, whichever that is, the default ends\n"
        f"{ours} of the paper's tasks, and {validation} of the validation functions.\n"
    )


def _counts(row: Row) -> str:
    counts = [row[verdict] for verdict in ("better", "level", "worse")]
    return " / ".join(counts) if any(map(int, counts)) else ""


def _in_words(row: Row) -> str:
    return f"better on {row['better']}, level on {row['level']} and worse on {row['worse']}"


def regret() -> str:
    """Mean final regret and its error of the paper's tasks, in bold where no other method is significantly better."""
    of_task: dict[str, dict[str, Row]] = {}
    for row in _rows("summary"):
        of_task.setdefault(row["task"], {})[row["method"]] = row
    cells = [[task, *(_cell(of.get(method)) for method in COLUMNS)] for task, of in of_task.items()]
    return Table(["task", *COLUMNS.values()], cells).markdown() + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    text = plus_minus(float(row["final"]), float(row["final error"]))
    text = f"**{text}**" if row["final unbeaten"] == "1" else text
    few = int(row["replications"]) < find_task(row["task"]).replications
    judged = row[f"final beside {REFERENCE}"]
    return (
        text + (f" (n={row['replications']})" if few else "") + (f" {judged}" if judged in ("better", "worse") else "")
    )


def filled(text: str) -> str:
    """The README with today's tables."""
    for name, block in (("against", against()), ("regret", regret())):
        place = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = place.subn(rf"\g<1>\n{block}\n\g<2>", text)
        if found > 1:
            raise SystemExit(f"README.md has {found} places for {name}, not one")
    return text


def main() -> None:
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text()))


if __name__ == "__main__":
    main()
