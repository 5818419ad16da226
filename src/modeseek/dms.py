"""Algorithm 1 of the paper, lines 4 to 8: from what was observed to the next point.

Notation, as in the paper (b leading batch dimensions: independent problems side by side)
    X, Y    b x n x d, b x n    inputs on the unit cube and outcomes, to be maximized
    m, K    size of the pseudo-dataset, steps of short-run L-BFGS          ρ   weight of σ in the labels
    S       number of x* candidates                                        w   guidance
    x, ŷ    b x m x d, b x m    the pseudo-dataset                         θ   b x P, the score networks
    x*      b x S x d           the candidates                      x_next   b x d, their dominant mode, polished
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple, Self, get_args

import torch
from torch import Tensor

from modeseek.constraints import ConstrainedGP, constrain
from modeseek.diffusion.network import initialize
from modeseek.diffusion.sampling import Solver, backward, guided_score
from modeseek.diffusion.sde import VPSDE
from modeseek.diffusion.training import LossWeight, Schedule, train
from modeseek.errors import ConfigError
from modeseek.modes import dominant_mode
from modeseek.outcomes import standardize, warp
from modeseek.pseudo import Refinement, Rounding, polish, pseudo_dataset
from modeseek.surrogate import GP, Hyperparameters, Surrogate, evidence, fit

STAGES = ("fit", "pseudo", "train", "sample", "mode")
Data = Literal["pseudo", "observed", "nothing"]
Warping = Literal["evidence", "always", "never"]
EVIDENCE_SIZE = 200  # observations that decide on the power transform, evenly from first to last
MIN_LABEL_STD = 1e-6  # labels that differ by less, in standard deviations of the outcomes, are equal


@dataclass(frozen=True, kw_only=True)
class DMSConfig:
    """The settings of DMS. `DMSConfig()` is our default, `DMSConfig.fast()` takes half to four fifths as long,
    `DMSConfig.paper(d)` is the paper's.

    Args:
        m: size of the pseudo-dataset; None: 500 to 1500 by dimension, as in the paper's table.
        K: steps of short-run L-BFGS.
        S: number of x* candidates; None: 200 to 400 by dimension, as in the paper's table.
        train_on: "pseudo"; or, for ablations, "observed" to train on the observations alone, or "nothing" to do without
            a model, so that the best of the pseudo-dataset takes the place of the mode.
        rho: weight of the posterior standard deviation in the labels μ + ρσ; 0 is the naive estimator.
        rho_far: its weight in every 2d-th iteration, which is for what lies far from all that is known; None: as ever.
        refine: L-BFGS for each pseudo-input by itself ("point", Eq. 6) or for all with one step size ("joint").
        polish: climb μ + ρσ from the dominant mode to the nearest optimum before it is evaluated.
        w: strength of classifier-free guidance; 0: samples follow the condition as it was learned.
        p_drop: probability of dropping the condition in training, which guidance needs.
        epochs, batch_size, lr, lr_min, hold_epochs, weight_decay: AdamW; the learning rate is held, then falls on a
            cosine to lr_min.
        hidden: width H of the score network.
        loss_weight: "h" for the weight h(t), the noise-prediction loss; "one" for the loss as printed (Eq. 4).
        beta_min, beta_max, t0: the VP SDE and where it stops early.
        solver, steps: Heun steps of the probability-flow "ode" or of the backward "sde".
        warp: give the outcomes room at the top: with a power transform where the Gaussian process then explains them
            better ("evidence"), with it in any case ("always"); or standardize only ("never").
        quantile: of the pairwise distances, for the bandwidth of the mean shift.
        name: what results call this configuration.
    """

    name: str = "dms"
    m: int | None = None
    K: int = 5
    S: int | None = None
    train_on: Data = "pseudo"
    rho: float = 1.0
    rho_far: float | None = 3.0
    refine: Refinement = "joint"
    polish: bool = True
    w: float = 0.0
    p_drop: float = 0.0
    epochs: int = 30
    batch_size: int = 256
    lr: float = 1e-3
    lr_min: float = 1e-4
    hold_epochs: int = 20
    weight_decay: float = 1e-4
    hidden: int = 256
    loss_weight: LossWeight = "h"
    beta_min: float = 0.1
    beta_max: float = 20.0
    t0: float = 1e-3
    solver: Solver = "ode"
    steps: int = 25
    warp: Warping = "evidence"
    quantile: float = 0.3

    def __post_init__(self) -> None:
        """Refuse what makes no sense, by name."""
        _require(isinstance(self.name, str), "name", "a string", self.name)
        _require(isinstance(self.polish, bool), "polish", "True or False", self.polish)
        for name, choices in (
            ("train_on", Data),
            ("refine", Refinement),
            ("loss_weight", LossWeight),
            ("solver", Solver),
            ("warp", Warping),
        ):
            _require(getattr(self, name) in get_args(choices), name, f"in {get_args(choices)}", getattr(self, name))
        for name in ("m", "S"):
            value = getattr(self, name)
            _require(value is None or _is_whole(value, 1), name, "None or a whole number of at least 1", value)
        for name, least in (
            ("K", 0),
            ("epochs", 1),
            ("batch_size", 1),
            ("hidden", 1),
            ("steps", 1),
            ("hold_epochs", 0),
        ):
            value = getattr(self, name)
            _require(_is_whole(value, least), name, f"a whole number of at least {least}", value)
        far = self.rho_far
        _require(far is None or (_is_real(far) and 0 <= far < math.inf), "rho_far", "None or in [0, inf)", far)
        for name, low, high, closed in _RANGES:
            value = getattr(self, name)
            inside = _is_real(value) and (low < value < high or (closed and value == low))
            _require(inside, name, f"in {'[' if closed else '('}{low}, {high})", value)
        _require(self.w == 0 or self.p_drop > 0, "p_drop", f"over 0 for guidance with w = {self.w}", self.p_drop)
        _require(self.lr_min <= self.lr, "lr_min", f"at most lr = {self.lr}", self.lr_min)
        _require(self.beta_min < self.beta_max, "beta_max", f"over beta_min = {self.beta_min}", self.beta_max)

    @classmethod
    def fast(cls) -> Self:
        """Our settings with a model that is smaller and trained for less long."""
        return cls(name="dms-fast", m=500, S=200, epochs=20, hold_epochs=5, steps=15)

    @classmethod
    def paper(cls, d: int) -> Self:
        """The paper's settings for d parameters (its Table 2 and App. B.4)."""
        m, K, S = _sizes_by_dimension(d)
        return cls(
            name="dms-paper",
            m=m,
            K=K,
            S=S,
            refine="point",
            polish=False,
            w=2.0,
            p_drop=0.15,
            rho_far=None,
            warp="never",
            epochs=100,
            steps=50,
        )

    def sizes(self, d: int) -> tuple[int, int, int]:
        """m, K and S for d parameters."""
        m, _, S = _sizes_by_dimension(d)
        return m if self.m is None else self.m, self.K, S if self.S is None else self.S

    def rho_after(self, n: int, d: int) -> float:
        """ρ of the iteration that follows n observations."""
        return self.rho if self.rho_far is None or n % (2 * d) != 2 * d - 1 else self.rho_far


