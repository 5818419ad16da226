"""BoTorch's acquisition functions on our surrogate, by `optimize_acqf`: PI, EI, LogEI, UCB, TS, PES, GIBBON, JES.

The GP, its priors, the standardization and the warm start of the fit are those of DMS with the paper's settings; only
the acquisition function differs. All are maximized by `optimize_acqf` from 10 of 512 raw samples (settings of the
paper: its section "Configurations of BO Baselines").
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import (
    ExpectedImprovement,
    LogExpectedImprovement,
    ProbabilityOfImprovement,
    UpperConfidenceBound,
)
from botorch.acquisition.joint_entropy_search import qJointEntropySearch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.max_value_entropy_search import qLowerBoundMaxValueEntropy
from botorch.acquisition.predictive_entropy_search import qPredictiveEntropySearch
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models import SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.optim.optimize import optimize_acqf
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.transformed import TransformedPosterior
from botorch.sampling.pathwise.posterior_samplers import get_matheron_path_model
from botorch.utils.sampling import draw_sobol_samples, optimize_posterior_samples
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import DiagLinearOperator
from threadpoolctl import threadpool_limits
from torch import Tensor

from modeseek.bench.methods.acquisitions import RAW_SAMPLES, RESTARTS
from modeseek.bench.methods.method import check_history, not_known, tensors, timed
from modeseek.computing import computing
from modeseek.errors import ConfigError
from modeseek.history import History
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.priors import Hyperparameters
from modeseek.settings import Stream, generator
from modeseek.space import Space
from modeseek.surrogate import GP
from modeseek.typing import Array

# The entropy searches hold one covariance per optimum and point; beyond some ten points these leave the CPU's cache
# and a point costs several times as much.
ENTROPY_BATCH = 10
FINITE_DIFFERENCE = 1e-6


def botorch_model(gp: GP) -> SingleTaskGP:
    """The GP of a batch of one as BoTorch's model, on the standardized outcomes, its hyperparameters fixed."""
    model = SingleTaskGP(gp.X[0], gp.y[0, :, None], outcome_transform=None)
    model.covar_module.lengthscale = gp.hyperparameters.lengthscale[0]
    model.likelihood.noise = gp.hyperparameters.noise[0]
    model.mean_module.constant = gp.mean[0]
    model.requires_grad_(False)
    return model.eval()


class Acquisition(ABC):
    """A method that maximizes an acquisition function of the surrogate.

    Args:
        space: what is searched.
        seed: of the replication.
        num_restarts, raw_samples: of `optimize_acqf`.
        device: where the surrogate lives.

    After a call `seconds` has the stages fit and acquire, `fit_evaluations` the calls of the fit's objective, and
    `fell_back` says whether the acquisition function failed (NaN, a covariance that is not positive definite): the
    answer is then the best of the raw samples, by the acquisition function where it has values, else by μ + σ.
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        *,
        num_restarts: int = RESTARTS,
        raw_samples: int = RAW_SAMPLES,
        device: str = "cpu",
    ) -> None:
        self.space, self.seed = space, seed
        self.num_restarts, self.raw_samples, self.device = num_restarts, raw_samples, device
        self.seconds: dict[str, float] = {}
        self.fit_evaluations = 0
        self.fell_back = False
        self._warm: Hyperparameters | None = None

    @abstractmethod
    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:
        """The function to maximize; `model` is `gp` for BoTorch."""

    @property
    def options(self) -> dict[str, Any]:
        """Of `optimize_acqf`."""
        return {}

    def batch_acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:
        """The function of several points at once, where BoTorch has one."""
        raise ConfigError(f"BoTorch's {type(self).__name__} proposes one point at a time; LogEI and GIBBON can do more")

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point, d."""
        return np.asarray(self.batch(history, 1)[0])

    def batch(self, history: History, q: int, left: int | None = None) -> Array:
        """The next q points, q x d, by `optimize_acqf`, one after the other ("sequential greedy")."""
        check_history(history, self.space)
        self.seconds = {}
        X, Y = tensors(history, self.device)
        seed = generator(self.seed, Stream.MODEL, len(history.Y)).initial_seed()
        with computing(X.device), timed(self.seconds, "fit"):
            gp = fit(X, standardize(Y), self._warm)
            self._warm, self.fit_evaluations = gp.hyperparameters, gp.evaluations
        with timed(self.seconds, "acquire"), _seeded(seed, X.device), _quiet():
            found, function = self._maximize(gp, q)
            points: list[Array] = []
            for x in found.clamp(0, 1).cpu().numpy():
                points.append(not_known(self.space, x, history, _value_of(function, gp), self.seed))
                history = history.with_pending(points[-1][None])
            return np.stack(points)

    def _maximize(self, gp: GP, q: int) -> tuple[Tensor, AcquisitionFunction | None]:
        """The best points, q x d, whatever goes wrong in a dependency, and the function if there is one."""
        function: AcquisitionFunction | None = None
        try:
            function = (self.acquisition if q == 1 else self.batch_acquisition)(gp, botorch_model(gp))
            x, value = optimize_acqf(
                function,
                _unit_cube(gp),
                q=q,
                sequential=q > 1,
                num_restarts=self.num_restarts,
                raw_samples=self.raw_samples,
                options=self.options,
            )
            self.fell_back = value is None or not bool(x.isfinite().all() and value.isfinite().all())
        except ConfigError:
            raise
        except (RuntimeError, ValueError, ArithmeticError):  # BoTorch's and linear_operator's errors are RuntimeErrors
            self.fell_back = True
        return self._best_raw_samples(gp, function, q) if self.fell_back else x.detach(), function

    def _best_raw_samples(self, gp: GP, function: AcquisitionFunction | None, q: int) -> Tensor:
        x = draw_sobol_samples(_unit_cube(gp), n=self.raw_samples, q=1).squeeze(-2)
        return x[_values_or_labels(function, gp, x).topk(q).indices]


