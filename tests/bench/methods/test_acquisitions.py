"""The acquisition functions for many problems at once, against BoTorch's."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    ExpectedImprovement,
    LogExpectedImprovement,
    ProbabilityOfImprovement,
    UpperConfidenceBound,
)
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf

from modeseek.bench.methods import acquisitions as batched
from modeseek.bench.methods import information
from modeseek.bench.methods.botorch_methods import botorch_model
from modeseek.draws import Draws
from modeseek.history import History
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.space import Space
from modeseek.surrogate import GP, Surrogate

THEIRS: dict[str, Callable[[GP, SingleTaskGP], AcquisitionFunction]] = {
    "ucb": lambda gp, model: UpperConfidenceBound(model, beta=1.0),
    "logei": lambda gp, model: LogExpectedImprovement(model, best_f=gp.y.max()),
    "pi": lambda gp, model: ProbabilityOfImprovement(model, best_f=gp.y.max()),
    "ei": lambda gp, model: ExpectedImprovement(model, best_f=gp.y.max()),
}


def function(name: str, gp: GP) -> Surrogate:
    return batched.ACQUISITIONS[name](gp, Draws.of(torch.Generator().manual_seed(0), gp.X.shape[:-2]))


def data(n: int, d: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    X = torch.rand(1, n, d, dtype=torch.float64, generator=g)
    return X, torch.sin(7 * X).sum(-1) + 0.05 * torch.randn(1, n, dtype=torch.float64, generator=g)


def fitted(n: int, d: int, seed: int) -> GP:
    X, Y = data(n, d, seed)
    return fit(X, standardize(Y))


def acquired(
    name: str, X: torch.Tensor, Y: torch.Tensor, device: str = "cpu"
) -> tuple[torch.Tensor, batched.Acquisition]:
    """The next point of each row (b x d), and the method after it."""
    method = batched.Acquisition(
        name, [Space.box([0] * X.shape[-1], [1] * X.shape[-1])] * len(X), range(len(X)), device
    )
    histories = [History.of(x, y) for x, y in zip(X.numpy(), Y.numpy(), strict=True)]
    return torch.from_numpy(method(histories)), method


@pytest.mark.parametrize("name", list(THEIRS))
@pytest.mark.parametrize("d", [1, 3, 8])
def test_values_and_gradients_are_botorchs(name: str, d: int) -> None:
    gp = fitted(25, d, seed=d)
    x = torch.rand(1, 60, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    theirs = THEIRS[name](gp, botorch_model(gp))(x[0, :, None])
    (slope,) = torch.autograd.grad(theirs.sum(), x)
    with torch.no_grad():
        value, grad = function(name, gp).label_and_grad(x.detach(), 1.0)
    if name == "pi":  # ours is z, BoTorch's Φ(z)
        density = torch.exp(-value.square() / 2) / (2 * torch.pi) ** 0.5
        value, grad = torch.special.ndtr(value), grad * density[..., None]
    torch.testing.assert_close(value[0], theirs.detach(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(grad, slope, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(function(name, gp).label(x.detach(), 1.0)[0, 0], value_of(name, gp, x))


def value_of(name: str, gp: GP, x: torch.Tensor) -> torch.Tensor:
    return function(name, gp).label_and_grad(x.detach(), 1.0)[0][0, 0]


@pytest.mark.parametrize("z", [-1e9, -1e6, -1.0001e5, -0.9999e5, -1e3, -30.0, -1.0001, -0.9999, 0.0, 5.0])
def test_log_ei_is_exact_far_from_improvement(z: float) -> None:
    gp = fitted(15, 2, seed=0)
    x = torch.rand(1, 1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mu, sigma = gp.posterior(x)
    best = mu - z * sigma
    theirs = LogExpectedImprovement(botorch_model(gp), best_f=best[0, 0])(x)
    (_, by_mu), (_, by_both) = gp.label_and_grad(x, 0.0), gp.label_and_grad(x, 1.0)
    with mpmath.workdps(80):  # BoTorch's gradient has three digits at z = -1e6
        at = mpmath.mpf(float((mu - best) / sigma))
        h = mpmath.npdf(at) + at * mpmath.ncdf(at)
        of_mu, of_sigma = (float(part / h / float(sigma)) for part in (mpmath.ncdf(at), mpmath.npdf(at)))
    value, grad = batched.LogEI(gp, best).label_and_grad(x)
    torch.testing.assert_close(value[0], theirs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(grad, of_mu * by_mu + of_sigma * (by_both - by_mu), rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(batched.LogEI(gp, best).label(x), value)


def test_starts_on_what_is_zero_nearly_everywhere_are_where_it_is_not() -> None:
    values = torch.zeros(1, 500, dtype=torch.float64)
    values[0, :20], values[0, 20:30] = torch.linspace(1, 2, 20), 1e-9
    weights = batched._weights_of_nonnegative(values)
    assert set(torch.multinomial(weights, 20, generator=torch.Generator().manual_seed(0))[0].tolist()) == set(range(20))
    assert set(torch.multinomial(weights, 30, generator=torch.Generator().manual_seed(0))[0].tolist()) == set(range(30))
    assert (batched._weights_of_nonnegative(torch.zeros(1, 9)) > 0).all()


def test_points_without_a_value_are_passed_over() -> None:
    gp = fitted(20, 2, seed=0)

    class HalfNaN(batched.PI):
        def label(self, x: torch.Tensor, rho: float = 0.0) -> torch.Tensor:
            return torch.where(x[..., 0] < 0.5, super().label(x), torch.nan)

        def label_and_grad(self, x: torch.Tensor, rho: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
            return self.label(x), super().label_and_grad(x)[1]

    _, x = batched.maximize(HalfNaN(gp, gp.y.amax(-1, keepdim=True)), torch.Generator().manual_seed(0))
    assert x.shape == (1, 2)
    assert x[0, 0] < 0.5


@pytest.mark.parametrize("name", list(THEIRS))
def test_hardly_any_data_and_equal_outcomes_have_an_answer(name: str) -> None:
    X = torch.rand(2, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for inputs, outcomes in ((X, X[..., 0]), (X.expand(2, 9, 3), torch.ones(2, 9, dtype=torch.float64))):
        x = acquired(name, inputs, outcomes)[0]
        assert ((x >= 0) & (x <= 1)).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.gpu
@pytest.mark.parametrize("name", list(batched.ACQUISITIONS))
def test_cpu_and_gpu_agree(name: str) -> None:
    X, Y = (torch.cat(rows) for rows in zip(*(data(30, 4, seed) for seed in range(4)), strict=True))
    (here, on_cpu), (there, on_gpu) = (acquired(name, X, Y, place) for place in ("cpu", "cuda"))
    scales = on_gpu.state["lengthscale"].cpu(), on_cpu.state["lengthscale"]
    torch.testing.assert_close(*scales, rtol=1e-2, atol=1e-2)
    acquired_by = function(name, fit(X, standardize(Y)))
    gap = acquired_by.label(there[:, None], 1.0) - acquired_by.label(here[:, None], 1.0)
    assert gap.abs().median() < 1e-3


@pytest.mark.parametrize("name", list(THEIRS))
def test_the_maximum_is_as_high_as_botorchs(name: str) -> None:
    """Each of several problems of a batch, maximized together, against `optimize_acqf` alone."""
    seeds, d = range(5), 4
    X, Y = (torch.cat(rows) for rows in zip(*(data(30, d, seed) for seed in seeds), strict=True))
    chosen, method = acquired(name, X, Y)
    assert chosen.shape == (5, d)
    assert set(method.seconds) == {"fit", "acquire"}
    bounds = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64)
    behind = 0
    for seed in seeds:
        gp = fitted(30, d, seed)
        of_botorch = THEIRS[name](gp, botorch_model(gp))
        torch.manual_seed(seed)
        _, theirs = optimize_acqf(of_botorch, bounds, q=1, num_restarts=10, raw_samples=512)
        behind += bool(of_botorch(chosen[seed, None, None]) < theirs - 1e-3)
    assert behind <= 1, "chance may favour either on one of five"


@pytest.mark.parametrize("name", [*THEIRS, "ts", "gibbon", "jes", "pes"])
def test_a_row_is_as_it_would_be_alone_and_goes_on_from_its_state(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(information, "OPTIMA", 4)
    monkeypatch.setattr(information, "CANDIDATES", 100)
    X, Y = (torch.cat(rows) for rows in zip(*(data(20, 2, seed) for seed in range(3)), strict=True))
    together, method = acquired(name, X, Y)
    cube = Space.box([0, 0], [1, 1])
    again = batched.Acquisition(name, [cube], [1])
    again.restore({key: tensor[1:2] for key, tensor in method.state.items()})
    for seed in range(3):
        alone = batched.Acquisition(name, [cube], [seed])([History.of(X[seed].numpy(), Y[seed].numpy())])
        torch.testing.assert_close(torch.from_numpy(alone)[0], together[seed], rtol=1e-4, atol=1e-4)
    again([History.of(X[1].numpy(), Y[1].numpy())])
    torch.testing.assert_close(again.state["noise"], method.state["noise"][1:2], rtol=0.1, atol=1e-4)
