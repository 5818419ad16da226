"""The surrogate against BoTorch's SingleTaskGP on equal hyperparameters, and its MAP fit against BoTorch's."""

from __future__ import annotations

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.mlls import ExactMarginalLogLikelihood
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern as SklearnMatern
from torch import Tensor

from modeseek import map_fit, surrogate
from modeseek.config import DMSConfig
from modeseek.embedding import PLAIN, Embedding
from modeseek.fitting import fit_mapped
from modeseek.kernels import MATERN
from modeseek.map_fit import evenly, evidence, fit, log_posterior
from modeseek.outcome_transforms import standardize
from modeseek.priors import EXACT, Hyperparameters
from modeseek.surrogate import GP, Given

SIZES = [(1, 1), (2, 3), (5, 1), (20, 2), (100, 10), (300, 50), (40, 50), (300, 2)]


def data(n: int, d: int, seed: int, b: int = 1) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    X = torch.rand(b, n, d, dtype=torch.float64, generator=g)
    Y = (6 * X).sin().sum(-1) + 0.1 * torch.randn(b, n, dtype=torch.float64, generator=g)
    return X, standardize(Y)


ROUGH = PLAIN.with_kernel(MATERN)


def botorch_twin(X: Tensor, y: Tensor, gp: GP | None = None, embedding: Embedding = PLAIN) -> SingleTaskGP:
    """BoTorch's model on one element's data, with our hyperparameters if given."""
    covariance = None
    if embedding is ROUGH:
        covariance = get_covar_module_with_dim_scaled_prior(X.shape[-1], use_rbf_kernel=False)
    model = SingleTaskGP(X[0], y[0, :, None], outcome_transform=None, covar_module=covariance)
    if gp is not None:
        model.covar_module.lengthscale = gp.hyperparameters.lengthscale[0]
        model.likelihood.noise = gp.hyperparameters.noise[0]
        model.mean_module.constant = gp.mean[0]
    return model.eval()


def botorch_objective(model: SingleTaskGP, y: Tensor) -> float:
    """The MAP objective of BoTorch, summed over the data."""
    model.train()
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    value = mll(model(*model.train_inputs), model.train_targets) * y.shape[-1]
    model.eval()
    return float(value.detach())


