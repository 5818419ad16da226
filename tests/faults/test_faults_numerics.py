"""Where the numerics fail, the answer is still one: faults 16 to 18 of docs/faults.md."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from modeseek import Optimizer, Space, map_fit
from modeseek.dms import State, suggest
from modeseek.fitting import fit_surrogate
from modeseek.lbfgs import lbfgs
from modeseek.outcome_transforms import standardize
from modeseek.priors import Hyperparameters
from modeseek.surrogate import posterior_of
from shared import TRAINED, generator, hill, run


def test_fault_18_one_point_as_pseudo_set_is_the_answer() -> None:
    X, Y = hill(60, 2)
    config = dataclasses.replace(TRAINED, refine="point", K=200, polish=False, noise_prior="log-normal")
    out = suggest(X, Y, config, generator())
    assert out.fell_back.all()
    best = out.pseudo_x[0, out.pseudo_y[0].argmax()]
    torch.testing.assert_close(out.x_next[0], best)
    assert out.state.network.isfinite().all()


def test_fault_18_a_network_gone_to_nan_is_replaced_in_its_element_alone() -> None:
    X, Y = hill(20, 2, b=2)
    config = dataclasses.replace(TRAINED, K=0)
    good = suggest(X, Y, config, generator()).state
    network = good.network.clone()
    network[1] = torch.nan
    out = suggest(X, Y, config, generator(), state=State(good.lengthscale, good.noise, network))
    assert out.fell_back.tolist() == [False, True]
    assert out.x_next.isfinite().all()
    assert out.candidates.isfinite().all()
    assert out.state.network.isfinite().all()
    again = suggest(X, Y, config, generator(1), state=out.state)
    assert not again.fell_back.any()


def test_fault_16_a_fit_that_fails_keeps_the_prior_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    true = map_fit.log_posterior

    def broken(X: Tensor, y: Tensor, theta: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        value, grad = true(X, y, theta, *rest)
        value[..., 0] = torch.nan  # the first element only
        return value, grad

    monkeypatch.setattr(map_fit, "log_posterior", broken)
    X, Y = hill(15, 2, b=2)
    gp = fit_surrogate(X, Y, TRAINED)
    assert gp.fit_failed.tolist() == [True, False]
    prior_mode = torch.tensor(2.0).sqrt() + 0.5 * torch.tensor(2.0).log() - 3
    torch.testing.assert_close(gp.hyperparameters.lengthscale[0].log(), prior_mode.double().expand(2))
    assert suggest(X, Y, TRAINED, generator()).x_next.isfinite().all()


@pytest.mark.parametrize("noise", [(-5e-9, -5e-8), (-5e-8, 1e-3), (-1e-4, -5e-9)])
def test_fault_16_each_element_gets_the_jitter_that_it_needs_alone(noise: tuple[float, float]) -> None:
    X = torch.full((2, 20, 2), 0.5, dtype=torch.float64)
    y = torch.randn(2, 20, dtype=torch.float64, generator=generator())
    hyperparameters = Hyperparameters(torch.ones(2, 2, dtype=torch.float64), torch.tensor(noise, dtype=torch.float64))
    together = posterior_of(X, y, hyperparameters)
    assert not together.fit_failed.any()
    for i in range(2):
        alone = posterior_of(X[i : i + 1], y[i : i + 1], Hyperparameters(*(h[i : i + 1] for h in hyperparameters)))
        torch.testing.assert_close(together.inverse[i], alone.inverse[0])
        for gp in (together, alone):
            mu, sigma = gp.posterior(gp.X)
            assert mu.abs().max() < 10
            assert sigma.isfinite().all()


def test_fault_16_no_jitter_helps_then_the_prior_does() -> None:
    X = torch.rand(2, 15, 2, dtype=torch.float64, generator=generator())
    y = standardize(X.sum(-1))
    hopeless = Hyperparameters(torch.ones(2, 2, dtype=torch.float64), torch.tensor([1e-3, -0.9], dtype=torch.float64))
    gp = posterior_of(X, y, hopeless)
    assert gp.fit_failed.tolist() == [False, True]
    assert gp.hyperparameters.noise[1].log().item() == pytest.approx(-5)
    assert gp.hyperparameters.noise[0].item() == 1e-3
    mu, _ = gp.posterior(X)
    assert (mu - y).abs().max() < 0.5


def test_fault_16_and_18_the_first_is_said_once_the_second_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(X: Tensor, y: Tensor, theta: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        return torch.full(theta.shape[:-1], torch.nan, dtype=theta.dtype), torch.zeros_like(theta)

    monkeypatch.setattr(map_fit, "log_posterior", failing)
    opt = Optimizer(Space.box([0, 0], [1, 1]), seed=0, n_initial=3, config=dataclasses.replace(TRAINED, m=1))
    with warnings.catch_warnings(record=True) as caught, caplog.at_level("DEBUG", "modeseek"):
        warnings.simplefilter("always")
        run(opt, 7)
    assert [w.category.__name__ for w in caught] == ["FitWarning"]
    assert "diffusion model skipped" in caplog.text


@pytest.mark.parametrize("spoil", ["value", "gradient"])
def test_fault_17_a_row_that_meets_nan_stops_where_it_was_and_the_others_go_on(spoil: str) -> None:
    c = torch.rand(5, 3, dtype=torch.float64, generator=generator(7)) - 2

    def clean(x: Tensor) -> tuple[Tensor, Tensor]:
        return 0.5 * (x - c).square().sum(-1), x - c

    def objective(x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = clean(x)
        wall = torch.arange(5) == 2
        bad = wall & (x - start).abs().gt(0).any(-1)
        if spoil == "value":
            return torch.where(bad, torch.nan, value), grad
        return value, torch.where(bad[:, None], torch.nan, grad)

    start = torch.zeros_like(c)
    end = lbfgs(objective, start, -10.0, 10.0, steps=200, gtol=1e-8)
    torch.testing.assert_close(end.x[2], start[2])
    good = [0, 1, 3, 4]
    torch.testing.assert_close(end.x[good], c[good], atol=1e-4, rtol=0)
