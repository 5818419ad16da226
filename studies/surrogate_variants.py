"""The surrogates that studies/surrogates.py compares: how each is fitted to outcomes of problems side by side.

X is b x n x d on the unit cube, Y is b x n, to be maximized. A variant gives a GP, and may leave in its memory where
the next points are to be instead of where the GP's labels lead ("instead", b x d, NaN where they are to decide).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from modeseek.config import DMSConfig
from modeseek.embedding import PLAIN, Embedding
from modeseek.fitting import fit_mapped
from modeseek.kernels import MATERN, half_squares
from modeseek.lbfgs import descend_in_cube, lbfgs
from modeseek.linalg import inverse_of, with_diagonal
from modeseek.map_fit import fit, log_posterior
from modeseek.outcome_transforms import OutcomeMap
from modeseek.priors import PRIORS, Hyperparameters, bounds_of_theta, cold_starts, theta_of
from modeseek.surrogate import GP, MIN_VARIANCE, Given, Moments, posterior_of

CONFIG = replace(DMSConfig.fast(), noise_prior="gamma")  # the default when these were compared; `exact-8` is today's
PRIOR = PRIORS[CONFIG.noise_prior]
SIZES = ((0.3, 3.0, 30.0, 300.0), (1e-4, 1e-2, 1e-1, 0.3), (1e-6, 1e-3, 3e-2))  # of a bowl's s, ε and ε₀

Memory = dict[str, Any]  # what a variant keeps from one iteration to the next
Fit = Callable[[Tensor, Tensor, Memory], GP]


def usual(X: Tensor, Y: Tensor, memory: Memory) -> tuple[GP, OutcomeMap]:
    """The default's, from where it ended last."""
    gp, outcomes = fit_mapped(X, Y, CONFIG, memory.get("warm"))
    memory["warm"] = gp.hyperparameters
    return gp, outcomes


def default(X: Tensor, Y: Tensor, memory: Memory) -> GP:
    return usual(X, Y, memory)[0]


@dataclass
class Turned(Embedding):
    """z = ½ + A (x − ½), with a matrix for each problem."""

    A: Tensor  # b x d x d
    kernel = MATERN

    def __call__(self, x: Tensor) -> Tensor:
        """Points, ... x d, to their features."""
        return (x - 0.5) @ self.A.mT + 0.5

    def pull_back(self, grad: Tensor, x: Tensor) -> Tensor:
        """A gradient by the features, by the coordinates."""
        return grad @ self.A


def value_of(gp: GP) -> Tensor:
    """The MAP objective where the fit ended: b."""
    return log_posterior(gp.X, gp.y, theta_of(gp.hyperparameters), gp.given)[0]


def choose_gp(better: Tensor, yes: GP, no: GP) -> GP:
    """Row by row one of two whose features are linear."""
    assert isinstance(yes.given.embedding, Turned)
    assert isinstance(no.given.embedding, Turned)
    A = torch.where(better[:, None, None], yes.given.embedding.A, no.given.embedding.A)
    lengthscale = torch.where(better[:, None], yes.hyperparameters.lengthscale, no.hyperparameters.lengthscale)
    noise = torch.where(better, yes.hyperparameters.noise, no.hyperparameters.noise)
    return posterior_of(yes.X, yes.y, Hyperparameters(lengthscale, noise), given=Given(Turned(A), PRIOR))


def main_directions(gp: GP) -> Tensor:
    """Eigenvectors of the mean of ∇μ∇μᵀ over the observed inputs, as rows: b x d x d."""
    _, grad = gp.label_and_grad(gp.X, 0.0)
    return torch.linalg.eigh(grad.mT @ grad).eigenvectors.mT


