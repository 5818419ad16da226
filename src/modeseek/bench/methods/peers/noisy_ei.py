"""BoTorch as its users run it: `SingleTaskGP`, qLogNoisyExpectedImprovement (Ament et al. 2023), `optimize_acqf`."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim.optimize import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from threadpoolctl import threadpool_limits

from modeseek.bench.methods.acquisitions import RAW_SAMPLES, RESTARTS
from modeseek.bench.methods.method import check_history, timed
from modeseek.history import History
from modeseek.settings import Stream, generator
from modeseek.space import Space
from modeseek.typing import Array


class NoisyEI:
    """BoTorch's model with its own priors and fit, unlike `*-botorch`, which are on our surrogate.

    Discrete parameters are searched as if they were continuous, and rounded.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.seed = space, seed
        self.seconds: dict[str, float] = {}

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point, d."""
        check_history(history, self.space)
        self.seconds = {}
        X, Y = torch.from_numpy(history.X), torch.from_numpy(history.Y)[:, None]
        seed = generator(self.seed, Stream.MODEL, len(history.Y)).initial_seed()
        with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            torch.default_generator.manual_seed(seed)
            with timed(self.seconds, "fit"):
                model = SingleTaskGP(X, Y)
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            with timed(self.seconds, "acquire"):
                function = qLogNoisyExpectedImprovement(model, X_baseline=X, prune_baseline=True)
                cube = torch.stack([torch.zeros_like(X[0]), torch.ones_like(X[0])])
                x, _ = optimize_acqf(function, cube, q=1, num_restarts=RESTARTS, raw_samples=RAW_SAMPLES)
        return np.asarray(x[0].clamp(0, 1).numpy())
