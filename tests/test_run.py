"""minimize and maximize: the loop around an objective."""

import concurrent.futures
import functools
import multiprocessing
import os
import pickle
import sys
import threading
import types

import numpy as np
import pytest

from modeseek import (
    AllTrialsFailed,
    Categorical,
    CheckpointError,
    ConfigError,
    DMSConfig,
    Float,
    Int,
    ModeseekError,
    Optimizer,
    Result,
    Space,
    TrialState,
    maximize,
    minimize,
)
from shared import BOX, CHEAP, meet, sphere

NAMED = Space({"lr": Float(1e-5, 1e-1, log=True), "units": Int(50, 200), "act": Categorical(["relu", "tanh"])})
QUIET = {"progress": False, "config": CHEAP, "seed": 0}


def named(p):
    return (np.log10(p["lr"]) + 3) ** 2 + abs(p["units"] - 100) / 50 + (p["act"] == "tanh")


def test_minimize_and_maximize_mirror_each_other():
    low = minimize(sphere, BOX, 16, n_initial=6, **QUIET)
    high = maximize(lambda x: -sphere(x), BOX, 16, n_initial=6, **QUIET)
    assert low.best.value == -high.best.value < 0.5
    assert [t.unit for t in low.trials] == [t.unit for t in high.trials]
    assert (low.direction, high.direction) == ("minimize", "maximize")
    assert low.stopped == "budget"
    assert len(low.trials) == 16


def test_named_parameters_come_as_a_dict_that_the_objective_may_change():
    def careless(p):
        return (np.log10(p.pop("lr")) + 3) ** 2 + p.pop("units") / 100

    result = minimize(careless, NAMED, 8, n_initial=4, **QUIET)
    assert all(list(t.params) == ["lr", "units", "act"] for t in result.trials)


def test_the_result_prints_pickles_and_becomes_a_table():
    result = minimize(named, NAMED, 7, n_initial=5, **QUIET)
    text = str(result)
    assert "7 trials (7 complete)" in text
    assert "units" in text
    assert f"{result.best.value:.6g}" in text
    again = pickle.loads(pickle.dumps(result))
    assert isinstance(again, Result)
    assert str(again) == text
    assert again.best == result.best == min(result.trials, key=lambda t: t.value)
    assert result.recommended in result.trials
    table = result.to_dataframe()
    assert table["value"].tolist() == [t.value for t in result.trials]
    assert "sem" not in table
    assert table["params_act"].tolist() == [t.params["act"] for t in result.trials]
    assert list(minimize(sphere, BOX, 2, **QUIET).to_dataframe()["params_x1"]) != []


def test_the_plot_shows_every_value_and_the_best_so_far():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    values = iter([3.0, 5.0, 1.0, 2.0])
    ax = minimize(lambda x: next(values), BOX, 4, **QUIET).plot(Figure().subplots())
    assert ax.collections[0].get_offsets()[:, 1].tolist() == [3, 5, 1, 2]
    assert ax.lines[0].get_ydata().tolist() == [3, 3, 1, 1]


def test_extras_that_are_missing_are_named(monkeypatch):
    result = minimize(sphere, BOX, 2, **QUIET)
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for method in (result.to_dataframe, result.plot):
        with pytest.raises(ModeseekError, match=r"pip install .*\[plots\]"):
            method()


def test_the_bar_shows_the_best_value(capsys):
    values = iter([3.0, 1.25, 2.0])
    minimize(lambda x: next(values), BOX, 3, seed=0)
    bar = capsys.readouterr().err
    assert "3/3" in bar
    assert "best=1.25" in bar
    minimize(sphere, BOX, 3, progress=False)
    assert capsys.readouterr().err == ""


def test_callbacks_see_each_trial_and_can_stop():
    seen = []

    def stop(opt, trial):
        seen.append((opt.trials[trial.number], trial))
        return trial.number == 3

    result = minimize(sphere, BOX, 20, callbacks=[stop, lambda opt, trial: None], **QUIET)
    assert result.stopped == "callback"
    assert len(result.trials) == len(seen) == 4
    assert all(a == b and b.state is TrialState.COMPLETE for a, b in seen)


def test_no_trial_begins_after_the_timeout(monkeypatch):
    seconds = iter(range(10**6))
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr("modeseek.execution.budget.time", clock)

    def slow(x):
        for _ in range(100):
            next(seconds)
        return 1.0

    result = minimize(slow, BOX, 100, timeout=350, **QUIET)
    assert result.stopped == "timeout"
    assert len(result.trials) == 4
    assert minimize(slow, BOX, 5, timeout=0, **QUIET).best is None


def test_threads_evaluate_side_by_side():
    barrier = threading.Barrier(3, timeout=10)

    def together(x):
        barrier.wait()  # passes only when three are there at once
        return sphere(x)

    result = minimize(together, BOX, 12, n_initial=6, n_workers=3, executor="thread", **QUIET)
    assert len(result.trials) == 12
    assert len({t.unit for t in result.trials}) == 12


def test_processes_evaluate_side_by_side(tmp_path):
    result = minimize(functools.partial(meet, tmp_path), BOX, 6, n_workers=2, **QUIET)
    ids = {t.value for t in result.trials}
    assert len(ids) == 2
    assert os.getpid() not in ids


def test_an_executor_of_ones_own_stays_open():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        result = minimize(sphere, BOX, 6, n_workers=2, executor=pool, **QUIET)
        assert pool.submit(sphere, np.ones(2)).result() == 2.0
    assert len(result.trials) == 6


