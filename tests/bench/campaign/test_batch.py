"""The batch engine: stopped and resumed, split where memory ends, and observed as single runs are."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from modeseek import Int, Space, dms
from modeseek.bench.campaign import batch
from modeseek.bench.campaign.batch import bytes_of_replication, run_batches
from modeseek.bench.campaign.campaign import run_campaign
from modeseek.bench.campaign.records import Store, TornRecord
from modeseek.bench.campaign.replication import (
    NOISE,
    Work,
    initial_design,
    observe,
    observe_all,
    run_replication,
    stream,
)
from modeseek.bench.tasks import Problem, find_task, suites
from modeseek.config import DMSConfig
from modeseek.dms import Suggestion, suggest
from modeseek.errors import ConfigError, DeviceError
from shared import SMALLEST, generator

TASK = "styblinski-tang-2"  # here with 6 + 8 evaluations
OTHERS = ("branin-2", "six-hump-camel-2")  # with 5 + 6


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch, shorten: Callable[[str, int, int], None]) -> None:
    shorten(TASK, 6, 8)
    for other in OTHERS:
        shorten(other, 5, 6)
    monkeypatch.setattr(Work, "config", property(lambda self: SMALLEST))


def works(n: int) -> list[Work]:
    return [Work(TASK, "dms", replication) for replication in range(n)]


def interrupt() -> None:
    raise KeyboardInterrupt


def stop_at(number: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the suggestion for this evaluation raise."""

    def stopping(X: torch.Tensor, *rest: object, **named: object) -> Suggestion:
        if X.shape[1] == number:
            raise error
        return suggest(X, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(dms, "suggest", stopping)


@pytest.mark.parametrize("save_every", [0.0, 1e9])
def test_a_stopped_batch_goes_on_as_if_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_every: float
) -> None:
    whole = list(run_batches(works(3), tmp_path / "whole"))
    monkeypatch.setattr(batch, "SAVE_EVERY", save_every)
    with monkeypatch.context() as stopped:
        stop_at(11, KeyboardInterrupt(), stopped)
        with pytest.raises(KeyboardInterrupt):
            list(run_batches(works(3), tmp_path / "stopped"))
    (file,) = (tmp_path / "stopped").glob("*/*.batch")
    with monkeypatch.context() as early:
        stop_at(9, AssertionError("it began anew"), early)
        resumed = list(run_batches(works(3), tmp_path / "stopped"))
    assert [r.status for r in resumed] == ["complete"] * 3
    assert [(r.observed, r.values) for r in resumed] == [(r.observed, r.values) for r in whole]
    assert len(resumed[0].iterations) == find_task(TASK).budget
    assert not file.exists()