@pytest.mark.parametrize(
    ("n", "d", "embedding"), [*((*size, PLAIN) for size in SIZES), (20, 2, ROUGH), (100, 10, ROUGH)]
)
def test_posterior_and_gradients_agree_with_botorch(n: int, d: int, embedding: Embedding) -> None:
    X, y = data(n, d, seed=n + d)
    gp = fit(X, y, given=Given(embedding))
    model = botorch_twin(X, y, gp, embedding)
    x = torch.rand(1, 30, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    probe = x[0].clone().requires_grad_(True)
    posterior = model.posterior(probe.unsqueeze(-2))
    mean, sd = posterior.mean.flatten(), posterior.variance.flatten().sqrt()
    (mean_grad,) = torch.autograd.grad(mean.sum(), probe, retain_graph=True)
    (sd_grad,) = torch.autograd.grad(sd.sum(), probe)

    mu, sigma = gp.posterior(x)
    mu_only, mu_grad = gp.label_and_grad(x, rho=0.0)
    label, label_grad = gp.label_and_grad(x, rho=1.0)
    for ours, theirs in [
        (mu, mean),
        (sigma, sd),
        (mu_only, mean),
        (label, mean + sd),
        (mu_grad, mean_grad),
        (label_grad - mu_grad, sd_grad),
        (gp.label(x, 2.5), mean + 2.5 * sd),
    ]:
        torch.testing.assert_close(ours[0], theirs.detach(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(("n", "d", "embedding"), [(3, 2, PLAIN), (30, 4, PLAIN), (100, 10, PLAIN), (30, 4, ROUGH)])
def test_log_posterior_is_botorchs_objective_and_its_gradient_is_exact(n: int, d: int, embedding: Embedding) -> None:
    X, y = data(n, d, seed=3)
    gp = fit(X, y, steps=2, given=Given(embedding))
    theta = torch.cat([gp.hyperparameters.lengthscale, gp.hyperparameters.noise[:, None]], -1).log()
    value, grad = log_posterior(X, y, theta, Given(embedding))
    assert float(value) == pytest.approx(botorch_objective(botorch_twin(X, y, gp, embedding), y), rel=1e-7)

    eps = 1e-5
    steps = eps * torch.eye(d + 1, dtype=torch.float64)
    up, _ = log_posterior(X.expand(d + 1, n, d), y.expand(d + 1, n), theta + steps, Given(embedding))
    down, _ = log_posterior(X.expand(d + 1, n, d), y.expand(d + 1, n), theta - steps, Given(embedding))
    torch.testing.assert_close(grad[0], (up - down) / (2 * eps), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("n", "d", "seed"),
    [
        *((n, d, seed) for n, d in [(2, 3), (10, 1), (20, 2), (50, 5)] for seed in range(3)),
        *((n, d, 0) for n, d in [(100, 10), (60, 30), (200, 6)]),  # BoTorch's fit takes seconds
    ],
)
def test_map_fit_reaches_botorchs_objective(n: int, d: int, seed: int) -> None:
    X, y = data(n, d, seed)
    gp = fit(X, y)
    ours = botorch_objective(botorch_twin(X, y, gp), y)
    model = SingleTaskGP(X[0], y[0, :, None], outcome_transform=None)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert ours >= botorch_objective(model, y) - 1e-3 * n


def test_the_evidence_is_the_fits_objective_of_each_of_several_outcomes() -> None:
    X, y = data(30, 3, 2, b=2)
    several = torch.stack([y, y.flip(-1)])  # of the same inputs; the second has nothing to do with them
    found = evidence(X, several)
    for of, outcomes in zip(found, several, strict=True):
        gp = fit(X, outcomes)
        theta = torch.cat([gp.hyperparameters.lengthscale, gp.hyperparameters.noise[..., None]], -1).log()
        best, _ = log_posterior(X, outcomes, theta)
        assert (of <= best + 0.03).all(), "the fit has more starts"
        assert (of >= best - 3).all()
    assert (found[0] > found[1] + 5).all()


def test_a_warm_start_never_ends_lower_than_a_cold_one() -> None:
    X, y = data(40, 3, seed=5)
    cold = fit(X, y)
    bad = Hyperparameters(torch.full((1, 3), 0.03, dtype=X.dtype), torch.full((1,), 2.0, dtype=X.dtype))
    warm = fit(X, y, bad)
    assert botorch_objective(botorch_twin(X, y, warm), y) >= botorch_objective(botorch_twin(X, y, cold), y) - 1e-6


def test_a_batch_of_fits_equals_the_fits_alone() -> None:
    X, y = data(30, 4, seed=11, b=4)
    together = fit(X, y)
    for i in range(4):
        alone = fit(X[i : i + 1], y[i : i + 1])
        torch.testing.assert_close(
            together.hyperparameters.lengthscale[i], alone.hyperparameters.lengthscale[0], rtol=1e-3, atol=1e-3
        )
        torch.testing.assert_close(together.alpha[i], alone.alpha[0], rtol=1e-3, atol=1e-3)


def test_conditioning_on_pending_points_is_observing_them_at_their_mean() -> None:
    X, y = data(25, 3, seed=2)
    gp = fit(X, y)
    pending = torch.rand(1, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mu, sigma = gp.posterior(pending)
    conditioned = gp.condition(pending)
    new_mu, new_sigma = conditioned.posterior(pending)
    torch.testing.assert_close(new_mu, mu, atol=1e-8, rtol=1e-8)
    assert (new_sigma < sigma).all()
    assert (new_sigma < 0.9 * sigma).any()

    model = botorch_twin(torch.cat([X, pending], -2), torch.cat([y, mu], -1), gp)
    x = torch.rand(1, 20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    theirs = model.posterior(x[0])
    mu, sigma = conditioned.posterior(x)
    torch.testing.assert_close(mu[0], theirs.mean.flatten().detach(), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(sigma[0].square(), theirs.variance.flatten().detach(), atol=1e-6, rtol=1e-6)


def wavy(n: int, d: int, seed: int) -> tuple[Tensor, Tensor]:
    """Outcomes as a run has them: half of the inputs anywhere, half near one place."""
    g = torch.Generator().manual_seed(seed)
    X = torch.rand(1, n, d, dtype=torch.float64, generator=g)
    X[:, n // 2 :] = (0.6 + 0.1 * (X[:, n // 2 :] - 0.5)).clamp(0, 1)
    Y = (5 * X).sin().sum(-1) + 2 * X[..., 0] * X[..., -1]
    return X, standardize(Y + 0.1 * torch.randn(1, n, dtype=torch.float64, generator=g))


def log_theta(gp: GP) -> Tensor:
    return torch.cat([gp.hyperparameters.lengthscale, gp.hyperparameters.noise[..., None]], -1).log()


@pytest.mark.parametrize(
    ("n", "d", "enough", "gap", "warm"),
    [(600, 3, 1000, 1e-4, True), (600, 3, 400, 0.01, False), (700, 8, 400, 0.02, True)],  # seconds each
)
def test_a_fit_to_some_of_many_observations_agrees_with_the_fit_to_all(
    n: int, d: int, enough: int, gap: float, warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = wavy(n, d, seed=n)
    monkeypatch.setattr(map_fit, "ENOUGH", enough)
    before = fit(X[:, :-20], y[:, :-20]).hyperparameters if warm else None
    some = fit(X, y, before)
    monkeypatch.setattr(map_fit, "MANY", n)
    full = fit(X, y, before)
    best, found = (log_posterior(X, y, log_theta(gp))[0] for gp in (full, some))
    assert found > best - gap * n
    x = torch.rand(1, 100, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (mu, sigma), (some_mu, some_sigma) = full.posterior(x), some.posterior(x)
    assert ((some_mu - mu) / sigma).square().mean() < 10 * gap
    assert (some_sigma / sigma).log().square().mean() < 10 * gap


def test_up_to_many_observations_all_of_them_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = wavy(60, 2, seed=3)
    monkeypatch.setattr(map_fit, "MANY", 60)
    monkeypatch.setattr(map_fit, "evenly", None)  # nothing is left out, so nothing is chosen
    assert not fit(X, y).fit_failed.any()


def test_some_observations_are_spread_over_the_ranks_with_the_best_and_the_worst() -> None:
    X, y = data(101, 2, seed=1, b=3)
    some_x, some_y = evenly(X, y, 11)
    torch.testing.assert_close(some_y.sort(-1).values, y.sort(-1).values[:, ::10])
    for row in range(3):
        for x, outcome in zip(some_x[row], some_y[row], strict=True):
            assert X[row][y[row] == outcome].equal(x[None])
    assert evenly(X, y, 101)[1] is y


def test_conditioning_a_gaussian_process_of_many_observations_by_a_border_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = data(60, 3, seed=4, b=2)
    gp = fit(X, y)
    pending = torch.rand(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    anew = gp.condition(pending)
    monkeypatch.setattr(surrogate, "MANY", 10)
    bordered = gp.condition(pending)
    torch.testing.assert_close(bordered.inverse, anew.inverse, atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(bordered.alpha, anew.alpha, atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(bordered.y, anew.y)


def test_many_observations_of_one_input_are_no_obstacle() -> None:
    X = torch.full((1, 520, 2), 0.5, dtype=torch.float64)
    y = torch.randn(1, 520, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    gp = fit(X, y)
    mu, sigma = gp.condition(X[:, :3]).posterior(X[:, :1])
    assert mu.isfinite().all()
    assert sigma.isfinite().all()


def smooth(b: int = 1) -> tuple[Tensor, Tensor]:
    X = torch.rand(b, 40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    return X, standardize(-(X - 0.4).square().sum(-1))


def test_smooth_outcomes_are_believed_more_exactly_where_the_settings_say_so() -> None:
    X, Y = smooth()
    of = {name: fit_mapped(X, Y, DMSConfig(noise_prior=name, warp="never"))[0] for name in ("gamma", "exact")}
    noise = {name: float(gp.hyperparameters.noise) for name, gp in of.items()}
    assert 1e-8 * 0.999 < noise["exact"] < 0.99e-6 < noise["gamma"]
    off = {name: float((gp.posterior(X)[0] - gp.y).abs().max()) for name, gp in of.items()}
    assert off["exact"] < off["gamma"]


def test_a_surrogate_with_hardly_any_noise_agrees_with_scikit_learn() -> None:
    X, y = smooth()
    x = torch.rand(1, 30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    gp = fit(X, y, given=Given(ROUGH, EXACT))
    kernel = SklearnMatern(gp.hyperparameters.lengthscale[0].numpy(), nu=2.5)
    twin = GaussianProcessRegressor(kernel, alpha=float(gp.hyperparameters.noise), optimizer=None)
    mean = float(gp.mean)
    twin.fit(X[0].numpy(), y[0].numpy() - mean)
    mu, sigma = twin.predict(x[0].numpy(), return_std=True)
    ours = gp.posterior(x)
    torch.testing.assert_close(ours[0][0], torch.from_numpy(mu + mean), rtol=0, atol=1e-5)
    torch.testing.assert_close(ours[1][0], torch.from_numpy(sigma), rtol=0, atol=1e-5)


def test_a_batch_of_fits_with_hardly_any_noise_equals_the_fits_alone() -> None:
    X, y = smooth(3)
    x = torch.rand(3, 20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    together, alone = fit(X, y, given=Given(ROUGH, EXACT)), fit(X[1:2], y[1:2], given=Given(ROUGH, EXACT))
    torch.testing.assert_close(together.posterior(x)[0][1:2], alone.posterior(x[1:2])[0], rtol=0, atol=1e-4)
