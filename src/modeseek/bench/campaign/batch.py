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
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm

from modeseek import graphs
from modeseek.bench.campaign.records import Record, TornRecord, config_of
from modeseek.bench.campaign.replication import METHOD, Work, initial_design, observe_all, record_of, seed_of, stream
from modeseek.bench.methods import acquisitions as batched
from modeseek.bench.methods.botorch_methods import RAW_SAMPLES
from modeseek.bench.tasks import Problem, find_task
from modeseek.diffusion.network import parameter_count
from modeseek.dms import State, suggest
from modeseek.errors import ConfigError, DeviceError
from modeseek.proposer import rounding
from modeseek.surrogate import Hyperparameters

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
        run = end.run
        observed, values = run.outcomes.tolist()
        shared = (run.iterations, run.stages, run.fit_evaluations, end.stopped_by)
        for work, seen, true in zip(part, observed, values, strict=True):
            yield record_of(work, len(part), seen, true, *shared)
        file.unlink(missing_ok=True)  # only now are the records on the disk


def _file(group: Sequence[Work], folder: Path) -> Path:
    first, last = group[0], group[-1]
    others = "".join(f"+{task}" for task in _by_task(group) if task != first.task)
    return folder / first.task / f"{first.method}.{first.replication}-{last.replication}{others}.batch"


def _unfinished(group: Sequence[Work], folder: Path) -> list[tuple[list[Work], Progress]]:
    """The batches in progress that have replications of the group, with what these have done.

    What such a batch has besides goes into a file of its own, unless all evaluations are there: then it is recorded.
    """
    wanted, device = {work.key for work in group}, group[0].device
    left = set(wanted)
    found = []
    for task in _by_task(group):
        for file in sorted((folder / task).glob(f"{escape(group[0].method)}.*.batch")):
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
                ([Work.of_key(key, device) for key in part], run.of([keys.index(key) for key in part]))
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
    m, _, S = (RAW_SAMPLES, 0, 0) if config is None else config.sizes(d)
    fit = 3 * 10 * n * n  # starts, and copies of K, A, G
    refine = m * (8 * n + 80 * d)  # kernel rows; pairs of L-BFGS
    if config is None:
        return 8 * (fit + refine)
    mean_shift = 6 * S * S
    train = 10 * m * 6 * (d + 17) + 8 * max(m, 256) * config.hidden + 8 * parameter_count(d, config.hidden)
    return 8 * (fit + refine + mean_shift) + 4 * train


@dataclass(frozen=True)
class Progress:
    """A batch's evaluations so far, and what the next iteration starts from."""

    X: Tensor  # b x n x d on the unit cube, as evaluated or, up to the initial design's end, to be evaluated
    outcomes: Tensor  # 2 x b x evaluations: observed, and without noise
    state: State | Hyperparameters | None = None
    iterations: list[float] = field(default_factory=list)  # seconds of each
    stages: dict[str, float] = field(default_factory=dict)
    fit_evaluations: int = 0

    def of(self, rows: slice | list[int]) -> Progress:
        """The same of some replications; their share of the seconds goes with them."""
        X, outcomes = self.X[rows], self.outcomes[:, rows]
        share = len(X) / len(self.X)
        state = None if self.state is None else type(self.state)(*(tensor[rows] for tensor in self.state))
        seconds = [share * s for s in self.iterations]
        stages = {stage: share * s for stage, s in self.stages.items()}
        return Progress(X, outcomes, state, seconds, stages, self.fit_evaluations)


OUT_OF_MEMORY = "out of memory"


class End(NamedTuple):
    """Where a batch ended, and by what, unless all evaluations are there: `OUT_OF_MEMORY`, or a traceback."""

    run: Progress
    stopped_by: str | None = None


