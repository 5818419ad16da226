"""A run that goes on in another space than it began in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from tests.shared import SMALLEST

from modeseek import (
    Categorical,
    CheckpointError,
    Float,
    Optimizer,
    ParameterError,
    Space,
    SpaceChangedWarning,
    SpaceError,
    minimize,
)
from modeseek.document import to_document, trials_of

OLD = Space({"x": Float(0, 1), "kind": Categorical(["a", "b"])})
WIDER = Space({"x": Float(-1, 4), "kind": Categorical(["b", "c", "a"]), "c": Float(0, 1, when={"kind": "c"})})
SETTINGS: dict[str, Any] = dict(seed=0, config=SMALLEST, n_initial=4, progress=False)


class Kind(Enum):
    A = "a"
    B = "b"


def f(params: dict[str, Any]) -> float:
    return float(params["x"] + params.get("c", 0.0))


def test_told_trials_stay_in_a_wider_space(tmp_path: Path) -> None:
    path = tmp_path / "run"
    before = minimize(f, OLD, 5, checkpoint=path, **SETTINGS)
    with pytest.warns(SpaceChangedWarning, match="all 5 trials lie in the new one"):
        after = minimize(f, WIDER, 8, checkpoint=path, **SETTINGS)
    assert [t.params for t in after.trials[:5]] == [t.params for t in before.trials]
    assert [t.value for t in after.trials[:5]] == [t.value for t in before.trials]
    assert after.trials[0].unit != before.trials[0].unit
    assert len(after.trials) == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # from now on it is the run's own
        assert Optimizer.load(path).space == WIDER
        assert minimize(f, WIDER, 8, checkpoint=path, **SETTINGS).trials == after.trials


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space({"x": Float(0, 1)}), "has other parameters"),
        (Space({**{n: OLD[n] for n in OLD}, "z": Float(0, 1)}), "has a new parameter 'z' that its trials lack"),
    ],
)
def test_other_parameters_are_refused_and_the_file_stays(tmp_path: Path, space: Space, message: str) -> None:
    path = tmp_path / "run"
    minimize(f, OLD, 4, checkpoint=path, **SETTINGS)
    content = path.read_bytes()
    with pytest.raises(CheckpointError, match=message):
        minimize(f, space, 6, checkpoint=path, **SETTINGS)
    with pytest.raises(CheckpointError, match=message):
        Optimizer.load(path, space=space)
    assert path.read_bytes() == content
    assert len(Optimizer.load(path).trials) == 4


ONLY_B = Space({"x": Float(0, 1), "kind": Categorical(["b", "c"])})
UPPER = Space({"x": Float(0.5, 1), "kind": Categorical(["a", "b"])})


@pytest.mark.parametrize(
    ("space", "fits", "reason"),
    [
        (ONLY_B, lambda params: params["kind"] == "b", "parameter 'kind': 'a' is not one of"),
        (UPPER, lambda params: params["x"] >= 0.5, "parameter 'x'"),
    ],
)
def test_trials_outside_of_a_narrower_space_are_kept_and_not_used(
    tmp_path: Path, space: Space, fits: Callable[[dict[str, Any]], bool], reason: str
) -> None:
    path = tmp_path / "run"
    before = minimize(f, OLD, 6, checkpoint=path, **SETTINGS)
    inside = [fits(trial.params) for trial in before.trials]
    count = inside.count(False)
    assert 0 < count < 6
    assert before.best is not None
    assert not inside[before.best.number]  # so that the best must change
    with pytest.warns(SpaceChangedWarning, match=f"of 6 trials, {count} do(es)? not lie in .*{reason}") as said:
        after = minimize(f, space, 9, checkpoint=path, **SETTINGS)
    assert len(said) == 1
    assert [(t.params, t.values, t.state) for t in after.trials[:6]] == [
        (t.params, t.values, t.state) for t in before.trials
    ]
    assert [trial.in_space for trial in after.trials] == [*inside, True, True, True]
    assert after.best is not None
    assert after.best.value == min(t.value for t in after.trials if fits(t.params) and t.value is not None)
    assert after.recommended is not None
    assert fits(after.recommended.params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # from now on it is the run's own
        loaded = Optimizer.load(path)
        assert minimize(f, space, 9, checkpoint=path, **SETTINGS).trials == after.trials
    assert loaded.trials == after.trials
    history = loaded._trials.history("minimize")
    assert len(history.X) == len(history.proposed) == 9 - count
    with pytest.warns(SpaceChangedWarning, match="all 9 trials"):
        back = Optimizer.load(path, space=Space({"x": Float(0, 1), "kind": Categorical(["a", "b", "c"])}))
    assert all(trial.in_space for trial in back.trials)
    assert back.best == min(back.trials, key=lambda trial: trial.value)  # type: ignore[arg-type, return-value]


def test_what_is_left_out_does_not_change_the_next_suggestion(tmp_path: Path) -> None:
    asked = []
    for value in (0.1, 1e6):
        opt = Optimizer(OLD, seed=0, config=SMALLEST, n_initial=2)
        for x in (0.1, 0.6, 0.7, 0.9):
            opt.tell_params({"x": x, "kind": "a"}, value if x == 0.1 else x)
        opt.save(tmp_path / str(value))
        opt.close()
        with pytest.warns(SpaceChangedWarning, match="of 4 trials, 1 does not lie"):
            opt = Optimizer.load(tmp_path / str(value), space=UPPER)
        asked.append(opt.ask().params)
        assert opt.best == opt.trials[1]
        assert opt.front == [opt.trials[1]]
    assert asked[0] == asked[1]


def test_a_result_with_trials_outside_shows_itself(tmp_path: Path) -> None:
    path = tmp_path / "run"
    minimize(f, OLD, 5, checkpoint=path, **SETTINGS)
    with pytest.warns(SpaceChangedWarning):
        result = minimize(f, ONLY_B, 8, checkpoint=path, **SETTINGS)
    outside = sum(not trial.in_space for trial in result.trials)
    assert outside > 0
    assert result.front == [result.best]
    assert set(result.importance()) == {"x", "kind"}
    result.plot()
    result.plot_slice()
    result.plot_parallel()
    assert len(result.to_dataframe()) == 8
    assert f"8 trials (8 complete; {outside} not in the space)" in str(result)
    assert "8 trials" in result._repr_html_()
    assert result.optimum.modes


def test_trials_outside_of_their_own_space_are_not_known_elsewhere(tmp_path: Path) -> None:
    minimize(f, OLD, 5, checkpoint=tmp_path / "run", **SETTINGS)
    with pytest.warns(SpaceChangedWarning):
        result = minimize(f, ONLY_B, 7, checkpoint=tmp_path / "run", **SETTINGS)
    inside = [trial.params for trial in result.trials if trial.in_space]
    again = minimize(f, ONLY_B, 1, known=result, **SETTINGS)
    assert [trial.params for trial in again.trials if trial.origin == "told"] == inside


def test_many_trials_outside_are_named_in_part(tmp_path: Path) -> None:
    path = tmp_path / "run"
    minimize(f, OLD, 6, checkpoint=path, **SETTINGS)
    with pytest.warns(SpaceChangedWarning, match=r"6 do not lie .*trial 0: .*trial 2: .*; and 3 more\)$"):
        opt = Optimizer.load(path, space=Space({"x": Float(7, 8), "kind": Categorical(["a", "b"])}))
    assert opt.best is None
    assert opt.recommend() is None
    assert opt.ask().params["x"] >= 7


def test_what_was_running_or_failed_outside_is_not_evaluated_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    opt = Optimizer(OLD, seed=0, config=SMALLEST, n_initial=4)
    trials = [opt.ask() for _ in range(4)]
    opt.tell(trials[0], failed=True)
    opt.tell(trials[1], failed=True)
    opt.save(path)
    opt.close()
    space = Space({"x": Float(3, 4), "kind": Categorical(["a", "b"])})
    seen: list[float] = []
    with pytest.warns(SpaceChangedWarning, match="4 do not lie"):
        result = minimize(
            lambda params: seen.append(params["x"]) or params["x"],  # type: ignore[func-returns-value]
            space, 4, checkpoint=path, retry_failed=True, **SETTINGS,
        )  # fmt: skip
    assert len(seen) == 2  # the failed ones count
    assert min(seen) >= 3
    assert [trial.state.value for trial in result.trials] == ["failed"] * 2 + ["running"] * 2 + ["complete"] * 2


def test_what_was_known_may_lie_outside_later(tmp_path: Path) -> None:
    for old, new, known in (
        (OLD, UPPER, [({"x": 0.1, "kind": "a"}, 0.1), ({"x": 0.6, "kind": "a"}, 0.6)]),
        (Space.box([0], [1]), Space.box([0.5], [1]), [([0.1], 0.1), ([0.6], 0.6)]),
    ):
        path = tmp_path / str(old.is_box)
        minimize(lambda params: 1.0, old, 2, known=known, checkpoint=path, **SETTINGS)  # type: ignore[arg-type]
        with pytest.warns(SpaceChangedWarning):
            result = minimize(lambda params: 1.0, new, 3, known=known, checkpoint=path, **SETTINGS)  # type: ignore[arg-type]
        assert [trial.origin for trial in result.trials].count("told") == 2
        assert result.best == result.trials[1]


def test_a_removed_member_of_an_enum_and_a_prior_that_no_longer_fits(tmp_path: Path) -> None:
    path = tmp_path / "run"
    both = Space({"x": Float(0, 1), "kind": Categorical([Kind.A, Kind.B])})
    opt = Optimizer(both, seed=0, config=SMALLEST, n_initial=2, prior={"kind": {Kind.A: 2, Kind.B: 1}, "x": 0.5})
    for kind in Kind:
        opt.tell_params({"x": 0.5, "kind": kind}, 1.0)
    opt.save(path)
    opt.close()
    one = Space({"x": Float(0, 1), "kind": Categorical([Kind.B])})
    with pytest.warns(SpaceChangedWarning, match="1 does not lie .*the prior of 'kind' does not fit and is dropped"):
        opt = Optimizer.load(path, space=one)
    assert list(opt.prior) == ["x"]
    assert [trial.in_space for trial in opt.trials] == [False, True]
    opt.save(path)
    opt.close()
    assert Optimizer.load(path, space=one).trials == opt.trials
    with pytest.warns(SpaceChangedWarning, match="all 2"):
        assert Optimizer.load(path, space=both).trials[0].params["kind"] is Kind.A


def above(limit: float) -> Space:
    def feasible(params: Any) -> bool:
        return bool(params["x"] > limit)

    return Space({"x": Float(0, 1)}, constraints=[feasible])


def test_a_function_that_allows_less_than_before_is_a_changed_space(tmp_path: Path) -> None:
    """A file has its name only, which stays."""
    path = tmp_path / "run"
    before = minimize(f, above(0.2), 6, checkpoint=path, **SETTINGS)
    outside = sum(trial.params["x"] <= 0.6 for trial in before.trials)
    assert 0 < outside < 6
    with pytest.warns(SpaceChangedWarning, match=f"of 6 trials, {outside} do.* not lie .*feasible"):
        after = minimize(f, above(0.6), 8, checkpoint=path, **SETTINGS)
    assert [trial.values for trial in after.trials[:6]] == [trial.values for trial in before.trials]
    assert after.best is not None
    assert after.best.params["x"] > 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert minimize(f, above(0.6), 8, checkpoint=path, **SETTINGS).trials == after.trials


def test_a_function_that_raises_is_not_taken_for_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "run"
    minimize(f, above(0.2), 4, checkpoint=path, **SETTINGS)

    def feasible(params: Any) -> bool:
        return bool(params["z"])

    feasible.__qualname__ = "above.<locals>.feasible"
    with pytest.raises(SpaceError, match=r"feasible\(params\) must return True or False, but raised KeyError"):
        minimize(f, Space({"x": Float(0, 1)}, constraints=[feasible]), 6, checkpoint=path, **SETTINGS)
    assert len(minimize(f, above(0.2), 4, checkpoint=path, **SETTINGS).trials) == 4


def test_an_earlier_study_that_no_longer_fits_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "run"
    low, high = ([({"x": x + i / 20, "kind": "a"}, i / 4) for i in range(4)] for x in (0.0, 0.7))
    minimize(f, OLD, 5, checkpoint=path, transfer=[low, high], **SETTINGS)
    with pytest.warns(SpaceChangedWarning, match="study 1 of transfer= does not fit and is dropped") as said:
        minimize(f, UPPER, 6, checkpoint=path, **SETTINGS)
    assert len(said) == 1
    with pytest.warns(SpaceChangedWarning, match="study 1 of transfer="):
        minimize(f, Space({"x": Float(-3, -2), "kind": Categorical(["a", "b"])}), 7, checkpoint=path, **SETTINGS)
    assert len(Optimizer.load(path).trials) == 7


@pytest.mark.parametrize("params", [{"x": [1]}, {"y": 1.0}, {"x": {"enum": 3}}, [0.1], {"x": 1e999}, 3])
def test_only_parameters_are_taken_for_a_trial_outside(params: Any) -> None:
    opt = Optimizer(OLD, seed=0)
    opt.tell_params({"x": 0.1, "kind": "a"}, 0.1)
    record = to_document(opt._snapshot())["trials"][0]
    with pytest.raises(ParameterError):  # a misfit that is not said to be one
        trials_of(OLD, [{**record, "params": {"x": 3.0, "kind": "a"}}])
    assert not trials_of(OLD, [{**record, "params": {"x": 3.0, "kind": "a"}, "in_space": False}])[0].in_space
    with pytest.raises(ValueError, match="parameters"):
        trials_of(OLD, [{**record, "params": params, "in_space": False}])