class PI(Acquisition):
    """Probability of improvement over the best observation."""

    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        return ProbabilityOfImprovement(model, best_f=gp.y.max())


class EI(Acquisition):
    """Expected improvement over the best observation."""

    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        return ExpectedImprovement(model, best_f=gp.y.max())


class LogEI(Acquisition):
    """The logarithm of expected improvement (Ament et al. 2023)."""

    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        return LogExpectedImprovement(model, best_f=gp.y.max())

    def batch_acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        return qLogExpectedImprovement(model, best_f=gp.y.max())


class UCB(Acquisition):
    """μ + coefficient · σ."""

    def __init__(self, space: Space, seed: int, *, coefficient: float = 1.0, **optimization: Any) -> None:
        super().__init__(space, seed, **optimization)
        self.coefficient = coefficient

    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        return UpperConfidenceBound(model, beta=self.coefficient**2)  # BoTorch: μ + √beta · σ


class TS(Acquisition):
    """Thompson sampling: the maximum of one posterior path by Matheron's rule (Wilson et al. 2020)."""

    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        return PathwiseThompsonSampling(model)


class GIBBON(Acquisition):
    """The lower bound on the information about f* of Moss et al. (2021).

    Args:
        candidates: uniform points on which f* is sampled.
    """

    def __init__(self, space: Space, seed: int, *, candidates: int = 10_000, **optimization: Any) -> None:
        super().__init__(space, seed, **optimization)
        self.candidates = candidates

    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        x = torch.rand(self.candidates, gp.X.shape[-1], dtype=gp.X.dtype, device=gp.X.device)
        return qLowerBoundMaxValueEntropy(_WithMarginals(model, gp), candidate_set=x)

    batch_acquisition = acquisition


class _WithMarginals(SingleTaskGP):
    """A model whose posterior of n x d inputs has no covariances: GPyTorch would make all n² of them.

    GIBBON samples f* from the means and variances of its candidates, 10,000 of them, and reads nothing else.
    """

    def __init__(self, model: SingleTaskGP, gp: GP) -> None:
        super().__init__(model.train_inputs[0], model.train_targets[..., None], outcome_transform=None)
        self.load_state_dict(model.state_dict())
        self.requires_grad_(False).eval()
        self.gp = gp

    def posterior(self, X: Tensor, *args: Any, **options: Any) -> GPyTorchPosterior | TransformedPosterior:
        if X.dim() > 2:
            return super().posterior(X, *args, **options)
        mean, deviation = self.gp.posterior(X[None])
        return GPyTorchPosterior(MultivariateNormal(mean[0], DiagLinearOperator(deviation[0].square())))


