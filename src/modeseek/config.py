"""The settings of DMS and their presets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

from modeseek.checks import whole_number
from modeseek.errors import ConfigError
from modeseek.typing import LossWeight, Prediction, Refinement, Solver

Data = Literal["pseudo", "observed", "nothing"]
Warping = Literal["evidence", "always", "power", "never"]
Prior = Literal["log-normal", "gamma", "exact"]
KernelName = Literal["se", "matern"]
NetworkInputs = Literal["centred", "unit"]
Weights = Literal["restart", "continue"]
Choosing = Literal["improvement", "steps", "label"]
Local = Literal["auto"]


@dataclass(frozen=True, kw_only=True)
class DMSConfig:
    """The settings of DMS. `DMSConfig()` is our default, `DMSConfig.fast()` does without the diffusion model,
    `DMSConfig.paper(d)` is the paper's in the usual reading, `DMSConfig.printed(d)` the paper's to the letter.

    Args:
        m: size of the pseudo-dataset; None: 500 to 1500 by dimension, as in the paper's table.
        K: steps of short-run L-BFGS.
        S: number of x* candidates; None: 200 to 400 by dimension, as in the paper's table.
        train_on: "pseudo"; or, for ablations, "observed" to train on the observations alone, or "nothing" to do without
            a model, so that the best of the pseudo-dataset takes the place of the mode.
        round_inputs: round pseudo-inputs to values that discrete parameters have before they are labelled; False: only
            what is evaluated is rounded.
        keep_apart: let how far L-BFGS goes follow from the data: K steps or, where these would bring most pseudo-inputs
            so close together that the model could hardly tell them apart, part of the way.
        skip_collapsed: do without a model where all pseudo-inputs are nearly one point, and evaluate that point; False:
            train on them all the same.
        after_fall_back: the network of the iteration after one that did without its model: drawn anew ("restart"), or
            as it was ("continue").
        rho: weight of the posterior standard deviation in the labels μ + ρσ; 0 is the naive estimator.
        rho_stalled: its weight once the last iterations have brought nothing, if that is more than `rho` (see
            exploration.py); None: use `rho` throughout.
        rho_far: its weight in every 2d-th iteration of a run that has stalled, which looks far away from all that is
            known (in any run where `rho_stalled` is None); None: no such look.
        refine: L-BFGS for each pseudo-input by itself ("point", Eq. 6) or for all with one step size ("joint").
        polish: climb μ + ρσ from the dominant mode to the nearest optimum before it is evaluated.
        w: strength of classifier-free guidance; 0: samples follow the condition as it was learned.
        p_drop: probability of dropping the condition in training, which guidance needs.
        epochs, batch_size, lr, lr_min, hold_epochs, weight_decay: AdamW; the learning rate is held, then falls on a
            cosine to lr_min.
        hidden: width H of the score network.
        predict: what the network gives: the "noise" in x_t, or the "score" itself.
        network_inputs: the range of x in the network: [−1, 1] ("centred") or [0, 1] ("unit").
        loss_weight: of the score's squared error: "h" for h(t), the error of the noise; "one" as printed (Eq. 4).
        beta_min, beta_max, t0: the VP SDE and where it stops early.
        solver, steps: Heun steps of the probability-flow "ode" or of the backward "sde".
        warp: give the outcomes room at the top: with a power transform where the Gaussian process then explains them
            better ("evidence"), or always ("always"); with that transform alone, and no floor ("power"); or only
            standardize them ("never").
        kernel: of the Gaussian process: the squared exponential ("se"), or Matérn's with ν = 5/2 ("matern"), which
            takes functions for less smooth.
        noise_prior: of the noise variance: BoTorch's ("log-normal"), or one that also believes in outcomes without
            noise, down to a variance of 1e-6 ("gamma") or of 1e-8 ("exact") of that of the outcomes.
        choose_by: which choices of Categorical parameters come next: those with the greatest expected "improvement"
            (see branches.py); "steps": in a run that has stalled also which whole numbers, of parameters with at most
            32 values; or those that the "label" μ + ρσ leads to, as with numbers.
        one_hill: do without a model where most of the best quarter of the pseudo-inputs lie this close to the best one
            (largest difference of a coordinate, on the unit cube), and go on from that one; 0: never.
        local_after: observations from which on only a box around the best of them is searched, with the nearest
            observations alone (see locality.py), where all parameters are continuous and there are one objective, no
            constraints and nothing known beforehand; "auto": 1000, or fewer where there are more than four parameters,
            but twice the initial design at least (see `first_local`); None: all of the space is searched, always.
        quantile: of the pairwise distances, for the bandwidth of the mean shift.
        name: what results call this configuration.
    """

    name: str = "dms"
    m: int | None = 500
    K: int = 5
    S: int | None = 200
    train_on: Data = "pseudo"
    rho: float = 0.3
    rho_stalled: float | None = 1.0
    rho_far: float | None = 3.0
    refine: Refinement = "joint"
    polish: bool = True
    w: float = 0.0
    p_drop: float = 0.0
    epochs: int = 20
    batch_size: int = 256
    lr: float = 1e-3
    lr_min: float = 1e-4
    hold_epochs: int = 5
    weight_decay: float = 1e-4
    hidden: int = 256
    loss_weight: LossWeight = "h"
    beta_min: float = 0.1
    beta_max: float = 20.0
    t0: float = 1e-3
    solver: Solver = "ode"
    steps: int = 15
    warp: Warping = "evidence"
    kernel: KernelName = "matern"
    noise_prior: Prior = "exact"
    choose_by: Choosing = "improvement"
    one_hill: float = 0.2
    local_after: int | Local | None = "auto"
    quantile: float = 0.3
    predict: Prediction = "noise"
    network_inputs: NetworkInputs = "centred"
    round_inputs: bool = True
    skip_collapsed: bool = True
    keep_apart: bool = False
    after_fall_back: Weights = "restart"

    def __post_init__(self) -> None:
        """Refuse what makes no sense, by name."""
        _require(isinstance(self.name, str), "name", "a string", self.name)
        for name in ("polish", "round_inputs", "skip_collapsed", "keep_apart"):
            _require(isinstance(getattr(self, name), bool), name, "True or False", getattr(self, name))
        for name, choices in (
            ("train_on", Data),
            ("refine", Refinement),
            ("loss_weight", LossWeight),
            ("solver", Solver),
            ("warp", Warping),
            ("kernel", KernelName),
            ("noise_prior", Prior),
            ("choose_by", Choosing),
            ("predict", Prediction),
            ("network_inputs", NetworkInputs),
            ("after_fall_back", Weights),
        ):
            _require(getattr(self, name) in get_args(choices), name, f"in {get_args(choices)}", getattr(self, name))
        for name, least, most in _WHOLE:
            value = getattr(self, name)
            if value is not None or name not in ("m", "S"):
                object.__setattr__(self, name, whole_number(f"DMSConfig: {name}", value, least, most))
        m, S = self.m or 1500, self.S or 400
        if (self.epochs * m + 2 * self.steps * S) * self.hidden**2 > _MOST_TRAINING or self.K * m > _MOST_CLIMBING:
            raise ConfigError(
                f"DMSConfig: one suggestion would take hours with epochs={self.epochs}, K={self.K}, m={self.m}, "
                f"hidden={self.hidden}, steps={self.steps}, S={self.S}; lower some of them"
            )
        if isinstance(self.local_after, str):
            _require(self.local_after == "auto", "local_after", 'a number, "auto" or None', self.local_after)
        elif self.local_after is not None:
            value = whole_number("DMSConfig: local_after", self.local_after, 1)
            object.__setattr__(self, "local_after", value)
        for name in ("rho_stalled", "rho_far"):
            rho = getattr(self, name)
            _require(rho is None or (_is_real(rho) and 0 <= rho < math.inf), name, "None or in [0, inf)", rho)
        for name, low, high, closed in _RANGES:
            value = getattr(self, name)
            inside = _is_real(value) and (low < value < high or (closed and value == low))
            _require(inside, name, f"in {'[' if closed else '('}{low}, {high})", value)
        _require(self.w == 0 or self.p_drop > 0, "p_drop", f"over 0 for guidance with w = {self.w}", self.p_drop)
        _require(self.lr_min <= self.lr, "lr_min", f"at most lr = {self.lr}", self.lr_min)
        _require(self.beta_min < self.beta_max, "beta_max", f"over beta_min = {self.beta_min}", self.beta_max)

    @classmethod
    def fast(cls) -> Self:
        """Our settings without the diffusion model: the best pseudo-labelled input takes the place of its mode."""
        return cls(name="dms-fast", train_on="nothing")

    @classmethod
    def paper(cls, d: int) -> Self:
        """The paper's settings for d parameters (its Table 2 and App. B.4), its model as is usual today."""
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
            rho=1.0,
            rho_stalled=None,
            rho_far=None,
            warp="never",
            kernel="se",
            noise_prior="log-normal",
            choose_by="label",
            one_hill=0.0,
            local_after=None,
            epochs=100,
            hold_epochs=20,
            steps=50,
        )

    @classmethod
    def printed(cls, d: int) -> Self:
        """The paper's settings and its text to the letter, where `paper` does as is usual (docs/decisions.md)."""
        return replace(
            cls.paper(d),
            name="dms-printed",
            predict="score",
            loss_weight="one",
            solver="sde",
            network_inputs="unit",
            round_inputs=False,
            skip_collapsed=False,
            after_fall_back="continue",
        )

    def first_local(self, d: int, n_initial: int) -> int | None:
        """The observations of d parameters after which a box is searched; None: never."""
        if self.local_after != "auto":
            return self.local_after
        return max(min(_LOCAL // d, _MOST_LOCAL), _LEAST_LOCAL, 2 * n_initial)

    def sizes(self, d: int) -> tuple[int, int, int]:
        """m, K and S for d parameters."""
        m, _, S = _sizes_by_dimension(d)
        return m if self.m is None else self.m, self.K, S if self.S is None else self.S


# No setting may take gigabytes, nor may all of them take hours for one suggestion: settings come from files, too.
_WHOLE = (  # name, smallest and largest value
    ("m", 1, 20_000),
    ("K", 0, 1_000),
    ("S", 1, 10_000),
    ("epochs", 1, 100_000),
    ("batch_size", 1, 20_000),
    ("hold_epochs", 0, 100_000),
    ("hidden", 1, 4_096),
    ("steps", 1, 10_000),
)
_MOST_TRAINING = 10**13  # multiplications in one layer of the network; the paper's settings have 10^10
_MOST_CLIMBING = 10**6  # steps of L-BFGS over all pseudo-inputs; the paper's settings have 4 x 10^4
# A surrogate of all of the space is good for the fewer observations the more parameters there are (docs/decisions.md).
_LOCAL, _LEAST_LOCAL, _MOST_LOCAL = 4_000, 200, 1000  # observations times parameters; observations
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
    ("one_hill", 0, 1, True),
)


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


# By the names that the command line has for them, for d parameters.
PRESETS: dict[str, Callable[[int], DMSConfig]] = {
    "default": lambda d: DMSConfig(),
    "fast": lambda d: DMSConfig.fast(),
    "paper": DMSConfig.paper,
    "printed": DMSConfig.printed,
}

# Settings that are younger than files which may be read, and what was done before there was a choice.
_BEFORE: dict[str, Any] = {
    "predict": "noise",
    "network_inputs": "centred",
    "round_inputs": True,
    "skip_collapsed": True,
    "keep_apart": False,
    "after_fall_back": "restart",
    "rho_stalled": None,
    "kernel": "se",
    "noise_prior": "log-normal",
    "one_hill": 0.0,
    "choose_by": "label",
    "local_after": None,
}


def with_younger_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a checkpoint or record, with those that it is too old to have as it ran with them."""
    return {**_BEFORE, **stored}
