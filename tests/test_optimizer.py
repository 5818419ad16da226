"""Ask and tell: the initial design, pending points, repeats, the recommendation."""

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

from modeseek import (
    Categorical,
    CollapseWarning,
    ConfigError,
    DMSConfig,
    FitWarning,
    Float,
    Int,
    Optimizer,
    Space,
    SpaceExhausted,
    TrialState,
    dms,
    together,
)
from modeseek.proposer import remaining
from shared import BOX, CHEAP, run, sphere


def points(opt):
    return np.array([trial.unit for trial in opt.trials])


def test_the_initial_design_is_one_sobol_sequence_of_the_seed():
    one, two, other = (Optimizer(BOX, seed=seed, config=CHEAP, n_initial=16) for seed in (3, 3, 4))
    one.ask(16)
    run(two, 16)
    other.ask(16)
    assert np.array_equal(points(one), points(two))
    assert not np.array_equal(points(one), points(other))
    # Sixteen points of a two-dimensional net: one in each cell of every 4 x 4, 2 x 8 and 8 x 2 division.
    for rows, columns in ((4, 4), (2, 8), (8, 2)):
        cells = set(map(tuple, np.floor(points(one) * [rows, columns]).astype(int)))
        assert len(cells) == 16


def test_the_model_takes_over_after_the_initial_design():
    opt = run(Optimizer(BOX, seed=0, config=CHEAP, n_initial=4), 4)
    assert opt.suggestion is None
    run(opt, 2)
    assert [trial.origin for trial in opt.trials] == ["initial"] * 4 + ["model"] * 2
    assert opt.suggestion.candidates.shape == (1, 32, 2)
    assert opt.suggestion.pseudo_x.shape == (1, 64, 2)


@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1), ("maximize", -1)])
def test_it_finds_the_optimum(direction, sign):
    opt = Optimizer(BOX, direction=direction, seed=0, config=CHEAP, n_initial=6)
    run(opt, 20, lambda x: sign * sphere(x))
    assert sign * opt.best.value < 0.3
    assert opt.best.value == sign * sphere(opt.best.params)


def test_told_points_count_toward_the_design_and_failed_ones_are_replaced():
    opt = Optimizer(BOX, seed=0, config=CHEAP, n_initial=4)
    for x in ([0.0, 0.0], [1.0, 1.0]):
        opt.tell_params(x, sphere(x))
    opt.tell(opt.ask(), failed=True)
    run(opt, 3)
    assert [trial.origin for trial in opt.trials] == ["told"] * 2 + ["initial"] * 3 + ["model"]
    plain = Optimizer(BOX, seed=0, config=CHEAP)
    plain.ask(5)
    assert np.array_equal(points(opt)[2:5], points(plain)[2:5])


def test_nothing_told_means_sobol_however_many_are_asked():
    opt = Optimizer(BOX, seed=0, config=CHEAP, n_initial=2)
    assert {trial.origin for trial in opt.ask(8)} == {"initial"}


def test_pending_trials_count_toward_the_design():
    opt = run(Optimizer(BOX, seed=0, config=CHEAP, n_initial=4), 2)
    assert [trial.origin for trial in opt.ask(3)] == ["initial", "initial", "model"]


def test_each_suggestion_has_its_own_randomness_and_the_state_before(monkeypatch):
    def calls(seed):
        seen = []

        def spy(X, Y, config, generators, state, *rest, **options):
            seen.append((generators[0].initial_seed(), state))
            return suggest(X, Y, config, generators, state, *rest, **options)

        monkeypatch.setattr(dms, "suggest", spy)
        opt = run(Optimizer(BOX, seed=seed, config=CHEAP, n_initial=2), 2)
        states = [None]
        for _ in range(3):
            run(opt, 1)
            states.append(opt.suggestion.state)
        assert [id(state) for _, state in seen] == [id(state) for state in states[:3]]
        return [number for number, _ in seen]

    suggest = dms.suggest
    assert calls(1) == calls(1)
    assert len({*calls(1), *calls(2)}) == 6


def test_questions_asked_together_differ_and_are_pending():
    opt = run(Optimizer(BOX, seed=0, config=CHEAP, n_initial=5), 8)
    asked = opt.ask(4)
    assert opt.pending == asked
    assert {trial.state for trial in asked} == {TrialState.RUNNING}
    gaps = [np.abs(np.subtract(a.unit, b.unit)).max() for a, b in itertools.combinations(asked, 2)]
    assert min(gaps) > 1e-3
    for trial in reversed(asked):  # out of order
        opt.tell(trial.number, sphere(trial.params))
    assert opt.pending == []


def test_pending_points_enter_the_surrogate():
    opt = run(Optimizer(BOX, seed=0, config=CHEAP, n_initial=5), 6)
    first, second = opt.ask(), opt.ask()
    assert opt.suggestion.gp.X.shape == (1, 7, 2)
    assert opt.suggestion.gp.X[0, -1].tolist() == list(first.unit)
    assert second.unit != first.unit


def test_the_order_of_telling_changes_nothing():
    def told(order):
        opt = Optimizer(BOX, seed=0, config=CHEAP, n_initial=5)
        asked = opt.ask(6)
        for i in order:
            opt.tell(asked[i], sphere(asked[i].params))
        return opt.ask()

    assert told([0, 1, 2, 3, 4, 5]) == told([5, 3, 4, 0, 2, 1])


