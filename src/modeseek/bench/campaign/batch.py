"""All replications of a task as one batch on one device, for the methods that run side by side.

Each replication is as it would be alone: it has its own seed, and draws from its own generators.
Tasks with as many parameters, initial points and evaluations share a batch. A batch in progress is kept in a file
beside the records of its first task, `results/<task>/<method>.<first>-<last>.batch`, so that a run that was stopped or
killed goes on where it was; the file is removed once the records are written.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from modeseek import graphs, together
from modeseek.bench.campaign.records import Record, TornRecord, config_of
from modeseek.bench.campaign.replication import (
    Course,
    Work,
    initial_design,
    observe_all,
    parse_method,
    record_of,
    seed_of_replication,
)
from modeseek.bench.methods import SideBySide, acquisitions, make_side_by_side
from modeseek.bench.tasks import find_task
from modeseek.diffusion.network import parameter_count
from modeseek.errors import ConfigError, DeviceError
from modeseek.execution.progress import progress_bar
from modeseek.history import History

MOST_NAMED = 3  # tasks in the text of a progress bar
SAVE_EVERY = 10.0  # seconds: what a kill may cost
MEMORY_SHARE = 0.8  # of a GPU's free memory, which a batch is planned to stay under


def run_batches(group: Sequence[Work], folder: Path, progress: bool = False) -> Iterator[Record]:
    """Run replications of one method side by side, as many at a time as fit onto their device.

    Batches that were stopped go on first, as they were, whatever would fit now. A batch that runs out of memory, or in
    which a replication fails, is split in two that go on from there, so that a failure ends in a record of its own.
    DeviceError when not even one replication fits.
    """
    rest = list(group)
    for part, run in _unfinished(group, folder):
        yield from _run_part(part, run, folder, progress)
        rest = [work for work in rest if work not in part]
    most = replications_that_fit(group[0])
    for start in range(0, len(rest), most):
        part = rest[start : start + most]
        yield from _run_part(part, _begin(part), folder, progress)


def _run_part(part: Sequence[Work], run: Progress, folder: Path, progress: bool) -> Iterator[Record]:
    file = _file(part, folder)
    end = _run_batch(part, run, file, progress)
    graphs.release()
    if end.stopped_by is not None and len(part) > 1:
        gc.collect()  # what an error's traceback still holds on to
        torch.cuda.empty_cache()
        middle = len(part) // 2
        halves = [(part[rows], end.run.of(rows)) for rows in (slice(None, middle), slice(middle, None))]
        for half, of_half in halves:
            _save(_file(half, folder), of_half, half)
        file.unlink(missing_ok=True)
        for half, of_half in halves:
            yield from _run_part(half, of_half, folder, progress)
    elif end.stopped_by is OUT_OF_MEMORY:
        raise DeviceError(
            f"one replication of {part[0].method} on {part[0].task} does not fit onto {part[0].device}; "
            "use --device cpu, or smaller m and S, as in --method dms[m=500;S=200]"
        )
    else:
        done = end.run
        observed, values = done.outcomes.tolist()
        fell_back = done.fell_back.tolist() if done.fell_back.numel() else [None] * len(part)
        for i, work in enumerate(part):
            inputs = done.X[i].numpy()
            yield record_of(work, len(part), inputs, observed[i], values[i], done.course, fell_back[i], end.stopped_by)
        file.unlink(missing_ok=True)  # only now are the records on the disk


def _file(group: Sequence[Work], folder: Path) -> Path:
    first, last = group[0], group[-1]
    names = dict.fromkeys(work.task_name for work in group)
    # The names themselves would be too long for a file system: a suite has 75 tasks of one size.
    others = "" if len(names) == 1 else f"+{hashlib.sha256(repr([*names]).encode()).hexdigest()[:16]}"
    return folder / first.task_name / f"{first.method_name}.{first.replication}-{last.replication}{others}.batch"


def _unfinished(group: Sequence[Work], folder: Path) -> list[tuple[list[Work], Progress]]:
    """The batches in progress that have replications of the group, with what these have done.

    What such a batch has besides goes into a file of its own, unless all evaluations are there: then it is recorded.
    """
    wanted, device = {work.key for work in group}, group[0].device
    left = set(wanted)
    found = []
    tasks = {work.task_name: work.task for work in group}
    for name, task in tasks.items():
        for file in sorted((folder / name).glob(f"{escape(group[0].method_name)}.*.batch")):
            saved = _load(file, device)
            if saved is None:
                file.unlink()
                continue
            keys, run = saved
            _check_configuration(file, keys, wanted)
            ours, others = [key for key in keys if key in left], [key for key in keys if key not in wanted]
            if len(others) == len(keys):
                continue
            waiting = others if run.outcomes.shape[-1] < _evaluations(task) else []
            parts = [
                ([Work.of_key(key, device, tasks) for key in part], run.of([keys.index(key) for key in part]))
                for part in (ours, waiting)
                if part
            ]
            if len(ours) < len(keys):
                for part, of_part in parts:
                    _save(_file(part, folder), of_part, part)
                if file not in [_file(part, folder) for part, _ in parts]:
                    file.unlink()
            if ours:
                found.append(parts[0])
                left -= set(ours)
    return found


def _check_configuration(file: Path, keys: list[str], wanted: set[str]) -> None:
    ours = [config_of(key) for key in wanted]
    if not all(config_of(key) in ours for key in keys):
        raise ConfigError(
            f"{file.resolve()} is a batch in progress under another configuration; remove it, or choose another --out"
        )


def replications_that_fit(work: Work) -> int:
    """How many replications of this task and method a device has memory for, at least one."""
    device = torch.device(work.device)
    if device.type != "cuda":
        return sys.maxsize
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(1, int(MEMORY_SHARE * free / bytes_of_replication(work)))


def bytes_of_replication(work: Work) -> int:
    """What the largest tensors of one replication's last iteration take, each stage's counted as if all were there."""
    problem, config = find_task(work.task), work.config
    d, n = problem.d, problem.n_initial + problem.budget
    fit = 3 * 10 * n * n  # starts, and copies of K, A, G
    if config is None:
        return 8 * (fit + acquisitions.largest_tensors(work.method, n, d))
    m, _, S = config.sizes(d)
    refine = m * (8 * n + 80 * d)  # kernel rows; pairs of L-BFGS
    mean_shift = 6 * S * S
    train = 10 * m * 6 * (d + 17) + 8 * max(m, 256) * config.hidden + 8 * parameter_count(d, config.hidden)
    many = 0 if problem.q == 1 else together.largest_tensors(problem.q, n, d)
    return 8 * (fit + refine + mean_shift + many) + 4 * train


@dataclass(frozen=True)
class Progress:
    """A batch's evaluations so far, and what the next iteration starts from."""

    X: Tensor  # b x n x d on the unit cube, as evaluated or, up to the initial design's end, to be evaluated
    outcomes: Tensor  # 2 x b x evaluations: observed, and without noise
    fell_back: Tensor  # b x iterations, whether each did without the method's model; b x 0 where there is none
    state: dict[str, Tensor] = field(default_factory=dict)  # of the method, each b x ...
    course: Course = field(default_factory=Course)

    def of(self, rows: slice | list[int]) -> Progress:
        """The same of some replications; their share of the seconds goes with them."""
        X, outcomes = self.X[rows], self.outcomes[:, rows]
        share = len(X) / len(self.X)
        state = {name: tensor[rows] for name, tensor in self.state.items()}
        seconds = [share * s for s in self.course.iterations]
        stages = {stage: share * s for stage, s in self.course.stages.items()}
        course = Course(seconds, stages, self.course.fit_evaluations)
        return Progress(X, outcomes, self.fell_back[rows], state, course)


