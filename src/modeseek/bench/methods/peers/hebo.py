"""HEBO (Cowen-Rivers et al. 2022): a GP on warped outcomes, and three acquisition functions at once (MACE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from modeseek.bench.methods.peers.peer import Kind, Peer, Value


class HEBO(Peer):
    """`hebo.optimizers.hebo.HEBO`, with its defaults."""

    package = "hebo"

    def start(self, left: int | None) -> None:  # noqa: D102
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers.hebo import HEBO

        self.optimizer = HEBO(
            DesignSpace().parse([_parameter(kind) for kind in self.kinds.kinds]), scramble_seed=self.seed
        )

    def add(self, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        import pandas as pd

        self.optimizer.observe(pd.DataFrame([values]), np.array([[loss]]))

    def ask(self) -> tuple[Any, Mapping[str, Any]]:  # noqa: D102
        return None, self.optimizer.suggest(n_suggestions=1).iloc[0].to_dict()

    def tell(self, trial: Any, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        self.add(values, loss)


def _parameter(kind: Kind) -> dict[str, Any]:
    if kind.kind == "choice":
        return {"name": kind.name, "type": "cat", "categories": list(kind.choices)}
    types = {("float", False): "num", ("float", True): "pow", ("int", False): "int", ("int", True): "pow_int"}
    return {"name": kind.name, "type": types[kind.kind, kind.log], "lb": kind.low, "ub": kind.high}
