"""Crashes and full disks: faults 20, 22 and 23 of docs/faults.md."""

import errno
import os
import re
import signal
import textwrap
import time

import pytest
from files import saved

from forked import Forked
from modeseek import CheckpointError, CheckpointInUse, Optimizer, TrialState, minimize
from shared import BOX, CHEAP, is_alive, sphere, until

resource = pytest.importorskip("resource", reason="limits and signals of POSIX")


def python(code, cwd):
    (cwd / "job.py").write_text(textwrap.dedent(code))
    return Forked("job.py", cwd=cwd)


RUN = """
    import os, signal, sys, time
    from modeseek import DMSConfig, Space, minimize
    log = open("told", "a")
    def f(x):
        if {die_in_trial} and len(open("told").readlines()) == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return float((x ** 2).sum())
    def told(opt, trial):
        print(repr(trial.value), file=log, flush=True)
    minimize(f, Space.box([-5, -5], [5, 5]), 200, seed=0, n_initial={n_initial}, checkpoint="run", progress=False,
             config=DMSConfig(m=64, K=2, S=32, epochs=2, steps=4, hidden=32, one_hill=0), callbacks=[told])
"""


def test_fault_20_kill_9_in_a_trial(tmp_path):
    with python(RUN.format(die_in_trial=True, n_initial=4), cwd=tmp_path) as job:
        assert job.wait(timeout=60) == -signal.SIGKILL
    told = [float(line) for line in (tmp_path / "told").read_text().split()]
    opt = Optimizer.load(tmp_path / "run")
    assert [t.value for t in opt.trials[:-1]] == told
    assert len(told) == 5
    assert opt.pending == [opt.trials[5]]  # offered again
    again = minimize(sphere, BOX, 8, seed=0, n_initial=4, config=CHEAP, checkpoint=tmp_path / "run", progress=False)
    whole = minimize(sphere, BOX, 8, seed=0, n_initial=4, config=CHEAP, progress=False)
    assert again.trials == whole.trials


def test_fault_20_kill_9_at_any_moment(tmp_path):
    """Sobol points only, so that nearly all the time goes into saving; killed where it happens to be."""
    for round_ in range(3):
        seen = len((tmp_path / "told").read_text().split()) if round_ else 0
        with python(RUN.format(die_in_trial=False, n_initial=1000), cwd=tmp_path) as job:
            log = tmp_path / "told"
            until(lambda: log.exists() and len(log.read_text().split()) > seen + 5)  # noqa: B023
            time.sleep(0.0137 * round_)  # to be elsewhere in a save; no moment is the wrong one
            job.kill()
        told = {float(line) for line in (tmp_path / "told").read_text().splitlines()}
        trials = Optimizer.load(tmp_path / "run").trials
        values = [t.value for t in trials if t.state is TrialState.COMPLETE]
        assert told <= set(values)  # every told value is there
        assert len(values) == len(set(values)) <= len(told) + round_ + 1  # a kill may come between save and log
        assert sum(t.state is TrialState.RUNNING for t in trials) <= 1


def test_fault_20_workers_end_with_a_killed_parent(tmp_path):
    code = """
        import os, time
        from modeseek import Space, minimize
        def f(x):
            open("worker-%d" % os.getpid(), "w").close()
            time.sleep(60)
        if __name__ == "__main__":
            minimize(f, Space.box([0], [1]), 9, n_workers=2, progress=False)
    """
    with python(code, cwd=tmp_path) as job:
        until(lambda: len(list(tmp_path.glob("worker-*"))) == 2)
        job.kill()
    workers = [int(p.name.split("-")[1]) for p in tmp_path.glob("worker-*")]
    until(lambda: not any(is_alive(pid) for pid in workers), 20)


@pytest.fixture
def full_disk():
    """Files may not grow beyond 100 bytes: a real failure of write(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def unharmed(opt, path, data, files):
    """The old file is whole, nothing is left over, and the optimizer goes on."""
    assert path.read_bytes() == data
    assert sorted(os.listdir(path.parent)) == files
    trial = opt.ask()
    opt.tell(trial, 1.0)


def test_fault_22_disk_full(tmp_path, request):
    path = tmp_path / "run"
    saved(path)
    opt = Optimizer.load(path)
    data, files = path.read_bytes(), sorted(os.listdir(tmp_path))
    room_again = request.getfixturevalue("full_disk")
    with pytest.raises(CheckpointError, match=re.escape(str(path))):
        opt.save(path)
    room_again()
    unharmed(opt, path, data, files)
    opt.save(path)
    assert Optimizer.load(path).trials == opt.trials


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_fault_22_every_step_of_a_save_may_fail(tmp_path, monkeypatch, step, code):
    path = tmp_path / "run"
    saved(path)
    opt = Optimizer.load(path)
    data, files = path.read_bytes(), sorted(os.listdir(tmp_path))

    def fail(*_):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(CheckpointError, match=os.strerror(code)):
            opt.save(path)
    unharmed(opt, path, data, files)


def test_fault_22_read_only_directory(tmp_path, monkeypatch):
    path = tmp_path / "run"
    saved(path)
    opt = Optimizer.load(path)
    data, files = path.read_bytes(), sorted(os.listdir(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)  # chmod does not stop a superuser
        with pytest.raises(CheckpointError, match="read-only"):
            opt.save(path)
        with pytest.raises(CheckpointError, match="read-only"):
            minimize(sphere, BOX, 3, checkpoint=path, progress=False)
    unharmed(opt, path, data, files)


HOLD = """
    import time
    from modeseek import Optimizer, Space
    opt = Optimizer(Space.box([-5, -5], [5, 5]), seed=99)
    opt.save("run")
    print("held", flush=True)
    time.sleep(60)
"""


def test_fault_23_two_processes_on_one_checkpoint(tmp_path):
    path = tmp_path / "run"
    with python(HOLD, cwd=tmp_path) as job:
        assert job.stdout.readline() == "held\n"
        before = path.read_bytes()
        with pytest.raises(CheckpointInUse, match=re.escape(str(path))):
            minimize(sphere, BOX, 3, checkpoint=path, progress=False)
        with pytest.raises(CheckpointInUse):
            Optimizer(BOX, seed=1).save(path)
        assert path.read_bytes() == before
        assert Optimizer.load(path).seed == 99
        job.kill()
    Optimizer(BOX, seed=1).save(path)  # a killed process holds nothing
    assert Optimizer.load(path).seed == 1