OUT_OF_MEMORY = "out of memory"


class End(NamedTuple):
    """Where a batch ended, and by what, unless all evaluations are there: `OUT_OF_MEMORY`, or a traceback."""

    run: Progress
    stopped_by: str | None = None


def _run_batch(group: Sequence[Work], run: Progress, file: Path, progress: bool) -> End:
    problem = find_task(group[0].task)  # of the others, what counts here is the same
    total = _evaluations(group[0].task)
    method = _method(group, run.state)
    tasks = list(_by_task(group))
    named = " and ".join(tasks) if len(tasks) <= MOST_NAMED else f"{tasks[0]} and {len(tasks) - 1} others"
    name = f"{named}, {group[0].method} x {len(group)}"
    done, saved = run.outcomes.shape[-1], time.monotonic()
    rest = range(done, total)
    for number in progress_bar(total, over=rest, done=done, show=progress, unit="evaluation", name=name, keep=False):
        try:
            ahead = _advance(run, method, problem.q, total - number) if number == run.X.shape[1] else run
            outcomes = torch.cat([run.outcomes, _observe(ahead.X[:, number], group, number)[..., None]], -1)
        except Exception as error:
            out_of_memory = isinstance(error.__cause__ or error, torch.cuda.OutOfMemoryError)
            return End(run, OUT_OF_MEMORY if out_of_memory else traceback.format_exc())
        except KeyboardInterrupt:
            _save(file, run, group)
            raise
        run = replace(ahead, outcomes=outcomes)  # both or neither, wherever it is interrupted
        if time.monotonic() - saved > SAVE_EVERY:
            _save(file, run, group)
            saved = time.monotonic()
    return End(run)


