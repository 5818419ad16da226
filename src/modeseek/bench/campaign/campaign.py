"""Campaigns: replications of methods on tasks, one by one, over processes, over a Ray cluster, or as a batch."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from modeseek.bench.campaign.batch import run_batches
from modeseek.bench.campaign.claims import Claims
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.replication import Course, Work, parse_method, record_of, run_replication
from modeseek.bench.methods import make_method, side_by_side_names
from modeseek.bench.tasks import find_task
from modeseek.checks import device_of, missing_extra
from modeseek.domain import is_continuous
from modeseek.errors import ConfigError, ModeseekError
from modeseek.execution.interrupts import Interrupts
from modeseek.execution.pool import Death, Pool, no_setup
from modeseek.execution.progress import progress_bar

Engine = Literal["local", "ray", "batch"]
Records: TypeAlias = Generator[Record, None, None]

_log = logging.getLogger(__name__)


def plan(tasks: Sequence[str], methods: Sequence[str], reps: int | None, device: str) -> list[Work]:
    """All replications asked for; `reps` None is the paper's number for each task."""
    for task in tasks:
        find_task(task).check_installed()
    for method in methods:
        make_method(parse_method(method)[0], find_task(tasks[0]).space, seed=0)  # says what is not installed
    return [
        Work(task, method, replication, device)
        for task in tasks
        for method in methods
        for replication in range(find_task(task).replications if reps is None else reps)
    ]


def run_campaign(
    tasks: Sequence[str],
    methods: Sequence[str],
    store: Store,
    *,
    reps: int | None = None,
    engine: Engine = "local",
    workers: int = 1,
    device: str = "cpu",
    retry_failed: bool = False,
    progress: bool = True,
) -> list[Record]:
    """Run what is missing from the store and return its records, in the order they were made.

    A replication counts as there when its record is stored, a failed one too unless `retry_failed`. ConfigError when
    records of the same task and method are there that ran under another DMS configuration: they are never mixed.
    Several campaigns may share a store: each runs what no other has taken. Ctrl-C ends the workers at once; whatever is
    finished by then is stored.
    """
    if engine not in get_args(Engine):
        raise ConfigError(f"engine must be one of {', '.join(get_args(Engine))}, not {engine!r}")
    wanted = plan(tasks, methods, reps, str(device_of(device)))
    stored = list(store)
    _check_configurations(wanted, stored, store)
    known = {record.key: record.status for record in stored if record.status == "complete" or not retry_failed}
    missing = [work for work in wanted if work.key not in known]
    failed = [work for work in wanted if known.get(work.key) == "failed"]
    if failed and progress:
        print(f"{len(failed)} replications failed before; --retry-failed runs them again", file=sys.stderr)
    if len(missing) < len(wanted):
        _log.info("%d of %d replications are stored already", len(wanted) - len(missing), len(wanted))
    if not missing:
        return []
    with store.claims() as claims, Interrupts() as interrupts:
        taken = _Taken(missing, claims, store)
        engine_of = {
            "local": lambda: _run_locally(taken, workers, interrupts),
            "ray": lambda: _interruptible(_run_on_ray(taken, workers), interrupts),
            "batch": lambda: _interruptible(_run_as_batches(taken, store.folder, progress), interrupts),
        }
        records = []
        with closing(engine_of[engine]()) as results, progress_bar(len(missing), show=progress, unit="rep") as bar:
            for record in results:
                store.append(record)
                records.append(record)
                bar.set_postfix_str(f"{record.task}, {record.method}: {record.status}", refresh=False)
                bar.update()
        if taken.by_others and progress:
            others = ", ".join(other.process for other in claims.others()) or "which has ended since"
            print(f"{taken.by_others} replications were left to another campaign ({others})", file=sys.stderr)
    return records


class _Taken(Iterator[Work]):
    """The missing replications that no other campaign has taken, or finished since; each is taken when it is needed."""

    def __init__(self, missing: list[Work], claims: Claims, store: Store) -> None:
        self._missing, self._claims, self._store = iter(missing), claims, store
        self.by_others = 0

    def __next__(self) -> Work:
        for work in self._missing:
            is_ours = self._claims.take(work.key)
            if is_ours and not self._store.is_complete(work.task_name, work.method_name, work.key):
                return work
            _log.debug("%s is run, or was, by another campaign", work)
            self.by_others += 1
        raise StopIteration


