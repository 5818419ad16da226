"""Two campaigns on one folder: no replication is run twice (fault 38)."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from modeseek.bench.campaign.claims import Claims
from modeseek.bench.campaign.records import Record, Store

KEYS = [f"levy-10, dms, {replication}" for replication in range(20)]


def test_what_one_has_taken_the_other_does_not_get_until_it_ends(tmp_path: Path) -> None:
    with Claims(tmp_path) as first, Claims(tmp_path) as second:
        assert first.take("a")
        assert first.take("a"), "ours already"
        assert not second.take("a")
        assert second.take("b")
        assert not first.take("b")
        (holder,) = second.others()
        assert holder.keys == {"a"}
        assert str(os.getpid()) in holder.process
    with Claims(tmp_path) as third:
        assert third.others() == []
        assert third.take("a")
        assert third.take("b")


def test_nothing_is_left_of_campaigns_that_are_over(tmp_path: Path) -> None:
    with Claims(tmp_path) as claims:
        claims.take("a")
    assert [path.name for path in (tmp_path / ".claims").iterdir()] == ["all.lock"]


def test_other_folders_are_other_work(tmp_path: Path) -> None:
    with Claims(tmp_path / "a") as first, Claims(tmp_path / "b") as second:
        assert first.take("key")
        assert second.take("key")


def _take(folder: Path, pipe: Connection) -> None:
    """Take what is asked for, for ever."""
    with Claims(folder) as claims:
        while True:
            pipe.send(claims.take(pipe.recv()))


def test_a_killed_campaign_has_nothing_any_more(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    pipe, theirs = spawn.Pipe()
    process = spawn.Process(target=_take, args=(tmp_path, theirs))
    process.start()
    pipe.send("a")
    assert pipe.recv()
    with Claims(tmp_path) as claims:
        assert not claims.take("a")
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert claims.take("a")
        assert claims.others() == []
    assert [path.name for path in (tmp_path / ".claims").iterdir()] == ["all.lock"]


def test_of_campaigns_that_race_each_replication_has_one(tmp_path: Path) -> None:
    ready, done = threading.Barrier(4), threading.Barrier(4)

    def take_all(_: int) -> list[str]:
        with Claims(tmp_path) as claims:
            ready.wait()
            taken = [key for key in KEYS if claims.take(key)]
            done.wait()
            return taken

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(take_all, range(4)))
    assert sorted(key for keys in taken for key in keys) == sorted(KEYS)


def test_what_another_campaign_has_finished_is_seen(
    tmp_path: Path, make_record: Callable[[str, str, int, float], Record]
) -> None:
    store = Store(tmp_path)
    record = make_record("levy-10", "ei", 0, 0.5)
    assert not store.is_complete(record.task, record.method, record.key)
    store.append(dataclasses.replace(record, status="failed"))
    assert not store.is_complete(record.task, record.method, record.key)
    store.append(record)
    assert store.is_complete(record.task, record.method, record.key)
    assert not store.is_complete(record.task, record.method, make_record("levy-10", "ei", 1, 0.5).key)


def test_a_store_has_claims_on_its_folder(tmp_path: Path) -> None:
    with Store(tmp_path).claims() as first, Store(tmp_path).claims() as second:
        assert first.take("a")
        assert not second.take("a")
    assert list(Store(tmp_path)) == []
