"""One replication of a method on a task: what it is called, its randomness, and what is stored of it.

Every method sees the same initial design and the same noise at the same replication of a task: both are drawn from the
task's name, the replication and the number of the evaluation, and from nothing else.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import modeseek
from modeseek.bench.campaign.records import Record, work_key
from modeseek.bench.loading import is_file_name
from modeseek.bench.methods import OF_THE_PAPER, PRESETS, Method, check_method_name, make_method
from modeseek.bench.tasks import Problem, find_task
from modeseek.checks import did_you_mean
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.domain import has_steps
from modeseek.embedding import has_choices
from modeseek.errors import ConfigError
from modeseek.history import History
from modeseek.locality import begins_after
from modeseek.typing import Array

DESIGN, NOISE, METHOD = range(3)  # streams of randomness
SPARE = 256  # points of a design looked at beyond its size, where some are the same once snapped


@dataclass(frozen=True)
class Work:
    """One replication to run."""

    task: str
    method: str
    replication: int
    device: str = "cpu"

    @property
    def task_name(self) -> str:
        """What records call the task; one from a file has its own name."""
        return find_task(self.task).name

    @property
    def method_name(self) -> str:
        """What records call the method; one from a file is called as there."""
        return self.method.rpartition(":")[2] if is_file_name(self.method) else self.method

    @property
    def config(self) -> DMSConfig | None:
        """The DMS configuration that it runs with, None for other methods.

        How values are compared is of no effect where there are none to be compared, nor is when to search locally in
        shorter runs: both are then as in records older than these settings. Where the latter is of effect, it is said
        in observations.
        """
        base, changes = parse_method(self.method)
        if base not in PRESETS:
            return None
        problem = find_task(self.task)
        config = problem.config(PRESETS[base]) if base in OF_THE_PAPER else PRESETS[base](problem.d)
        config = dataclasses.replace(config, name=self.method, **changes) if changes else config
        if not (has_choices(problem.space) or (config.choose_by == "steps" and has_steps(problem.space))):
            config = dataclasses.replace(config, choose_by="label")
        first = begins_after(problem.space, config, problem.n_initial)
        is_local = first is not None and problem.most_known > first
        return dataclasses.replace(config, local_after=first if is_local else None)

    @property
    def key(self) -> str:
        """As of the record that it becomes."""
        config = None if self.config is None else dataclasses.asdict(self.config)
        return work_key(self.task_name, self.method_name, self.replication, config)

    @classmethod
    def of_key(cls, key: str, device: str, tasks: Mapping[str, str]) -> Work:
        """The replication that has this key; `tasks` says where a task of a file is, by its name."""
        task, method, replication, _ = json.loads(key)
        return cls(tasks.get(task, task), method, replication, device)


def parse_method(method: str) -> tuple[str, dict[str, Any]]:
    """A method's base name and the settings that it changes: "dms-paper[rho=2;K=0]" is ("dms-paper", rho=2, K=0)."""
    base, bracket, inner = (method, "", "") if is_file_name(method) else method.partition("[")
    check_method_name(base)
    items = inner.removesuffix("]").split(";")
    if bracket and not (inner.endswith("]") and all("=" in item and "," not in item for item in items)):
        raise ConfigError(f"method {method!r}: settings are written as in dms-paper[rho=2;K=0]")
    changes = dict(item.split("=", 1) for item in items) if bracket else {}
    if changes and base not in PRESETS:
        raise ConfigError(f"method {method!r}: settings can be changed only of {', '.join(PRESETS)}")
    known = [field.name for field in dataclasses.fields(DMSConfig) if field.name != "name"]
    for name in changes.keys() - known:
        hint = did_you_mean(name, known) or f". Known: {', '.join(known)}"
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
    """The Sobol points that a replication starts from, on the unit cube, as evaluated (n x d), none of them twice."""
    generator = torch.Generator().manual_seed(seed_of(stream(problem.name, replication, DESIGN)))
    n = problem.n_initial
    points = problem.space.snap(sobol(n + SPARE, problem.space.d, generator).numpy())
    if len(np.unique(points[:n], axis=0)) == n:
        return points[:n]
    _, first = np.unique(points, axis=0, return_index=True)
    points = points[np.sort(first)]
    if len(points) < n:
        raise ConfigError(f"problem {problem.name!r} has too few configurations for {n} initial ones")
    return points[:n]


def observe(problem: Problem, u: Array, replication: int, number: int) -> tuple[float, float]:
    """The outcome of evaluation `number` at u (d) as the method sees it, and without noise."""
    params = problem.space.decode(u)
    value = problem.value(params)
    if problem.noise == 0 and problem.observe is None:
        return value + problem.offset, value  # a training run is not repeated to be told the same
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
    return values + problem.offset + problem.noise * np.array(noise), values


