"""The paper's 12 synthetic and 4 real tasks by name, `find_task("levy-10")`, a set for validation, and public suites.

All are to be maximized, each with its facts. `find_task("levy-10@q50")` is Levy-10 in rounds of 50 evaluations at once.
"""

from __future__ import annotations

import re
from typing import Any

from modeseek.bench.loading import is_file_name, load_object
from modeseek.bench.tasks import coco, discrete, protein, real, synthetic, tables, validation
from modeseek.bench.tasks.problem import Problem
from modeseek.checks import nearest
from modeseek.errors import ConfigError

__all__ = ["Problem", "find_task", "suites", "task_names", "validation_names"]

IN_ROUNDS = re.compile(r"(.+)@q([1-9]\d{0,3})")
_PAPER = {problem.name: problem for problem in (*synthetic.PROBLEMS, *real.PROBLEMS, protein.PROBLEM)}
_VALIDATION = {problem.name: problem for problem in validation.PROBLEMS}
_TABLES = {problem.name: problem for problem in tables.PROBLEMS}
_DISCRETE = {problem.name: problem for problem in discrete.PROBLEMS}
_PROBLEMS = _PAPER | _VALIDATION | _TABLES | _DISCRETE


def task_names() -> list[str]:
    """The names of the paper's problems, in its order."""
    return list(_PAPER)


def validation_names() -> list[str]:
    """The names of the held-out functions."""
    return list(_VALIDATION)


def suites() -> dict[str, list[str]]:
    """The suites of the scoreboard: the names of their tasks by that of the suite."""
    of_coco = {f"{suite}-d{d}": coco.names(suite, d) for suite, ds in coco.DIMENSIONS.items() for d in ds}
    return {**of_coco, "hpo": list(_TABLES), "discrete": list(_DISCRETE)}


def find_task(name: str) -> Problem:
    """The problem of this name, of any set; ConfigError with the nearest and the known names when there is none.

    A name that ends in @q and a number is that problem in rounds of so many evaluations at once.
    """
    given: Any = name  # checked, whatever the annotation says
    if isinstance(given, str) and (in_rounds := IN_ROUNDS.fullmatch(given)):
        return find_task(in_rounds[1]).in_rounds(int(in_rounds[2]))
    if isinstance(given, str) and is_file_name(given):
        return _own(given)
    if isinstance(given, str) and (of_coco := coco.find(given)) is not None:
        return of_coco
    if not isinstance(given, str) or given not in _PROBLEMS:
        near = _nearest(str(given))
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ConfigError(
            f"there is no problem {given!r}; {hint}known are {', '.join(_PAPER)}, and those for validation "
            "and of public suites, which docs/problems.md lists"
        )
    return _PROBLEMS[given]


def _nearest(name: str) -> list[str]:
    wanted = name.lower().replace("_", "-").replace(" ", "-")
    within = [known for known in _PROBLEMS if wanted and wanted in known]
    return within[:3] or nearest(wanted, _PROBLEMS, n=3)


def _own(text: str) -> Problem:
    """A problem of a file; its name must be free, since records are known by it."""
    problem = load_object(text)
    if not isinstance(problem, Problem):
        raise ConfigError(f"{text} is not a modeseek.bench.tasks.Problem but {problem!r:.60}")
    if problem.name in _PROBLEMS or coco.NAME.fullmatch(problem.name):
        raise ConfigError(f"{text} is called {problem.name!r}, as one of the known problems; give it another name")
    return problem
