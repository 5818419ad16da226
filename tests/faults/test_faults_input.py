"""Bad settings and parameters: faults 12 to 15, 19 and 26 of docs/faults.md."""

import dataclasses
import io
import math

import numpy as np
import optuna
import pytest

from modeseek import (
    Categorical,
    ConfigError,
    DMSConfig,
    Float,
    Int,
    Linear,
    Normal,
    Optimizer,
    ParameterError,
    Result,
    Space,
    SpaceError,
    TrialError,
    minimize,
)
from modeseek.integrations.optuna import DMSSampler
from shared import CHEAP

SPACE = Space({"lr": Float(1e-3, 1, log=True), "units": Int(2, 8, step=2), "act": Categorical(["relu", "tanh"])})
GOOD = {"lr": 0.1, "units": 4, "act": "relu"}
MISSING = object()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", 2.0),
        ("lr", 0.0),
        ("lr", math.nan),
        ("lr", math.inf),
        ("lr", "0.1"),
        ("lr", None),
        ("lr", True),
        ("lr", [0.1]),
        ("lr", 10**400),
        ("units", 9),
        ("units", 3),
        ("units", 4.0),
        ("units", np.float64(4)),
        ("units", True),
        ("units", "4"),
        ("act", "sigmoid"),
        ("act", None),
        ("act", ["relu"]),
        ("act", np.array(["relu", "tanh"])),
        ("lr", MISSING),
        ("momentum", 0.9),
    ],
)
def test_fault_12_told_parameters_that_are_not_in_the_space(name, value):
    opt = Optimizer(SPACE, seed=0)
    opt.tell_params(GOOD, 1.0)
    before = opt.trials
    params = {**GOOD, name: value}
    if value is MISSING:
        del params[name]
    with pytest.raises(ParameterError, match=repr(name)):
        opt.tell_params(params, 1.0)
    assert opt.trials == before


@pytest.mark.parametrize(
    "x", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], [[1.0], [1.0, 2.0]], {"x0": 1.0, "x1": 1.0}, "ab", 1.0, None], ids=repr
)
def test_fault_12_arrays_that_are_not_of_the_box(x):
    opt = Optimizer(Space.box([0, 0], [5, 5]))
    with pytest.raises(ParameterError):
        opt.tell_params(x, 1.0)
    with pytest.raises(ParameterError, match="'x1'"):
        opt.tell_params([1.0, 6.0], 1.0)
    with pytest.raises(ParameterError, match="'x0'"):
        opt.tell_params([math.nan, 1.0], 1.0)
    assert opt.trials == []


def test_fault_13_told_twice_or_unknown():
    opt = Optimizer(SPACE, seed=0)
    one, two = opt.ask(2)
    opt.tell(one, 1.0)
    opt.tell(two, failed=True)
    before = opt.trials
    for again in (lambda: opt.tell(one, 2.0), lambda: opt.tell(two.number, 2.0), lambda: opt.tell(one, failed=True)):
        with pytest.raises(TrialError, match="told already"):
            again()
    other = Optimizer(SPACE, seed=1, n_initial=20)
    stranger = other.ask(3)
    with pytest.raises(TrialError, match="unknown"):
        opt.tell(stranger[2], 2.0)
    with pytest.raises(TrialError, match="another optimizer"):
        opt.tell(stranger[0], 2.0)
    with pytest.raises(TrialError, match="unknown"):
        opt.tell(17, 2.0)
    with pytest.raises(ConfigError, match="not both"):
        other.tell(stranger[0], 2.0, failed=True)
    assert opt.trials == before
    assert other.trials == stranger


@pytest.mark.parametrize(
    "make",
    [
        lambda: Float(1, 1 - 1e-9),
        lambda: Float(0, 0, log=True),
        lambda: Float(2, 1),
        lambda: Int(2, 1),
        lambda: Float(0, 1, log=True),
        lambda: Float(-1, 1, log=True),
        lambda: Int(0, 5, log=True),
        lambda: Float(math.nan, 1),
        lambda: Float(0, math.nan),
        lambda: Float(0, math.inf),
        lambda: Float(0, 10**400),
        lambda: Float("0", 1),
        lambda: Float(False, True),
        lambda: Float(0, 1, log="yes"),
        lambda: Float(1, 2, log=True, step=0.1),
        lambda: Float(0, 1, step=0),
        lambda: Float(0, 1, step=math.nan),
        lambda: Float(0, 1e300, step=1e-300),
        lambda: Int(0.0, 5),
        lambda: Int(0, 5, step=0),
        lambda: Int(1, 5, log=True, step=2),
        lambda: Int(0, 2**60),
        lambda: Int(1, 2**45, log=True),
        lambda: Categorical([]),
        lambda: Categorical(["a", "a"]),
        lambda: Categorical([1, True]),
        lambda: Categorical([math.nan]),
        lambda: Categorical([math.inf]),
        lambda: Categorical([object()]),
        lambda: Categorical([("a",)]),
        lambda: Categorical("abc"),
        lambda: Categorical(3),
        lambda: Space({}),
        lambda: Space([]),
        lambda: Space(None),
        lambda: Space({"a": (0, 1)}),
        lambda: Space({1: Int(0, 1)}),
        lambda: Space({"": Int(0, 1)}),
        lambda: Space.box([], []),
        lambda: Space.box([0, 1], [1]),
        lambda: Space.box([math.nan], [1]),
        lambda: Space.box([[0]], [[1]]),
        lambda: Space.box(0, 1),
        lambda: Space.box(["a"], ["b"]),
        lambda: Space.box(None, None),
    ],
)
def test_fault_14_spaces_that_cannot_be(make):
    with pytest.raises(SpaceError):
        make()


