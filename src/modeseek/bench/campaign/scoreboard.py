"""The scoreboard: our methods and others' on public suites, as cells of a resumable plan like the paper's.

Cheap methods come first, few parameters before many. Slow ones run fewer instances unless told otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from modeseek.bench.campaign.plan import Cell
from modeseek.bench.campaign.replication import parse_method
from modeseek.bench.methods import make_method
from modeseek.bench.tasks import coco, find_task, suites
from modeseek.checks import did_you_mean
from modeseek.errors import ConfigError, MissingExtraError
from modeseek.space import Space

# From cheap to slow; ours after the cheap ones, since they are compared with all.
METHODS = (
    "random",
    "sobol",
    "cma",
    "nevergrad",
    "tpe-multivariate",
    "smac-hpo",
    "ucb",
    "logei",
    "dms",
    "gpsampler",
    "turbo",
    "ax",
    "qlognei",
    "smac-bb",
    "hebo",
    "vizier",
)
# Instances of a function, or replications of a task without instances, by default; 5 for those not listed.
INSTANCES = {"gpsampler": 3, "turbo": 3, "ax": 2, "qlognei": 2, "smac-bb": 1, "hebo": 1, "vizier": 1}
MOST = len(coco.INSTANCES)


def cells(
    of_suites: Sequence[str] | None = None, methods: Sequence[str] | None = None, instances: int | None = None
) -> list[Cell]:
    """What the scoreboard has, in the order in which it runs.

    Args:
        of_suites: names of `suites()`; None: all.
        methods: as in `modeseek bench run`; None: `METHODS`, less those whose package is not installed.
        instances: at most so many for every method; None: as in `INSTANCES`.
    """
    known = suites()
    for suite in of_suites or ():
        if suite not in known:
            raise ConfigError(f"there is no suite {suite!r}{did_you_mean(suite, known)}; known: {', '.join(known)}")
    if instances is not None and not 1 <= instances <= MOST:
        raise ConfigError(f"instances must be from 1 to {MOST}, not {instances}")
    found = []
    for method in methods or installed():
        parse_method(method)  # an unknown one is refused before anything runs
        count = min(INSTANCES.get(method, MOST), MOST) if instances is None else instances
        for suite in of_suites or known:
            tasks = tuple(name for name in known[suite] if instance_of(name) <= count)
            found.append(Cell(suite, tasks, method, min(count, find_task(tasks[0]).replications)))
    return found


def instance_of(task: str) -> int:
    """The instance of a problem of COCO; 1 of other tasks, whose replications are counted instead."""
    match = coco.NAME.fullmatch(task)
    return int(match["instance"]) if match else 1


def installed() -> Iterator[str]:
    """`METHODS`, less those whose package is not installed, which standard error names."""
    for method in METHODS:
        try:
            make_method(method, Space.box([0.0], [1.0]), seed=0)
        except MissingExtraError as error:
            print(f"{method} is left out: {error}", file=sys.stderr)
        else:
            yield method
