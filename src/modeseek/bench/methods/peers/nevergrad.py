"""Nevergrad's NGOpt (Meunier et al. 2022), which chooses among its optimizers by the space and the budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modeseek.bench.methods.peers.peer import Kind, Peer, Value


class NGOpt(Peer):
    """`nevergrad.optimizers.NGOpt` for the evaluations that are left."""

    package = "nevergrad"

    def start(self, left: int | None) -> None:  # noqa: D102
        import nevergrad as ng

        parameters = ng.p.Dict(**{kind.name: _parameter(kind) for kind in self.kinds.kinds})
        parameters.random_state.seed(self.seed)
        self.optimizer = ng.optimizers.NGOpt(parametrization=parameters, budget=left)

    def add(self, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        from nevergrad.common.errors import TellNotAskedNotSupportedError

        candidate = self.optimizer.parametrization.spawn_child(new_value=values)
        try:
            self.optimizer.tell(candidate, loss)
        except TellNotAskedNotSupportedError:  # what it chose cannot be told; it then starts from nothing
            return

    def ask(self) -> tuple[Any, Mapping[str, Any]]:  # noqa: D102
        candidate = self.optimizer.ask()
        return candidate, candidate.value

    def tell(self, trial: Any, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        self.optimizer.tell(trial, loss)


def _parameter(kind: Kind) -> Any:
    import nevergrad as ng

    if kind.kind == "choice":
        return ng.p.Choice(list(kind.choices))
    of = ng.p.Log if kind.log else ng.p.Scalar
    parameter = of(lower=kind.low, upper=kind.high)
    return parameter.set_integer_casting() if kind.kind == "int" else parameter
