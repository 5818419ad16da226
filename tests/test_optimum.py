"""What is said of the optimum: against functions whose optimum is known, and against the samples themselves."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import modeseek as ms
from modeseek.config import DMSConfig
from modeseek.errors import ConfigError
from modeseek.fitting import fit_mapped
from modeseek.hyperparameters import Several
from modeseek.optimum import Optimum
from modeseek.outcome_transforms import OutcomeMap, Scaling, mapped_by_standardize, mapped_by_warp
from modeseek.priors import Hyperparameters
from modeseek.sampled_optimum import above, as_fitted, moments_in_own_units, sample_optimum, shortest
from modeseek.surrogate import GP, posterior_of
from shared import BOX, SMALLEST, generator

MIXED = ms.Space(
    {
        "units": ms.Int(1, 64, log=True),
        "act": ms.Categorical(["relu", "tanh", True]),
        "lr": ms.Float(1e-4, 1.0, log=True),
    }
)


def observed(space: ms.Space, f, n: int, direction: str, seed: int = 0) -> tuple[GP, OutcomeMap]:
    """The surrogate after n random evaluations."""
    points = space.snap(np.random.default_rng(seed).random((n, space.d)))
    Y = torch.tensor([[f(space.decode(u)) for u in points]], dtype=torch.float64)
    sign = -1 if direction == "minimize" else 1
    return fit_mapped(torch.from_numpy(points)[None], sign * Y, DMSConfig(warp="never"))


def bowl(params: np.ndarray) -> float:
    return 100 + float(((params - np.array([1.0, -2.0])) ** 2).sum())


@pytest.fixture(scope="module")
def of_bowl() -> Optimum:
    space = ms.Space.box([-5, -5], [5, 5])
    return Optimum(space, *observed(space, bowl, 30, "minimize"), "minimize", generator(0), draws=64)


@pytest.fixture(scope="module")
def of_mixed() -> Optimum:
    def f(params: dict) -> float:
        penalty = {"relu": 0.0, "tanh": 1.0, True: 4.0}[params["act"]]
        return -((math.log10(params["lr"]) + 2) ** 2) - (math.log2(params["units"]) - 4) ** 2 - penalty

    return Optimum(MIXED, *observed(MIXED, f, 50, "maximize"), "maximize", generator(0), draws=48)


def test_a_minimum_that_is_well_known_is_found_in_its_own_units(of_bowl: Optimum) -> None:
    low, high = zip(*of_bowl.interval(0.9).values(), strict=True)
    assert list(of_bowl.interval()) == ["x0", "x1"]
    np.testing.assert_array_less(low, [1.3, -1.7])
    np.testing.assert_array_less([0.7, -2.3], high)
    assert np.subtract(high, low).max() < 1.5
    assert len(of_bowl.samples) == 64
    np.testing.assert_allclose(of_bowl.modes[0].params, [1, -2], atol=0.5)
    assert of_bowl.modes[0].value == pytest.approx(100, abs=0.5)
    assert sum(mode.mass for mode in of_bowl.modes) == pytest.approx(1)
    assert of_bowl.value == pytest.approx(bowl(of_bowl.recommended), abs=3 * of_bowl.std + 0.05)


def test_the_regret_of_the_recommended_point_is_in_own_units(of_bowl: Optimum) -> None:
    true = bowl(of_bowl.recommended) - 100
    assert true <= of_bowl.regret(0.95) < true + 2
    bounds = [of_bowl.regret(p) for p in (0.1, 0.5, 0.9, 0.99)]
    assert bounds == sorted(bounds)
    assert bounds[0] >= 0
    for p in (0.2, 0.5, 0.9):
        assert of_bowl.probability_of_regret_below(of_bowl.regret(p)) >= p
    assert of_bowl.probability_of_regret_below(-1e-9) == 0
    assert of_bowl.probability_of_regret_below(1e9) == 1


def test_minimizing_is_maximizing_the_negative() -> None:
    space = ms.Space.box([0], [1])
    down = Optimum(space, *observed(space, lambda p: 3 * p[0] ** 2, 8, "minimize"), "minimize", generator(1), draws=16)
    up = Optimum(space, *observed(space, lambda p: -3 * p[0] ** 2, 8, "maximize"), "maximize", generator(1), draws=16)
    assert down.value == pytest.approx(-up.value)
    assert down.std == pytest.approx(up.std)
    assert down.regret() == pytest.approx(up.regret())
    assert down.interval() == up.interval()


def test_samples_modes_and_intervals_of_named_and_discrete_parameters(of_mixed: Optimum) -> None:
    for params in [*of_mixed.samples, of_mixed.recommended, *(mode.params for mode in of_mixed.modes)]:
        MIXED.validate(params)
        assert list(params) == ["units", "act", "lr"]
    masses = [mode.mass for mode in of_mixed.modes]
    assert masses == sorted(masses, reverse=True)
    interval = of_mixed.interval(0.8)
    assert list(interval) == ["units", "act", "lr"]
    low, high = interval["units"]
    assert 1 <= low <= 16 <= high <= 64
    assert isinstance(low, int)
    assert interval["lr"][0] < 1e-2 < interval["lr"][1]
    share = np.mean([params["act"] in interval["act"] for params in of_mixed.samples])
    assert share >= 0.8
    without_last = interval["act"][:-1]
    assert np.mean([params["act"] in without_last for params in of_mixed.samples]) < 0.8


def test_an_interval_holds_the_share_of_samples_that_it_says(of_bowl: Optimum) -> None:
    samples = np.stack(of_bowl.samples)
    for p in (0.5, 0.9):
        for i, (low, high) in enumerate(of_bowl.interval(p).values()):
            share = np.mean((samples[:, i] >= low - 1e-9) & (samples[:, i] <= high + 1e-9))
            assert p <= share <= p + 0.1


@pytest.mark.parametrize("S", [1, 2, 10, 99])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.95])
def test_order_statistics_hold_one_more_sample_with_the_probability_asked_for(S: int, p: float) -> None:
    """By counting: one more sample is equally likely to fall between any two of the others."""
    at = above(S, p)
    assert (at + 1) / (S + 1) >= p or at == S - 1
    assert at / (S + 1) < p
    u = torch.rand(3, S, 2, dtype=torch.float64, generator=generator(S)).square()
    low, high = shortest(u, p)
    for row in range(3):
        for column in range(2):
            ordered = u[row, :, column].sort().values
            gaps = math.ceil(p * (S + 1) - 1e-9)
            widths = [ordered[min(i + gaps, S - 1)] - ordered[i] for i in range(max(S - gaps, 1))]
            torch.testing.assert_close(high[row, column] - low[row, column], min(widths))
            assert {float(low[row, column]), float(high[row, column])} <= set(ordered.tolist())


def test_samples_on_the_border_are_an_interval_by_themselves() -> None:
    u = torch.cat([torch.zeros(1, 95, 1), torch.rand(1, 5, 1, generator=generator(0))], 1).double()
    assert [float(end) for end in shortest(u, 0.9)] == [0, 0]
    both = torch.cat([torch.zeros(1, 60, 1), torch.ones(1, 40, 1)], 1).double()
    assert [float(end) for end in shortest(both, 0.9)] == [0, 1]


@pytest.mark.parametrize("mapped", [mapped_by_warp, mapped_by_standardize])
def test_predictions_in_own_units_are_those_of_samples(mapped) -> None:
    X = torch.rand(1, 12, 2, dtype=torch.float64, generator=generator(3)).expand(2, 1, 12, 2)
    Y = -torch.randn(1, 12, dtype=torch.float64, generator=generator(4)).exp()
    y, outcomes = mapped(Y)
    lengthscales = torch.tensor([[0.4, 0.4], [0.8, 0.3]], dtype=torch.float64)
    noise = torch.full((2, 1), 0.05, dtype=torch.float64)
    gp = posterior_of(X, y.expand(2, 1, 12), Hyperparameters(lengthscales[:, None], noise))
    x = torch.rand(1, 5, 2, dtype=torch.float64, generator=generator(4))
    scale = torch.tensor([[1.0], [1.3]], dtype=torch.float64)
    mean, std = moments_in_own_units(Several(gp, scale), outcomes, x)
    mu, sigma = gp.posterior(x.expand(2, 1, 5, 2))
    z = torch.randn(20000, 2, 1, 5, dtype=torch.float64, generator=generator(5))
    samples = outcomes.inverse(((mu + sigma * z) * scale[..., None]).reshape(1, -1)).view(-1, 5)
    torch.testing.assert_close(mean[0], samples.mean(0), rtol=0.05, atol=0.02)
    torch.testing.assert_close(std[0], samples.std(0), rtol=0.1, atol=0.02)


def test_a_prediction_at_an_observed_point_without_noise_is_its_outcome(of_bowl: Optimum) -> None:
    mean, std = of_bowl.predict(of_bowl.recommended)
    assert (mean, std) == (of_bowl.value, of_bowl.std)
    far, far_std = of_bowl.predict(np.array([5.0, 5.0]))
    assert far == pytest.approx(bowl(np.array([5.0, 5.0])), abs=4 * far_std + 1)


@pytest.mark.parametrize("space", [BOX, ms.Space({"a": ms.Float(-5, 5), "k": ms.Categorical(["x", "y"])})])
def test_many_points_are_predicted_at_once(space: ms.Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one after the other, also in parts, by an optimizer and by a result, which still pickles."""
    opt = ms.Optimizer(space, seed=0, config=SMALLEST)
    points = [space.decode(u) for u in np.random.default_rng(0).random((8, 2))]
    for i, params in enumerate(points[:5]):
        opt.tell_params(params, float(i))
    single = [opt.predict(params) for params in points]
    assert all(type(number) is float for pair in single for number in pair)
    result = ms.Result(opt.best, None, opt.trials, space, "minimize", 0, SMALLEST, "budget", 1.0)
    for size in (1000, 3):
        monkeypatch.setattr("modeseek.optimum.AT_ONCE", size)
        for said in (opt.predict(points), result.predict(points), opt.optimum(draws=16).predict(points)):
            np.testing.assert_allclose(np.transpose(said), single, rtol=1e-6)
    assert pickle.loads(pickle.dumps(result)).predict(points[0]) == pytest.approx(single[0])
    for none in ([], ()) if not space.is_box else (np.zeros((0, 2)),):
        assert [len(part) for part in opt.predict(none)] == [0, 0]
    with pytest.raises(ms.ParameterError, match="parameter"):
        opt.predict([*points, space.decode([0.5, 0.5])[:1] if space.is_box else {"a": 0.0}])


