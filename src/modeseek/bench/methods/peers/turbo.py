"""TuRBO-1 (Eriksson, Pearce, Gardner, Turner & Poloczek, NeurIPS 2019), written anew from the paper on BoTorch's GP.

    fit a GP to the points since the last restart                         (Section 2: Matérn-5/2 with ARD)
    take a box around the best of them, of volume L^d, longer where the function varies less
    draw candidates in it, and a function from the posterior on them      (Thompson sampling, one point at a time)
    3 successes in a row: L doubles;  max(4, d) failures: L halves        (Section 2; settings as in its appendix)
    L < 2^−7: forget everything and begin again with a new design

Symbols: L, the box's base length; ℓ, the GP's length-scales; d, parameters; n, points since the restart.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.constraints import Interval
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.errors import NotPSDError
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.quasirandom import SobolEngine

from modeseek.bench.methods.method import check_history, continues, timed
from modeseek.history import History
from modeseek.settings import Stream, generator
from modeseek.space import Space
from modeseek.typing import Array

LENGTH, SHORTEST, LONGEST = 0.8, 0.5**7, 1.6
SUCCESSES = 3
MOST_CANDIDATES = 5000  # and no more than 100 d
MOVED = 20  # coordinates in which a candidate differs from the best point, on average
IMPROVEMENT = 1e-3  # of |best|, for a success


class TuRBO:
    """One trust region; its counters follow from the history, row by row."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.seed = space, seed
        self.seconds: dict[str, float] = {}
        self._told: History | None = None

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point, d."""
        check_history(history, self.space)
        self.seconds = {}
        if self._told is None or not continues(self._told, history):
            self._restart(0, len(history.Y))
        else:
            for n in range(len(self._told.Y), len(history.Y)):
                self._count(history.Y[self.begin : n + 1])
        self._told = history
        if self.length < SHORTEST:
            self._restart(len(history.Y), 2 * self.space.d + 2)
        if (done := len(history.Y) - self.begin) < self.n_initial:
            design = SobolEngine(self.space.d, scramble=True, seed=(self.seed + self.begin) % 2**31)
            return np.asarray(design.draw(self.n_initial, dtype=torch.float64)[done].numpy())
        X, Y = (torch.from_numpy(rows[self.begin :]) for rows in (history.X, history.Y))
        of_iteration = generator(self.seed, Stream.MODEL, len(history.Y))
        with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            torch.default_generator.manual_seed(of_iteration.initial_seed())
            with timed(self.seconds, "fit"):
                model = _fit(X, Y)
            with timed(self.seconds, "acquire"), torch.no_grad():
                return np.asarray(self._sample(model, X, Y).numpy())

    def _restart(self, begin: int, n_initial: int) -> None:
        self.begin, self.n_initial = begin, n_initial
        self.length, self.successes, self.failures = LENGTH, 0, 0

    def _count(self, Y: Array) -> None:
        """Take the last of the outcomes since the restart into account."""
        if len(Y) <= self.n_initial:
            return
        best = Y[:-1].max()
        better = bool(Y[-1] > best + IMPROVEMENT * abs(best))
        self.successes, self.failures = (self.successes + 1, 0) if better else (0, self.failures + 1)
        if self.successes == SUCCESSES:
            self.length, self.successes = min(2 * self.length, LONGEST), 0
        elif self.failures == max(4, self.space.d):
            self.length, self.failures = self.length / 2, 0

    def _sample(self, model: SingleTaskGP, X: Tensor, Y: Tensor) -> Tensor:
        """The best of a posterior draw on candidates around the best point: d."""
        d = X.shape[-1]
        centre = X[Y.argmax()]
        scale = model.covar_module.base_kernel.lengthscale.squeeze(0).detach()
        side = self.length * scale / scale.log().mean().exp()  # the product of the sides is L^d
        low, high = (centre - side / 2).clamp(0, 1), (centre + side / 2).clamp(0, 1)
        count = min(100 * d, MOST_CANDIDATES)
        seed = int(torch.randint(2**31, (1,)))
        drawn = low + (high - low) * SobolEngine(d, scramble=True, seed=seed).draw(count, dtype=X.dtype)
        moves = torch.rand(count, d) <= min(MOVED / d, 1.0)
        moves[torch.arange(count), torch.randint(d, (count,))] |= ~moves.any(-1)  # each in one coordinate at least
        candidates = torch.where(moves, drawn, centre)
        try:
            values = model.posterior(candidates).rsample().squeeze()
        except (NotPSDError, RuntimeError):  # of thousands of points in a tiny box
            values = model.posterior(candidates).mean.squeeze()
        return candidates[values.argmax()]


def _fit(X: Tensor, Y: Tensor) -> SingleTaskGP:
    """A GP with bounded hyperparameters, fitted to standardized outcomes; as it begins where the fit fails."""
    y = (Y - Y.mean()) / Y.std().clamp_min(1e-12)
    kernel = ScaleKernel(
        MaternKernel(nu=2.5, ard_num_dims=X.shape[-1], lengthscale_constraint=Interval(0.005, 2.0)),
        outputscale_constraint=Interval(0.05, 20.0),
    )
    model = SingleTaskGP(
        X,
        y[:, None],
        likelihood=GaussianLikelihood(noise_constraint=Interval(5e-4, 0.2)),
        covar_module=kernel,
        outcome_transform=None,
    )
    with suppress(ModelFittingError, NotPSDError):
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model.eval()
