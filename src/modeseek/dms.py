"""Algorithm 1 of the paper, lines 4 to 8: from what was observed to the next point.

Notation, as in the paper (b leading batch dimensions: independent problems side by side)
    X, Y    b x n x d, b x n    inputs on the unit cube and outcomes, to be maximized; of M objectives, b x n x M
    m, K    size of the pseudo-dataset, steps of short-run L-BFGS          ρ   weight of σ in the labels
    S       number of x* candidates                                        w   guidance
    x, ŷ    b x m x d, b x m    the pseudo-dataset                         θ   b x P, the score networks
    x*      b x S x d           the candidates                      x_next   b x d, their dominant mode, polished
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import torch
from torch import Tensor

from modeseek.branches import Branches
from modeseek.config import DMSConfig, NetworkInputs
from modeseek.constraints import ConstrainedGP, constrain
from modeseek.diffusion.network import initialize
from modeseek.diffusion.sampling import backward, guided_score
from modeseek.diffusion.sde import VPSDE
from modeseek.diffusion.training import Schedule, train
from modeseek.domain import CUBE, Domain
from modeseek.draws import Draws, Randomness
from modeseek.exploration import has_stalled, weights
from modeseek.fitting import fit_several, fit_surrogate, informed
from modeseek.improvement import ImprovementGP
from modeseek.informed import Belief, Conviction
from modeseek.modes import dominant_mode
from modeseek.objectives import improve_one
from modeseek.priors import Hyperparameters
from modeseek.pseudo import around, polish, pseudo_dataset, spread
from modeseek.stacking import Stack
from modeseek.surrogate import GP, Surrogate

STAGES = ("fit", "pseudo", "train", "sample", "mode")
RIVALS = 4  # points near what is to be improved on that are climbed from besides the mode
APART = 4.0  # times the resolution of the model: how far pseudo-inputs are apart if they shall be
MIN_LABEL_STD = 1e-6  # labels that differ by less, in standard deviations of the outcomes, are equal


class State(NamedTuple):
    """What one iteration hands to the next: where the GP fit and the training start."""

    lengthscale: Tensor  # b x d, float64; of several objectives b x M x d
    noise: Tensor  # b, float64; of several objectives b x M
    network: Tensor  # b x P, float32

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Where the GP fit starts."""
        return Hyperparameters(self.lengthscale, self.noise)

    @classmethod
    def of_rows(cls, states: Sequence[State]) -> State:
        """States of several problems side by side."""
        return states[0] if len(states) == 1 else cls(*map(torch.cat, zip(*states, strict=True)))


Fitted: TypeAlias = GP | ConstrainedGP | ImprovementGP


@dataclass(frozen=True)
class Found:
    """The next point of each batch element, and what it was found from, on the unit cube."""

    x_next: Tensor  # b x d
    mode: Tensor  # b x d, the dominant mode of the candidates; x_next is where `polish` led from it
    candidates: Tensor  # b x S x d, the samples of x*
    pseudo_x: Tensor  # b x m x d
    pseudo_y: Tensor  # b x m, in standard deviations of the outcomes
    rho: Tensor  # b x 1, the weight of σ in this iteration's labels
    network: Tensor  # b x P, float32
    fell_back: Tensor  # b, True where the diffusion model was of no use: x_next is the best pseudo-labelled input
    diverged: Tensor  # b, True where that is because it gave no finite samples
    seconds: dict[str, float]  # by stage


@dataclass(frozen=True)
class Suggestion(Found):
    """What was found, with the GP that it was found on and the state to go on from."""

    gp: Fitted
    state: State

    def row(self, i: int) -> Suggestion:
        """The suggestion for one problem of the batch, as a batch of one."""
        return self if len(self.x_next) == 1 else row_of(self, i)


