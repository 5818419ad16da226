"""Strange data: faults 6 to 11 and 50 of docs/faults.md."""

import warnings

import numpy as np
import pytest

from modeseek import Categorical, DMSConfig, Float, Int, Optimizer, Space, SpaceExhausted
from shared import BOX, CHEAP, run


def sphere(x):
    return float(np.square(x - 1.0).sum())


def regret(opt):
    return min(sphere(trial.params) for trial in opt.trials)


@pytest.mark.parametrize(
    "warp",
    [
        pytest.param(lambda y: 1e300 * y, id="1e300"),
        pytest.param(lambda y: -1e300 + 1e299 * y, id="minus_1e300"),
        pytest.param(lambda y: 1e-300 * y, id="1e-300"),
        pytest.param(lambda y: 1 + 1e-10 * y, id="1e-10_apart"),
    ],
)
def test_fault_06_values_of_any_order(warp):
    opt = Optimizer(BOX, seed=0, config=CHEAP, n_initial=6)
    assert regret(run(opt, 18, lambda x: warp(sphere(x)))) < 0.1
    assert sphere(opt.recommend().params) < 0.5


@pytest.mark.parametrize("exponent", [996, -996])
def test_fault_06_the_unit_of_the_values_changes_no_suggestion(exponent):
    plain = run(Optimizer(BOX, seed=0, config=CHEAP, n_initial=4), 8, sphere)
    scaled = run(Optimizer(BOX, seed=0, config=CHEAP, n_initial=4), 8, lambda x: sphere(x) * 2.0**exponent)
    assert [t.unit for t in scaled.trials] == [t.unit for t in plain.trials]


@pytest.mark.parametrize("exponent", [996, -996])
def test_fault_06_predictions_are_in_the_unit_of_the_values(exponent):
    """A variance of such values is no number, or 0."""
    plain, scaled = Optimizer(BOX, seed=0), Optimizer(BOX, seed=0)
    for x in np.array([[-3.0, 1.0], [0.5, 2.0], [2.0, -4.0], [4.0, 3.0], [-1.0, -2.0]]):
        plain.tell_params(x, sphere(x))
        scaled.tell_params(x, sphere(x) * 2.0**exponent)
    (mean, std), of_scaled = plain.predict([1.0, -1.0]), scaled.predict([1.0, -1.0])
    assert of_scaled == pytest.approx((mean * 2.0**exponent, std * 2.0**exponent), rel=1e-6, abs=0)
    assert 0 < std < float("inf")
    best = plain.optimum(draws=16), scaled.optimum(draws=16)
    assert best[1].std == pytest.approx(best[0].std * 2.0**exponent, rel=1e-6, abs=0)


@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1), ("maximize", -1)])
def test_fault_07_one_outlier_of_1e300(direction, sign):
    opt = Optimizer(BOX, direction=direction, seed=0, config=CHEAP, n_initial=6)
    opt.tell_params([4.0, -4.0], sign * 1e300)
    assert regret(run(opt, 18, lambda x: sign * sphere(x))) < 0.5  # the design alone has 4.9
    assert sphere(opt.recommend().params) < 1


def test_fault_07_one_outlier_that_is_the_best():
    opt = Optimizer(BOX, seed=0, config=CHEAP, n_initial=6)
    opt.tell_params([4.0, -4.0], -1e300)
    run(opt, 10, sphere)
    assert opt.best.value == -1e300
    assert opt.recommend() is not None
    assert len({t.unit for t in opt.trials}) == 11


def test_fault_08_a_constant_objective():
    opt = Optimizer(BOX, seed=0, config=CHEAP, n_initial=4)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(opt, 20, lambda x: 7.0)
    assert len(seen) <= 2
    units = np.array([trial.unit for trial in opt.trials])
    gaps = np.abs(units[:, None] - units[None]).max(-1)[np.triu_indices(20, 1)]
    assert gaps.min() > 1e-9
    assert np.ptp(units[4:], axis=0).min() > 0.3  # keeps exploring
    assert opt.recommend() is not None


def test_fault_09_no_data():
    opt = Optimizer(BOX, seed=0, config=CHEAP)
    assert opt.ask().params.shape == (2,)
    assert opt.best is None
    assert opt.recommend() is None


@pytest.mark.parametrize("d", [1, 8])
def test_fault_09_one_datum_and_fewer_than_dimensions(d):
    opt = Optimizer(Space.box([0] * d, [1] * d), seed=0, config=CHEAP, n_initial=1)
    run(opt, 4, lambda x: float(x.sum()))
    assert [t.origin for t in opt.trials] == ["initial"] + ["model"] * 3
    assert opt.recommend() in opt.trials


def test_fault_10_fifty_identical_inputs_with_different_values():
    opt = Optimizer(BOX, seed=0, config=CHEAP)
    rng = np.random.default_rng(0)
    for _ in range(50):
        opt.tell_params([1.0, 2.0], rng.standard_normal())
    trial = opt.ask()
    assert np.abs(np.subtract(trial.unit, opt.trials[0].unit)).max() > 1e-3
    assert opt.recommend().params.tolist() == [1.0, 2.0]
    assert regret(run(opt, 24, sphere)) < 0.5


def test_fault_11_a_finite_space_never_repeats_and_ends_clearly():
    space = Space({"a": Int(0, 3), "b": Categorical(["x", "y", "z"]), "c": Float(0, 1, step=0.5)})
    opt = Optimizer(space, seed=0, config=CHEAP, n_initial=5)
    told = opt.tell_params({"a": 1, "b": "y", "c": 0.5}, 1.0)
    run(opt, 35, lambda p: p["a"] + p["c"])
    assert len({tuple(t.params.items()) for t in opt.trials}) == space.size == 36
    with pytest.raises(SpaceExhausted, match="all 36"):
        opt.ask()
    assert opt.trials[0] == told
    assert opt.best.value == 0.0


def test_fault_50_fifty_asked_at_once_and_half_of_them_never_told(tmp_path):
    tiny = DMSConfig(m=16, K=1, S=8, epochs=1, steps=1, hidden=8, polish=False, warp="never")
    opt = run(Optimizer(BOX, seed=0, config=tiny, n_initial=5), 5, sphere)
    asked = opt.ask(50)
    assert len({trial.unit for trial in opt.trials}) == 55
    for trial in asked[::2]:
        opt.tell(trial, sphere(trial.params))
    opt.save(tmp_path / "run")
    for going_on in (opt, Optimizer.load(tmp_path / "run")):  # after a restart, too
        assert going_on.pending == asked[1::2]
        assert len({trial.unit for trial in [*going_on.trials, *going_on.ask(3)]}) == 58
        history = going_on._trials.history("minimize")
        assert (len(history.X), len(history.pending)) == (30, 28)
    assert opt.trials == going_on.trials
    late = opt.tell(asked[1], 0.5)  # "never" may end after all
    assert late.value == 0.5