def test_the_surrogate_sees_what_was_evaluated():
    space = Space({"a": Int(0, 3), "b": Categorical(["x", "y", "z"]), "c": Float(1, 100, log=True)})
    opt = Optimizer(space, seed=0, config=CHEAP, n_initial=3)
    for _ in range(8):
        trial = opt.ask()
        assert trial.unit == tuple(space.encode(trial.params))
        opt.tell(trial, trial.params["a"] + trial.params["c"])
    X = opt.suggestion.gp.X[0].numpy()
    assert np.array_equal(space.snap(X), X)
    assert set(X[:, 0]) <= {0.125, 0.375, 0.625, 0.875}


def test_a_minimizer_is_a_maximizer_of_the_negative():
    low = run(Optimizer(BOX, direction="minimize", seed=1, config=CHEAP, n_initial=4), 7)
    high = run(Optimizer(BOX, direction="maximize", seed=1, config=CHEAP, n_initial=4), 7, lambda x: -sphere(x))
    assert np.array_equal(points(low), points(high))


def test_the_recommendation_averages_noise_and_changes_nothing():
    opt = Optimizer(Space.box([0.0], [1.0]), seed=0, config=CHEAP)
    assert opt.recommend() is None
    rng = np.random.default_rng(0)
    for x in np.linspace(0, 1, 41):
        opt.tell_params([x], (x - 0.3) ** 2 + 0.05 * rng.standard_normal())
    lucky = opt.tell_params([0.9], -0.02 + opt.best.value)
    before = opt.trials
    assert opt.best == lucky
    assert abs(opt.recommend().params[0] - 0.3) < 0.15
    assert opt.recommend() == opt.recommend()
    assert opt.trials == before


def test_where_the_model_repeats_itself_the_best_labelled_fresh_point_is_taken(monkeypatch):
    opt = run(Optimizer(BOX, seed=0, config=CHEAP, n_initial=5), 6)
    suggest = dms.suggest

    def stubborn(X, *args, **rest):
        suggestion = suggest(X, *args, **rest)
        object.__setattr__(suggestion, "x_next", X[:, 0])
        return suggestion

    monkeypatch.setattr(dms, "suggest", stubborn)
    trial = opt.ask()
    s = opt.suggestion
    pool = torch.cat([s.candidates, s.pseudo_x], 1)
    assert trial.unit == pytest.approx(pool[0, s.gp.label(pool, s.rho)[0].argmax()].tolist(), abs=1e-12)
    assert trial.unit != opt.trials[0].unit


def test_what_is_left_of_a_large_finite_space_is_drawn_at_random():
    opt = Optimizer(Space({"a": Int(1, 10**6)}), seed=0, config=CHEAP, n_initial=3)
    run(opt, 4, lambda p: abs(p["a"] - 500_000))
    left = remaining(opt.space, points(opt), np.random.default_rng(0))
    assert len(left) > 1000
    assert not set(left[:, 0]) & set(points(opt)[:, 0])


def test_each_warning_comes_once(monkeypatch):
    suggest = dms.suggest

    def failing(*args, **rest):
        suggestion = suggest(*args, **rest)
        object.__setattr__(suggestion, "diverged", torch.tensor([True]))
        object.__setattr__(suggestion.gp, "fit_failed", torch.tensor([True]))
        return suggestion

    monkeypatch.setattr(dms, "suggest", failing)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(Optimizer(BOX, seed=0, config=CHEAP, n_initial=2), 6)
    assert sorted(w.category.__name__ for w in seen) == ["CollapseWarning", "FitWarning"]
    assert {CollapseWarning, FitWarning} == {w.category for w in seen}
    assert {w.filename for w in seen} == {run.__code__.co_filename}  # it points at the caller of ask


def test_without_a_seed_one_is_drawn_and_kept():
    one, two = Optimizer(BOX), Optimizer(BOX)
    assert one.seed != two.seed
    again = Optimizer(BOX, seed=one.seed)
    assert again.ask() == one.ask()
    assert isinstance(one.config, DMSConfig)


def test_the_end_of_a_finite_space_in_a_list():
    opt = Optimizer(Space({"a": Int(0, 4)}), seed=0, config=CHEAP)
    assert len(opt.ask(3)) == 3
    assert len(opt.ask(3)) == 2
    with pytest.raises(SpaceExhausted, match="5 configurations"):
        opt.ask(3)
    assert sorted(trial.params["a"] for trial in opt.trials) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "settings",
    [
        {"direction": "down"},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": True},
        {"config": {"m": 3}},
        {"n_initial": 0},
    ],
    ids=str,
)
def test_settings_that_make_no_sense(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Optimizer(BOX, **settings)


def test_a_dict_is_no_space_and_zero_no_count():
    with pytest.raises(ConfigError, match="Space"):
        Optimizer({"a": Int(0, 1)})
    with pytest.raises(ConfigError, match="n must"):
        Optimizer(BOX).ask(0)


def test_large_seeds_are_seeds():
    assert Optimizer(BOX, seed=2**200).ask() != Optimizer(BOX, seed=2**201).ask()
    assert Optimizer(BOX, seed=np.int64(7)).ask() == Optimizer(BOX, seed=7).ask()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_suggestion_uses_one_thread_unless_asked_for_more(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    opt = Optimizer(Space.box([0], [1]), seed=0, config=CHEAP, n_initial=2, threads=threads)
    for value in (1.0, 2.0):
        opt.tell(opt.ask(), value)
    seen = []

    def spied(true: Callable[..., object]) -> Callable[..., object]:
        def spy(*args: object, **rest: object) -> object:
            seen.append(torch.get_num_threads())
            return true(*args, **rest)

        return spy

    monkeypatch.setattr(dms, "suggest", spied(dms.suggest))
    monkeypatch.setattr(together, "maxima", spied(together.maxima))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        opt.ask(2)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == [threads] * 2
