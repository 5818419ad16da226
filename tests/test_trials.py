"""The history: any order of telling, and nothing changed by an error."""

import decimal
import fractions
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modeseek import Float, Int, Space, TrialError, TrialState
from modeseek.outcomes import as_number
from modeseek.trials import Trials

SPACE = Space({"x": Float(0, 10), "k": Int(0, 3)})
ACTIONS = st.lists(st.tuples(st.sampled_from(["ask", "complete", "fail"]), st.integers(0, 8)), max_size=30)


@given(ACTIONS)
def test_histories_in_any_order(actions):
    trials, expected = Trials(SPACE), {}
    for action, number in actions:
        before = list(trials)
        if action == "ask":
            expected[len(trials)] = None
            trials.append({"x": len(trials) / 10, "k": 1}, "model")
        elif expected.get(number, "unknown") is None:
            expected[number] = float(number) if action == "complete" else "failed"
            trials.complete(number, number) if action == "complete" else trials.fail(number, "failed")
        else:
            with pytest.raises(TrialError, match=f"trial {number}"):
                trials.complete(number, 1.0) if action == "complete" else trials.fail(number, "failed")
            assert list(trials) == before
    done = [n for n, value in expected.items() if isinstance(value, float)]
    history = trials.history("minimize")
    assert history.X.shape == (len(done), 2)
    assert history.Y.tolist() == [-n for n in done]
    assert trials.history("maximize").Y.tolist() == done
    assert len(history.pending) == list(expected.values()).count(None)
    assert len(history.lost) == list(expected.values()).count("failed")
    assert history.proposed.shape == (len(expected), 2)
    assert [t.number for t in trials] == list(range(len(expected)))
    best = trials.best("minimize")
    assert (best.value if best else None) == min(done, default=None)


def test_the_best_is_the_first_of_equals():
    trials = Trials(SPACE)
    for value in (2.0, 1.0, 1.0, 2.0):
        trials.complete(trials.append({"x": 1.0, "k": 1}, "told"), value)
    assert trials.best("minimize").number == 1
    assert trials.best("maximize").number == 0


def test_a_trial_cannot_be_changed_through_its_params():
    trials = Trials(SPACE)
    trial = trials.append({"x": 1.0, "k": 1}, "told")
    trial.params.pop("x")
    assert trial.params == {"x": 1.0, "k": 1}
    box = Trials(Space.box([0.0], [1.0])).append([0.5], "told")
    box.params[0] = 3.0
    assert box.params.tolist() == [0.5]


def test_trials_compare_pickle_and_print():
    trials = Trials(Space.box([0.0], [1.0]))
    trial = trials.append([0.25], "told")
    failed = trials.fail(trial, "Traceback\n  line\nValueError: boom\n")
    assert pickle.loads(pickle.dumps(failed)) == failed != trial
    assert failed.state is TrialState.FAILED
    assert "ValueError: boom" in repr(failed)
    assert "line" not in repr(failed)


def test_a_trial_of_another_optimizer_is_refused():
    here, there, box = (
        Trials(SPACE),
        Trials(Space({"x": Float(0, 5), "k": Int(0, 3)})),
        Trials(Space.box([0, 0], [9, 9])),
    )
    here.append({"x": 1.0, "k": 1}, "told")
    for other in (
        there.append({"x": 0.5, "k": 1}, "told"),  # the same point of the cube, in other units
        there.append({"x": 0.7, "k": 1}, "told"),
        box.append([1.0, 1.0], "told"),
    ):
        with pytest.raises(TrialError):
            here.running(other)
    for nonsense in (True, 0.0, "0", None, -1):
        with pytest.raises(TrialError):
            here.running(nonsense)
    assert here.running(np.int64(0)).number == 0


NUMBERS = [
    1.5,
    np.float32(1.5),
    np.array(1.5),
    np.array([[1.5]]),
    torch.tensor(1.5),
    torch.tensor([1.5], requires_grad=True),
    torch.tensor(1.5, dtype=torch.bfloat16),
    decimal.Decimal("1.5"),
    fractions.Fraction(3, 2),
]


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_numbers(value):
    number = as_number(value)
    assert type(number) is float
    assert number == 1.5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "NaN"),
        (torch.tensor(float("nan")), "NaN"),
        (float("inf"), "infinite"),
        (-np.inf, "infinite"),
        (10**400, "infinite"),
        (None, "None"),
        ("1.5", "str"),
        (np.str_("1.5"), "str"),
        (b"1.5", "bytes"),
        (1.5 + 0j, "complex"),
        (np.complex128(1), "complex"),
        ([1.5], "list"),
        (np.array([1.0, 2.0]), r"shape \(2,\)"),
        (np.array([]), r"shape \(0,\)"),
        (torch.zeros(2, 1), r"shape \(2, 1\)"),
        (np.ma.masked, "masked"),
        (torch.zeros(1, device="meta"), "gives no number"),
        ({"loss": 1.0}, "dict"),
    ],
    ids=repr,
)
def test_what_is_no_number(value, message):
    with pytest.raises(ValueError, match=message):
        as_number(value)
