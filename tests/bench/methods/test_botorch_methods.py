"""BoTorch's acquisition functions: the same GP as ours, really maximized, and never without an answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.acquisition import AcquisitionFunction, qLowerBoundMaxValueEntropy
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf

from modeseek import Space
from modeseek.bench.methods import botorch_methods as bo
from modeseek.bench.methods.botorch_methods import botorch_model
from modeseek.bench.methods.method import tensors
from modeseek.design import sobol
from modeseek.history import History
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.pseudo import refine_inputs
from modeseek.surrogate import GP


def history(n: int, d: int, seed: int = 0) -> History:
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return History.of(X, np.sin(6 * X).sum(1) + 0.1 * rng.standard_normal(n))


def cube(d: int) -> Space:
    return Space.box([0] * d, [1] * d)


def fitted(h: History) -> GP:
    X, Y = tensors(h, "cpu")
    return fit(X, standardize(Y))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (20, 2), (80, 10)])
def test_botorch_model_is_our_gp(n: int, d: int) -> None:
    gp = fitted(history(n, d))
    model = botorch_model(gp)
    x = torch.rand(1, 50, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    posterior = model.posterior(x[0])
    mu, sigma = gp.posterior(x)
    torch.testing.assert_close(posterior.mean[:, 0], mu[0], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(posterior.variance[:, 0], sigma[0].square(), atol=1e-6, rtol=1e-6)
    assert not model.training


@pytest.mark.parametrize("method", [bo.EI, bo.LogEI, bo.UCB, bo.PI], ids=lambda method: method.__name__)
@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_choice_is_as_good_as_any_of_2000_random_points(method: type[bo.Acquisition], d: int) -> None:
    h = history(10 * d, d)
    chooser, gp = method(cube(d), 0), fitted(h)
    chosen = torch.from_numpy(chooser(h))
    assert not chooser.fell_back
    torch.manual_seed(0)
    function = chooser.acquisition(gp, botorch_model(gp))
    x = torch.cat([chosen[None], torch.rand(2000, d, dtype=torch.float64)]).unsqueeze(-2)
    with torch.no_grad():
        values = function(x)
    assert values[0] >= values[1:].max() - 1e-6 * values[0].abs()


@pytest.mark.parametrize("d", [1, 2, 6])
def test_ucb_is_the_maximum_of_the_label(d: int) -> None:
    h = history(10 * d, d, seed=1)
    gp = fitted(h)
    x = refine_inputs(gp, sobol(500, d, torch.Generator().manual_seed(0), (1,)), K=300, rho=1.0)
    labels = gp.label(x, rho=1.0)[0]
    u = torch.from_numpy(bo.UCB(cube(d), 0)(h))
    assert float(gp.label(u[None, None], rho=1.0)) == pytest.approx(float(labels.max()), abs=1e-5)
    assert (u - x[0, labels.argmax()]).abs().max() < 1e-2


def test_ucb_knows_its_coefficient() -> None:
    gp = fitted(history(20, 2))
    x = torch.rand(1, 7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    function = bo.UCB(cube(2), 0, coefficient=2.5).acquisition(gp, botorch_model(gp))
    torch.testing.assert_close(function(x[0, :, None]), gp.label(x, rho=2.5)[0], atol=1e-6, rtol=1e-6)


def test_thompson_samples_spread_and_follow_the_posterior() -> None:
    h = history(4, 2)
    gp = fitted(h)
    points = torch.from_numpy(np.stack([bo.TS(cube(2), seed)(h) for seed in range(12)]))
    assert (points.std(0) > 0.05).all()
    everywhere = torch.rand(1, 2000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert gp.label(points[None], rho=2.0).mean() > gp.label(everywhere, rho=2.0).mean()


@pytest.mark.parametrize("method", [bo.PES, bo.JES], ids=lambda method: method.__name__)
def test_entropy_search_prefers_where_the_optimum_may_be(method: type[bo.PES | bo.JES]) -> None:
    """Where f is known there is nothing to learn about its maximum."""
    X = np.linspace(0, 0.5, 25)[:, None]
    h = History.of(X, np.sin(20 * X[:, 0]))
    u = method(cube(1), 0, optima=16, path_restarts=4, path_raw_samples=64, num_restarts=3, raw_samples=64)(h)
    assert u[0] > 0.5


def test_pes_is_maximized_as_well_as_by_scipys_finite_differences() -> None:
    gp = fitted(history(20, 2))
    torch.manual_seed(0)
    function = bo.PES(cube(2), 0, optima=8, path_restarts=4, path_raw_samples=64).acquisition(gp, botorch_model(gp))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    starts = torch.rand(4, 1, 2, dtype=torch.float64)
    ours, scipys = (
        optimize_acqf(f, bounds, q=1, num_restarts=4, batch_initial_conditions=starts, options=options)[1]
        for f, options in ((function, {}), (function.function, {"with_grad": False}))
    )
    assert ours >= scipys - 1e-4 * scipys.abs()


def test_the_settings_are_the_papers() -> None:
    assert bo.PES(cube(2), 0).optima == bo.JES(cube(2), 0).optima == 100
    assert bo.GIBBON(cube(2), 0).candidates == 10_000
    assert bo.UCB(cube(2), 0).coefficient == 1.0
    assert (bo.EI(cube(2), 0).num_restarts, bo.EI(cube(2), 0).raw_samples) == (10, 512)


def test_gibbon_is_botorchs_without_the_covariances_of_its_candidates() -> None:
    gp = fitted(history(20, 3))
    model = botorch_model(gp)
    torch.manual_seed(0)
    ours = bo.GIBBON(cube(3), 0, candidates=300).acquisition(gp, model)
    torch.manual_seed(0)
    theirs = qLowerBoundMaxValueEntropy(model, candidate_set=torch.rand(300, 3, dtype=torch.float64))
    torch.testing.assert_close(ours.posterior_max_values, theirs.posterior_max_values, atol=1e-8, rtol=1e-8)
    x = torch.rand(50, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-7, rtol=1e-7)


def test_finite_differences_are_the_gradient_also_at_the_faces() -> None:
    gp = fitted(history(20, 3))
    exact = bo.UCB(cube(3), 0).acquisition(gp, botorch_model(gp))
    rough = bo.FiniteDifferences(exact)
    x = torch.rand(25, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[0], x[1] = 0.0, 1.0
    x.requires_grad_(True)
    (expected,) = torch.autograd.grad(exact(x).sum(), x)
    values = rough(x)
    (gradient,) = torch.autograd.grad(values.sum(), x)
    torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(values, exact(x))
    with torch.no_grad():
        torch.testing.assert_close(rough(x), exact(x))


class NaN(AcquisitionFunction):
    """μ + σ in the lower half of the first coordinate, NaN in the upper."""

    def __init__(self, gp: GP, model: SingleTaskGP) -> None:
        super().__init__(model)
        self.gp = gp

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        value = self.gp.label(X.squeeze(-2)[None], rho=1.0)[0] + 0 * X.sum((-1, -2))
        return torch.where(X[:, 0, 0] < 0.5, value, torch.nan)


class Broken(bo.Acquisition):
    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:
        raise RuntimeError("not positive definite")


class PartlyBroken(bo.Acquisition):
    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:
        return NaN(gp, model)


def test_a_failed_acquisition_falls_back_to_the_best_raw_sample() -> None:
    h = history(20, 2)
    gp = fitted(h)
    x = torch.rand(1, 200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    broken = Broken(cube(2), 0)
    u = torch.from_numpy(broken(h))
    assert broken.fell_back
    assert gp.label(u[None, None], rho=1.0) > gp.label(x, rho=1.0).quantile(0.95)

    partly = PartlyBroken(cube(2), 0)
    u = torch.from_numpy(partly(h))
    assert u.isfinite().all()
    if partly.fell_back:
        assert u[0] < 0.5
        left = x[:, x[0, :, 0] < 0.5]
        assert gp.label(u[None, None], rho=1.0) > gp.label(left, rho=1.0).quantile(0.9)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("method", [bo.LogEI, bo.TS, bo.PES, bo.GIBBON, bo.JES], ids=lambda method: method.__name__)
def test_a_gpu_needs_no_fallback(method: type[bo.Acquisition]) -> None:
    few = {"optima": 4} if issubclass(method, bo.PES | bo.JES) else {}
    chooser = method(cube(2), 0, device="cuda", **few)
    point = chooser(history(20, 2))
    assert not chooser.fell_back
    assert ((point >= 0) & (point <= 1)).all()
