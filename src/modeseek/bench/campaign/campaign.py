"""Campaigns: replications of methods on tasks, one by one, over processes, over a Ray cluster, or as a batch."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from modeseek.bench.campaign.batch import run_batches
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.replication import Work, parse_method, run_replication
from modeseek.bench.methods import make_method, side_by_side_names
from modeseek.bench.tasks import find_task
from modeseek.checks import device_of, missing_extra
from modeseek.errors import ConfigError, ModeseekError

Engine = Literal["local", "ray", "batch"]


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
    """
    wanted = plan(tasks, methods, reps, str(device_of(device)))
    stored = list(store)
    _check_configurations(wanted, stored, store)
    known = {record.key: record.status for record in stored if record.status == "complete" or not retry_failed}
    missing = [work for work in wanted if work.key not in known]
    failed = [work for work in wanted if known.get(work.key) == "failed"]
    if failed and progress:
        print(f"{len(failed)} replications failed before; --retry-failed runs them again", file=sys.stderr)
    records = []
    engines: dict[str, Callable[[list[Work], int], Iterator[Record]]] = {
        "local": _run_locally,
        "ray": _run_on_ray,
        "batch": partial(_run_as_batches, folder=store.folder, progress=progress),
    }
    if engine not in engines:
        raise ConfigError(f"engine must be one of {', '.join(engines)}, not {engine!r}")
    with tqdm(total=len(missing), disable=not progress, file=sys.stderr, unit="replication") as bar:
        for record in engines[engine](missing, workers):
            store.append(record)
            records.append(record)
            bar.set_postfix_str(f"{record.task}, {record.method}: {record.status}", refresh=False)
            bar.update()
    return records


def _check_configurations(wanted: list[Work], stored: list[Record], store: Store) -> None:
    ours = {(work.task, work.method): work.config for work in wanted}
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


_DIED = (
    "a worker process died, perhaps for want of memory; what was finished is stored, and the same command, maybe with "
    "fewer --workers, goes on"
)


def _run_locally(missing: list[Work], workers: int) -> Iterator[Record]:
    if workers == 1:
        yield from map(run_replication, missing)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=_end_with_parent) as pool:
        futures = [pool.submit(run_replication, work) for work in missing]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise ModeseekError(_DIED) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Workers of a killed campaign would wait for its next word for ever."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _run_on_ray(missing: list[Work], workers: int) -> Iterator[Record]:
    """Replications as tasks of the Ray cluster that `ray start` made, or of a local one with so many workers."""
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
        pending = [remote.remote(work) for work in missing]
        while pending:
            done, pending = ray.wait(pending)
            yield from ray.get(done)
    except ray.exceptions.WorkerCrashedError as error:
        raise ModeseekError(_DIED) from error
    finally:
        if started:
            ray.shutdown()


def _run_as_batches(missing: list[Work], workers: int, folder: Path, progress: bool) -> Iterator[Record]:
    groups: dict[tuple[object, ...], list[Work]] = {}
    for work in missing:
        if (base := parse_method(work.method)[0]) not in side_by_side_names():
            raise ConfigError(f"engine='batch' runs {', '.join(side_by_side_names())}, not {base!r}")
        groups.setdefault(_tensors_of(work), []).append(work)
    for group in groups.values():
        yield from run_batches(group, folder, progress)


def _tensors_of(work: Work) -> tuple[object, ...]:
    """What replications must have in common to share a batch; of tasks that are computed on tensors, not the task."""
    problem = find_task(work.task)
    same = (problem.d, problem.n_initial, problem.budget) if problem.values is not None else problem.name
    return work.method, work.config, same
