"""The campaigns' own UCB, EI, LogEI, PI and TS, for many problems at once, and how they and those of `information.py`
are maximized.

The same functions of the same surrogate as BoTorch's (`botorch_methods.py`), climbed from 10 of 512 raw samples by the
batched L-BFGS of `lbfgs.py`, so that a GPU runs all replications of a task in the time of one. PI is climbed as
z = Φ⁻¹(PI), which does not level off where PI is near 1, as BoTorch's does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from modeseek import paths
from modeseek.bench.methods.information import CANDIDATES, OPTIMA, BatchGIBBON, gibbon, jes, pes
from modeseek.bench.methods.method import SideBySide, not_known, timed
from modeseek.computing import computing
from modeseek.design import sobol
from modeseek.dms import row_of
from modeseek.draws import Draws, Randomness
from modeseek.history import History
from modeseek.improvement import h_terms
from modeseek.lbfgs import lbfgs
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.paths import Paths, draw_paths
from modeseek.priors import Hyperparameters
from modeseek.settings import Stream, generator
from modeseek.space import Space
from modeseek.surrogate import GP, OnGP, Rho, Surrogate
from modeseek.typing import Array

RESTARTS, RAW_SAMPLES = 10, 512
STEPS = 200  # of L-BFGS; most runs converge within fifty
FTOL = 2e-9  # relative worth of a run's last step, as in SciPy's L-BFGS-B, which BoTorch uses
LOG_2PI = math.log(2 * math.pi)
WORTH_A_START = 1e-4  # of the highest raw sample of a function that is nowhere negative


@dataclass(frozen=True)
class _Improvement(OnGP):
    """A function of z = (μ − best)/σ, a label without a ρ; `best` is b x 1."""

    best: Tensor


class PI(_Improvement):
    """z: the probability of improvement is Φ(z), which has the same maxima."""

    def label(self, x: Tensor, rho: Rho = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        mu, sigma = self.gp.posterior(x)
        return (mu - self.best) / sigma

    def label_and_grad(self, x: Tensor, rho: Rho = 0.0) -> tuple[Tensor, Tensor]:
        """∇z = (∇μ − z ∇σ)/σ."""
        at = self.gp.moments(x)
        z = (at.mu - self.best) / at.sigma
        return z, self.gp.grad(x, at, -z) / at.sigma[..., None]


class EI(_Improvement):
    """E max(f − best, 0) = σ (φ(z) + z Φ(z)) (Jones et al. 1998), as it is: flat where nothing promises more."""

    def label(self, x: Tensor, rho: Rho = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        return self._terms(*self.gp.posterior(x))[0]

    def label_and_grad(self, x: Tensor, rho: Rho = 0.0) -> tuple[Tensor, Tensor]:
        """∇EI = Φ ∇μ + φ ∇σ, and ∇σ = ∇σ²/(2σ)."""
        at = self.gp.moments(x)
        ei, cdf, pdf = self._terms(at.mu, at.sigma)
        return ei, self.chain(x, at, cdf, pdf / (2 * at.sigma))

    def _terms(self, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """EI, Φ and φ, each b x m."""
        z = (mu - self.best) / sigma
        cdf, pdf = torch.special.ndtr(z), torch.exp(-0.5 * (z.square() + LOG_2PI))
        return sigma * (pdf + z * cdf), cdf, pdf


class LogEI(_Improvement):
    """log E max(f − best, 0) = log σ + log h(z) with h(z) = φ(z) + z Φ(z) (Ament et al. 2023)."""

    def label(self, x: Tensor, rho: Rho = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        return self._terms(*self.gp.posterior(x))[0]

    def label_and_grad(self, x: Tensor, rho: Rho = 0.0) -> tuple[Tensor, Tensor]:
        """∇ log EI = (∇μ + φ/Φ ∇σ) Φ/EI."""
        at = self.gp.moments(x)
        log_ei, hazard, scale = self._terms(at.mu, at.sigma)
        return log_ei, self.gp.grad(x, at, hazard) * scale[..., None]

    def _terms(self, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log EI, φ/Φ and Φ/EI, each b x m."""
        log_h, hazard, slope = h_terms((mu - self.best) / sigma)
        return log_h + sigma.log(), hazard, slope / sigma


