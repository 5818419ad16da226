"""docs/faults.md and the tests agree: every fault has its tests or says that it is open, every test its fault."""

import fnmatch
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
ROWS = {
    int(number): cell.strip()
    for number, cell in re.findall(r"^\| (\d+) \|.*\| ([^|]*) \|$", (ROOT / "docs/faults.md").read_text(), re.MULTILINE)
}
TESTS = {
    f"{path.relative_to(ROOT).as_posix()}::{name}"
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
}


def named(cell):
    return re.findall(r"`(tests/[^`]+::[^`]+)`", cell)


def test_every_fault_has_a_row():
    assert list(ROWS) == list(range(1, 53))


@pytest.mark.parametrize("number", ROWS)
def test_what_a_row_names_exists(number):
    patterns = named(ROWS[number])
    assert patterns or ROWS[number].startswith("open"), "name a test, or say that it is open"
    for pattern in patterns:
        assert fnmatch.filter(TESTS, pattern), f"{pattern} is not a test"


@pytest.mark.parametrize("test", sorted(test for test in TESTS if "::test_fault_" in test))
def test_the_faults_that_tests_name_are_listed_and_not_open(test):
    for number in re.findall(r"\d\d", re.match(r".*::test_fault((?:(?:_and)?_\d\d)+)_", test)[1]):
        assert named(ROWS[int(number)]), f"fault {number} has a test now: name it in docs/faults.md"


def test_other_mentions_of_a_fault_are_of_one_that_is_listed():
    here = pathlib.Path(__file__)
    for path in (ROOT / "tests").rglob("*.py"):
        if path != here:
            for number in re.findall(r"\bfaults? (\d+)\b", path.read_text()):
                assert int(number) in ROWS, path
