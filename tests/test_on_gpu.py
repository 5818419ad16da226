"""Fits to many observations, climbs on their sketch, and draws from the posterior: the same on a GPU as on a CPU."""

from __future__ import annotations

import pytest
import torch

from modeseek.map_fit import fit
from modeseek.outcome_transforms import mapped_by_warp, standardize
from modeseek.paths import optima
from modeseek.pseudo import refine_inputs
from modeseek.sketch import sketch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

G = torch.Generator().manual_seed(0)
X = torch.rand(2, 600, 3, dtype=torch.float64, generator=G)
Y = (5 * X).sin().sum(-1) + 0.1 * torch.randn(2, 600, dtype=torch.float64, generator=G)
POINTS = torch.rand(2, 40, 3, dtype=torch.float64, generator=G)


def test_a_fit_to_many_observations_and_what_pending_points_make_of_it() -> None:
    here, there = fit(X, standardize(Y)), fit(X.cuda(), standardize(Y).cuda())
    torch.testing.assert_close(
        there.hyperparameters.lengthscale.cpu(), here.hyperparameters.lengthscale, rtol=1e-2, atol=0
    )
    for ours, theirs in zip(here.posterior(POINTS), there.posterior(POINTS.cuda()), strict=True):
        torch.testing.assert_close(theirs.cpu(), ours, atol=1e-2, rtol=1e-2)
    pending = there.condition(POINTS[:, :4].cuda())
    torch.testing.assert_close(
        pending.posterior(POINTS.cuda())[0], there.posterior(POINTS.cuda())[0], atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("refine", ["joint", "point"])
def test_a_climb_on_the_sketch(refine: str) -> None:
    gp = fit(X, standardize(Y))
    on_gpu = sketch(fit(X.cuda(), standardize(Y).cuda()), 200)
    here = refine_inputs(sketch(gp, 200), POINTS, K=3, rho=1.0, refine=refine)
    there = refine_inputs(on_gpu, POINTS.cuda(), K=3, rho=1.0, refine=refine).cpu()
    assert (gp.label(there, 1.0) - gp.label(here, 1.0)).abs().mean() < 0.02


def test_draws_have_the_same_optima() -> None:
    y, _ = mapped_by_warp(Y[:, :30])
    here = optima(fit(X[:, :30], y), 20, torch.Generator().manual_seed(1))
    there = optima(fit(X[:, :30].cuda(), y.cuda()), 20, torch.Generator().manual_seed(1))
    assert (there.value.cpu() - here.value).abs().median() < 1e-3
    assert (there.x.cpu() - here.x).abs().amax(-1).median() < 1e-2
