"""Any BoTorch model of one outcome as a surrogate for DMS, on the unit cube that its bounds describe.

Labels μ + ρσ come from `model.posterior`, their gradients from autograd; where the model is the GP of
`modeseek.surrogate`, both come from its closed form.

Notation: m, n, d as in surrogate.py; p pending points; x on the unit cube, inputs in the model's own space.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms.input import InputStandardize, Normalize
from botorch.models.transforms.outcome import Standardize
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from botorch.sampling.pathwise.utils import get_train_inputs, get_train_targets
from botorch.utils.transforms import is_fully_bayesian
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean
from torch import Tensor

from modeseek.design import sobol
from modeseek.embedding import PLAIN
from modeseek.errors import ConfigError, ModeseekError
from modeseek.kernels import MATERN, SQUARED_EXPONENTIAL
from modeseek.kernels import Kernel as OwnKernel
from modeseek.priors import Hyperparameters
from modeseek.surrogate import GP, MIN_VARIANCE, Given, Rho, posterior_of

SAMPLE = 256  # points that tell the scale of a model without training targets


@dataclass(frozen=True)
class PosteriorSurrogate:
    """Any BoTorch model as a `Surrogate` (a batch of one): posteriors of single points, gradients by autograd.

    Attributes:
        model: in evaluation mode.
        bounds: 2 x d, of the model's type, on its device.
        X: 1 x n x d, float64, training inputs on the unit cube; n = 0 where the model shows none.
        y: 1 x n, their standardized outcomes.
        mean, std: of the training targets, in their own units.
    """

    model: Model
    bounds: Tensor
    X: Tensor
    y: Tensor
    mean: Tensor
    std: Tensor
    recordable = False  # a model that is not ours may ask anything of the GPU

    @classmethod
    def of(cls, model: Model, bounds: Tensor) -> PosteriorSurrogate:
        """The model on the cube of these bounds (2 x d)."""
        inputs, targets = _training_data(model, bounds.shape[-1])
        bounds = bounds.to(_example(model, inputs, bounds))
        X = ((inputs.to(bounds) - bounds[0]) / (bounds[1] - bounds[0])).double()[None]
        zero, one = X.new_zeros(()), X.new_ones(())
        raw = cls(model, bounds, X, targets.to(X)[None], zero, one)
        raw.check()
        if raw.y.shape[-1] < 2:
            shift = torch.Generator().manual_seed(0)  # any points do; the user's generator stays as it is
            targets = raw.label(sobol(SAMPLE, X.shape[-1], shift, (1,)).to(X), rho=0.0)[0]
        mean, std = targets.to(X).mean(), targets.to(X).std()
        std = torch.where(std > 0, std, one)
        return replace(raw, y=(raw.y - mean) / std, mean=mean, std=std)

    def check(self) -> None:
        """ConfigError where the model gives no mean and variance at a point as wide as the bounds."""
        d = self.bounds.shape[-1]
        try:
            label = self.label(self.X.new_full((1, 1, d), 0.5), rho=1.0)
        except Exception as error:  # whatever a model may raise
            raise ConfigError(
                f"{type(self.model).__name__} gives no posterior mean and variance at a point of {d} inputs, the width "
                f"of bounds ({type(error).__name__}: {error})"
            ) from error
        if label.shape != (1, 1):
            raise ConfigError(f"{type(self.model).__name__} gives {label.numel()} numbers at one point, not one")

    def label(self, x: Tensor, rho: Rho) -> Tensor:
        """μ + ρσ at x (1 x m x d): 1 x m."""
        with torch.no_grad():
            return self._label(x, rho)

    def label_and_grad(self, x: Tensor, rho: Rho) -> tuple[Tensor, Tensor]:
        """μ + ρσ at x (1 x m x d) and its gradient there, zero where the posterior has none: 1 x m, 1 x m x d."""
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            label = self._label(x, rho)
            if not label.requires_grad:
                return label, torch.zeros_like(x)
            (grad,) = torch.autograd.grad(label.sum(), x)
        return label.detach(), grad

    def condition(self, x: Tensor) -> PosteriorSurrogate:
        """This surrogate with x (1 x p x d) observed at its posterior mean: how pending points enter."""
        with torch.no_grad():
            inputs = self._inputs(x[0])
            mean, _ = _moments(self.model, inputs)
            try:
                members = batch_shape(self.model)  # of an ensemble, each of which sees the same
                observed = inputs.expand(*members, *inputs.shape), mean.expand(*members, *mean.shape)
                model = self.model.condition_on_observations(*observed, **_pending_noise(self.model, observed[1]))
            except Exception as error:  # whatever a model may raise that cannot do it
                raise ModeseekError(
                    f"{type(self.model).__name__} takes no pending points ({type(error).__name__}: {error}); "
                    "use q=1 and X_pending=None, or a model with condition_on_observations"
                ) from error
        y = (mean.to(self.y).T - self.mean) / self.std
        return replace(self, model=model, X=torch.cat([self.X, x], -2), y=torch.cat([self.y, y], -1))

    def _label(self, x: Tensor, rho: Rho) -> Tensor:
        mean, variance = _moments(self.model, self._inputs(x[0]))
        mu: Tensor = (mean.to(self.mean).T - self.mean) / self.std
        sigma = (variance.to(self.mean).T / self.std.square()).clamp_min(MIN_VARIANCE).sqrt()
        return mu + rho * sigma

    def _inputs(self, x: Tensor) -> Tensor:
        lower, upper = self.bounds
        inputs: Tensor = lower + x.to(self.bounds) * (upper - lower)
        return inputs


def closed_form(model: Model, bounds: Tensor) -> GP | None:
    """The model on the cube of these bounds (2 x d) as our own GP, where it is one; otherwise None.

    Labels then are in the units of the model's inside: standardized outcomes, or the outcomes themselves where the
    model does not standardize them, whose prior standard deviation is one either way.
    """
    if not (
        type(model) is SingleTaskGP
        and type(model.mean_module) is ConstantMean
        and (kernel := _own_kernel(model.covar_module)) is not None
        and type(model.likelihood) is GaussianLikelihood
        and type(getattr(model, "outcome_transform", None)) in (Standardize, type(None))
        and type(getattr(model, "input_transform", None)) in (Normalize, InputStandardize, type(None))
    ):
        return None
    (inputs,) = get_train_inputs(model)
    if inputs.shape[-1] != bounds.shape[-1]:
        return None
    with torch.no_grad():
        model.eval()  # in training mode a normalizer would learn these bounds
        lower, upper = bounds.to(inputs).double()
        X = ((inputs.double() - lower) / (upper - lower))[None]
        width = model.transform_inputs(bounds.to(inputs)).double().diff(dim=0)  # of the cube, where the kernel acts
        lengthscale = (model.covar_module.lengthscale.double() / width).expand(1, X.shape[-1])
        noise = model.likelihood.noise.detach().double().view(1)
        y = get_train_targets(model, transformed=True).double()[None]
        mean = model.mean_module.constant.detach().double().view(1)
        gp = posterior_of(X, y, Hyperparameters(lengthscale, noise), mean, Given(PLAIN.with_kernel(kernel)))
    return None if bool(gp.fit_failed) else gp


def _own_kernel(kernel: Kernel) -> OwnKernel | None:
    """GPyTorch's kernel as one of ours, where it is one of all inputs without an output scale; otherwise None."""
    if kernel.active_dims is not None:
        return None
    if type(kernel) is RBFKernel:
        return SQUARED_EXPONENTIAL
    return MATERN if type(kernel) is MaternKernel and kernel.nu == 2.5 else None


