"""Every script of examples/, as its docstring says to run it, with few trials."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import forked
from modeseek.bench.campaign.records import Store
from modeseek.commands import main
from modeseek.commands.optimize.space_file import read_space

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
NEEDED = ["mlflow_callback", "constraints", "context", "conditional", "noise", "prior", "transfer"]
NEEDED += ["function", "mixed_space", "resume", "parallel", "optuna_postgresql", "ray_tune", "ax_client"]
NEEDED += [
    "botorch_loop",
    "sklearn_pipeline",
    "objective",
    "own_problem",
    "black_box_constraints",
    "several_objectives",
]


def run(name: str, folder: Path) -> str:
    done = forked.run(EXAMPLES / name, "--trials", "4", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_users_ask_for_is_there() -> None:
    assert {f"{name}.py" for name in NEEDED} <= set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs_and_prints_its_best_value(name: str, tmp_path: Path) -> None:
    assert re.search(r"best value -?\d", run(name, tmp_path))
    text = (EXAMPLES / name).read_text()
    assert text.startswith('"""')
    assert f"examples/{name}" in text.split('"""')[1], "the docstring says how to run it"


def test_the_resumable_example_goes_on(tmp_path: Path) -> None:
    assert "0 evaluations are there" in run("resume.py", tmp_path)
    assert "4 evaluations are there" in run("resume.py", tmp_path)


def campaign_of_own(folder: Path) -> Path:
    """A campaign of the example's problem and method, beside Sobol search; the folder of its records."""
    own, out = EXAMPLES / "own_problem.py", folder / "results"
    methods = f"sobol,{own}:Nearby"
    assert (
        main(["bench", "run", "--task", f"{own}:problem", "--method", methods, "--reps", "6", "--out", str(out)]) == 0
    )
    return out


def test_a_problem_and_a_method_of_ones_own_run_in_a_campaign(tmp_path: Path) -> None:
    records = list(Store(campaign_of_own(tmp_path)))
    assert {(record.task, record.method) for record in records} == {("reaction", "sobol"), ("reaction", "Nearby")}
    assert len(records) == 12
    for record in records:
        assert record.status == "complete", record.error
        assert len(record.values) == 30
        assert max(record.values) <= 90
    designs = {record.method: record.inputs[:6] for record in records if record.replication == 0}
    assert designs["sobol"] == designs["Nearby"], "all methods start from the same points"


def test_the_report_shows_them(tmp_path: Path) -> None:
    assert main(["report", str(campaign_of_own(tmp_path)), "--out", str(tmp_path / "report")]) == 0
    assert "| reaction |" in (tmp_path / "report/report.md").read_text()


def test_the_space_file_is_one() -> None:
    assert read_space(EXAMPLES / "space.toml").names == ["lr", "dropout", "units", "act"]
