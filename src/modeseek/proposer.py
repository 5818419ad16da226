"""The one policy behind `Optimizer`, the samplers for other tools and every campaign.

    initial design  ->  suggestion of DMS  ->  never a known point

What is proposed follows from the space, the settings, the history and the trial's number, and from what the last
suggestion left to start from (`Proposer.state`), which only saves time. All randomness comes from the seed, the
purpose (`Stream`) and the trial's number, so that a resumed run needs no random state.

Points are rows of the unit cube. Several problems of one size are proposed for side by side by `propose_all`; one
problem is a batch of one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from modeseek import dms
from modeseek.computing import computing
from modeseek.design import sobol
from modeseek.dms import Found, State, Suggestion
from modeseek.domain import Domain, is_continuous
from modeseek.errors import CollapseWarning, FitWarning, SpaceExhausted
from modeseek.history import APART, SAME_POINT, History, fresh
from modeseek.knowledge import Knowledge
from modeseek.locality import Boxes, Neighbourhood, begins_after
from modeseek.notices import WarnOnce
from modeseek.region import Region
from modeseek.settings import Settings, Stream, generator, seeds
from modeseek.space import LISTABLE, Space
from modeseek.surrogate import Rho, Surrogate
from modeseek.typing import Array

DRAWS = 4096  # random points tried where a space is too large to list
FEWER_DRAWS = 256  # where each has to be moved into a region
KNOWN = (
    3  # every so many points of the design are where the optimum is expected: half of them cost more if that is wrong
)
SPARE = 64  # points of the design looked at beyond the one whose turn it is

_log = logging.getLogger(__name__)


class Proposal(NamedTuple):
    """The next point, and where it is from."""

    point: Array  # d, snapped
    origin: Literal["initial", "model"]


class Proposer:
    """Proposes points of one space, one after the other.

    Attributes:
        state: what the last suggestion left to start from; None: start anew.
        suggestion: the last one, for plots and diagnosis.
        region: where in the cube to search; None: everywhere.
        knowledge: what was known before the first evaluation; None: nothing.
    """

    def __init__(
        self, space: Space, settings: Settings, state: State | None = None, knowledge: Knowledge | None = None
    ) -> None:
        self.space, self.settings, self.state, self.knowledge = space, settings, state, knowledge
        self.suggestion: Suggestion | None = None
        self.region: Region | None = space.region()
        self._held: tuple[str, Region | None] = ("", None)  # the last fixed values, and what they leave
        self._warn = WarnOnce()

    @contextmanager
    def holding(self, fixed: Mapping[str, Any] | None) -> Iterator[Region | None]:
        """While this lasts, proposals have these values; None: all parameters are searched."""
        before, key = self.region, repr(fixed)
        if fixed:
            if self._held[0] != key:
                self._held = key, self.space.region(fixed)
            self.region = self._held[1]
        try:
            yield self.region
        finally:
            self.region = before

    def propose(self, history: History, number: int, left: int | None = None) -> Proposal:
        """The next point, which has not been proposed before; SpaceExhausted when there is none.

        Args:
            history: what is known.
            number: of the trial that is to be proposed.
            left: evaluations until the end of the run, this one included; None: not known.
        """
        return propose_all([self], [history], number, left)[0]

    def check_not_exhausted(self, history: History) -> None:
        """SpaceExhausted when every configuration of a finite space is known; SpaceError when there is none."""
        size = self.space.size
        if size == 0 and self.region is not None:
            raise self.region.nothing_allowed()
        if len(history.proposed) >= size and len(np.unique(history.proposed, axis=0)) >= size:
            raise SpaceExhausted(f"all {size} configurations of the space have been proposed")

    def needs_design(self, history: History) -> bool:
        """Whether the initial design still goes on; the model needs an outcome at least."""
        n = len(history.Y)
        return n == 0 or n + len(history.pending) < self.settings.n_initial

    def design_point(self, history: History, number: int) -> Array:
        """Point `number` of the seed's Sobol sequence, or the next one that is not known: d.

        Every third one, from the first on, is where the optimum is expected, if something is known of that.
        """
        source = generator(self.settings.design_seed, Stream.DESIGN)
        if self.knowledge is not None and number % KNOWN == 0:
            points = self.knowledge.design(source, number // KNOWN)
            settled = [p for point in points for p in self._settle(point[None])]
            if len(settled) and len(points := fresh(np.array(settled), history.proposed)):
                return np.asarray(points[0])
            source = generator(self.settings.design_seed, Stream.DESIGN)
        number = number if self.knowledge is None else max(number - number // KNOWN - 1, 0)
        if self.region is not None:
            return self._design_point_in(self.region, history, number)
        sequence = sobol(number + SPARE, self.space.d, source)
        points = fresh(self.space.snap(sequence[number:].numpy()), history.proposed)
        return np.asarray(points[0]) if len(points) else self.another_point(history.proposed, number)

    def _design_point_in(self, region: Region, history: History, number: int) -> Array:
        source = generator(self.settings.design_seed, Stream.DESIGN)
        sequence = region.design(source, number + SPARE, history.proposed)
        for point in sequence[number:]:
            points = fresh(region.settle(point[None]), history.proposed)
            if len(points):
                return np.asarray(points[0])
        return self.another_point(history.proposed, number)

    def near(self, history: History) -> Neighbourhood | None:
        """The box to search after this history; None: all there is."""
        is_plain = self.region is None and self.knowledge is None and history.Y.ndim == 1
        if not is_plain or history.constraints.size:
            return None
        after = begins_after(self.space, self.settings.config, self.settings.n_initial)
        return None if after is None or len(history.Y) <= after else Neighbourhood.of(history, after)

    def suggest(self, history: History, number: int, left: int | None = None) -> Suggestion:
        """Lines 4 to 8 of Algorithm 1 on this history."""
        return suggest_all([self], [history], number, left)

    def choose(self, suggestion: Suggestion, history: History, number: int) -> Array:
        """x_next (d) of a batch of one, or where that is known, the best-labelled point that is not."""
        near = self.near(history)
        return choose(
            suggestion,
            suggestion.gp,
            history.proposed,
            pending=history.pending,
            snap=self._settle,
            others=lambda: remaining(self.space, history.proposed, self.rng(number), self.region, near),
            apart=apart_in(near),
        )

    def _settle(self, points: Array) -> Array:
        """The points (n x d) as they can be evaluated, without those that cannot."""
        return self.space.snap(points) if self.region is None else self.region.settle(points)

    def another_point(self, known: Array, number: int, near: Neighbourhood | None = None) -> Array:
        """A random point (d), of a box if there is one, that is not known; SpaceExhausted when there is none."""
        return np.asarray(remaining(self.space, known, self.rng(number), self.region, near)[0])

    def rng(self, number: int) -> np.random.Generator:
        """For choices among points, of trial `number`."""
        return np.random.default_rng(seeds(self.settings.seed, Stream.OTHER, number))

    def learn(self, suggestion: Suggestion) -> None:
        """Keep a suggestion (a batch of one) and its state, and say what went wrong in it."""
        self.suggestion, self.state = suggestion, suggestion.state
        if bool(suggestion.gp.fit_failed.any()):
            self._warn("the surrogate could not be fitted; prior hyperparameters were used", FitWarning)
        if bool(suggestion.diverged.any()):
            self._warn(
                "the diffusion model diverged; the best pseudo-labelled input was proposed instead", CollapseWarning
            )
        elif bool(suggestion.fell_back.any()):
            _log.debug("diffusion model skipped: all candidates coincide")


def propose_all(
    proposers: Sequence[Proposer], histories: Sequence[History], number: int, left: int | None = None
) -> list[Proposal]:
    """A proposal for each of several problems with as many observations, side by side in the same tensors.

    Args:
        proposers: of spaces with as many parameters, with the same settings but for the seed.
        histories: one per proposer, all with as many points of each kind.
        number, left: as in `Proposer.propose`, the same for all.
    """
    return propose_with(proposers, histories, number, left)[0]


def propose_with(
    proposers: Sequence[Proposer], histories: Sequence[History], number: int, left: int | None = None
) -> tuple[list[Proposal], Suggestion | None]:
    """As `propose_all`, and the suggestion that the proposals are from; None while the initial design goes on."""
    for proposer, history in zip(proposers, histories, strict=True):
        proposer.check_not_exhausted(history)
    if proposers[0].needs_design(histories[0]):
        rows = zip(proposers, histories, strict=True)
        return [Proposal(proposer.design_point(history, number), "initial") for proposer, history in rows], None
    suggestion = suggest_all(proposers, histories, number, left)
    proposals = []
    for row, (proposer, history) in enumerate(zip(proposers, histories, strict=True)):
        of_row = suggestion.row(row)
        proposals.append(Proposal(proposer.choose(of_row, history, number), "model"))
        proposer.learn(of_row)
    return proposals, suggestion


def suggest_all(
    proposers: Sequence[Proposer], histories: Sequence[History], number: int, left: int | None = None
) -> Suggestion:
    """One batched suggestion for several problems; arguments as in `propose_all`."""
    settings = proposers[0].settings
    device, config = settings.device, settings.config
    boxes, histories = boxes_of(proposers, histories)
    if boxes is not None:
        config = replace(config, rho_far=None)  # what is far away is not looked at
    known = [history.exact() if settings.noise == "none" else history for history in histories]
    errors = [np.full_like(history.Y, np.nan) if history.sem is None else history.sem for history in known]

    def stack(arrays: list[Array]) -> Tensor:
        return torch.from_numpy(np.stack(arrays)).to(device)

    states, knowledge = [proposer.state for proposer in proposers], proposers[0].knowledge
    state = None if None in states else State.of_rows([state for state in states if state is not None])
    references = [history.reference for history in histories]
    with computing(device, settings.threads):
        suggestion = dms.suggest(
            stack([history.X for history in histories]),
            stack([history.Y for history in histories]),
            config,
            [generator(proposer.settings.seed, Stream.MODEL, number) for proposer in proposers],
            state if state is None or boxes is None else boxes.state_inward(state),
            stack([history.without_outcome for history in histories]),
            stack([history.constraints for history in histories]) if histories[0].constraints.size else None,
            domain=common_domain(proposers),
            left=left,
            sem=None if all(np.isnan(sem).all() for sem in errors) else stack(errors),
            reference=None if references[0] is None else stack([point for point in references if point is not None]),
            belief=None if knowledge is None else knowledge.belief(device),
            stack=None if knowledge is None else knowledge.stack(device, settings.config),
            lost=stack([history.lost for history in histories]) if len(histories[0].lost) else None,
        )
    _log.debug("trial %d: fit of %d evaluations", number, suggestion.gp.evaluations)
    return suggestion if boxes is None else boxes.suggestion_outward(suggestion)


def boxes_of(proposers: Sequence[Proposer], histories: Sequence[History]) -> tuple[Boxes | None, Sequence[History]]:
    """The boxes to search and the histories in them; None, and the histories as they are, where all is searched."""
    near = [proposer.near(history) for proposer, history in zip(proposers, histories, strict=True)]
    boxes = [box for box in near if box is not None]
    if len(boxes) < len(near):
        return None, histories
    within = [box.within(history) for box, history in zip(boxes, histories, strict=True)]
    return Boxes.of(boxes, proposers[0].settings.device), within


def apart_in(near: Neighbourhood | None) -> float | Array:
    """How far points that are evaluated side by side are apart, where there is a choice."""
    return APART if near is None else APART * near.side


def _common_space(proposers: Sequence[Proposer]) -> Space:
    """The space that rounds for all; continuous ones need not be the same, since nothing is rounded there."""
    first, *others = [proposer.space for proposer in proposers]
    if others and any(proposer.knowledge is not proposers[0].knowledge for proposer in proposers):
        raise ValueError("problems share a batch only if the same is known of them beforehand")
    if others and any(proposer.region is not None for proposer in proposers) and any(s != first for s in others):
        raise ValueError("problems with constraints share a batch only if they have the same space")
    discrete = any(not all(is_continuous(space)) for space in (first, *others))
    if discrete and any(space != first for space in others):
        raise ValueError("problems with discrete parameters share a batch only if they have the same space")
    return first


def common_domain(proposers: Sequence[Proposer]) -> Domain:
    """Where problems side by side are searched."""
    return Domain.of(_common_space(proposers), proposers[0].settings.device, proposers[0].region)


def remaining(
    space: Space,
    known: Array,
    rng: np.random.Generator,
    region: Region | None = None,
    near: Neighbourhood | None = None,
) -> Array:
    """Points not yet known, at least one, in random order: all of a listable space, else random ones."""
    if space.size <= LISTABLE:
        points = rng.permutation(space.grid() if region is None else region.allowed(space.grid()))
    elif region is not None:
        source = torch.Generator("cpu").manual_seed(int(rng.integers(2**62)))
        points = region.settle(region.sample(FEWER_DRAWS, source, known=torch.from_numpy(known)).numpy())
        if not len(points) and not len(known):
            raise region.nothing_allowed(FEWER_DRAWS)
    else:
        points = rng.random((DRAWS, space.d))
        points = space.snap(points if near is None else near.outward(points))
    points = fresh(points, known)
    if not len(points):
        fixed = "" if region is None or not region.fixed else f" with {region.fixed}"
        raise SpaceExhausted(f"no configuration{fixed} was found that has not been proposed")
    return points


def choose(
    found: Found,
    surrogate: Surrogate,
    known: Array,
    *,
    pending: Array | None = None,
    snap: Callable[[Array], Array],
    others: Callable[[], Array],
    tolerance: float = SAME_POINT,
    apart: float | Array = APART,
) -> Array:
    """x_next of a batch of one, or where that is known, the best-labelled point at hand that is not: d.

    Args:
        found: what was found on the surrogate.
        known: k x d.
        pending: p x d, to be kept away from, where there is a choice.
        snap: from points (n x d) to those that would be evaluated.
        others: points to choose from where all at hand are known.
        tolerance: how close points of the cube are one point.
        apart: how far from pending points is away from them; one number, or one per coordinate.
    """
    pending = known[:0] if pending is None else pending
    x_next = fresh(fresh(snap(found.x_next.cpu().numpy()), known, tolerance), pending, apart)
    if len(x_next):
        return np.asarray(x_next[0])
    points = fresh(snap(pool_of(found)), known, tolerance)
    away = fresh(points, pending, apart)
    points = away if len(away) else others() if not len(points) else points
    return best_labelled(points, surrogate, found.rho)


def pool_of(found: Found) -> Array:
    """The points at hand besides x_next, of a batch of one: candidates and pseudo-inputs, (S + m) x d."""
    return torch.cat([found.candidates, found.pseudo_x], dim=-2)[0].cpu().numpy()


def best_labelled(points: Array, surrogate: Surrogate, rho: Rho) -> Array:
    """The one of the points (k x d) that the surrogate, of a batch of one, labels highest: d."""
    labels = surrogate.label(torch.from_numpy(points).to(surrogate.X)[None], rho)[0]
    return np.asarray(points[int(torch.nan_to_num(labels, nan=-torch.inf).argmax())])