@dataclass(frozen=True)
class TS(OnGP):
    """Thompson sampling: one draw from the posterior by Matheron's rule (Wilson et al. 2020)."""

    path: Paths

    def label(self, x: Tensor, rho: Rho = 0.0) -> Tensor:
        """At x (b x m x d): b x m."""
        return self.path.everywhere(x).squeeze(-2)

    def label_and_grad(self, x: Tensor, rho: Rho = 0.0) -> tuple[Tensor, Tensor]:
        """At x (b x m x d), and the gradient there: b x m, b x m x d."""
        value, grad = self.path.value_and_grad(x.unsqueeze(-3))
        return value.squeeze(-2), grad.squeeze(-3)


def _over_best(kind: type[PI] | type[EI] | type[LogEI]) -> Callable[[GP, Draws], Surrogate]:
    return lambda gp, draws: kind(gp, gp.y.amax(-1, keepdim=True))


ACQUISITIONS: dict[str, Callable[[GP, Draws], Surrogate]] = {
    "ucb": lambda gp, draws: gp,  # its label with ρ = 1 is UCB with the paper's coefficient
    "logei": _over_best(LogEI),
    "pi": _over_best(PI),
    "ei": _over_best(EI),
    "ts": lambda gp, draws: TS(gp, draw_paths(gp, 1, draws)),
    "gibbon": gibbon,
    "jes": jes,
    "pes": pes,
}


def largest_tensors(name: str, n: int, d: int) -> int:
    """How many numbers the largest tensors of one problem with n observations in d dimensions have, but for the fit."""
    climb = RAW_SAMPLES * (8 * n + 80 * d)  # kernel rows; pairs of L-BFGS
    if name == "gibbon":
        return climb + CANDIDATES * (4 * n + 2 * d + 20)
    if name in ("jes", "pes"):
        starts = OPTIMA * sum(paths.THOROUGH.starts)
        spread = OPTIMA * (paths.SPREAD + paths.NEAR + n)
        return climb + 40 * RAW_SAMPLES * OPTIMA + 3 * spread + starts * (3 * n + 4 * paths.MOST_FEATURES + 40 * d)
    return climb


