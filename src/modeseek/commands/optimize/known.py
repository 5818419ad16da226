"""What is known before a study begins: `--known`, as trials of its own, and `--transfer`, for the sampler.

A known evaluation is a complete trial whose attribute `known` says where it comes from. It counts toward the initial
design and not toward the budget. What does not lie in the space cannot be a trial of the study, since Optuna lets no
choices change within one; it is left out, and said.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.trial import TrialState, create_trial

from modeseek.commands.optimize import store
from modeseek.commands.optimize.sources import Row, Source, find_source, is_table, read_source
from modeseek.earlier import Study, Told
from modeseek.errors import ConfigError, ParameterError, StudyError
from modeseek.integrations.optuna_trials import constraints_of, distribution
from modeseek.outcomes import counted
from modeseek.space import Space
from modeseek.trials import Direction

ADDING = "modeseek:adding"  # the study's system attribute that names the process that is adding known evaluations
SETTLED = 0.2  # seconds: two that found the study free have both written their names by then
PATIENCE = 60.0  # seconds to wait for a process elsewhere, which may be gone
MOST_NAMED = 3  # evaluations outside of the space that a message names


def read_known(texts: Sequence[str], storage: BaseStorage, name: str, space: Space) -> list[Source]:
    """What --known names, as far as it lies in the space; the rest is said. Errors where nothing does."""
    _refuse_itself("--known", texts, name)
    return [_within(read_source(text, storage, space), space) for text in texts]


def _refuse_itself(option: str, texts: Sequence[str], name: str) -> None:
    if name in texts:
        raise StudyError(f"{option} {name}: this is the study itself; name another one, or begin one with --study NEW")


def _within(source: Source, space: Space) -> Source:
    rows: list[Row] = []
    outside: list[str] = []
    for row in source.rows:
        try:
            rows.append(row._replace(params=space.validate(row.params)))
        except ParameterError as error:
            outside.append(f"{row.where}: {error}")
    if outside and not rows:
        raise ConfigError(f"--known: no evaluation of {source.name} lies in the space; {outside[0]}")
    said = [f"known: {source.name}: {len(source.rows)} evaluated"]
    if source.without:
        said.append(f"{source.without} without a value, passed over")
    if outside:
        more = f"; and {len(outside) - MOST_NAMED} more" if len(outside) > MOST_NAMED else ""
        named = "; ".join(outside[:MOST_NAMED])
        said.append(f"{len(outside)} outside of the space, not learned from ({named}{more})")
    print("; ".join(said), file=sys.stderr)
    return Source(source.name, rows, source.objectives, source.directions, source.without)


def directions_for(
    storage: BaseStorage, name: str, asked: Sequence[Direction] | None, known: Sequence[Source]
) -> list[Any]:
    """The study's directions: those it has, those asked for, or those of what is known, which must agree."""
    there = store.existing_directions(storage, name)
    of_known = next((source.directions for source in known if source.directions), None)
    directions = list(asked or there or of_known or ["minimize"])
    for source in known:
        if source.directions not in (None, directions):
            own, theirs = ",".join(directions), ",".join(source.directions or ())
            raise StudyError(
                f"--known: {source.name} has direction {theirs}, and this study {own}; use --direction {theirs}"
                + (" with another --study" if there else "")
            )
        if source.objectives != len(directions):
            raise ConfigError(
                f"--known: {source.name} has {source.objectives} values per evaluation, and this study "
                f"{len(directions)}; say which way each goes, as in --direction minimize,maximize"
            )
    return directions


def add_known(study: optuna.Study, space: Space, known: Sequence[Source]) -> None:
    """Make trials of known evaluations, but for those that are there from an earlier command."""
    if not _missing(study, known):
        return
    with _alone(study):
        missing = _missing(study, known)
        _check_constraints(study, missing)
        for origin, row in missing:
            study.add_trial(
                create_trial(
                    values=row.found.values,
                    params=row.params,
                    distributions={name: distribution(space[name]) for name in row.params},
                    user_attrs={store.KNOWN: f"{origin}, {row.where}"},
                    system_attrs=store.attributes_of(row.found),
                )
            )


def _missing(study: optuna.Study, known: Sequence[Source]) -> list[tuple[str, Row]]:
    there = Counter(_key(t.params, t.values, constraints_of(t).values()) for t in store.known_trials(study))
    missing = []
    for source in known:
        for row in source.rows:
            key = _key(row.params, row.found.values, row.found.constraints)
            if not there[key]:
                missing.append((source.name, row))
            there[key] -= there[key] > 0
    return missing


def _key(params: dict[str, Any], *numbers: Any) -> str:
    return repr([sorted(params.items()), *map(list, numbers)])


def _check_constraints(study: optuna.Study, missing: Sequence[tuple[str, Row]]) -> None:
    """ConfigError where not all evaluations have as many constraints."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    there = len(constraints_of(done[0])) if done else len(missing[0][1].found.constraints)
    for origin, row in missing:
        if (here := len(row.found.constraints)) != there:
            raise ConfigError(
                f"--known: {origin}, {row.where}: there {counted(here, 'constraint')}, and others have {there}; every "
                "evaluation needs as many"
            )


@contextmanager
def _alone(study: optuna.Study) -> Iterator[None]:
    """Let no other command add its known evaluations meanwhile, by Fischer's algorithm.

    Whoever finds the study free writes its name and looks again after SETTLED seconds: the last name that was written
    is the one that goes on.
    """
    storage, key = study._storage, study._study_id
    me, until = store.worker_name(), time.monotonic() + PATIENCE
    while True:
        holder = storage.get_study_system_attrs(key).get(ADDING)
        if holder in (None, me) or store.is_gone(holder) or time.monotonic() > until:
            storage.set_study_system_attr(key, ADDING, me)
            time.sleep(SETTLED)
            if storage.get_study_system_attrs(key).get(ADDING) == me:
                break
        else:
            time.sleep(SETTLED / 4)
    try:
        yield
    finally:
        storage.set_study_system_attr(key, ADDING, None)


def read_transfer(texts: Sequence[str], storage: BaseStorage, name: str, space: Space) -> list[Told]:
    """What the studies and checkpoints of --transfer tell of this space; ConfigError where that is too little."""
    if not texts:
        return []
    from modeseek.integrations.optuna import earlier_studies  # here: it needs torch

    if tables := [text for text in texts if is_table(text)]:
        raise ConfigError(
            f"--transfer {tables[0]}: give a study of the storage or a checkpoint; a CSV file is for --known"
        )
    _refuse_itself("--transfer", texts, name)
    told = earlier_studies([find_source(text, storage, "--transfer") for text in texts])
    return [Study.of(space, study, number).told for number, study in enumerate(told, 1)]
