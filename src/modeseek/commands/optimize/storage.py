"""Where a study is kept: opening it, what is said when that fails, and patience while a database is away."""

from __future__ import annotations

import errno
import logging
import os
import random
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from optuna.exceptions import ExperimentalWarning, OptunaError, StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from modeseek.errors import StudyError
from modeseek.storage import regular_file

JOURNALS = ".log", ".journal"
SQLITE_PATIENCE = 60.0  # seconds that a process waits while others write; the driver's 5 are few for many workers
CREATION_PATIENCE = 60.0  # seconds in which several processes that start together make the tables of a new database
OUTAGE_PATIENCE = 600.0  # seconds that an evaluated trial waits for its database; a restart takes less
LONGEST_PAUSE = 2.0  # seconds between two attempts, and until Ctrl-C is noticed
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT}  # which may pass
HEARTBEAT, STALE = 30, 150  # seconds between signs of life, and without one until a trial is given up

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


def open_storage(location: str, *, existing: bool = False) -> BaseStorage:
    """The storage of an Optuna URL, or of a journal file, known by its name's end; `existing` makes no new file."""
    if "://" in location:
        return _open_database(location, existing)
    if not location.endswith(JOURNALS):
        ends = ", ".join(JOURNALS)
        raise StudyError(f"storage {location!r} is neither a URL, as in sqlite:///{location}, nor a journal ({ends})")
    _check_file(location, location, existing)
    try:
        return JournalStorage(JournalFileBackend(location))
    except OSError:
        raise
    except Exception as error:  # lines that are not JSON, not an operation, nested too deep, ...
        raise StudyError(f"{location} is not an Optuna journal, or is damaged: {type(error).__name__}") from error


def _open_database(location: str, existing: bool) -> RDBStorage:
    options: dict[str, Any] = {"pool_pre_ping": True}  # a database that was restarted closes all connections
    with storage_errors(location):
        url = make_url(location)
        if url.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": SQLITE_PATIENCE}
            if url.database not in (None, "", ":memory:") and not str(url.database).startswith("file:"):
                _check_file(location, str(url.database), existing)
        return _connect(location, options)


def _connect(location: str, options: dict[str, Any]) -> RDBStorage:
    """The database, with Optuna's tables: processes that start together get in each other's way when they make them."""
    until, pause = time.monotonic() + CREATION_PATIENCE, 0.05
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)  # which heartbeats have been since Optuna 2.9
                return RDBStorage(location, options, heartbeat_interval=HEARTBEAT, grace_period=STALE)
        except NoSuchModuleError as error:
            kind = location.partition("://")[0]
            raise StudyError(f"storage {_shown(location)!r}: {kind!r} is not a known kind of database") from error
        except (SQLAlchemyError, OptunaError, AssertionError) as error:
            if not _is_being_made(error) or time.monotonic() > until:
                raise
        except ImportError as error:
            cause = error.__cause__ or error
            raise StudyError(f"storage {_shown(location)!r}: its database driver is not installed: {cause}") from error
        except RuntimeError as error:  # of another version of Optuna; the message has the command that upgrades it
            raise StudyError(f"storage {_shown(location)!r}: {error}") from error
        time.sleep(pause * random.uniform(0.5, 1.5))  # so that they do not all come back at once
        pause = min(2 * pause, 1.0)


def _check_file(location: str, path: str, existing: bool) -> None:
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise StudyError(f"storage {location!r}: there is no folder {folder!r}; create it first")
    try:
        known = regular_file(path)
    except OSError as error:
        raise StudyError(f"storage {location!r} cannot be used: {error}") from error
    if known is None and existing:
        raise StudyError(f"there is no study at {location}: the file does not exist")


@contextmanager
def storage_errors(location: str) -> Iterator[None]:
    """StudyError, in one line, for whatever a database, its driver or Optuna raises."""
    try:
        yield
    except (SQLAlchemyError, OptunaError) as error:  # no ModeseekError is one of these
        raise StudyError(f"storage {_shown(location)!r} cannot be used: {_reason(error)}") from error


def patiently(action: Callable[[], Result], check: Callable[[], None] = lambda: None) -> Result:
    """Do it; while the database is away, try again with growing pauses.

    Args:
        action: what may be done twice: the answer to a first attempt may have been lost.
        check: called between attempts; it may raise, as after Ctrl-C.
    """
    until, pause, level = time.monotonic() + OUTAGE_PATIENCE, 0.1, logging.WARNING
    while True:
        try:
            return action()
        except (SQLAlchemyError, StorageInternalError, OSError) as error:
            if not _is_away(error) or time.monotonic() + pause > until:
                raise
            _log.log(level, "no answer from the storage (%s); trying again for %g s", _reason(error), OUTAGE_PATIENCE)
        check()
        time.sleep(pause)
        pause, level = min(2 * pause, LONGEST_PAUSE), logging.DEBUG


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_away(error: Exception) -> bool:
    """Whether it is the connection, or the disk, and not what was asked."""
    if isinstance(error, OSError):
        return error.errno in DISK_ERRORS
    return any(
        isinstance(cause, OperationalError | InterfaceError) or getattr(cause, "connection_invalidated", False)
        for cause in _causes(error)
    )


def _is_being_made(error: Exception) -> bool:
    """Whether another process was making the same tables just then."""
    signs = "already exists", "locked", "deadlock", "concurrently"
    return any(
        isinstance(cause, IntegrityError | AssertionError) or any(sign in str(cause).lower() for sign in signs)
        for cause in _causes(error)
    )


def _reason(error: BaseException) -> str:
    """The first line of the first cause."""
    cause = list(_causes(error))[-1]
    text = str(getattr(cause, "orig", None) or cause).strip()
    return text.splitlines()[0] if text else type(cause).__name__


def _shown(location: str) -> str:
    try:
        return make_url(location).render_as_string(hide_password=True)
    except ArgumentError:
        return location