@pytest.mark.parametrize("number", [0, 3, 6, 11])
def test_a_batch_stopped_in_an_evaluation_goes_on_as_if_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    whole = list(run_batches(works(2), tmp_path / "whole"))

    def stopping(*args: object) -> object:
        if args[-1] == number:
            raise KeyboardInterrupt
        return observe_all(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as stopped:
        stopped.setattr(batch, "observe_all", stopping)
        with pytest.raises(KeyboardInterrupt):
            list(run_batches(works(2), tmp_path / "stopped"))
    resumed = list(run_batches(works(2), tmp_path / "stopped"))
    assert [(r.status, r.values) for r in resumed] == [("complete", r.values) for r in whole]


def test_a_failing_replication_does_not_stop_the_rest_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suggested = []

    def failing(problem: Problem, U: np.ndarray, replications: list[int], number: int) -> tuple[np.ndarray, np.ndarray]:
        if number == 11 and 1 in replications:
            raise RuntimeError("replication 1 of four")
        return observe_all(problem, U, replications, number)

    monkeypatch.setattr(batch, "observe_all", failing)
    monkeypatch.setattr(dms, "suggest", lambda X, *rest, **named: suggested.append(X) or suggest(X, *rest, **named))
    records = list(run_batches(works(4), tmp_path))
    assert [(r.replication, r.status, len(r.values)) for r in records] == [
        (r, "failed" if r == 1 else "complete", 11 if r == 1 else 14) for r in range(4)
    ]
    assert "replication 1 of four" in (records[1].error or "")
    assert {r.batch for r in records} == {1, 2}
    assert sum(len(X) for X in suggested) == 3 * 8 + 5 + 4 + 2 + 1, "the halves went on from where the whole was"
    assert records[2].iterations[0] / 2 == pytest.approx(records[0].iterations[0]), "shares of the same seconds"
    assert not list(tmp_path.glob("*/*.batch*"))


def test_a_full_disk_is_no_failure_of_the_replications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "SAVE_EVERY", 0.0)
    with monkeypatch.context() as full:
        full.setattr(batch, "save_file", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            list(run_batches(works(2), tmp_path))
    assert [r.status for r in run_batches(works(2), tmp_path)] == ["complete"] * 2


def test_a_stopped_batch_goes_on_where_less_would_fit_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(run_batches(works(4), tmp_path / "whole"))
    with monkeypatch.context() as stopped:
        stop_at(11, KeyboardInterrupt(), stopped)
        with pytest.raises(KeyboardInterrupt):
            list(run_batches(works(4), tmp_path / "stopped"))
    monkeypatch.setattr(batch, "replications_that_fit", lambda work: 3)
    resumed = list(run_batches(works(5), tmp_path / "stopped"))
    assert [r.replication for r in resumed] == list(range(5)), "and one that was not in it"
    assert [r.values for r in resumed[:4]] == [r.values for r in whole]
    assert not list((tmp_path / "stopped").glob("*/*.batch"))


def test_a_stopped_batch_goes_on_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as stopped:
        stop_at(11, KeyboardInterrupt(), stopped)
        with pytest.raises(KeyboardInterrupt):
            list(run_batches(works(3), tmp_path))
    stop_at(9, AssertionError("it began anew"), monkeypatch)
    some, rest = [works(3)[1]], [works(3)[0], works(3)[2]]
    for part in (some, rest):
        assert [(r.replication, r.status) for r in run_batches(part, tmp_path)] == [
            (work.replication, "complete") for work in part
        ]
    assert not list(tmp_path.glob("*/*.batch"))


def test_a_batch_killed_between_its_records_leaves_only_those_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "SAVE_EVERY", 0.0)
    records = run_batches(works(3), tmp_path)
    first = next(records)  # stored; the batch's file is removed after the last
    (file,) = tmp_path.glob("*/*.batch")
    kept = file.read_bytes()
    others = list(records)
    file.write_bytes(kept)
    again = list(run_batches(works(3)[1:], tmp_path))
    assert (first.replication, [r.values for r in again]) == (0, [r.values for r in others])
    assert not list(tmp_path.glob("*/*.batch"))


def test_parts_of_a_campaign_draw_different_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def listening(
        X: torch.Tensor, Y: torch.Tensor, config: DMSConfig, generators: list[torch.Generator], *rest, **named
    ):
        seeds.extend(generator.initial_seed() for generator in generators)
        return suggest(X, Y, config, generators, *rest, **named)

    monkeypatch.setattr(batch, "replications_that_fit", lambda work: 3)
    monkeypatch.setattr(dms, "suggest", listening)
    both = [Work(task, "dms", r) for task in OTHERS for r in range(2)]
    list(run_batches([*both[1:], both[0]], tmp_path))
    assert len(set(seeds)) == len(seeds) == 4 * find_task(OTHERS[0]).budget


def test_acquisition_functions_run_as_batches_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Work, "config", None)
    group = [Work(TASK, "ucb", replication) for replication in range(2)]
    assert bytes_of_replication(group[0]) > 0
    whole = list(run_batches(group, tmp_path / "whole"))
    with monkeypatch.context() as stopped:
        advance = batch._advance
        stopped.setattr(batch, "_advance", lambda *args: interrupt() if args[-1] == 3 else advance(*args))
        with pytest.raises(KeyboardInterrupt):
            list(run_batches(group, tmp_path / "stopped"))
    resumed = list(run_batches(group, tmp_path / "stopped"))
    assert [(r.status, r.batch, r.config) for r in resumed] == [("complete", 2, None)] * 2
    assert [r.values for r in resumed] == [r.values for r in whole]
    alone = run_replication(Work(TASK, "ucb", 1))
    n = find_task(TASK).n_initial
    np.testing.assert_allclose(resumed[1].inputs[: n + 3], alone.inputs[: n + 3], atol=1e-4)
    np.testing.assert_allclose(resumed[1].observed[:n], alone.observed[:n], rtol=1e-6)
    assert np.mean([max(r.values) for r in resumed]) > np.mean([max(r.values[:n]) for r in resumed])
    assert set(resumed[0].stages) == set(alone.stages) == {"fit", "acquire"}
    budget = find_task(TASK).budget
    assert min(resumed[0].fit_evaluations, alone.fit_evaluations) > budget


