"""The package for OptunaHub: loaded as OptunaHub loads it, with the README that its pages are made from."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import optuna
import optunahub
import pytest

from modeseek.integrations.optuna import DMSSampler

REGISTRY = Path(__file__).parents[2] / "package"
PACKAGE = REGISTRY / "samplers" / "dms"
FIELDS = ["author", "title", "description", "tags", "optuna_versions", "license"]


def test_it_loads_and_runs():
    module = optunahub.load_local_module("samplers/dms", registry_root=str(REGISTRY))
    assert module.DMSSampler is DMSSampler
    cheap = module.DMSConfig(m=16, S=16, epochs=2, steps=3, hidden=8)
    study = optuna.create_study(sampler=module.DMSSampler(seed=0, config=cheap, n_startup_trials=3))
    study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=6)
    assert len(study.trials) == 6


def test_the_example_runs(monkeypatch, capsys):
    monkeypatch.setattr(
        optunahub, "load_module", lambda name: optunahub.load_local_module(name, registry_root=str(REGISTRY))
    )
    runpy.run_path(str(PACKAGE / "example.py"), run_name="__main__")
    assert "'activation': 'relu'" in capsys.readouterr().out


def test_the_readme_has_what_optunahub_asks_for():
    text = (PACKAGE / "README.md").read_text()
    front = re.fullmatch(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    assert front is not None
    fields = dict(line.split(": ", 1) for line in front[1].splitlines())
    assert list(fields) == FIELDS
    assert "sampler" in fields["tags"]
    assert fields["license"] == "MIT License"
    sections = re.findall(r"^## (.*)$", front[2], re.MULTILINE)
    assert {"Class or Function Names", "Installation", "Example", "Others"} <= set(sections)


@pytest.mark.parametrize("name", ["__init__.py", "example.py", "LICENSE", "requirements.txt"])
def test_its_files_are_there(name):
    assert (PACKAGE / name).read_text().strip()


def test_its_license_is_the_project_s():
    assert (PACKAGE / "LICENSE").read_text() == (REGISTRY.parent / "LICENSE").read_text()