def test_predictions_are_calibrated_on_functions_from_the_prior() -> None:
    """Standard scores at 5 points of each of 100 functions: of zero mean and unit variance, within 15 %."""
    g, n = generator(6), 15
    one = torch.ones(1, 1, dtype=torch.float64)
    outcomes = OutcomeMap(Scaling(one, -torch.inf * one, torch.inf * one, one, 40 * one, 7 * one), None)
    hyperparameters = Hyperparameters(0.4 * one.expand(1, 2), 0.01 * one[:, 0])
    scores = []
    for _ in range(100):
        X = torch.rand(1, n + 5, 2, dtype=torch.float64, generator=g)
        K = torch.exp(-0.5 * (torch.cdist(X, X) / 0.4).square()) + 1e-8 * torch.eye(n + 5, dtype=X.dtype)
        f = (torch.linalg.cholesky(K) @ torch.randn(1, n + 5, 1, dtype=X.dtype, generator=g))[..., 0]
        y = f[:, :n] + 0.1 * torch.randn(1, n, dtype=X.dtype, generator=g)
        gp = posterior_of(X[:, :n], y, hyperparameters, 0 * one[:, 0])
        mean, std = moments_in_own_units(as_fitted(gp), outcomes, X[:, n:])
        scores.append(((40 + 7 * f[:, n:]) - mean) / std)
    z = torch.cat(scores)
    assert 0.85 < z.std() < 1.15
    assert z.mean().abs() < 0.15


