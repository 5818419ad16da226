"""`dms_candidates`: every kind of model, the closed form beside autograd, pending points, bad input."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP, SingleTaskVariationalGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.ensemble import EnsembleModel
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms import Log, Normalize
from botorch.models.transforms.input import InputStandardize
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin, Hartmann
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import LinearMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from modeseek import CollapseWarning, ConfigError, ModeseekError
from modeseek.design import sobol
from modeseek.integrations.botorch import dms_candidates
from modeseek.integrations.botorch_models import PosteriorSurrogate, closed_form
from shared import TRAINED, generator

NEAR = replace(TRAINED, rho=1.0, rho_stalled=None, rho_far=None)  # whatever the number of observations
BOUNDS = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], dtype=torch.float64)

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")


def branin(n: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sobol inputs n x 2 and outcomes n x 1, to be maximized."""
    X = BOUNDS[0] + sobol(n, 2, generator(seed)) * (BOUNDS[1] - BOUNDS[0])
    return X, Branin(negate=True)(X)[:, None]


def set_hyperparameters(model: SingleTaskGP) -> SingleTaskGP:
    """As a fit might leave them, without the time of a fit."""
    kernel = model.covar_module.base_kernel if isinstance(model.covar_module, ScaleKernel) else model.covar_module
    kernel.lengthscale = torch.tensor([0.3, 0.6])[: kernel.lengthscale.shape[-1]]
    return model


def gp(seed: int = 0, **options: object) -> SingleTaskGP:
    options = {"input_transform": Normalize(2, bounds=BOUNDS), **options}
    return set_hyperparameters(SingleTaskGP(*branin(seed=seed), **options))


class Parabolas(EnsembleModel):
    """Three opinions about where the hill is."""

    _num_outputs = 1

    def forward(self, X: Tensor) -> Tensor:  # noqa: N803
        return torch.stack([-(X - centre).square().sum(-1, keepdim=True) for centre in (2.0, 3.0, 4.0)], -3)


MODELS: dict[str, Callable[[], Model]] = {
    "default": gp,
    "matern": lambda: gp(covar_module=MaternKernel(nu=1.5, ard_num_dims=2)),
    "matern of one input": lambda: gp(covar_module=MaternKernel(nu=2.5, active_dims=[0])),
    "scaled matern": lambda: gp(covar_module=ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=2))),
    "no transforms": lambda: gp(outcome_transform=None, input_transform=None),
    "log outcomes": lambda: set_hyperparameters(
        SingleTaskGP(branin()[0], -branin()[1], outcome_transform=Log(), input_transform=InputStandardize(2))
    ),
    "given noise": lambda: gp(train_Yvar=torch.full((12, 1), 4.0, dtype=torch.float64)),
    "linear mean": lambda: gp(mean_module=LinearMean(2)),
    "float32": lambda: set_hyperparameters(
        SingleTaskGP(*(t.float() for t in branin()), input_transform=Normalize(2, bounds=BOUNDS.float()))
    ),
    "saas ensemble": lambda: EnsembleMapSaasSingleTaskGP(*branin(), input_transform=Normalize(2, bounds=BOUNDS)),
    "variational": lambda: SingleTaskVariationalGP(*branin()),
    "ensemble": Parabolas,
    "deterministic": lambda: GenericDeterministicModel(lambda X: -(X - 3).square().sum(-1, keepdim=True)),
    "without gradients": lambda: GenericDeterministicModel(lambda X: -(X.detach() - 3).round().abs().sum(-1, True)),
}
CONDITIONABLE = ["default", "matern", "scaled matern", "no transforms", "log outcomes", "given noise", "saas ensemble"]


@pytest.mark.parametrize("name", MODELS)
def test_any_model_of_one_outcome(name: str) -> None:
    model = MODELS[name]()
    x = dms_candidates(model, BOUNDS, config=TRAINED, generator=generator())
    assert x.shape == (1, 2)
    assert x.dtype is torch.float64
    assert (x >= BOUNDS[0]).all()
    assert (x <= BOUNDS[1]).all()


@pytest.mark.parametrize("name", ["default", "matern", "given noise", "saas ensemble", "ensemble", "deterministic"])
def test_a_candidate_is_among_the_best_tenth_by_ucb(name: str) -> None:
    model = MODELS[name]()
    x = dms_candidates(model, BOUNDS, config=NEAR, generator=generator(1))
    surrogate = PosteriorSurrogate.of(model, BOUNDS)
    unit = ((x - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0]))[None]
    others = surrogate.label(sobol(512, 2, generator(2), (1,)), NEAR.rho)
    assert surrogate.label(unit, NEAR.rho) >= others.quantile(0.9)