_RANGES = (  # name, low, high, whether low itself is allowed
    ("rho", 0, math.inf, True),
    ("w", 0, math.inf, True),
    ("p_drop", 0, 1, True),
    ("lr", 0, math.inf, False),
    ("lr_min", 0, math.inf, False),
    ("weight_decay", 0, math.inf, True),
    ("beta_min", 0, math.inf, True),
    ("beta_max", 0, math.inf, False),
    ("t0", 0, 1, False),
    ("quantile", 0, 1, False),
)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require(condition: bool, name: str, what: str, value: object) -> None:
    if not condition:
        raise ConfigError(f"DMSConfig: {name} must be {what}, not {value!r}")


def _sizes_by_dimension(d: int) -> tuple[int, int, int]:
    for largest, sizes in ((4, (500, 5, 200)), (7, (800, 5, 300)), (10, (800, 25, 300)), (20, (1200, 25, 400))):
        if d <= largest:
            return sizes
    return 1500, 25, 400


class State(NamedTuple):
    """What one iteration hands to the next: where the GP fit and the training start."""

    lengthscale: Tensor  # b x d, float64
    noise: Tensor  # b, float64
    network: Tensor  # b x P, float32


@dataclass(frozen=True)
class Found:
    """The next point of each batch element, and what it was found from, on the unit cube."""

    x_next: Tensor  # b x d
    mode: Tensor  # b x d, the dominant mode of the candidates; x_next is where `polish` led from it
    candidates: Tensor  # b x S x d, the samples of x*
    pseudo_x: Tensor  # b x m x d
    pseudo_y: Tensor  # b x m, in standard deviations of the outcomes
    rho: float  # the weight of σ in this iteration's labels
    network: Tensor  # b x P, float32
    fell_back: Tensor  # b, True where the diffusion model was of no use: x_next is the best pseudo-labelled input
    seconds: dict[str, float]  # by stage


