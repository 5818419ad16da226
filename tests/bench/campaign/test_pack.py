"""Packed records: everything survives, damage is an error that names the file, the journal goes before."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modeseek.bench.campaign.pack import DamagedRecords, pack, read, suite_of, write
from modeseek.bench.campaign.records import SCHEMA, Record, Store
from modeseek.bench.tasks import find_task
from modeseek.commands import main
from modeseek.config import with_younger_settings
from modeseek.errors import MissingExtraError, ModeseekError

pq = pytest.importorskip("pyarrow.parquet")

PUBLISHED = Path(__file__).parents[3] / "results"
PUBLISHED_FILES = [*PUBLISHED.glob("*.parquet"), *PUBLISHED.glob("tuning/*.parquet")]
Make = Callable[[str, str, int, float], Record]


def records_of_every_kind(make_record: Make) -> list[Record]:
    rng = np.random.default_rng(0)
    found = [make_record("levy-10", method, replication, 0.3) for method in ("dms", "ucb") for replication in range(3)]
    noisy = [
        dataclasses.replace(r, observed=(np.array(r.values) + 0.1 * rng.standard_normal(len(r.values))).tolist())
        for r in found
    ]
    n = len(found[0].values)
    return [
        *noisy,
        dataclasses.replace(
            make_record("wine", "dms-paper[rho=2]", 7, 0.1),
            config=with_younger_settings({"m": 5, "rho": 0.1 + 0.2, "name": "dms-paper[rho=2]"}),
            stages={"fit": 0.25, "train": 1 / 3},
            version="0.1.0+g98fb5ee440.changed",
            fell_back=[True, False],
            inputs=rng.random((find_length("wine"), 4)).tolist(),
        ),
        dataclasses.replace(found[0], replication=8, status="failed", error="Traceback\n  é", observed=[], values=[]),
        dataclasses.replace(found[0], replication=9, values=[0.0] * n, observed=[-0.0] * n, seed=2**40),
    ]


def find_length(task: str) -> int:
    problem = find_task(task)
    return problem.n_initial + problem.budget


def as_in_the_journal(records: list[Record], folder: Path) -> dict[str, Record]:
    for record in records:
        Store(folder).append(record)
    return {record.key: record for record in Store(folder)}


def check_same(before: Record, after: Record) -> None:
    numbers = ("values", "observed", "iterations", "stages", "inputs")
    for field in dataclasses.fields(Record):
        if field.name not in numbers:
            assert getattr(after, field.name) == getattr(before, field.name), field.name
    assert list(after.stages) == list(before.stages)
    size = np.maximum(np.abs(before.values), np.abs(before.observed))
    np.testing.assert_allclose(after.values, before.values, rtol=1.2e-7, atol=1e-37)
    assert (np.abs(np.subtract(after.observed, before.observed)) <= 2.4e-7 * size).all()
    np.testing.assert_allclose(after.iterations, before.iterations, rtol=5e-4)
    np.testing.assert_allclose(list(after.stages.values()), list(before.stages.values()), rtol=1.2e-7)
    np.testing.assert_allclose(after.inputs, before.inputs, rtol=1.2e-7)


def test_every_record_survives_packing(tmp_path: Path, make_record: Make) -> None:
    before = as_in_the_journal(records_of_every_kind(make_record), tmp_path / "journal")
    files = pack(tmp_path / "journal", tmp_path / "packed")
    assert sum(files.values()) == len(before)
    after = {record.key: record for record in Store(tmp_path / "packed")}
    assert after.keys() == before.keys()
    for key, record in before.items():
        check_same(record, after[key])


def test_packing_again_changes_nothing(tmp_path: Path, make_record: Make) -> None:
    write(tmp_path / "a.parquet", records_of_every_kind(make_record))
    write(tmp_path / "b.parquet", read(tmp_path / "a.parquet"))
    assert read(tmp_path / "b.parquet") == read(tmp_path / "a.parquet")


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e6, 1e30, 1e300])
def test_seven_digits_survive_at_any_scale(tmp_path: Path, make_record: Make, scale: float) -> None:
    digits = np.random.default_rng(1).integers(1_000_000, 10_000_000, 110)
    values = [float(f"{d * scale:.7g}") for d in digits]
    write(
        tmp_path / "a.parquet",
        [dataclasses.replace(make_record("levy-10", "ei", 0, 1.0), values=values, observed=values)],
    )
    (back,) = read(tmp_path / "a.parquet")
    assert np.abs(np.array(back.values) / values - 1).max() <= 1.2e-7
    assert back.observed == back.values


def test_files_are_much_smaller_than_the_journal(tmp_path: Path, make_record: Make) -> None:
    rng = np.random.default_rng(0)
    for method in ("dms", "ei", "ucb"):
        for replication in range(5):
            record = make_record("levy-10", method, replication, 0.1)
            iterations = rng.lognormal(size=len(record.iterations)).tolist()
            Store(tmp_path).append(dataclasses.replace(record, iterations=iterations))
    journal = sum(path.stat().st_size for path in tmp_path.glob("*/*.jsonl"))
    (file,) = pack(tmp_path, tmp_path / "packed")
    assert file.stat().st_size < journal / 4


def test_a_suite_has_its_file_and_one_file_can_have_all(tmp_path: Path, make_record: Make) -> None:
    kinds = [("levy-10", "dms"), ("hartmann-6", "ei"), ("levy-10", "dms-paper[K=0]"), ("levy-10", "dms[K=25]")]
    records = [make_record(task, method, 0, 0.1) for task, method in kinds]
    assert [suite_of(r) for r in records] == ["paper", "validation", "ablations", "ingredients"]
    assert suite_of(dataclasses.replace(records[0], task="mine")) == "own"
    assert {suite_of(dataclasses.replace(r, task="bbob-f07-i1-d5")) for r in records} == {"scoreboard"}
    as_in_the_journal(records, tmp_path / "journal")
    assert main(["bench", "pack", str(tmp_path / "journal"), "--out", str(tmp_path / "all.parquet")]) == 0
    assert main(["bench", "pack", str(tmp_path / "journal")]) == 0
    suites = sorted(path.name for path in (tmp_path / "journal").glob("*.parquet"))
    assert suites == ["ablations.parquet", "ingredients.parquet", "paper.parquet", "validation.parquet"]
    assert list(Store(tmp_path / "all.parquet")) == list(Store(tmp_path / "journal"))


def test_the_journal_goes_before_a_packed_record(tmp_path: Path, make_record: Make) -> None:
    record = make_record("levy-10", "ei", 0, 0.5)
    write(
        tmp_path / "paper.parquet", [dataclasses.replace(record, status="failed"), make_record("levy-10", "ei", 1, 0.5)]
    )
    assert [r.status for r in Store(tmp_path)] == ["failed", "complete"]
    Store(tmp_path).append(record)
    assert [(r.replication, r.status) for r in Store(tmp_path)] == [(0, "complete"), (1, "complete")]
    pack(tmp_path, tmp_path)
    assert [r.status for r in read(tmp_path / "paper.parquet")] == ["complete", "complete"]


def test_inputs_are_kept_where_asked_for(tmp_path: Path, make_record: Make) -> None:
    records = [
        dataclasses.replace(r, inputs=[[0.5, 0.25]] * len(r.values))
        for r in (make_record("levy-10", "ei", 0, 0.5), make_record("wine", "ei", 0, 0.5))
    ]
    kept: dict[Any, list[bool]] = {}
    for inputs in ("all", "real", "none"):
        write(tmp_path / "a.parquet", records, inputs)  # type: ignore[arg-type]
        kept[inputs] = [r.inputs == records[0].inputs[: len(r.inputs)] != [] for r in read(tmp_path / "a.parquet")]
    assert kept == {"all": [True, True], "real": [False, True], "none": [False, False]}


def test_the_revision_is_a_column_for_any_reader(tmp_path: Path, make_record: Make) -> None:
    record = make_record("levy-10", "ei", 0, 0.5)
    new = dataclasses.replace(record, replication=1, version="0.2.0+gc9a142f5bb")
    write(tmp_path / "a.parquet", [record, new])
    assert pq.read_table(tmp_path / "a.parquet")["revision"].to_pylist() == ["unknown", "c9a142f5bb"]


def test_any_flipped_bit_is_an_error_or_harmless(tmp_path: Path, make_record: Make) -> None:
    path = tmp_path / "a.parquet"
    write(path, records_of_every_kind(make_record)[::3])
    whole, content = path.read_bytes(), read(path)
    rng, refused = np.random.default_rng(0), 0
    for place, bit in zip(rng.integers(0, len(whole), 150), rng.integers(0, 8, 150), strict=True):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(bit)
        path.write_bytes(damaged)
        try:
            assert read(path) == content, f"bit {bit} of byte {place}"
        except ModeseekError as error:
            refused += 1
            assert str(path) in str(error)  # noqa: PT017
    assert refused > 100, "of most bytes something depends"


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_file_cut_short_is_an_error_that_names_it(tmp_path: Path, make_record: Make, keep: int) -> None:
    path = tmp_path / "paper.parquet"
    write(path, [make_record("levy-10", "ei", 0, 0.5)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DamagedRecords, match=r"paper\.parquet is damaged"):
        list(Store(tmp_path))


def test_parquet_of_something_else_is_an_error(tmp_path: Path) -> None:
    import pyarrow as pa

    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DamagedRecords, match="no records of modeseek"):
        read(tmp_path / "a.parquet")


def test_another_schema_is_said_to_be_one(tmp_path: Path, make_record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modeseek.bench.campaign.pack.SCHEMA", SCHEMA + 1)
    write(tmp_path / "a.parquet", [make_record("levy-10", "ei", 0, 0.5)])
    monkeypatch.undo()
    with pytest.raises(ModeseekError, match=f"schema {SCHEMA + 1}, and this modeseek reads up to {SCHEMA}"):
        read(tmp_path / "a.parquet")


def test_without_pyarrow_the_message_says_what_to_install(
    tmp_path: Path, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.parquet", [make_record("levy-10", "ei", 0, 0.5)])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pyarrow.*bench"):
        list(Store(tmp_path))


def test_nothing_to_pack_and_a_file_in_the_way_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "pack", str(tmp_path)]) == 1
    assert "holds no record" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["bench", "pack", str(tmp_path), "--out", str(tmp_path / "file")]) == 1
    assert ".parquet" in capsys.readouterr().err


@pytest.mark.parametrize("path", PUBLISHED_FILES, ids=lambda path: path.stem)
def test_published_records_are_whole_and_each_is_there_once(path: Path) -> None:
    records = read(path)
    assert len({record.key for record in records}) == len(records)
    assert all(math.isfinite(value) for record in records for value in record.values)


@pytest.mark.skipif(not PUBLISHED_FILES, reason="the package's own results are in the repository")
def test_published_records_take_ten_megabytes_at_most() -> None:
    assert sum(path.stat().st_size for path in PUBLISHED.rglob("*") if path.suffix in (".parquet", ".json")) < 10e6
