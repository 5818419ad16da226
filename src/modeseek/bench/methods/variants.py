"""Lists of methods that a campaign runs together: the paper's ablations, and the default without each ingredient.

The ablations (App. B.7) change one setting of the paper's preset. The values are the paper's where it prints them, as
for the training data, ρ and m. Of K and S it prints none: here they are all that occur in its Tables 2 and 3, and
K = 0. Where the preset of a task has another value, that is added.
"""

from __future__ import annotations

from typing import Any

from modeseek.bench.tasks import find_task

PRESET, DEFAULT = "dms-paper", "dms"
ABLATION_TASKS = ("styblinski-tang-2", "levy-10")  # the paper's
SETTINGS: dict[str, tuple[Any, ...]] = {
    "train_on": ("pseudo", "observed"),
    "rho": (0, 1, 2, 3),
    "K": (0, 5, 15, 25),
    "m": (100, 500, 1000),
    "S": (100, 200, 300, 400),
}
WITHOUT = {  # another setting than the default's, mostly the paper's, and the ingredient that is missing then
    f"{DEFAULT}[warp=never]": "warped outcomes",
    f"{DEFAULT}[warp=always]": "a power transform only where the surrogate wants it",
    f"{DEFAULT}[rho_far=null]": "iterations with a larger ρ",
    f"{DEFAULT}[polish=false]": "polished mode",
    f"{DEFAULT}[refine=point]": "one step size for all pseudo-inputs",
    f"{DEFAULT}[w=2;p_drop=0.15]": "samples without guidance",
    f"{DEFAULT}[K=25]": "few steps of L-BFGS",
    f"{DEFAULT}[epochs=100;steps=50]": "short training",
    f"{DEFAULT}[train_on=nothing]": "the diffusion model",
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
    return PRESET if is_preset else f"{PRESET}[{setting}={value}]"


def ingredients() -> list[str]:
    """The default, then the default without each of its ingredients."""
    return [DEFAULT, *WITHOUT]