def seed_of_replication(task: str, replication: int) -> int:
    """The seed of the method in a replication, whichever method it is."""
    return seed_of(stream(task, replication, METHOD))


@contextmanager
def fixed_threads(count: int) -> Iterator[None]:
    """Let PyTorch and NumPy compute with this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


@dataclass
class Course:
    """What happens in a replication, or in several side by side, as far as records tell of it."""

    iterations: list[float] = field(default_factory=list)  # seconds of each
    stages: dict[str, float] = field(default_factory=dict)  # seconds over all iterations
    fit_evaluations: int = 0

    def add(self, seconds: float, stages: dict[str, float], fit_evaluations: int) -> None:
        """One more iteration."""
        self.iterations.append(seconds)
        for stage, spent in stages.items():
            self.stages[stage] = self.stages.get(stage, 0.0) + spent
        self.fit_evaluations += fit_evaluations


@fixed_threads(1)  # the sums of two threads are not those of one, and cores that are busy make them wait for each other
def run_replication(work: Work) -> Record:
    """Run one replication to its end; whatever it raises becomes a failed record."""
    observed: list[float] = []
    values: list[float] = []
    inputs: list[Array] = []
    fell_back: list[bool] = []
    course, error = Course(), None
    try:
        problem = find_task(work.task)
        total = problem.n_initial + problem.budget
        seed = seed_of_replication(problem.name, work.replication)
        method = make_method(parse_method(work.method)[0], problem.space, seed, config=work.config, device=work.device)
        inputs = list(initial_design(problem, work.replication))
        for number in range(total):
            if number == len(inputs):
                began = time.perf_counter()
                points = _proposals(method, History.of(inputs, observed), problem.q, total - number)
                spent = time.perf_counter() - began
                course.add(spent, getattr(method, "seconds", {}), getattr(method, "fit_evaluations", 0))
                if (without := getattr(method, "fell_back", None)) is not None:
                    fell_back.append(without)
                inputs.extend(problem.space.snap(points))
            outcome = observe(problem, inputs[number], work.replication, number)
            observed.append(outcome[0])
            values.append(outcome[1])
    except Exception:
        error = traceback.format_exc()
    return record_of(work, 1, np.array(inputs), observed, values, course, fell_back or None, error)


def _proposals(method: Method, history: History, q: int, left: int) -> Array:
    """The next q points of a method, q x d."""
    if q == 1:
        return method(history, left)[None]
    batch: Callable[..., Array] | None = getattr(method, "batch", None)
    if batch is None:
        raise ConfigError("this method proposes one point at a time; for rounds it needs batch(history, q, left)")
    return batch(history, q, left)


def record_of(
    work: Work,
    batch: int,
    inputs: Array,
    observed: list[float],
    values: list[float],
    course: Course,
    fell_back: list[bool] | None,
    error: str | None = None,
) -> Record:
    """What is stored of a replication; one with an outcome that is not a number failed there."""
    finite = np.isfinite(observed) & np.isfinite(values)
    if not finite.all():
        last = int(np.argmin(finite))
        error = error or f"evaluation {last} gave {observed[last]}"
        observed, values = observed[:last], values[:last]
    return Record(
        task=work.task_name,
        method=work.method_name,
        replication=work.replication,
        status="complete" if error is None else "failed",
        version=code_version(),
        config=None if work.config is None else dataclasses.asdict(work.config),
        seed=zlib.crc32(work.task_name.encode()),
        device=work.device,
        batch=batch,
        n_initial=find_task(work.task).n_initial,
        observed=observed,
        values=values,
        iterations=course.iterations,
        stages=course.stages,
        fit_evaluations=course.fit_evaluations,
        error=error,
        inputs=inputs[: len(observed)].tolist(),
        fell_back=fell_back,
        optimum=find_task(work.task).optimum if is_file_name(work.task) else None,
    )


@lru_cache(maxsize=1)
def code_version() -> str:
    """The package's version, with the revision where its files are tracked by git, and whether they differ from it.

    Where they are not, as in a copy on another machine, the environment variable MODESEEK_REVISION may name it.
    """
    here = str(Path(modeseek.__file__).parent)

    def git(*arguments: str) -> str:
        run = subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True, check=True, timeout=10)
        return run.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # else it may be installed within someone's repository
        changed = ".changed" if git("status", "--porcelain", "--", ".") else ""
        return f"{modeseek.__version__}+g{git('rev-parse', '--short=10', 'HEAD')}{changed}"
    except (OSError, subprocess.SubprocessError):
        revision = os.environ.get("MODESEEK_REVISION", "")
        return f"{modeseek.__version__}+g{revision}" if revision else modeseek.__version__