def test_it_prints_five_lines_with_the_names_and_pickles(of_bowl: Optimum, of_mixed: Optimum) -> None:
    for optimum, names in ((of_bowl, ["x0", "x1"]), (of_mixed, ["units", "act", "lr"])):
        text = str(optimum)
        assert len(text.splitlines()) == 5
        for name in names:
            assert text.count(name) >= 3
        assert "90 %" in text
        assert "95 %" in text
        assert str(len(optimum.modes)) in text or "one region" in text
        assert str(pickle.loads(pickle.dumps(optimum))) == text
        assert "\n" not in repr(optimum)
    assert "minimum" in str(of_bowl)
    assert "maximum" in str(of_mixed)


def test_more_samples_are_spread_as_the_first_are(of_bowl: Optimum) -> None:
    first, more = np.stack(of_bowl.samples), np.stack(of_bowl.more(400))
    assert more.shape == (400, 2)
    assert (np.abs(first.mean(0) - more.mean(0)) < 0.5 * first.std(0)).all()
    assert (np.abs(np.log(more.std(0) / first.std(0))) < 0.4).all()
    assert not np.array_equal(np.stack(of_bowl.more(400)), more)
    assert len(of_bowl.values) == len(of_bowl.samples)
    assert min(of_bowl.values) <= of_bowl.value + 0.1
    assert len(of_bowl.more(3, value=float(np.median(of_bowl.values)))) == 3
    for wrong in (of_bowl.value - 1e6, of_bowl.value + 1e6):
        with pytest.raises(ConfigError, match="value must be between"):
            of_bowl.more(3, value=wrong)