def test_tasks_of_one_size_share_a_batch_and_are_observed_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = list(OTHERS)
    sizes = []
    monkeypatch.setattr(dms, "suggest", lambda X, *rest, **named: sizes.append(len(X)) or suggest(X, *rest, **named))
    records = run_campaign([*tasks, TASK], ["dms"], Store(tmp_path), reps=2, engine="batch", progress=False)
    assert [(r.task, r.replication) for r in records] == [(task, r) for task in [*tasks, TASK] for r in (0, 1)]
    assert sizes == [4] * find_task(tasks[0]).budget + [2] * find_task(TASK).budget
    for record in records:
        problem = find_task(record.task)
        design = initial_design(problem, record.replication)
        expected = [observe(problem, u, record.replication, i) for i, u in enumerate(design)]
        seen = zip(record.observed, record.values, strict=True)
        np.testing.assert_allclose(list(seen)[: problem.n_initial], expected, rtol=1e-6)
        assert len(record.values) == problem.n_initial + problem.budget
        noise = np.subtract(record.observed, record.values)
        draws = [np.random.default_rng(stream(record.task, record.replication, NOISE, i)) for i in range(len(noise))]
        expected = [problem.noise * draw.standard_normal() for draw in draws]
        np.testing.assert_allclose(noise, expected, atol=1e-4)  # records are rounded
        assert record.batch == (2 if record.task == TASK else 4)


def test_a_batch_of_several_tasks_goes_on_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = [Work(task, "dms", r) for task in OTHERS for r in range(2)]
    whole = list(run_batches(both, tmp_path / "whole"))
    with monkeypatch.context() as stopped:
        stop_at(8, KeyboardInterrupt(), stopped)
        with pytest.raises(KeyboardInterrupt):
            list(run_batches(both, tmp_path / "stopped"))
    resumed = list(run_batches(both, tmp_path / "stopped"))
    assert [r.values for r in resumed] == [r.values for r in whole]


def test_a_batch_of_another_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as stopped:
        stop_at(9, KeyboardInterrupt(), stopped)
        with pytest.raises(KeyboardInterrupt):
            list(run_batches(works(2), tmp_path))
    monkeypatch.setattr(Work, "config", property(lambda self: DMSConfig(m=33)))
    with pytest.raises(ConfigError, match="another configuration"):
        list(run_batches(works(2), tmp_path))


def test_a_replication_in_a_batch_is_as_it_would_be_alone(tmp_path: Path) -> None:
    """Until rounding, which a batch does in another order, has grown: the engines run one method."""
    batched = list(run_batches(works(3), tmp_path))[1]
    alone = run_replication(works(3)[1])
    begun = find_task(TASK).n_initial + 4
    np.testing.assert_allclose(batched.inputs[:begun], alone.inputs[:begun], atol=1e-3)
    assert (len(batched.inputs), len(batched.fell_back or [])) == (14, 8)
    assert (len(alone.inputs), len(alone.fell_back or [])) == (14, 8)