def suggest(
    X: Tensor,
    Y: Tensor,
    config: DMSConfig,
    source: Randomness,
    state: State | None = None,
    pending: Tensor | None = None,
    constraints: Tensor | None = None,
    domain: Domain = CUBE,
    left: int | None = None,
    sem: Tensor | None = None,
    reference: Tensor | None = None,
    belief: Belief | None = None,
    stack: Stack | None = None,
    lost: Tensor | None = None,
) -> Suggestion:
    """Lines 4 to 8 of Algorithm 1 for every batch element.

    Args:
        X: b x n x d, float64, observed inputs on the unit cube. Everything runs on its device.
        Y: b x n, float64, their outcomes, to be maximized, of any scale; of several objectives b x n x M.
        source: of random numbers, on the CPU, so that the Sobol points of a seed are the same on every device: a
            generator per batch element, or one that seeds them.
        state: what the iteration before returned.
        pending: b x p x d, inputs whose outcomes are still to come, or never will.
        lost: b x l x d, those of them that never will, where others are likely to fail as well; None: there are none.
        constraints: b x n x q, values of q constraints at X; an input is feasible where all are at most 0.
        domain: where to search.
        left: evaluations until the end of the run, this one included; None: not known.
        sem: of the shape of Y, its standard errors; NaN where the noise is to be fitted.
        reference: b x M, of several objectives, in their own units: what is worse in any of them does not count;
            inferred from the front where it is NaN, or None.
        belief: where the optimum is, before anything was observed.
        stack: earlier studies on related tasks, of one objective.
    """
    clock = _Clock(X.device)
    # Line 4: μ, σ ← FitGP(D)
    warm = None if state is None else state.hyperparameters
    conviction = None if belief is None else belief.after(X, Y, constraints)
    gp: Fitted
    if Y.ndim == X.ndim:
        gp = fit_several(X, Y, config, warm, pending, constraints, domain, reference, sem, lost)
    else:
        gp = fit_surrogate(X, Y, config, warm, pending, domain.embedding, sem, stack)
        gp = gp if constraints is None else improve_one(gp, X, constraints, lost)
    gp = gp if conviction is None else informed(gp, conviction)
    if lost is not None and isinstance(gp, GP):  # the others know of it
        gp = constrain(gp, X, None, lost)
    branches = _branches(gp, X, Y, config, pending, domain, sem, conviction)
    clock.lap("fit")
    network = None if state is None else state.network
    found = seek(
        gp,
        config,
        source,
        network,
        domain=domain,
        left=left,
        expected=0 if pending is None else pending.shape[-2],
        clock=clock,
        branches=branches,
        conviction=conviction,
    )
    return Suggestion(**vars(found), gp=gp, state=State(*gp.hyperparameters, found.network))


def _branches(
    gp: Fitted,
    X: Tensor,
    Y: Tensor,
    config: DMSConfig,
    pending: Tensor | None,
    domain: Domain,
    sem: Tensor | None,
    conviction: Conviction | None,
) -> Branches | None:
    """What decides between choices (branches.py); None where labels do. Arguments as in `suggest`."""
    forks = tuple(fork for fork in domain.forks if fork.has_children or config.choose_by != "label")
    steps, stalled = domain.steps if config.choose_by == "steps" and not isinstance(gp, ImprovementGP) else (), None
    if steps:
        expected = 0 if pending is None else pending.shape[-2]
        stalled = has_stalled(gp.y[..., : gp.y.shape[-1] - expected], X.shape[-1])
        steps = steps if bool(stalled.any()) else ()
    if not (forks or steps) or not config.round_inputs or Y.ndim == X.ndim:  # of several objectives, labels compare
        return None
    by_turns = replace(config, warp="never" if config.warp == "never" or X.shape[-2] % 2 == 0 else "power")
    second = fit_surrogate(X, Y, by_turns, None, pending, domain.embedding, sem)
    return Branches(second, forks, conviction, steps, stalled)


