"""SMAC3 (Lindauer et al. 2022): a GP with EI for few numbers, a random forest with log EI for mixed spaces."""

from __future__ import annotations

from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any

from modeseek.bench.methods.peers.peer import Kind, Peer, Value

MANY = 10_000  # trials that a scenario is made for where their number is not known


class _SMAC(Peer):
    """A facade of SMAC with its defaults, for a function without noise; the initial design is the campaign's."""

    package = "smac"
    facade: str

    def start(self, left: int | None) -> None:
        import smac
        from ConfigSpace import ConfigurationSpace

        self.folder = TemporaryDirectory()
        self.configurations = ConfigurationSpace(seed=self.seed)
        self.configurations.add([_parameter(kind) for kind in self.kinds.kinds])
        scenario = smac.Scenario(
            self.configurations,
            deterministic=True,
            n_trials=MANY,
            seed=self.seed,
            output_directory=self.folder.name,
        )
        kind = getattr(smac, self.facade)
        design = kind.get_initial_design(scenario, n_configs=0, additional_configs=[])
        self.optimizer = kind(scenario, _not_called, initial_design=design, overwrite=True, logging_level=False)

    def add(self, values: dict[str, Value], loss: float) -> None:
        from ConfigSpace import Configuration
        from smac.runhistory.dataclasses import TrialInfo

        self.tell(TrialInfo(Configuration(self.configurations, values=values), seed=0), values, loss)

    def ask(self) -> tuple[Any, Mapping[str, Any]]:
        trial = self.optimizer.ask()
        return trial, dict(trial.config)

    def tell(self, trial: Any, values: dict[str, Value], loss: float) -> None:
        from smac.runhistory.dataclasses import TrialValue

        self.optimizer.tell(trial, TrialValue(cost=loss), save=False)


class BlackBox(_SMAC):
    """`smac.BlackBoxFacade`."""

    facade = "BlackBoxFacade"


class HyperparameterOptimization(_SMAC):
    """`smac.HyperparameterOptimizationFacade`."""

    facade = "HyperparameterOptimizationFacade"


def _not_called(config: Any, seed: int = 0) -> float:
    raise NotImplementedError


def _parameter(kind: Kind) -> Any:
    from ConfigSpace import CategoricalHyperparameter, UniformFloatHyperparameter, UniformIntegerHyperparameter

    if kind.kind == "choice":
        return CategoricalHyperparameter(kind.name, list(kind.choices))
    of = UniformFloatHyperparameter if kind.kind == "float" else UniformIntegerHyperparameter
    return of(kind.name, lower=kind.low, upper=kind.high, log=kind.log)