@pytest.mark.parametrize("content", [b"\x10\x00\x00", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_torn_batch_begins_anew(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / TASK / "dms.0-1.batch"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.warns(TornRecord, match="anew"):
        records = list(run_batches(works(2), tmp_path))
    assert [r.status for r in records] == ["complete"] * 2


def test_a_batch_out_of_memory_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def small(X: torch.Tensor, *rest: object, **named: object) -> Suggestion:
        sizes.append(len(X))
        if len(X) > 2:
            raise torch.cuda.OutOfMemoryError
        return suggest(X, *rest, **named)  # type: ignore[arg-type]

    def small_and_alone(X: torch.Tensor, *rest: object, **named: object) -> Suggestion:
        assert [size for size, tensor in alive if tensor() is not None] == [], "tensors of failed batches are gone"
        held = torch.zeros(len(X))
        alive.append((len(X), weakref.ref(held)))
        result = small(X, *rest, **named)
        alive.pop()
        return result

    alive: list[tuple[int, weakref.ref[torch.Tensor]]] = []
    monkeypatch.setattr(dms, "suggest", small_and_alone)
    records = run_campaign([TASK], ["dms"], Store(tmp_path), reps=5, engine="batch", progress=False)
    assert sorted(r.replication for r in records) == list(range(5))
    assert {r.status for r in records} == {"complete"}
    assert {r.batch for r in records} == {1, 2}
    assert max(sizes) == 5


def test_a_batch_of_several_tasks_is_split_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(X: torch.Tensor, *rest: object, **named: object) -> Suggestion:
        if len(X) > 3:
            raise torch.cuda.OutOfMemoryError
        return suggest(X, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(dms, "suggest", small)
    both = [Work(task, "dms", r) for task in OTHERS for r in range(3)]
    records = list(run_batches(both, tmp_path))
    assert [(r.task, r.replication, r.status) for r in records] == [(w.task, w.replication, "complete") for w in both]


def test_one_replication_out_of_memory_names_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(6, torch.cuda.OutOfMemoryError(), monkeypatch)
    with pytest.raises(DeviceError, match="m and S"):
        list(run_batches(works(2), tmp_path))


def test_memory_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    free = 10 * bytes_of_replication(works(1)[0]) / batch.MEMORY_SHARE
    for name, value in (("mem_get_info", (int(free) + 8, 0)), ("memory_reserved", 0), ("memory_allocated", 0)):
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert batch.replications_that_fit(Work(TASK, "dms", 0, "cuda")) == 10


def test_all_are_observed_as_each_is() -> None:
    U = np.random.default_rng(0).random((3, 2))
    for number in (0, 9):
        observed, values = observe_all(find_task(TASK), U, [4, 0, 9], number)
        single = [observe(find_task(TASK), u, r, number) for u, r in zip(U, [4, 0, 9], strict=True)]
        np.testing.assert_allclose(np.stack([observed, values], 1), single, rtol=1e-12)


def test_a_batch_of_a_whole_suite_has_a_file_name_that_every_file_system_takes(tmp_path: Path) -> None:
    suite = [Work(name, "sobol", 0) for name in suites()["bbob-d20"]]
    names = {batch._file(group, tmp_path).name for group in (suite, suite[1:], suite[:1], [*suite[:1], *suite[2:]])}
    assert len(names) == 4
    assert max(len(name.encode()) for name in names) < 100


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.gpu
@pytest.mark.parametrize(("task", "paper"), [("styblinski-tang-2", True), ("levy-10", False), ("levy-50", False)])
def test_the_plan_is_not_below_what_is_used(task: str, paper: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    problem, work = find_task(task), Work(task, "dms-paper" if paper else "dms", 0, "cuda")
    n, b = problem.n_initial + problem.budget, 8
    X = torch.rand(b, n, problem.d, dtype=torch.float64, generator=generator()).cuda()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    assert work.config is not None
    suggest(X, problem.values(X), work.config, generator())  # type: ignore[misc]
    used = (torch.cuda.max_memory_allocated() - before) / b
    assert used < bytes_of_replication(work) < 20 * used


def test_a_batch_of_a_task_from_a_file_goes_on_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(__file__).parents[1] / "tiny.py"
    group = [Work(f"{file}:problem", "dms", replication) for replication in range(2)]
    whole = list(run_batches(group, tmp_path / "whole"))
    with monkeypatch.context() as stopped:
        stop_at(9, KeyboardInterrupt(), stopped)
        with pytest.raises(KeyboardInterrupt):
            list(run_batches(group, tmp_path / "stopped"))
    assert [path.parent.name for path in (tmp_path / "stopped").glob("*/*.batch")] == ["tiny-2"]
    assert not list(file.parent.glob("*/*.batch"))
    resumed = list(run_batches(group, tmp_path / "stopped"))
    assert [(r.task, r.optimum, r.values) for r in resumed] == [("tiny-2", 0.0, r.values) for r in whole]


def test_a_design_has_no_configuration_twice() -> None:
    space = Space({"a": Int(0, 5), "b": Int(0, 2)})
    problem = Problem(name="few", title="", space=space, f=lambda p: 0.0, optimum=0.0, n_initial=10, budget=4)
    for replication in range(12):
        design = initial_design(problem, replication)
        assert len(np.unique(design, axis=0)) == len(design) == 10
    with pytest.raises(ConfigError, match="too few configurations"):
        initial_design(dataclasses.replace(problem, n_initial=19), 0)
