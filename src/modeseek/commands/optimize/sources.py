"""Earlier evaluations that a command is given: of a CSV file, of another study, of a checkpoint.

A CSV file has a column per parameter, called by its name or `params_<name>`, and one called `value`, or `values_0`,
`values_1`, ... of several objectives. It may have `constraints_0`, ..., `sem` or `sem_0`, ..., and `state`. Others are
passed over. `result.to_dataframe().to_csv(path, index=False)` writes such a file, Optuna's `trials_dataframe` too.
Where the first line has no comma, semicolons or tabs are between the columns. With semicolons numbers may have a comma
as their decimal point, as Excel writes them in much of Europe.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, NamedTuple

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from modeseek.checks import did_you_mean
from modeseek.commands.optimize.space_file import LARGEST, read_bytes, value_of
from modeseek.commands.optimize.store import directions_of
from modeseek.earlier import by_name
from modeseek.errors import CheckpointError, ConfigError, SpaceNeeded, StudyError
from modeseek.integrations.optuna_trials import constraints_of, has_odd_sem, is_data, sem_attribute
from modeseek.outcomes import Measured, Outcome, measured
from modeseek.space import Space

LARGEST_TABLE = 100 * LARGEST  # bytes of a CSV file
RESERVED = {"number", "state", "origin", "value", "sem", "error", "feasible", "started", "seconds"}


class Row(NamedTuple):
    """One evaluation."""

    where: str  # as in "line 3", "trial 7"
    params: dict[str, Any]
    found: Measured


@dataclass(frozen=True)
class Source:
    """What was evaluated before.

    Attributes:
        name: as messages have it.
        rows: evaluations with finite values.
        objectives: how many values each has.
        directions: of each objective; None where nobody knows.
        without: how many trials there are beside these: failed, interrupted, or running.
    """

    name: str
    rows: Sequence[Row]
    objectives: int
    directions: list[str] | None = None
    without: int = 0


def find_source(text: str, storage: BaseStorage, option: str) -> optuna.Study | str:
    """The study of this name in the storage, or else the path of a file; StudyError where there is neither."""
    names = optuna.get_all_study_names(storage)
    if text in names:
        return optuna.load_study(study_name=text, storage=storage)
    if os.path.exists(text):
        return text
    raise StudyError(
        f"{option} {text}: there is no such file, and no such study in this storage{did_you_mean(text, names)}; it has "
        f"{', '.join(map(repr, names)) or 'none'}"
    )


def is_table(text: str) -> bool:
    """Whether this names a CSV file."""
    return text.lower().endswith(".csv")


def read_source(text: str, storage: BaseStorage, space: Space) -> Source:
    """What --known names: a CSV file by the end of its name, a study of the storage, or a checkpoint."""
    if is_table(text):
        return read_csv(text, space)
    found = find_source(text, storage, "--known")
    return _of_checkpoint(found, space) if isinstance(found, str) else _of_study(found)


def _of_study(study: optuna.Study) -> Source:
    count, trials = len(study.directions), study.get_trials(deepcopy=False)
    rows = [
        Row(f"trial {trial.number}", dict(trial.params), _found(trial, count)) for trial in trials if is_data(trial)
    ]
    return Source(f"study {study.study_name!r}", rows, count, directions_of(study), len(trials) - len(rows))


def _found(trial: FrozenTrial, count: int) -> Measured:
    sem = None if has_odd_sem(trial, count) else sem_attribute(trial)
    values = trial.values[0] if count == 1 else trial.values
    return measured(Outcome(values, list(constraints_of(trial).values()), sem), count)


def _of_checkpoint(path: str, space: Space) -> Source:
    from modeseek import checkpoint  # here: it needs torch

    try:
        snapshot = checkpoint.read(path)
    except CheckpointError as error:
        if not isinstance(error.__cause__, SpaceNeeded):
            raise
        snapshot = checkpoint.read(path, space)
    goal = snapshot.direction
    directions = [goal] if isinstance(goal, str) else list(goal)
    trials = list(snapshot.trials)
    rows = [
        Row(f"trial {t.number}", by_name(t.params), Measured(t.values, t.constraints or (), t.sem))
        for t in trials
        if t.values is not None
    ]
    return Source(path, rows, len(directions), list(directions), len(trials) - len(rows))


def read_csv(path: str, space: Space) -> Source:
    """The evaluations of a CSV file; ConfigError names the file, and the line or the column."""
    try:
        text = read_bytes(path, LARGEST_TABLE).decode("utf-8-sig")
        delimiter = _delimiter_of(text)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        header = next(reader, [])
        lines = [
            (reader.line_num, cells) for cells in reader if cells
        ]  # the number of its last line, as errors have it
    except OSError as error:
        raise ConfigError(f"{path}: the CSV file cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: not a CSV file in UTF-8: {error}") from error
    try:
        table = _Table(header, space, decimal_comma=delimiter == ";")
        rows = [row for number, cells in lines if (row := table.row(number, cells)) is not None]
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return Source(path, rows, len(table.values), without=len(lines) - len(rows))


def _delimiter_of(text: str) -> str:
    """What is between the columns: a comma, or the first of the others in a first line without one."""
    first = text.partition("\n")[0]
    return next((mark for mark in ",;\t" if mark in first), ",")


class _Table:
    """Which column of a CSV file says what; ValueError where one is missing or makes no sense."""

    def __init__(self, header: list[str], space: Space, *, decimal_comma: bool = False) -> None:
        self.header, self.space, self.decimal_comma = header, space, decimal_comma
        if twice := [name for i, name in enumerate(header) if name and name in header[:i]]:
            raise ValueError(f"there are two columns {twice[0]!r}")
        self.values = ["value"] if "value" in header else self._numbered("values")
        if not self.values:
            hint = "; columns are separated by commas, semicolons or tabs" if len(header) == 1 else ""
            raise ValueError(
                f"there is no column 'value', nor 'values_0', 'values_1', ... of several objectives: {header}{hint}"
            )
        self.constraints = self._numbered("constraints")
        self.sems = ["sem"] if len(self.values) == 1 else [f"sem_{i}" for i in range(len(self.values))]
        self.params = {name: column for name in space if (column := self._column(name)) is not None}
        for name in header:
            if name.startswith("params_") and (unknown := name.removeprefix("params_")) not in space.names:
                raise ValueError(
                    f"column {name!r}: the space has no parameter {unknown!r}{did_you_mean(unknown, space)}"
                )

    def _numbered(self, name: str) -> list[str]:
        return list(takewhile(lambda column: column in self.header, (f"{name}_{i}" for i in count())))

    def _column(self, name: str) -> str | None:
        taken = RESERVED | {*self.values, *self.constraints, *self.sems}
        for column in (f"params_{name}", name):
            if column in self.header and column not in taken:
                return column
        if self.space[name].when is None:
            raise ValueError(
                f"there is no column {name!r}, or 'params_{name}', for this parameter{did_you_mean(name, self.header)}"
            )
        return None

    def row(self, number: int, cells: list[str]) -> Row | None:
        """A line's evaluation; None where it has no finite value."""
        where = f"line {number}"
        if len(cells) != len(self.header):
            raise ValueError(f"{where} has {len(cells)} cells, and the first line {len(self.header)}")
        by_column = dict(zip(self.header, cells, strict=True))
        values = [self._number(where, name, by_column[name]) for name in self.values]
        if by_column.get("state", "complete").lower() != "complete" or not all(map(math.isfinite, values)):
            return None
        sem = [None if math.isnan(s := self._number(where, n, by_column.get(n, ""))) else s for n in self.sems]
        limits = [self._number(where, name, by_column[name]) for name in self.constraints]
        single = len(values) == 1
        try:
            found = measured(Outcome(values[0] if single else values, limits, sem[0] if single else sem), len(values))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        params = {name: self._value(where, name, by_column[column]) for name, column in self.params.items()}
        return Row(where, {name: value for name, value in params.items() if value is not None}, found)

    def _value(self, where: str, name: str, text: str) -> Any:
        """A parameter's value; None where the cell is empty."""
        parameter = self.space[name]
        choices: Sequence[Any] | None = getattr(parameter, "choices", None)
        if not text and "" not in (choices or ()):
            return None
        value = value_of(parameter, text if choices else self._with_point(text))
        if choices is None and isinstance(value, str):
            raise ValueError(f"{where}: {name} is {text!r:.60}, not a number")
        return value

    def _number(self, where: str, column: str, text: str) -> float:
        """A cell as a number; NaN where it is empty."""
        try:
            return float(self._with_point(text)) if text.strip() else math.nan
        except ValueError:
            raise ValueError(f"{where}: {column} is {text!r:.60}, not a number") from None

    def _with_point(self, text: str) -> str:
        return text.replace(",", ".") if self.decimal_comma else text