class Acquisition(SideBySide):
    """A method that maximizes one of `ACQUISITIONS`, for all replications in the same tensors."""

    def __init__(self, name: str, spaces: Sequence[Space], seeds: Sequence[int], device: str = "cpu") -> None:
        super().__init__(spaces, seeds, device)
        self.name = name
        self._warm: Hyperparameters | None = None

    def __call__(self, histories: Sequence[History], left: int | None = None) -> Array:
        """The next points, b x d."""
        return self.batch(histories, 1)[:, 0]

    def batch(self, histories: Sequence[History], q: int, left: int | None = None) -> Array:
        """The next q points of each, b x q x d, one by one with those before expected at the surrogate's mean."""
        self.seconds = {}
        number, device = len(histories[0].Y), torch.device(self.device)
        X = torch.from_numpy(np.stack([history.X for history in histories])).to(device)
        Y = torch.from_numpy(np.stack([history.Y for history in histories])).to(device)
        draws = Draws([generator(seed, Stream.MODEL, number) for seed in self.seeds])
        with computing(device):
            with timed(self.seconds, "fit"):
                gp = fit(X, standardize(Y), self._warm)
                self._warm, self.fit_evaluations = gp.hyperparameters, gp.evaluations
            with timed(self.seconds, "acquire"):
                found, expecting = [], gp
                for _ in range(q):
                    function = self._function(gp, expecting, draws)
                    ends, x_next = maximize(function, draws)
                    points = x_next.cpu().numpy()  # which waits for a GPU
                    points = self._without_repeats(function, points, ends.cpu().numpy(), histories)
                    found.append(points)
                    if len(found) < q:
                        expecting = expecting.condition(torch.from_numpy(points).to(X)[:, None])
                        rows = zip(histories, points, strict=True)
                        histories = [history.with_pending(point[None]) for history, point in rows]
                return np.stack(found, 1)

    def _function(self, gp: GP, expecting: GP, draws: Draws) -> Surrogate:
        """What is maximized next, where `gp` is what is known, and `expecting` has the batch so far as expected."""
        if self.name == "gibbon" and expecting is not gp:
            return BatchGIBBON(gp, gibbon(gp, draws), expecting)
        of = gp if self.name == "ts" else expecting  # a draw of its own for each
        return ACQUISITIONS[self.name](of, draws)

    def _without_repeats(self, function: Surrogate, x: Array, ends: Array, histories: Sequence[History]) -> Array:
        def value_of(row: int) -> Callable[[Array], Array]:
            def value(points: Array) -> Array:
                at = torch.from_numpy(points).to(function.X)[None]
                parts = [row_of(function, row).label(part, 1.0)[0] for part in at.split(RAW_SAMPLES, -2)]
                return torch.cat(parts).cpu().numpy()

            return value

        rows = enumerate(zip(self.spaces, histories, self.seeds, strict=True))
        return np.stack(
            [not_known(space, x[i], history, value_of(i), seed, ends[i]) for i, (space, history, seed) in rows]
        )

    @property
    def state(self) -> dict[str, Tensor]:
        """Hyperparameters of the last fit."""
        return {} if self._warm is None else self._warm._asdict()

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from there."""
        device = torch.device(self.device)
        self._warm = Hyperparameters(**{name: t.to(device) for name, t in state.items()}) if state else None


def maximize(function: Surrogate, source: Randomness) -> tuple[Tensor, Tensor]:
    """The ends of L-BFGS runs, b x RESTARTS x d, and the best of them, b x d.

    They start at the best raw sample and at others drawn with weights that grow with their value, as in BoTorch; a row
    draws from its own generator.
    """
    b, _, d = function.X.shape
    draws = Draws.of(source, (b,))
    x = sobol(RAW_SAMPLES, d, draws, (b,)).to(function.X)
    values = _values(function, x)
    weights = (_weights_of_nonnegative if isinstance(function, EI) else _weights)(values).cpu()
    rows = zip(weights, draws.generators, strict=True)
    drawn = torch.stack([torch.multinomial(row, RESTARTS, generator=g) for row, g in rows]).to(x.device)
    drawn[:, -1] = values.argmax(-1)
    ends = _climb(function, rows_of(x, drawn))
    return ends, rows_of(ends, _values(function, ends).argmax(-1, keepdim=True)).squeeze(-2)


def _climb(function: Surrogate, x: Tensor) -> Tensor:
    """Where L-BFGS runs from x (b x k x d) end."""

    def descend(z: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = function.label_and_grad(z, 1.0)
        return value.neg_(), grad.neg_()

    evaluations = 2 * STEPS + 5
    return lbfgs(
        descend, x, 0.0, 1.0, steps=STEPS, max_evaluations=evaluations, ftol=FTOL, record=function.recordable
    ).x


def _weights(values: Tensor) -> Tensor:
    """Of raw samples (b x m), as in BoTorch's `initialize_q_batch`."""
    return ((values - values.mean(-1, keepdim=True)) / values.std(-1, keepdim=True).clamp_min(1e-12)).exp()


def _weights_of_nonnegative(values: Tensor) -> Tensor:
    """The same of a function that is zero nearly everywhere: only the highest count, as in `initialize_q_batch_nonneg`.

    The others have weights too small to be drawn before them, and those that are zero before those.
    """
    share = values / values.amax(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
    return torch.where(share >= WORTH_A_START, (share - 1).exp(), 1e-9 * share.clamp_min(0) + 1e-30)


def _values(function: Surrogate, x: Tensor) -> Tensor:
    """At x (b x m x d), b x m; a point where it has no value counts as the worst of the others."""
    values = function.label(x, 1.0)
    finite = values.isfinite()
    least = values.masked_fill(~finite, torch.inf).amin(-1, keepdim=True)
    return torch.where(finite, values, least.masked_fill(least.isinf(), 0))


def rows_of(x: Tensor, index: Tensor) -> Tensor:
    """x is b x m x d, index b x k: b x k x d."""
    return x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))
