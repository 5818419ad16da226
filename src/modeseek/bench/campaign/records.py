"""Records of replications: packed files that are published, and a journal that campaigns append to.

    results/<suite>.parquet            see `pack.py`
    results/<task>/<method>.jsonl      one line per replication, safe against a kill at any moment

Lines and files say by which schema they are; what is older is read as it would be written today (`as_today`).

A line of the journal is written whole or, if the process dies in the middle, left without its end; readers pass over
such a line and the next writer starts on a new one. Nothing is ever changed in place.
"""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from modeseek.bench.campaign.claims import Claims
from modeseek.config import with_younger_settings
from modeseek.errors import ModeseekWarning

DIGITS = 7  # significant ones of each stored number: enough for regret down to 1e-6 of the optimum, in small files
UNKNOWN = "unknown"
SCHEMA = 4  # of a line of the journal and of a packed file; lines of schema 1 do not say so
DEFAULT = re.compile(r"dms(-fast)?(\[.*\])?$")
EARLIER = {"rho_stalled": "dms-v1", "kernel": "dms-v2"}  # what the default is called today that lacks a setting
BOTORCHS_ONCE = ("ei", "ts", "gibbon", "jes", "pes")  # methods that were BoTorch's in schema 1


class TornRecord(ModeseekWarning):
    """A line of a results file is not a whole record; its replication counts as missing."""


@dataclass(frozen=True)
class Record:
    """One replication of a method on a task, complete or failed."""

    task: str
    method: str
    replication: int
    status: Literal["complete", "failed"]
    version: str  # of modeseek, with the revision where it ran from a checkout
    config: dict[str, Any] | None  # of DMS; None for other methods
    seed: int
    device: str
    batch: int  # replications that shared the seconds below: 1 unless run as a batch
    n_initial: int
    observed: list[float]  # outcomes as the method saw them, larger is better, initial design first
    values: list[float]  # the same without noise
    iterations: list[float]  # seconds of each suggestion
    stages: dict[str, float]  # seconds by stage, over all suggestions
    fit_evaluations: int = 0  # calls of the GP fits' objective, over all suggestions; in a batch each is of all
    error: str | None = None
    inputs: list[list[float]] = field(default_factory=list)  # n x d on the unit cube as evaluated; empty: not known
    fell_back: list[bool] | None = None  # of DMS: whether each iteration did without its diffusion model
    optimum: float | None = None  # that regret is measured against, of a task from a file; the package knows the others

    @property
    def revision(self) -> str:
        """The git revision that it ran from, with `.changed` where files differed; "unknown" where none is named."""
        return self.version.partition("+g")[2] or UNKNOWN

    @property
    def key(self) -> str:
        """What tells this record's replication apart from others: same key, same work."""
        return work_key(self.task, self.method, self.replication, self.config)


def work_key(task: str, method: str, replication: int, config: dict[str, Any] | None) -> str:
    """The identity of a replication: a changed configuration is other work."""
    return json.dumps([task, method, replication, config], sort_keys=True)


def config_of(key: str) -> dict[str, Any] | None:
    """The configuration that a key was made with."""
    config: dict[str, Any] | None = json.loads(key)[3]
    return config


def as_today(data: dict[str, Any], schema: Any) -> dict[str, Any]:
    """The fields of a stored record; ValueError where it is younger than this package."""
    if schema not in range(1, SCHEMA + 1):
        raise ValueError(f"schema {schema!r:.20}")
    method, config = data["method"], data["config"]
    if schema == 1 and method in BOTORCHS_ONCE:
        method = f"{method}-botorch"
    elif schema == 2 and method == "gibbon":
        method = "gibbon-v1"  # ours, which had random candidates alone for f*
    elif config is not None and schema < 4 and (default := DEFAULT.match(method)):
        earlier = next((name for setting, name in EARLIER.items() if setting not in config), None)
        if earlier is None and config["noise_prior"] == "gamma":
            earlier = "dms-v3"
        if earlier is not None:
            earlier += default[1] or ""
            method, config = f"{earlier}{default[2] or ''}", {**config, "name": earlier}
    return {**data, "method": method, "config": None if config is None else with_younger_settings(config)}


