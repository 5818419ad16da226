"""`modeseek optimize`: a function, a space file, and a study that goes on where it stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import FrozenTrial

import modeseek as ms
from forked import Forked
from forked import run as run_forked
from modeseek.commands import main
from modeseek.commands.optimize.run import GRACE
from modeseek.commands.optimize.show import summary
from modeseek.fronts import hypervolume
from modeseek.integrations.optuna import DMSSampler
from shared import until

SPACE = """
[lr]
type = "float"
low = 1e-5
high = 1e-1
log = true

[units]
type = "int"
low = 50
high = 200
step = 10

[act]
type = "categorical"
choices = ["relu", "tanh"]
"""

OBJECTIVES = """
import math, os, signal, sys, time
from pathlib import Path

def loss(params):
    return (math.log10(params["lr"]) + 3) ** 2 + (params["units"] - 120) ** 2 / 1e4 + (params["act"] == "tanh")

def gain(params):
    return -loss(params)

def slow(params):
    print("evaluating", flush=True)
    for _ in range(5 if Path("hurry").exists() else 600):  # a signal just before a long sleep would wait for its end
        time.sleep(0.1)
    return loss(params)

def steady(params):
    time.sleep(0.3)
    return loss(params)

def picky(params):
    if params["act"] == "tanh":
        raise ValueError("no tanh here")
    return loss(params)

def hopeless(params):
    raise ZeroDivisionError("always")

def leaving(params):
    sys.exit("enough")

def not_a_number(params):
    return [math.nan, math.inf, 2.5, "1.5", None][int(params["units"] / 10) % 5]  # a number first

def deadly(params):
    # At the point of its first call it ends the process, each time.
    try:
        with open("deadly point", "x") as file:
            file.write(repr(params))
    except FileExistsError:
        pass
    if Path("deadly point").read_text() == repr(params):
        open("deaths", "a").write("x")
        os._exit(7)
    return loss(params)

def dies_once(params):
    try:
        Path("died").touch(exist_ok=False)
    except FileExistsError:
        return loss(params)
    os.kill(os.getpid(), signal.SIGKILL)

def closed_at_first(params):
    if Path("open").exists() or params["act"] == "relu":
        return loss(params)
    raise OSError("the lab is closed")

def nothing(params):
    loss(params)

def pair(params):
    return loss(params), 0.1

def bounded(params):
    return loss(params), [params["units"] - 100.0]

def with_errors(params):
    import modeseek
    return modeseek.Outcome([loss(params), params["units"]], sem=[0.1, None])

def both(params):
    return loss(params), params["units"]

def too_small(params):
    return loss(params), [params["units"] - 10.0]

def no_arguments():
    return 0.0

def two_arguments(a, b):
    return 0.0

def optional(params, *, verbose=False):
    return loss(params)

def never(params):
    return False

