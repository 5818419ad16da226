"""The store of records: append-only, whole lines, safe against a kill."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from modeseek.bench.campaign.records import SCHEMA, Record, Store, TornRecord, as_today
from modeseek.bench.campaign.replication import Work
from modeseek.config import DMSConfig, with_younger_settings
from shared import until


def record(replication: int = 0, **changes: object) -> Record:
    base = Record(
        task="levy-10",
        method="dms",
        replication=replication,
        status="complete",
        version="0.1.0",
        config=with_younger_settings({"m": 5, "rho": 0.1 + 0.2}),
        seed=3,
        device="cpu",
        batch=1,
        n_initial=2,
        observed=[1.0, 1 / 3],
        values=[1.0, 0.3],
        iterations=[0.5],
        stages={"fit": 0.5},
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_what_is_appended_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    for replication in range(3):
        store.append(record(replication))
    store.append(record(0, task="ackley-8"))
    back = list(store)
    assert [(r.task, r.replication) for r in back] == [("ackley-8", 0), ("levy-10", 0), ("levy-10", 1), ("levy-10", 2)]
    assert back[1].config == record().config, "a configuration is kept to the last bit: it is part of the key"
    assert back[1].observed == pytest.approx(record().observed, rel=1e-6)
    assert back[1].key == record(0).key


def test_a_record_from_before_a_setting_is_the_same_work_as_today(tmp_path: Path) -> None:
    work = Work("styblinski-tang-2", "dms-paper", 0)
    store = Store(tmp_path)
    store.append(record(0, task=work.task, method=work.method, config=dataclasses.asdict(work.config)))  # type: ignore[arg-type]
    (path,) = tmp_path.glob("*/*.jsonl")
    line = json.loads(path.read_text())
    assert line.pop("schema") == SCHEMA
    for name in ("predict", "network_inputs", "round_inputs", "skip_collapsed", "after_fall_back"):
        del line["config"][name]
    path.write_text(json.dumps(line) + "\n")
    assert [r.key for r in store] == [work.key]
    path.write_text(json.dumps({**line, "schema": 99}) + "\n")
    with pytest.warns(TornRecord):
        assert list(store) == []


@pytest.mark.parametrize(
    ("lacks", "method", "today"),
    [
        (["kernel"], "dms", "dms-v2"),
        (["kernel", "rho_stalled"], "dms", "dms-v1"),
        (["kernel", "rho_stalled"], "dms-fast[K=2]", "dms-v1-fast[K=2]"),
        (["kernel"], "dms-paper", "dms-paper"),
        ([], "dms", "dms-v3"),
        ([], "dms-fast", "dms-v3-fast"),
        ([], "dms[K=2]", "dms-v3[K=2]"),
        ([], "dms-paper", "dms-paper"),
    ],
)
def test_records_of_an_earlier_default_are_named_so(lacks: list[str], method: str, today: str) -> None:
    config = {name: value for name, value in vars(DMSConfig(noise_prior="gamma")).items() if name not in lacks}
    read = as_today({"method": method, "config": config}, 3)
    assert read["method"] == today
    assert (read["config"]["name"] == today.partition("[")[0]) == (today != "dms-paper")
    assert set(read["config"]) == set(vars(DMSConfig()))


def test_records_of_today_keep_their_names_whatever_their_settings() -> None:
    for method, config in (("dms", DMSConfig()), ("dms[noise_prior=gamma]", DMSConfig(noise_prior="gamma"))):
        assert as_today({"method": method, "config": vars(config)}, SCHEMA)["method"] == method


def test_what_was_botorchs_in_older_records_is_named_so(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for method in ("ei", "ucb", "pes-botorch"):
        store.append(record(method=method, config=None))
    assert {r.method for r in store} == {"ei", "ucb", "pes-botorch"}
    for path in tmp_path.glob("*/*.jsonl"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 1}) + "\n")
    assert {r.method for r in store} == {"ei-botorch", "ucb", "pes-botorch"}


@pytest.mark.parametrize(("schema", "today"), [(1, "gibbon-botorch"), (2, "gibbon-v1"), (3, "gibbon")])
def test_an_earlier_gibbon_is_named_so(schema: int, today: str) -> None:
    assert as_today({"method": "gibbon", "config": None}, schema)["method"] == today
    assert as_today({"method": "gibbon-botorch", "config": None}, schema)["method"] == "gibbon-botorch"


def test_the_last_of_equal_keys_counts_and_another_configuration_is_other_work(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(record(0, status="failed", error="Traceback"))
    store.append(record(0))
    store.append(record(0, config={"m": 6}))
    assert [r.status for r in store] == ["complete", "complete"]


@pytest.mark.parametrize("litter", [b'{"task": "levy-10", "meth', b"\x00\xff", b"[]", b'{"task": 1}', b"nonsense\n"])
def test_a_line_cut_short_is_passed_over_and_the_next_record_is_whole(tmp_path: Path, litter: bytes) -> None:
    store = Store(tmp_path)
    store.append(record(0))
    with open(tmp_path / "levy-10" / "dms.jsonl", "ab") as file:
        file.write(litter)
    with pytest.warns(TornRecord, match=r"dms.jsonl, line 2"):
        assert [r.replication for r in store] == [0]
    store.append(record(1))
    with pytest.warns(TornRecord):
        assert [r.replication for r in store] == [0, 1]


@pytest.mark.parametrize(
    "field",
    [
        {"values": None},
        {"values": []},
        {"values": [1.0, "a"]},
        {"values": [1.0, float("nan")]},
        {"values": [1.0, 10**400]},
        {"observed": 1.0},
        {"iterations": [None]},
        {"stages": []},
        {"n_initial": None},
        {"batch": "1"},
        {"status": "done"},
        {"task": None},
        {"config": 3},
        {"observed": [1.0]},
        {"inputs": [[0.5]]},
        {"inputs": [[0.5], [0.5, 0.5]]},
        {"inputs": [[0.5], [None]]},
        {"inputs": [0.5, 0.5]},
        {"fell_back": [0.5]},
    ],
    ids=lambda field: next(iter(field)),
)
def test_a_record_with_a_field_of_another_type_is_passed_over(tmp_path: Path, field: dict[str, object]) -> None:
    store = Store(tmp_path)
    store.append(record(0))
    with open(tmp_path / "levy-10" / "dms.jsonl", "a") as file:
        file.write(json.dumps(dataclasses.asdict(record(1)) | field) + "\n")
    with pytest.warns(TornRecord, match=r"dms.jsonl, line 2"):
        assert [r.replication for r in store] == [0]


@pytest.mark.parametrize("name", ["a/b.py:f", "../b", "..", "/etc/x", "a\\b", ".hidden", "50 %2F", "x" * 100])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / "results")
    store.append(record(0, task=name))
    store.append(record(1, method=name))
    assert {(r.task, r.method) for r in store} == {(name, "dms"), ("levy-10", name)}
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert store.is_complete("levy-10", name, record(1, method=name).key)


def test_inputs_and_fall_backs_come_back_and_older_lines_have_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(record(0, inputs=[[0.125, 2 / 3], [0.0, 1.0]], fell_back=[True]))
    old = {k: v for k, v in dataclasses.asdict(record(1)).items() if k not in ("inputs", "fell_back")}
    with open(tmp_path / "levy-10" / "dms.jsonl", "a") as file:
        file.write(json.dumps(old) + "\n")
    new, before = store
    assert new.inputs == [[0.125, 0.6666667], [0.0, 1.0]]
    assert new.fell_back == [True]
    assert before.inputs == []
    assert before.fell_back is None


@pytest.mark.parametrize("depth", [20_000, 200_000])
@pytest.mark.parametrize("field", ["config", "values", "other"])
def test_a_line_nested_too_deep_is_passed_over(tmp_path: Path, field: str, depth: int) -> None:
    store = Store(tmp_path)
    store.append(record(0))
    nested = '{"a":' * depth + "0" + "}" * depth
    line = json.dumps(dataclasses.asdict(record(1)) | {field: "HERE"}).replace('"HERE"', nested)
    with open(tmp_path / "levy-10" / "dms.jsonl", "a") as file:
        file.write(line + "\n")
    with pytest.warns(TornRecord, match=r"dms.jsonl, line 2"):
        assert [r.replication for r in store] == [0]


@pytest.mark.parametrize(
    ("version", "revision"),
    [("0.1.0", "unknown"), ("0.1.0+gc9a142f5bb", "c9a142f5bb"), ("0.1.0+g98fb5ee440.changed", "98fb5ee440.changed")],
)
def test_a_revision_is_what_the_version_names(version: str, revision: str) -> None:
    assert record(version=version).revision == revision


def _append_for_ever(folder: str, first: int) -> None:
    store = Store(folder)
    while True:
        store.append(record(first, observed=[0.123456] * 3000, values=[0.123456] * 3000))
        first += 2


@pytest.mark.filterwarnings("ignore::modeseek.bench.campaign.records.TornRecord")
def test_two_writers_and_a_kill_lose_nothing_that_was_appended(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_append_for_ever, args=(str(tmp_path), first)) for first in (0, 1)]
    for writer in writers:
        writer.start()
    until(lambda: len(list(Store(tmp_path))) >= 20)
    before = {r.key for r in Store(tmp_path)}
    for writer in writers:
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    store = Store(tmp_path)
    after = list(store)
    assert before <= {r.key for r in after}
    assert len(after) >= 20
    assert all(len(r.observed) == 3000 for r in after)
    store.append(record(10**6))
    assert {r.key for r in store} == {r.key for r in after} | {record(10**6).key}
