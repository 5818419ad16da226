"""Values, choices and reports of strange types: faults 29, 39, 40 and 42 of docs/faults.md."""

import enum
import json

import pytest

from modeseek import (
    Categorical,
    CheckpointError,
    Float,
    Int,
    Optimizer,
    ParameterError,
    Space,
    SpaceChangedWarning,
    SpaceError,
    TrialFailedWarning,
    TrialState,
    minimize,
)
from modeseek.execution.evaluate import evaluate
from shared import CHEAP

SPACE = Space({"lr": Float(1e-3, 1, log=True), "units": Int(2, 8, step=2), "act": Categorical(["relu", "tanh"])})
GOOD = {"lr": 0.1, "units": 4, "act": "relu"}


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text for you")

    __repr__ = __str__


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text for you")


class Text(str):
    """Neither JSON's nor safetensors' idea of a string."""


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (137, "137"),
        (0, "0"),
        (ValueError("boom"), "ValueError: boom"),
        (UnprintableError(), "UnprintableError"),
        (b"killed", "killed"),
        (Text("killed"), "killed"),
        (["a", 1], "['a', 1]"),
        (" \n\t", "told as failed"),
        ("", "told as failed"),
        (None, "told as failed"),
        (Unprintable(), "Unprintable"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fault_29_an_error_of_any_type_is_kept_as_text(tmp_path, error, kept):
    opt = Optimizer(SPACE, seed=0)
    told = opt.tell(opt.ask(), failed=True, error=error)
    assert type(told.error) is str
    assert kept in told.error
    assert kept in repr(opt.trials)
    for _ in range(2):  # the second save makes a backup
        opt.save(tmp_path / "run")
    for name in ("run", "run.bak"):
        assert Optimizer.load(tmp_path / name).trials == opt.trials


def test_fault_29_an_exception_is_kept_with_its_traceback():
    opt = Optimizer(SPACE, seed=0)
    try:
        json.loads("no JSON")
    except ValueError as error:
        told = opt.tell(opt.ask(), failed=True, error=error)
    assert "test_faults_types.py" in told.error
    assert "JSONDecodeError" in repr(told)


class Activation(enum.Enum):
    RELU = object()  # a value that no file could hold
    TANH = (1, 2)


class Optim(enum.StrEnum):
    ADAM = "adam"
    SGD = "sgd"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(str, enum.Enum):  # noqa: UP042 - as it was written before StrEnum
    A = "a"
    B = "b"


@pytest.mark.parametrize("kind", [Activation, Optim, Level, Mixed])
def test_fault_39_members_of_an_enum_work_as_themselves(tmp_path, kind):
    space = Space({"a": Categorical(list(kind)), "x": Float(0, 1)})
    seen = []

    def f(params):
        seen.append(params["a"])
        return params["x"] + list(kind).index(params["a"])

    settings = {"config": CHEAP, "seed": 0, "n_initial": 4, "progress": False}
    whole = minimize(f, space, 8, **settings)
    assert set(map(type, seen)) == {kind}
    assert whole.best.params["a"] is next(iter(kind))
    assert space.validate({"a": list(kind)[1], "x": 0}) == {"a": list(kind)[1], "x": 0.0}
    assert whole.to_dataframe()["params_a"].tolist() == seen
    assert str(whole)

    path = tmp_path / "run"
    minimize(f, space, 5, checkpoint=path, **settings)
    again = Optimizer.load(path, space=space)
    assert [t.params for t in again.trials] == [t.params for t in whole.trials[:5]]
    assert {type(t.params["a"]) for t in again.trials} == {kind}
    resumed = minimize(f, space, 8, checkpoint=path, **settings)
    assert resumed.trials == whole.trials
    with pytest.raises(CheckpointError, match=r"'a' are members of an Enum.*space=space"):
        Optimizer.load(path)  # nothing in a file may name a class to import
    other = Space({"a": Categorical(list(kind)[1:]), "x": Float(0, 1)})
    with pytest.warns(SpaceChangedWarning, match=rf"not lie in .*'{kind.__name__}\.{next(iter(kind)).name}'"):
        narrower = Optimizer.load(path, space=other)
    used = [trial.params["a"] for trial in narrower.trials if trial.in_space]
    assert used == [trial.params["a"] for trial in whole.trials if trial.params["a"] is not next(iter(kind))]


def test_fault_39_what_is_equal_to_a_member_stands_for_it_and_nothing_else():
    space = Space({"a": Categorical([*Optim, Level.LOW, None])})
    assert space.validate({"a": "adam"})["a"] is Optim.ADAM
    assert space.validate({"a": 1})["a"] is Level.LOW
    for other in ("ADAM", "relu", True, 2, Activation.RELU):
        with pytest.raises(ParameterError, match="'a'"):
            space.validate({"a": other})
    assert space.validate({"a": Text("sgd")})["a"] is Optim.SGD
    assert type(Categorical([Text("b")]).check("b")) is str
    assert Space({"a": Categorical([Optim.ADAM])}) != Space({"a": Categorical(["adam"])})
    with pytest.raises(SpaceError, match="twice"):
        Categorical(["adam", Optim.ADAM])


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [(1e15, 1e15 + 1, 0.01), (-1e15, 1 - 1e15, 0.01), (1e300, 1.1e300, 1e284), (2**53, 2**53 + 9, 1)],
)
def test_fault_40_steps_finer_than_floating_point_numbers(low, high, step):
    with pytest.raises(SpaceError, match="finer than floating-point numbers"):
        Float(low, high, step=step)


