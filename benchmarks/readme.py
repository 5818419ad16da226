"""Put the report's regret into the README: `python -m benchmarks.readme`.

The report is what `modeseek report results/ --out docs/results` has written. What stands between `<!-- against -->` or
`<!-- regret -->` and its end is replaced.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from modeseek import problems
from modeseek.experiments.tables import LEVEL, REFERENCE, Table, plus_minus

ROOT = Path(__file__).parents[1]
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
BEST = "the best of the others"

Row = dict[str, str]


def read(name: str) -> list[Row]:
    """The lines of a table of the report."""
    with (ROOT / "docs/results" / f"{name}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def against(rows: list[Row]) -> str:
    """On how many tasks the default is better / level / worse, a line a method; then in words, against the best."""
    counts: dict[str, dict[tuple[str, str], list[str]]] = {}
    worse_on: dict[str, list[str]] = {}
    for row in rows:
        count = [row["better"], row["level"], row["worse"]]
        counts.setdefault(row["method"], {})[row["tasks"], row["measure"]] = count
        lost = worse_on.setdefault(row["method"], [])
        for task in filter(None, row["worse on"].split(", ")):
            if task not in lost:
                lost.append(task if row["measure"] == "at the end" else f"{task} ({row['measure']})")
    columns = list(counts[BEST])
    cells = []
    for method, of in counts.items():
        if any(count != ["0", "0", "0"] for count in of.values()):
            texts = [" / ".join(of[column]) if of[column] != ["0", "0", "0"] else "" for column in columns]
            cells.append([NAMES.get(method, method), *texts, ", ".join(worse_on[method])])
    header = [tasks if measure == "at the end" else measure for tasks, measure in columns]
    table = Table(["DMS against", *header, "worse on"], cells)
    ours, validation = (
        f"better on {better}, level on {level} and worse on {worse}"
        for (_, measure), (better, level, worse) in counts[BEST].items()
        if measure == "at the end"
    )
    return (
        f"{table.markdown()}\n\n"
        "Against the best of the others on each task, whichever that is, the default ends\n"
        f"{ours} of the paper's tasks, and {validation} of the validation functions.\n"
    )


def regret(rows: list[Row]) -> str:
    """Mean final regret and its error of the paper's tasks, the best in bold."""
    of_task: dict[str, dict[str, Row]] = {}
    for row in rows:
        of_task.setdefault(row["task"], {})[row["method"]] = row
    cells = [[task, *(_cell(of.get(method)) for method in COLUMNS)] for task, of in of_task.items()]
    return Table(["task", *COLUMNS.values()], cells).markdown() + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    text = plus_minus(float(row["final"]), float(row["final error"]))
    text = f"**{text}**" if row["final rank"] == "1" else text
    few = int(row["replications"]) < problems.get(row["task"]).replications
    differs = float(row[f"p against {REFERENCE}"]) < LEVEL
    return text + (f" (n={row['replications']})" if few else "") + (" *" if differs else "")


def filled(text: str) -> str:
    """The README with today's tables."""
    for name, block in (("against", against(read("against"))), ("regret", regret(read("summary")))):
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
