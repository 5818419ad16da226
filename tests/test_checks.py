"""The checks that several rooms share, and that nobody has a second one."""

import pathlib
import re

import numpy as np
import pytest

import modeseek
from modeseek import ConfigError, DMSConfig
from modeseek.checks import did_you_mean, is_whole, missing_extra, nearest, whole_number

SOURCES = sorted(pathlib.Path(modeseek.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)], ids=repr)
def test_whole_numbers_of_python_and_numpy(value):
    assert is_whole(value)
    assert is_whole(value, 3)
    assert not is_whole(value, 4)
    assert type(whole_number("n", value, 1)) is int
    config = DMSConfig(m=value, epochs=value)
    assert type(config.m) is type(config.epochs) is int  # a checkpoint is JSON, which knows no NumPy
    assert config == DMSConfig(m=3, epochs=3)


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, np.array([3]), 0], ids=repr)
def test_what_is_no_whole_number_from_one_on(value):
    assert not is_whole(value, 1)
    with pytest.raises(ConfigError, match="n must be a whole number of at least 1"):
        whole_number("n", value, 1)
    with pytest.raises(ConfigError, match="DMSConfig: hidden must be a whole number of at least 1"):
        DMSConfig(hidden=value)


def test_names_that_are_nearly_right():
    known = ["Epochs", "batch_size", "hidden"]
    assert nearest("epoch", known) == ["Epochs"]
    assert nearest("HIDEN", known, n=3) == ["hidden"]
    assert did_you_mean("batchsize", known) == "; did you mean 'batch_size'?"
    assert nearest("zzz", known) == []
    assert did_you_mean("zzz", known) == ""
    assert did_you_mean(7, known) == ""


def test_a_missing_extra_says_what_works_in_a_clone():
    error = missing_extra("DMSSampler needs Optuna", "optuna")
    assert isinstance(error, ImportError)
    assert isinstance(error, modeseek.ModeseekError)
    assert str(error) == 'DMSSampler needs Optuna: pip install -c constraints.txt ".[optuna]" in a clone of modeseek'


@pytest.mark.parametrize("written", ["difflib", "pip install", "numbers.Integral", "np.integer"])
def test_each_check_has_one_home(written):
    rooms = [path.name for path in SOURCES if re.search(rf"{re.escape(written)}\b", path.read_text())]
    assert rooms in ([], ["checks.py"])


def test_docs_and_examples_name_what_works_in_a_clone():
    root = pathlib.Path(__file__).parents[1]
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/*.py"), *root.glob("package/**/*.md")]
    assert len(pages) > 15
    for page in pages:
        if page.name != "CHANGELOG.md":
            assert not re.search(r"pip install[^`\n]*\bmodeseek\b", page.read_text()), page
