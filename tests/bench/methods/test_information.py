"""Acquisition functions about the optimum, for many problems at once, against BoTorch's on the same samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.joint_entropy_search import qJointEntropySearch
from botorch.acquisition.max_value_entropy_search import qLowerBoundMaxValueEntropy
from botorch.acquisition.predictive_entropy_search import qPredictiveEntropySearch
from scipy import stats
from torch import Tensor

from modeseek.bench.methods import acquisitions, information
from modeseek.bench.methods.botorch_methods import botorch_model
from modeseek.draws import Draws
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.paths import draw_paths, optima
from modeseek.surrogate import GP, Surrogate
from shared import generator

pytestmark = pytest.mark.filterwarnings("ignore")  # of BoTorch's conditioning
VALUE, SLOPE = 1e-8, 1e-7  # how far values and gradients may be from BoTorch's, which are of order 0.1 and 1


class Case(NamedTuple):
    gp: GP
    x_star: Tensor  # 1 x S x d
    f_star: Tensor  # 1 x S
    x: Tensor  # 1 x m x d


def case(d: int) -> Case:
    """Points anywhere, at observed inputs, and next to the samples of the optimum."""
    g = generator(d)
    X = torch.rand(1, 8 + 4 * d, d, dtype=torch.float64, generator=g)
    Y = torch.sin(7 * X).sum(-1) + 0.05 * torch.randn(X.shape[:-1], dtype=torch.float64, generator=g)
    gp = fit(X, standardize(Y))
    x_star, f_star, _ = optima(gp, 12, g)
    near = (x_star[:, :4] + 1e-3).clamp(0, 1)
    anywhere = torch.rand(1, 30, d, dtype=torch.float64, generator=g)
    return Case(gp, x_star, f_star, torch.cat([anywhere, X[:, :3], near], -2))


def gibbon(c: Case) -> tuple[Surrogate, AcquisitionFunction]:
    candidates = torch.rand(100, c.x.shape[-1], dtype=torch.float64, generator=generator())
    theirs = qLowerBoundMaxValueEntropy(botorch_model(c.gp), candidate_set=candidates)
    return information.GIBBON(c.gp, theirs.posterior_max_values.T), theirs


def gibbon_batch(c: Case) -> tuple[Surrogate, AcquisitionFunction]:
    alone, theirs = gibbon(c)
    assert isinstance(alone, information.GIBBON)
    pending = torch.rand(1, 3, c.x.shape[-1], dtype=torch.float64, generator=generator(9))
    theirs.set_X_pending(pending[0])
    return information.BatchGIBBON(c.gp, alone, c.gp.condition(pending)), theirs


def jes(c: Case) -> tuple[Surrogate, AcquisitionFunction]:
    theirs = qJointEntropySearch(
        botorch_model(c.gp), optimal_inputs=c.x_star[0], optimal_outputs=c.f_star[0, :, None], estimation_type="LB"
    )
    return information.about_optimum(information.JES, c.gp, c.x_star, c.f_star), theirs


def pes(c: Case) -> tuple[Surrogate, AcquisitionFunction]:
    theirs = qPredictiveEntropySearch(botorch_model(c.gp), optimal_inputs=c.x_star[0])
    return information.about_optimum(information.PES, c.gp, c.x_star, c.f_star), theirs


@pytest.mark.parametrize("both", [gibbon, gibbon_batch, jes, pes], ids=lambda both: both.__name__)
@pytest.mark.parametrize("d", [1, 4])
def test_values_and_gradients_are_botorchs(
    both: Callable[[Case], tuple[Surrogate, AcquisitionFunction]], d: int
) -> None:
    c = case(d)
    torch.manual_seed(0)
    ours, theirs = both(c)
    x = c.x.clone().requires_grad_(True)
    values = theirs(x[0, :, None])
    (slope,) = torch.autograd.grad(values.sum(), x)
    value, grad = ours.label_and_grad(c.x, 1.0)
    torch.testing.assert_close(value[0], values.detach(), atol=VALUE, rtol=0)
    torch.testing.assert_close(ours.label(c.x, 1.0), value, atol=1e-12, rtol=0)
    known = slope.isfinite()  # BoTorch's gradients of PES are NaN at times
    assert known.float().mean() > 0.5
    torch.testing.assert_close(grad[known], slope[known], atol=SLOPE, rtol=SLOPE)
    assert grad.isfinite().all()
    assert grad.abs().max() > 0.01


def test_samples_that_cannot_be_optima_leave_pes_finite() -> None:
    """BoTorch's then has NaN in its update, and no update at all."""
    gp = case(1).gp
    worst = gp.X.gather(-2, gp.y.argsort(-1)[..., :3, None])
    function = information.about_optimum(information.PES, gp, worst, gp.y[:, :3])
    value, grad = function.label_and_grad(case(1).x)
    assert value.isfinite().all()
    assert grad.isfinite().all()


