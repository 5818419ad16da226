"""Evaluations that go wrong beyond an exception: faults 32 to 34, 41, 46 and 47 of docs/faults.md."""

import os
import re
import subprocess
import sys
import textwrap
import threading
from functools import partial

import numpy as np
import pytest
from bad_objectives import DiesAtOnePoint, Diverged, diverges

from forked import run
from modeseek import (
    AllTrialsFailed,
    CheckpointError,
    CheckpointNotSaved,
    CheckpointWarning,
    ConfigError,
    ObjectiveTypeError,
    Optimizer,
    Outcome,
    TrialFailedWarning,
    TrialState,
    minimize,
)
from shared import BOX, CHEAP, sphere

QUIET = {"progress": False, "config": CHEAP, "seed": 0, "n_initial": 3}
SECOND = Optimizer(BOX, seed=0, n_initial=3).ask(2)[1].params  # the point at which bad things happen


def deaths(folder):
    return len(list(folder.glob("death-*")))


@pytest.mark.parametrize(("way", "said"), [("exit", "exit code 3"), ("killed", "SIGKILL, possibly out of memory")])
def test_fault_32_an_evaluation_that_ends_its_worker_fails_after_one_retry(tmp_path, way, said, caplog):
    path = tmp_path / "run"
    with pytest.warns(TrialFailedWarning, match=said):
        result = minimize(DiesAtOnePoint(tmp_path, way, SECOND), BOX, 5, n_workers=2, checkpoint=path, **QUIET)
    assert [t.state.value for t in result.trials] == ["complete", "failed", *["complete"] * 3]
    assert said in result.trials[1].error
    assert "2 attempts" in result.trials[1].error
    assert deaths(tmp_path) == 2
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 2
    assert Optimizer.load(path).trials == result.trials


def test_fault_32_the_retry_may_succeed(tmp_path):
    result = minimize(DiesAtOnePoint(tmp_path, "killed", SECOND, deaths=1), BOX, 4, n_workers=2, **QUIET)
    assert {t.state for t in result.trials} == {TrialState.COMPLETE}
    assert deaths(tmp_path) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_fault_32_sys_exit_is_a_failed_trial(tmp_path, workers):
    with pytest.warns(TrialFailedWarning, match="SystemExit: enough"):
        result = minimize(DiesAtOnePoint(tmp_path, "sys.exit", SECOND), BOX, 4, n_workers=workers, **QUIET)
    assert [t.state.value for t in result.trials] == ["complete", "failed", "complete", "complete"]
    assert deaths(tmp_path) == 1


ALONE = """
    import pathlib
    from test_faults_running import BOX, QUIET, SECOND, DiesAtOnePoint, minimize
    result = minimize(DiesAtOnePoint(pathlib.Path(), "exit", SECOND), BOX, 4, checkpoint="run", **QUIET)
    print(*[t.state.value for t in result.trials])
"""


def test_fault_32_without_workers_it_fails_after_one_resume(tmp_path):
    (tmp_path / "alone.py").write_text(textwrap.dedent(ALONE))
    ends = []
    for _ in range(3):
        done = run("alone.py", cwd=tmp_path)
        ends.append((done.returncode, done.stdout.strip()))
    assert ends == [(3, ""), (3, ""), (0, "complete failed complete complete")]
    trial = Optimizer.load(tmp_path / "run").trials[1]
    assert "the program ended 2 times" in trial.error
    assert "retry_failed" in trial.error


def test_fault_32_ctrl_c_is_not_held_against_a_point(tmp_path):
    def interrupted(x):
        raise KeyboardInterrupt

    for _ in range(3):
        result = minimize(interrupted, BOX, 2, checkpoint=tmp_path / "run", **QUIET)
        assert [(t.state, t.starts) for t in result.trials] == [(TrialState.RUNNING, 0)]
    assert minimize(sphere, BOX, 2, checkpoint=tmp_path / "run", **QUIET).best is not None


def test_fault_33_catch_holds_for_an_exception_that_does_not_pickle():
    f = partial(diverges, at=SECOND)
    one, two = (minimize(f, BOX, 5, n_workers=n, catch=(Diverged,), **QUIET) for n in (1, 2))
    for result in (one, two):
        assert [t.number for t in result.trials if t.state is TrialState.FAILED] == [1]
        assert "Diverged: loss inf in step 3" in result.trials[1].error
    with pytest.raises(RuntimeError, match="Diverged: loss inf in step 3"):
        minimize(f, BOX, 5, n_workers=2, catch=(ValueError,), **QUIET)


