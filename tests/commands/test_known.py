"""What `modeseek optimize` is told beforehand: functions as constraints, --known, --transfer, another space."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial

import modeseek as ms
from modeseek.commands import main
from modeseek.commands.optimize import known, store
from modeseek.commands.optimize.sources import read_csv
from modeseek.commands.optimize.storage import open_storage
from modeseek.integrations.optuna import DMSSampler

SPACE = """
[x]
type = "float"
low = 0.0
high = 1.0

[k]
type = "int"
low = 0
high = 9

[act]
type = "categorical"
choices = ["a", "b"]

[slope]
type = "float"
low = 0.0
high = 1.0
when = {act = "b"}
"""
CONSTRAINT = '\n[[constraints]]\nfunction = "task:feasible"\n'
TASK = """
def f(params):
    return (params["x"] - 0.3) ** 2 + params["k"] + (params["act"] == "b")

def gain(params):
    return -f(params)

feasible = lambda params: params["x"] >= 0.5 and not (params["act"] == "b" and params["slope"] > 0.5)

def raises(params):
    return params["z"] > 0

def limited(params):
    return f(params), [0.5 - params["x"]]

number = 3
"""
CSV = """x,k,act,slope,value,note
0.1,1,a,,1.5,of Monday
0.2,2.0,b,0.25,2.5,"of Tuesday,
with a new lens"
0.4,3,a,,,broken
"""
RUN = ["optimize", "task:f", "--space", "space.toml", "--startup", "100", "--seed", "0"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("space.toml").write_text(SPACE)
    Path("task.py").write_text(TASK)
    Path("known.csv").write_text(CSV)
    yield tmp_path
    for name in ("task", "spy"):
        sys.modules.pop(name, None)
    optuna.logging.set_verbosity(optuna.logging.INFO)


def study(name: str = "task:f") -> optuna.Study:
    return optuna.load_study(study_name=name, storage="sqlite:///modeseek.db")


def trials(name: str = "task:f") -> list[FrozenTrial]:
    return study(name).trials


def told(name: str = "task:f") -> list[FrozenTrial]:
    return [trial for trial in trials(name) if "known" in trial.user_attrs]


def test_a_function_of_the_space_file_holds_for_every_trial(capsys: pytest.CaptureFixture[str]) -> None:
    Path("space.toml").write_text(SPACE + CONSTRAINT)
    assert main([*RUN, "--trials", "6"]) == 0
    assert main([*RUN, "--trials", "10", "--workers", "2", "--fixed", "act=b"]) == 0
    params = [trial.params for trial in trials()]
    assert len(params) == 10
    assert all(p["x"] >= 0.5 and p.get("slope", 0) <= 0.5 for p in params)
    assert {p["act"] for p in params[6:]} == {"b"}
    capsys.readouterr()
    sys.modules.pop("task")
    assert main(["optimize", "--show"]) == 0
    assert "give --space FILE" in capsys.readouterr().out
    assert "task" not in sys.modules, "what a storage names is not imported"
    assert main(["optimize", "--show", "--space", "space.toml"]) == 0
    said = capsys.readouterr().out
    assert "What 10 evaluations say of the minimum" in said
    (low,) = re.findall(r"90 % probability: x (\S+) to", said)
    assert float(low) >= 0.5


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ('function = "nowhere:feasible"', "module 'nowhere' cannot be imported"),
        ('function = "task:feasibl"', "did you mean 'feasible'"),
        ('function = "task:number"', "not a function but 3"),
        ('function = "task"', "'task' must be MODULE:FUNCTION"),
        ("function = 3", "'3' must be MODULE:FUNCTION"),
        ('function = "task:feasible"\nupper = 1', "function goes without upper"),
        ('function = "task:raises"', "task:raises(params) must return True or False, but raised KeyError: 'z'"),
    ],
)
def test_a_function_that_cannot_be_used_is_one_line(
    constraint: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("space.toml").write_text(SPACE + "[[constraints]]\n" + constraint)
    assert main([*RUN, "--trials", "2"]) == 1
    complaint = capsys.readouterr().err
    assert said in complaint.splitlines()[-1]
    assert "Traceback" not in complaint


def test_nothing_is_imported_for_a_file_that_is_wrong() -> None:
    Path("spy.py").write_text("from pathlib import Path\nPath('imported').touch()\ndef feasible(params): return True\n")
    for wrong in ("lower = 2\ncoefficients = {x = 1}", "coefficients = {y = 1}\nupper = 1"):
        Path("space.toml").write_text(f'{SPACE}[[constraints]]\nfunction = "spy:feasible"\n[[constraints]]\n{wrong}')
        assert main([*RUN, "--trials", "2"]) == 1
    assert not Path("imported").exists()


def test_known_evaluations_of_a_csv_file_count_once_and_not_toward_the_trials(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = [*RUN, "--known", "known.csv"]
    assert main([*run, "--trials", "2"]) == 0
    said = capsys.readouterr()
    assert "known.csv: 2 evaluated; 1 without a value" in said.err
    assert "4 trials (4 complete), 2 of them known beforehand" in said.out
    assert main([*run, "--trials", "3"]) == 0
    assert "has 2 of 3 trials" in capsys.readouterr().err
    first, second, *own = trials()
    assert len(own) == 3
    assert (first.params, first.value) == ({"x": 0.1, "k": 1, "act": "a"}, 1.5)
    assert (second.params, second.value) == ({"x": 0.2, "k": 2, "act": "b", "slope": 0.25}, 2.5)
    assert second.user_attrs["known"] == "known.csv, line 4"
    Path("known.csv").write_text(CSV + "0.5,5,a,,5.5,\n")
    assert main([*run, "--trials", "3"]) == 0
    assert len(trials()) == 6, "only what is new"


def test_known_evaluations_count_toward_the_initial_design(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    class Spy(DMSSampler):
        def __init__(self, **arguments: Any) -> None:
            given.append(arguments)
            super().__init__(**arguments)

    monkeypatch.setattr("modeseek.integrations.optuna.DMSSampler", Spy)
    run = ["optimize", "task:f", "--space", "space.toml", "--seed", "0", "--preset", "fast", "--known", "known.csv"]
    assert main([*run, "--startup", "2", "--trials", "1"]) == 0
    assert main([*run, "--startup", "3", "--trials", "1", "--study", "sobol"]) == 0
    assert [arguments["n_trials"] for arguments in given] == [3, 3]
    assert trials()[2].params != trials("sobol")[2].params, "the model's, and a point of the design"


def test_the_tables_of_results_and_studies_are_read_back(tmp_path: Path) -> None:
    space = ms.Space({"x": ms.Float(0, 1), "act": ms.Categorical(["a", "b"]), "n": ms.Int(1, 3, when={"act": "b"})})

    def f(params: dict[str, Any]) -> ms.Outcome:
        if params["x"] > 0.8:
            raise ValueError("two\nlines")
        return ms.Outcome(params["x"], constraints=[params["x"] - 0.5, 1.0], sem=0.1)

    result = ms.minimize(f, space, 8, seed=0, catch=ValueError, progress=False)
    result.to_dataframe().to_csv("result.csv")
    source = read_csv("result.csv", space)
    done = [trial for trial in result.trials if trial.value is not None]
    assert [row.params for row in source.rows] == [trial.params for trial in done]
    assert [row.found for row in source.rows] == [(t.values, t.constraints, t.sem) for t in done]
    assert source.without == 8 - len(done) > 0
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    other = optuna.create_study(directions=["minimize", "maximize"])
    other.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 2.0), n_trials=3)
    other.trials_dataframe().to_csv("study.csv")
    source = read_csv("study.csv", ms.Space({"x": ms.Float(0, 1)}))
    assert [(row.params, row.found.values) for row in source.rows] == [
        (t.params, tuple(t.values)) for t in other.trials
    ]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_table_may_have_semicolons_or_tabs_between_its_columns(mark: str) -> None:
    """Excel writes semicolons, and a comma in numbers, where people write numbers so."""
    space = ms.Space({"x": ms.Float(0, 1), "act": ms.Categorical(["a,b", "c"])})
    rows = [["x", "act", "value", "sem"], ["0.25", "a,b", "-1.5", "0.5"], ["1", "c", "", ""]]
    for point in (".", ","):
        cells = [[cell.replace(".", point if mark == ";" else ".") for cell in row] for row in rows]
        Path("known.csv").write_text("\n".join(mark.join(row) for row in cells), encoding="utf-8-sig")
        source = read_csv("known.csv", space)
        assert [(row.params, row.found) for row in source.rows] == [({"x": 0.25, "act": "a,b"}, ((-1.5,), (), 0.5))]
        assert source.without == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,k,act\n", "there is no column 'value'"),
        ("x,act,value\n", "there is no column 'k'"),
        ("x,k,act,params_z,value\n", "the space has no parameter 'z'"),
        ("x,k,act,x,value\n", "two columns 'x'"),
        ("x,k,act,value\n0.1,1,a\n", "line 2 has 3 cells, and the first line 4"),
        ("x,k,act,value\n0.1,one,a,3\n", "line 2: k is 'one', not a number"),
        ("x,k,act,value\n0.1,1,a,3\n0.1,1,a,low\n", "line 3: value is 'low', not a number"),
        ("x,k,act,value,sem\n0.1,1,a,3,-1\n", "line 2: sem is -1.0"),
        ("x,k,act,value\n7,1,a,3\n", "no evaluation of known.csv lies in the space; line 2: parameter 'x'"),
        ("x,k,act,values_0,values_1\n0.1,1,a,3,4\n", "--direction minimize,maximize"),
        ("x,k,act,value,constraints_0\n0.1,1,a,3,0\n0.1,1,a,3,\n", "line 3: constraint 0 is NaN"),
        ("x;k;act;value\n0.1;1;a;low\n", "line 2: value is 'low', not a number"),
        ("x;k;act;value\n0.1;1;a;1.000,5\n", "line 2: value is '1.000,5', not a number"),
        ("x k act value\n0.1 1 a 3\n", "['x k act value']; columns are separated by commas, semicolons or tabs"),
        ("\x00,k", "known.csv"),
    ],
)
def test_a_csv_file_that_is_wrong_is_said_before_anything_is_made(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("known.csv").write_text(text)
    assert main([*RUN, "--known", "known.csv"]) == 1
    complaint = capsys.readouterr().err
    assert said in complaint
    assert "Traceback" not in complaint
    assert optuna.get_all_study_names("sqlite:///modeseek.db") == []


def test_a_new_study_goes_on_with_other_choices_as_the_error_says(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["optimize", "task:gain", *RUN[2:]]
    assert main([*run, "--direction", "maximize", "--trials", "6"]) == 0
    old = trials("task:gain")
    assert {trial.params["act"] for trial in old} == {"a", "b"}
    Path("space.toml").write_text(SPACE.replace('["a", "b"]', '["c", "b"]'))
    capsys.readouterr()
    assert main([*run, "--trials", "7"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    arguments = complaint.split("learns from it: ")[1].split()
    assert arguments == ["--study", "task:gain-2", "--known", "task:gain"]
    assert main([*run, *arguments, "--trials", "1"]) == 0
    kept = [trial for trial in old if trial.params["act"] == "b"]
    said = capsys.readouterr().err
    assert f"6 evaluated; {6 - len(kept)} outside of the space, not learned from (trial " in said
    assert "parameter 'act': 'a' is not one of ['c', 'b']" in said
    assert [trial.params for trial in told("task:gain-2")] == [trial.params for trial in kept]
    assert [trial.value for trial in told("task:gain-2")] == [trial.value for trial in kept]
    assert study("task:gain-2").direction.name == "MAXIMIZE", "as in the study that it goes on from"
    assert main([*run, *arguments, "--direction", "minimize", "--study", "third"]) == 1
    assert "use --direction maximize" in capsys.readouterr().err


def test_other_parameters_are_a_related_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--trials", "4"]) == 0
    Path("space.toml").write_text(SPACE.replace("[k]", "[n]"))
    capsys.readouterr()
    assert main([*RUN, "--trials", "5"]) == 1
    assert "--study task:f-2 --transfer task:f\n" in capsys.readouterr().err


def test_known_evaluations_of_a_checkpoint_and_of_a_study_with_constraints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    space = ms.Space(
        {"x": ms.Float(0, 1), "k": ms.Int(0, 9), "act": ms.Categorical(["a"])}, constraints=[lambda p: p["x"] < 0.9]
    )
    with_one = ms.minimize(lambda p: (p["x"], [0.1 - p["x"]]), space, 3, seed=0, checkpoint="run.ms", progress=False)
    Path("space.toml").write_text(SPACE[: SPACE.index("[slope]")].replace('["a", "b"]', '["a"]'))
    run = ["optimize", "task:limited", *RUN[2:], "--known", "run.ms"]
    assert main([*run, "--trials", "1"]) == 0
    first, *_ = trials("task:limited")
    assert (first.params, first.value) == (with_one.trials[0].params, with_one.trials[0].value)
    assert first.system_attrs["constraints"] == list(with_one.trials[0].constraints or ())
    assert len(trials("task:limited")) == 4
    assert main([*RUN, "--known", "task:limited"]) == 1
    said = capsys.readouterr().err
    assert "there are no constraints, but trial 0 (known: study 'task:limited', trial 0) has 1" in said
    assert len(trials()) == 5, "the first evaluation of ours is never a number"
    Path("known.csv").write_text("x,k,act,value\n0.1,1,a,3\n")
    assert main([*run, "--known", "known.csv", "--trials", "1"]) == 1
    assert "known.csv, line 2: there are no constraints, and others have 1" in capsys.readouterr().err


def test_a_finite_space_ends_where_known_points_leave_nothing() -> None:
    Path("space.toml").write_text('[k]\ntype = "int"\nlow = 0\nhigh = 5\n')
    Path("task.py").write_text("def f(params):\n    return params['k']\n")
    Path("known.csv").write_text("k,value\n0,0\n3,3\n")
    assert main([*RUN, "--known", "known.csv"]) == 0
    assert sorted(trial.params["k"] for trial in trials()) == list(range(6))


def test_transfer_reaches_the_sampler_of_each_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--trials", "5", "--study", "last month"]) == 0
    best = study("last month").best_params
    space = ms.Space({"x": ms.Float(0, 1)})
    ms.maximize(lambda p: p["x"], space, 4, seed=0, checkpoint="run.ms", progress=False)
    run = [*RUN, "--study", "new", "--transfer"]
    assert main([*run, "last month", "--trials", "1"]) == 0
    assert trials("new")[0].params == best, "the first point of the design is the best of the earlier study"
    assert main([*run, "last month", "--transfer", "run.ms", "--trials", "2", "--workers", "2"]) == 0
    assert len(trials("new")) == 2
    capsys.readouterr()
    for wrong, said in [
        ("nowhere", "no such study in this storage; it has 'last month', 'new'"),
        ("lost month", "did you mean 'last month'"),
        ("known.csv", "a CSV file is for --known"),
        ("new", "the study itself"),
    ]:
        assert main([*run, wrong]) == 1
        assert said in capsys.readouterr().err
    assert main([*run, "last month", "--study", "front", "--direction", "minimize,maximize"]) == 1
    assert "--transfer is for one objective" in capsys.readouterr().err
    assert "front" not in optuna.get_all_study_names("sqlite:///modeseek.db")
    assert main([*run, "empty"]) == 1


def test_one_command_adds_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another command was adding the same evaluations when this one looked: it waits, and finds nothing left."""
    storage = open_storage("sqlite:///modeseek.db")
    space = ms.Space({"x": ms.Float(0, 1), "k": ms.Int(0, 9), "act": ms.Categorical(["a", "b"])})
    Path("known.csv").write_text("x,k,act,value\n0.1,1,a,3\n")
    source = read_csv("known.csv", space)
    new, _ = store.open_study(storage, "task:f", None, space, 0)
    storage.set_study_system_attr(new._study_id, known.ADDING, "elsewhere:1")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:  # meanwhile the other one finishes
            storage.set_study_system_attr(new._study_id, known.ADDING, store.worker_name())
            known.add_known(new, space, [source])

    monkeypatch.setattr(known.time, "sleep", sleep)
    known.add_known(new, space, [source])
    assert waits
    assert len(new.trials) == 1
