"""What docs/reproduction.md says has been run, against the records."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs/reproduction_table.py"))


def test_the_page_says_what_has_been_run(script: dict[str, Any]) -> None:
    text = script["PAGE"].read_text()
    assert script["with_state"](text) == text, "`make report` refreshes the table"


def test_where_there_is_nothing_all_of_it_is_missing(script: dict[str, Any], tmp_path: Path) -> None:
    text = script["with_state"](script["PAGE"].read_text(), tmp_path)
    lines = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d*) \| (\d*) \| (\d*) \|", text, flags=re.M)
    assert {name for name, *_ in lines} >= {"Figure 1", "Table 3 on a GPU", "Table 4 on a CPU", "theory"}
    assert {(full, partly) for _, _, full, partly, _ in lines} == {("", "")}
    assert all(cells == missing for _, cells, _, _, missing in lines)
