"""The search space of a define-by-run study, from its trials: ranges, and what decides where a parameter is asked for.

An objective such as

    if trial.suggest_categorical("model", ["svm", "forest"]) == "svm":
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)

says nowhere that "C" exists only where "model" is "svm"; the trials do. A parameter that is not in all complete trials
has as its parent a discrete one that all trials with it have, and whose values with it and without it differ. Values
that were never tried count as without it, except for an integer whose values with it all lie above, or all below, the
others; one with more than FEW values is a parent only so.

Ranges may change between trials. The newest holds, where half of the trials or more fit into it, as when a study goes
on with wider bounds; else all ranges together, as where one parameter is the bound of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from modeseek.conditions import MOST_PARENT_VALUES

FEW = 10

Distributions = dict[str, BaseDistribution]
Values = dict[str, tuple[int, ...]]  # of a parent, in the numbers that Optuna stores


class SearchSpace(NamedTuple):
    """What trials have been asked for."""

    distributions: Distributions
    when: dict[str, Values]  # of each parameter that is not in all trials
    unexplained: frozenset[str] = frozenset()  # not in all trials, and nothing says where

    def within(self, names: Distributions) -> SearchSpace:
        """The part of it that has these names, without parameters that depend on others."""
        kept = {name: self.distributions.get(name, d) for name, d in names.items()}
        while lost := {n for n in kept if any(parent not in kept for parent in self.when.get(n, {}))}:
            kept = {name: d for name, d in kept.items() if name not in lost}
        return SearchSpace(kept, {name: when for name, when in self.when.items() if name in kept})


def search_space_of(trials: Sequence[FrozenTrial]) -> SearchSpace:
    """The search space of a study's complete trials."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    having: dict[str, set[int]] = {}
    for i, trial in enumerate(complete):
        for name in trial.distributions:
            having.setdefault(name, set()).add(i)
    distributions = {name: _range([complete[i] for i in sorted(rows)], name) for name, rows in having.items()}
    when: dict[str, Values] = {}
    unexplained = set()
    for name, rows in having.items():
        if len(rows) < len(complete):
            condition = _condition(complete, rows, having, distributions)
            if condition is None:
                unexplained.add(name)
            else:
                when[name] = condition
    kept = {name: d for name, d in distributions.items() if name not in unexplained}
    return SearchSpace(kept, when, frozenset(unexplained)).within(kept)._replace(unexplained=frozenset(unexplained))


def _range(trials: list[FrozenTrial], name: str) -> BaseDistribution:
    newest = trials[-1].distributions[name]
    others = [trial.distributions[name] for trial in trials]
    if all(other == newest for other in others):
        return newest
    fits = sum(newest._contains(newest.to_internal_repr(trial.params[name])) for trial in trials)
    if 2 * fits >= len(trials) or not isinstance(newest, FloatDistribution | IntDistribution):
        return newest
    like: list[Any] = [d for d in others if type(d) is type(newest) and (d.log, d.step) == (newest.log, newest.step)]
    low, high = min(d.low for d in like), max(d.high for d in like)
    return type(newest)(low, high, log=newest.log, step=newest.step)  # type: ignore[arg-type]


def _condition(
    trials: list[FrozenTrial], rows: set[int], having: dict[str, set[int]], distributions: Distributions
) -> Values | None:
    """Under which values of which parameter the trials in `rows` stand apart; None where no one parameter says so."""
    found: list[tuple[int, int, Values]] = []
    for parent, all_rows in having.items():
        distribution = distributions[parent]
        if not rows < all_rows or not _is_parent(distribution):
            continue
        stored = {i: int(distribution.to_internal_repr(trials[i].params[parent])) for i in all_rows}
        inside = {value for i, value in stored.items() if i in rows}
        outside = {value for i, value in stored.items() if i not in rows}
        if inside & outside:
            continue
        if (values := _widened(inside, outside, distribution)) is not None:
            # With few trials several may do so by chance; the one with the fewest values has had the least room for it.
            found.append((len(inside | outside), len(all_rows), {parent: values}))
    return min(found, key=lambda candidate: candidate[:2])[2] if found else None


def _is_parent(distribution: BaseDistribution) -> bool:
    if isinstance(distribution, IntDistribution):
        return (distribution.high - distribution.low) // distribution.step < MOST_PARENT_VALUES
    return not isinstance(distribution, FloatDistribution)


def _widened(inside: set[int], outside: set[int], distribution: BaseDistribution) -> tuple[int, ...] | None:
    """The values inside, with those of an integer that lie on the same side of all values outside; None: no parent."""
    if isinstance(distribution, IntDistribution):
        every = range(distribution.low, distribution.high + 1, distribution.step)
        if min(inside) > max(outside):
            return tuple(v for v in every if v >= min(inside))
        if max(inside) < min(outside):
            return tuple(v for v in every if v <= max(inside))
        if len(every) > FEW:
            return None
    return tuple(sorted(inside))