def rotated(margin: float = 0.0, least: int = 0) -> Fit:
    """Length-scales along the eigenvectors of the gradients of the last surrogate, where the evidence is for it.

    Args:
        margin: by which the log evidence has to be greater.
        least: with fewer outcomes than so many per dimension the default's surrogate is used.
    """

    def fit_it(X: Tensor, Y: Tensor, memory: Memory) -> GP:
        plain, _ = usual(X, Y, memory)
        if X.shape[-2] < least * X.shape[-1]:
            return plain
        eye = torch.eye(X.shape[-1], dtype=X.dtype).expand(len(X), -1, -1)
        best = posterior_of(X, plain.y, plain.hyperparameters, given=Given(Turned(eye), PRIOR))
        value = value_of(best) + margin
        kept = memory.get("turned")
        if kept is not None:
            again = fit(X, plain.y, kept.hyperparameters, given=Given(kept.given.embedding, PRIOR))
            better = value_of(again) > value
            best, value = choose_gp(better, again, best), torch.maximum(value, value_of(again))
        fresh = fit(X, plain.y, given=Given(Turned(main_directions(best)), PRIOR))
        better = value_of(fresh) > value
        best = choose_gp(better, fresh, best)
        memory["turned"] = best
        return best

    return fit_it


def with_features(
    X: Tensor,
    y: Tensor,
    make: Callable[[Tensor], Embedding],
    spread: float,
    count: int,
    memory: Memory,
    warm: Hyperparameters,
    steps: int = 60,
) -> GP:
    """MAP of length-scales and noise, and of parameters φ ~ N(0, spread²) of the features: b x count."""
    n, d = X.shape[-2:]
    none = X.new_zeros(len(X), count)
    starts = [torch.cat([theta, none], -1) for theta in (*cold_starts(X, PRIOR)[:1], theta_of(warm))]
    starts += [memory["theta"]] if "theta" in memory else []
    lower, upper = bounds_of_theta(X, PRIOR)
    reach = X.new_full((count,), 4 * spread)

    def objective(whole: Tensor) -> tuple[Tensor, Tensor]:
        theta, phi = whole[..., : d + 1], whole[..., d + 1 :].detach().requires_grad_()
        with torch.enable_grad():
            Z = make(phi)(X)
        value, by_theta, by_features = of_features(Z.detach(), y, theta)
        (by_phi,) = torch.autograd.grad(Z, phi, by_features)
        phi = phi.detach()
        value = value - 0.5 * (phi / spread).square().sum(-1)
        grad = torch.cat([by_theta, by_phi - phi / spread**2], -1)
        return -value / n, -grad / n

    start = torch.stack(starts)
    end = lbfgs(
        objective,
        start,
        torch.cat([lower, -reach]),
        torch.cat([upper, reach]),
        steps=steps,
        first_move=0.5,
        gtol=1e-4,
        ftol=1e-7,
    )
    value = torch.where(end.value.isfinite(), end.value, torch.inf)
    best = value.argmin(0)
    found = end.x.gather(0, best[None, :, None].expand(1, *end.x.shape[1:]))[0]
    memory["theta"] = found
    hyperparameters = Hyperparameters(found[:, :d].exp(), found[:, d].exp())
    return posterior_of(X, y, hyperparameters, given=Given(make(found[:, d + 1 :]), PRIOR))


