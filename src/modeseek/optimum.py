"""What is known of the optimum: samples of where it is, its modes, intervals, and the regret still to be expected.

The samples are those of sampled_optimum.py: optima of functions drawn from the surrogate's posterior. Everything is in
the objective's own units, by the inverse of the outcomes' transform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from modeseek.checks import whole_number
from modeseek.computing import computing
from modeseek.diffusion.optima import OptimaModel
from modeseek.digits import rounded, with_error
from modeseek.dms import State
from modeseek.domain import Domain
from modeseek.embedding import embedding_of
from modeseek.errors import ConfigError, TrialError
from modeseek.fitting import fit_mapped
from modeseek.history import History
from modeseek.hyperparameters import Several
from modeseek.modes import modes
from modeseek.optimum_text import summary
from modeseek.outcome_transforms import OutcomeMap
from modeseek.parameters import Categorical
from modeseek.priors import Hyperparameters
from modeseek.recommendation import recommended_or_best
from modeseek.sampled_optimum import (
    HYPERPARAMETERS,
    ROUNDING,
    above,
    drawn_or_fitted,
    moments_in_own_units,
    sample_optimum,
    shortest,
)
from modeseek.settings import Settings, Stream, generator
from modeseek.space import Space
from modeseek.surrogate import GP
from modeseek.trials import Direction, Goal, signs
from modeseek.typing import Array, Params

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 256  # functions drawn from the posterior
AT_ONCE = 1000  # points to be predicted, which bounds the memory that it takes
MOST_SHOWN = 8  # parameters in a plot


@dataclass(frozen=True)
class Mode:
    """A region that may hold the optimum.

    Attributes:
        params: its most central sample.
        mass: the probability that the optimum is in this region.
        value, std: what the objective is expected to be at `params`, and the standard deviation of that.
    """

    params: Params
    mass: float
    value: float
    std: float


class Optimum:
    """What is known of the optimum after some observations.

    Attributes:
        samples: parameters of the optimum of each of the functions that the observations allow for.
        values: of each of these functions at its optimum.
        modes: the distinct regions among them, by falling mass.
        recommended: the observed parameters that are expected to be best.
        value, std: what the objective is expected to be there, and the standard deviation of that.
    """

    def __init__(
        self,
        space: Space,
        gp: GP,
        outcomes: OutcomeMap,
        direction: Direction,
        generator: torch.Generator,
        *,
        draws: int = DRAWS,
        constraints: Array | None = None,
        lost: Array | None = None,
        fixed: Mapping[str, Any] | None = None,
        point: Array | None = None,
    ) -> None:
        """Draw from the posterior.

        Args:
            gp: on the unit cube, of outcomes to be maximized; a batch of one.
            outcomes: from the objective's units (its negative, when that is minimized) to the surrogate's.
            generator: on the CPU.
            draws: how many functions.
            constraints: n x q, of black-box constraints, at most 0 where feasible; TrialError where nothing is.
            lost: l x d, evaluated without an outcome; None: there are none.
            fixed: values by name: the optimum among parameters that have them.
            point: d, the recommended one, on the unit cube; None: the observed one with the best posterior mean.
        """
        self.space, self.direction = space, direction
        self._sign = -1.0 if direction == "minimize" else 1.0
        self._outcomes = outcomes
        self._scale_is_known = not outcomes.is_constant
        region = space.region(fixed)
        limits = None if constraints is None else torch.from_numpy(constraints).to(gp.X)[None]
        domain = Domain.of(space, gp.X.device, region)
        at = None if point is None else torch.from_numpy(point).to(gp.X)[None]
        failed = None if lost is None or not len(lost) else torch.from_numpy(lost).to(gp.X)[None]
        found = sample_optimum(gp, draws, generator, constraints=limits, lost=failed, point=at, domain=domain)
        self._several, self._found, self._region = found.several, (found.x, found.value), region
        self._model: OptimaModel | None = None
        self._seed = int(torch.randint(2**31, (), dtype=torch.int64, device="cpu", generator=generator))
        self._points: Array = found.x[0].cpu().numpy()
        self._regrets: Array = found.regrets(outcomes)[0].cpu().numpy()
        self._rippled: Array = found.regrets(outcomes, ripples=True)[0].cpu().numpy()
        self._trials, self._failed = gp.X.shape[-2], 0 if lost is None else len(lost)

        params = space.decode if region is None else region.params
        self.samples: list[Params] = [params(row) for row in self._points]
        self.values: list[float] = (self._sign * outcomes.inverse(found.value))[0].tolist()
        self.recommended: Params = params(found.point[0].cpu().numpy())
        self.value, self.std = self.predict(self.recommended)
        self.modes = self._modes(found.x)

    @classmethod
    def of(
        cls,
        space: Space,
        history: History,
        direction: Direction,
        settings: Settings,
        state: State | None = None,
        *,
        draws: int = DRAWS,
        fixed: Mapping[str, Any] | None = None,
        point: Array | None = None,
    ) -> Optimum:
        """What a history says; TrialError where it has no outcome.

        Args:
            history: its outcomes to be maximized, in the objective's own units but for their sign.
            settings: of the proposer.
            state: where the surrogate's fit starts; None: anew.
            fixed, point: as in `Optimum`; None: the observation that `Optimizer.recommend` recommends.
        """
        gp, outcomes = surrogate_of(space, history, settings, state)
        source = generator(settings.seed, Stream.OPTIMUM, len(history.Y))
        with computing(settings.device, settings.threads):
            draws = whole_number("draws", draws, 1)
            limits = history.constraints
            if point is None:
                point = history.X[recommended_or_best(gp, torch.from_numpy(limits).to(gp.X)[None])]
            known = {"constraints": limits, "lost": history.lost}
            return cls(space, gp, outcomes, direction, source, draws=draws, **known, fixed=fixed, point=point)

    def predict(self, params: Params | Sequence[Params]) -> tuple[Any, Any]:
        """Mean and standard deviation of the objective at these parameters, or at each of a list of them."""
        return predict(self.space, self._several, self._outcomes, self.direction, params)

    def interval(self, probability: float = 0.9) -> dict[str, Any]:
        """By parameter, where the optimum is with this probability.

        (low, high) for numbers, the shortest with this probability; for a categorical parameter a tuple of the most
        probable choices, as many as are needed. Each parameter by itself: all at once have less probability. One
        that exists only under a choice: given that it exists; it is left out where it never does.
        """
        p = _probability(probability)
        intervals: dict[str, Any] = {}
        exists = self.space.conditions.existing(self._points)
        for name in self.space.names:
            column = self.space.coordinates.index(name)
            u = self._points[exists[:, column], column]
            parameter = self.space[name]
            if not len(u):
                continue
            if isinstance(parameter, Categorical):
                intervals[name] = _most_probable([parameter.decode(v) for v in u], p)
            else:
                low, high = shortest(torch.from_numpy(u)[:, None], p)
                intervals[name] = (parameter.decode(float(low)), parameter.decode(float(high)))
        return intervals

    def more(self, count: int, *, value: float | None = None) -> list[Params]:
        """So many more samples, by a diffusion model of those that there are, which is trained when first asked.

        They say no more than `samples` do, which they smooth; any number costs little (docs/optimum.md).

        Args:
            value: of the objective at the optimum: where it is if this is its value; None: whatever that is.
                ConfigError where no sample is so good, or so bad.
        """
        x, y = self._found
        count, given = whole_number("count", count, 1), None
        if value is not None:
            low, high = min(self.values), max(self.values)
            if not low <= float(value) <= high:
                ends = " and ".join(rounded(end, high - low) for end in (low, high))
                raise ConfigError(f"value must be between {ends}, as at all samples, not {value!r}")
            given = self._outcomes.apply(torch.full_like(y[:, :1], self._sign * float(value))).expand(-1, count)
        if self._model is None:
            self._model = OptimaModel.learn(x, y, torch.Generator("cpu").manual_seed(self._seed))
        self._seed += 1
        drawn = self._model.sample(count, torch.Generator("cpu").manual_seed(self._seed), given)[0].cpu().numpy()
        if self._region is None:
            return [self.space.decode(point) for point in drawn]
        points = self._region.settle(drawn)  # without those that cannot be evaluated
        missing = np.arange(count - len(points)) % len(self._points)
        return [self._region.params(point) for point in np.concatenate([points, self._points[missing]])]

    def regret(self, probability: float = 0.95) -> float:
        """How much better than the recommended point the optimum is at the most, with this probability.

        Infinite while all outcomes are equal: nothing is known then of how much others may differ.
        """
        bound = float(self._regrets[above(len(self._regrets), _probability(probability))])
        return bound if self._scale_is_known else math.inf

    def probability_of_regret_below(self, epsilon: float, *, ripples: bool = False) -> float:
        """How probable it is that the optimum is better than the recommended point by at most epsilon.

        Args:
            ripples: if what the surrogate takes for noise may be the function's own: without repeated evaluations
                nobody can tell, and the optimum is better by one standard deviation of it. Known noise is noise.
        """
        regrets = self._rippled if ripples else self._regrets
        return float(np.mean(regrets <= epsilon)) if self._scale_is_known else 0.0

    def plot(self, names: Sequence[str] | None = None) -> Figure:
        """Marginals of the samples on the diagonal, pairs below; the recommended point is marked.

        Args:
            names: parameters to show; None: all, or the eight that are known best.
        """
        from modeseek.optimum_plot import plot  # matplotlib is an extra

        if names is None:
            spread = dict(zip(self.space.coordinates, self._points.std(0), strict=True))
            known_best = sorted(self.space.names, key=lambda name: spread[name])[:MOST_SHOWN]
            names = [name for name in self.space.names if name in known_best]
        for name in names:
            if name not in self.space.names:
                raise ConfigError(f"there is no parameter {name!r}; the space has {self.space.names}")
        return plot(self, list(names))

    def column(self, name: str, params: Sequence[Params]) -> list[Any]:
        """The values of one parameter; None where it does not exist."""
        i = self.space.names.index(name)
        return [float(p[i]) if self.space.is_box else p.get(name) for p in params]

    def __str__(self) -> str:
        return summary(self)

    def __repr__(self) -> str:
        trials = "1 trial" if self._trials == 1 else f"{self._trials} trials"
        return (
            f"<Optimum: {self.direction}, {trials}, {len(self.modes)} modes, "
            f"value {with_error(self.value, self.std)}, regret at most {self.regret(0.95):.2g} (95 %)>"
        )

    def _modes(self, x: Tensor) -> list[Mode]:
        found = modes(x)
        centre, mass, label = (part[0].cpu().numpy() for part in found)
        result = []
        for i in range(int((mass > 0).sum())):
            members = np.flatnonzero(label == i)
            # A sample can be evaluated; a centre may lie between the values of a discrete parameter.
            nearest = members[np.linalg.norm(self._points[members] - centre[i], axis=1).argmin()]
            params = self.samples[nearest]
            result.append(Mode(params, float(mass[i]), *self.predict(params)))
        return result


def surrogate_of(
    space: Space, history: History, settings: Settings, state: State | None = None
) -> tuple[GP, OutcomeMap]:
    """The surrogate of a history's outcomes, and the map between its units and theirs; TrialError without outcomes.

    A batch of as many as there are objectives. Outcomes keep their shape. Proposals are made with bad ones drawn
    together, which helps to find the optimum and takes away what they say of where it is: once half of the outcomes are
    close to the best, all others would be equal.
    """
    if not len(history.Y):
        raise TrialError("there is no completed trial yet, so that nothing is known of the optimum")
    with computing(settings.device, settings.threads):
        Y = torch.from_numpy(np.atleast_2d(history.Y.T)).to(settings.device)  # M x n
        X = torch.from_numpy(history.X).to(settings.device).expand(len(Y), *history.X.shape)
        sem = (history.exact() if settings.noise == "none" else history).sem
        known = None if sem is None else torch.from_numpy(np.atleast_2d(sem.T)).to(settings.device)
        embedding = embedding_of(space, settings.device)
        warm = None
        if state is not None:
            warm = Hyperparameters(state.lengthscale.flatten(0, -2), state.noise.flatten())
        return fit_mapped(X, Y, replace(settings.config, warp="never"), warm, embedding, known)


def several_of(
    space: Space, history: History, settings: Settings, state: State | None = None
) -> tuple[Several, OutcomeMap]:
    """As `surrogate_of`, with the hyperparameters that `Optimum.of` draws."""
    gp, outcomes = surrogate_of(space, history, settings, state)
    with computing(settings.device, settings.threads):
        source = generator(settings.seed, Stream.OPTIMUM, len(history.Y))
        return drawn_or_fitted(gp, HYPERPARAMETERS, source), outcomes


def predict(
    space: Space, several: Several, outcomes: OutcomeMap, direction: Goal, params: Params | Sequence[Params]
) -> tuple[Any, Any]:
    """Mean and standard deviation of the objective at these parameters, or at each of a list; as `Optimizer.predict`.

    Of the objective itself, not of a noisy observation of it. A standard deviation is infinite while all outcomes are
    equal. Arguments as in `Optimum`, with a batch of as many as there are objectives.
    """
    sign, is_list = signs(direction), space.is_list(params)
    points = np.array([space.encode(p) for p in (params if is_list else [params])]).reshape(-1, len(space.coordinates))
    X = torch.from_numpy(points).to(several.scale).expand(len(sign), *points.shape)
    moments = [moments_in_own_units(several, outcomes, x) for x in X.split(AT_ONCE, 1)]
    mean, std = (torch.cat(parts, 1) for parts in zip(*moments, strict=True))
    std = torch.where(outcomes.first.std > 0, std, torch.inf)
    means, stds = sign * mean.T.cpu().numpy(), std.T.cpu().numpy()  # n x M
    if isinstance(direction, tuple):
        return (means, stds) if is_list else (tuple(means[0].tolist()), tuple(stds[0].tolist()))
    return (means[:, 0], stds[:, 0]) if is_list else (float(means[0, 0]), float(stds[0, 0]))


def _probability(p: Any) -> float:
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 < p < 1:
        raise ConfigError(f"a probability must be between 0 and 1, not {p!r}")
    return float(p)


def _most_probable(choices: list[Any], p: float) -> tuple[Any, ...]:
    """The fewest distinct choices that make up a share p of all, most frequent first."""
    kinds: list[tuple[Any, int]] = []
    for choice in choices:  # by type as well: 1, 1.0 and True are three choices
        for i, (known, count) in enumerate(kinds):
            if type(known) is type(choice) and known == choice:
                kinds[i] = (known, count + 1)
                break
        else:
            kinds.append((choice, 1))
    kinds.sort(key=lambda kind: -kind[1])
    shares = np.cumsum([count for _, count in kinds]) / len(choices)
    needed = int(np.searchsorted(shares, p - ROUNDING)) + 1
    return tuple(choice for choice, _ in kinds[:needed])