number = 3
"""

RUN = ["--space", "space.toml", "--startup", "100", "--seed", "0"]  # the model is slow and tested elsewhere


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("space.toml").write_text(SPACE)
    Path("objectives.py").write_text(OBJECTIVES)
    yield tmp_path
    for name in ("objectives", "broken", "leaver", "needy"):
        sys.modules.pop(name, None)
    optuna.logging.set_verbosity(optuna.logging.INFO)


def trials(study: str = "objectives:loss", storage: str = "sqlite:///modeseek.db") -> list[FrozenTrial]:
    return optuna.load_study(study_name=study, storage=storage).trials


def states(*args: str) -> Counter[str]:
    return Counter(trial.state.name for trial in trials(*args))


def test_a_run_goes_on_to_the_total_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["optimize", "objectives:loss", "--space", "space.toml", "--startup", "5", "--seed", "3"]
    assert main([*run, "--trials", "6"]) == 0
    said = capsys.readouterr()
    assert "6/6" in said.err
    assert "best=" in said.err
    assert re.search(r"best value \S+ \(trial \d\)", said.out)
    assert main([*run, "--trials", "9"]) == 0
    assert "6 of 9 trials" in capsys.readouterr().err
    assert [trial.number for trial in trials()] == list(range(9))
    capsys.readouterr()
    for fewer in ("9", "5"):
        assert main([*run, "--trials", fewer]) == 0, "nothing is left to do"
        assert f"{fewer}/{fewer}" in capsys.readouterr().err
    assert len(trials()) == 9
    assert all(set(trial.params) == {"lr", "units", "act"} for trial in trials())
    assert {trial.params["units"] % 10 for trial in trials()} == {0}


def test_known_constraints_and_fixed_values_hold_from_the_first_trial_on(capsys: pytest.CaptureFixture[str]) -> None:
    limits = SPACE + '[w]\ntype = "float"\nlow = 0\nhigh = 100\n[[constraints]]\n'
    Path("space.toml").write_text(limits + "coefficients = {units = 1, w = 1}\nequals = 130.5")
    run = ["optimize", "objectives:loss", *RUN, "--fixed", "lr=0.003"]
    assert main([*run, "--trials", "3"]) == 0
    assert main([*run, "--trials", "5", "--fixed", "act=tanh"]) == 0
    params = [trial.params for trial in trials()]
    assert len(params) == 5
    assert max(abs(p["units"] + p["w"] - 130.5) for p in params) < 1e-9
    assert {p["lr"] for p in params} == {0.003}
    assert {p["act"] for p in params[3:]} == {"tanh"}
    study = optuna.load_study(study_name="objectives:loss", storage="sqlite:///modeseek.db")
    assert ms.Space.from_dict(study.user_attrs["space"]).constraints == (ms.Linear({"units": 1, "w": 1}, equals=130.5),)
    assert main([*run, "--trials", "6", "--fixed", "act=tanh", "--fixed", "act=relu"]) == 1
    assert "'act' has a value already, 'tanh'" in capsys.readouterr().err
    assert main([*run, "--fixed", "units=140"]) == 1
    assert "no configuration with" in capsys.readouterr().err


@pytest.mark.parametrize("finite", [True, False])
def test_fault_48_a_function_that_allows_nothing_is_one_line(finite: bool, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f'[{name}]\ntype = "int"\nlow = 0\nhigh = 9\n' for name in "abc")
    rows += "" if finite else '[w]\ntype = "float"\nlow = 0\nhigh = 1\n'
    limits = ["coefficients = {a = 1, b = 1, c = 1}\nequals = 9", "coefficients = {a = 1, b = -1}\nupper = 2"]
    limits.append('function = "objectives:never"')
    Path("space.toml").write_text(rows + "".join(f"[[constraints]]\n{limit}\n" for limit in limits))
    assert main(["optimize", "objectives:nothing", *RUN, "--trials", "3"]) == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.match(r"modeseek: none of .* that meet the linear constraints is allowed by objectives:never", said)


def test_the_best_with_fixed_values_is_said_at_the_end_and_by_show(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["optimize", "objectives:loss", *RUN]
    assert main([*run, "--trials", "2", "--fixed", "act=relu"]) == 0  # tanh costs 1 more
    assert main([*run, "--trials", "4", "--fixed", "act=tanh", "--fixed", "units=200", "--fixed", "lr=0.1"]) == 0
    assert "best with act='tanh', units=200, lr=0.1: value 5.64" in capsys.readouterr().out
    study = optuna.load_study(study_name="objectives:loss", storage="sqlite:///modeseek.db")
    assert "best with act='tanh': value 5.64" in summary(study, {"act": "tanh"})
    assert "best with" not in summary(study, {"act": "relu"}), "it is the best of all"
    assert main(["optimize", "--show", "--space", "space.toml", "--fixed", "units=60"]) == 0
    assert "no feasible trial with units=60" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["optimize", "--show", "--fixed", "act=tanh"])
    assert "needs --space" in capsys.readouterr().err


@pytest.mark.parametrize(("direction", "first"), [("minimize", 1.0), ("maximize", 9.0)])
def test_the_best_with_the_fixed_values_is_said_where_another_is_best(direction: str, first: float) -> None:
    study = optuna.create_study(direction=direction)
    for value, machine in ((first, "A"), (5.0, "B"), (4.0 if first > 5 else 6.0, "B")):
        machines = optuna.distributions.CategoricalDistribution(["A", "B"])
        study.add_trial(optuna.trial.create_trial(params={"m": machine}, distributions={"m": machines}, value=value))
    assert "best with m='B': value 5 (trial 1)\n  m  'B'" in summary(study, {"m": "B"})
    for fixed in ({"m": "A"}, {}, None):
        assert "best with" not in summary(study, fixed)


def test_constraints_are_kept_where_optuna_looks_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["optimize", "objectives:bounded", *RUN, "--trials", "6"]
    assert main(run) == 0
    study = optuna.load_study(study_name="objectives:bounded", storage="sqlite:///modeseek.db")
    feasible = [trial for trial in study.trials if trial.params["units"] <= 100]
    assert study.best_value == min(trial.value for trial in feasible)
    assert f"best value {study.best_value:.6g}" in capsys.readouterr().out
    assert main(["optimize", "objectives:loss", *RUN, "--study", "objectives:bounded", "--trials", "7"]) == 0
    assert "there are no constraints, but trial 0 has 1" in capsys.readouterr().err
    assert main(["optimize", "objectives:bounded", "--show"]) == 0


def test_a_study_of_two_objectives_ends_in_a_front(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["optimize", "objectives:both", *RUN]
    assert main([*run, "--trials", "5", "--direction", "minimize,maximize"]) == 0
    study = optuna.load_study(study_name="objectives:both", storage="sqlite:///modeseek.db")
    said = capsys.readouterr()
    assert f"front of {len(study.best_trials)}" in said.out
    assert all(f"(trial {trial.number})" in said.out for trial in study.best_trials)
    assert main([*run, "--trials", "6"]) == 0, "the study keeps its directions"
    assert main([*run, "--trials", "7", "--reference=1,-9"]) == 0
    study = optuna.load_study(study_name="objectives:both", storage="sqlite:///modeseek.db")
    volume = hypervolume([trial.values for trial in study.best_trials], [-1, 1], [1, -9])
    assert f"hypervolume {volume:.6g};" in capsys.readouterr().out
    for wrong in ("1", "1,2,3", "1,nan"):
        assert main([*run, "--trials", "7", f"--reference={wrong}"]) == 1
        assert "reference must be 2 finite numbers" in capsys.readouterr().err
    assert main([*run, "--trials", "6", "--direction", "minimize"]) == 1
    assert "use --direction minimize,maximize" in capsys.readouterr().err
    assert main([*run, "--trials", "9", "--stop-regret", "0.1"]) == 1
    assert "one objective" in capsys.readouterr().err
    capsys.readouterr()
    assert main(["optimize", "objectives:both", "--show", "--plot", "front.png", "--reference=1,-9"]) == 0
    assert f"hypervolume {volume:.6g};" in capsys.readouterr().out
    assert Path("front.png").stat().st_size > 1000


def test_standard_errors_of_two_objectives_reach_the_sampler() -> None:
    run = ["optimize", "objectives:with_errors", *RUN, "--direction", "minimize,maximize"]
    assert main([*run, "--trials", "3"]) == 0
    study = optuna.load_study(
        study_name="objectives:with_errors", storage="sqlite:///modeseek.db", sampler=(sampler := DMSSampler())
    )
    history = sampler._codec(study, sampler.infer_relative_search_space(study, None)).read(study)
    assert history.sem is not None
    assert history.sem[:, 0].tolist() == [0.1] * 3
    assert np.isnan(history.sem[:, 1]).all()


def test_nothing_feasible_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "objectives:too_small", *RUN, "--trials", "4"]) == 0
    said = capsys.readouterr()
    least = min(trials("objectives:too_small"), key=lambda trial: trial.params["units"])
    assert f"least violated by trial {least.number}" in said.out
    assert "nothing feasible yet" in said.err


def test_without_a_seed_the_study_keeps_its_own() -> None:
    run = ["optimize", "objectives:loss", "--space", "space.toml", "--startup", "100"]
    assert main([*run, "--trials", "8"]) == 0
    assert main([*run, "--study", "twin", "--seed", str(seed_of("objectives:loss")), "--trials", "4"]) == 0
    assert main([*run, "--study", "twin", "--trials", "8"]) == 0
    assert [trial.params for trial in trials("twin")] == [trial.params for trial in trials()]


def seed_of(study: str) -> int:
    seed = optuna.load_study(study_name=study, storage="sqlite:///modeseek.db").user_attrs["seed"]
    assert isinstance(seed, int)
    return seed


@pytest.mark.parametrize("preset", ["default", "fast", "paper"])
def test_the_sampler_gets_what_the_command_says(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    class Spy(DMSSampler):
        def __init__(self, **arguments: Any) -> None:
            given.append(arguments)
            super().__init__(**arguments)

    monkeypatch.setattr("modeseek.integrations.optuna.DMSSampler", Spy)
    options = ["--preset", preset, "--threads", "2", "--trials", "3", "--noise", "none"]
    assert main(["optimize", "objectives:loss", *RUN, *options]) == 0
    config = {"default": ms.DMSConfig(), "fast": ms.DMSConfig.fast(), "paper": ms.DMSConfig.paper(3)}[preset]
    expected = {"seed": 0, "config": config, "n_startup_trials": 100, "device": "cpu", "threads": 2, "n_trials": 3}
    expected["deterministic_objective"] = True
    (sampler,) = given
    assert expected.items() <= sampler.items()
    assert sampler.keys() - expected.keys() == {"space", "fixed", "prior", "transfer", "reference"}


def test_maximize_is_kept_and_not_mixed_up(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["optimize", "objectives:gain", *RUN]
    assert main([*run, "--direction", "maximize", "--trials", "5"]) == 0
    assert main([*run, "--trials", "6"]) == 0, "the study knows its direction"
    study = optuna.load_study(study_name="objectives:gain", storage="sqlite:///modeseek.db")
    assert study.direction.name == "MAXIMIZE"
    assert study.best_value == max(trial.value for trial in study.trials if trial.value is not None)
    capsys.readouterr()
    assert main([*run, "--direction", "minimize", "--trials", "7"]) == 1
    assert "direction maximize, not minimize" in capsys.readouterr().err
    assert len(study.trials) == 6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("high = 200", "high = 51", "'units'"), ('"tanh"]', '"tanh", "elu"]', "'act'"), ("[lr]", "[rate]", "'lr'")],
)
def test_another_space_is_refused(old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "objectives:loss", *RUN, "--trials", "2"]) == 0
    Path("space.toml").write_text(SPACE.replace(old, new))
    assert main(["optimize", "objectives:loss", *RUN, "--trials", "4"]) == 1
    complaint = capsys.readouterr().err
    assert "another space" in complaint
    assert said in complaint
    assert len(trials()) == 2


def test_a_study_of_too_many_objectives_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    optuna.create_study(storage="sqlite:///modeseek.db", study_name="six", directions=["minimize"] * 6)
    assert main(["optimize", "objectives:loss", *RUN, "--study", "six"]) == 1
    assert main(["optimize", "--show", "--study", "six"]) == 1
    assert capsys.readouterr().err.count("6 objectives") == 2


def test_a_journal_file_and_a_name_of_any_kind() -> None:
    name = "a/b'; DROP TABLE studies; -- \N{GREEK SMALL LETTER MU} $x$"
    run = ["optimize", "objectives:loss", *RUN, "--storage", "team.journal", "--study", name]
    assert main([*run, "--trials", "3"]) == 0
    assert main([*run, "--trials", "5"]) == 0
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend("team.journal"))
    assert len(optuna.load_study(study_name=name, storage=storage).trials) == 5
    before = set(Path().iterdir())
    assert main(["optimize", "--show", "--storage", "team.journal"]) == 0
    (picture,) = set(Path().iterdir()) - before
    assert picture.suffix == ".png"


def test_a_storage_in_memory_is_one_storage() -> None:
    assert main(["optimize", "objectives:loss", *RUN, "--storage", "sqlite:///:memory:", "--trials", "2"]) == 0


def test_failed_trials_are_kept_counted_and_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "objectives:picky", *RUN, "--trials", "8"]) == 0
    said = capsys.readouterr()
    failed = [trial for trial in trials("objectives:picky") if trial.state.name == "FAIL"]
    assert 0 < len(failed) < 8
    assert said.err.count("failed: ValueError: no tanh here") == len(failed)
    assert f"failed={len(failed)}" in said.err
    for trial in failed:
        assert trial.params["act"] == "tanh"
        assert "objectives.py" in trial.user_attrs["error"], "the traceback"
    assert len(trials("objectives:picky")) == 8


def test_what_is_no_finite_number_is_a_failed_trial() -> None:
    assert main(["optimize", "objectives:not_a_number", *RUN, "--trials", "20"]) == 0
    for trial in trials("objectives:not_a_number"):
        kind = trial.params["units"] // 10 % 5
        assert trial.state.name == ("COMPLETE" if kind == 2 else "FAIL")
        if kind != 2:
            assert ["NaN", "infinite", "", "str", "None"][kind] in trial.user_attrs["error"]


@pytest.mark.parametrize(
    ("objective", "asked", "counted"), [("hopeless", 4, 4), ("hopeless", 60, 10), ("leaving", 3, 3)]
)
def test_when_all_trials_fail_so_does_the_command(
    objective: str, asked: int, counted: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", f"objectives:{objective}", *RUN, "--trials", str(asked)]) == 1
    assert f"all {counted} trials failed" in capsys.readouterr().err
    assert states(f"objectives:{objective}") == {"FAIL": counted}


def test_a_study_whose_trials_were_all_pruned_elsewhere_has_no_best(capsys: pytest.CaptureFixture[str]) -> None:
    study = optuna.create_study(storage="sqlite:///modeseek.db", study_name="pruned")
    study.add_trial(optuna.create_trial(state=optuna.trial.TrialState.PRUNED))
    assert main(["optimize", "objectives:loss", *RUN, "--study", "pruned", "--trials", "1"]) == 1
    assert "no best trial" in capsys.readouterr().err


def test_a_small_space_ends_the_run() -> None:
    Path("space.toml").write_text('[act]\ntype = "categorical"\nchoices = ["a", "b", "c"]')
    Path("objectives.py").write_text("def loss(params):\n    return 'abc'.index(params['act'])\n")
    assert main(["optimize", "objectives:loss", *RUN]) == 0
    assert sorted(trial.params["act"] for trial in trials()) == ["a", "b", "c"]


def test_what_was_interrupted_in_a_small_space_is_evaluated_after_all() -> None:
    """Though a better value is to be had by repeating another."""
    Path("space.toml").write_text('[k]\ntype = "int"\nlow = 0\nhigh = 7')
    Path("objectives.py").write_text(
        "from pathlib import Path\n"
        "def loss(params):\n"
        "    if params['k'] == 7 and not Path('hurry').exists():\n"
        "        raise KeyboardInterrupt\n"
        "    return params['k']\n"
    )
    run = ["optimize", "objectives:loss", *RUN, "--startup", "8"]
    assert main(run) == 130
    Path("hurry").touch()
    assert main(run) == 0
    assert states() == {"FAIL": 1, "COMPLETE": 8}
    assert sorted(trial.params["k"] for trial in trials() if trial.value is not None) == list(range(8))
    assert main(run) == 0
    assert len(trials()) == 9, "nothing is left to do"


def test_the_timeout_ends_it_early() -> None:
    assert main(["optimize", "objectives:steady", *RUN, "--timeout", "1"]) == 0
    assert 0 < len(trials("objectives:steady")) < 10


def test_ctrl_c_leaves_a_study_that_goes_on() -> None:
    script = str(Path(sys.executable).with_name("modeseek"))
    run = [script, "optimize", "objectives:slow", *RUN, "--trials", "4"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "evaluating\n"
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in complaint
    assert states("objectives:slow") == {"FAIL": 1}
    Path("hurry").touch()
    assert main(["optimize", "objectives:slow", *RUN, "--trials", "4"]) == 0
    assert states("objectives:slow") == {"FAIL": 1, "COMPLETE": 4}, "the one interrupted does not count"


@pytest.mark.parametrize("to_all", [True, False], ids=["as a terminal does", "to the parent alone"])
def test_ctrl_c_ends_the_workers_too(to_all: bool) -> None:
    run = ["optimize", "objectives:slow", *RUN, "--trials", "6", "--workers", "2"]
    with Forked("-m", "modeseek", *run, start_new_session=True) as process:
        assert [process.stdout.readline(), process.stdout.readline()] == ["evaluating\n"] * 2
        os.kill(-process.pid if to_all else process.pid, signal.SIGINT)
        began = time.monotonic()
        _, complaint = process.communicate(timeout=60)
    assert time.monotonic() - began < GRACE, "no worker had to be killed"
    assert process.returncode == 130
    assert "Traceback" not in complaint
    assert states("objectives:slow") == {"FAIL": 2}


def test_a_killed_run_leaves_nothing_running_once_it_goes_on() -> None:
    with Forked("-m", "modeseek", "optimize", "objectives:slow", *RUN, "--trials", "3") as process:
        process.stdout.readline()
        process.kill()
    assert states("objectives:slow") == {"RUNNING": 1}
    (running,) = trials("objectives:slow")
    until(lambda: not Path("/proc", running.user_attrs["worker"].rpartition(":")[2]).exists())
    Path("hurry").touch()
    assert main(["optimize", "objectives:slow", *RUN, "--trials", "3"]) == 0
    assert states("objectives:slow") == {"FAIL": 1, "COMPLETE": 3}


def test_running_trials_of_other_machines_and_living_processes_are_left_alone() -> None:
    assert main(["optimize", "objectives:loss", *RUN, "--trials", "1"]) == 0
    study = optuna.load_study(study_name="objectives:loss", storage="sqlite:///modeseek.db")
    for worker in ("elsewhere:1", f"{socket.gethostname()}:{os.getppid()}", f"{socket.gethostname()}:strange"):
        study.ask().set_user_attr("worker", worker)
    study.ask()
    assert main(["optimize", "objectives:loss", *RUN, "--trials", "2"]) == 0
    assert states() == {"COMPLETE": 2, "RUNNING": 4}


def test_workers_share_the_budget_to_the_trial(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "objectives:steady", *RUN, "--trials", "11", "--workers", "2"]) == 0
    done = trials("objectives:steady")
    assert [trial.state.name for trial in done] == ["COMPLETE"] * 11
    assert len({trial.user_attrs["worker"] for trial in done}) == 2
    assert "11/11" in capsys.readouterr().err
    assert len({tuple(trial.params.items()) for trial in done}) == 11


def test_a_worker_that_is_killed_costs_nothing_but_time(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "objectives:dies_once", *RUN, "--trials", "5", "--workers", "2"]) == 0
    done = trials("objectives:dies_once")
    assert states("objectives:dies_once") == {"COMPLETE": 5, "FAIL": 1}
    (killed,) = (trial for trial in done if trial.state.name == "FAIL")
    assert [t.params for t in done].count(killed.params) == 2, "it was tried again"
    assert "its point is tried again" in capfd.readouterr().err, "said by the parent or by the other worker"


def test_fault_32_a_trial_that_ends_its_worker_twice_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "objectives:deadly", *RUN, "--trials", "5", "--workers", "2"]) == 0
    assert Path("deaths").read_text() == "xx"
    check_deadly(5)
    said = capsys.readouterr().err
    assert said.count("ended with exit code 7; its point is tried again") == 1
    assert said.count("failed: the worker process ended with exit code 7; so it did in trial") == 1


def test_fault_32_a_trial_that_ends_the_only_process_twice_has_failed() -> None:
    ended = run_forked("-m", "modeseek", "optimize", "objectives:deadly", *RUN, "--trials", "4")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("an evaluation ended the process (exit code 7); going on in a new one") == 2
    assert Path("deaths").read_text() == "xx"
    check_deadly(4)


def check_deadly(total: int) -> None:
    """One point failed, in two trials of which the second counts; all others are complete."""
    done = trials("objectives:deadly")
    first, second = (trial for trial in done if trial.state.name == "FAIL")
    assert first.params == second.params
    assert "error" not in first.user_attrs
    assert "ended" in second.user_attrs["error"]
    assert states("objectives:deadly") == {"COMPLETE": total - 1, "FAIL": 2}


def test_failed_trials_get_another_chance_when_asked_for() -> None:
    run = ["optimize", "objectives:closed_at_first", *RUN, "--trials", "8"]
    assert main(run) == 0
    before = trials("objectives:closed_at_first")
    failed = [trial.params for trial in before if trial.state.name == "FAIL"]
    assert 0 < len(failed) < 8
    Path("open").touch()
    assert main(run) == 0
    assert len(trials("objectives:closed_at_first")) == 8, "failed ones count"
    assert main([*run, "--retry-failed"]) == 0
    again = trials("objectives:closed_at_first")[8:]
    assert [(trial.state.name, trial.params) for trial in again] == [("COMPLETE", params) for params in failed]
    assert main([*run, "--retry-failed"]) == 0
    assert len(trials("objectives:closed_at_first")) == 8 + len(failed), "nothing is left to do"


@pytest.mark.parametrize(("objective", "said"), [("nothing", "the value is None"), ("pair", "the value is a tuple")])
def test_fault_47_a_first_value_that_is_never_a_number_stops_at_once(
    objective: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", f"objectives:{objective}", *RUN]) == 1
    complaint = capsys.readouterr().err
    assert said in complaint
    assert "must return one finite number" in complaint
    assert "--direction minimize,maximize" in complaint
    assert states(f"objectives:{objective}") == {"FAIL": 1}


@pytest.mark.parametrize("storage", ["sqlite:///modeseek.db", "trials.journal"])
def test_fault_47_what_the_complaint_says_to_do_works(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The study is there by then, with one objective and its failed trial."""
    run = ["optimize", "objectives:both", *RUN, "--storage", storage]
    assert main(run) == 1
    assert "--direction minimize,maximize" in capsys.readouterr().err
    assert main([*run, "--trials", "3", "--direction", "minimize,maximize"]) == 0
    said = capsys.readouterr()
    assert "begun anew: minimize,maximize" in said.err
    assert "(minimize, maximize): 3 trials (3 complete)" in said.out
    assert main([*run, "--direction", "minimize"]) == 1, "what is complete is kept"
    assert "exists with direction minimize,maximize" in capsys.readouterr().err


