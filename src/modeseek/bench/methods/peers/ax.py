"""Ax (Olson et al. 2025): the strategy that its `Client` chooses for the space, Sobol points excepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modeseek.bench.methods.peers.peer import Kind, Peer, Value


class Ax(Peer):
    """`ax.api.client.Client` with its defaults; trials told before count toward its initial ones."""

    package = "ax"

    def start(self, left: int | None) -> None:  # noqa: D102
        from ax.api.client import Client

        self.client = Client(random_seed=self.seed)
        self.client.configure_experiment(parameters=[_parameter(kind) for kind in self.kinds.kinds])
        self.client.configure_optimization(objective="-loss")

    def add(self, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        self.tell(self.client.attach_trial(parameters=values), values, loss)

    def ask(self) -> tuple[Any, Mapping[str, Any]]:  # noqa: D102
        ((trial, values),) = self.client.get_next_trials(max_trials=1).items()
        return trial, values

    def tell(self, trial: Any, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        self.client.complete_trial(trial_index=trial, raw_data={"loss": loss})


def _parameter(kind: Kind) -> Any:
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    if kind.kind == "choice":
        return ChoiceParameterConfig(name=kind.name, values=list(kind.choices), parameter_type="str", is_ordered=False)
    return RangeParameterConfig(
        name=kind.name,
        bounds=(kind.low, kind.high),
        parameter_type=kind.kind,
        scaling="log" if kind.log else "linear",
    )
