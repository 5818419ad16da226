"""DMS as a node of Ax's generation strategies.

    client.set_generation_strategy(GenerationStrategy(name="DMS", nodes=[DMSNode(seed=0)]))

All that is needed is read from the experiment each time: its trials are the data, those that run are pending. What a
node keeps for itself (hyperparameters and network of the last iteration, where the next one starts) only saves time;
a node that was loaded from a file begins without.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from modeseek.beliefs import Normal
from modeseek.checks import missing_extra
from modeseek.config import DMSConfig, with_younger_settings
from modeseek.errors import ConfigError, ParameterError, SpaceError, SpaceExhausted
from modeseek.fronts import MOST
from modeseek.history import History
from modeseek.knowledge import Knowledge
from modeseek.linear import Linear
from modeseek.parameters import Categorical, Float, Int, Parameter
from modeseek.proposer import Proposer
from modeseek.settings import Configured, Settings
from modeseek.space import Space
from modeseek.typing import Array

try:
    from ax.core import parameter as axp
    from ax.core.data import Data
    from ax.core.experiment import Experiment
    from ax.core.generator_run import GeneratorRun
    from ax.core.objective import Objective
    from ax.core.optimization_config import OptimizationConfig
    from ax.core.parameter_constraint import ParameterConstraint
    from ax.core.search_space import SearchSpace
    from ax.core.trial_status import TrialStatus
    from ax.core.types import ComparisonOp, TParameterization
    from ax.exceptions.core import SearchSpaceExhausted
    from ax.generation_strategy.external_generation_node import ExternalGenerationNode
    from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
    from ax.utils.common.sympy import extract_metric_weights_from_objective_expr, parse_objective_expression
except ImportError as error:
    raise missing_extra("DMSNode needs Ax", "ax") from error

EVALUATED = (TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED)
# Abandoned ones too, as in Ax's own models: what is pending is kept away from.
PENDING = (TrialStatus.CANDIDATE, TrialStatus.STAGED, TrialStatus.RUNNING, TrialStatus.ABANDONED)


class DMSNode(Configured, ExternalGenerationNode):
    """Bayesian optimization by diffusion-based mode seeking, for experiments with one objective or several.

    An objective may be a weighted sum of metrics; outcome constraints with absolute bounds are modelled. Of several
    objectives it looks for what adds most to the hypervolume of the front; objective thresholds are the reference
    point. Completed and early-stopped trials with a finite value of each of these metrics are the data. Others are not,
    but no point is proposed twice, not even one that failed. Standard errors that are known of an objective's metrics
    are its noise. Parameter constraints of the search space, and `fixed_parameters`, hold for every point.

    Args:
        seed: a whole number; with it and the trials so far, their number decides what is proposed. None draws one.
        config: the settings of DMS; None is `DMSConfig()`.
        n_initial: evaluated and pending trials before the model is used; until then, points of a Sobol sequence.
        device: "cpu", "cuda" (or "cuda:1", ...), or "auto" for a GPU where there is one.
        threads: of the CPU that a suggestion uses.
        name: of the node, unique within its generation strategy.
        prior: by name, where the optimum is believed to be, as in `Optimizer`, but for distributions of scipy.stats,
            which Ax does not store.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        config: DMSConfig | None = None,
        n_initial: int = 10,
        device: str = "cpu",
        threads: int = 1,
        name: str = "DMS",
        prior: Mapping[str, Any] | None = None,
    ) -> None:
        settings = Settings.of(seed=seed, config=config, n_initial=n_initial, device=device, threads=threads)
        super().__init__(name=name)
        self._settings = settings
        if not isinstance(prior, Mapping | None):
            raise ConfigError(f"prior must be a dict, as in prior={{'lr': Normal(1e-3, 0.5)}}, not {prior!r:.60}")
        self._prior = {name: _as_json(name, belief) for name, belief in (prior or {}).items()}
        self._codec: _Codec | None = None
        self._history: History | None = None
        self._proposer: Proposer | None = None
        self._fixed: TParameterization = {}

    @property
    def n_initial(self) -> int:
        """Evaluated and pending trials before the model is used."""
        return self._settings.n_initial

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Read the experiment anew."""
        codec = _Codec(experiment.search_space)
        history = codec.read(experiment, data)
        is_new = (
            self._history is None or history.Y.shape[1:] != self._history.Y.shape[1:]
        )  # another number of objectives
        if self._proposer is None or is_new or codec.space != self._proposer.space:
            knowledge = Knowledge.of(codec.space, self._prior or None)
            self._proposer = Proposer(codec.space, self._settings, knowledge=knowledge)
        self._codec, self._history = codec, history

    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        """The parameters of the next trial; those just generated, which are not trials yet, are pending."""
        if self._codec is None or self._history is None or self._proposer is None:
            raise ConfigError("DMSNode proposes within a GenerationStrategy, which shows it the experiment first")
        points = [self._codec.unit(parameters) for parameters in pending_parameters]
        just_generated = self._codec.rows([point for point in points if point is not None])
        history = self._history.with_pending(just_generated)
        try:
            with self._proposer.holding(self._fixed):
                point = self._proposer.propose(history, len(history.proposed)).point
            return {**self._codec.params(point), **self._fixed}
        except SpaceExhausted as error:
            raise SearchSpaceExhausted(str(error)) from error

    def gen(self, **options: Any) -> GeneratorRun | None:
        """As Ax calls it, with the values of `fixed_parameters`, which an external node would leave out."""
        features = options.get("fixed_features")
        self._fixed = {} if features is None else dict(features.parameters)
        try:
            return super().gen(**options)
        finally:
            self._fixed = {}

    @classmethod
    def deserialize_init_args(cls, args: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        """The constructor's arguments from what `_to_json` wrote."""
        return {**args, "config": DMSConfig(**with_younger_settings(args["config"]))}


