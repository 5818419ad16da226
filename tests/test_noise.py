"""Noise that is known: of each observation, or that there is none."""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel
from tests.shared import SMALLEST, generator, sphere
from torch import Tensor

import modeseek as ms
from modeseek.config import DMSConfig
from modeseek.dms import suggest
from modeseek.document import to_document, trials_of
from modeseek.fitting import fit_mapped, fit_surrogate
from modeseek.improvement import ImprovementGP
from modeseek.map_fit import fit, log_posterior
from modeseek.outcome_transforms import MIN_KNOWN_NOISE, mapped_by_standardize
from modeseek.paths import draw_paths
from modeseek.priors import Hyperparameters, bounds_of_theta, theta_of
from modeseek.recommendation import is_noisy
from modeseek.sketch import sketch
from modeseek.surrogate import Given, posterior_of

LINE = ms.Space.box([0], [1])


def data(n: int = 12, d: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, outcomes, and noise variances of which every other one is known."""
    X = torch.rand(1, n, d, dtype=torch.float64, generator=generator(1))
    y = (3 * X).sin().sum(-1) - 1
    known = torch.linspace(0.01, 0.5, n, dtype=torch.float64)[None].clone()
    return X, y, torch.where(torch.arange(n) % 2 == 0, known, torch.nan)


def test_the_posterior_is_that_of_botorch_with_known_variances() -> None:
    X, y, known = data()
    every = known.nan_to_num(nan=0.1)
    lengthscale = torch.tensor([[0.4, 0.7]], dtype=torch.float64)
    model = SingleTaskGP(X[0], y[0, :, None], train_Yvar=every[0, :, None], outcome_transform=None)
    model.covar_module.lengthscale = lengthscale
    model.mean_module.constant.data.fill_(0.3)
    hyperparameters = Hyperparameters(lengthscale, torch.tensor([0.1], dtype=torch.float64))
    mean = torch.tensor([0.3], dtype=torch.float64)
    x = torch.rand(1, 5, 2, dtype=torch.float64, generator=generator(2))
    with torch.no_grad():
        theirs = model.eval().posterior(x[0])
    for noise in (every, known):  # what is not known is the fitted 0.1, which is the same here
        mu, sigma = posterior_of(X, y, hyperparameters, mean, Given(known_noise=noise)).posterior(x)
        torch.testing.assert_close(mu[0], theirs.mean[:, 0], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(sigma[0], theirs.variance[:, 0].sqrt(), atol=1e-6, rtol=1e-6)


def test_the_fit_knows_which_noise_is_known() -> None:
    X, y, known = data()
    theta = torch.tensor([[-0.5, 0.2, -2.0]], dtype=torch.float64)
    _, grad = log_posterior(X, y, theta, Given(known_noise=known))
    for i, e in enumerate(1e-6 * torch.eye(3, dtype=torch.float64)):
        ends = [log_posterior(X, y, theta + sign * e, Given(known_noise=known))[0] for sign in (1, -1)]
        torch.testing.assert_close(grad[:, i], (ends[0] - ends[1]) / 2e-6, atol=1e-5, rtol=1e-5)
    gp = fit(X, y, given=Given(known_noise=known))
    top = theta_of(gp.hyperparameters)
    value, slope = log_posterior(X, y, top, Given(known_noise=known))
    inside = (top > bounds_of_theta(X)[0] + 1e-6) & (top < bounds_of_theta(X)[1] - 1e-6)
    assert (slope[inside].abs() < 0.05).all()
    assert (value >= log_posterior(X, y, theta, Given(known_noise=known))[0]).all()
    torch.testing.assert_close(gp.noise[:, ::2], known[:, ::2])
    assert (gp.noise[:, 1::2] == gp.hyperparameters.noise[:, None]).all()


def test_a_point_told_twice_counts_as_their_mean_by_precision() -> None:
    """Two values with variances a and b are one with variance ab/(a + b)."""
    hyperparameters = Hyperparameters(*(torch.tensor(v, dtype=torch.float64) for v in ([[0.3]], [0.1])))
    mean = torch.zeros(1, dtype=torch.float64)
    X = torch.tensor([[[0.2], [0.2], [0.8]]], dtype=torch.float64)
    y = torch.tensor([[1.0, 0.4, -0.5]], dtype=torch.float64)
    noise = torch.tensor([[0.1, 0.3, 0.05]], dtype=torch.float64)
    merged = (1.0 * 0.3 + 0.4 * 0.1) / 0.4
    once = posterior_of(
        X[:, 1:], torch.tensor([[merged, -0.5]], dtype=torch.float64), hyperparameters, mean,
        Given(known_noise=torch.tensor([[0.03 / 0.4, 0.05]], dtype=torch.float64)),
    )  # fmt: skip
    x = torch.linspace(0, 1, 7, dtype=torch.float64)[None, :, None]
    twice = posterior_of(X, y, hyperparameters, mean, Given(known_noise=noise))
    for ours, theirs in zip(twice.posterior(x), once.posterior(x), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_sketch_and_draws_of_all_observations_have_their_noise() -> None:
    X, y, known = data(30)
    gp = fit(X, y, given=Given(known_noise=known))
    x = torch.rand(1, 6, 2, dtype=torch.float64, generator=generator(3))
    torch.testing.assert_close(sketch(gp, 30).label(x, 1.0), gp.label(x, 1.0), atol=1e-4, rtol=1e-4)
    paths = draw_paths(gp, 4000, generator(4), features=2048).everywhere(x)
    mu, sigma = gp.posterior(x)
    torch.testing.assert_close(paths.mean(-2), mu, atol=0.06, rtol=0.0)
    torch.testing.assert_close(paths.std(-2), sigma, atol=0.06, rtol=0.0)


def test_pending_points_join_observations_with_known_noise() -> None:
    X, y, known = data()
    gp = fit(X, y, given=Given(known_noise=known))
    conditioned = gp.condition(torch.full((1, 2, 2), 0.5, dtype=torch.float64))
    assert conditioned.noise.shape == (1, 14)
    torch.testing.assert_close(conditioned.noise[:, :12], gp.noise)


@pytest.mark.parametrize("warp", ["never", "always"])
def test_standard_errors_are_in_the_units_of_the_outcomes(warp: Any) -> None:
    X, y, _ = data()
    Y = 1000 + 50 * y
    sem = torch.full_like(Y, torch.nan)
    sem[0, :3] = torch.tensor([0.0, 0.5, 1.0])
    gp, outcomes = fit_mapped(X, Y, DMSConfig(warp=warp), sem=sem)
    assert gp.given.known_noise is not None
    assert float(gp.given.known_noise[0, 0]) == MIN_KNOWN_NOISE
    assert gp.given.known_noise[0, 3:].isnan().all()
    step = 1e-4
    slope = (outcomes.apply(Y + step) - outcomes.apply(Y - step)) / (2 * step)
    expected = (sem * slope).square().clamp_min(MIN_KNOWN_NOISE)
    torch.testing.assert_close(gp.given.known_noise[0, 1:3], expected[0, 1:3], rtol=0.1, atol=1e-6)


def several(b: int = 2, n: int = 10) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, outcomes of two objectives of different units, and standard errors, of which a few are not known."""
    X = torch.rand(b, n, 2, dtype=torch.float64, generator=generator(1))
    Y = torch.stack([1e4 + 300 * (4 * X[..., 0]).sin(), 1e-3 * X.sum(-1)], -1)
    sem = torch.rand(b, n, 2, dtype=torch.float64, generator=generator(2)) * torch.tensor([100.0, 3e-4])
    sem[:, :2, 1] = torch.nan
    return X, Y, sem


def test_each_objective_has_its_noise_as_in_botorch() -> None:
    """Also the worst outcome, at the end of what the surrogate takes as it is."""
    X, Y, sem = several()
    x = torch.rand(2, 5, 2, dtype=torch.float64, generator=generator(4))
    both = suggest(X, Y, SMALLEST, [generator(0), generator(1)], sem=sem).gp
    assert isinstance(both, ImprovementGP)
    gp = both.objectives
    mu, sigma = gp.posterior(x.expand(2, *x.shape))
    for j in range(2):
        for b in range(2):
            size = Y[b, :, j].std()
            variance = (sem[b, :, j] / size).square().clamp_min(MIN_KNOWN_NOISE)
            variance = torch.where(variance.isnan(), gp.hyperparameters.noise[j, b], variance)[:, None]
            y = ((Y[b, :, j] - Y[b, :, j].mean()) / size)[:, None]
            kernel = MaternKernel(nu=2.5, ard_num_dims=2)
            model = SingleTaskGP(X[b], y, train_Yvar=variance, outcome_transform=None, covar_module=kernel)
            model.covar_module.lengthscale = gp.hyperparameters.lengthscale[j, b]
            model.mean_module.constant.data.fill_(float(gp.mean[j, b]))
            with torch.no_grad():
                theirs = model.eval().posterior(x[b])
            torch.testing.assert_close(mu[j, b], theirs.mean[:, 0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(sigma[j, b], theirs.variance[:, 0].sqrt(), atol=1e-5, rtol=1e-5)
    alone = suggest(X[1:], Y[1:], SMALLEST, [generator(1)], sem=sem[1:])
    torch.testing.assert_close(both.label(X, 1.0)[1:], alone.gp.label(X[1:], 1.0), atol=1e-4, rtol=0)


def test_the_standard_error_of_the_worst_value_counts_in_full() -> None:
    opt = ms.Optimizer(LINE, seed=0)
    for x in (0.0, 0.3, 0.6, 1.0):
        opt.tell_params([x], 10 * x, sem=0.5)
    gp, _ = opt._surrogate()
    expected = (0.5 / np.std([0, 3, 6, 10], ddof=1)) ** 2
    torch.testing.assert_close(gp.noise[0], torch.full((4,), expected, dtype=torch.float64))


def test_standard_errors_of_several_objectives(tmp_path: Path) -> None:
    def f(x: np.ndarray) -> Any:
        return ms.Outcome([float(x[0]), float(-x[0])], constraints=[-1.0], sem=[0.1, None])

    two: Any = ["minimize", "maximize"]
    result = ms.minimize(
        f, LINE, 4, directions=two, seed=0, n_initial=3, config=SMALLEST, progress=False, checkpoint=tmp_path / "run"
    )
    assert [trial.sem for trial in result.trials] == [(0.1, None)] * 4
    assert result.to_dataframe()["sem_0"].tolist() == [0.1] * 4
    assert result.to_dataframe()["sem_1"].isna().all()
    opt = ms.Optimizer.load(tmp_path / "run")
    assert opt.trials == result.trials
    assert set(result.importance(1)) == {"x0"}
    opt.tell_params([0.5], (1.0, 2.0), sem=np.array([0.0, 0.5]), constraints=[-1.0])
    opt.tell_params([0.6], (1.0, 2.0), sem=[None, None], constraints=[-1.0])
    assert [trial.sem for trial in opt.trials[-2:]] == [(0.0, 0.5), None]
    sem = opt._trials.history(opt.direction).sem
    np.testing.assert_array_equal(sem, [[0.1, np.nan]] * 4 + [[0.0, 0.5], [np.nan] * 2])
    again = ms.minimize(f, LINE, 1, directions=two, known=result, seed=0, config=SMALLEST, progress=False)
    assert [trial.sem for trial in again.trials] == [(0.1, None)] * 5
    trial = opt.ask()
    for bad, said in (
        (0.1, "sem is a float .*; with 2 objectives it is a list of 2 standard errors"),
        ([0.1], "a list of 2"),
        ([0.1, -1], "sem 1 is -1.0, and a standard error is at least 0"),
        ([0.1, np.True_], "sem 1 is True, not a number"),
        ([math.nan, 1], "sem 0 is NaN"),
    ):
        with pytest.raises(ms.ConfigError, match=said):
            opt.tell(trial, [1.0, 2.0], constraints=[-1.0], sem=bad)  # type: ignore[arg-type]
    with pytest.raises(ms.ConfigError, match="beside a plain value"):
        opt.tell(trial, ([1.0, 2.0], [-1.0]), sem=[0.1, 0.2])
    assert trial in opt.pending
    for wrong in (0.1, ["a", 0.1], [0.1], [True, 0.1]):
        with pytest.raises(ms.ObjectiveTypeError, match="sem"):
            ms.minimize(lambda x, s=wrong: ms.Outcome([1, 2], sem=s), LINE, 3, directions=two, progress=False)


def test_a_damaged_standard_error_is_refused() -> None:
    opt = ms.Optimizer(LINE, direction=["minimize", "maximize"])
    opt.tell_params([0.5], [1.0, 2.0], sem=[0.1, None])
    document = json.loads(json.dumps(to_document(opt._snapshot())))
    assert trials_of(LINE, document["trials"], 2)[0].sem == (0.1, None)
    for bad in (0.1, [0.1], ["a", 0.1], [0.1, -0.1], "ab"):
        document["trials"][0]["sem"] = bad
        with pytest.raises(ValueError, match=r"sem |list of numbers"):
            trials_of(LINE, document["trials"], 2)


def test_of_several_objectives_a_noisy_value_is_believed_less_than_a_precise_one() -> None:
    """The same hill twice, measured badly at its top in the first objective only: too low there, by luck."""
    opt = ms.Optimizer(LINE, direction=["minimize", "maximize"], seed=0)
    for x in np.linspace(0, 1, 9):
        height, top = float(np.sin(np.pi * x)), x == 0.5
        opt.tell_params([x], [height - 0.5 * top, height], sem=[1.0 if top else 0.01, 0.01])
    means, stds = opt.predict([0.5])
    assert means == pytest.approx((1.0, 1.0), abs=0.05)
    assert stds[1] < 0.8 * stds[0]


def test_several_objectives_without_noise() -> None:
    opt = ms.Optimizer(LINE, direction=["minimize", "maximize"], seed=0, noise="none", config=SMALLEST, n_initial=2)
    for x in (0.1, 0.4, 0.8):
        opt.tell_params([x], [x, x**2], sem=None if x < 0.5 else [0.2, None])
    opt.ask()
    assert opt.suggestion is not None
    assert isinstance(opt.suggestion.gp, ImprovementGP)
    noise = opt.suggestion.gp.objectives.noise[:, 0]
    assert (noise[:, :2] == MIN_KNOWN_NOISE).all()
    assert float(noise[0, 2]) > 0.01
    assert float(noise[1, 2]) == MIN_KNOWN_NOISE
    means, stds = opt.predict([0.4])
    assert means == pytest.approx((0.4, 0.16), abs=0.01)
    assert max(stds) < 0.01


def test_a_precise_value_is_believed_and_a_noisy_one_is_not() -> None:
    opt = ms.Optimizer(LINE, seed=0)
    for x in np.linspace(0, 1, 9):
        opt.tell_params([x], (x - 0.3) ** 2 + (-0.5 if x == 0.75 else 0.0), sem=2.0 if x == 0.75 else 0.01)
    assert opt.best is not None
    assert opt.best.params[0] == 0.75
    recommended = opt.recommend()
    assert recommended is not None
    assert abs(recommended.params[0] - 0.3) < 0.1


def test_known_noise_does_not_grow_with_the_scale_of_the_outcomes() -> None:
    """Predictions where values of known precision were told are those values, as precise as they were told."""
    opt = ms.Optimizer(ms.Space.box([0, 0], [1, 1]), seed=0)
    points = np.random.default_rng(1).uniform(0, 1, (12, 2))
    values = np.sin(12 * points[:, 0]) + 2 * points[:, 1] ** 2
    for point, value in zip(points, values, strict=True):
        opt.tell_params(point, float(value), sem=0.01)
    means, stds = np.array([opt.predict(point) for point in points]).T
    assert np.abs(means - values).max() < 0.02
    assert stds.max() < 0.012


def test_without_noise_the_recommended_trial_is_the_best(tmp_path: Path) -> None:
    path = tmp_path / "run"
    space = ms.Space.box([-5], [5])
    settings: dict[str, Any] = dict(seed=0, config=SMALLEST, n_initial=4, progress=False, noise="none")
    result = ms.minimize(sphere, space, 6, checkpoint=path, **settings)
    assert result.recommended == result.best
    assert "under noise" not in str(result)
    opt = ms.Optimizer.load(path)
    assert opt.noise == "none"
    gp, _ = opt._surrogate()
    assert (gp.noise == MIN_KNOWN_NOISE).all()
    with pytest.raises(ms.CheckpointError, match="noise"):
        ms.minimize(sphere, space, 6, checkpoint=path, **{**settings, "noise": "fitted"})
    with pytest.raises(ms.ConfigError, match="noise must be one of"):
        ms.Optimizer(space, noise="low")  # type: ignore[arg-type]


def test_a_value_that_says_nothing_leaves_the_others_as_they_are() -> None:
    """A standard error whose square is no number, alone and beside others, with and without a shape of outcomes."""
    for config in (SMALLEST, DMSConfig.fast()):
        predicted = []
        for sem in (1e20, 1e300):
            opt = ms.Optimizer(ms.Space({"x": ms.Float(0, 1)}), seed=0, config=config)
            for i in range(8):
                opt.tell_params({"x": i / 7}, (i / 7 - 0.3) ** 2, sem=sem if i == 3 else 0.01)
            predicted.append(opt.predict({"x": 0.3}))
        assert predicted[1] == pytest.approx(predicted[0])
    alone = ms.Optimizer(ms.Space({"x": ms.Float(0, 1)}), seed=0, config=SMALLEST)
    for i in range(3):
        alone.tell_params({"x": i / 2}, float(i), sem=1e300)
    assert all(map(math.isfinite, alone.predict({"x": 0.3})))


def test_standard_errors_are_kept(tmp_path: Path) -> None:
    def f(x: np.ndarray) -> Any:
        return ms.Outcome(float(x[0]), sem=0.1)

    result = ms.minimize(f, LINE, 3, seed=0, config=SMALLEST, progress=False, checkpoint=tmp_path / "run")
    assert [trial.sem for trial in result.trials] == [0.1] * 3
    assert result.to_dataframe()["sem"].tolist() == [0.1] * 3
    opt = ms.Optimizer.load(tmp_path / "run")
    assert [trial.sem for trial in opt.trials] == [0.1] * 3
    opt.tell_params([0.5], 1.0)
    assert opt.trials[-1].sem is None
    suggested = opt.ask()
    assert 0 <= suggested.params[0] <= 1
    with pytest.raises(ms.ConfigError, match="at least 0"):
        opt.tell(suggested, 1.0, sem=-0.1)
    with pytest.raises(ms.ConfigError, match="sem"):
        opt.tell(suggested, 1.0, sem=math.nan)
    with pytest.raises(ms.ConfigError, match="sem is True, not a number; leave it out"):
        opt.tell(suggested, 1.0, sem=True)
    assert suggested in opt.pending


def told(noise: float, seed: int) -> ms.Optimizer:
    """A valley at 31 points, most of them near its bottom."""
    rng = np.random.default_rng(seed)
    opt = ms.Optimizer(ms.Space.box([0, 0], [1, 1]), seed=0)
    for x in np.concatenate([rng.random((16, 2)), np.clip(0.4 + 0.05 * rng.standard_normal((15, 2)), 0, 1)]):
        opt.tell_params(x, float(np.square(x - 0.4).sum() + noise * rng.standard_normal()))
    return opt


def test_the_best_trial_is_recommended_unless_the_outcomes_speak_for_noise() -> None:
    for seed in range(2):
        exact, noisy = told(0.0, seed), told(0.1, seed)
        assert not is_noisy(exact._surrogate()[0])
        assert exact.recommend() == exact.best
        assert is_noisy(noisy._surrogate()[0])
    for value in (-1.0, 1.6):  # luck, and what came of it the second time
        noisy.tell_params([0.95, 0.95], value)
    assert noisy.recommend() != noisy.best
    again = ms.Optimizer(LINE, seed=0)
    for x in (0.1, 0.5, 0.5, 0.5, 0.9, 0.9):  # one point, several values
        again.tell_params([x], x + 0.1 * len(again.trials) % 0.3)
    assert is_noisy(again._surrogate()[0])


def test_a_model_that_is_wrong_does_not_recommend_another_trial_than_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = told(0.0, 0)
    gp, outcomes = opt._surrogate()
    blurred = posterior_of(gp.X, gp.y, gp.hyperparameters._replace(noise=torch.full_like(gp.mean, 0.5)), given=gp.given)
    monkeypatch.setattr(opt, "_surrogate", lambda: (blurred, outcomes))
    assert int(blurred.posterior(blurred.X)[0].argmax()) != opt.best.number  # type: ignore[union-attr]
    assert opt.recommend() == opt.best


def test_a_result_says_what_is_expected_of_another_trial_than_the_best() -> None:
    opt = told(0.1, 1)
    for value in (-1.0, 1.6):  # luck, and what came of it the second time
        opt.tell_params([0.95, 0.95], value)
    known = [(trial.params, trial.value) for trial in opt.trials]
    result = ms.minimize(sphere, opt.space, 1, seed=0, known=known, config=SMALLEST, progress=False)
    assert result.recommended is not None
    assert result.expected == pytest.approx(told_and(opt, result).predict(result.recommended.params))
    said = (
        f"expected there: {result.expected[0]:.6g} ± {result.expected[1]:.2g}; while that is too much, measure it again"
        '. If the objective has no noise, say noise="none"'
    )
    assert said in str(result).splitlines()
    assert escape(said) in result._repr_html_()


def test_a_result_says_when_to_measure_the_best_trial_again() -> None:
    """Where it is the recommended one, its value is still part luck; not without noise, or where nobody can tell."""
    for sem, noise, count, says in (
        (0.05, "fitted", 5, True),
        (0.0, "fitted", 5, False),
        (None, "none", 5, False),
        (None, "fitted", 1, False),
    ):
        known = [([x], ms.Outcome(4 * abs(x - 0.5), sem=sem)) for x in np.linspace(0, 1, 5)[:count]]
        result = ms.minimize(
            lambda x, sem=sem: ms.Outcome(2.0, sem=sem),
            LINE,
            1,
            known=known,
            noise=noise,
            config=SMALLEST,
            seed=0,
            progress=False,
        )  # type: ignore[call-overload]
        assert result.recommended == result.best
        assert (result.expected is not None) == says
        assert ("expected of the best trial, under noise: " in str(result)) == says
        assert "If the objective has no noise" not in str(result), "its noise is known, or there is nothing to say"


def told_and(opt: ms.Optimizer, result: ms.Result) -> ms.Optimizer:
    """The optimizer after the last trial of a run, too."""
    last = result.trials[-1]
    opt.tell_params(last.params, last.value)
    return opt


def test_of_many_observations_pending_ones_leave_a_process_that_is_one() -> None:
    """With a noise variance of 1e-8 the inverse for more than 500 smooth outcomes is rounding error."""
    X = torch.rand(1, 600, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    Y = -(X[..., 0] - 0.4).square() + 0.1 * torch.sin(3 * X[..., 0])
    pending = torch.tensor([[[0.2], [0.43], [0.8]]], dtype=torch.float64)
    gp = fit_surrogate(X, Y, ms.DMSConfig(), pending=pending)
    assert float(gp.hyperparameters.noise) >= 1e-6
    assert float(torch.linalg.eigvalsh(gp.inverse).min()) > 0
    at = torch.linspace(0, 1, 101, dtype=torch.float64)[None, :, None]
    whole = posterior_of(gp.X, gp.y, gp.hyperparameters, gp.mean, gp.given)
    for ours, theirs in zip(gp.posterior(at), whole.posterior(at), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    few = fit_surrogate(X[:, :500], Y[:, :500], ms.DMSConfig())
    assert float(few.hyperparameters.noise) < 1e-6
    grown = few.condition(X[:, 500:501]).condition(pending)  # by now of more than 500, with as little noise
    assert float(torch.linalg.eigvalsh(grown.inverse).min()) > 0
    assert float(torch.linalg.eigvalsh(grown.inverse).max()) < 1.1 / float(few.hyperparameters.noise)


def test_exact_outcomes_of_many_are_as_exact_as_an_inverse_can_be() -> None:
    rng = np.random.default_rng(0)
    for n in (500, 501):
        Y = torch.from_numpy(rng.standard_normal((1, n)))
        _, outcomes = mapped_by_standardize(Y)
        variance = outcomes.variance(Y, torch.zeros_like(Y))
        assert variance is not None
        assert float(variance.max()) == (1e-8 if n == 500 else 1e-6)
