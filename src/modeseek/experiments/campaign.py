"""Campaigns: replications of methods on tasks, one after the other, over processes, over a Ray cluster, or as a batch.

Every method sees the same initial design and the same noise at the same replication of a task: both are drawn from the
task's name, the replication and the number of the evaluation, and from nothing else.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm

import modeseek
from modeseek import baselines, problems
from modeseek.baselines import History
from modeseek.dms import DMSConfig
from modeseek.errors import ConfigError, ModeseekError
from modeseek.experiments.records import Record, Store, work_key
from modeseek.parameters import Array
from modeseek.problems import Problem
from modeseek.pseudo import sobol
from modeseek.settings import device_of

Engine = Literal["local", "ray", "batch"]
DESIGN, NOISE, METHOD = range(3)  # streams of randomness
PRESETS: dict[str, Callable[[Problem], DMSConfig]] = {
    "dms": lambda problem: DMSConfig(),
    "dms-fast": lambda problem: DMSConfig.fast(),
    "dms-paper": Problem.config,
}


@dataclass(frozen=True)
class Work:
    """One replication to run."""

    task: str
    method: str
    replication: int
    device: str = "cpu"

    @property
    def config(self) -> DMSConfig | None:
        """The DMS configuration that it runs with, None for other methods."""
        base, changes = parse_method(self.method)
        if base not in PRESETS:
            return None
        config = PRESETS[base](problems.get(self.task))
        return dataclasses.replace(config, name=self.method, **changes) if changes else config

    @property
    def key(self) -> str:
        """As of the record that it becomes."""
        config = None if self.config is None else dataclasses.asdict(self.config)
        return work_key(self.task, self.method, self.replication, config)


def parse_method(method: str) -> tuple[str, dict[str, Any]]:
    """A method's base name and the settings that it changes: "dms-paper[rho=2;K=0]" is ("dms-paper", rho=2, K=0)."""
    base, bracket, inner = method.partition("[")
    if base not in baselines.names():
        baselines.make(base)  # says which there are
    items = inner.removesuffix("]").split(";")
    if bracket and not (inner.endswith("]") and all("=" in item and "," not in item for item in items)):
        raise ConfigError(f"method {method!r}: settings are written as in dms-paper[rho=2;K=0]")
    changes = dict(item.split("=", 1) for item in items) if bracket else {}
    if changes and base not in PRESETS:
        raise ConfigError(f"method {method!r}: settings can be changed only of {', '.join(PRESETS)}")
    known = [field.name for field in dataclasses.fields(DMSConfig) if field.name != "name"]
    for name in changes.keys() - known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f". Known: {', '.join(known)}"
        raise ConfigError(f"method {method!r}: DMSConfig has no setting {name!r} to be changed{hint}")
    return base, {name: _literal(text) for name, text in changes.items()}


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def stream(task: str, replication: int, kind: int, number: int = 0) -> np.random.SeedSequence:
    """The randomness of one draw in a campaign."""
    return np.random.SeedSequence(zlib.crc32(task.encode()), spawn_key=(replication, kind, number))


def seed_of(sequence: np.random.SeedSequence) -> int:
    """A seed below 2^63, as torch takes it."""
    return int(sequence.generate_state(1, np.uint64)[0]) >> 1


def initial_design(problem: Problem, replication: int) -> Array:
    """The Sobol points that a replication starts from, on the unit cube, as evaluated (n x d)."""
    generator = torch.Generator().manual_seed(seed_of(stream(problem.name, replication, DESIGN)))
    return problem.space.snap(sobol(problem.n_initial, problem.space.d, generator).numpy())


def observe(problem: Problem, u: Array, replication: int, number: int) -> tuple[float, float]:
    """The outcome of evaluation `number` at u (d) as the method sees it, and without noise."""
    params = problem.space.decode(u)
    value = problem.value(params)
    if problem.noise == 0 and problem.observe is None:
        return value, value  # a training run is not repeated to be told the same
    noise = np.random.default_rng(stream(problem.name, replication, NOISE, number))
    return problem.evaluate(params, noise), value


def observe_all(problem: Problem, U: Array, replications: Sequence[int], number: int) -> tuple[Array, Array]:
    """Evaluation `number` of several replications at U (b x d): `observe` of each, as two arrays of b."""
    if problem.values is None:
        rows = zip(U, replications, strict=True)
        outcomes = np.array([observe(problem, u, replication, number) for u, replication in rows])
        return outcomes[:, 0], outcomes[:, 1]
    values = problem.values(torch.from_numpy(U)).numpy()
    noise = [np.random.default_rng(stream(problem.name, r, NOISE, number)).standard_normal() for r in replications]
    return values + problem.noise * np.array(noise), values