def _evaluations(task: str) -> int:
    problem = find_task(task)
    return problem.n_initial + problem.budget


def _by_task(group: Sequence[Work]) -> dict[str, list[int]]:
    """Where the replications of each task are in the group."""
    rows: dict[str, list[int]] = {}
    for row, work in enumerate(group):
        rows.setdefault(work.task, []).append(row)
    return rows


def _begin(group: Sequence[Work]) -> Progress:
    X = np.stack([initial_design(find_task(work.task), work.replication) for work in group])
    none = torch.zeros(len(group), 0, dtype=torch.bool)
    return Progress(torch.from_numpy(X), torch.zeros(2, len(group), 0, dtype=torch.float64), none)


def _observe(X: Tensor, group: Sequence[Work], number: int) -> Tensor:
    """Evaluation `number` of all replications at X (b x d), as observed and without noise: 2 x b."""
    outcomes = torch.zeros(2, len(group), dtype=torch.float64)
    for task, rows in _by_task(group).items():
        replications = [group[row].replication for row in rows]
        seen = observe_all(find_task(task), X[rows].numpy(), replications, number)
        outcomes[:, rows] = torch.from_numpy(np.stack(seen))
    return outcomes


def _method(group: Sequence[Work], state: dict[str, Tensor]) -> SideBySide:
    """The method of a group, going on from a state."""
    spaces = [find_task(work.task).space for work in group]
    seeds = [seed_of_replication(work.task_name, work.replication) for work in group]
    first = group[0]
    method = make_side_by_side(parse_method(first.method)[0], spaces, seeds, config=first.config, device=first.device)
    method.restore(state)
    return method


def _advance(run: Progress, method: SideBySide, q: int, left: int) -> Progress:
    """With the next points of each replication, snapped."""
    began = time.perf_counter()
    histories = [History.of(X, Y) for X, Y in zip(run.X.numpy(), run.outcomes[0].numpy(), strict=True)]
    points = method.batch(histories, q, left)
    x_next = np.stack([space.snap(some) for space, some in zip(method.spaces, points, strict=True)])
    course = copy.deepcopy(run.course)
    course.add(time.perf_counter() - began, method.seconds, method.fit_evaluations)
    fell_back = run.fell_back
    if method.fell_back is not None:
        fell_back = torch.cat([fell_back, torch.tensor(method.fell_back, dtype=torch.bool)[:, None]], 1)
    X = torch.cat([run.X, torch.from_numpy(x_next)], 1)
    return replace(run, X=X, fell_back=fell_back, state=method.state, course=course)


def _save(file: Path, run: Progress, group: Sequence[Work]) -> None:
    """Write the file in one step."""
    tensors = {f"state.{name}": tensor.cpu().contiguous() for name, tensor in run.state.items()}
    evaluated = {"X": run.X, "outcomes": run.outcomes, "fell_back": run.fell_back}
    tensors |= {name: tensor.contiguous() for name, tensor in evaluated.items()}
    facts = {
        "keys": json.dumps([work.key for work in group]),
        "course": json.dumps(asdict(run.course)),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{os.getpid()}")
    save_file(tensors, part, facts)
    os.replace(part, file)


def _load(file: Path, device: str) -> tuple[list[str], Progress] | None:
    """What `_save` wrote: the keys of its replications, and their progress. None, with a warning, where it is torn."""
    try:
        with safe_open(file, "pt", device=device) as saved:
            facts = {name: json.loads(text) for name, text in (saved.metadata() or {}).items()}
            tensors = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
        evaluated = [tensors[name].cpu() for name in ("X", "outcomes", "fell_back")]
        state = {name.removeprefix("state."): tensor for name, tensor in tensors.items() if name.startswith("state.")}
        X, outcomes, fell_back = evaluated
        return list(facts["keys"]), Progress(X, outcomes, fell_back, state, Course(**facts["course"]))
    except (SafetensorError, ValueError, LookupError, TypeError, OSError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        warnings.warn(f"{file} is not a whole batch, which begins anew ({what})", TornRecord, stacklevel=2)
        return None
