"""What docs/reproduction.md says by hand, from the records of the report."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from modeseek.bench.methods import variants

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reproduction.md").read_text()


def rows(name: str) -> list[dict[str, str]]:
    with (DOCS / f"results/{name}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_points_of_departure_are_counted_and_those_without_a_step_named() -> None:
    numbers = {7: "Seven", 13: "thirteen"}
    decisions = (DOCS / "decisions.md").read_text()
    assert f"{numbers[len(variants.TO_PAPER)]} points in which `DMSConfig.paper(d)`" in decisions
    assert f"departs from `DMSConfig.paper(d)` in {numbers[len(variants.TO_DEFAULT)]} points" in decisions
    steps = {point for task in variants.DEPARTURE_TASKS for point in variants.departures(task).values()}
    without = {*variants.TO_PAPER, *variants.TO_DEFAULT} - steps
    assert without == {"pseudo-inputs rounded", "choices by expected improvement", "local search of long runs"}


def line(rule: str) -> str:
    """Of the table of what adapts to the data."""
    (found,) = re.findall(rf"^\| \*\*{rule}\*\*.*", PAGE, flags=re.M)
    return found


def test_a_k_that_adapts_is_as_the_ablation_has_it() -> None:
    p = {
        row["task"]: float(row["p against dms-paper"])
        for row in rows("ablations")
        if (row["setting"], row["value"], row["replications"]) == ("keep_apart", "True", "30")
    }
    assert f"p = {p['styblinski-tang-2']:.2f} and {p['levy-10']:.2f}" in line("K")


def test_a_rho_that_adapts_is_as_the_way_to_the_default_has_it() -> None:
    steps = [row for row in rows("departures") if row["point"].startswith("ρ by what")]
    p = [float(row["p"]) for row in steps]
    assert len(p) == 5
    assert {row["beside the one before"] for row in steps} == {"level"}
    assert f"p from {min(p):.2f} to {max(p):.2f}" in line("ρ")