def test_polishing_ends_in_a_maximum_of_ucb() -> None:
    model = gp()
    x = dms_candidates(model, BOUNDS, config=NEAR, generator=generator(1))
    ucb = UpperConfidenceBound(model, beta=NEAR.rho**2)
    climbed, value = optimize_acqf(
        ucb, BOUNDS, q=1, num_restarts=1, raw_samples=None, batch_initial_conditions=x[:, None]
    )
    torch.testing.assert_close(ucb(x), value[None], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(climbed, x, rtol=0, atol=0.05)


@pytest.mark.parametrize("bounds", [BOUNDS, BOUNDS + 1.0, torch.stack([BOUNDS[0], BOUNDS[0] + 2.0])])
@pytest.mark.parametrize("transform", [lambda: Normalize(2, bounds=BOUNDS), lambda: InputStandardize(2), lambda: None])
@pytest.mark.parametrize("kernel", [RBFKernel, MaternKernel])
@pytest.mark.parametrize("ard_num_dims", [2, None])
def test_the_closed_form_agrees_with_autograd(
    bounds: Tensor, transform: Callable[[], object], kernel: type[Kernel], ard_num_dims: int | None
) -> None:
    model = gp(input_transform=transform(), covar_module=kernel(ard_num_dims=ard_num_dims))
    ours, theirs = closed_form(model, bounds), PosteriorSurrogate.of(model, bounds)
    assert ours is not None
    torch.testing.assert_close(ours.X, theirs.X)
    torch.testing.assert_close(ours.y, theirs.y)
    x = torch.rand(1, 50, 2, dtype=torch.float64, generator=generator())
    for a, b in ((ours, theirs), (ours.condition(x[:, :4]), theirs.condition(x[:, :4]))):
        for rho in (0.0, 1.0, 3.0):
            value, grad = a.label_and_grad(x[:, 4:], rho)
            expected, expected_grad = b.label_and_grad(x[:, 4:], rho)
            torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(grad, expected_grad, rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(b.label(x[:, 4:], rho), expected)


def test_without_an_outcome_transform_labels_differ_by_an_affine_map() -> None:
    X, Y = branin()
    normalize = Normalize(2, bounds=BOUNDS)
    model = set_hyperparameters(SingleTaskGP(X, Y / 100 + 3, outcome_transform=None, input_transform=normalize))
    ours, theirs = closed_form(model, BOUNDS), PosteriorSurrogate.of(model, BOUNDS)
    assert ours is not None
    x = torch.rand(1, 50, 2, dtype=torch.float64, generator=generator())
    value, grad = ours.label_and_grad(x, 1.0)
    standardized, standardized_grad = theirs.label_and_grad(x, 1.0)
    torch.testing.assert_close(value, standardized * theirs.std + theirs.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(grad, standardized_grad * theirs.std, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("default", "no transforms", "float32")])
def test_other_models_have_no_closed_form(name: str) -> None:
    assert closed_form(MODELS[name](), BOUNDS) is None


@pytest.mark.parametrize("name", ["matern", "saas ensemble", "ensemble", "log outcomes"])
def test_gradients_of_the_adapter_are_those_of_its_labels(name: str) -> None:
    surrogate = PosteriorSurrogate.of(MODELS[name](), BOUNDS)
    x = 0.1 + 0.8 * torch.rand(1, 8, 2, dtype=torch.float64, generator=generator())
    _, grad = surrogate.label_and_grad(x, 1.0)
    for i in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[i] = 1e-5
        difference = (surrogate.label(x + step, 1.0) - surrogate.label(x - step, 1.0)) / 2e-5
        torch.testing.assert_close(grad[..., i], difference, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", CONDITIONABLE)
def test_three_at_once_are_distinct(name: str) -> None:
    x = dms_candidates(MODELS[name](), BOUNDS, q=3, config=TRAINED, generator=generator())
    assert x.shape == (3, 2)
    assert torch.nn.functional.pdist(x).min() > 1e-6


@pytest.mark.parametrize("name", CONDITIONABLE)
def test_a_pending_point_lowers_the_uncertainty_around_it_and_keeps_the_mean(name: str) -> None:
    surrogate = PosteriorSurrogate.of(MODELS[name](), BOUNDS)
    x = torch.tensor([[[0.9, 0.9]]], dtype=torch.float64)
    conditioned = surrogate.condition(x)
    mu, mu_after = surrogate.label(x, 0.0), conditioned.label(x, 0.0)
    assert conditioned.label(x, 1.0) - mu_after < surrogate.label(x, 1.0) - mu
    if name != "log outcomes":  # the mean of a log-normal variable falls with its variance
        torch.testing.assert_close(mu, mu_after, rtol=1e-4, atol=1e-4)
    assert conditioned.X.shape[-2] == surrogate.X.shape[-2] + 1


@pytest.mark.parametrize("name", ["default", "matern"])
def test_pending_points_are_avoided(name: str) -> None:
    model = MODELS[name]()
    alone = dms_candidates(model, BOUNDS, config=TRAINED, generator=generator())
    beside = dms_candidates(model, BOUNDS, X_pending=alone, config=TRAINED, generator=generator())
    assert (alone - beside).norm() > 0.1
    none = dms_candidates(model, BOUNDS, X_pending=alone[:0], config=TRAINED, generator=generator())
    assert none.equal(alone)


def test_where_every_sample_is_one_point_the_pool_gives_another() -> None:
    """A sharp hill without noise: the pending point is still the best by far."""
    model = GenericDeterministicModel(lambda X: -(X - 3).square().sum(-1, keepdim=True))
    model.condition_on_observations = lambda X, Y: model  # type: ignore[method-assign]
    x = dms_candidates(model, BOUNDS, q=3, config=TRAINED, generator=generator())
    assert torch.nn.functional.pdist(x).min() > 1e-6


@pytest.mark.parametrize("name", ["default", "matern"])
def test_seeds_reproduce(name: str) -> None:
    def points(seed: int) -> Tensor:
        return dms_candidates(MODELS[name](), BOUNDS, q=2, config=TRAINED, generator=generator(seed))

    assert points(5).equal(points(5))
    assert not points(5).equal(points(6))


def test_without_a_generator_torchs_global_seed_decides() -> None:
    points = []
    for seed in (1, 1, 3):
        torch.manual_seed(seed)
        points.append(dms_candidates(gp(), BOUNDS, config=TRAINED))
    assert points[0].equal(points[1])
    assert not points[0].equal(points[2])


def test_the_result_has_the_type_of_the_bounds() -> None:
    x = dms_candidates(gp(), BOUNDS.float(), q=2, config=TRAINED, generator=generator())
    assert x.dtype is torch.float32
    assert (x >= BOUNDS[0].float()).all()
    assert (x <= BOUNDS[1].float()).all()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["default", "matern", "saas ensemble"])
def test_the_model_is_left_as_it_was(name: str, training: bool) -> None:
    model = MODELS[name]().train(training)
    model.outcome_transform.eval()
    modes = {key: module.training for key, module in model.named_modules()}
    state = {key: value.clone() for key, value in model.state_dict().items()}
    inputs = model.train_inputs[0].clone()
    dms_candidates(model, BOUNDS, q=2, X_pending=BOUNDS[:1], config=TRAINED, generator=generator())
    assert modes == {key: module.training for key, module in model.named_modules()}
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(value.equal(state[key]) for key, value in model.state_dict().items())
    assert model.train_inputs[0].equal(inputs)


@pytest.mark.parametrize(
    "kernel", [lambda: None, pytest.param(lambda: MaternKernel(nu=2.5, ard_num_dims=3), marks=pytest.mark.slow)]
)
def test_a_loop_beats_sobol(kernel: Callable[[], MaternKernel | None]) -> None:
    """Hartmann-3, ten points after eight, mean best value of three seeds; the loop as a user writes it."""
    f = Hartmann(dim=3, negate=True)
    ours, theirs = [], []
    for seed in range(3):
        X = sobol(8, 3, generator(seed))
        Y = f(X)[:, None]
        for i in range(10):
            model = SingleTaskGP(X, Y, covar_module=kernel())
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            x = dms_candidates(model, f.bounds, config=NEAR, generator=generator(100 * seed + i))
            X, Y = torch.cat([X, x]), torch.cat([Y, f(x)[:, None]])
        ours.append(Y.max())
        theirs.append(f(sobol(18, 3, generator(seed))).max())
    assert torch.stack(ours).mean() > torch.stack(theirs).mean() + 0.2


def test_a_collapse_is_logged_and_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    model = GenericDeterministicModel(lambda X: -(X - 3).square().sum(-1, keepdim=True))
    with caplog.at_level("DEBUG", "modeseek"), warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)
        dms_candidates(model, BOUNDS, config=dataclasses.replace(TRAINED, K=25, refine="point"), generator=generator())
    assert "diffusion model skipped" in caplog.text


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        (BOUNDS[0], "2 x d"),
        (BOUNDS.T[:1], "2 x d"),
        (BOUNDS.long(), "2 x d tensor of floats"),
        ([[0.0], [1.0]], "2 x d tensor"),
        (BOUNDS.flip(0), "under its upper bound"),
        (torch.stack([BOUNDS[0], BOUNDS[0]]), "under its upper bound"),
        (torch.tensor([[0.0, torch.nan], [1.0, 1.0]]), "finite"),
        (torch.tensor([[0.0, 0.0], [1.0, torch.inf]]), "finite"),
        (torch.tensor([[0.0] * 3, [1.0] * 3]), "3 inputs, the width of bounds"),
    ],
)
def test_bad_bounds(bounds: object, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        dms_candidates(gp(), bounds, config=TRAINED)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"q": 0}, "q must be"),
        ({"q": 1.5}, "q must be"),
        ({"X_pending": torch.zeros(2, 3)}, "p x 2 tensor"),
        ({"X_pending": torch.zeros(2)}, "p x 2 tensor"),
        ({"X_pending": [[0.0, 0.0]]}, "p x 2 tensor"),
        ({"X_pending": torch.full((1, 2), torch.nan)}, "X_pending must be finite"),
        ({"config": {"m": 64}}, "DMSConfig"),
        ({"generator": 3}, "torch.Generator"),
    ],
)
def test_bad_options(options: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        dms_candidates(gp(), BOUNDS, **{"config": TRAINED, **options})  # type: ignore[arg-type]


def test_models_of_more_than_one_outcome() -> None:
    X, Y = branin()
    with pytest.raises(ConfigError, match="2 outputs"):
        dms_candidates(SingleTaskGP(X, Y.expand(-1, 2)), BOUNDS)
    with pytest.raises(ConfigError, match="list of models"):
        dms_candidates(ModelListGP(SingleTaskGP(X, Y), SingleTaskGP(X, Y)), BOUNDS)
    with pytest.raises(ConfigError, match="list of models"):
        dms_candidates(ModelListGP(SingleTaskGP(X, Y)), BOUNDS)
    with pytest.raises(ConfigError, match=r"batch of models, of shape \(3,\)"):
        dms_candidates(SingleTaskGP(X.expand(3, -1, -1), Y.expand(3, -1, -1)), BOUNDS)
    with pytest.raises(ConfigError, match="BoTorch Model"):
        dms_candidates(lambda x: x, BOUNDS)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"q": 2}, {"X_pending": BOUNDS[:1]}])