def safe_name(name: str) -> str:
    """A name as part of a path: itself, but for what would lead to another folder, which is written as in a URL."""
    return re.sub(r"[/\\%\0]|^\.", lambda match: f"%{ord(match[0]):02X}", name)


class Store:
    """The records under one folder, or of one packed file."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def append(self, record: Record) -> None:
        """Add a record and see it onto the disk."""
        path = self._file(record.task, record.method)
        path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"schema": SCHEMA, **_rounded(asdict(record))}, allow_nan=False).encode() + b"\n"
        with FileLock(f"{path}.lock"), open(path, "ab") as file:
            if file.tell() > 0 and not _ends_with_newline(path):
                line = b"\n" + line  # a writer died in the middle of its line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def claims(self) -> Claims:
        """For a campaign: `with store.claims() as claims`, then `claims.take(key)` before each replication is run."""
        return Claims(self.folder)

    def is_complete(self, task: str, method: str, key: str) -> bool:
        """Whether the journal has a complete record with this key: what another campaign has finished by now."""
        path = self._file(task, method)
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        return any(record.key == key and record.status == "complete" for record in filter(None, map(_parse, lines)))

    def __iter__(self) -> Iterator[Record]:
        """All whole records by task and method, those of equal keys once: the journal's last, else the packed one.

        DamagedRecords where a packed file is not what was written.
        """
        latest = {record.key: record for record in [*self._packed(), *self._journal()]}
        yield from sorted(latest.values(), key=lambda record: (record.task, record.method))

    def _file(self, task: str, method: str) -> Path:
        """Of the journal. Names may be of files, as in folder/my_file.py:method, and make no folders here."""
        return self.folder / safe_name(task) / f"{safe_name(method)}.jsonl"

    def _packed(self) -> Iterator[Record]:
        is_packed = self.folder.suffix == ".parquet" and not self.folder.is_dir()
        files = [self.folder] if is_packed else sorted(self.folder.glob("*.parquet"))
        for path in files:
            from modeseek.bench.campaign import pack  # pyarrow is needed only where there is such a file

            yield from pack.read(path)

    def _journal(self) -> Iterator[Record]:
        for path in sorted(self.folder.glob("*/*.jsonl")):
            for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
                record = _parse(line)
                if record is not None:
                    yield record
                elif line:
                    warnings.warn(f"{path}, line {number}: not a whole record, passed over", TornRecord, stacklevel=3)


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: item if key == "config" else _rounded(item) for key, item in value.items()}
    return value


def _parse(line: bytes) -> Record | None:
    try:
        data = json.loads(line)
        data = as_today(data, data.get("schema", 1))
        names = {f.name for f in fields(Record)}
        record = Record(**{name: item for name, item in data.items() if name in names})
        return record if is_whole(record) else None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return None


def is_whole(record: Any) -> bool:
    """Whether the fields are such as `Record` says, which those of a file need not be; a TypeError also says no."""
    counts = (record.replication, record.seed, record.batch, record.n_initial, record.fit_evaluations)
    coordinates = (u for row in record.inputs for u in row)
    numbers = (*record.observed, *record.values, *record.iterations, *record.stages.values(), *coordinates)
    texts = (record.task, record.method, record.version, record.device)
    return (
        all(isinstance(count, int) for count in counts)
        and all(map(math.isfinite, numbers))
        and all(isinstance(text, str) for text in texts)
        and isinstance(record.config, dict | None)
        and (record.optimum is None or math.isfinite(record.optimum))
        and bool(record.key)  # RecursionError where the configuration is nested too deep for one
        and len(record.observed) == len(record.values)
        and len(record.inputs) in (0, len(record.values))
        and len({len(row) for row in record.inputs}) <= 1
        and (record.fell_back is None or all(isinstance(fell_back, bool) for fell_back in record.fell_back))
        and (record.status == "failed" or (record.status == "complete" and 0 < record.n_initial <= len(record.values)))
    )
