"""Optimizers of several outcomes behind one interface, for studies: points of the unit cube, everything minimized.

Each gets the same Sobol design first, then proposes one point after the other.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import optuna
import torch
from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
from botorch.acquisition.logei import qLogProbabilityOfFeasibility
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.models import ModelListGP
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from modeseek import Optimizer, Space
from modeseek.bench.methods.botorch_methods import botorch_model
from modeseek.computing import computing
from modeseek.design import sobol
from modeseek.surrogate import fit
from modeseek.typing import Array

START = 10  # points of the common design
RESTARTS, RAW_SAMPLES, STEPS = 5, 256, 100  # of `optimize_acqf`
SAMPLES = 64  # of qLogNEHVI


class Task(NamedTuple):
    """What is to be minimized on the unit cube: a point (d) to objectives (M) and constraints (q, feasible at <= 0)."""

    name: str
    d: int
    objectives: int
    constraints: int
    evaluate: Callable[[Array], tuple[Array, Array]]
    reference: Array | None = None  # of the hypervolume


class Contender(Protocol):
    """One run of one optimizer."""

    def ask(self) -> Array:
        """The next point, d."""

    def tell(self, x: Array, values: Array, constraints: Array) -> None:
        """What was measured there; also where it was not asked for."""


class Modeseek:
    """`Optimizer` with its default settings."""

    def __init__(self, task: Task, seed: int) -> None:
        several: dict[str, Any] = {"direction": ["minimize"] * task.objectives, "reference": task.reference}
        self._opt = Optimizer(
            Space.box([0] * task.d, [1] * task.d), seed=seed, n_initial=START, **several if task.objectives > 1 else {}
        )
        self._asked: Any = None

    def ask(self) -> Array:
        """The next point, d."""
        self._asked = self._opt.ask()
        return np.asarray(self._asked.params)

    def tell(self, x: Array, values: Array, constraints: Array) -> None:
        """What was measured."""
        given = {"constraints": constraints} if len(constraints) else {}
        value = values if len(values) > 1 else values[0]
        if self._asked is None:
            self._opt.tell_params(x, value, **given)
        else:
            self._opt.tell(self._asked, value, **given)
        self._asked = None


class Optuna:
    """A sampler of Optuna's, in a study of its own."""

    def __init__(self, task: Task, sampler: optuna.samplers.BaseSampler) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        self._study = optuna.create_study(directions=["minimize"] * task.objectives, sampler=sampler)
        self._distributions: Any = {f"x{i}": optuna.distributions.FloatDistribution(0, 1) for i in range(task.d)}
        self._asked: optuna.Trial | None = None

    def ask(self) -> Array:
        """The next point, d."""
        self._asked = self._study.ask(self._distributions)
        return np.array([self._asked.params[name] for name in self._distributions])

    def tell(self, x: Array, values: Array, constraints: Array) -> None:
        """What was measured."""
        if self._asked is None:
            self._study.enqueue_trial({f"x{i}": float(v) for i, v in enumerate(x)})
            self._asked = self._study.ask(self._distributions)
        for i, value in enumerate(constraints):
            self._asked.set_constraint(f"g{i}", float(value))
        self._study.tell(self._asked, [float(value) for value in values])
        self._asked = None