def test_workers_that_cannot_start_end_the_run_with_their_error(capfd: pytest.CaptureFixture[str]) -> None:
    Path("objectives.py").write_text(
        "import multiprocessing\nassert multiprocessing.parent_process() is None, 'not here'\ndef loss(params): pass\n"
    )
    assert main(["optimize", "objectives:loss", *RUN, "--workers", "2"]) == 1
    said = capfd.readouterr().err
    assert "cannot be set up in a worker process" in said
    assert "not here" in said


def test_show_prints_the_best_and_writes_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "objectives:picky", *RUN, "--trials", "8"]) == 0
    capsys.readouterr()
    for arguments in (["objectives:picky"], ["--study", "objectives:picky", "--plot", "deep/er.png"], []):
        assert main(["optimize", *arguments, "--show"]) == 0
        said = capsys.readouterr().out
        best = min((t for t in trials("objectives:picky") if t.value is not None), key=lambda t: t.value or 0.0)
        assert f"best value {best.value:.6g} (trial {best.number})" in said
        assert re.search(rf"units\s+{best.params['units']}\n", said)
        assert re.search(r"8 trials \(\d complete, \d fail\)", said)
        assert re.search(r"What \d evaluations, and \d without an outcome, say of the minimum:\n(  .*\n){4}", said)
        picture = Path(said.split("picture: ")[1].strip())
        assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        picture.unlink()