def seek(
    gp: Surrogate,
    config: DMSConfig,
    source: Randomness,
    network: Tensor | None = None,
    *,
    domain: Domain = CUBE,
    left: int | None = None,
    expected: int = 0,
    clock: _Clock | None = None,
    branches: Branches | None = None,
    conviction: Conviction | None = None,
) -> Found:
    """Lines 5 to 8 of Algorithm 1, on any surrogate that gives labels and their gradients.

    Args:
        gp: on the unit cube.
        source: as in `suggest`.
        network: b x P, where the training starts; None: anew.
        domain, left: as in `suggest`.
        expected: so many of the last outcomes are still to come: the surrogate has what it expects there.
        branches: of a conditional space.
        conviction: that the labels know of, by which some climbs start where the optimum is believed to be.
    """
    batch, d, device = gp.X.shape[:-2], gp.X.shape[-1], gp.X.device
    m, K, S = config.sizes(d)
    if isinstance(gp, ImprovementGP):  # an expected improvement weighs what is unknown by itself
        rho = torch.ones_like(gp.X[..., 0, :1])
    else:
        rho = weights(gp.y[..., : gp.y.shape[-1] - expected], d, config, pending=expected, left=left)
    sde = VPSDE(config.beta_min, config.beta_max)
    clock = _Clock(device) if clock is None else clock
    draws = Draws.of(source, batch)
    domain = domain if config.round_inputs else domain.without_rounding()

    # Lines 5 and 6: {x_i} ← ShortRunL-BFGS(GP(μ, σ)), {ŷ_i} ← f̂({x_i})
    if config.train_on == "observed":  # the paper's ablation without pseudo-labels (App. B.7.1)
        x, y_hat = domain.repair(gp.X), gp.y
    else:
        apart = APART * _resolution(sde, config) if config.keep_apart else None
        lean = None if conviction is None else conviction.lean
        x, y_hat = pseudo_dataset(
            gp, m=m, K=K, rho=rho, refine=config.refine, source=draws, domain=domain, apart=apart, lean=lean
        )
    clock.lap("pseudo")

    noise = draws.on(device)
    fresh = initialize(tuple(batch), d, config.hidden, noise)
    start = fresh if network is None else network
    best = x.gather(-2, y_hat.argmax(-1)[..., None, None].expand(*batch, 1, d))
    fell_back = _is_one_point(x, y_hat, sde, config) | _has_one_hill(x, y_hat, best, config.one_hill)
    drawn = _Drawn(best.expand(*batch, S, d), start if config.after_fall_back == "continue" else fresh, fell_back)
    if config.train_on != "nothing" and not bool(fell_back.all()):  # else there is nothing to learn
        drawn = _learn_and_draw(x, y_hat, start, drawn, sde, config, noise, domain, clock)

    # Line 16: x_next ← MeanShift({x*_s})
    x_next = mode = _mode(drawn.x_star, config.quantile, domain)
    if config.polish:
        starts = mode.unsqueeze(-2)
        if isinstance(gp, ImprovementGP):  # whose hills are narrow: the one of the mode need not be the highest
            starts = torch.cat([starts, best, _rivals(gp, x, rho, draws, domain)], -2)
        x_next = polish(gp, starts, rho=rho, domain=domain)
    if branches is not None:
        x_next = branches.choose(x_next, x, gp, domain)
    clock.lap("mode")
    fell_back, diverged = drawn.fell_back, drawn.fell_back & ~fell_back
    return Found(x_next, mode, drawn.x_star, x, y_hat, rho, drawn.network, fell_back, diverged, clock.seconds)


def _rivals(gp: ImprovementGP, x: Tensor, rho: Tensor, draws: Draws, domain: Domain) -> Tensor:
    """The best-labelled points near what is to be improved on, b x RIVALS x d; x (b x m x d) are inside the domain."""
    near = domain.snap(domain.repair(around(gp.X, gp.leaders, draws), x))
    top = gp.label(near, rho).nan_to_num(nan=-torch.inf).topk(RIVALS, -1).indices
    return near.gather(-2, top[..., None].expand(*top.shape, near.shape[-1]))


class _Drawn(NamedTuple):
    """What lines 7 and 8 leave: candidates for x*, the network, and where they are not the network's."""

    x_star: Tensor  # b x S x d
    network: Tensor  # b x P
    fell_back: Tensor  # b


def _learn_and_draw(
    x: Tensor,
    y_hat: Tensor,
    start: Tensor,
    otherwise: _Drawn,
    sde: VPSDE,
    config: DMSConfig,
    noise: Draws,
    domain: Domain,
    clock: _Clock,
) -> _Drawn:
    """Lines 7 and 8 of Algorithm 1 up to the mean shift.

    Args:
        x, y_hat: b x m x d, b x m, the pseudo-dataset.
        start: b x P, where the training starts.
        otherwise: what there is without a model, and takes its place where it was not asked for or diverges.
    """
    batch, (S, d) = x.shape[:-2], otherwise.x_star.shape[-2:]
    # Line 7: s_θ ← DenoisingScoreMatching({(x_i, ŷ_i)})
    y, y_star = _standardized_labels(y_hat)
    theta, loss = train(
        start,
        _to_network(x, config.network_inputs),
        y,
        sde=sde,
        schedule=_schedule(config),
        hidden=config.hidden,
        t0=config.t0,
        p_drop=config.p_drop,
        loss_weight=config.loss_weight,
        source=noise,
        prediction=config.predict,
    )
    clock.lap("train")

    # Line 8: x_next ← DMS(s_θ), lines 12 to 16: ŷ* ← max ŷ_i, x*_s ← BackwardSDE(x_0, s_θ, ŷ*), x_0 ~ N(0, I)
    x_0 = noise.randn(S, d).view(*batch, S, d)
    score = guided_score(theta, y_star, w=config.w, sde=sde, hidden=config.hidden, prediction=config.predict)
    samples = backward(score, x_0, sde=sde, t0=config.t0, steps=config.steps, solver=config.solver, source=noise)
    samples, some = _finite(samples)
    fell_back = otherwise.fell_back | ~(loss.isfinite() & some)
    x_star = domain.repair(_from_network(samples, config.network_inputs), x)
    clock.lap("sample")
    return _Drawn(
        torch.where(fell_back[..., None, None], otherwise.x_star, x_star),
        torch.where(fell_back[..., None], otherwise.network, theta),
        fell_back,
    )