@contextmanager
def as_it_was(model: Model) -> Iterator[None]:
    """`posterior` puts a model into evaluation mode; this puts it back."""
    training = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        if training[model] and not is_fully_bayesian(model):  # a fully Bayesian model would forget its samples
            model.train()
        for module, was_training in training.items():
            module.training = was_training


def batch_shape(model: Model) -> tuple[int, ...]:
    """Of the model; () where it has none."""
    try:
        return tuple(model.batch_shape or ())  # None for a deterministic model
    except NotImplementedError:  # an EnsembleModel
        return ()


def _moments(model: Model, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior mean and variance at inputs (m x d), each m x 1: m posteriors of one point, without covariances."""
    posterior: Any = model.posterior(inputs.unsqueeze(-2))
    if isinstance(posterior, GaussianMixturePosterior):
        return posterior.mixture_mean.squeeze(-1), posterior.mixture_variance.squeeze(-1)
    return posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)


def _pending_noise(model: Model, like: Tensor) -> dict[str, Any]:
    """What `condition_on_observations` asks of a model whose noise is given: the average, as in `fantasize`."""
    likelihood = getattr(model, "likelihood", None)
    if isinstance(likelihood, FixedNoiseGaussianLikelihood):
        return {"noise": likelihood.noise.mean().expand_as(like)}
    return {}


def _training_data(model: Model, d: int) -> tuple[Tensor, Tensor]:
    """Training inputs n x d and targets n in their own units; n = 0 for a model that shows none of this width."""
    try:
        (inputs,), targets = get_train_inputs(model), get_train_targets(model)
    except (AttributeError, NotImplementedError, TypeError):
        return torch.zeros(0, d), torch.zeros(0)
    if inputs.shape[-1] != d:
        return torch.zeros(0, d), torch.zeros(0)
    # An ensemble has the same data for each member.
    return inputs.detach().reshape(-1, *inputs.shape[-2:])[0], targets.detach().reshape(-1, targets.shape[-1])[0]


def _example(model: Model, inputs: Tensor, bounds: Tensor) -> Tensor:
    """A tensor of the type and on the device that the model works with."""
    if len(inputs):
        return inputs
    return next((tensor for tensor in model.parameters() if tensor.is_floating_point()), bounds)