def test_an_executor_of_processes_of_ones_own_works_too():
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
        result = minimize(sphere, BOX, 3, n_workers=2, executor=pool, **QUIET)
        shift = 2.0
        shifted = minimize(lambda x: sphere(x) + shift, BOX, 3, n_workers=2, executor=pool, **QUIET)
        lock = threading.Lock()
        with pytest.raises(ConfigError, match=r"^the objective cannot go to worker processes .* pickle"):
            minimize(lambda x: lock.locked(), BOX, 3, n_workers=2, executor=pool, **QUIET)
    assert all(t.value == sphere(t.params) for t in result.trials)
    assert all(t.value == sphere(t.params) + 2 for t in shifted.trials)


def test_the_suggestions_of_workers_do_not_depend_on_where_they_run():
    here = minimize(sphere, BOX, 7, n_initial=4, **QUIET)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        there = minimize(sphere, BOX, 7, n_initial=4, executor=pool, **QUIET)
    assert here.trials == there.trials


def test_failed_trials_get_another_chance_when_asked_for(tmp_path):
    broken, calls = [True], []

    def flaky(x):
        calls.append(x)
        if broken[0] and len(calls) in (2, 4):
            raise ValueError("the lab is closed")
        return sphere(x)

    path = tmp_path / "run"
    first = minimize(flaky, BOX, 5, catch=(ValueError,), checkpoint=path, **QUIET)
    failed = [t.number for t in first.trials if t.state is TrialState.FAILED]
    assert failed == [1, 3]
    broken[0] = False
    assert minimize(flaky, BOX, 5, checkpoint=path, **QUIET).trials == first.trials, "they count"
    assert len(calls) == 5
    again = minimize(flaky, BOX, 5, checkpoint=path, retry_failed=True, **QUIET)
    assert len(calls) == 7
    assert [t.value for t in again.trials] == [sphere(t.params) for t in first.trials]
    assert Optimizer.load(path).trials == again.trials


def test_a_finite_space_ends_the_run():
    result = minimize(lambda p: p["a"], Space({"a": Int(0, 4)}), 50, n_initial=2, **QUIET)
    assert result.stopped == "space exhausted"
    assert "each configuration is evaluated once" in str(result)
    assert sorted(t.value for t in result.trials) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"n_workers": 0}, "n_workers"),
        ({"executor": "gpu"}, "executor"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"max_failures": 0}, "max_failures"),
        ({"f": 3}, "objective"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense(settings, word):
    with pytest.raises(ConfigError, match=word):
        minimize(**{"f": sphere, "space": BOX, "budget": 3, **QUIET, **settings})


def test_the_loop_asks_what_the_optimizer_would():
    result = minimize(sphere, BOX, 8, n_initial=5, **QUIET)
    opt = Optimizer(BOX, seed=0, config=CHEAP, n_initial=5)
    for trial in result.trials:
        assert opt.ask(left=8 - trial.number).unit == trial.unit
        opt.tell(trial.number, trial.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("catch", [3]),
        ("catch", "ValueError"),
        ("catch", KeyboardInterrupt),
        ("callbacks", print),
        ("callbacks", [3]),
        ("timeout", "5"),
        ("timeout", -1),
        ("checkpoint", 5),
        ("checkpoint", ""),
    ],
)
def test_settings_without_meaning_are_refused_before_any_evaluation(setting, value):
    def never(x):
        raise AssertionError("evaluated")

    with pytest.raises(ConfigError, match=setting):
        minimize(never, Space.box([0], [1]), 3, progress=False, **{setting: value})


def test_catch_takes_a_list():
    def fails(x):
        raise ValueError("no")

    with pytest.raises(AllTrialsFailed):
        minimize(fails, Space.box([0], [1]), 3, catch=[ValueError], progress=False)


def test_what_a_sibling_has_finished_is_told_when_a_callback_raises(tmp_path):
    barrier = threading.Barrier(2)

    def together(x):
        barrier.wait(timeout=30)
        return 1.0

    class Remembering(concurrent.futures.ThreadPoolExecutor):
        def submit(self, *args):
            futures.append(super().submit(*args))
            return futures[-1]

    def bad(opt, trial):
        concurrent.futures.wait(futures)  # until the sibling has finished, too
        raise RuntimeError("callback")

    futures, path = [], tmp_path / "run"
    with Remembering() as executor, pytest.raises(RuntimeError, match="callback"):
        minimize(
            together,
            Space.box([0], [1]),
            2,
            n_workers=2,
            executor=executor,
            callbacks=[bad],
            checkpoint=path,
            progress=False,
        )
    assert [trial.state.value for trial in Optimizer.load(path).trials] == ["complete", "complete"]


def test_a_checkpoint_of_other_settings_says_which_differ(tmp_path):
    path = tmp_path / "run.modeseek"
    space = Space.box([0], [1])
    settings = {"seed": 0, "progress": False, "checkpoint": path}
    minimize(lambda x: float(x[0]), space, 2, config=DMSConfig(m=64), **settings)
    with pytest.raises(CheckpointError, match=r"its config has m=64, not 128; give the same") as caught:
        minimize(lambda x: float(x[0]), space, 3, config=DMSConfig(m=128), **settings)
    assert len(str(caught.value)) < 200 + len(str(path))
