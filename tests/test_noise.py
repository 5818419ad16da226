"""Noise that is known: of each observation, or that there is none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from tests.shared import SMALLEST, generator, sphere
from torch import Tensor

import modeseek as ms
from modeseek.config import DMSConfig
from modeseek.fitting import MIN_KNOWN_NOISE, fit_mapped
from modeseek.paths import draw_paths
from modeseek.recommendation import is_noisy
from modeseek.sketch import sketch
from modeseek.surrogate import Hyperparameters, bounds_of_theta, fit, log_posterior, posterior_of, theta_of

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
        mu, sigma = posterior_of(X, y, hyperparameters, mean, known_noise=noise).posterior(x)
        torch.testing.assert_close(mu[0], theirs.mean[:, 0], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(sigma[0], theirs.variance[:, 0].sqrt(), atol=1e-6, rtol=1e-6)


def test_the_fit_knows_which_noise_is_known() -> None:
    X, y, known = data()
    theta = torch.tensor([[-0.5, 0.2, -2.0]], dtype=torch.float64)
    _, grad = log_posterior(X, y, theta, known=known)
    for i, e in enumerate(1e-6 * torch.eye(3, dtype=torch.float64)):
        ends = [log_posterior(X, y, theta + sign * e, known=known)[0] for sign in (1, -1)]
        torch.testing.assert_close(grad[:, i], (ends[0] - ends[1]) / 2e-6, atol=1e-5, rtol=1e-5)
    gp = fit(X, y, known_noise=known)
    top = theta_of(gp.hyperparameters)
    value, slope = log_posterior(X, y, top, known=known)
    inside = (top > bounds_of_theta(X)[0] + 1e-6) & (top < bounds_of_theta(X)[1] - 1e-6)
    assert (slope[inside].abs() < 0.05).all()
    assert (value >= log_posterior(X, y, theta, known=known)[0]).all()
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
        known_noise=torch.tensor([[0.03 / 0.4, 0.05]], dtype=torch.float64),
    )  # fmt: skip
    x = torch.linspace(0, 1, 7, dtype=torch.float64)[None, :, None]
    twice = posterior_of(X, y, hyperparameters, mean, known_noise=noise)
    for ours, theirs in zip(twice.posterior(x), once.posterior(x), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_sketch_and_draws_of_all_observations_have_their_noise() -> None:
    X, y, known = data(30)
    gp = fit(X, y, known_noise=known)
    x = torch.rand(1, 6, 2, dtype=torch.float64, generator=generator(3))
    torch.testing.assert_close(sketch(gp, 30).label(x, 1.0), gp.label(x, 1.0), atol=1e-4, rtol=1e-4)
    paths = draw_paths(gp, 4000, generator(4), features=2048).everywhere(x)
    mu, sigma = gp.posterior(x)
    torch.testing.assert_close(paths.mean(-2), mu, atol=0.06, rtol=0.0)
    torch.testing.assert_close(paths.std(-2), sigma, atol=0.06, rtol=0.0)


def test_pending_points_join_observations_with_known_noise() -> None:
    X, y, known = data()
    gp = fit(X, y, known_noise=known)
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
    assert gp.known_noise is not None
    assert float(gp.known_noise[0, 0]) == MIN_KNOWN_NOISE
    assert gp.known_noise[0, 3:].isnan().all()
    step = 1e-4
    slope = (outcomes.apply(Y + step) - outcomes.apply(Y - step)) / (2 * step)
    expected = (sem * slope).square().clamp_min(MIN_KNOWN_NOISE)
    torch.testing.assert_close(gp.known_noise[0, 1:3], expected[0, 1:3], rtol=0.1, atol=1e-6)


def test_a_precise_value_is_believed_and_a_noisy_one_is_not() -> None:
    opt = ms.Optimizer(LINE, seed=0)
    for x in np.linspace(0, 1, 9):
        opt.tell_params([x], (x - 0.3) ** 2 + (-0.5 if x == 0.75 else 0.0), sem=2.0 if x == 0.75 else 0.01)
    assert opt.best is not None
    assert opt.best.params[0] == 0.75
    recommended = opt.recommend()
    assert recommended is not None
    assert abs(recommended.params[0] - 0.3) < 0.1


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
    blurred = posterior_of(gp.X, gp.y, gp.hyperparameters._replace(noise=torch.full_like(gp.mean, 0.5)), prior=gp.prior)
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
    assert f"expected there: {result.expected[0]:.6g} ± {result.expected[1]:.2g}" in str(result)


def told_and(opt: ms.Optimizer, result: ms.Result) -> ms.Optimizer:
    """The optimizer after the last trial of a run, too."""
    last = result.trials[-1]
    opt.tell_params(last.params, last.value)
    return opt
