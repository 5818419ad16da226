"""Lists of methods that a campaign runs together: the paper's baselines and ablations, the default without each
ingredient, and the way from the paper's text to the default.

The ablations (App. B.7) change one setting of the paper's preset. The values are the paper's where it prints them, as
for the training data, ρ and m. Of K and S it prints none: here they are all that occur in its Tables 2 and 3, and
K = 0. Where the preset of a task has another value, that is added.
"""

from __future__ import annotations

import json
from typing import Any

from modeseek.bench.tasks import Problem, find_task
from modeseek.config import DMSConfig
from modeseek.domain import is_continuous
from modeseek.embedding import has_choices
from modeseek.locality import begins_after

PRESET, DEFAULT = "dms-paper", "dms"
BASELINES = ("ucb", "pi", "ei", "ts", "gibbon", "jes", "pes")  # the paper's
TOO_EXPENSIVE = {20: ("pes",), 50: ("pes", "jes")}  # of those, left out by the paper, by the number of dimensions
TAKEN_APART = "dms-v1"  # the default that the records of ingredients are of
ABLATION_TASKS = ("styblinski-tang-2", "levy-10")  # the paper's
SETTINGS: dict[str, tuple[Any, ...]] = {
    "train_on": ("pseudo", "observed"),
    "rho": (0, 1, 2, 3),
    "K": (0, 5, 15, 25),
    "m": (100, 500, 1000),
    "S": (100, 200, 300, 400),
    "keep_apart": (False, True),  # not the paper's: what it names as a limit, a K that adapts
}
WITHOUT = {  # another setting than the default's, mostly the paper's, and the ingredient that is missing then
    f"{TAKEN_APART}[warp=never]": "warped outcomes",
    f"{TAKEN_APART}[warp=always]": "a power transform only where the surrogate wants it",
    f"{TAKEN_APART}[rho_far=null]": "iterations with a larger ρ",
    f"{TAKEN_APART}[polish=false]": "polished mode",
    f"{TAKEN_APART}[refine=point]": "one step size for all pseudo-inputs",
    f"{TAKEN_APART}[w=2;p_drop=0.15]": "samples without guidance",
    f"{TAKEN_APART}[K=25]": "few steps of L-BFGS",
    f"{TAKEN_APART}[epochs=100;steps=50]": "short training",
    f"{TAKEN_APART}[train_on=nothing]": "the diffusion model",
}

# The points in which the presets differ, in the order in which `departures` changes them: what they are about, and
# their settings. First from the text to the letter to the usual reading, then from there to the default.
PRINTED = "dms-printed"
SIZES = ("m", "K", "S")
WHERE_COLLAPSED = "no model of one point"
DEPARTURE_TASKS = ("styblinski-tang-2", "griewank-3", "shekel-4", "ackley-8", "levy-10")
TO_PAPER: dict[str, tuple[str, ...]] = {
    "the network gives the noise": ("predict",),
    "loss weighted by h(t)": ("loss_weight",),
    "probability-flow ODE": ("solver",),
    "x in [−1, 1]": ("network_inputs",),
    WHERE_COLLAPSED: ("skip_collapsed",),
    "new weights after that": ("after_fall_back",),
    "pseudo-inputs rounded": ("round_inputs",),
}
TO_DEFAULT: dict[str, tuple[str, ...]] = {
    "warped outcomes": ("warp",),
    "Matérn's kernel": ("kernel",),
    "outcomes without noise are possible": ("noise_prior",),
    "ρ by what the last iterations brought": ("rho", "rho_stalled", "rho_far"),
    "no model of one hill": ("one_hill",),
    "choices by expected improvement": ("choose_by",),
    "local search of long runs": ("local_after",),
    "polished mode": ("polish",),
    "one step size for all pseudo-inputs": ("refine",),
    "few steps of L-BFGS": ("K",),
    "no guidance": ("w", "p_drop"),
    "short training": ("epochs", "hold_epochs", "steps"),
    "other sizes": ("m", "S"),
}


def ablations(task: str) -> list[str]:
    """The methods that the five ablations of a task need, the preset first."""
    return list(dict.fromkeys([PRESET, *(ablation(task, s, value) for s in SETTINGS for value in values(task, s))]))


def values(task: str, setting: str) -> list[Any]:
    """The values of a setting that are compared on a task, the preset's among them."""
    return sorted({*SETTINGS[setting], getattr(find_task(task).config(), setting)})


def ablation(task: str, setting: str, value: Any) -> str:
    """The method with this value of a setting: the preset, or a variant of it."""
    is_preset = getattr(find_task(task).config(), setting) == value
    return PRESET if is_preset else f"{PRESET}[{setting}={_text(value)}]"


def ingredients() -> list[str]:
    """The first default, then that without each of its ingredients."""
    return [TAKEN_APART, *WITHOUT]


def departures(task: str) -> dict[str, str]:
    """From the paper's text to the default, one point at a time: each method, and what it has besides those before."""
    problem = find_task(task)
    printed, paper, default = problem.config(DMSConfig.printed), problem.config(), DMSConfig()
    return {
        PRINTED: "to the letter",
        **_between(problem, (PRINTED, printed), (PRESET, paper), TO_PAPER),
        **_between(problem, (PRESET, paper), (DEFAULT, default), TO_DEFAULT),
    }


def _between(
    problem: Problem, start: tuple[str, DMSConfig], end: tuple[str, DMSConfig], points: dict[str, tuple[str, ...]]
) -> dict[str, str]:
    (base, first), (last_name, last) = start, end
    listed = {name for names in points.values() for name in names}
    rest = {name: (name,) for name in vars(first) if name not in listed | {"name"}}
    changes: dict[str, Any] = {}
    way: dict[str, str] = {}
    for what, names in {**points, **rest}.items():
        new = {name: getattr(last, name) for name in names if _differs(problem, first, last, name)}
        if new:
            changes |= new
            way[f"{base}[{';'.join(f'{name}={_text(value)}' for name, value in changes.items())}]"] = what
    *between, final = way.items()
    return {**dict(between), last_name: final[1]}


def _differs(problem: Problem, first: DMSConfig, last: DMSConfig, name: str) -> bool:
    """Whether a setting makes a difference on this task."""
    if name == "round_inputs" and all(is_continuous(problem.space)):
        return False
    if name == "choose_by" and not has_choices(problem.space):
        return False
    if name == "local_after":
        after = [begins_after(problem.space, config, problem.n_initial) for config in (first, last)]
        return any(number is not None and problem.most_known > number for number in after)
    if name in SIZES:
        which = SIZES.index(name)
        return first.sizes(problem.d)[which] != last.sizes(problem.d)[which]
    return bool(getattr(first, name) != getattr(last, name))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
