"""All replications of a task as one batch on one device: DMS, batch-first throughout, and the acquisition functions of
`baselines/batched.py`.

Tasks with as many parameters, initial points and evaluations share a batch. A batch in progress is kept in a file
beside the records of its first task, `results/<task>/<method>.<first>-<last>.batch`, so that a run that was stopped or
killed goes on where it was; the file is removed once the records are written.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm

from modeseek import graphs, problems
from modeseek.baselines import batched
from modeseek.diffusion.network import parameter_count
from modeseek.dms import State, Suggestion, suggest
from modeseek.errors import ConfigError, DeviceError
from modeseek.experiments.campaign import METHOD, Work, initial_design, observe_all, record_of, seed_of, stream
from modeseek.experiments.records import Record, TornRecord
from modeseek.problems import Problem
from modeseek.proposing import rounding

SAVE_EVERY = 10.0  # seconds: what a kill may cost
MEMORY_SHARE = 0.8  # of a GPU's free memory, which a batch is planned to stay under


def run_batches(group: Sequence[Work], folder: Path, progress: bool = False) -> Iterator[Record]:
    """Run replications of one method side by side, as many at a time as fit onto their device.

    A batch that runs out of memory all the same is split in two. If a batch raises, each of its replications gets a
    failed record. DeviceError when not even one replication fits.
    """
    most = replications_that_fit(group[0])
    for start in range(0, len(group), most):
        part = group[start : start + most]
        file = _file(part, folder)
        try:
            records = _run_batch(part, file, progress)
        except torch.cuda.OutOfMemoryError as error:
            if len(part) == 1:
                raise DeviceError(
                    f"one replication of {part[0].method} on {part[0].task} does not fit onto {part[0].device}; "
                    "use --device cpu, or smaller m and S, as in --method dms[m=500;S=200]"
                ) from error
            records = None
        # Not within the except clause, where the error would keep all tensors of the failed batch.
        graphs.release()
        if records is None:
            torch.cuda.empty_cache()
            middle = len(part) // 2
            yield from run_batches(part[:middle], folder, progress)
            yield from run_batches(part[middle:], folder, progress)
        else:
            yield from records
            file.unlink(missing_ok=True)  # only now are the records on the disk


def _file(group: Sequence[Work], folder: Path) -> Path:
    first, last = group[0], group[-1]
    others = "".join(f"+{task}" for task in _by_task(group) if task != first.task)
    return folder / first.task / f"{first.method}.{first.replication}-{last.replication}{others}.batch"


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
    problem, config = problems.get(work.task), work.config
    d, n = problem.d, problem.n_initial + problem.budget
    m, _, S = (batched.RAW_SAMPLES, 0, 0) if config is None else config.sizes(d)
    fit = 3 * 10 * n * n  # starts, and copies of K, A, G
    refine = m * (8 * n + 80 * d)  # kernel rows; pairs of L-BFGS
    if config is None:
        return 8 * (fit + refine)
    mean_shift = 6 * S * S
    train = 10 * m * 6 * (d + 17) + 8 * max(m, 256) * config.hidden + 8 * parameter_count(d, config.hidden)
    return 8 * (fit + refine + mean_shift) + 4 * train


@dataclass
class Progress:
    """A batch's evaluations so far, and what the next iteration starts from."""

    X: Tensor  # b x n x d on the unit cube, as evaluated or, up to the initial design's end, to be evaluated
    outcomes: Tensor  # 2 x b x evaluations: observed, and without noise
    state: State | None = None
    iterations: list[float] = field(default_factory=list)  # seconds of each
    stages: dict[str, float] = field(default_factory=dict)