def of_features(Z: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As `log_posterior`, of features Z (... x n x d): its value, and its gradients by θ and by Z."""
    value, by_theta = log_posterior(Z, y, theta, Given(PLAIN.with_kernel(MATERN), PRIOR))
    lengthscale, noise = theta[..., :-1].exp(), theta[..., -1].exp()
    K, decay = MATERN.value_and_decay(half_squares(Z, Z, lengthscale))
    A = inverse_of(torch.linalg.cholesky_ex(with_diagonal(K.clone(), noise[..., None])).L)
    weights = A.sum(-1)
    alpha = (A @ (y - (weights * y).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True))[..., None]).squeeze(-1)
    G = (alpha[..., :, None] * alpha[..., None, :] - A) * decay
    by_features = (G @ Z - G.sum(-1, keepdim=True) * Z) / lengthscale[..., None, :].square()
    return value, by_theta, by_features


def mixing(spread: float) -> Fit:
    """z = (I + Φ) x by MAP, where entries of Φ off its diagonal are N(0, spread²)."""

    def fit_it(X: Tensor, Y: Tensor, memory: Memory) -> GP:
        plain, _ = usual(X, Y, memory)
        d = X.shape[-1]
        off = (~torch.eye(d, dtype=torch.bool)).flatten().nonzero()[:, 0]
        place = torch.eye(d * d, dtype=X.dtype)[off]

        def make(phi: Tensor) -> Turned:
            return Turned(torch.eye(d, dtype=X.dtype) + (phi @ place).unflatten(-1, (d, d)))

        return with_features(X, plain.y, make, spread, d * (d - 1), memory, plain.hyperparameters)

    return fit_it


@dataclass
class Kumaraswamy(Embedding):
    """z = 1 − (1 − x^a)^b for each coordinate."""

    log_a: Tensor  # b x d
    log_b: Tensor  # b x d
    kernel = MATERN

    def __call__(self, x: Tensor) -> Tensor:
        """Points, ... x d, to their features."""
        x = x.clamp(1e-6, 1 - 1e-6)
        a, b = self.log_a.exp()[..., None, :], self.log_b.exp()[..., None, :]
        return 1 - (1 - x**a) ** b

    def pull_back(self, grad: Tensor, x: Tensor) -> Tensor:
        """A gradient by the features, by the coordinates."""
        x = x.clamp(1e-6, 1 - 1e-6)
        a, b = self.log_a.exp()[..., None, :], self.log_b.exp()[..., None, :]
        return grad * a * b * x ** (a - 1) * (1 - x**a) ** (b - 1)


def warped(spread: float) -> Fit:
    """Kumaraswamy's warp of each input, log a and log b ~ N(0, spread²)."""

    def fit_it(X: Tensor, Y: Tensor, memory: Memory) -> GP:
        plain, _ = usual(X, Y, memory)
        d = X.shape[-1]

        def make(phi: Tensor) -> Kumaraswamy:
            return Kumaraswamy(phi[..., :d], phi[..., d:])

        return with_features(X, plain.y, make, spread, 2 * d, memory, plain.hyperparameters)

    return fit_it


def exact(least: float) -> Fit:
    """A noise variance down to `least` instead of 1e-6."""
    prior = PRIOR._replace(least=least)

    def fit_it(X: Tensor, Y: Tensor, memory: Memory) -> GP:
        gp, _ = usual(X, Y, memory)
        again = fit(X, gp.y, memory.get("exact", gp.hyperparameters), given=Given(gp.given.embedding, prior))
        memory["exact"] = again.hyperparameters
        return again

    return fit_it


def student(freedom: float) -> Fit:
    """Student's t in place of normal noise, by two steps of EM on residuals left out one by one."""

    def fit_it(X: Tensor, Y: Tensor, memory: Memory) -> GP:
        gp, _ = usual(X, Y, memory)
        for _ in range(2):
            variance = 1 / gp.inverse.diagonal(dim1=-2, dim2=-1)
            squares = (gp.alpha * variance).square() / variance
            excess = (squares + freedom) / (freedom + 1)
            known = (gp.hyperparameters.noise[:, None] + (excess - 1).clamp_min(0) * variance).detach()
            gp = posterior_of(X, gp.y, gp.hyperparameters, given=gp.given._replace(known_noise=known))
        return gp

    return fit_it


def doubtful(variance: float) -> Fit:
    """Outcomes that the floor has raised count as uncertain: their noise has this variance."""

    def fit_it(X: Tensor, Y: Tensor, memory: Memory) -> GP:
        gp, _ = usual(X, Y, memory)
        at_floor = gp.y <= gp.y.amin(-1, keepdim=True) + 1e-9
        at_floor &= at_floor.sum(-1, keepdim=True) > 1
        known = torch.where(at_floor, variance, torch.nan)
        again = fit(X, gp.y, memory.get("again"), given=Given(gp.given.embedding, PRIOR, known))
        memory["again"] = again.hyperparameters
        return again

    return fit_it


@dataclass(frozen=True)
class Additive(GP):
    """(1 − w) κ + w/d Σ_i κ_i, with κ_i of one coordinate each, whose length-scales are their own."""

    own: Tensor = field(default_factory=lambda: torch.empty(0))  # b x d, those length-scales
    share: Tensor = field(default_factory=lambda: torch.empty(0))  # w, b

    def moments(self, x: Tensor) -> Moments:
        """The posterior at x (b x m x d)."""
        k = (1 - self.share[:, None, None]) * self.alike(x, self.X)[0]
        for i in range(x.shape[-1]):
            k = k + self.share[:, None, None] / x.shape[-1] * self.part(x, self.X, i)[0]
        v = k @ self.inverse
        mu = self.mean[:, None] + (k @ self.alpha[..., None])[..., 0]
        variance = (1 - torch.linalg.vecdot(k, v)).clamp_min(MIN_VARIANCE)
        return Moments(mu, variance.sqrt(), k, v, k)

    def part(self, x: Tensor, X: Tensor, i: int) -> tuple[Tensor, Tensor]:  # noqa: N803
        """κ_i and its decay between points, b x m x n."""
        at, to, own = x[..., i, None], X[..., i, None], self.own[:, i, None, None]
        return MATERN.value_and_decay(0.5 * ((at - to.mT) / own).square())

    def grad(self, x: Tensor, at: Moments, rho: Any) -> Tensor:
        """∇μ + ρ∇σ at x, b x m x d."""
        weights = at.v.mul_((-rho / at.sigma)[..., None]).add_(self.alpha[..., None, :])
        d, w = x.shape[-1], self.share[:, None, None]
        whole = self.slope(x, ((1 - w) * weights * self.alike(x, self.X)[1], self.X))
        for i in range(d):
            pull = w / d * weights * self.part(x, self.X, i)[1]
            to = self.X[..., i]
            by_i = (pull @ to[..., None])[..., 0] - pull.sum(-1) * x[..., i]
            whole[..., i] += by_i / self.own[:, i, None].square()
        return whole


def additive(X: Tensor, Y: Tensor, memory: Memory) -> GP:
    """A kernel that is in part a sum over coordinates; how large that part is, is found with the length-scales."""
    plain, _ = usual(X, Y, memory)
    n, d = X.shape[-2:]
    squares = 0.5 * (X[:, :, None] - X[:, None]).square()  # b x n x n x d

    def kernel_of(theta: Tensor) -> Tensor:
        whole, own, share = theta[..., :d].exp(), theta[..., d + 1 : 2 * d + 1].exp(), theta[..., -1].sigmoid()
        full = smooth((squares / whole[..., None, None, :].square()).sum(-1))
        parts = smooth(squares / own[..., None, None, :].square()).mean(-1)
        w = share[..., None, None]
        return (1 - w) * full + w * parts

    def objective(theta: Tensor) -> tuple[Tensor, Tensor]:
        theta = theta.detach().requires_grad_()
        with torch.enable_grad():
            K = kernel_of(theta) + theta[..., d, None, None].exp() * torch.eye(n, dtype=X.dtype)
            chol, info = torch.linalg.cholesky_ex(K)
            both = torch.stack([plain.y, torch.ones_like(plain.y)], -1).expand(*theta.shape[:-1], n, 2)
            solved = torch.linalg.solve_triangular(chol, both, upper=False)
            of_y, of_one = solved[..., 0], solved[..., 1]
            centre = (of_y * of_one).sum(-1, keepdim=True) / of_one.square().sum(-1, keepdim=True)
            value = -0.5 * (of_y - centre * of_one).square().sum(-1)
            value = value - chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)
            for scales, loc in ((theta[..., :d], 0.5 * math.log(d)), (theta[..., d + 1 : 2 * d + 1], 0.0)):
                value = value - (0.5 * ((scales - math.sqrt(2) - loc) / math.sqrt(3)).square() + scales).sum(-1)
            noise = theta[..., d]
            value = value + PRIOR.slope * noise - PRIOR.rate * noise.exp() - 0.5 * (theta[..., -1] / 2).square()
            (grad,) = torch.autograd.grad(value.sum(), theta)
        value = value.detach().masked_fill(info != 0, -torch.inf)
        return -value / n, -grad / n

    starts = []
    for theta in (cold_starts(X, PRIOR)[0], theta_of(plain.hyperparameters)):
        rest = torch.full_like(theta, -1.6)
        rest[:, -1] = 0.0
        starts.append(torch.cat([theta, rest], -1))
    starts = [*starts, memory["additive"]] if "additive" in memory else starts
    lower, upper = bounds_of_theta(X, PRIOR)
    edge = X.new_tensor([6.0])
    low, high = torch.cat([lower, lower[:d], -edge]), torch.cat([upper, upper[:d], edge])
    end = lbfgs(objective, torch.stack(starts), low, high, steps=60, first_move=0.5, gtol=1e-4, ftol=1e-6)
    best = torch.where(end.value.isfinite(), end.value, torch.inf).argmin(0)
    theta = end.x.gather(0, best[None, :, None].expand(1, *end.x.shape[1:]))[0]
    memory["additive"] = theta
    noise = theta[:, d].exp()
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(with_diagonal(kernel_of(theta), noise[:, None])))
    mean = (inverse.sum(-1) * plain.y).sum(-1) / inverse.sum((-1, -2))
    alpha = (inverse @ (plain.y - mean[:, None])[..., None])[..., 0]
    return Additive(
        X, plain.y, Hyperparameters(theta[:, :d].exp(), noise), mean, alpha, inverse, plain.fit_failed,
        given=Given(plain.given.embedding, PRIOR), own=theta[:, d + 1 : 2 * d + 1].exp(), share=theta[:, -1].sigmoid(),
    )  # fmt: skip