def test_samples_of_the_maximum_are_botorchs() -> None:
    gp = case(2).gp
    candidates = torch.rand(300, 2, dtype=torch.float64, generator=generator())
    torch.manual_seed(3)
    theirs = qLowerBoundMaxValueEntropy(botorch_model(gp), candidate_set=candidates).posterior_max_values
    torch.manual_seed(3)
    uniform = torch.rand(10, 1, dtype=torch.float64).T
    ours = information.sampled_maxima(*gp.posterior(candidates[None]), uniform)
    torch.testing.assert_close(ours, theirs.T, atol=1e-7, rtol=0)


def test_gibbon_looks_for_the_maximum_at_the_observed_inputs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As BoTorch does: a peak that was found is missed by random points in many dimensions."""
    X = torch.rand(1, 60, 8, dtype=torch.float64, generator=generator())
    X[:, 20:] = 0.5 + 0.02 * (X[:, 20:] - 0.5)
    gp = fit(X, standardize(-(X - 0.5).square().sum(-1).sqrt()))
    candidates = torch.rand(1, 200, 8, dtype=torch.float64, generator=generator(1))
    monkeypatch.setattr(information, "CANDIDATES", candidates.shape[1])
    torch.manual_seed(3)
    theirs = qLowerBoundMaxValueEntropy(botorch_model(gp), candidate_set=candidates[0]).posterior_max_values
    torch.manual_seed(3)
    draws = Draws.of(generator(), (1,))
    drawn = iter([candidates, torch.rand(10, 1, dtype=torch.float64).T])
    monkeypatch.setattr(Draws, "rand", lambda *size, **options: next(drawn))
    torch.testing.assert_close(information.gibbon(gp, draws).maxima, theirs.T, atol=1e-6, rtol=0)


def test_ts_draws_from_the_joint_posterior() -> None:
    """Where a draw is highest of a few points, against exact samples of the joint posterior at these."""
    gp, count = case(2).gp, 4000
    x = torch.rand(1, 5, 2, dtype=torch.float64, generator=generator(1))
    paths = draw_paths(gp, count, generator(2)).everywhere(x)[0]
    torch.manual_seed(0)
    exact = botorch_model(gp).posterior(x[0]).rsample(torch.Size([count]))[..., 0]
    highest = np.stack([np.bincount(f.argmax(-1), minlength=5) + 1 for f in (paths, exact)])
    assert stats.chi2_contingency(highest).pvalue > 1e-3
    for i in range(5):
        assert stats.ks_2samp(paths[:, i].numpy(), exact[:, i].numpy()).pvalue > 1e-3


def test_each_row_of_a_batch_has_one_draw_with_its_gradient() -> None:
    gp = fit(*(torch.cat([t, t.flip(-1)]) for t in (case(3).gp.X, case(3).gp.y)))
    function = acquisitions.ACQUISITIONS["ts"](gp, Draws.of(generator(), (2,)))
    x = torch.rand(2, 6, 3, dtype=torch.float64, generator=generator(1)).requires_grad_(True)
    value, grad = function.label_and_grad(x.detach().clone(), 1.0)
    labels = function.label(x, 1.0)
    torch.testing.assert_close(value, labels.detach(), atol=1e-9, rtol=0)
    torch.testing.assert_close(grad, torch.autograd.grad(labels.sum(), x)[0], atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("name", ["jes", "pes"])
def test_the_information_is_where_the_optimum_may_be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where f is known there is nothing to learn about its maximum."""
    monkeypatch.setattr(information, "OPTIMA", 16)
    X = torch.linspace(0, 0.5, 25, dtype=torch.float64)[None, :, None]
    gp = fit(X, standardize(torch.sin(20 * X[..., 0])))
    draws = Draws.of(generator(), (1,))
    _, x = acquisitions.maximize(acquisitions.ACQUISITIONS[name](gp, draws), draws)
    assert x.item() > 0.5


def test_partial_derivatives_are_autograds() -> None:
    a, b = torch.rand(2, 4, 3, dtype=torch.float64, generator=generator()).requires_grad_(True)
    value, slopes = information.partials(lambda x, y: x.sin() * y + x.clamp_min(0.5), a.detach(), b.detach())
    expected = a.sin() * b + a.clamp_min(0.5)
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(slopes, torch.stack(torch.autograd.grad(expected.sum(), (a, b))))