@pytest.fixture
def disk(monkeypatch):
    """A disk that is full whenever its `full` is set."""

    class Disk:
        full = False

    replace = os.replace

    def maybe(*args):
        if Disk.full:
            raise OSError(28, "No space left on device")
        replace(*args)

    monkeypatch.setattr(os, "replace", maybe)
    return Disk


def full_from(disk, first, last, seen):
    """The sphere; the disk is full from the first to the last of its calls."""

    def f(x):
        seen.append(tuple(x))
        disk.full = first <= len(seen) <= last
        return sphere(x)

    return f


def test_fault_34_a_full_disk_loses_nothing_and_is_written_when_there_is_space(tmp_path, disk):
    seen, path = [], tmp_path / "run"
    stored = []
    with pytest.warns(CheckpointWarning, match="No space left") as warned:
        result = minimize(
            full_from(disk, 2, 4, seen),
            BOX,
            6,
            checkpoint=path,
            callbacks=[lambda opt, trial: stored.append(len(told(path)))],
            **QUIET,
        )
    assert len(warned) == 1, "said once"
    assert stored == [1, 1, 1, 1, 5, 6]
    assert len(seen) == len(set(seen)) == 6, "nothing is evaluated twice"
    assert Optimizer.load(path).trials == result.trials


def told(path):
    return [t for t in Optimizer.load(path).trials if t.state is TrialState.COMPLETE]


def test_fault_34_a_disk_that_stays_full_is_an_error_with_the_result(tmp_path, disk):
    seen, path = [], tmp_path / "run"
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(CheckpointNotSaved, match=re.escape(str(path))) as raised,
    ):
        minimize(full_from(disk, 3, 99, seen), BOX, 4, checkpoint=path, **QUIET)
    assert [t.value for t in raised.value.result.trials] == [sphere(x) for x in seen]
    assert len(told(path)) == 2
    disk.full = False
    raised.value.optimizer.save(path)
    raised.value.optimizer.close()
    result = minimize(sphere, BOX, 5, checkpoint=path, **QUIET)
    assert result.trials == minimize(sphere, BOX, 5, **QUIET).trials
    assert len(seen) == 4


def test_fault_34_before_any_evaluation_a_full_disk_is_an_error_at_once(tmp_path, disk):
    seen = []
    disk.full = True
    with pytest.raises(CheckpointError, match="No space left"):
        minimize(full_from(disk, 0, 99, seen), BOX, 4, checkpoint=tmp_path / "run", **QUIET)
    assert not seen


def test_fault_34_an_error_of_the_objective_says_what_is_not_saved(tmp_path, disk):
    def f(x):
        disk.full = True
        raise KeyError("boom")

    with pytest.warns(CheckpointWarning), pytest.raises(KeyError) as raised:
        minimize(f, BOX, 4, checkpoint=tmp_path / "run", **QUIET)
    assert any("not in the checkpoint" in note for note in raised.value.__notes__)


@pytest.mark.parametrize("answer", [1, "yes", [0], np.float64(1.0), object()], ids=lambda a: type(a).__name__)
def test_fault_41_only_true_ends_the_run(answer):
    result = minimize(sphere, BOX, 3, callbacks=[lambda o, t: answer], **QUIET)
    assert result.stopped == "budget"


@pytest.mark.parametrize("answer", [True, np.True_], ids=repr)
def test_fault_41_true_does(answer):
    assert minimize(sphere, BOX, 3, callbacks=[lambda o, t: answer], **QUIET).stopped == "callback"


def test_fault_46_a_lambda_works_in_processes():
    offset = 3.0
    result = minimize(lambda x: float(np.square(x).sum()) + offset, BOX, 3, n_workers=2, **QUIET)
    assert [t.value for t in result.trials] == [sphere(t.params) + 3.0 for t in result.trials]


