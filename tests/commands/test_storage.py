"""Where studies are kept: storages that cannot be used, that are made by many at once, or that are away for a while."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from optuna.exceptions import StorageInternalError

from modeseek.commands import main
from modeseek.commands.optimize import storage as storages
from modeseek.commands.optimize.storage import open_storage, patiently
from modeseek.errors import StudyError

START_TOGETHER = Path(__file__).with_name("start_together.py")
SPACE = '[x]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "parabola", raising=False)
    Path("space.toml").write_text(SPACE)
    Path("parabola.py").write_text("def f(params):\n    return (params['x'] - 0.3) ** 2\n")
    return tmp_path


def spoil() -> None:
    """Files that are no storages."""
    Path("garbage.db").write_bytes(os.urandom(4096))
    Path("garbage.journal").write_bytes(os.urandom(4096))
    Path("words.journal").write_text("not JSON\nnot at all\n")
    Path("list.journal").write_text("[1, 2]\n[3]\n")
    Path("other.journal").write_text('{"level": "info"}\n{"level": "info"}\n')
    Path("unknown.journal").write_text('{"op_code": 99, "worker_id": "w"}\n')
    Path("deep.journal").write_text("[" * 100_000 + "\n{}\n")
    Path("folder.db").mkdir()
    Path("folder.journal").mkdir()
    os.mkfifo("pipe.db")
    os.mkfifo("pipe.journal")
    storage = optuna.storages.RDBStorage("sqlite:///read-only.db")
    storage.remove_session()
    storage.engine.dispose()


BAD = [
    ("sqlite:////no/such/folder/x.db", "no folder '/no/such/folder'"),
    ("no/such/folder/x.journal", "no folder 'no/such/folder'"),
    ("postgresql+psycopg://me:secret@127.0.0.1:1/x", "Connection refused"),
    ("nosql://host/x", "'nosql'"),
    ("sqlite+nodriver:///x.db", "'sqlite+nodriver'"),
    ("mysql+mysqldb://host/x", "driver is not installed"),
    ("://", "URL"),
    ("sqlite:///garbage.db", "not a database"),
    ("sqlite:///folder.db", "folder"),
    ("sqlite:///pipe.db", "pipe"),
    ("sqlite:///file:read-only.db?mode=ro&uri=true", "readonly"),
    ("garbage.journal", "not an Optuna journal"),
    ("words.journal", "not an Optuna journal"),
    ("list.journal", "not an Optuna journal"),
    ("other.journal", "not an Optuna journal"),
    ("unknown.journal", "not an Optuna journal"),
    ("deep.journal", "not an Optuna journal"),
    ("folder.journal", "folder"),
    ("pipe.journal", "pipe"),
    ("/dev/null/x.journal", "no folder"),
]


@pytest.mark.parametrize(("location", "said"), BAD)
def test_a_storage_that_cannot_be_used_is_one_line(
    location: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 43: neither a traceback nor a wait."""
    spoil()
    assert main(["optimize", "parabola:f", "--space", "space.toml", "--storage", location, "--trials", "1"]) == 1
    complaint = capsys.readouterr().err
    assert said in complaint
    assert "secret" not in complaint
    assert complaint.startswith("modeseek: ")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("location", ["sqlite:///garbage.db", "words.journal", "sqlite:////no/such/folder/x.db"])
def test_show_says_so_too(location: str, capsys: pytest.CaptureFixture[str]) -> None:
    spoil()
    assert main(["optimize", "--show", "--storage", location]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_exit_status_of_the_process_is_1_without_a_traceback() -> None:
    arguments = ["optimize", "parabola:f", "--space", "space.toml", "--storage", "sqlite:////no/such/folder/x.db"]
    done = subprocess.run([sys.executable, "-m", "modeseek", *arguments], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_database_of_another_version_of_optuna_says_how_to_upgrade_it() -> None:
    open_storage("sqlite:///old.db").remove_session()
    engine = sqlalchemy.create_engine("sqlite:///old.db")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE alembic_version SET version_num = 'v2.4.0.a'"))
    engine.dispose()
    with pytest.raises(StudyError, match=r"optuna storage upgrade"):
        open_storage("sqlite:///old.db")


def away() -> StorageInternalError:
    error = StorageInternalError("An exception is raised during the commit.")
    error.__cause__ = sqlalchemy.exc.OperationalError("INSERT", {}, Exception("the connection is lost\nreally"))
    return error


def test_an_outage_is_waited_for_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(storages.time, "sleep", pauses.append)
    errors = [*(away() for _ in range(11)), OSError(28, "No space left on device")]

    def action() -> str:
        if errors:
            raise errors.pop(0)
        return "told"

    assert patiently(action) == "told"
    assert len(pauses) == 12
    assert pauses == sorted(pauses)
    assert 10 * pauses[0] < pauses[-1] == storages.LONGEST_PAUSE
    (said,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert "the connection is lost" in said
    assert "really" not in said


def test_an_outage_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(storages.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(storages.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))

    def action() -> None:
        raise away()

    with pytest.raises(StorageInternalError):
        patiently(action)
    assert storages.OUTAGE_PATIENCE / 2 < now[0] <= storages.OUTAGE_PATIENCE


def test_ctrl_c_ends_the_waiting_and_mistakes_are_not_repeated() -> None:
    attempts = []

    def action() -> None:
        attempts.append(1)
        raise away()

    def check() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        patiently(action, check)
    for mistake in (
        KeyError("trial"),
        FileNotFoundError(2, "No such file", "libcuda.so"),
        sqlalchemy.exc.ProgrammingError("SELEC", {}, Exception("syntax error")),
    ):

        def wrong(mistake: Exception = mistake) -> None:
            attempts.append(1)
            raise mistake

        with pytest.raises(type(mistake)):
            patiently(wrong)
    assert len(attempts) == 4


@pytest.mark.parametrize("location", ["sqlite:///new.db", "new.journal"])
def test_many_that_start_together_make_one_study(location: str) -> None:
    """Fault 36: real processes, held back until all are there."""
    done = subprocess.run([sys.executable, START_TOGETHER, location, "6"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    study = optuna.load_study(study_name="shared", storage=open_storage(location))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 6
    assert len({trial.params["x"] for trial in study.trials}) == 6
    assert {trial.user_attrs["seed"] for trial in study.trials} == {study.user_attrs["seed"]}