def test_fault_15_one_dimension():
    result = minimize(lambda x: (x[0] - 0.3) ** 2, Space.box([0], [1]), 12, n_initial=4, **{"config": CHEAP, "seed": 0})
    assert abs(result.best.params[0] - 0.3) < 0.05


ONE_VALUE = {"a": Int(3, 3), "b": Categorical(["only"]), "c": Int(5, 5, log=True)}
ONE_VALUE |= {"f": Float(0.1, 0.1), "g": Float(1e-3, 1e-3, log=True), "h": Float(-1e300, -1e300), "x": Float(0, 1)}


@pytest.mark.parametrize("constraints", [[], [Linear({"x": 1, "f": 1, "a": 1}, upper=3.5)]])
def test_fault_15_parameters_of_one_value(constraints):
    space = Space(ONE_VALUE, constraints)
    result = minimize(lambda p: (p["x"] - 0.3) ** 2, space, 8, n_initial=4, config=CHEAP, seed=0, progress=False)
    assert {tuple(list(t.params.values())[:-1]) for t in result.trials} == {(3, "only", 5, 0.1, 1e-3, -1e300)}
    assert len({t.params["x"] for t in result.trials}) == 8
    optimum = result.optimum
    assert {p["f"] for p in optimum.samples} == {0.1}
    assert optimum.interval(0.9)["g"] == (1e-3, 1e-3)
    assert "f = 0.1" in str(optimum)


def test_fault_15_one_value_in_pictures_beliefs_boxes_and_studies():
    pytest.importorskip("matplotlib")
    space = Space(ONE_VALUE)
    assert Space.from_dict(space.to_dict()) == space
    opt = Optimizer(
        space, seed=0, config=CHEAP, n_initial=4, prior={"f": 0.1, "g": Normal(1e-3, 1), "h": -1e300, "a": 3}
    )
    for trial in opt.ask(4):
        opt.tell(trial, trial.params["x"])
    assert opt.ask().params["f"] == 0.1
    result = Result(opt.best, None, opt.trials, space, "minimize", 0, CHEAP, "budget", 1.0)
    result.plot_slice().canvas.draw()
    result.plot_parallel().figure.canvas.draw()
    opt.optimum(draws=16).plot().savefig(io.BytesIO())
    assert result.importance()["f"] == 0
    box = Optimizer(Space.box([0, 2], [1, 2]), seed=0, config=CHEAP, n_initial=3)
    for trial in box.ask(4):
        box.tell(trial, trial.params[0])
    assert box.ask().params[1] == 2
    assert (
        minimize(lambda p: 1.0, Space({"a": Float(2, 2)}), 8, config=CHEAP, progress=False).stopped == "space exhausted"
    )
    with pytest.raises(SpaceError, match="meets all constraints"):
        Space({"f": Float(0.1, 0.1), "x": Float(0, 1)}, [Linear({"f": 1}, upper=0.05)])
    study = optuna.create_study(sampler=DMSSampler(seed=0, n_startup_trials=3, space=Space(ONE_VALUE)))
    study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_float("f", 0.1, 0.1), n_trials=5)
    assert {t.params["f"] for t in study.trials} == {0.1}


def test_fault_15_a_space_of_one_configuration():
    result = minimize(lambda p: 1.0, Space({"a": Int(3, 3)}), 8, config=CHEAP, progress=False)
    assert len(result.trials) == 1
    assert result.stopped == "space exhausted"


@pytest.mark.parametrize("change", [{"steps": 1}, {"S": 1}, {"m": 1}, {"K": 0}, {"m": 1, "S": 1, "K": 0}], ids=str)
def test_fault_19_the_smallest_settings_work(change):
    config = dataclasses.replace(CHEAP, **change)
    result = minimize(lambda x: float(x.sum()), Space.box([0, 0], [1, 1]), 6, n_initial=3, config=config, seed=0)
    assert len({t.unit for t in result.trials}) == 6
    assert all(np.isfinite(t.unit).all() for t in result.trials)


@pytest.mark.parametrize(
    "change",
    [{"epochs": 0}, {"steps": 0}, {"S": 0}, {"m": 0}, {"K": -1}, {"rho": -1.0}, {"w": math.nan}, {"hidden": 0}],
    ids=str,
)
def test_fault_19_settings_without_a_meaning_are_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        DMSConfig(**change)


NAMES = [
    "it's",
    'say "hi"',
    "a/b/../c",
    "..\\..\\x",
    "naïve-λ-名前-🎯",
    "'; DROP TABLE trials; --",
    "\x00\n\t",
    "\ud800",
    "{x}%s",
]


def test_fault_26_names_are_plain_text(tmp_path):
    space = Space({name: Categorical(NAMES) for name in NAMES})
    path = tmp_path / "a 'strange' näme; DROP TABLE.modeseek"
    settings = {"config": CHEAP, "seed": 0, "n_initial": 4, "progress": False}
    whole = minimize(lambda p: float(len(p["it's"])), space, 7, **settings)
    minimize(lambda p: float(len(p["it's"])), space, 5, checkpoint=path, **settings)
    resumed = minimize(lambda p: float(len(p["it's"])), space, 7, checkpoint=path, **settings)
    assert resumed.trials == whole.trials
    assert list(resumed.best.params) == NAMES
    assert {name.split(".modeseek")[1] for name in (p.name for p in tmp_path.iterdir())} == {"", ".bak", ".lock"}
    assert [column[7:] for column in resumed.to_dataframe().columns[7:]] == NAMES
    assert "DROP TABLE" in str(resumed)
    with pytest.raises(ParameterError, match="DROP TABLE"):
        space.encode({**resumed.best.params, NAMES[5]: "no such choice"})