def _check_configurations(wanted: list[Work], stored: list[Record], store: Store) -> None:
    ours = {(work.task_name, work.method_name): work.config for work in wanted}
    for record in stored:
        config = ours.get((record.task, record.method))
        if config is None or record.config == dataclasses.asdict(config):
            continue
        changed = [
            name for name, value in dataclasses.asdict(config).items() if (record.config or {}).get(name) != value
        ]
        raise ConfigError(
            f"{store.folder.resolve()} has records of {record.method} on {record.task} under another configuration "
            f"({', '.join(changed) or 'other settings'} differ); choose another --out, or move them away"
        )


def _run_locally(works: Iterator[Work], workers: int, interrupts: Interrupts) -> Records:
    if workers == 1:
        yield from _interruptible(map(_run_here, works), interrupts)
        return
    with Pool[Work, Record](
        no_setup(run_replication), workers, what="the replication", allowed=interrupts.allowed
    ) as pool:
        try:
            while True:
                for work in islice(works, workers - len(pool)):
                    pool.submit(work, work)
                if not len(pool):
                    return
                yield from _records(pool.wait())
        except KeyboardInterrupt:
            yield from _records(pool.finished())
            raise


def _interruptible(records: Iterator[Record], interrupts: Interrupts) -> Records:
    """The same records; Ctrl-C is let through while the next one is computed."""
    while True:
        with interrupts.allowed():
            record = next(records, None)
        if record is None:
            return
        yield record


def _run_here(work: Work) -> Record:
    try:
        return run_replication(work)
    except SystemExit as error:
        return _failed(work, f"SystemExit: {error}")


def _records(over: Iterable[tuple[Work, Record | Death]]) -> Iterator[Record]:
    for work, answer in over:
        yield _failed(work, f"{answer}; fewer --workers need less memory") if isinstance(answer, Death) else answer


def _failed(work: Work, error: str) -> Record:
    return record_of(work, 1, np.empty((0, find_task(work.task).d)), [], [], Course(), None, error)


def _run_on_ray(works: Iterable[Work], workers: int) -> Iterator[Record]:
    """Replications as tasks of the Ray cluster that `ray start` made, or of a local one with this many workers."""
    try:
        import ray
    except ImportError as error:
        raise missing_extra('engine="ray" needs Ray', "ray") from error
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address="auto", log_to_driver=False)
        except ConnectionError:
            ray.init(num_cpus=workers, log_to_driver=False, include_dashboard=False)
    try:
        remote: Any = ray.remote(max_retries=3)(run_replication)
        pending = [remote.remote(work) for work in works]
        while pending:
            done, pending = ray.wait(pending)
            yield from ray.get(done)
    except ray.exceptions.WorkerCrashedError as error:
        raise ModeseekError(
            "a worker of Ray died, possibly out of memory; what was finished is stored, and the same command, maybe "
            "with fewer --workers, goes on"
        ) from error
    finally:
        if started:
            ray.shutdown()


def _run_as_batches(works: Iterable[Work], folder: Path, progress: bool) -> Iterator[Record]:
    groups: dict[tuple[object, ...], list[Work]] = {}
    for work in works:
        if (base := parse_method(work.method)[0]) not in side_by_side_names():
            raise ConfigError(f"engine='batch' runs {', '.join(side_by_side_names())}, not {base!r}")
        groups.setdefault(_tensors_of(work), []).append(work)
    for group in groups.values():
        yield from run_batches(group, folder, progress)


def _tensors_of(work: Work) -> tuple[object, ...]:
    """What replications must have in common to share a batch; of tasks that are computed on tensors, not the task."""
    problem = find_task(work.task)
    if problem.values is None:
        return work.method, work.config, problem.name
    rounded = None if all(is_continuous(problem.space)) else problem.space  # one rounds for all
    return work.method, work.config, problem.d, problem.n_initial, problem.budget, problem.q, rounded
