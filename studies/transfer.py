"""Earlier studies: of a related task, of an unrelated one, or none (`python -m studies.transfer --out transfer.jsonl`).

The tasks of studies.prior, without noise, 40 evaluations of which 10 are the initial design. An earlier study is a run
of 40 evaluations, with another seed, of another function on the same space: `related`, the same function, moved by up
to a tenth of each range at random and measured in other units; `unrelated`, a function drawn at random. `points` has
the related one's best points in the initial design, as `related` has, but does not use it afterwards; `two` has an
unrelated study and the related one. Printed as by studies.prior.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import numpy as np

import modeseek as ms
from modeseek.knowledge import Knowledge
from modeseek.parameters import Categorical
from studies.prior import BUDGET, TASKS, Task, bests, config_of, main

WAYS = ("none", "related", "points", "unrelated", "two")
WAVES = 30
Pairs = list[tuple[Any, float]]


@lru_cache(maxsize=4)
def earlier(name: str, way: str, seed: int, quick: bool) -> Pairs:
    """The trials of an earlier study."""
    task, rng = TASKS[name](), np.random.default_rng([seed, way == "related"])
    f = moved(task, rng) if way == "related" else waves(task, rng)
    config = config_of(quick)
    result = ms.minimize(f, task.space, BUDGET, seed=1000 + seed, noise="none", progress=False, config=config)
    return [(trial.params, trial.value) for trial in result.trials]


def moved(task: Task, rng: np.random.Generator) -> Any:
    """The task's function with its numbers moved, in other units; choices stay as they are."""
    space = task.space
    numbers = [not isinstance(space[name], Categorical) for name in space.coordinates]
    shift = rng.uniform(-0.1, 0.1, space.d) * numbers

    def f(params: Any) -> float:
        return 3 * task.f(space.decode(np.clip(space.encode(params) + shift, 0, 1))) + 10

    return f


def waves(task: Task, rng: np.random.Generator) -> Any:
    """A smooth function drawn at random, with length-scales of a third of each range; choices are moved at random."""
    space = task.space
    frequency = rng.standard_normal((WAVES, space.d)) * 3 / math.sqrt(space.d)
    phase, weight = rng.uniform(0, 2 * math.pi, WAVES), rng.standard_normal(WAVES)
    return lambda params: float(weight @ np.cos(frequency @ space.encode(params) + phase))


def run(name: str, way: str, seed: int, quick: bool = False) -> list[float]:
    """The best value after each evaluation."""
    task = TASKS[name]()
    kinds = {"none": [], "points": ["related"], "two": ["unrelated", "related"]}.get(way, [way])
    studies = [earlier(name, kind, seed, quick) for kind in kinds]
    settings: Any = dict(seed=seed, noise="none", progress=False, transfer=studies or None, config=config_of(quick))
    if way != "points":
        return bests(ms.minimize(task.f, task.space, BUDGET, **settings))
    with patch.object(Knowledge, "stack", lambda *_: None):
        return bests(ms.minimize(task.f, task.space, BUDGET, **settings))


if __name__ == "__main__":
    main(__doc__, TASKS, WAYS, run)
