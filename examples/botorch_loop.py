"""A BoTorch loop with `dms_candidates` where `optimize_acqf` would be: a GP of your own, two points per iteration.

python examples/botorch_loop.py --trials 40

The function is Hartmann-6, whose maximum is 3.322.
"""

import argparse

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.test_functions import Hartmann
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import MaternKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from modeseek.integrations.botorch import dms_candidates

function = Hartmann(dim=6, negate=True)


def fitted(X, Y):
    model = SingleTaskGP(X, Y, covar_module=MaternKernel(nu=2.5, ard_num_dims=6))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()

    generator = torch.Generator().manual_seed(0)
    X = draw_sobol_samples(function.bounds, n=max(2, args.trials // 4), q=1, seed=0).squeeze(1)
    Y = function(X)[:, None]
    while len(Y) < args.trials:
        q = min(2, args.trials - len(Y))
        candidates = dms_candidates(fitted(X, Y), function.bounds, q=q, generator=generator)
        X, Y = torch.cat([X, candidates]), torch.cat([Y, function(candidates)[:, None]])
        print(f"{len(Y):3d} evaluations, best value {Y.max():.4f}")
    print(f"best value {Y.max():.4f} at {X[Y.argmax()].tolist()}")