class _EntropySearch(Acquisition):
    """An entropy search from samples of the optimum: maxima of posterior paths by Matheron's rule.

    Args:
        optima: how many.
        path_restarts, path_raw_samples: of the maximization of each path; BoTorch's defaults.
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        *,
        optima: int = 100,
        path_restarts: int = 20,
        path_raw_samples: int = 1024,
        **optimization: Any,
    ) -> None:
        super().__init__(space, seed, **optimization)
        self.optima, self.path_restarts, self.path_raw_samples = optima, path_restarts, path_raw_samples

    @property
    def options(self) -> dict[str, Any]:
        return {"init_batch_limit": ENTROPY_BATCH}

    def samples_of_optimum(self, model: SingleTaskGP) -> tuple[Tensor, Tensor]:
        """x* and f*: optima x d, optima x 1."""
        paths = get_matheron_path_model(model, sample_shape=torch.Size([self.optima]))
        bounds = _unit_cube(model.train_inputs[0])
        # BoTorch draws its starting points on the CPU, wherever the bounds are.
        there = GenericDeterministicModel(lambda x: paths(x.to(bounds.device)).cpu(), 1, paths.batch_shape)
        x, f = optimize_posterior_samples(
            there,
            bounds.cpu(),
            raw_samples=self.path_raw_samples,
            num_restarts=self.path_restarts,
        )
        return x.to(bounds.device), f.to(bounds.device)


def posterior_optima(gp: GP, count: int, seed: int) -> Tensor:
    """Samples of x* as PES and JES draw them, from the GP of a batch of one: count x d."""
    with _seeded(seed, gp.X.device), _quiet():
        cube = Space.box([0.0] * gp.X.shape[-1], [1.0] * gp.X.shape[-1])
        x, _ = PES(cube, seed, optima=count).samples_of_optimum(botorch_model(gp))
    return x


class PES(_EntropySearch):
    """Predictive entropy search by expectation propagation (Hernández-Lobato et al. 2014).

    BoTorch's gradients of it are NaN at times, so that BoTorch advises finite differences.
    """

    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        x, _ = self.samples_of_optimum(model)
        return FiniteDifferences(qPredictiveEntropySearch(model, optimal_inputs=x))


class JES(_EntropySearch):
    """Joint entropy search, lower-bound estimate (Hvarfner et al. 2022)."""

    def acquisition(self, gp: GP, model: SingleTaskGP) -> AcquisitionFunction:  # noqa: D102
        x, f = self.samples_of_optimum(model)
        return qJointEntropySearch(model, optimal_inputs=x, optimal_outputs=f, estimation_type="LB")


class FiniteDifferences(AcquisitionFunction):
    """An acquisition function on the unit cube whose gradients are finite differences.

    `optimize_acqf(..., options={"with_grad": False})` does the same through SciPy, but moves one coordinate of one
    restart and evaluates all restarts: with r restarts that is r times the work.
    """

    def __init__(self, function: AcquisitionFunction, step: float = FINITE_DIFFERENCE) -> None:
        super().__init__(function.model)
        self.function, self.step = function, step

    def forward(self, X: Tensor) -> Tensor:
        """The function at X: b x 1 x d, b."""
        if not X.requires_grad:
            return self.values(X)
        d = X.shape[-1]
        x = X.detach()
        step = torch.where(x + self.step <= 1, self.step, -self.step)  # b x 1 x d, into the cube
        moved = x[:, None] + torch.diag_embed(step.squeeze(-2))[..., None, :]  # b x d x 1 x d
        values = self.values(torch.cat([x[:, None], moved], 1).reshape(-1, 1, d)).view(-1, d + 1)
        gradient = (values[:, 1:] - values[:, :1]) / step.squeeze(-2)
        # The value, with the gradient attached: the second term is zero.
        return values[:, 0] + (gradient * (X - x).squeeze(-2)).sum(-1)

    @torch.no_grad()
    def values(self, X: Tensor) -> Tensor:
        """The function at X without gradients, in batches that stay in the CPU's cache."""
        return torch.cat([self.function(x) for x in X.split(ENTROPY_BATCH)])


def _value_of(function: AcquisitionFunction | None, gp: GP) -> Callable[[Array], Array]:
    return lambda points: _values_or_labels(function, gp, torch.from_numpy(points).to(gp.X)).cpu().numpy()


def _values_or_labels(function: AcquisitionFunction | None, gp: GP, x: Tensor) -> Tensor:
    """The function at x (n x d), or μ + σ where it has no value at all: n."""
    values = None if function is None else _values_where_finite(function, x.unsqueeze(-2))
    if values is None or not bool((values > -torch.inf).any()):
        return gp.label(x[None], rho=1.0)[0]
    return values


def _values_where_finite(function: AcquisitionFunction, x: Tensor) -> Tensor | None:
    """The function at x: n x 1 x d, n, −∞ where it has no value; None where it cannot be evaluated."""
    try:
        with torch.no_grad():
            values = torch.cat([function(part) for part in x.split(ENTROPY_BATCH)])
    except (RuntimeError, ValueError, ArithmeticError):
        return None
    return torch.where(values.isfinite(), values, -torch.inf)


def _unit_cube(of: GP | Tensor) -> Tensor:
    """The bounds of inputs n x d: 2 x d."""
    X = of.X if isinstance(of, GP) else of
    return torch.stack([X.new_zeros(X.shape[-1]), X.new_ones(X.shape[-1])])


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's global generators seeded here (BoTorch draws from them) and as before afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings of BoTorch's restarts, and one BLAS thread: SciPy's L-BFGS-B slows many times beside several."""
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore")
        yield
