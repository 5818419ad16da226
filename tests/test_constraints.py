"""Labels under constraints: gradients, probabilities against BoTorch's GP, and where the next point falls."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from botorch.test_functions.synthetic import ConstrainedGramacy
from botorch.utils.multi_objective.pareto import is_non_dominated
from scipy import stats

import modeseek as ms
from modeseek.config import DMSConfig
from modeseek.constraints import bilog, constrain
from modeseek.dms import suggest
from modeseek.draws import Draws
from modeseek.map_fit import fit
from modeseek.objectives import improve_one, leaders_of
from modeseek.outcome_transforms import standardize
from modeseek.pseudo import around
from modeseek.surrogate import Surrogate

CONFIG = DMSConfig(m=200, S=100, epochs=60, steps=20)


def data(b: int = 2, n: int = 12, d: int = 2, q: int = 2, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(b, n, d, dtype=torch.float64, generator=generator)
    Y = -(X - 0.8).square().sum(-1)
    constraints = torch.stack([X[..., 0] - 0.5 + 0.1 * j * X[..., 1] for j in range(q)], -1)
    return X, Y, constraints


@pytest.mark.parametrize("make", [improve_one, constrain])
def test_gradient_is_that_of_the_label(make: Callable[..., Surrogate]) -> None:
    X, Y, constraints = data()
    gp = make(fit(X, standardize(Y)), X, constraints)
    x = torch.rand(2, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    label, grad = gp.label_and_grad(x, 1.0)
    torch.testing.assert_close(label, gp.label(x, 1.0))
    step = 1e-6 * torch.eye(2, dtype=torch.float64)
    central = torch.stack([(gp.label(x + h, 1.0) - gp.label(x - h, 1.0)) / 2e-6 for h in step], -1)
    torch.testing.assert_close(grad, central, rtol=5e-3, atol=2e-3)


def test_feasibility_is_the_product_of_the_probabilities() -> None:
    X, Y, constraints = data(b=1)
    gp = improve_one(fit(X, standardize(Y)), X, constraints)
    x = torch.rand(1, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert gp.margins is not None
    assert gp.thresholds is not None
    mu, sigma = gp.margins.posterior(x)
    z = (mu - gp.thresholds[..., None]) / sigma
    expected = stats.norm.cdf(z.numpy()).prod(0)
    torch.testing.assert_close(gp.log_feasibility(x).exp(), torch.from_numpy(expected))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_what_was_seen_is_known_at_any_scale(scale: float) -> None:
    X, Y, constraints = data(b=1, n=20)
    gp = improve_one(fit(X, standardize(Y)), X, scale * constraints)
    feasible = (constraints <= 0).all(-1)
    clear = (constraints.abs() > 0.05).all(-1)
    probability = gp.log_feasibility(X).exp()
    assert (probability[feasible & clear] > 0.8).all()
    assert (probability[~feasible & clear] < 0.2).all()


def test_the_next_point_is_the_best_feasible_one() -> None:
    X, Y, constraints = data(b=1, n=25, q=1)  # the optimum (0.8, 0.8) is infeasible; (0.5, 0.8) is the best that is not
    free = suggest(X, Y, CONFIG, torch.Generator().manual_seed(0))
    held = suggest(X, Y, CONFIG, torch.Generator().manual_seed(0), constraints=constraints)
    assert free.x_next[0, 0] > 0.7
    assert held.x_next[0, 0] < 0.52
    assert held.x_next[0].tolist() == pytest.approx([0.5, 0.8], abs=0.1)


def test_nothing_feasible_yet_leads_towards_the_feasible_region() -> None:
    X, Y, _ = data(b=1, n=15)
    X = 0.5 + X / 2
    constraints = (X[..., :1] - 0.3).clone()  # feasible only on the left, where nothing was seen
    config = dataclasses.replace(CONFIG, rho=0.0)
    out = suggest(X, Y, config, torch.Generator().manual_seed(0), constraints=constraints)
    assert out.x_next[0, 0] < 0.35


def test_bilog_keeps_signs_order_and_knows_no_units() -> None:
    g = torch.tensor([[-300.0, -2.0, -1e-3, 0.0, 1e-3, 2.0, 50.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]]).double()
    shaped = bilog(g)
    assert shaped.sign().equal(g.sign())
    assert (shaped[0].diff() > 0).all()
    for scale in (1e-200, 1e-3, 1e200):
        torch.testing.assert_close(bilog(scale * g), shaped)
    assert bilog(torch.zeros(1, 4)).equal(torch.zeros(1, 4))


def test_leaders_are_the_best_feasible_inputs() -> None:
    means = torch.tensor([[[1.0], [3.0], [2.0]], [[1.0], [3.0], [2.0]]]).double()
    counted = torch.tensor([[True, False, True], [False, False, False]])
    assert leaders_of(means, counted).tolist() == [[False, False, True], [True, True, True]]
    two = torch.rand(4, 30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    leads = leaders_of(two, torch.ones(4, 30, dtype=torch.bool))
    for row, lead in zip(two, leads, strict=True):
        assert lead.equal(is_non_dominated(row))


def test_points_around_are_near_and_far_and_of_those_chosen() -> None:
    x = torch.tensor([[[0.2, 0.2], [0.8, 0.8]], [[0.1, 0.9], [0.9, 0.1]]]).double()
    chosen = torch.tensor([[True, False], [True, True]])
    points = around(x, chosen, Draws.of(torch.Generator().manual_seed(0), (2,)))
    assert ((points >= 0) & (points <= 1)).all()
    distance = torch.cdist(points, x)
    assert distance[0, :, 0].min() < 1e-3
    assert distance[0, :, 0].max() > 0.2
    assert (distance[0, :40, 1] > 0.5).all()  # these are close to the first input, the second was not chosen
    assert (distance[1, :40].amin(-1) < 0.05).all()
    assert (distance[1, :40].argmin(-1).unique()).tolist() == [0, 1]


@pytest.mark.slow
def test_an_optimum_on_the_border_is_found_sharply() -> None:
    """The constrained toy of Gramacy et al. (2016), whose optimum is on the border of one constraint."""
    problem = ConstrainedGramacy()

    def toy(x: np.ndarray) -> tuple[float, list[float]]:
        at = torch.from_numpy(x)[None]
        return float(problem.evaluate_true(at)), (-problem.evaluate_slack_true(at)[0]).tolist()

    found = []
    for seed in range(3):
        best = ms.minimize(
            toy, ms.Space.box([0, 0], [1, 1]), 35, seed=seed, config=DMSConfig.fast(), progress=False
        ).best
        assert best is not None
        found.append(best.value)
    assert np.median(found) < float(problem.optimal_value) + 1e-4
