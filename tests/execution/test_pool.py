"""Worker processes: answers, deaths, and that nothing is left behind."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from modeseek.errors import ConfigError, WorkerError
from modeseek.execution.pool import Death, Pool, no_setup
from shared import is_alive, until


def work(job: tuple[str, Any]) -> Any:
    """What the workers of these tests can be told to do."""
    what, argument = job
    if what == "pid":
        return os.getpid()
    if what == "exit":
        os._exit(argument)
    if what == "raise":
        raise argument
    if what == "orphan":  # it has the worker's end of the pipe, too
        orphan = os.fork()
        if orphan == 0:
            signal.pause()
        argument.write_text(str(orphan))
        os._exit(5)
    if what == "touch and wait":
        argument.touch()
        time.sleep(600)
    return argument


def collect(pool: Pool[str, Any]) -> dict[str, Any]:
    over: dict[str, Any] = {}
    while len(pool):
        over |= dict(pool.wait())
    return over


def test_answers_come_with_their_keys_and_a_death_costs_one_job(caplog: pytest.LogCaptureFixture) -> None:
    with Pool[str, Any](no_setup(work), 2) as pool:
        for number in range(4):
            pool.submit(f"echo {number}", ("echo", number))
        pool.submit("death", ("exit", 3))
        pool.submit("pid", ("pid", None))
        assert len(pool) == 6
        over = collect(pool)
        pids = list(pool.pids)
    assert [over[f"echo {number}"] for number in range(4)] == list(range(4))
    death = over["death"]
    assert isinstance(death, Death)
    assert (death.exitcode, death.attempts) == (3, 2)
    assert str(death) == "the worker process ended with exit code 3, in each of 2 attempts"
    assert over["pid"] in pids
    assert death.pid in pids
    assert len(pids) <= 4, "two, and one for each that died"
    assert not any(map(is_alive, pids))
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 2
    assert said[0].endswith("its job is tried again")


def test_a_death_is_seen_though_a_child_of_the_worker_holds_the_pipe(tmp_path: Path) -> None:
    with Pool[str, Any](no_setup(work), 1, retries=0) as pool:
        pool.submit("orphan", ("orphan", tmp_path / "pid"))
        ((_, death),) = pool.wait()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert str(death) == "the worker process ended with exit code 5"


class Unpicklable(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_unpicklable(_: Any) -> None:
    raise Unpicklable(1, 2)


def test_what_a_job_raises_is_raised_here_once_the_answers_are_given(tmp_path: Path) -> None:
    with Pool[str, Any](no_setup(work), 1) as pool:
        pool.submit("fine", ("echo", 1))
        pool.submit("error", ("raise", LookupError("not there")))
        assert pool.wait() == [("fine", 1)]
        with pytest.raises(LookupError, match="not there") as raised:
            pool.wait()
    assert "in a worker process" in raised.value.__notes__[0]
    assert "line" in raised.value.__notes__[0]
    with Pool[str, Any](no_setup(raise_unpicklable), 1) as pool:
        pool.submit("error", None)
        with pytest.raises(RuntimeError, match="1 and 2"):
            pool.wait()


@contextmanager
def start(folder: Path, how: str) -> Iterator[Any]:
    if how == "raise":
        raise ValueError("no GPU here")
    if how == "exit":
        os._exit(9)
    (folder / f"begun-{os.getpid()}").touch()
    try:
        yield work
    finally:
        (folder / f"ended-{os.getpid()}").touch()


@pytest.mark.parametrize(
    ("how", "said"), [("raise", "no GPU here"), ("exit", "cannot start, they end with exit code 9")]
)
def test_processes_that_cannot_start_are_an_error(tmp_path: Path, how: str, said: str) -> None:
    with Pool[str, Any](partial(start, tmp_path, how), 1) as pool:
        pool.submit("echo", ("echo", 1))
        with pytest.raises(WorkerError, match=said):
            pool.wait()


def test_leaving_by_an_error_ends_the_busy_and_the_idle_at_once(tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    pool = Pool[str, Any](partial(start, tmp_path, "well"), 2)
    with suppress(KeyboardInterrupt), pool:
        pool.submit("long", ("touch and wait", busy))
        pool.submit("short", ("echo", 1))
        assert pool.wait() == [("short", 1)]
        until(busy.exists)
        began = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - began < 5
    assert len(pool.pids) == 2
    assert not any(map(is_alive, pool.pids))


def test_workers_clean_up_when_the_work_is_done_and_one_killed_while_idle_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Pool[str, Any](partial(start, tmp_path, "well"), 1) as pool:
        pool.submit("pid", ("pid", None))
        ((_, first),) = pool.wait()
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # all of its threads are gone, and nobody was told yet
        pool.submit("pid", ("pid", None))
        ((_, second),) = pool.wait()
        assert pool.pids == [first, second]
        (said,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
        assert "tried again" not in said, "no job was lost"
    assert (tmp_path / f"ended-{second}").exists()
    assert not (tmp_path / f"ended-{first}").exists()


def test_a_job_that_cannot_go_there_is_said_at_once() -> None:
    with Pool[str, Any](no_setup(work), 1, what="the job") as pool:
        with pytest.raises(ConfigError, match="the job cannot go"):
            pool.submit("lock", ("echo", threading.Lock()))
        assert pool.pids == []