NOTEBOOK = """
import numpy as np
from modeseek import DMSConfig, Space, minimize

class Diverged(Exception):
    def __init__(self, loss, step):
        super().__init__(f"loss {loss} in step {step}")

def f(x):
    if x[0] > 0:
        raise Diverged(float(x[0]), 3)
    return float(np.square(x).sum())

minimize(f, Space.box([-5, -5], [5, 5]), 4, n_workers=2, catch=(Diverged,), seed=0, progress=False).trials
"""


def test_fault_46_what_is_typed_into_a_notebook_works_in_processes():
    """Typed at a prompt: as in a notebook, the main module has no file that a worker could import."""
    done = subprocess.run([sys.executable, "-i", "-q"], input=NOTEBOOK, capture_output=True, text=True, timeout=120)
    assert "Trial(number=3, " in done.stdout, done.stderr
    assert "failed" in done.stdout
    assert "complete" in done.stdout


def test_fault_46_without_cloudpickle_one_line_says_why_not_before_anything_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ConfigError, match=r'install cloudpickle, .* or use executor="thread"') as raised:
        minimize(lambda x: 1.0, BOX, 3, n_workers=2, **QUIET)
    assert "\n" not in str(raised.value)


def test_fault_46_a_notebook_without_cloudpickle():
    hidden = NOTEBOOK.replace("import numpy", "import sys; sys.modules['cloudpickle'] = None; import numpy")
    done = subprocess.run([sys.executable, "-i", "-q"], input=hidden, capture_output=True, text=True, timeout=120)
    assert "ConfigError: the objective cannot go to worker processes (it is defined in a notebook" in done.stderr


def test_fault_46_what_cannot_go_at_all():
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"cannot go to worker processes .*lock"):
        minimize(lambda x: lock.locked(), BOX, 3, n_workers=2, **QUIET)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("value", [None, (1.0, 2.0), {"loss": 1.0}, "1.5", [1.0], 1j], ids=repr)
def test_fault_47_a_first_value_that_is_never_a_number_stops_at_once(value, workers, tmp_path):
    calls = []

    def f(x):
        calls.append(x)
        return value

    executor = {"executor": "thread"} if workers == 2 else {}
    with pytest.raises(ObjectiveTypeError, match="must return one finite number") as raised:
        minimize(f, BOX, 20, n_workers=workers, checkpoint=tmp_path / "run", **executor, **QUIET)
    assert isinstance(raised.value, TypeError)
    assert (type(value).__name__ if value is not None else "None") in str(raised.value)
    assert 1 <= len(calls) <= workers  # the second worker may not have begun by then
    first = Optimizer.load(tmp_path / "run").trials[0]
    assert first.state is TrialState.FAILED


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Outcome(1.0, constraints="a"), "the constraints are a str"),
        (Outcome(1.0, constraints={"a": 1}), "the constraints are a dict"),
        (Outcome(1.0, constraints=[0.0, None]), "constraint 1 is None"),
        (Outcome(1.0, constraints=[True]), "at most 0"),
        (Outcome(1.0, sem="a"), "sem is a str"),
        (object(), "the value is a object"),
        (np.array([1.0, 2.0]), r"an array of shape \(2,\)"),
        ([1.0, 2.0], r"directions=\[\.\.\.\].*--direction minimize,maximize.*the value is a list"),
    ],
)
def test_fault_47_mistakes_in_constraints_standard_errors_and_shapes_stop_at_once(value, said):
    calls = []
    with pytest.raises(ObjectiveTypeError, match=said):
        minimize(lambda x: calls.append(x) or value, BOX, 20, **QUIET)
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore::modeseek.TrialFailedWarning")
def test_fault_47_unless_catch_says_otherwise_or_it_is_not_a_number_by_accident():
    with pytest.raises(AllTrialsFailed, match="all 4 trials failed"):
        minimize(lambda x: None, BOX, 20, catch=(TypeError,), max_failures=4, **QUIET)
    for value in (np.nan, np.inf, np.array([np.nan]), Outcome(1.0, [np.nan]), Outcome(1.0, sem=np.nan)):
        with pytest.raises(AllTrialsFailed, match="all 2 trials failed"):
            minimize(lambda x, value=value: value, BOX, 20, max_failures=2, **QUIET)
    values = iter([1.0, None, "x", 2.0])
    result = minimize(lambda x: next(values), BOX, 4, **QUIET)
    assert [t.value for t in result.trials] == [1.0, None, None, 2.0]