@pytest.mark.parametrize("name", ["deterministic", "ensemble", "variational"])
def test_a_model_that_cannot_be_conditioned_says_so(name: str, options: dict[str, object]) -> None:
    with pytest.raises(ModeseekError, match=r"takes no pending points .* use q=1"):
        dms_candidates(MODELS[name](), BOUNDS, config=TRAINED, **options)  # type: ignore[arg-type]


def test_training_on_observations_needs_some() -> None:
    observed = dataclasses.replace(TRAINED, train_on="observed")
    assert dms_candidates(gp(), BOUNDS, config=observed).shape == (1, 2)
    assert dms_candidates(MODELS["matern"](), BOUNDS, config=observed).shape == (1, 2)
    with pytest.raises(ConfigError, match="Parabolas has none"):
        dms_candidates(Parabolas(), BOUNDS, config=observed)


def test_a_posterior_without_finite_values_is_an_error() -> None:
    model = GenericDeterministicModel(lambda X: X.sum(-1, keepdim=True) * torch.nan)
    with pytest.raises(ModeseekError, match="not finite"):
        dms_candidates(model, BOUNDS, config=TRAINED)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("kernel", [lambda: None, lambda: MaternKernel(nu=2.5, ard_num_dims=2)])
def test_on_a_gpu(kernel: Callable[[], MaternKernel | None]) -> None:
    X, Y = (tensor.cuda() for tensor in branin())
    bounds = BOUNDS.cuda()
    model = SingleTaskGP(X, Y, covar_module=kernel(), input_transform=Normalize(2, bounds=bounds))
    x = dms_candidates(model, bounds, q=2, X_pending=X[:1], config=TRAINED, generator=generator())
    assert x.device == bounds.device
    assert (x >= bounds[0]).all()
    assert (x <= bounds[1]).all()