def _to_json(node: DMSNode) -> dict[str, Any]:
    return {
        "__type": "DMSNode",
        "seed": node.seed,
        "config": dataclasses.asdict(node.config),
        "n_initial": node.n_initial,
        "device": str(node.device),
        "threads": node._settings.threads,
        "name": node.name,
        "prior": node._prior,
    }


def _as_json(name: str, belief: Any) -> Any:
    """A belief as JSON keeps it: choices and their weights by name, Normal as a dict."""
    if isinstance(belief, Normal):
        return dataclasses.asdict(belief)
    if isinstance(belief, Mapping):
        return {str(key): value for key, value in belief.items()}
    if hasattr(belief, "dist"):
        raise ConfigError(f"prior: parameter {name!r}: Ax stores no distribution of scipy.stats; use Normal(mean, std)")
    return list(belief) if isinstance(belief, tuple) else belief


# Ax's storage knows classes by name alone; with these entries a client saves and loads a strategy with this node.
CORE_ENCODER_REGISTRY[DMSNode] = _to_json
CORE_DECODER_REGISTRY["DMSNode"] = DMSNode


class _Codec:
    """Between Ax's search space and ours, where all but ranges and choices is computed."""

    def __init__(self, search_space: SearchSpace) -> None:
        if search_space.is_hierarchical:
            raise SpaceError("DMSNode takes no hierarchical search space; flatten it, or use another node")
        self.search_space = search_space
        self.tuned = {
            name: parameter
            for name, parameter in search_space.parameters.items()
            if isinstance(parameter, axp.RangeParameter | axp.ChoiceParameter) and not parameter.is_disabled
        }
        if not self.tuned:
            raise SpaceError(f"every parameter of the search space is fixed: {list(search_space.parameters)}")
        self.space = Space(
            {name: _parameter(parameter) for name, parameter in self.tuned.items()},
            [self._linear(constraint) for constraint in search_space.parameter_constraints],
        )

    def _linear(self, constraint: ParameterConstraint) -> Linear:
        """Our counterpart of a constraint; what is fixed in the search space goes to the other side."""
        coefficients, bound = dict(constraint.constraint_dict), constraint.bound
        for name, parameter in self.search_space.parameters.items():
            if name in coefficients and name not in self.tuned:
                value: Any = parameter.value if isinstance(parameter, axp.FixedParameter) else parameter.default_value
                bound -= coefficients.pop(name) * value
        return Linear(coefficients, **{"equals" if constraint.is_equality else "upper": bound})

    def params(self, point: Array) -> TParameterization:
        """A point (d) as the values of all of Ax's parameters, in Ax's order."""
        values = {name: self.tuned[name].cast(value) for name, value in self.space.decode(point).items()}
        for name, parameter in self.search_space.parameters.items():
            if isinstance(parameter, axp.FixedParameter):
                values[name] = parameter.value
            elif parameter.is_disabled:
                values[name] = parameter.default_value
        for name, parameter in self.search_space.parameters.items():
            if isinstance(parameter, axp.DerivedParameter):
                values[name] = parameter.compute(values)
        return {name: values[name] for name in self.search_space.parameters}

    def unit(self, parameters: TParameterization) -> Array | None:
        """The point (d) of an arm; None where it is not in the search space."""
        values: dict[str, Any] = {}
        for name, parameter in self.tuned.items():
            value: Any = parameters.get(name, parameter.backfill_value)
            if not parameter.validate(value):
                return None
            value = parameter.cast(value)
            if isinstance(parameter, axp.RangeParameter):  # whose bounds Ax takes with a tolerance
                value = min(max(value, parameter.lower), parameter.upper)
            values[name] = value
        try:
            return self.space.encode(values)
        except ParameterError:
            return None

    def rows(self, points: list[Array]) -> Array:
        """The points as rows: k x d."""
        return np.array(points, dtype=np.float64).reshape(-1, self.space.d)

    def read(self, experiment: Experiment, data: Data) -> History:
        """All arms of the experiment that lie in its search space."""
        goals = _Goals(experiment.optimization_config)
        metrics: dict[tuple[int, str], dict[str, float]] = {}
        errors: dict[tuple[int, str], dict[str, float]] = {}
        rows: Iterable[Any] = data.df.itertuples()
        for row in rows:
            metrics.setdefault((row.trial_index, row.arm_name), {})[row.metric_signature] = row.mean
            errors.setdefault((row.trial_index, row.arm_name), {})[row.metric_signature] = row.sem
        X, Y, constraints, proposed, sem = [], [], [], [], []
        pending, lost = list[Array](), list[Array]()
        for trial in experiment.trials.values():
            for arm in trial.arms:
                point = self.unit(arm.parameters)
                if point is None:
                    continue
                proposed.append(point)
                outcomes, violations = goals.measure(metrics.get((trial.index, arm.name), {}))
                if trial.status in EVALUATED and all(map(math.isfinite, (*outcomes, *violations))):
                    X.append(point)
                    Y.append(outcomes)
                    sem.append(goals.sem(errors.get((trial.index, arm.name), {})))
                    constraints.append(violations)
                else:
                    (pending if trial.status in PENDING else lost).append(point)
        values, sems = self._table(Y, goals.count), self._table(sem, goals.count)
        return History.of(
            X,
            values if goals.count > 1 else values[:, 0],
            d=self.space.d,
            constraints=self._table(constraints, goals.q),
            pending=pending,
            lost=lost,
            proposed=proposed,
            sem=sems if goals.count > 1 else sems[:, 0],
            reference=goals.reference,
        )

    def _table(self, rows: list[list[float]], columns: int) -> Array:
        return np.array(rows, dtype=np.float64).reshape(len(rows), columns)


