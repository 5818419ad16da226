"""Several campaigns on one folder: each takes the replications that no other living one has.

    with Claims(store.folder) as claims:
        if claims.take(work.key): ...

A campaign holds a lock for as long as it lives, `results/.claims/<name>.lock`, which the system releases when its
process ends in whatever way, and lists what it has taken beside it. Lists are read and changed under one more lock.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from uuid import uuid4

from filelock import FileLock, Timeout


class Holder(NamedTuple):
    """Another campaign that is running now, and the keys of the replications that it has taken."""

    process: str
    keys: frozenset[str]


class Claims:
    """What this campaign has taken of the replications under a folder; a context manager, at whose end all are free."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder) / ".claims"
        self._list = self._folder / f"{uuid4().hex}.list"
        self._alive = FileLock(self._list.with_suffix(".lock"))
        self._keys: set[str] = set()

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._all():
            self._alive.acquire()
            self._write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._all():
            self._keys.clear()
            _remove(self._list, self._alive)

    def take(self, key: str) -> bool:
        """Whether the replication is ours now, or was before; not so while another campaign has it.

        Another one may have finished it before ours began: look into the store after taking, not before.
        """
        with self._all():
            if any(key in other.keys for other in self._others()):
                return False
            self._keys.add(key)
            self._write()
            return True

    def others(self) -> list[Holder]:
        """The other campaigns that are running on this folder."""
        with self._all():
            return list(self._others())

    def _all(self) -> FileLock:
        return FileLock(self._folder / "all.lock")

    def _others(self) -> Iterator[Holder]:
        for file in sorted(self._folder.glob("*.list")):
            if file == self._list:
                continue
            lock = FileLock(file.with_suffix(".lock"))
            try:
                lock.acquire(timeout=0)
            except Timeout:
                process, *keys = json.loads(file.read_text())
                yield Holder(process, frozenset(keys))
            else:
                _remove(file, lock)  # it was killed

    def _write(self) -> None:
        """In one step: a kill in the middle leaves the list as it was."""
        scratch = self._list.with_suffix(".part")
        scratch.write_text(json.dumps([f"process {os.getpid()} on {platform.node()}", *sorted(self._keys)]))
        os.replace(scratch, self._list)


def _remove(file: Path, lock: FileLock) -> None:
    """What a campaign that is over has left, given its lock; nobody else looks meanwhile."""
    file.unlink(missing_ok=True)
    file.with_suffix(".part").unlink(missing_ok=True)
    lock.release()
    Path(lock.lock_file).unlink(missing_ok=True)
