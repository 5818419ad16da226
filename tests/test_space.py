"""Spaces: round trips, bins, and what is refused."""

import json
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from modeseek import Categorical, Float, Int, ParameterError, Space, SpaceError

UNIT = st.floats(0.0, 1.0)


@st.composite
def floats(draw):
    low = draw(st.floats(-1e6, 1e6))
    high = low + draw(st.floats(1e-2, 1e6))
    step = draw(st.none() | st.floats(1e-3, 10.0))
    return Float(low, high, step=step)


@st.composite
def log_floats(draw):
    low = draw(st.floats(1e-300, 1e6))
    return Float(low, low * draw(st.floats(1.1, 1e200)), log=True)


@st.composite
def ints(draw):
    low = draw(st.integers(-(10**9), 10**9))
    return Int(low, low + draw(st.integers(0, 10**9)), step=draw(st.integers(1, 1000)))


@st.composite
def log_ints(draw):
    low = draw(st.integers(1, 10**6))
    return Int(low, low + draw(st.integers(0, 10**12)), log=True)


CHOICES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
categoricals = st.builds(Categorical, st.lists(CHOICES, min_size=1, max_size=6, unique=True), ordered=st.booleans())
PARAMETERS = st.one_of(floats(), log_floats(), ints(), log_ints(), categoricals)
SPACES = st.dictionaries(st.text(min_size=1), PARAMETERS, min_size=1, max_size=5).map(Space)


def inside(parameter, value):
    if isinstance(parameter, Categorical):
        return any(value is c or value == c for c in parameter.choices)
    return parameter.low <= value <= parameter.high


@given(PARAMETERS, UNIT)
def test_decoded_values_are_inside_and_accepted(parameter, u):
    value = parameter.decode(u)
    assert inside(parameter, value)
    assert parameter.check(value) == value


@given(PARAMETERS, UNIT)
def test_going_round_twice_is_going_round_once(parameter, u):
    once = parameter.encode(parameter.decode(u))
    twice = parameter.encode(parameter.decode(once))
    assert 0.0 <= once <= 1.0
    if math.isinf(parameter.size):
        assert once == pytest.approx(u, abs=1e-6)  # bounds of 1e6 leave ten digits to a range of 1e-2
        assert twice == pytest.approx(once, abs=1e-6)
    else:
        assert twice == once
        assert parameter.decode(once) == parameter.decode(u)


@given(st.one_of(ints(), log_ints(), categoricals, floats()), st.data())
def test_every_discrete_value_survives_the_round_trip(parameter, data):
    assume(not math.isinf(parameter.size))
    k = data.draw(st.integers(0, parameter.size - 1))
    if isinstance(parameter, Categorical):
        value = parameter.choices[k]
    else:
        value = parameter.check(parameter.low + k * parameter.step)
    assert parameter.decode(parameter.encode(value)) == value


@given(SPACES, st.data())
def test_snap_is_encode_of_decode_and_does_not_change_its_input(space, data):
    points = np.array(data.draw(st.lists(st.lists(UNIT, min_size=space.d, max_size=space.d), min_size=1, max_size=3)))
    before = points.copy()
    snapped = space.snap(points)
    assert np.array_equal(points, before)
    again = np.array([space.encode(space.decode(u)) for u in points])
    # The last digit of NumPy's vectorized log may differ from that of its scalar one.
    np.testing.assert_allclose(snapped, again, rtol=0, atol=1e-6)
    assert np.array_equal(space.snap(snapped), snapped)


@given(SPACES)
def test_a_space_survives_json_and_pickle(space):
    again = Space.from_dict(json.loads(json.dumps(space.to_dict(), allow_nan=False)))
    assert again == space
    assert hash(again) == hash(space)
    assert again.names == space.names
    assert repr(again) == repr(space)
    assert pickle.loads(pickle.dumps(space)) == space


@given(SPACES, st.randoms())
def test_the_order_of_names_changes_neither_points_nor_equality(space, random):
    names = space.names
    random.shuffle(names)
    shuffled = Space({name: space[name] for name in names})
    u = np.linspace(0.1, 0.9, space.d)
    assert shuffled == space
    assert shuffled.decode(u) == space.decode(u)
    assert list(shuffled.decode(u)) == names
    assert np.array_equal(shuffled.encode(space.decode(u)), space.encode(space.decode(u)))


@pytest.mark.parametrize(
    "parameter",
    [Float(-1e308, 1e308), Float(-1.7e308, 1.7e308), Float(0, 5e-324), Float(1e-308, 1.79e308, log=True)],
    ids=str,
)
@given(u=UNIT)
@settings(max_examples=50)
def test_bounds_at_the_ends_of_float64(parameter, u):
    assert inside(parameter, parameter.decode(u))
    assert 0.0 <= parameter.encode(parameter.decode(u)) <= 1.0
    for end, value in ((0.0, parameter.low), (1.0, parameter.high)):
        assert parameter.decode(end) == value
        assert parameter.encode(value) == end


@given(u=UNIT)
def test_ranges_wider_than_float64_are_spread_evenly(u):
    assert Float(-1.7e308, 1.7e308).encode(Float(-1.7e308, 1.7e308).decode(u)) == pytest.approx(u, abs=1e-12)
    assert Float(-1e308, 1e308).decode(0.75) == pytest.approx(5e307)


