"""Google Vizier (Song et al. 2024): GP-UCB-PE, the algorithm that its service runs by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modeseek.bench.methods.peers.peer import Peer, Value, require


class Vizier(Peer):
    """The designer behind `algorithm="GP_UCB_PE"`, in this process, with its defaults."""

    package = "vizier"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        require("jax")
        import jax

        jax.config.update("jax_enable_x64", True)  # as its service does

    def start(self, left: int | None) -> None:  # noqa: D102
        import jax
        from vizier import pyvizier as vz
        from vizier.algorithms import designers

        problem = vz.ProblemStatement()
        root = problem.search_space.root
        for kind in self.kinds.kinds:
            scale = vz.ScaleType.LOG if kind.log else vz.ScaleType.LINEAR
            if kind.kind == "choice":
                root.add_categorical_param(kind.name, list(kind.choices))
            elif kind.kind == "int":
                root.add_int_param(kind.name, int(kind.low), int(kind.high), scale_type=scale)
            else:
                root.add_float_param(kind.name, kind.low, kind.high, scale_type=scale)
        problem.metric_information.append(vz.MetricInformation("loss", goal=vz.ObjectiveMetricGoal.MINIMIZE))
        self.designer = designers.VizierGPUCBPEBandit(problem, rng=jax.random.PRNGKey(self.seed))
        self.count = 0

    def add(self, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        from vizier import pyvizier as vz

        self.tell(vz.TrialSuggestion(values), values, loss)

    def ask(self) -> tuple[Any, Mapping[str, Any]]:  # noqa: D102
        (suggestion,) = self.designer.suggest(1)
        return suggestion, suggestion.parameters.as_dict()

    def tell(self, trial: Any, values: dict[str, Value], loss: float) -> None:  # noqa: D102
        from vizier import algorithms as vza
        from vizier import pyvizier as vz

        self.count += 1
        done = trial.to_trial(self.count).complete(vz.Measurement({"loss": loss}))
        self.designer.update(vza.CompletedTrials([done]), vza.ActiveTrials())
