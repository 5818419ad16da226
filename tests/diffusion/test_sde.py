"""The VP SDE's closed forms against numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import quad, solve_ivp

from modeseek.diffusion.sde import VPSDE

TIMES = torch.tensor([1e-3, 0.01, 0.1, 0.37, 0.8, 1.0], dtype=torch.float64)


@pytest.mark.parametrize("sde", [VPSDE(), VPSDE(0.5, 5.0)])
def test_integral_alpha_and_h_against_quadrature(sde: VPSDE) -> None:
    for t in TIMES:
        area, _ = quad(lambda s: float(sde.beta(torch.tensor(s, dtype=torch.float64))), 0, float(t))
        assert float(sde.integral(t)) == pytest.approx(area, rel=1e-10)
        assert float(sde.alpha(t)) == pytest.approx(np.exp(-area / 2), rel=1e-10)
        assert float(sde.h(t)) == pytest.approx(-np.expm1(-area), rel=1e-10)


def test_moments_follow_the_sdes_own_differential_equations() -> None:
    """d mean = −½ β mean dt and d variance = (β − β variance) dt, from x_0 = 1."""
    sde = VPSDE()

    def moments(t: float, state: np.ndarray) -> list[float]:
        beta = float(sde.beta(torch.tensor(t)))
        return [-0.5 * beta * state[0], beta - beta * state[1]]

    end = solve_ivp(moments, (0, 1), [1.0, 0.0], t_eval=TIMES.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sde.alpha(TIMES).numpy(), end.y[0], rtol=1e-5)
    np.testing.assert_allclose(sde.h(TIMES).numpy(), end.y[1], rtol=1e-5)


def test_beta_runs_from_its_minimum_to_its_maximum() -> None:
    assert VPSDE().beta(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([0.1, 20.0])
