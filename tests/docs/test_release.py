"""One version everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import modeseek as ms

ROOT = Path(__file__).parents[2]


def test_changelog_and_citation_are_of_this_version() -> None:
    assert re.findall(r"^## \[(\S+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[0] == ms.__version__
    assert re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), flags=re.M)[1] == ms.__version__
