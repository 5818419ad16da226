"""The README's and docs/usage.md's Python, run as they stand, and the README's table."""

from __future__ import annotations

import re
import runpy
import textwrap
from pathlib import Path

import forked

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def run(page: Path, folder: Path) -> str:
    first, *others = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S)
    guarded = textwrap.indent("\n".join(others), "    ")  # the first one's workers import the file
    (folder / "page.py").write_text(f'{first}\nif __name__ == "__main__":\n{guarded}')
    done = forked.run("page.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readmes_examples_are_short_run_and_find_the_optimum(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    assert len(blocks[0].strip().splitlines()) <= 20
    printed = run(README, tmp_path)
    value = float(re.search(r"best value (\S+)", printed)[1])
    assert value < 0.05, "the optimum is 0, at lr = 1e-3, 120 units and relu"
    assert abs(float(re.search(r"\{'x': (\S+)\}", printed)[1]) - 2) < 0.1, "Optuna's study"


def test_whether_the_paper_holds_is_linked_from_the_first_screen() -> None:
    assert "docs/reproduction.md" in "".join(README.read_text().splitlines(keepends=True)[:10])


def test_the_page_on_usage(tmp_path: Path) -> None:
    printed = run(ROOT / "docs/usage.md", tmp_path)
    assert float(re.search(r"best value (\S+)", printed)[1]) < 1
    assert "{'lr': 0.001, 'units': 100, 'act': 'relu', 'batch': 64}" in printed, "the best of what was told"
    assert (tmp_path / "run.modeseek").exists()


def test_the_table_of_results_is_the_reports_and_fits_on_a_screen(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "docs/readme_table.py"))
    text = README.read_text()
    assert script["filled"](text) == text, "`make report` refreshes the table"
    assert len(script["ROWS"]) <= 8
    against = tmp_path / "against.csv"
    against.write_text(
        "method,tasks,measure,better,level,worse,better by Holm,level by Holm,worse by Holm,worse on\n"
        'logei,the paper\'s tasks,at the end,3,2,1,2,4,0,"a, b"\n'
        'logei,the paper\'s tasks,all along,0,5,1,0,6,0,"b, c"\n'
        "pi,validation tasks,at the end,0,0,0,0,0,0,\n"
    )
    other = script["filled"](text, against)
    assert "| LogEI | 3 / 2 / 1 (2 / 0) |  | a, b, c (all along) |" in other
    assert "| PI |  |  |  |" in other, "not run, so no counts"
    assert script["filled"](other) == text