def test_a_row_of_a_batch_has_the_optimum_that_it_has_alone() -> None:
    X = torch.rand(2, 6, 1, dtype=torch.float64, generator=generator(0))
    Y = -(X - 0.4).square().sum(-1)
    models = [fit_mapped(X[rows], Y[rows], DMSConfig(warp="never")) for rows in ([0, 1], [1])]
    together = sample_optimum(models[0][0], 16, [generator(0), generator(1)])
    alone = sample_optimum(models[1][0], 16, [generator(1)])
    assert together.x.shape == (2, 16, 1)
    torch.testing.assert_close(together.point[1:], alone.point)
    torch.testing.assert_close(together.x[1:], alone.x, atol=1e-3, rtol=0)
    regrets = [part.regrets(outcomes)[-1] for part, (_, outcomes) in zip((together, alone), models, strict=True)]
    torch.testing.assert_close(*regrets, atol=1e-3, rtol=1e-2)


@settings(max_examples=3, deadline=None, derandomize=True)
@given(st.booleans(), st.booleans(), st.sampled_from([{}, {"model": "svm"}, {"a": 0.25}]), st.integers(2, 7))
def test_every_sample_and_mode_can_be_evaluated(linear: bool, function: bool, fixed: dict[str, Any], n: int) -> None:
    """Int, choices, a parameter that exists only under one, known constraints and fixed values, all at once."""
    constraints = [ms.Linear({"a": 1, "b": 1}, upper=1.2)] * linear + [lambda p: p["a"] <= 0.8] * function
    space = ms.Space(
        {
            "model": ms.Categorical(["svm", "tree"]),
            "C": ms.Float(1e-2, 1e2, log=True, when={"model": "svm"}),
            "a": ms.Float(0, 1),
            "b": ms.Float(0, 1),
            "k": ms.Int(1, 5),
        },
        constraints=constraints,
    )
    opt = ms.Optimizer(space, direction="maximize", seed=n, config=SMALLEST, n_initial=n)
    for _ in range(n):
        trial = opt.ask()
        opt.tell(trial, trial.params["a"] + trial.params["b"] + trial.params["k"] + math.log(trial.params.get("C", 1)))
    optimum = opt.optimum(draws=8, fixed=fixed)
    regions = [mode.params for mode in optimum.modes]
    for params in [*optimum.samples, optimum.recommended, *regions, *(optimum.more(9) if "a" in fixed else [])]:
        space.validate(params)
        assert ("C" in params) == (params["model"] == "svm")
        assert not linear or params["a"] + params["b"] <= 1.2 + 1e-9
        assert not function or params["a"] <= 0.8
        assert fixed.items() <= params.items()
    assert fixed.keys() <= optimum.interval(0.9).keys()
    assert optimum.regret(0.95) >= 0


