"""Bad objectives: faults 1 to 5 and 25 of docs/faults.md; see also test_faults_running.py."""

import itertools
import os
import signal
import textwrap
import warnings

import numpy as np
import pytest
import torch
from bad_objectives import diverges, interrupted_worker

from forked import Forked
from modeseek import (
    AllTrialsFailed,
    ConfigError,
    DMSConfig,
    Float,
    Optimizer,
    Outcome,
    Space,
    TrialFailedWarning,
    TrialState,
    minimize,
)
from modeseek.fitting import fit_surrogate
from shared import BOX, CHEAP, sphere, until

QUIET = {"progress": False, "config": CHEAP, "seed": 0, "n_initial": 3}


def every_third(bad):
    """The sphere, but bad() on every third call."""
    calls = iter(range(10**6))
    return lambda x: bad() if next(calls) % 3 == 1 else sphere(x)


def boom():
    raise KeyError("boom")


def test_fault_01_the_objective_raises(tmp_path):
    kept = []
    with pytest.raises(KeyError, match="boom") as raised:
        minimize(
            every_third(boom), BOX, 9, checkpoint=tmp_path / "run", callbacks=[lambda o, t: kept.append(t)], **QUIET
        )
    assert "trial 1" in raised.value.__notes__[0]
    first, failed = Optimizer.load(tmp_path / "run").trials
    assert [first, failed] == kept
    assert first.state is TrialState.COMPLETE
    assert failed.state is TrialState.FAILED
    assert 'raise KeyError("boom")' in failed.error  # the traceback, down to the line


def test_fault_01_the_objective_raises_what_is_caught():
    result = minimize(every_third(boom), BOX, 9, catch=(KeyError,), **QUIET)
    assert [t.number for t in result.trials if t.state is TrialState.FAILED] == [1, 4, 7]
    assert minimize(every_third(boom), BOX, 3, catch=LookupError, **QUIET).best is not None
    with pytest.raises(KeyError):
        minimize(every_third(boom), BOX, 9, catch=(ValueError,), **QUIET)


def test_fault_01_side_by_side_with_an_exception_that_does_not_pickle():
    with pytest.raises(RuntimeError, match="Diverged: loss inf in step 3"):
        minimize(diverges, BOX, 4, n_workers=2, **QUIET)
    with pytest.raises(RuntimeError, match="Diverged: loss inf in step 3"):
        minimize(diverges, BOX, 2, n_workers=2, catch=(RuntimeError,), **QUIET)  # it is none


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(float("nan"), "NaN", id="fault_02_nan"),
        pytest.param(np.array([np.nan]), "NaN", id="fault_02_nan_in_an_array"),
        pytest.param(float("inf"), "infinite", id="fault_03_inf"),
        pytest.param(float("-inf"), "infinite", id="fault_03_minus_inf"),
        pytest.param(torch.tensor(torch.inf), "infinite", id="fault_03_inf_tensor"),
        pytest.param(None, "None", id="fault_04_none"),
        pytest.param("fast", "str", id="fault_04_string"),
        pytest.param("1.5", "str", id="fault_04_numeral"),
        pytest.param(np.zeros(2), "shape", id="fault_04_array_of_two"),
        pytest.param(1j, "complex", id="fault_04_complex"),
    ],
)
def test_fault_02_03_04_what_is_no_finite_number(bad, message):
    with pytest.warns(TrialFailedWarning, match=message):
        result = minimize(every_third(lambda: bad), BOX, 6, **QUIET)
    failed = [t for t in result.trials if t.state is TrialState.FAILED]
    assert [t.number for t in failed] == [1, 4]
    assert all(message in t.error and t.value is None for t in failed)
    assert message == "NaN" or "NaN" not in failed[0].error

    opt = Optimizer(BOX, config=CHEAP, seed=0, n_initial=2)
    for value in (1.0, 2.0, bad):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrialFailedWarning)
            opt.tell(opt.ask(), value)
    state, history = opt._proposer.state, opt._trials.history("minimize")
    opt.ask()
    # Never shown to the surrogate: what it expects anywhere is what it expects from the others alone.
    alone = fit_surrogate(
        torch.from_numpy(history.X)[None], torch.from_numpy(history.Y)[None], CHEAP, state.hyperparameters
    )
    x = torch.rand(1, 50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with_failed = opt.suggestion.gp.objective
    torch.testing.assert_close(with_failed.posterior(x)[0], alone.posterior(x)[0], atol=1e-6, rtol=1e-6)
    assert [t.state is TrialState.FAILED for t in opt.trials] == [False, False, True, False]


@pytest.mark.parametrize("number", [np.array(2.5), np.array([2.5]), torch.tensor(2.5), torch.tensor([[2.5]])], ids=repr)
def test_fault_04_an_array_or_tensor_of_one_is_a_number(number):
    assert minimize(lambda x: number, BOX, 2, **QUIET).best.value == 2.5


def test_fault_04_warnings_made_errors_lose_no_trial():
    opt = Optimizer(BOX, seed=0)
    trial = opt.ask()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TrialFailedWarning):
            opt.tell(trial, None)
    assert opt.trials[0].state is TrialState.FAILED


