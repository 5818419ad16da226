"""The first Python of each integration's page, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forked import run

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "worst"),
    [("botorch", -2.5), ("ax", 1.0), pytest.param("ray-tune", 1.0, marks=pytest.mark.slow)],
)
def test_a_page_runs_and_finds_a_good_value(page: str, worst: float, tmp_path: Path) -> None:
    code = re.findall(r"^```python\n(.*?)^```", (DOCS / f"{page}.md").read_text(), flags=re.S | re.M)[0]
    (tmp_path / "snippet.py").write_text(code)
    done = run("snippet.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    value = float(re.findall(r"best value (\S+)", done.stdout)[-1])
    assert (value if page != "botorch" else -value) < worst