@pytest.mark.parametrize(("low", "high", "step"), [(1e15, 1e15 + 9, 1), (-1e15, 9 - 1e15, 0.5), (2**50, 2**50 + 9, 1)])
def test_fault_40_the_finest_steps_give_every_value_once(low, high, step):
    parameter = Float(low, high, step=step)
    values = [parameter.decode(u) for u in parameter.centres()]
    assert values == [low + k * step for k in range(int(parameter.size))]
    assert len(set(values)) == parameter.size
    assert [parameter.decode(parameter.encode(parameter.check(value))) for value in values] == values
    for value in values[:-1]:
        with pytest.raises(ValueError, match="step"):
            parameter.check(value + step / 2)


@pytest.mark.parametrize("base", [2**53, 2**62, 2**63, 10**30, -(2**62)])
def test_fault_40_whole_numbers_beyond_2_to_the_53(tmp_path, base):
    space = Space({"n": Int(base, base + 10), "x": Float(0, 1)})
    settings = {"config": CHEAP, "seed": 0, "n_initial": 12, "progress": False, "checkpoint": tmp_path / "run"}
    seen = []

    def f(params):
        seen.append(params["n"])
        return params["n"] - base + params["x"]

    result = minimize(f, space, 14, **settings)
    assert {type(n) for n in seen} == {int}
    assert {n - base for n in seen} > {1, 3, 5, 7, 9}  # with 53 bits, odd numbers would be missing
    assert [t.params["n"] for t in Optimizer.load(tmp_path / "run").trials] == seen
    assert result.to_dataframe()["params_n"].tolist() == seen
    for k in range(11):
        assert space.decode(space.encode({"n": base + k, "x": 0.0}))["n"] == base + k


def test_fault_40_optuna_keeps_no_integers_beyond_2_to_the_53(tmp_path):
    optuna = pytest.importorskip("optuna")
    from modeseek.commands.optimize.space_file import read_space
    from modeseek.integrations.optuna_trials import distribution, is_modelled

    assert distribution(Int(-(2**53), 10 - 2**53)) == optuna.distributions.IntDistribution(-(2**53), 10 - 2**53)
    for low in (2**53, 2**62, -(2**62)):
        with pytest.raises(SpaceError, match=r"2\*\*53"):
            distribution(Int(low, low + 10))
        assert not is_modelled("n", optuna.distributions.IntDistribution(low, low + 10))
    (tmp_path / "space.toml").write_text(f'[n]\ntype = "int"\nlow = {2**62}\nhigh = {2**62 + 10}\n')
    with pytest.raises(SpaceError, match=r"space\.toml: \[n\].*2\*\*53"):
        read_space(tmp_path / "space.toml")
    with pytest.raises(SpaceError, match="Enum"):
        distribution(Categorical(list(Optim)))


def hostile(error, *names):
    """An object that raises whenever one of these is looked at."""

    def fail(*_):
        raise error

    return type("Hostile", (), {n: fail if n.startswith("__") else property(fail) for n in names})()


class Panic(BaseException):
    """As the bindings of compiled libraries raise it."""


class Boom(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


HOSTILE = [
    hostile(RuntimeError("no"), "__float__", "__repr__"),
    hostile(RuntimeError("no"), "__repr__"),
    hostile(RuntimeError("no"), "shape"),
    hostile(RuntimeError("no"), "__getattribute__", "__repr__"),
    hostile(Boom(), "__repr__", "shape"),
    hostile(Panic("no"), "shape"),
    hostile(RecursionError("no"), "__repr__"),
    type("Array", (), {"shape": (1,), "item": lambda self: 1 / 0})(),
    type("Array", (), {"shape": None, "item": lambda self: 1.0})(),
    type("Array", (), {"shape": (), "item": lambda self: HOSTILE[0]})(),
    type("Number", (float,), {"__float__": lambda self: 1 / 0})(1.0),
    type("Nan", (float,), {"__repr__": lambda self: 1 / 0})("inf"),
]


@pytest.mark.parametrize("i", range(len(HOSTILE)))  # pytest, too, would look at them
def test_fault_42_a_value_that_raises_when_it_is_looked_at(tmp_path, i):
    value = HOSTILE[i]
    opt = Optimizer(SPACE, seed=0)
    with pytest.warns(TrialFailedWarning, match="trial 0 failed"):
        told = opt.tell(opt.ask(), value)
    assert told.state is TrialState.FAILED
    assert type(value).__name__ in told.error or "infinite" in told.error
    with pytest.warns(TrialFailedWarning):
        assert opt.tell_params(GOOD, value).state is TrialState.FAILED
    opt.save(tmp_path / "run")
    assert Optimizer.load(tmp_path / "run").trials == opt.trials

    calls = iter(range(9))
    with pytest.warns(TrialFailedWarning):
        result = minimize(lambda p: value if next(calls) == 1 else 1.0, SPACE, 3, seed=0, config=CHEAP, progress=False)
    assert [t.state.value for t in result.trials] == ["complete", "failed", "complete"]

    outcome = evaluate(lambda p: value, (), {})  # what `modeseek optimize` calls
    assert outcome.measured is None
    assert outcome.error == told.error


def test_fault_42_parameters_that_raise_when_they_are_looked_at():
    opt = Optimizer(SPACE, seed=0)
    for value in (hostile(RuntimeError("no"), "shape"), hostile(Boom(), "shape", "__repr__"), HOSTILE[7]):
        for name in GOOD:
            with pytest.raises(ParameterError, match=repr(name)):
                opt.tell_params({**GOOD, name: value}, 1.0)
    assert opt.trials == []


def test_fault_42_an_interruption_is_no_value():
    opt = Optimizer(SPACE, seed=0)
    for error in (KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            opt.tell(0 if opt.trials else opt.ask(), hostile(error(), "shape"))
    assert opt.trials[0].state is TrialState.RUNNING
