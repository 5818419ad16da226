"""The Python of docs/baselines.md and docs/problems.md, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from modeseek.bench.methods import peer_names
from modeseek.bench.tasks import find_task, task_names, validation_names

DOCS = Path(__file__).parents[2] / "docs"


def run(page: str) -> dict:
    (code,) = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), flags=re.S | re.M)
    scope: dict = {}
    exec(code, scope)
    return scope


def test_the_page_on_baselines():
    scope = run("baselines.md")
    assert len(scope["X"]) == 6
    assert set(scope["method"].seconds) == {"fit", "acquire"}
    named = set(
        re.findall(
            r"`([a-z0-9-]+)`", "".join(re.findall(r"^\| (`.*?) \|", (DOCS / "baselines.md").read_text(), flags=re.M))
        )
    )
    assert named == {*scope["method_names"](), *peer_names()}, "the tables have every method"


def test_the_page_on_problems():
    problem = run("problems.md")["problem"]
    assert problem.name == "levy-10"


def test_the_page_on_problems_has_every_problem_with_its_dimension():
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \|", (DOCS / "problems.md").read_text(), flags=re.M)
    dimensions = {name: int(d) for name, d in rows}
    assert dimensions == {name: find_task(name).d for name in [*task_names(), *validation_names()]}