@dataclass(frozen=True)
class Suggestion(Found):
    """What was found, with the GP that it was found on and the state to go on from."""

    gp: GP | ConstrainedGP
    state: State


def suggest(
    X: Tensor,
    Y: Tensor,
    config: DMSConfig,
    generator: torch.Generator,
    state: State | None = None,
    pending: Tensor | None = None,
    constraints: Tensor | None = None,
    rounding: Rounding | None = None,
) -> Suggestion:
    """Lines 4 to 8 of Algorithm 1 for every batch element.

    Args:
        X: b x n x d, float64, observed inputs on the unit cube. Everything runs on its device.
        Y: b x n, float64, their outcomes, to be maximized, of any scale.
        generator: on the CPU, so that the Sobol points of a seed are the same on every device.
        state: what the iteration before returned.
        pending: b x p x d, inputs whose outcomes are still to come, or never will.
        constraints: b x n x q, values of q constraints at X; an input is feasible where all are at most 0.
        rounding: to inputs that can be evaluated, where some parameters are discrete.
    """
    clock = _Clock(X.device)
    # Line 4: μ, σ ← FitGP(D)
    objective = fit_surrogate(X, Y, config, state, pending)
    gp = objective if constraints is None else constrain(objective, X, constraints)
    clock.lap("fit")
    found = seek(gp, config, generator, None if state is None else state.network, rounding, clock)
    return Suggestion(**vars(found), gp=gp, state=State(*gp.hyperparameters, found.network))


def seek(
    gp: Surrogate,
    config: DMSConfig,
    generator: torch.Generator,
    network: Tensor | None = None,
    rounding: Rounding | None = None,
    clock: _Clock | None = None,
) -> Found:
    """Lines 5 to 8 of Algorithm 1, on any surrogate that gives labels and their gradients.

    Args:
        gp: on the unit cube.
        generator: on the CPU.
        network: b x P, where the training starts; None: anew.
        rounding: as in `suggest`.
    """
    batch, d, device = gp.X.shape[:-2], gp.X.shape[-1], gp.X.device
    m, K, S = config.sizes(d)
    rho = config.rho_after(gp.X.shape[-2], d)
    sde = VPSDE(config.beta_min, config.beta_max)
    clock = _Clock(device) if clock is None else clock

    # Lines 5 and 6: {x_i} ← ShortRunL-BFGS(GP(μ, σ)), {ŷ_i} ← f̂({x_i})
    if config.train_on == "observed":  # the paper's ablation without pseudo-labels (App. B.7.1)
        x, y_hat = gp.X, gp.y
    else:
        x, y_hat = pseudo_dataset(gp, m=m, K=K, rho=rho, refine=config.refine, generator=generator, rounding=rounding)
    clock.lap("pseudo")

    noise = _generator_on(device, generator)
    theta = fresh = initialize(tuple(batch), d, config.hidden, noise)
    best = x.gather(-2, y_hat.argmax(-1)[..., None, None].expand(*batch, 1, d))
    x_star, fell_back = best.expand(*batch, S, d), _is_one_point(x, best, sde, config.t0)
    if config.train_on != "nothing" and not bool(fell_back.all()):  # else there is nothing to learn
        # Line 7: s_θ ← DenoisingScoreMatching({(x_i, ŷ_i)})
        y, y_star = _standardized_labels(y_hat)
        theta, loss = train(
            fresh if network is None else network,
            _to_network(x),
            y,
            sde=sde,
            schedule=_schedule(config),
            hidden=config.hidden,
            t0=config.t0,
            p_drop=config.p_drop,
            loss_weight=config.loss_weight,
            generator=noise,
        )
        clock.lap("train")

        # Line 8: x_next ← DMS(s_θ), lines 12 to 16: ŷ* ← max ŷ_i, x*_s ← BackwardSDE(x_0, s_θ, ŷ*), x_0 ~ N(0, I)
        x_0 = torch.randn(*batch, S, d, device=device, generator=noise)
        score = guided_score(theta, y_star, w=config.w, sde=sde, hidden=config.hidden)
        samples = backward(score, x_0, sde=sde, t0=config.t0, steps=config.steps, solver=config.solver, generator=noise)
        fell_back = fell_back | ~loss.isfinite() | ~samples.isfinite().all(-1).all(-1)
        x_star = torch.where(fell_back[..., None, None], best, _from_network(samples))
        theta = torch.where(fell_back[..., None], fresh, theta)
        clock.lap("sample")

    # Line 16: x_next ← MeanShift({x*_s})
    x_next = mode = dominant_mode(x_star, config.quantile)
    if config.polish:
        x_next = polish(gp, mode, rho=rho, rounding=rounding)
    clock.lap("mode")
    return Found(x_next, mode, x_star, x, y_hat, rho, theta, fell_back, clock.seconds)


