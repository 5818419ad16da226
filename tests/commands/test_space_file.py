"""Spaces in TOML: what they become, and what is said about those that are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import modeseek as ms
from modeseek.commands.optimize.space_file import LARGEST, read_fixed, read_space, read_space_and_prior

GOOD = """
# a comment
[units]
type = "int"
low = 50
high = 200
step = 50

[lr]
type = "float"
low = 1e-5
high = 1          # a whole number is a float, too
log = true

[dropout]
type = "float"
low = 0.0
high = 0.5
step = 0.1

["model.layers"]
type = "int"
low = 1
high = 64
log = true

[act]
type = "categorical"
choices = ["relu", "tanh", 3, 0.5, true]
"""


TWO = '[a]\ntype = "float"\nlow = 0\nhigh = 1\n[b]\ntype = "float"\nlow = 0\nhigh = 1\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "space.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_kind_of_parameter_is_read_in_the_files_order(tmp_path: Path) -> None:
    space = read_space(write(tmp_path, GOOD))
    assert space == ms.Space(
        {
            "units": ms.Int(50, 200, step=50),
            "lr": ms.Float(1e-5, 1, log=True),
            "dropout": ms.Float(0.0, 0.5, step=0.1),
            "model.layers": ms.Int(1, 64, log=True),
            "act": ms.Categorical(["relu", "tanh", 3, 0.5, True]),
        }
    )
    assert space.names == ["units", "lr", "dropout", "model.layers", "act"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["it has no parameters"]),
        ("# nothing but words", ["it has no parameters"]),
        ("[lr]\ntype = float", ["TOML", "line 2"]),
        ('[a]\ntype = "int"\n[a]', ["TOML", "line 3"]),
        ("lr = 3", ["lr must be a table", "[lr]"]),
        ("[lr]\nlow = 0\nhigh = 1", ["[lr]", "type is missing", "float"]),
        ('[lr]\ntype = "flaot"\nlow = 0\nhigh = 1', ["[lr]", "flaot", "did you mean 'float'"]),
        ("[lr]\ntype = 3\nlow = 0\nhigh = 1", ["[lr]", "type", "3"]),
        ("[lr]\ntype = []\nlow = 0\nhigh = 1", ["[lr]", "type", "[]"]),
        ('[lr]\ntype = "float"\nlow = 0\nhihg = 1', ["[lr]", "'hihg'", "did you mean 'high'"]),
        ('[lr]\ntype = "float"\nlow = 0\nhigh = 1\nchoices = [1]', ["[lr]", "'choices'", "low, high, log, step"]),
        ('[lr]\ntype = "float"\nhigh = 1', ["[lr]", "low is missing"]),
        ('[act]\ntype = "categorical"', ["[act]", "choices is missing"]),
        ('[act]\ntype = "categorical"\nchoices = []', ["[act]", "choices must not be empty"]),
        ('[act]\ntype = "categorical"\nchoices = "relu"', ["[act]", "choices must be a list"]),
        ('[act]\ntype = "categorical"\nchoices = [["relu"]]', ["[act]", "a choice must be"]),
        ('[lr]\ntype = "float"\nlow = 2\nhigh = 1', ["[lr]", "low must not be above high"]),
        ('[n]\ntype = "int"\nlow = 2\nhigh = 1', ["[n]", "low must not be above high"]),
        ('[n]\ntype = "int"\nlow = 1.5\nhigh = 3', ["[n]", "low must be an integer"]),
        ('[lr]\ntype = "float"\nlow = 0\nhigh = 1\nlog = true', ["[lr]", "log=True needs low > 0"]),
        ('[lr]\ntype = "float"\nlow = nan\nhigh = 1', ["[lr]", "low must be finite"]),
        ('[lr]\ntype = "float"\nlow = 0\nhigh = 1\nlog = "yes"', ["[lr]", "log must be"]),
        ('[model.lr]\ntype = "float"\nlow = 0\nhigh = 1', ["[model.lr]", '["model.lr"]']),
        ('[model]\ntype = "float"\nlow = 0\nhigh = 1\n[model.lr]\nlow = 0', ["[model.lr]", '["model.lr"]']),
        ('[""]\ntype = "float"\nlow = 0\nhigh = 1', ["name", "non-empty"]),
        (TWO + "[[constraints]]\nupper = 1", ["[[constraints]] number 1", "coefficients is missing"]),
        (TWO + "[[constraints]]\ncoefficients = {a = 1}\nuper = 1", ["number 1", "'uper'", "did you mean 'upper'"]),
        (TWO + "[[constraints]]\ncoefficients = {a = 1}", ["number 1", "lower=, upper= or equals="]),
        (TWO + "[[constraints]]\ncoefficients = {c = 1}\nupper = 1", ["c <= 1", "no parameter 'c'"]),
        (TWO + "[[constraints]]\ncoefficients = {a = 1}\nlower = 2", ["no configuration"]),
        ("constraints = [1]\n" + TWO, ["must be tables"]),
        (TWO + "[constraints]\ncoefficients = {a = 1}\nupper = 1", ["write [[constraints]], with two brackets"]),
        (TWO + "prior = [2, 1]", ["prior: parameter 'b'", "2 is not in"]),
        (TWO + "prior = {mean = 0.5}", ["prior: parameter 'b'", "no belief about a number"]),
    ],
)
def test_what_is_wrong_is_said_with_the_file_and_the_line_or_the_key(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ms.SpaceError) as error:
        read_space(path)
    for part in [str(path), *said]:
        assert part in str(error.value)


def test_choices_may_have_an_order(tmp_path: Path) -> None:
    path = write(tmp_path, '[size]\ntype = "categorical"\nchoices = [16, 32, 64]\nordered = true')
    assert read_space(path) == ms.Space({"size": ms.Categorical([16, 32, 64], ordered=True)})
    path.write_text('[size]\ntype = "categorical"\nchoices = [16, 32]\nordered = "yes"', encoding="utf-8")
    with pytest.raises(ms.SpaceError, match=r"\[size\]: ordered must be True or False, not 'yes'"):
        read_space(path)


def test_linear_constraints_are_read(tmp_path: Path) -> None:
    one = "[[constraints]]\ncoefficients = {a = 1, b = 2}\nupper = 1\n"
    other = "[[constraints]]\ncoefficients = {a = 1}\nequals = 0.5\n"
    space = read_space(write(tmp_path, TWO + one + other))
    assert space.constraints == (ms.Linear({"a": 1, "b": 2}, upper=1), ms.Linear({"a": 1}, equals=0.5))
    named_so = '[constraints]\ntype = "float"\nlow = 0\nhigh = 1'
    assert read_space(write(tmp_path, named_so)).names == ["constraints"]


def test_beliefs_are_read_and_the_space_is_as_without_them(tmp_path: Path) -> None:
    choice = '[k]\ntype = "categorical"\nchoices = ["a", 2]\nprior = {a = 1, 2 = 3}\n'
    space, prior = read_space_and_prior(write(tmp_path, choice + TWO + "prior = {mean = 0.5, std = 0.1}"))
    assert prior == {"k": {"a": 1, "2": 3}, "b": {"mean": 0.5, "std": 0.1}}
    assert space["b"] == ms.Float(0, 1)
    opt = ms.Optimizer(space, prior=prior)
    assert opt.prior == {"k": {"weights": [["a", 1 / 3], [2, 1.0]]}, "b": {"normal": [0.5, 0.1]}}


def test_fixed_values_are_read_as_the_space_has_them(tmp_path: Path) -> None:
    space = read_space(write(tmp_path, GOOD))
    texts = ["units=100", "lr=1e-3", "act=0.5", "dropout=0.3"]
    assert read_fixed(texts, space) == {"units": 100, "lr": 1e-3, "act": 0.5, "dropout": 0.3}
    assert read_fixed(["act=tanh"], space) == {"act": "tanh"}
    for text, said in [("unit=1", "NAME=VALUE"), ("units", "NAME=VALUE"), ("units=1.5", "units"), ("act=elu", "act")]:
        with pytest.raises(ms.ParameterError, match=said):
            read_fixed([text], space)


def test_a_byte_order_mark_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert read_space(path) == read_space(write(tmp_path, GOOD))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ms.SpaceError, match=r"nowhere\.toml.*No such file"):
        read_space(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes(b'["\xe9"]\n')
    with pytest.raises(ms.SpaceError, match=r"latin\.toml.*TOML"):
        read_space(tmp_path / "latin.toml")


def test_what_is_no_file_or_has_no_end_is_refused_at_once(tmp_path: Path) -> None:
    """Fault 43. Without the check, a pipe is waited for and /dev/zero is read until the memory is full."""
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "endless.toml").write_bytes(b"#" * (LARGEST + 1))
    for path, said in (
        (tmp_path, "a folder"),
        (tmp_path / "pipe.toml", "a pipe"),
        (Path("/dev/zero"), "a device"),
        (tmp_path / "endless.toml", str(LARGEST)),
    ):
        with pytest.raises(ms.SpaceError, match=said) as error:
            read_space(path)
        assert str(path) in str(error.value)


def test_a_file_as_large_as_allowed_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + "#" * (LARGEST - len(GOOD)))
    assert path.stat().st_size == LARGEST
    assert len(read_space(path)) == 5


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "{b=" * 20_000, "[a]\nchoices = [" + "[" * 50_000])
def test_what_is_nested_too_deep_is_said_in_one_line(tmp_path: Path, text: str) -> None:
    """Fault 43."""
    path = write(tmp_path, text)
    with pytest.raises(ms.SpaceError, match="nested too deep") as error:
        read_space(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