def test_show_says_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for storage in ("sqlite:///nowhere.db", "nowhere.log"):
        assert main(["optimize", "--show", "--storage", storage]) == 1
        assert "does not exist" in capsys.readouterr().err
    assert not list(Path().glob("nowhere*"))
    optuna.create_study(storage="sqlite:///modeseek.db", study_name="first")
    assert main(["optimize", "--show", "--study", "frist"]) == 1
    assert "'first'" in capsys.readouterr().err
    assert main(["optimize", "--show"]) == 0, "a study without trials"
    assert "no trial is complete" in capsys.readouterr().out
    optuna.create_study(storage="sqlite:///modeseek.db", study_name="second")
    assert main(["optimize", "--show"]) == 1
    assert "choose one with --study: 'first', 'second'" in capsys.readouterr().err
    for picture in ("values.foo", "values", "."):
        assert main(["optimize", "--show", "--study", "first", "--plot", picture]) == 1
        assert ".png" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:loss", ["module 'nowhere'", os.sep]),
        ("nowhere.deep:loss", ["module 'nowhere.deep'", "no 'nowhere'"]),
        ("objectives.deep:loss", ["objectives.deep"]),
        ("broken:loss", ["module 'broken' cannot be imported", "broken.py", "line 2", "KeyError"]),
        ("leaver:loss", ["module 'leaver' cannot be imported", "sys.exit"]),
        ("needy:loss", ["module 'needy' cannot be imported", "no_such_library"]),
        ("objectives:los", ["'los'", "objectives.py", "did you mean 'loss'"]),
        ("objectives:loss.deep", ["'loss.deep'", "objectives.py"]),
        ("objectives:number", ["'number'", "not a function but 3"]),
        ("objectives:no_arguments", ["'no_arguments'", "takes ()", "one argument"]),
        ("objectives:two_arguments", ["'two_arguments'", "takes (a, b)", "one argument"]),
    ],
)
def test_an_objective_that_cannot_be_used_is_said_before_any_work(
    name: str, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.py").write_text("x = {}\nx['missing']\n")
    Path("leaver.py").write_text("import sys\nsys.exit(0)\n")
    Path("needy.py").write_text("import no_such_library\n")
    assert main(["optimize", name, *RUN]) == 1
    complaint = capsys.readouterr().err
    for part in said:
        assert part in complaint
    assert not Path("modeseek.db").exists()


def test_arguments_with_defaults_are_no_hindrance() -> None:
    assert main(["optimize", "objectives:optional", *RUN, "--trials", "1"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "MODULE:FUNCTION and --space are needed"),
        (["objectives:loss"], "--space"),
        (["objectives", *RUN], "must be MODULE:FUNCTION"),
        (["objectives.py:loss", *RUN], "objectives:loss"),
        (["objectives:loss", *RUN, "--trials", "0"], "at least 1"),
        (["objectives:loss", *RUN, "--workers", "many"], "at least 1"),
        (["objectives:loss", *RUN, "--direction", "up"], "is neither 'minimize' nor 'maximize'"),
        (["objectives:loss", *RUN, "--timeout", "-1"], "number above 0"),
        (["objectives:loss", *RUN, "--timeout", "nan"], "number above 0"),
        (["objectives:loss", *RUN, "--timeout", "soon"], "number above 0"),
        (["objectives:loss", *RUN, "--plot", "x.png"], "--show"),
    ],
)
def test_a_wrong_use_is_exit_status_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["optimize", *arguments])
    assert end.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--space", "nowhere.toml"], "nowhere.toml"),
        (["--storage", "study.db"], "sqlite:///study.db"),
        (["--storage", "sqlite.db"], "sqlite:///sqlite.db"),
        (["--seed", "-1"], "seed"),
        (["--startup", "-1"], "n_startup_trials"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_settings_that_are_wrong_are_said_without_a_traceback(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", "objectives:loss", *RUN, *arguments]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["optuna", "matplotlib.figure"])
def test_a_missing_extra_is_named_with_its_command(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    optuna.create_study(storage="sqlite:///modeseek.db", study_name="any")
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["optimize", "--show"]) == 1
    assert 'pip install -c constraints.txt ".[cli]"' in capsys.readouterr().err


def test_the_study_opens_in_optunas_dashboard() -> None:
    assert main(["optimize", "objectives:picky", *RUN, "--trials", "6"]) == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dashboard = str(Path(sys.executable).with_name("optuna-dashboard"))
    server = subprocess.Popen(
        [dashboard, "sqlite:///modeseek.db", "--port", str(port), "--server", "wsgiref"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def fetch(path: str) -> bytes:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return bytes(answer.read())
        except OSError:
            assert server.poll() is None, "the dashboard has ended"
            return b""

    try:
        until(lambda: fetch("/api/studies"))
        (study,) = json.loads(fetch("/api/studies"))["study_summaries"]
        assert study["study_name"] == "objectives:picky"
        detail = json.loads(fetch(f"/api/studies/{study['study_id']}?after=0"))
        assert len(detail["trials"]) == 6
    finally:
        server.terminate()
        server.wait()


def test_help_reads_well(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["--help"], ["optimize", "demo", "bench", "report"]),
        (
            ["optimize", "--help"],
            ["my_module:objective", "--trials N", "including earlier runs", "[lr]", "--show", "--known SOURCE"],
        ),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        said = capsys.readouterr().out
        assert end.value.code == 0
        assert all(word in said for word in words)
        assert max(map(len, said.splitlines())) <= 100
