"""Packed records: one Parquet file for a suite, with a schema, each record's code revision, and a checksum.

    results/paper.parquet  validation.parquet  ablations.parquet  ingredients.parquet  scoreboard.parquet

JSON lines are the journal of running campaigns; what is published is packed, at about a tenth of the size. A row is a
replication, sorted by task, replication and method, since methods that share a design and noise then stand side by side
and compress together.

| column | type | |
|---|---|---|
| task, method, status, version, device | string | as in `Record` |
| revision | string | the git revision of `version`, "unknown" where it names none |
| replication, batch, n_initial | int32 | |
| seed, fit_evaluations | int64 | |
| config | string | JSON; null for methods other than DMS |
| error | string | the traceback of a failed replication, else null |
| values | list of float32 | outcomes without noise, to 7 digits |
| noise | list of float32 | `observed - values`, to 7 digits: the same for every method, and so nearly free |
| iterations | list of float32 | seconds of each suggestion, to 4 digits |
| stages, stage_seconds | list of string, list of float32 | names and seconds of the stages |
| inputs | list of lists of float32 | one row per evaluation, to 7 digits; empty where not known |
| fell_back | list of bool | null where not known |
| optimum | float64 | of tasks that the package does not know; there only where a record has one |

A column of numbers is float64 where float32 would lose digits. The file's metadata has `modeseek.schema` (the version
of this table) and `modeseek.checksum` (SHA-256 of all columns' content), which reading verifies.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from modeseek.bench.campaign.records import DIGITS, SCHEMA, Record, Store, as_today, is_whole
from modeseek.bench.methods import OF_THE_PAPER
from modeseek.bench.tasks import find_task, suites, task_names, validation_names
from modeseek.checks import missing_extra
from modeseek.errors import ConfigError, ModeseekError
from modeseek.typing import Array

SECOND_DIGITS = 4  # of a time: clocks are no better
SUFFIX = ".parquet"
Inputs = Literal["all", "real", "none"]
_TEXTS = ("task", "method", "status", "version", "revision", "device", "error")
_COUNTS = {"replication": "int32", "batch": "int32", "n_initial": "int32", "seed": "int64", "fit_evaluations": "int64"}
_NUMBERS = ("values", "noise", "iterations", "stage_seconds")
_NULLABLE = ("config", "error", "fell_back", "optimum")


class DamagedRecords(ModeseekError):
    """A file of packed records is not what was written."""


def suite_of(record: Record) -> str:
    """The file that a record is packed into."""
    if record.task in _scoreboard():
        return "scoreboard"
    base, bracket, _ = record.method.partition("[")
    if bracket:
        return "ablations" if base in OF_THE_PAPER else "ingredients"
    if record.task in validation_names():
        return "validation"
    return "paper" if record.task in task_names() else "own"


@cache
def _scoreboard() -> frozenset[str]:
    return frozenset(task for tasks in suites().values() for task in tasks)


def pack(source: Path, out: Path, inputs: Inputs = "all") -> dict[Path, int]:
    """Pack all records of a folder, from its journal and its packed files; how many went into each file.

    Args:
        out: a folder, which gets one file per suite, or a file that ends in `.parquet`, which gets everything.
        inputs: of which tasks the inputs are kept; "real" are those that train a network. They are most
            of a file: a million evaluations in ten dimensions take 25 MB.
    """
    if out.is_file() and out.suffix != SUFFIX:
        raise ConfigError(f"{out} is a file that does not end in {SUFFIX}; give a folder, or a name that does")
    files: dict[Path, list[Record]] = {}
    for record in Store(source):
        path = out if out.suffix == SUFFIX else out / f"{suite_of(record)}{SUFFIX}"
        files.setdefault(path, []).append(record)
    if not files:
        raise ModeseekError(f"{source.resolve()} holds no record; `modeseek bench run` makes them")
    for path, records in files.items():
        write(path, records, inputs)
    return {path: len(records) for path, records in files.items()}


def write(path: Path, records: Iterable[Record], inputs: Inputs = "all") -> None:
    """Write records into one file, in the place of what it had; the file is whole at any moment."""
    pa, pq = _pyarrow()
    ordered = sorted(records, key=lambda r: (r.task, r.replication, r.method, r.key))
    columns = _columns(ordered, inputs)
    schema = pa.schema([pa.field(name, column.type, name in _NULLABLE) for name, column in columns.items()])
    table = pa.table(list(columns.values()), schema=schema)
    facts = {"modeseek.schema": str(SCHEMA), "modeseek.checksum": _checksum(table)}
    of_numbers = [f"{name}.list.element" for name in ("values", "noise", "stage_seconds")]
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}.part")
    pq.write_table(
        table.replace_schema_metadata(facts),
        scratch,
        row_group_size=max(len(ordered), 1),
        data_page_size=64 << 20,  # methods that share values are compressed within one page
        compression="zstd",
        compression_level=19,
        use_dictionary=[*_TEXTS, *_COUNTS, "config", "stages.list.element", "iterations.list.element"],
        use_byte_stream_split=[*of_numbers, "inputs.list.element.list.element"],
        write_statistics=False,
        write_page_checksum=True,
    )
    os.replace(scratch, path)


def read(path: Path) -> list[Record]:
    """The records of a packed file; DamagedRecords, with its name, where it is not what was written."""
    _, pq = _pyarrow()
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        facts = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    except Exception as error:  # whatever Arrow meets in such a file
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    schema = facts.get("modeseek.schema")
    if schema is None:
        raise _damaged(path, "it holds no records of modeseek")
    if schema not in map(str, range(1, SCHEMA + 1)):
        raise ModeseekError(
            f"{path.resolve()} has records in schema {schema}, and this modeseek reads up to {SCHEMA}; use the other "
            "version"
        )
    if facts.get("modeseek.checksum") != _checksum(table):
        raise _damaged(path, "its checksum does not fit its content")
    try:
        records = _records(table, int(schema))
        if all(map(is_whole, records)):
            return records
        raise ValueError("a record is not whole")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, str(error)) from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise missing_extra("packed records need pyarrow", "bench") from error
    return pyarrow, parquet


def _damaged(path: Path, why: str) -> DamagedRecords:
    return DamagedRecords(f"{path.resolve()} is damaged: {why}. Take it from the repository again, or move it away")


def _columns(records: Sequence[Record], inputs: Inputs) -> dict[str, Any]:
    """Arrow arrays, by column."""
    pa, _ = _pyarrow()
    columns = {name: pa.array([getattr(r, name) for r in records], pa.string()) for name in _TEXTS}
    configs = [None if r.config is None else json.dumps(r.config) for r in records]
    columns["config"] = pa.array(configs, pa.string())
    columns |= {name: pa.array([getattr(r, name) for r in records], kind) for name, kind in _COUNTS.items()}
    kept = {task: _keeps_inputs(task, inputs) for task in {r.task for r in records}}
    noise = [np.subtract(r.observed, r.values) for r in records]
    columns |= {
        "values": _lists([r.values for r in records]),
        "noise": _lists(noise),
        "iterations": _lists([_to_digits(np.array(r.iterations, dtype=float), SECOND_DIGITS) for r in records]),
        "stages": pa.array([list(r.stages) for r in records], pa.list_(pa.string())),
        "stage_seconds": _lists([list(r.stages.values()) for r in records]),
    }
    rows = [row for r in records if kept[r.task] for row in r.inputs]
    ends = np.cumsum([0, *(len(r.inputs) if kept[r.task] else 0 for r in records)])
    columns["inputs"] = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), _lists(rows))
    columns["fell_back"] = pa.array([r.fell_back for r in records], pa.list_(pa.bool_()))
    if any(r.optimum is not None for r in records):
        columns["optimum"] = pa.array([r.optimum for r in records], pa.float64())
    return columns


def _keeps_inputs(task: str, inputs: Inputs) -> bool:
    if inputs in ("all", "none"):
        return inputs == "all"
    known = task in task_names() or task in validation_names() or task in _scoreboard()
    return not known or find_task(task).seconds > 0


def _lists(rows: Sequence[Sequence[float] | Array]) -> Any:
    """Lists of numbers as an Arrow array, of float32 where that keeps their digits."""
    pa, _ = _pyarrow()
    flat = np.concatenate([np.zeros(0), *(np.asarray(row, dtype=float) for row in rows)])
    with np.errstate(over="ignore"):
        narrow = flat.astype(np.float32)
    tiny = 1e-30  # below it float32 runs out of digits, and nobody looks
    lost = np.abs(narrow - flat) > 1.2e-7 * np.maximum(np.abs(flat), tiny)
    ends = np.cumsum([0, *map(len, rows)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(flat if lost.any() else narrow))


def _to_digits(x: Array, digits: int = DIGITS) -> Array:
    """The nearest numbers with this many significant decimal digits, as `float` would read them from text."""
    size = np.floor(np.log10(np.abs(x), where=x != 0, out=np.zeros_like(x)))
    shift = digits - 1 - size
    up, down = (10.0 ** np.clip(s, 0, 300) for s in (shift, -shift))
    return np.asarray(np.rint(x * up / down) / up * down)


def _numbers(column: Any) -> list[list[float]]:
    """The lists of a column, with the digits that they were stored to."""
    array = column.combine_chunks()
    flat = _to_digits(array.flatten().to_numpy(zero_copy_only=False).astype(float))
    ends = np.cumsum([0, *array.value_lengths().to_pylist()])
    return [flat[start:end].tolist() for start, end in pairwise(ends)]


def _records(table: Any, schema: int) -> list[Record]:
    """Rows as records."""
    plain = {name: table[name].to_pylist() for name in (*_TEXTS, *_COUNTS, "config", "stages", "fell_back")}
    numbers = {name: _numbers(table[name]) for name in _NUMBERS}
    optima = table["optimum"].to_pylist() if "optimum" in table.column_names else [None] * table.num_rows
    inputs = table["inputs"].combine_chunks()
    rows, ends = _numbers(_chunked(inputs.flatten())), np.cumsum([0, *inputs.value_lengths().to_pylist()])
    records = []
    for i in range(table.num_rows):
        of_row: dict[str, Any] = {name: column[i] for name, column in plain.items() if name != "revision"}
        values = numbers["values"][i]
        observed = _to_digits(np.add(values, numbers["noise"][i])) if values else np.zeros(0)
        of_row |= {
            "config": None if of_row["config"] is None else json.loads(of_row["config"]),
            "stages": dict(zip(of_row["stages"], numbers["stage_seconds"][i], strict=True)),
            "values": values,
            "observed": observed.tolist(),
            "iterations": numbers["iterations"][i],
            "inputs": rows[ends[i] : ends[i + 1]],
            "optimum": optima[i],
        }
        records.append(Record(**as_today(of_row, schema)))
    return records


def _chunked(array: Any) -> Any:
    pa, _ = _pyarrow()
    return pa.chunked_array([array])


def _checksum(table: Any) -> str:
    """SHA-256 of the content, column by column, however it is encoded and laid out in memory."""
    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(f"{name}\n".encode())
        _feed(digest, column.combine_chunks())
    return digest.hexdigest()


def _feed(digest: Any, array: Any) -> None:
    pa, _ = _pyarrow()
    digest.update(f"{'list' if pa.types.is_list(array.type) else array.type}\n".encode())
    if pa.types.is_list(array.type):
        digest.update(json.dumps(array.value_lengths().to_pylist()).encode())
        _feed(digest, array.flatten())
    elif pa.types.is_string(array.type):
        digest.update(json.dumps(array.to_pylist()).encode())
    else:
        digest.update(np.ascontiguousarray(array.to_numpy(zero_copy_only=False)).tobytes())