def _run_batch(group: Sequence[Work], run: Progress, file: Path, progress: bool) -> End:
    problem = find_task(group[0].task)  # of the others, what counts here is the same
    total = _evaluations(group[0].task)
    name = f"{' and '.join(_by_task(group))}, {group[0].method} x {len(group)}"
    done, saved = run.outcomes.shape[-1], time.monotonic()
    for number in tqdm(range(done, total), name, total, False, initial=done, disable=not progress, unit="evaluation"):
        try:
            ahead = _advance(run, problem, group, number) if number >= problem.n_initial else run
            outcomes = torch.cat([run.outcomes, _observe(ahead.X[:, number], group, number)[..., None]], -1)
        except torch.cuda.OutOfMemoryError:
            return End(run, OUT_OF_MEMORY)
        except Exception:
            return End(run, traceback.format_exc())
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
    return Progress(torch.from_numpy(X), torch.zeros(2, len(group), 0, dtype=torch.float64))


def _observe(X: Tensor, group: Sequence[Work], number: int) -> Tensor:
    """Evaluation `number` of all replications at X (b x d), as observed and without noise: 2 x b."""
    outcomes = torch.zeros(2, len(group), dtype=torch.float64)
    for task, rows in _by_task(group).items():
        replications = [group[row].replication for row in rows]
        seen = observe_all(find_task(task), X[rows].numpy(), replications, number)
        outcomes[:, rows] = torch.from_numpy(np.stack(seen))
    return outcomes


def _advance(run: Progress, problem: Problem, group: Sequence[Work], number: int) -> Progress:
    """With the next point of each replication, snapped."""
    began = time.perf_counter()
    first = group[0]
    device, config = torch.device(first.device), first.config
    seed = seed_of(stream(first.task, first.replication, METHOD, number))
    data, outcomes = run.X.to(device), run.outcomes[0].to(device)
    generator = torch.Generator().manual_seed(seed)
    state: State | Hyperparameters
    if config is None:
        assert not isinstance(run.state, State)
        chosen = batched.suggest(first.method, data, outcomes, generator, run.state)
        x_next, state, spent, evaluations = chosen.x_next, chosen.state, chosen.seconds, chosen.fit_evaluations
    else:
        assert not isinstance(run.state, Hyperparameters)
        out = suggest(data, outcomes, config, generator, run.state, rounding=rounding(problem.space, device))
        evaluations = out.gp.evaluations  # type: ignore[union-attr]  # without constraints it is a GP
        x_next, state, spent = out.x_next, out.state, out.seconds
    x_next = torch.from_numpy(problem.space.snap(x_next.cpu().numpy()))
    return replace(
        run,
        X=torch.cat([run.X, x_next[:, None]], 1),
        state=state,
        iterations=[*run.iterations, time.perf_counter() - began],
        stages={stage: run.stages.get(stage, 0.0) + seconds for stage, seconds in spent.items()},
        fit_evaluations=run.fit_evaluations + evaluations,
    )


def _save(file: Path, run: Progress, group: Sequence[Work]) -> None:
    """Write the file in one step."""
    state = {} if run.state is None else run.state._asdict()
    tensors = {name: tensor.cpu().contiguous() for name, tensor in state.items()}
    tensors |= {"X": run.X.contiguous(), "outcomes": run.outcomes.contiguous()}
    facts = {
        "keys": json.dumps([work.key for work in group]),
        "iterations": json.dumps(run.iterations),
        "stages": json.dumps(run.stages),
        "fit_evaluations": json.dumps(run.fit_evaluations),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{os.getpid()}")
    save_file(tensors, part, facts)
    os.replace(part, file)


def _load(file: Path, device: str) -> tuple[list[str], Progress] | None:
    """What `_save` wrote: the keys of its replications, and their progress. None, with a warning, where it is torn."""
    try:
        with safe_open(file, "pt", device=device) as saved:
            facts = {name: json.loads(text) for name, text in saved.metadata().items()}
            tensors = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        warnings.warn(f"{file} is not a whole batch, which begins anew: {error}", TornRecord, stacklevel=2)
        return None
    X, outcomes = tensors.pop("X").cpu(), tensors.pop("outcomes").cpu()
    kind = State if "network" in tensors else Hyperparameters
    keys = facts.pop("keys")
    return keys, Progress(X, outcomes, kind(**tensors) if tensors else None, **facts)