@given(k=st.integers(0, 1000))
def test_the_largest_log_integers_are_told_apart(k):
    parameter = Int(1, 2**40, log=True)
    assert parameter.decode(parameter.encode(2**40 - k)) == 2**40 - k


def test_neighbouring_numbers_make_a_log_range():
    parameter = Float(1e300, math.nextafter(1e300, math.inf), log=True)
    assert [parameter.encode(parameter.low), parameter.encode(parameter.high)] == [0.0, 1.0]


def test_integers_share_the_range_evenly():
    counts = np.bincount([Int(0, 4).decode(u) for u in np.linspace(0, 1, 5001)])
    assert counts.max() - counts.min() <= 1
    assert [Int(0, 4).encode(k) for k in range(5)] == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])


def test_log_integers_have_bins_of_equal_ratio():
    parameter = Int(1, 1000, log=True)
    low, high = math.log(0.5), math.log(1000.5)
    for k in (1, 2, 10, 999, 1000):
        left, right = ((math.log(edge) - low) / (high - low) for edge in (k - 0.5, k + 0.5))
        assert parameter.decode(left + 1e-9) == parameter.decode(right - 1e-9) == k
        assert parameter.encode(k) == pytest.approx((left + right) / 2)


def test_steps_give_the_numbers_one_would_write():
    parameter = Float(0, 1, step=0.1)
    assert parameter.size == 11
    assert [parameter.decode(u) for u in parameter.centres()] == [k / 10 for k in range(11)]
    assert parameter.check(0.1 + 0.2) == 0.3
    assert Float(0, 1, step=0.3).decode(1.0) == 0.9
    with pytest.raises(ValueError, match="step"):
        parameter.check(0.35)


@given(st.dictionaries(st.text(min_size=1, max_size=3), categoricals | st.just(Int(1, 5, log=True)), min_size=1))
def test_the_grid_holds_every_configuration_once(parameters):
    space = Space(parameters)
    assume(space.size <= 500)
    grid = space.grid()
    assert len(grid) == space.size == len({tuple(u) for u in grid})
    assert np.array_equal(space.snap(grid), grid)


def test_a_continuous_space_has_no_grid():
    space = Space({"a": Int(0, 1), "b": Float(0, 1)})
    assert space.size == math.inf
    with pytest.raises(SpaceError, match="continuous"):
        space.grid()


def test_a_box_keeps_its_own_order_and_units():
    lower, upper = -np.arange(1.0, 13.0), np.arange(1.0, 13.0)
    space = Space.box(lower, upper)
    x = space.decode(np.linspace(0, 1, 12))
    assert x.dtype == np.float64
    np.testing.assert_allclose(x, lower + np.linspace(0, 1, 12) * (upper - lower))
    np.testing.assert_allclose(space.encode(list(x)), np.linspace(0, 1, 12))
    assert (len(space), space.d, space.is_box, space.names[:2]) == (12, 12, True, ["x0", "x1"])
    assert eval(repr(space), {"Space": Space}) == space
    assert Space.from_dict(space.to_dict()) == space
    assert space != Space({name: space[name] for name in space})
    for same in (tuple(x), torch.from_numpy(x), np.ma.array(x)):
        assert np.array_equal(space.validate(same), x)


def test_numpy_scalars_become_plain_values():
    space = Space({"a": Float(0, 2), "b": Int(0, 9), "c": Categorical(["x", True, 2])})
    params = space.validate({"a": np.float32(0.5), "b": np.int8(3), "c": np.str_("x")})
    assert params == {"a": 0.5, "b": 3, "c": "x"}
    assert [type(v) for v in params.values()] == [float, int, str]
    assert space.validate({"a": 1, "b": 3, "c": np.bool_(True)})["c"] is True
    with pytest.raises(ParameterError, match="'c'"):
        space.encode({"a": 1, "b": 3, "c": 1})  # not the choice True


def test_points_of_another_shape_are_refused():
    space = Space.box([0, 0], [1, 1])
    for bad in ([0.5], [[0.5, 0.5]], [0.5, math.nan]):
        with pytest.raises(ParameterError):
            space.decode(bad)


def test_spaces_of_other_types_differ():
    assert Space({"a": Categorical([1])}) != Space({"a": Categorical([True])})
    assert Space({"a": Int(1, 2)}) != Space({"a": Float(1, 2)})
    assert Space({"a": Int(1, 2)}) != "a"


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"box": False, "parameters": []},
        {"box": False, "parameters": [{"name": "a", "type": "eval", "low": 0, "high": 1}]},
        {"box": False, "parameters": [{"name": "a", "type": "int", "low": 0, "high": 1, "more": 2}]},
        {"box": False, "parameters": 2 * [{"name": "a", "type": "int", "low": 0, "high": 1}]},
        {"box": True, "parameters": [{"name": "a", "type": "int", "low": 0, "high": 1}]},
        {"box": True, "parameters": [{"name": "a", "type": "float", "low": 0, "high": 1}]},
        {"box": 1, "parameters": [{"name": "a", "type": "float", "low": 0, "high": 1}]},
        {"box": False, "parameters": [["a"]]},
    ],
)
def test_documents_that_describe_no_space(document):
    with pytest.raises(SpaceError):
        Space.from_dict(document)