def test_with_values_fixed_the_optimum_is_the_one_among_them() -> None:
    """f = (x − c)², whose minimum over x depends on the context c; nothing was observed at c = 0.5."""
    opt = ms.Optimizer(ms.Space({"c": ms.Float(0, 1), "x": ms.Float(0, 1)}), seed=0)
    for c, x in np.random.default_rng(0).random((20, 2)):
        opt.tell_params({"c": c, "x": x}, (x - c) ** 2)
    optimum = opt.optimum(draws=32, fixed={"c": 0.5})
    low, high = optimum.interval(0.9)["x"]
    assert 0.35 < low <= optimum.recommended["x"] + 0.05
    assert high < 0.65
    assert {params["c"] for params in optimum.samples} == {0.5}
    assert optimum.interval(0.9)["c"] == (0.5, 0.5)


def test_the_same_generator_gives_the_same_samples() -> None:
    space = ms.Space.box([0], [1])
    data = observed(space, lambda p: p[0], 5, "minimize")
    one, two, other = (Optimum(space, *data, "minimize", generator(seed), draws=8) for seed in (3, 3, 4))
    np.testing.assert_array_equal(np.stack(one.samples), np.stack(two.samples))
    assert one.regret() == two.regret()
    assert not np.array_equal(np.stack(one.samples), np.stack(other.samples)) or one.regret() != other.regret()


def test_one_observation_and_equal_observations_are_enough() -> None:
    space = ms.Space.box([0, 0], [1, 1])
    for n in (1, 4):
        optimum = Optimum(space, *observed(space, lambda p: 5.0, n, "minimize"), "minimize", generator(0), draws=8)
        assert optimum.value == pytest.approx(5)
        assert optimum.regret() == math.inf  # of how much outcomes may differ nothing is known
        assert len(str(optimum).splitlines()) == 5


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, math.nan])
def test_a_probability_is_between_zero_and_one(of_bowl: Optimum, p: float) -> None:
    for ask in (of_bowl.interval, of_bowl.regret):
        with pytest.raises(ConfigError, match="probability"):
            ask(p)


def test_the_plot_shows_every_pair(of_mixed: Optimum) -> None:
    figure = of_mixed.plot()
    assert len([ax for ax in figure.axes if ax.axison]) == 6
    assert len(of_mixed.plot(["lr"]).axes) == 1
    with pytest.raises(ConfigError, match="'nothing'"):
        of_mixed.plot(["nothing"])


def threes(p: dict[str, Any]) -> bool:
    return p["n"] % 3 == 0


def fours(p: dict[str, Any]) -> bool:
    return p["n"] * p["k"] % 4 == 0


@pytest.mark.parametrize(
    ("others", "constraints"),
    [
        (
            {"x": ms.Float(0, 10), "y": ms.Float(0, 10)},
            [ms.Linear({"n": 1, "k": 1, "x": 1}, equals=20), ms.Linear({"k": 1, "y": -1}, upper=3), threes],
        ),
        ({"l": ms.Int(0, 30), "x": ms.Float(0, 1)}, [ms.Linear({"n": 1, "k": 1, "l": 1}, equals=30), fours]),
    ],
)
def test_a_function_allows_samples_and_modes_whose_whole_numbers_meet_other_constraints(
    others: dict[str, Any], constraints: list[Any]
) -> None:
    """Rounded, an optimum may need other whole numbers to meet the constraint, which the function then refuses."""
    space = ms.Space({"n": ms.Int(0, 30), "k": ms.Int(0, 30), **others}, constraints=constraints)
    opt = ms.Optimizer(space, seed=0, config=SMALLEST, n_initial=6)
    for _ in range(8):
        trial = opt.ask()
        p = trial.params
        opt.tell(trial, (p["n"] - 11) ** 2 / 10 + (p["k"] - 7) ** 2 / 10 - p["x"])
    optimum = opt.optimum(draws=32)
    for params in [*optimum.samples, *(mode.params for mode in optimum.modes), *optimum.more(9)]:
        space.validate(params)
    assert len({params["n"] for params in optimum.samples}) > 1