class BoTorch:
    """A Gaussian process per outcome; constrained LogEI for one objective, qLogNEHVI for several.

    Nothing feasible yet: the logarithm of the probability of being feasible. The models are BoTorch's `SingleTaskGP`
    on standardized outcomes, fitted by our `fit`, which is faster and ends at the same optimum.
    """

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._x: list[Array] = []
        self._outcomes: list[Array] = []

    def tell(self, x: Array, values: Array, constraints: Array) -> None:
        """What was measured."""
        self._x.append(x)
        self._outcomes.append(np.concatenate([-values, constraints]))

    def ask(self) -> Array:
        """The next point, d."""
        torch.manual_seed(1000 * self._seed + len(self._x))
        with computing(torch.device("cpu"), 1), warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            bounds = torch.tensor([[0.0] * self._task.d, [1.0] * self._task.d], dtype=torch.float64)
            x, _ = optimize_acqf(
                self._acquisition(),
                bounds,
                1,
                num_restarts=RESTARTS,
                raw_samples=RAW_SAMPLES,
                options={"maxiter": STEPS},
            )
        return np.asarray(x[0].numpy())

    def _acquisition(self) -> Any:
        X, Y = torch.tensor(np.array(self._x)), torch.tensor(np.array(self._outcomes))
        M, outcomes = self._task.objectives, Y.shape[1]
        mean, std = Y.mean(0), Y.std(0).clamp_min(1e-12)
        Y = (Y - mean) / std
        zero = -mean / std
        models = [botorch_model(fit(X[None], Y[None, :, i])) for i in range(outcomes)]
        model = ModelListGP(*models)
        if M > 1:
            reference = (-torch.as_tensor(self._task.reference) - mean) / std
            sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=len(self._x))
            return qLogNoisyExpectedHypervolumeImprovement(model, reference, X, sampler=sampler, prune_baseline=True)
        feasible = (Y[:, M:] <= zero[M:]).all(1)
        if not bool(feasible.any()):
            limits: list[Any] = [lambda Z, i=i: Z[..., i] - zero[i] for i in range(M, outcomes)]
            return qLogProbabilityOfFeasibility(model, limits)
        bounds: dict[int, Any] = {i: (None, float(zero[i])) for i in range(M, outcomes)}
        return LogConstrainedExpectedImprovement(model, Y[feasible, 0].max(), 0, bounds)


def gp_sampler(task: Task, seed: int) -> Optuna:
    """Optuna's GPSampler."""
    return Optuna(task, optuna.samplers.GPSampler(seed=seed, n_startup_trials=START, deterministic_objective=True))


def nsga2(task: Task, seed: int) -> Optuna:
    """Optuna's NSGA-II; its populations of 50 are too large for some 60 evaluations."""
    return Optuna(task, optuna.samplers.NSGAIISampler(seed=seed, population_size=START))


def tpe(task: Task, seed: int) -> Optuna:
    """Optuna's TPE."""
    return Optuna(task, optuna.samplers.TPESampler(seed=seed, n_startup_trials=START))


def run(task: Task, method: Callable[[Task, int], Contender], seed: int, evaluations: int) -> dict[str, Any]:
    """One run: the outcomes in order, and the seconds per proposal."""
    contender = method(task, seed)
    design = sobol(START, task.d, torch.Generator().manual_seed(seed), (1,))[0].numpy()
    values, constraints, seconds = [], [], 0.0
    for i in range(evaluations):
        began = time.perf_counter()
        x = design[i] if i < START else contender.ask()
        outcome, limits = task.evaluate(x)
        contender.tell(x, outcome, limits)
        seconds += time.perf_counter() - began
        values.append(outcome.tolist())
        constraints.append(limits.tolist())
    return {"values": values, "constraints": constraints, "seconds": seconds / max(evaluations - START, 1)}


def runs(
    tasks: Sequence[Task],
    methods: dict[str, Callable[[Task, int], Contender]],
    seeds: Iterable[int],
    evaluations: int,
    path: Path,
) -> list[dict[str, Any]]:
    """Every method on every task with every seed; those that the file of results has are not run again."""
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    there = {(r["task"], r["method"], r["seed"]) for r in records}
    for seed in seeds:
        for task in tasks:
            for name, method in methods.items():
                if (task.name, name, seed) in there:
                    continue
                record = {"task": task.name, "method": name, "seed": seed, **run(task, method, seed, evaluations)}
                records.append(record)
                with path.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    return records


def on_the_unit_cube(bounds: Any) -> Callable[[Array], Tensor]:
    """From the cube to the box of a test function."""
    low, high = torch.as_tensor(bounds, dtype=torch.float64)
    return lambda x: low + (high - low) * torch.from_numpy(np.asarray(x, dtype=np.float64))