def _finite(samples: Tensor) -> tuple[Tensor, Tensor]:
    """Samples (b x S x d) with finite ones, by turns, in the place of those that are not; and where there are any (b).

    With guidance a few samples may run away, ever faster, where the score was not learned, far outside of the data.
    """
    finite = samples.isfinite().all(-1)
    count = finite.sum(-1, keepdim=True)
    turns = torch.arange(samples.shape[-2], device=samples.device) % count.clamp_min(1)
    chosen = finite.int().argsort(dim=-1, descending=True, stable=True).gather(-1, turns)
    return samples.gather(-2, chosen[..., None].expand_as(samples)), count.squeeze(-1) > 0


def _standardized_labels(y_hat: Tensor) -> tuple[Tensor, Tensor]:
    """The labels (b x m) as z-scores, and the best of them, ŷ* (b), in the network's precision."""
    centred = y_hat - y_hat.mean(-1, keepdim=True)
    z = centred / centred.square().mean(-1, keepdim=True).sqrt().clamp_min(MIN_LABEL_STD)
    return z.float(), z.amax(-1).float()


def _resolution(sde: VPSDE, config: DMSConfig) -> float:
    """The noise left at t0, on the unit cube: the model cannot tell inputs apart that are closer."""
    left = float(sde.h(torch.tensor(config.t0, dtype=torch.float64, device="cpu")).sqrt())
    return left / 2 if config.network_inputs == "centred" else left  # [−1, 1] is twice as wide as the cube


def _is_one_point(x: Tensor, y: Tensor, sde: VPSDE, config: DMSConfig) -> Tensor:
    """Whether most pseudo-inputs (b x m x d) lie on the one with the best label (b x m): b.

    Their mode is that point, as far as the model can tell. Where the settings say so, it is trained on them all the
    same.
    """
    return (spread(x, y) < _resolution(sde, config)) & config.skip_collapsed


def _has_one_hill(x: Tensor, y_hat: Tensor, best: Tensor, width: float) -> Tensor:
    """Whether most of the best quarter of the pseudo-inputs (b x m x d) lie within `width` of the best of all: b.

    That is where the modes of a model would lead, too.
    """
    top = y_hat.topk(-(-x.shape[-2] // 4), -1).indices
    return (x - best).abs().amax(-1).gather(-1, top).median(-1).values < width


def _mode(x_star: Tensor, quantile: float, domain: Domain) -> Tensor:
    """The dominant mode (b x d), a mean of samples (b x S x d), which need not be in a region where these are."""
    return domain.repair(dominant_mode(x_star, quantile).unsqueeze(-2), x_star).squeeze(-2)


def _to_network(x: Tensor, inputs: NetworkInputs) -> Tensor:
    """The unit cube as the network has it: [−1, 1], centred, as the noise it is mixed with, or as it is."""
    return (2 * x - 1).float() if inputs == "centred" else x.float()


def _from_network(x: Tensor, inputs: NetworkInputs) -> Tensor:
    return ((x.double() + 1) / 2 if inputs == "centred" else x.double()).clamp(0, 1)


def _schedule(config: DMSConfig) -> Schedule:
    return Schedule(**{field.name: getattr(config, field.name) for field in fields(Schedule)})


Tree = TypeVar("Tree")


def row_of(tree: Tree, i: int, dim: int = 0) -> Tree:
    """Element i of every tensor in a (named) tuple or dataclass, as a batch of one."""
    value: Any = tree
    if isinstance(value, Tensor):
        return cast(Tree, value.narrow(dim, i, 1))
    if isinstance(value, ImprovementGP):  # objectives and constraints stand before the batch
        first = ("boxes", "leaders", "top", "conviction")  # these have the batch first
        rows = {name: row_of(part, i, int(name not in first)) for name, part in vars(value).items()}
        return cast(Tree, replace(value, **rows))
    if isinstance(value, ConstrainedGP):  # constraints stand before the batch
        objective, margins, thresholds = (
            row_of(value.objective, i),
            row_of(value.margins, i, 1),
            row_of(value.thresholds, i, 1),
        )
        return cast(Tree, ConstrainedGP(objective, margins, thresholds))
    if isinstance(value, tuple):
        return cast(Tree, type(value)(*(row_of(part, i, dim) for part in value)))
    if is_dataclass(value) and not isinstance(value, type):
        return cast(Tree, replace(value, **{name: row_of(part, i, dim) for name, part in vars(value).items()}))
    return tree


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