def _run_batch(group: Sequence[Work], file: Path, progress: bool) -> list[Record]:
    problem = problems.get(group[0].task)  # of the others, what counts here is the same
    run = _load(file, group) or _begin(group)
    total, error = problem.n_initial + problem.budget, None
    name = f"{' and '.join(_by_task(group))}, {group[0].method} x {len(group)}"
    done, saved = run.outcomes.shape[-1], time.monotonic()
    try:
        for number in tqdm(
            range(done, total), name, total, False, initial=done, disable=not progress, unit="evaluation"
        ):
            if number >= problem.n_initial:
                _advance(run, problem, group, number)
            run.outcomes = torch.cat([run.outcomes, _observe(run.X[:, number], group, number)[..., None]], -1)
            if time.monotonic() - saved > SAVE_EVERY:
                _save(file, run, group)
                saved = time.monotonic()
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception:
        error = traceback.format_exc()
    except KeyboardInterrupt:
        _save(file, run, group)
        raise
    observed, values = run.outcomes.tolist()
    return [
        record_of(work, len(group), observed[i], values[i], run.iterations, dict(run.stages), error)
        for i, work in enumerate(group)
    ]


def _by_task(group: Sequence[Work]) -> dict[str, list[int]]:
    """Where the replications of each task are in the group."""
    rows: dict[str, list[int]] = {}
    for row, work in enumerate(group):
        rows.setdefault(work.task, []).append(row)
    return rows


def _begin(group: Sequence[Work]) -> Progress:
    X = np.stack([initial_design(problems.get(work.task), work.replication) for work in group])
    return Progress(torch.from_numpy(X), torch.zeros(2, len(group), 0, dtype=torch.float64))


def _observe(X: Tensor, group: Sequence[Work], number: int) -> Tensor:
    """Evaluation `number` of all replications at X (b x d), as observed and without noise: 2 x b."""
    outcomes = torch.zeros(2, len(group), dtype=torch.float64)
    for task, rows in _by_task(group).items():
        replications = [group[row].replication for row in rows]
        seen = observe_all(problems.get(task), X[rows].numpy(), replications, number)
        outcomes[:, rows] = torch.from_numpy(np.stack(seen))
    return outcomes


def _advance(run: Progress, problem: Problem, group: Sequence[Work], number: int) -> None:
    """Add the next point of each replication, snapped."""
    began = time.perf_counter()
    device, config = torch.device(group[0].device), group[0].config
    seed = seed_of(stream(problem.name, min(work.replication for work in group), METHOD, number))
    data, outcomes = run.X.to(device), run.outcomes[0].to(device)
    generator = torch.Generator().manual_seed(seed)
    out: Suggestion | batched.Chosen
    if config is None:
        out = batched.suggest(group[0].method, data, outcomes, generator, run.state)
    else:
        out = suggest(data, outcomes, config, generator, run.state, rounding=rounding(problem.space, device))
    x_next = torch.from_numpy(problem.space.snap(out.x_next.cpu().numpy()))
    run.X, run.state = torch.cat([run.X, x_next[:, None]], 1), out.state
    run.iterations.append(time.perf_counter() - began)
    for stage, seconds in out.seconds.items():
        run.stages[stage] = run.stages.get(stage, 0.0) + seconds


def _save(file: Path, run: Progress, group: Sequence[Work]) -> None:
    """Write the file in one step."""
    state = {} if run.state is None else run.state._asdict()
    tensors = {name: tensor.cpu().contiguous() for name, tensor in state.items()}
    facts = {
        "keys": json.dumps([work.key for work in group]),
        "iterations": json.dumps(run.iterations),
        "stages": json.dumps(run.stages),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{os.getpid()}")
    save_file({"X": run.X, "outcomes": run.outcomes, **tensors}, part, facts)
    os.replace(part, file)


def _load(file: Path, group: Sequence[Work]) -> Progress | None:
    """What `_save` wrote; None where there is nothing. ConfigError where it is of another configuration."""
    if not file.exists():
        return None
    try:
        with safe_open(file, "pt", device=group[0].device) as saved:
            facts = {name: json.loads(text) for name, text in saved.metadata().items()}
            tensors = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        warnings.warn(f"{file} is not a whole batch, which begins anew: {error}", TornRecord, stacklevel=2)
        return None
    if facts["keys"] != [work.key for work in group]:
        raise ConfigError(
            f"{file.resolve()} is a batch in progress under another configuration, or of other tasks; remove it, or "
            "choose another --out"
        )
    X, outcomes = tensors.pop("X").cpu(), tensors.pop("outcomes").cpu()
    return Progress(X, outcomes, State(**tensors) if tensors else None, facts["iterations"], facts["stages"])