def fit_surrogate(
    X: Tensor, Y: Tensor, config: DMSConfig, state: State | None = None, pending: Tensor | None = None
) -> GP:
    """The GP on the outcomes as the settings have them; pending inputs enter at their posterior mean."""
    warm = None if state is None else Hyperparameters(state.lengthscale, state.noise)
    gp = fit(X, _shaped(X, Y, config.warp), warm)
    return gp if pending is None or pending.shape[-2] == 0 else gp.condition(pending)


def _shaped(X: Tensor, Y: Tensor, warping: Warping) -> Tensor:
    """The outcomes as the surrogate sees them, b x n."""
    if warping == "never":
        return standardize(Y)
    if warping == "always":
        return warp(Y)
    some = torch.linspace(0, X.shape[-2] - 1, min(X.shape[-2], EVIDENCE_SIZE)).long().to(X.device)
    return warp(Y, lambda y, log_slope: evidence(X[..., some, :], y[..., some]) + log_slope[..., some].sum(-1))


def _standardized_labels(y_hat: Tensor) -> tuple[Tensor, Tensor]:
    """The labels (b x m) as z-scores, and the best of them, ŷ* (b), in the network's precision."""
    centred = y_hat - y_hat.mean(-1, keepdim=True)
    z = centred / centred.square().mean(-1, keepdim=True).sqrt().clamp_min(MIN_LABEL_STD)
    return z.float(), z.amax(-1).float()


def _is_one_point(x: Tensor, best: Tensor, sde: VPSDE, t0: float) -> Tensor:
    """Whether most pseudo-inputs (b x m x d) lie on the best (b x 1 x d), closer than the noise left at t0: b.

    The model could not tell them apart, and their mode is that point.
    """
    resolution = float(sde.h(torch.tensor(t0)).sqrt()) / 2  # the network's [−1, 1] is twice as wide as the cube
    return (x - best).abs().amax(-1).median(-1).values < resolution


def _to_network(x: Tensor) -> Tensor:
    """The unit cube to [−1, 1]: centred, as the noise it is mixed with."""
    return (2 * x - 1).float()


def _from_network(x: Tensor) -> Tensor:
    return ((x.double() + 1) / 2).clamp(0, 1)


def _schedule(config: DMSConfig) -> Schedule:
    return Schedule(**{field.name: getattr(config, field.name) for field in fields(Schedule)})


def _generator_on(device: torch.device, generator: torch.Generator) -> torch.Generator:
    """A generator for draws on `device`, seeded by one on the CPU."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return torch.Generator(device).manual_seed(seed)


class _Clock:
    """Seconds by stage; a GPU is waited for at the end of a stage, not within."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.started = device, time.perf_counter()
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def lap(self, stage: str) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        now = time.perf_counter()
        self.seconds[stage], self.started = now - self.started, now