def uphill(x):
    """The better, the nearer to what fails."""
    return np.nan if x[0] > 0.5 else 1 - x[0] + (x[1] - 0.3) ** 2


@pytest.mark.filterwarnings("ignore::modeseek.TrialFailedWarning")
def test_fault_02_where_evaluations_fail_is_learned():
    """Without that nearly all of the last 20 fail, close together, and the best is 0.8 to 5."""
    for seed in (0, 1):
        result = minimize(uphill, BOX, 30, seed=seed, n_initial=10, config=DMSConfig.fast(), progress=False)
        assert result.best.value < 0.55
        failed = [t.unit for t in result.trials if t.state is TrialState.FAILED]
        assert 2 < len(failed) < 24
        assert min(np.abs(np.subtract(a, b)).max() for a, b in itertools.combinations(failed, 2)) > 1e-9


@pytest.mark.filterwarnings("ignore::modeseek.TrialFailedWarning")
def test_fault_02_where_evaluations_fail_no_optimum_is_expected():
    opt = Optimizer(BOX, config=CHEAP, seed=0, n_initial=20)
    for trial in opt.ask(24):
        opt.tell(trial, uphill(trial.params))
    optimum = opt.optimum(draws=64)
    assert np.mean([x[0] < 0.6 for x in optimum.samples]) > 0.9
    assert "evaluations, and 1" in str(optimum).splitlines()[0]
    assert opt.recommend().params[0] <= 0.5
    batch = opt.ask(16)
    assert np.mean([trial.params[0] < 0.6 for trial in batch]) >= 0.75, "side by side, too"


@pytest.mark.filterwarnings("ignore::modeseek.TrialFailedWarning")
def test_fault_02_failures_beside_constraints_and_several_objectives():
    def fails(x):
        return np.nan if x[0] > 0.5 else Outcome(1 - x[0], constraints=[x[1] - 0.6])

    result = minimize(fails, BOX, 30, seed=0, n_initial=10, config=CHEAP, progress=False)
    assert result.best.feasible
    assert result.best.value < 0.52

    def front(x):
        return (np.nan, np.nan) if x[0] > 0.5 else (1 - x[0], (x[1] - 0.3) ** 2 + x[0])

    result = minimize(front, BOX, 26, directions=["minimize"] * 2, seed=0, n_initial=10, config=CHEAP, progress=False)
    assert sum(not trial.values for trial in result.trials) < 10, "11 without what is learned"
    assert min(trial.values[0] for trial in result.front) < 0.53


@pytest.mark.filterwarnings("ignore::modeseek.TrialFailedWarning")
@pytest.mark.parametrize(("budget", "limit", "stops"), [(50, 10, 10), (50, 4, 4), (3, 10, 3)])
def test_fault_05_every_trial_fails(tmp_path, budget, limit, stops):
    with pytest.raises(AllTrialsFailed, match=f"all {stops} trials failed.*NaN") as raised:
        minimize(lambda x: np.nan, BOX, budget, max_failures=limit, checkpoint=tmp_path / "run", **QUIET)
    assert len(raised.value.trials) == stops
    assert len({t.unit for t in raised.value.trials}) == stops
    assert Optimizer.load(tmp_path / "run").trials == raised.value.trials


@pytest.mark.parametrize("value", [None, "0.5", (1.0, True), Outcome(None)])
def test_fault_04_what_is_known_without_a_number_is_refused(value):
    with pytest.raises(ConfigError, match=r"^known= has \{'x': 0.5\}: .*; leave out what has no value, or give NaN"):
        minimize(lambda p: 1.0, Space({"x": Float(0, 1)}), 3, known=[({"x": 0.1}, 1.0), ({"x": 0.5}, value)], **QUIET)


