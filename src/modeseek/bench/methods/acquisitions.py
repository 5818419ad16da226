"""UCB, LogEI and PI for many problems at once, as DMS has them, with closed-form gradients.

`bo.py` asks BoTorch for one point of one problem. These are the same functions of the same surrogate, climbed from 10
of 512 raw samples by the batched L-BFGS of `lbfgs.py`, so that a GPU runs all replications of a task in the time of
one. PI is climbed as z = Φ⁻¹(PI), which does not level off where PI is near 1, as BoTorch's does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from modeseek.bench.methods.botorch_methods import RAW_SAMPLES, RESTARTS
from modeseek.bench.methods.method import timed
from modeseek.design import sobol
from modeseek.outcome_transforms import standardize
from modeseek.pseudo import refine_inputs
from modeseek.surrogate import GP, Hyperparameters, Surrogate, fit

STEPS = 200  # of L-BFGS; most runs converge within fifty
LOG_2PI = math.log(2 * math.pi)
FAR = -1e4  # under it 1 + z·mills is rounding error, and 1/z² is right to 3/z⁴


@dataclass(frozen=True)
class OnGP:
    """What every function of a Gaussian process has in common for those that climb it."""

    gp: GP
    recordable = True

    @property
    def X(self) -> Tensor:  # noqa: N802
        """Observed inputs, b x n x d."""
        return self.gp.X

    @property
    def y(self) -> Tensor:
        """Their outcomes, b x n."""
        return self.gp.y


@dataclass(frozen=True)
class _Improvement(OnGP):
    """A function of z = (μ − best)/σ, a label without a ρ; `best` is b x 1."""

    best: Tensor


class PI(_Improvement):
    """z: the probability of improvement is Φ(z), which has the same maxima."""

    def label(self, x: Tensor, rho: float = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        mu, sigma = self.gp.posterior(x)
        return (mu - self.best) / sigma

    def label_and_grad(self, x: Tensor, rho: float = 0.0) -> tuple[Tensor, Tensor]:
        """∇z = (∇μ − z ∇σ)/σ."""
        at = self.gp.moments(x)
        z = (at.mu - self.best) / at.sigma
        return z, self.gp.grad(x, at, -z) / at.sigma[..., None]


class LogEI(_Improvement):
    """log E max(f − best, 0) = log σ + log h(z) with h(z) = φ(z) + z Φ(z) (Ament et al. 2023)."""

    def label(self, x: Tensor, rho: float = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        return self._terms(*self.gp.posterior(x))[0]

    def label_and_grad(self, x: Tensor, rho: float = 0.0) -> tuple[Tensor, Tensor]:
        """∇ log EI = (∇μ + φ/Φ ∇σ) Φ/EI."""
        at = self.gp.moments(x)
        log_ei, hazard, scale = self._terms(at.mu, at.sigma)
        return log_ei, self.gp.grad(x, at, hazard) * scale[..., None]

    def _terms(self, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log EI, φ/Φ and Φ/EI, each b x m."""
        z = (mu - self.best) / sigma
        log_cdf, log_pdf = torch.special.log_ndtr(z), -0.5 * (z.square() + LOG_2PI)
        # Far to the left φ and zΦ cancel; with Mills' ratio Φ = φ·mills, and h = φ (1 + z·mills).
        left = z.clamp_max(-1)
        mills = math.sqrt(math.pi / 2) * torch.special.erfcx(-left / math.sqrt(2))
        factor = torch.where(left > FAR, 1 + left * mills, left.square().reciprocal())
        near = log_pdf.exp() + z.clamp_min(-1) * log_cdf.exp()
        log_h = torch.where(z > -1, near.log(), log_pdf + factor.log())
        hazard = torch.where(z > -1, (log_pdf - log_cdf).exp(), 1 / mills)
        return log_h + sigma.log(), hazard, torch.where(z > -1, log_cdf.exp() / near, mills / factor) / sigma


def _over_best(kind: type[PI] | type[LogEI]) -> Callable[[GP], Surrogate]:
    return lambda gp: kind(gp, gp.y.amax(-1, keepdim=True))


ACQUISITIONS: dict[str, Callable[[GP], Surrogate]] = {
    "ucb": lambda gp: gp,  # its label with ρ = 1 is UCB with the paper's coefficient
    "logei": _over_best(LogEI),
    "pi": _over_best(PI),
}


class Chosen(NamedTuple):
    """The next point of each problem, and what the next iteration starts from."""

    x_next: Tensor  # b x d
    state: Hyperparameters
    seconds: dict[str, float]
    fit_evaluations: int


def suggest(
    name: str, X: Tensor, Y: Tensor, generator: torch.Generator, state: Hyperparameters | None = None
) -> Chosen:
    """The maximum of an acquisition function for every problem: X is b x n x d on the unit cube, Y b x n.

    Args:
        name: of `ACQUISITIONS`.
        generator: on the CPU.
    """
    seconds: dict[str, float] = {}
    with timed(seconds, "fit"):
        gp = fit(X, standardize(Y), state)
    with timed(seconds, "acquire"):
        x_next = maximize(ACQUISITIONS[name](gp), generator).cpu()  # which waits for a GPU
    return Chosen(x_next, gp.hyperparameters, seconds, gp.evaluations)


def maximize(function: Surrogate, generator: torch.Generator) -> Tensor:
    """The best end of L-BFGS runs: b x d.

    They start at the best raw sample and at others drawn with weights that grow with their value, as in BoTorch's
    `initialize_q_batch`.
    """
    b, _, d = function.X.shape
    x = sobol(RAW_SAMPLES, d, generator, (b,)).to(function.X)
    values = _values(function, x)
    z = (values - values.mean(-1, keepdim=True)) / values.std(-1, keepdim=True).clamp_min(1e-12)
    drawn = torch.multinomial(z.exp().cpu(), RESTARTS, generator=generator).to(x.device)
    drawn[:, -1] = values.argmax(-1)
    ends = refine_inputs(function, rows_of(x, drawn), K=STEPS, rho=1.0)
    return rows_of(ends, _values(function, ends).argmax(-1, keepdim=True)).squeeze(-2)


def _values(function: Surrogate, x: Tensor) -> Tensor:
    """At x (b x m x d), b x m; a point where it has no value counts as the worst of the others."""
    values = function.label(x, 1.0)
    finite = values.isfinite()
    least = values.masked_fill(~finite, torch.inf).amin(-1, keepdim=True)
    return torch.where(finite, values, least.masked_fill(least.isinf(), 0))


def rows_of(x: Tensor, index: Tensor) -> Tensor:
    """x is b x m x d, index b x k: b x k x d."""
    return x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))