class _Goals:
    """What an optimization configuration asks for: objectives to maximize and q constraints.

    Attributes:
        objectives: of each, the metrics by signature with their weights.
        reference: of several objectives their thresholds, as they are maximized, NaN where there is none; None: none.
    """

    def __init__(self, configuration: OptimizationConfig | None) -> None:
        if configuration is None:
            raise ConfigError("the experiment has no objective; call client.configure_optimization first")
        for constraint in configuration.all_constraints:
            if constraint.relative:
                raise ConfigError(f"DMSNode takes no bounds relative to a baseline: {constraint.expression}")
        self.objectives, self.constraints = _weights(configuration.objective), configuration.outcome_constraints
        self.count, self.q = len(self.objectives), len(self.constraints)
        if self.count > MOST:
            raise ConfigError(f"there are {self.count} objectives, and {MOST} at the most; make some constraints")
        self.reference = self._thresholds(configuration) if self.count > 1 else None

    def _thresholds(self, configuration: OptimizationConfig) -> Array | None:
        """M; Ax has them only of objectives that are one metric."""
        bounds = {}
        for threshold in configuration.objective_thresholds:
            ((signature, factor),) = threshold.metric_weights
            bounds[signature] = threshold.bound / factor
        reference = [weight * bounds.get(signature, math.nan) for (signature, weight), *_ in self.objectives]
        return np.array(reference) if bounds else None

    def measure(self, metrics: dict[str, float]) -> tuple[list[float], list[float]]:
        """The objectives and the constraints, at most 0 where met, from the metrics' means; NaN if one is missing."""
        violations = []
        for constraint in self.constraints:
            over = _sum(constraint.metric_weights, metrics) - constraint.bound
            violations.append(over if constraint.op is ComparisonOp.LEQ else -over)
        return [_sum(weights, metrics) for weights in self.objectives], violations

    def sem(self, errors: dict[str, float]) -> list[float]:
        """The standard error of each objective, of independent metrics; NaN where one is not known."""
        return [
            math.sqrt(sum((weight * errors.get(signature, math.nan)) ** 2 for signature, weight in weights))
            for weights in self.objectives
        ]


def _weights(objective: Objective) -> list[list[tuple[str, float]]]:
    """Of each objective, which is maximized, the metrics by signature with their weights."""
    if not objective.is_multi_objective:
        return [objective.metric_weights]
    signatures: Any = objective.metric_name_to_signature
    return [
        [(signatures[name], weight) for name, weight in extract_metric_weights_from_objective_expr(part)]
        for part in parse_objective_expression(objective.expression)
    ]


def _sum(weights: list[tuple[str, float]], metrics: dict[str, float]) -> float:
    return sum(weight * metrics.get(signature, math.nan) for signature, weight in weights)


def _parameter(parameter: axp.RangeParameter | axp.ChoiceParameter) -> Parameter:
    """Our counterpart of a parameter; SpaceError, naming it, when there is none."""
    if parameter.is_fidelity or (isinstance(parameter, axp.ChoiceParameter) and parameter.is_task):
        raise SpaceError(f"parameter {parameter.name!r}: DMSNode takes no fidelity or task parameters")
    if isinstance(parameter, axp.ChoiceParameter):
        # Ax takes any two values for ordered, of which that says nothing.
        return Categorical(parameter.values, ordered=bool(parameter.is_ordered) and len(parameter.values) > 2)
    if parameter.logit_scale:
        raise SpaceError(f"parameter {parameter.name!r}: DMSNode takes a linear or a log scale, not a logit scale")
    if parameter.parameter_type is axp.ParameterType.INT:
        return Int(int(parameter.lower), int(parameter.upper), log=parameter.log_scale)
    step = None if parameter.digits is None or parameter.log_scale else 10.0**-parameter.digits
    return Float(parameter.lower, parameter.upper, log=parameter.log_scale, step=step)
