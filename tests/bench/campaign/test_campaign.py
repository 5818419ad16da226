"""Campaigns: same conditions for all, only what is missing, the engines, failures, kill and resume."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import modeseek
from forked import Forked
from modeseek.bench.campaign import campaign, replication
from modeseek.bench.campaign.campaign import run_campaign
from modeseek.bench.campaign.claims import Claims
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.replication import Work, initial_design, run_replication
from modeseek.bench.methods import PRESETS, method_names
from modeseek.bench.tasks import find_task, task_names, validation_names
from modeseek.commands import main
from modeseek.errors import ConfigError, ModeseekError
from shared import SMALLEST, until

TASK = "styblinski-tang-2"
TINY = f"{Path(__file__).parents[1] / 'tiny.py'}:problem"
SMALL = ["sobol", "dms[m=32;K=1;S=16;epochs=2;steps=2;hidden=16]"]


def outcome(record: Record) -> tuple[object, ...]:
    """What of a record must not depend on when, where or how it was run."""
    return record.task, record.method, record.replication, record.status, record.observed, record.values, record.seed


def test_every_method_gets_the_same_start_and_the_same_noise() -> None:
    sobol, ucb = (run_replication(Work(TINY, method, 4)) for method in ("sobol", "ucb"))
    n = find_task(TINY).n_initial
    assert sobol.status == ucb.status == "complete"
    assert len(sobol.observed) == n + find_task(TINY).budget
    assert sobol.observed[:n] == ucb.observed[:n]
    noise = [np.array(r.observed) - np.array(r.values) for r in (sobol, ucb)]
    np.testing.assert_allclose(noise[0], noise[1], atol=1e-9)
    assert 0.05 < noise[0].std() < 0.2
    assert sobol.values[n:] != ucb.values[n:]


def test_replications_and_tasks_differ() -> None:
    designs = [initial_design(find_task(task), rep) for task, rep in ((TASK, 0), (TASK, 1), ("griewank-3", 0))]
    assert not np.array_equal(designs[0], designs[1])
    assert not np.array_equal(designs[0][:, 0], designs[2][: len(designs[0]), 0])


def test_a_second_call_runs_only_what_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = run_campaign([TASK], ["sobol"], store, reps=2, progress=False)
    assert [r.replication for r in first] == [0, 1]
    assert run_campaign([TASK], ["sobol"], store, reps=2, progress=False) == []
    more = run_campaign([TASK], ["sobol"], store, reps=4, progress=False)
    assert [r.replication for r in more] == [2, 3]
    assert len(list(store)) == 4


@pytest.fixture(scope="module")
def one_after_the_other(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    return run_campaign([TINY], SMALL, Store(tmp_path_factory.mktemp("local")), reps=2, progress=False)


def test_processes_give_the_records_of_one_after_the_other(tmp_path: Path, one_after_the_other: list[Record]) -> None:
    two = run_campaign([TINY], SMALL, Store(tmp_path), reps=2, workers=2, progress=False)
    assert sorted(map(outcome, two), key=str) == sorted(map(outcome, one_after_the_other), key=str)


def test_a_batch_has_the_data_the_fields_and_the_distribution_of_single_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Work, "config", property(lambda self: SMALLEST))
    local = run_campaign([TINY], ["dms"], Store(tmp_path / "1"), reps=8, progress=False)
    batch = run_campaign([TINY], ["dms"], Store(tmp_path / "2"), reps=8, engine="batch", progress=False)
    n = find_task(TINY).n_initial
    for a, b in zip(local, batch, strict=True):
        assert (a.status, b.status) == ("complete", "complete"), (a.error, b.error)
        assert a.observed[:n] == pytest.approx(b.observed[:n], rel=1e-9)
        assert len(a.observed) == len(b.observed)
        assert a.key == b.key
        assert set(a.stages) == set(b.stages) == {"fit", "pseudo", "train", "sample", "mode"}
        assert (a.batch, b.batch) == (1, 8)
        assert len(a.iterations) == len(b.iterations) == find_task(TINY).budget
    final = [[max(record.values) for record in records] for records in (local, batch)]
    assert stats.mannwhitneyu(*final).pvalue > 0.05
    start = [max(record.values[:n]) for record in batch]
    assert stats.wilcoxon(final[1], start, alternative="greater").pvalue < 0.01


def test_ray_gives_the_records_of_the_local_engine(tmp_path: Path, one_after_the_other: list[Record]) -> None:
    pytest.importorskip("ray")
    remote = run_campaign([TINY], SMALL, Store(tmp_path), reps=2, engine="ray", workers=2, progress=False)
    assert sorted(map(outcome, remote), key=str) == sorted(map(outcome, one_after_the_other), key=str)


def test_a_method_can_change_settings_of_dms() -> None:
    work = Work(TASK, "dms-paper[rho=2;K=0;refine=joint]", 0)
    assert work.config is not None
    assert (work.config.rho, work.config.K, work.config.refine, work.config.m) == (2, 0, "joint", 500)
    assert work.key != Work(TASK, "dms-paper", 0).key
    for bad, says in (
        ("ucb[rho=2]", "dms-paper"),
        ("dms[nonsense=1]", "quantile"),
        ("dms[epoch=1]", "did you mean 'epochs'"),
        ("dms[name=mine]", "name"),
        ("dms[rho", "rho=2;K=0"),
        ("dms[rho]", "rho=2;K=0"),
        ("dms[rho=1,K=2]", "rho=2;K=0"),
        ("dms[rho=-1]", "rho must be"),
    ):
        with pytest.raises(ConfigError, match=re.escape(says)):
            _ = Work(TASK, bad, 0).config


def test_a_record_names_the_revision_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    replication.code_version.cache_clear()
    version = replication.code_version()
    assert re.fullmatch(re.escape(modeseek.__version__) + r"(\+g[0-9a-f]{10,}(\.changed)?)?", version)
    monkeypatch.setenv("PATH", "")
    replication.code_version.cache_clear()
    assert replication.code_version() == modeseek.__version__, "without git"
    replication.code_version.cache_clear()


def test_an_outcome_that_is_no_number_is_a_failed_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = replication.observe
    monkeypatch.setattr(
        replication, "observe", lambda *args: (float("nan"), 0.0) if args[2:] == (1, 25) else true(*args)
    )
    store = Store(tmp_path)
    run_campaign([TASK], ["sobol"], store, reps=3, progress=False)
    assert [(r.status, len(r.values)) for r in store] == [("complete", 60), ("failed", 25), ("complete", 60)]


def _die_in_the_second(work: Work) -> Record:
    if work.replication == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_replication(work)


def test_fault_32_a_replication_that_ends_its_worker_twice_has_failed_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "run_replication", _die_in_the_second)
    records = run_campaign([TASK], ["sobol"], Store(tmp_path), reps=4, workers=2, progress=False)
    assert sorted((r.replication, r.status) for r in records) == [
        (0, "complete"),
        (1, "failed"),
        (2, "complete"),
        (3, "complete"),
    ]
    (failed,) = (r for r in Store(tmp_path) if r.status == "failed")
    assert "SIGKILL, possibly out of memory, in each of 2 attempts; fewer --workers" in str(failed.error)
    monkeypatch.undo()
    again = run_campaign([TASK], ["sobol"], Store(tmp_path), reps=4, retry_failed=True, progress=False)
    assert [(r.replication, r.status) for r in again] == [(1, "complete")]


def _leave(work: Work) -> Record:
    sys.exit("enough")


def test_sys_exit_in_a_task_is_a_failed_replication(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "run_replication", _leave)
    (record,) = run_campaign([TASK], ["sobol"], Store(tmp_path), reps=1, progress=False)
    assert (record.status, record.error) == ("failed", "SystemExit: enough")


def test_fault_38_what_another_campaign_has_taken_is_left_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path).claims() as other:
        assert other.take(Work(TASK, "sobol", 1).key)
        ours = run_campaign([TASK], ["sobol"], Store(tmp_path), reps=3)
        assert [r.replication for r in ours] == [0, 2]
        said = f"1 replications were left to another campaign (process {os.getpid()}"
        assert said in capsys.readouterr().err
    assert [r.replication for r in run_campaign([TASK], ["sobol"], Store(tmp_path), reps=3)] == [1]


def test_fault_38_what_another_campaign_has_finished_since_is_not_run_again(tmp_path: Path) -> None:
    class Busy(Claims):
        """By the time that a replication is ours, another campaign has stored it."""

        def take(self, key: str) -> bool:
            Store(tmp_path).append(run_replication(Work.of_key(key, "cpu", {})))
            return super().take(key)

    class Shared(Store):
        def claims(self) -> Claims:
            return Busy(self.folder)

    assert run_campaign([TASK], ["sobol"], Shared(tmp_path), reps=2, progress=False) == []
    assert [r.replication for r in Store(tmp_path)] == [0, 1]


def test_fault_45_ctrl_c_ends_a_campaign_at_once_with_what_is_finished_stored(tmp_path: Path) -> None:
    """One replication is quick, the other takes minutes; a signal to the whole group, as a terminal sends it."""
    arguments = ["--task", TASK, "--method", "sobol,dms[epochs=100000]", "--reps", "1", "--workers", "2"]
    process = Forked("-m", "modeseek", "bench", "run", *arguments, "--out", str(tmp_path), start_new_session=True)
    until(lambda: list(Store(tmp_path)) or process.poll() is not None, 120)
    assert list(Store(tmp_path)), process.kill() or process.communicate()
    children = children_of(process.pid)
    assert len(children) >= 2
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert time.monotonic() - began < 3 + SLACK
    until(lambda: not any(child.exists() for child in children), 3 + SLACK)  # multiprocessing's helper comes last
    assert process.returncode == 130
    assert complaint.rstrip().endswith("modeseek: interrupted")
    assert "Traceback" not in complaint
    assert [(r.method, r.status) for r in Store(tmp_path)] == [("sobol", "complete")]


SLACK = 4  # seconds that a busy machine may take on top


def children_of(pid: int) -> list[Path]:
    return [Path("/proc", child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_method_that_has_no_batches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sobol"):
        run_campaign([TASK], ["sobol"], Store(tmp_path), reps=1, engine="batch", progress=False)


@pytest.mark.parametrize("package", ["optuna", "cmaes"])
def test_a_method_whose_package_is_missing_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModeseekError, match=re.escape(f'needs {package}: pip install -c constraints.txt ".[bench]"')):
        run_campaign([TASK], ["sobol", "cmaes"], Store(tmp_path), reps=1, progress=False)
    assert not list(Store(tmp_path))


def test_a_failed_replication_is_recorded_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    true = replication.observe

    def broken(problem: object, u: object, replication: int, number: int) -> tuple[float, float]:
        if replication == 1 and number == 30:
            raise RuntimeError("the cluster is on fire")
        return true(problem, u, replication, number)  # type: ignore[arg-type]

    monkeypatch.setattr(replication, "observe", broken)
    store = Store(tmp_path)
    records = run_campaign([TASK], ["sobol"], store, reps=3, progress=False)
    assert [r.status for r in records] == ["complete", "failed", "complete"]
    assert "on fire" in str(records[1].error)
    assert len(records[1].observed) == 30
    arguments = ["bench", "run", "--task", TASK, "--method", "sobol", "--reps", "2", "--out", str(tmp_path / "other")]
    assert main(arguments) == 1
    assert "1 replications failed" in capsys.readouterr().err
    monkeypatch.undo()
    assert run_campaign([TASK], ["sobol"], store, reps=3) == []
    assert "1 replications failed before; --retry-failed" in capsys.readouterr().err
    again = run_campaign([TASK], ["sobol"], store, reps=3, retry_failed=True, progress=False)
    assert [(r.replication, r.status) for r in again] == [(1, "complete")]
    assert {r.status for r in store} == {"complete"}


def test_results_of_another_configuration_are_never_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Work, "config", property(lambda self: SMALLEST))
    run_campaign([TINY], ["dms"], Store(tmp_path), reps=1, engine="batch", progress=False)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="another configuration"):
        run_campaign([TINY], ["dms"], Store(tmp_path), reps=2, progress=False)


@pytest.mark.parametrize(
    ("task", "method", "near"), [("levy10", "ei", "levy-10"), ("levy-10", "logie", "logei"), ("levy-10", "zzz", "ucb")]
)
def test_unknown_names_get_the_known_ones(
    task: str, method: str, near: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "run", "--task", task, "--method", method, "--out", str(tmp_path)]) == 1
    assert near in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ("all", task_names()),
        ("validation", validation_names()),
        ("levy-10,all", ["levy-10", *(name for name in task_names() if name != "levy-10")]),
    ],
)
def test_a_set_of_tasks_has_a_name(
    given: str, tasks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def remember(tasks: list[str], *_: object, **__: object) -> list[Record]:
        asked.extend(tasks)
        return []

    monkeypatch.setattr(campaign, "run_campaign", remember)
    assert main(["bench", "run", "--task", given, "--method", "sobol", "--out", str(tmp_path)]) == 0
    assert asked == tasks


def test_a_task_for_validation_runs_as_the_papers_do(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run_campaign(["gramacy-lee-1"], ["sobol"], store, reps=2, progress=False)
    for record in store:
        assert record.status == "complete", record.error
        assert len(record.values) == 30
        assert record.observed == record.values, "no noise"


def test_the_methods_are_those_of_the_paper_and_those_users_have() -> None:
    bo = ["pi", "ei", "logei", "ucb", "ts", "pes", "gibbon", "jes"]
    botorchs = [f"{name}-botorch" for name in bo]
    assert set(method_names()) == {"sobol", *bo, *botorchs, "tpe", "gpsampler", "cmaes", *PRESETS}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_campaign_killed_and_resumed_equals_one_never_stopped(tmp_path: Path, workers: str) -> None:
    arguments = ["bench", "run", "--task", TINY, "--method", "sobol,ucb", "--reps", "3", "--out"]
    in_processes = [str(tmp_path / "killed"), "--workers", workers]
    with Forked("-m", "modeseek", *arguments, *in_processes) as killed:
        until(lambda: len(list(Store(tmp_path / "killed"))) >= 4, 120)
        children = children_of(killed.pid)
        killed.kill()
    until(lambda: not any(child.exists() for child in children))  # workers do not stay behind
    there = len(list(Store(tmp_path / "killed")))
    assert 4 <= there < 6
    assert main([*arguments, *in_processes]) == 0
    assert main([*arguments, str(tmp_path / "whole")]) == 0
    one, other = ([outcome(r) for r in Store(tmp_path / name)] for name in ("killed", "whole"))
    assert sorted(one, key=str) == sorted(other, key=str)