@pytest.mark.filterwarnings("ignore::modeseek.TrialFailedWarning")
def test_fault_05_what_was_known_is_no_failure_of_this_run():
    known = [(np.full(2, i / 10), np.nan) for i in range(5)]
    calls = iter(range(100))
    result = minimize(lambda x: np.nan if next(calls) < 2 else 1.0, BOX, 4, known=known, max_failures=3, **QUIET)
    assert len(result.trials) == 9
    with pytest.raises(AllTrialsFailed, match="all 3 trials failed"):
        minimize(lambda x: np.nan, BOX, 4, known=known, max_failures=3, **QUIET)


@pytest.mark.filterwarnings("ignore::modeseek.TrialFailedWarning")
def test_fault_05_one_success_is_enough_to_go_on():
    calls = iter(range(100))
    result = minimize(lambda x: 1.0 if next(calls) == 2 else np.nan, BOX, 8, max_failures=3, **QUIET)
    assert sum(t.state is TrialState.FAILED for t in result.trials) == 7


def test_fault_25_ctrl_c_in_the_objective(tmp_path):
    calls = iter(range(100))

    def interrupted(x):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return sphere(x)

    result = minimize(interrupted, BOX, 9, checkpoint=tmp_path / "run", **QUIET)
    assert result.stopped == "interrupted"
    assert [t.state.value for t in result.trials] == ["complete"] * 4 + ["running"]
    assert Optimizer.load(tmp_path / "run").trials == result.trials
    resumed = minimize(sphere, BOX, 9, checkpoint=tmp_path / "run", **QUIET)
    assert resumed.trials == minimize(sphere, BOX, 9, **QUIET).trials


def test_fault_25_ctrl_c_in_a_save(tmp_path, monkeypatch):
    save, calls = Optimizer.save, iter(range(100))

    def interrupted(opt, path):
        if next(calls) == 5:  # after the third trial is told
            raise KeyboardInterrupt
        save(opt, path)

    monkeypatch.setattr(Optimizer, "save", interrupted)
    result = minimize(sphere, BOX, 9, checkpoint=tmp_path / "run", **QUIET)
    assert [t.state.value for t in result.trials] == ["complete"] * 3
    assert Optimizer.load(tmp_path / "run").trials == result.trials


def test_fault_25_ctrl_c_with_workers(tmp_path):
    """A signal to the whole process group, as a terminal sends it, while one worker is busy and one is idle."""
    (tmp_path / "job.py").write_text(
        textwrap.dedent("""
        import signal, time
        from modeseek import Space, minimize
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits it as ignored
        def f(x):
            try:
                open("first", "x").close()
                return 1.0
            except FileExistsError:
                open("second", "x").close()
                time.sleep(60)
        if __name__ == "__main__":
            result = minimize(f, Space.box([0], [1]), 2, n_workers=2, checkpoint="run", progress=False, seed=0,
                              callbacks=[lambda opt, trial: open("told", "x").close()])
            print(result.stopped, sorted(t.state.value for t in result.trials))
        """)
    )
    job = Forked("job.py", cwd=tmp_path, start_new_session=True)
    until(lambda: (tmp_path / "second").exists() and (tmp_path / "told").exists())
    os.killpg(job.pid, signal.SIGINT)
    out, err = job.communicate(timeout=30)
    assert out.strip() == "interrupted ['complete', 'running']"
    assert not err, "no traceback of a worker"
    assert job.returncode == 0
    assert len(Optimizer.load(tmp_path / "run").pending) == 1


def test_fault_25_workers_leave_ctrl_c_to_their_parent():
    result = minimize(interrupted_worker, BOX, 3, n_workers=2, **QUIET)
    assert result.stopped == "budget"
    assert len(result.trials) == 3


def test_fault_01_a_region_that_always_fails_is_left():
    """Without an outcome there, a surrogate that forgot failed trials would propose the same place again and again."""

    def objective(x):
        if x.sum() > 1.5 or (x < 0.05).any():
            raise ValueError("it does not work there")
        return float(10 * np.square(x - 0.4).sum() - np.sin(8 * x[0]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        box, config = Space.box([0, 0], [1, 1]), DMSConfig.fast()
        result = minimize(objective, box, 28, seed=0, config=config, n_initial=8, catch=(ValueError,), progress=False)
    failed = [trial.state is TrialState.FAILED for trial in result.trials]
    assert sum(failed) <= 11
    assert result.best.value < -0.6