def smooth(q: Tensor) -> Tensor:
    """Matérn's κ, with a derivative everywhere."""
    s = (10 * q + 1e-12).sqrt()
    return (1 + s + s.square() / 3) * (-s).exp()


class Bowl(NamedTuple):
    """A quadratic through the outcomes, by its evidence; see `bowl_of`."""

    weights: Tensor  # b x p
    centre: Tensor  # b x d
    width: Tensor  # b x 1
    scale: Tensor  # b x 1
    top: Tensor  # b x 1
    left_out: Tensor  # b x n, what each outcome is expected to be from all others, in the objective's units

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """At x (b x m x d), in units of its scale: b x m, b x m x d."""
        d = x.shape[-1]
        u = (x - self.centre[:, None]) / self.width[:, None]
        value = (basis(u) @ self.weights[..., None])[..., 0]
        H = x.new_zeros(len(x), d, d)
        i, j = torch.triu_indices(d, d)
        H[:, i, j] = self.weights[:, 1 + d :]
        H = H + H.mT
        return value, (self.weights[:, None, 1 : 1 + d] + u @ H) / self.width[:, None]


def basis(u: Tensor) -> Tensor:
    """1, u_i and u_i u_j: ... x d -> ... x (d + 1)(d + 2)/2."""
    i, j = torch.triu_indices(u.shape[-1], u.shape[-1])
    return torch.cat([torch.ones_like(u[..., :1]), u, u[..., i] * u[..., j]], -1)


