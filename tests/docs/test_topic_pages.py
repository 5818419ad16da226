"""The Python of the pages on what a problem may need, block after block as it stands, with few and cheap trials."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import pytest

import modeseek as ms
from modeseek.integrations.optuna import DMSSampler
from shared import SMALLEST

DOCS = Path(__file__).parents[2] / "docs"

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a page in a folder of its own, and gives the names that its blocks leave in their one namespace."""
    make = ms.Optimizer.__init__
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ms, "minimize", partial(ms.minimize, config=SMALLEST, progress=False))
    monkeypatch.setattr(ms.Optimizer, "__init__", lambda *args, **given: make(*args, **{"config": SMALLEST, **given}))

    def run(page: str, **names: Any) -> dict[str, Any]:
        text = re.sub(r"budget=(\d+)", lambda match: f"budget={12 + int(match[1]) // 20}", (DOCS / page).read_text())
        blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
        assert len(blocks) == text.count("```python"), "an indented block would not be run"
        for block in blocks:
            exec(compile(block, page, "exec"), names)
        return names

    return run


def test_the_page_on_constraints(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    scope = run("constraints.md")
    printed = capsys.readouterr().out
    assert "minutes" in printed
    assert "trials are feasible" in printed
    assert scope["result"].best.feasible


def test_the_page_on_several_objectives(run: Run) -> None:
    result = run("objectives.md")["result"]
    assert len(result.front) > 1
    assert result.hypervolume(reference=[4.0, 0.0]) > 0


def test_the_page_on_conditional_spaces(run: Run) -> None:
    fitted: list[float] = []

    def fit(value: float) -> float:
        fitted.append(value)
        return value

    scope = run("conditional.md", fit_svm=fit, fit_forest=fit)
    said = re.search(r"^space\.decode\(.*?\)  # (\{.*\})$", (DOCS / "conditional.md").read_text(), flags=re.M)
    assert said is not None
    assert str(scope["space"].decode([0.5] * scope["space"].d)) == said[1]
    study = optuna.create_study(sampler=DMSSampler(seed=0, config=SMALLEST))
    study.optimize(scope["objective"], n_trials=3)
    assert len(fitted) == 3


def test_the_page_on_context(run: Run) -> None:
    scope = run("context.md")
    assert scope["opt"].best_for(machine="B", temperature=17.5).trial is None, "a day like none so far"


def test_the_page_on_noise(run: Run) -> None:
    assert run("noise.md")["trial"].params == {"x": 0.6}


def test_the_page_on_a_changing_space(run: Run) -> None:
    with pytest.warns(ms.SpaceChangedWarning, match="'tanh' is not one of"):
        result = run("changing-space.md")["result"]
    assert {trial.params["act"] for trial in result.trials if not trial.in_space} == {"tanh"}


def test_the_page_on_earlier_knowledge(run: Run) -> None:
    scope = run("earlier-knowledge.md")
    assert scope["result"].trials[0].origin == "told", "what was known"
    assert len(scope["new"].trials) < len(scope["old"].trials) + 12
