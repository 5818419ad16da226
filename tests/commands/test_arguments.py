"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from modeseek.commands import main
from modeseek.commands.arguments import above_zero, check_folder, names, sizes
from modeseek.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dms", ["dms"]),
        ("dms, ei,", ["dms", "ei"]),
        ("dms-paper[rho=2;K=0],ei", ["dms-paper[rho=2;K=0]", "ei"]),
        ("dms-paper[a=1,b=2],ei", ["dms-paper[a=1,b=2]", "ei"]),
        ("my_file.py:problem,levy-10", ["my_file.py:problem", "levy-10"]),
        ("../deep/my file.py:problem", ["../deep/my file.py:problem"]),
    ],
)
def test_names_are_split_at_commas_outside_of_brackets(text: str, found: list[str]) -> None:
    assert names(text) == found


def test_wrong_arguments_are_named() -> None:
    for kind, text in ((names, " , "), (sizes, "1,0"), (sizes, "1,,2"), (above_zero, "inf")):
        with pytest.raises(argparse.ArgumentTypeError):
            kind(text)
    assert sizes("1,8") == [1, 8]


def test_a_folder_that_can_be_made_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path, tmp_path / "new" / "deeper", Path("new"), Path()):
        check_folder(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        ["report", "results", "--out"],
        ["bench", "run", "--task", "branin-2", "--method", "sobol", "--out"],
        ["bench", "theory", "--out"],
        ["bench", "distribution", "--out"],
        ["bench", "draws", "--out"],
        ["bench", "seconds", "--out"],
        ["bench", "batches", "--out"],
        ["bench", "growth", "--out"],
        ["demo", "--out"],
    ],
)
def test_a_folder_that_cannot_be_made_is_said_before_any_work(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main([*command, str(tmp_path / "file" / "deep")]) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "file") in said
    assert said.count("\n") == 1


def test_a_read_only_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as it is for everybody but root
    with pytest.raises(ConfigError, match="read-only"):
        check_folder(tmp_path)


@pytest.mark.parametrize("folder", ["nowhere", "file", "."])
def test_a_folder_without_records_is_said(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    for command in (["report", folder, "--out", "new"], ["bench", "pack", folder]):
        assert main(command) == 1
        assert folder.strip(".") in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["--task", "--method"])
def test_names_of_files_are_passed_through_and_names_of_lists_are_not_guessed_from_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    other = ["--method", "sobol"] if kind == "--task" else ["--task", "branin-2"]
    for given, said in (
        ("ablations.py:mine", "no file"),  # the file's name is that of a list
        ("validation.py:mine", "no file"),
        ("ablation", "did you mean 'ablations'") if kind == "--method" else ("validatoin", "did you mean 'validation'"),
    ):
        assert main(["bench", "run", kind, given, *other]) == 1
        assert said in capsys.readouterr().err