def run_replication(work: Work) -> Record:
    """Run one replication to its end; whatever it raises becomes a failed record."""
    observed: list[float] = []
    values: list[float] = []
    iterations: list[float] = []
    stages: dict[str, float] = {}
    fit_evaluations = 0
    error = None
    try:
        problem = problems.get(work.task)
        method = baselines.make(parse_method(work.method)[0], work.config, work.device)
        X = initial_design(problem, work.replication)
        for number in range(problem.n_initial + problem.budget):
            if number >= problem.n_initial:
                began = time.perf_counter()
                seed = seed_of(stream(work.task, work.replication, METHOD, number))
                u = method(History(problem.space, X, np.array(observed)), seed)
                iterations.append(time.perf_counter() - began)
                for stage, seconds in method.seconds.items():
                    stages[stage] = stages.get(stage, 0.0) + seconds
                fit_evaluations += getattr(method, "fit_evaluations", 0)
                X = np.vstack([X, problem.space.snap(u[None])])
            outcome = observe(problem, X[number], work.replication, number)
            observed.append(outcome[0])
            values.append(outcome[1])
    except Exception:
        error = traceback.format_exc()
    return record_of(work, 1, observed, values, iterations, stages, fit_evaluations, error)


def record_of(
    work: Work,
    batch: int,
    observed: list[float],
    values: list[float],
    iterations: list[float],
    stages: dict[str, float],
    fit_evaluations: int,
    error: str | None = None,
) -> Record:
    """What is stored of a replication; one with an outcome that is no number failed there."""
    finite = np.isfinite(observed) & np.isfinite(values)
    if not finite.all():
        last = int(np.argmin(finite))
        error = error or f"evaluation {last} gave {observed[last]}"
        observed, values = observed[:last], values[:last]
    return Record(
        task=work.task,
        method=work.method,
        replication=work.replication,
        status="complete" if error is None else "failed",
        version=code_version(),
        config=None if work.config is None else dataclasses.asdict(work.config),
        seed=zlib.crc32(work.task.encode()),
        device=work.device,
        batch=batch,
        n_initial=problems.get(work.task).n_initial,
        observed=observed,
        values=values,
        iterations=iterations,
        stages=stages,
        fit_evaluations=fit_evaluations,
        error=error,
    )


@lru_cache(maxsize=1)
def code_version() -> str:
    """The package's version, with the revision where its files are tracked by git."""
    here = str(Path(modeseek.__file__).parent)

    def git(*arguments: str) -> str:
        run = subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True, check=True, timeout=10)
        return run.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # else it may be installed within someone's repository
        return f"{modeseek.__version__}+g{git('rev-parse', '--short=10', 'HEAD')}"
    except (OSError, subprocess.SubprocessError):
        return modeseek.__version__


def plan(tasks: Sequence[str], methods: Sequence[str], reps: int | None, device: str) -> list[Work]:
    """All replications asked for; `reps` None is the paper's number for each task."""
    for task in tasks:
        problems.get(task).check_installed()
    for method in methods:
        parse_method(method)
    return [
        Work(task, method, replication, device)
        for task in tasks
        for method in methods
        for replication in range(problems.get(task).replications if reps is None else reps)
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
    known = {record.key for record in stored if record.status == "complete" or not retry_failed}
    missing = [work for work in wanted if work.key not in known]
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
    threads = max(1, (os.cpu_count() or 1) // workers)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
        futures = [pool.submit(run_replication, work) for work in missing]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise ModeseekError(_DIED) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run_on_ray(missing: list[Work], workers: int) -> Iterator[Record]:
    """Replications as tasks of the Ray cluster that `ray start` made, or of a local one with so many workers."""
    try:
        import ray
    except ImportError as error:
        raise ModeseekError('engine="ray" needs Ray: pip install "modeseek[ray]"') from error
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
    from modeseek.baselines.batched import ACQUISITIONS as BATCHED  # noqa: N811
    from modeseek.experiments.batch import run_batches

    groups: dict[tuple[object, ...], list[Work]] = {}
    for work in missing:
        if work.config is None and work.method not in BATCHED:
            raise ConfigError(f"engine='batch' runs DMS, {', '.join(BATCHED)}, not {work.method!r}")
        groups.setdefault(_tensors_of(work), []).append(work)
    for group in groups.values():
        yield from run_batches(group, folder, progress)


def _tensors_of(work: Work) -> tuple[object, ...]:
    """What replications must have in common to share a batch; of tasks that are computed on tensors, not the task."""
    problem = problems.get(work.task)
    same = (problem.d, problem.n_initial, problem.budget) if problem.values is not None else problem.name
    return work.method, work.config, same
