"""The diffusion error ε²_diff (App. F.2, Lemma 4): how far a learned score is from the exact one.

    ε²(y) = 1/(1−t0) ∫ E_{x_t ~ p_t(·|y)} ‖ŝ(x_t, t, y) − ∇log p_t(x_t | y)‖² dt,  t from t0 to 1;    ε² = E_y ε²(y)

P(x | y) is finite here: points x_i with weights w_i(y). Diffused to time t it is a mixture of Gaussians, whose score is
closed form:

    p_t(x | y) = Σ w_i N(x; α x_i, h I)
    ∇log p_t(x | y) = (α Σ r_i x_i − x)/h,    r = softmax(log w_i − ‖x − α x_i‖²/2h), the share of each x_i at x

Where √h is less than the distance between the points, this score knows each of them by itself, so that the error near a
small t0 is one against the finite distribution, not against one that it may stand for. Times near t0 also decide on the
mean: a score of zero has the error d/h at most. Beside it stands therefore the share of the noise in x_t that the
learned score gets wrong, the mean of h‖ŝ − ∇log p_t‖²/d, of which all times have an equal part.

Notation
    x     b x L x S x d    noisy inputs, S for each of L labels of each of b problems
    x_i   b x N x d        points in the network's own coordinates, in which its process runs
    w     b x L x N        their weights, as logarithms, up to a constant for each label
"""

from __future__ import annotations

import torch
from torch import Tensor

from modeseek.diffusion.sampling import Score
from modeseek.diffusion.sde import VPSDE
from modeseek.draws import Draws

TIMES = 25  # evenly spaced in log t, since the score grows as 1/√t towards t0


def exact_score(x: Tensor, t: Tensor, points: Tensor, log_weights: Tensor, sde: VPSDE) -> Tensor:
    """∇log p_t(x | y) of the mixture, at x: b x L x S x d."""
    alpha, h, means = sde.alpha(t), sde.h(t), sde.alpha(t) * points.unsqueeze(-3)
    squared = x.square().sum(-1, keepdim=True) - 2 * x @ means.mT + means.square().sum(-1).unsqueeze(-2)
    share = torch.softmax(log_weights.unsqueeze(-2) - squared / (2 * h), -1)
    return (alpha * (share @ points.unsqueeze(-3)) - x) / h


def diffused(t: Tensor, points: Tensor, log_weights: Tensor, sde: VPSDE, samples: int, draws: Draws) -> Tensor:
    """Samples of p_t(· | y) for each label: b x L x S x d; `draws` are for b rows, on any device."""
    (b, labels, _), d = log_weights.shape, points.shape[-1]
    uniform = draws.rand(labels, samples, dtype=points.dtype).to(points)
    noise = draws.randn(labels, samples, d, dtype=points.dtype).to(points)
    cumulative = torch.softmax(log_weights, -1).cumsum(-1)
    chosen = torch.searchsorted(cumulative / cumulative[..., -1:], uniform, right=True)
    x_0 = points.gather(-2, chosen.view(b, -1, 1).expand(-1, -1, d)).view(b, labels, samples, d)
    return sde.alpha(t) * x_0 + sde.h(t).sqrt() * noise


@torch.no_grad()
def diffusion_error(
    score: Score,
    points: Tensor,
    log_weights: Tensor,
    *,
    sde: VPSDE,
    t0: float,
    samples: int,
    draws: Draws,
    times: int = TIMES,
) -> tuple[Tensor, Tensor]:
    """ε²(y) for each label, and the share of the noise: b x L each.

    Args:
        score: ŝ, of x: b x L x S x d and a scalar t, which it has in float32.
        points, log_weights: b x N x d, b x L x N, float64.
        samples: S, at each time.
        draws: for b rows.
    """
    grid = torch.linspace(0, 1, times, dtype=points.dtype, device=points.device)
    grid = t0 ** (1 - grid)  # geometric, from t0 to 1
    errors = []
    for t in grid:
        x = diffused(t, points, log_weights, sde, samples, draws).float().to(points.dtype)
        learned = score(x.float(), t.float()).to(x)
        errors.append((learned - exact_score(x, t, points, log_weights, sde)).square().sum(-1).mean(-1))
    squared = torch.stack(errors, -1)
    share = sde.h(grid) * squared / points.shape[-1]
    # dt = t dlog t: the integrand in log t is smooth.
    error, wrong = (torch.trapezoid(of_t * grid, grid.log(), dim=-1) / (1 - t0) for of_t in (squared, share))
    return error, wrong