def bowl_of(X: Tensor, Y: Tensor) -> Bowl:
    """A Bayesian quadratic that is as exact at an outcome as that is close to the best.

    Coefficients are N(0, s²), the misfit of an outcome is N(0, (ε gap)² + ε₀²), with gap its distance to the best; s, ε
    and ε₀ from a grid, by evidence.
    """
    n, d = X.shape[-2:]
    top, at = Y.max(-1, keepdim=True)
    gap = top - Y
    half = gap.topk(n // 2 + 1, -1, largest=False)
    scale = half.values.median(-1, keepdim=True).values.clamp_min(1e-300)
    centre = X.gather(1, at[..., None].expand(-1, 1, d))[:, 0]
    away = (X - centre[:, None]).square().sum(-1).sqrt()
    width = away.gather(1, half.indices).median(-1, keepdim=True).values.clamp_min(1e-9)
    H = basis((X - centre[:, None]) / width[:, None])
    y = -gap / scale
    s, e, e0 = torch.meshgrid(*(X.new_tensor(v) for v in SIZES), indexing="ij")
    s, e, e0 = (v.reshape(-1, 1, 1) for v in (s, e, e0))
    prior = torch.ones_like(H[:, :1]).squeeze(1)
    prior[:, 0] = 100.0
    S = s[..., None] ** 2 * ((H * prior[:, None]) @ H.mT)
    S = S + torch.diag_embed((e * -y) ** 2 + e0**2)
    chol, info = torch.linalg.cholesky_ex(S)
    half_solved = torch.linalg.solve_triangular(chol, y[..., None].expand(len(s), -1, -1, -1), upper=False)
    evidence = -0.5 * half_solved.square().sum((-1, -2)) - chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    best = evidence.masked_fill(info != 0, -torch.inf).nan_to_num(-torch.inf).argmax(0)
    rows = torch.arange(len(X))
    A = torch.cholesky_inverse(chol[best, rows])
    alpha = (A @ y[..., None])[..., 0]
    left_out = y - alpha / A.diagonal(dim1=-2, dim2=-1)
    weights = s[best, 0] ** 2 * prior * (H.mT @ alpha[..., None])[..., 0]
    return Bowl(weights, centre, width, scale, top, left_out * scale + top)


def bowl(margin: float = 0.0) -> Fit:
    """The optimum of a quadratic instead, where that foresees the good outcomes better than the Gaussian process.

    Each outcome is foreseen from all others; the mean log of the error, over the best quarter, has to be less by
    `margin`.
    """

    def fit_it(X: Tensor, Y: Tensor, memory: Memory) -> GP:
        gp, outcomes = usual(X, Y, memory)
        n, d = X.shape[-2:]
        quadratic = bowl_of(X, Y)
        left_out = outcomes.inverse(gp.y - gp.alpha / gp.inverse.diagonal(dim1=-2, dim2=-1))
        good = Y.topk(max(n // 4, d + 2), -1).indices[:, 1:]
        size = 1e-9 * quadratic.scale
        ours, theirs = (((v - Y).abs() + size).log().gather(1, good).mean(-1) for v in (quadratic.left_out, left_out))
        near = X.gather(1, good[..., None].expand(-1, -1, d))
        reach = 1.5 * (near - quadratic.centre[:, None]).abs().amax(1).clamp_min(1e-6)
        low, high = ((quadratic.centre + sign * reach).clamp(0, 1)[:, None] for sign in (-1, 1))

        def down(t: Tensor) -> tuple[Tensor, Tensor]:
            value, grad = quadratic.value_and_grad(low + (high - low) * t)
            return -value, -grad * (high - low)

        starts = torch.cat([quadratic.centre[:, None], near], 1)
        end = descend_in_cube(down, (starts - low) / (high - low), steps=40)
        x = low + (high - low) * end
        value = quadratic.value_and_grad(x)[0]
        i = value.argmax(-1)[:, None]
        x = x.gather(1, i[..., None].expand(-1, 1, d))[:, 0]
        use = (ours < theirs - margin) & x.isfinite().all(-1) & ((x[:, None] - X).abs().amax(-1).amin(-1) > 1e-7)
        memory["instead"] = torch.where(use[:, None], x, torch.nan)
        return gp

    return fit_it


VARIANTS: dict[str, Fit] = {
    "default": default,
    "rotated": rotated(),
    "rotated-late": rotated(margin=3.0, least=6),
    "mixing-0.3": mixing(0.3),
    "warped-0.3": warped(0.1**0.5),
    "additive": additive,
    "student-4": student(4.0),
    "doubtful-0.1": doubtful(0.1),
    "exact-8": exact(1e-8),
    "bowl": bowl(),
    "bowl-sure": bowl(1.0),
}
