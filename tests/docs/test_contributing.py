"""CONTRIBUTING.md's rooms and walks name files, functions and classes that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/modeseek"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
HOUSE = TEXT[TEXT.index("## The house") : TEXT.index("### Generated files")]
TOKENS = sorted(set(re.findall(r"`([\w./]+)`", HOUSE)))
FILES = [token for token in TOKENS if token.endswith((".py", "/"))]
NAMES = [token for token in TOKENS if token not in FILES]
DEFINED = {
    name
    for path in PACKAGE.rglob("*.py")
    for name in re.findall(r"^ *(?:def|class) (\w+)", path.read_text(), flags=re.MULTILINE)
} | {path.stem for path in PACKAGE.iterdir()}


@pytest.mark.parametrize("file", FILES)
def test_a_file_or_folder_is_there(file: str) -> None:
    assert (
        (PACKAGE / file).exists() or (ROOT / file).exists() or list(PACKAGE.rglob(file)) or list(ROOT.glob(f"*/{file}"))
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_defined(name: str) -> None:
    assert set(name.split(".")) - {"src", "modeseek"} <= DEFINED


def test_every_module_of_the_core_has_its_room() -> None:
    modules = {path.name for path in PACKAGE.glob("[a-z]*.py")}
    assert {name for name in modules if name not in HOUSE} == set()


def test_the_walks_are_short() -> None:
    walks = HOUSE[HOUSE.index("### Three walks") :]
    assert len(re.findall(r"^\d+\. ", walks, flags=re.MULTILINE)) <= 15
