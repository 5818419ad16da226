"""Optimizers of several outcomes behind one interface, for studies: points of the unit cube, everything minimized.

Each gets the same Sobol design first, then proposes one point after the other.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
from botorch.acquisition.logei import qLogProbabilityOfFeasibility
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.models import ModelListGP
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from modeseek import Space
from modeseek.bench.methods.botorch_methods import botorch_model
from modeseek.computing import computing
from modeseek.design import sobol
from modeseek.history import History
from modeseek.map_fit import fit
from modeseek.proposer import Proposer, propose_all
from modeseek.settings import Settings
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


Runs: TypeAlias = "Callable[[Task, Sequence[int], int], Iterable[dict[str, Any]]]"  # of some seeds, with evaluations


class Contender(Protocol):
    """One run of one optimizer."""

    def ask(self) -> Array:
        """The next point, d."""

    def tell(self, x: Array, values: Array, constraints: Array) -> None:
        """What was measured there; also where it was not asked for."""


class Optuna:
    """A sampler of Optuna's, in a study of its own."""

    def __init__(self, task: Task, kind: str, seed: int, **settings: Any) -> None:
        import optuna

        sampler = getattr(optuna.samplers, kind)(seed=seed, **settings)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        self._study = optuna.create_study(directions=["minimize"] * task.objectives, sampler=sampler)
        self._distributions: Any = {f"x{i}": optuna.distributions.FloatDistribution(0, 1) for i in range(task.d)}
        self._asked: Any = None

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
    return Optuna(task, "GPSampler", seed, n_startup_trials=START, deterministic_objective=True)


def nsga2(task: Task, seed: int) -> Optuna:
    """Optuna's NSGA-II; its populations of 50 are too large for some 60 evaluations."""
    return Optuna(task, "NSGAIISampler", seed, population_size=START)


def tpe(task: Task, seed: int) -> Optuna:
    """Optuna's TPE."""
    return Optuna(task, "TPESampler", seed, n_startup_trials=START)


Record = dict[str, Any]  # task, method, seed, values, constraints, seconds per proposal


def one_by_one(method: Callable[[Task, int], Contender]) -> Runs:
    """Runs of a method, one seed after the other."""
    return lambda task, seeds, evaluations: (run(task, method, seed, evaluations) for seed in seeds)


def modeseek(device: str) -> Runs:
    """Our default settings: all seeds side by side, as a campaign has it."""

    def runs(task: Task, seeds: Sequence[int], evaluations: int) -> Iterator[Record]:
        space = Space.box([0] * task.d, [1] * task.d)
        proposers = [Proposer(space, Settings.of(seed=seed, n_initial=START, device=device)) for seed in seeds]
        X = [list(design(task, seed)) for seed in seeds]
        found = [[task.evaluate(x) for x in points] for points in X]
        began = time.perf_counter()
        reference = None if task.reference is None else -task.reference
        for i in range(START, evaluations):
            histories = []
            for points, outcomes in zip(X, found, strict=True):
                values, limits = (np.array(part) for part in zip(*outcomes, strict=True))
                Y = -values if task.objectives > 1 else -values[:, 0]
                histories.append(History.of(points, Y, constraints=limits, reference=reference))
            for row, proposal in enumerate(propose_all(proposers, histories, i)):
                X[row].append(proposal.point)
                found[row].append(task.evaluate(proposal.point))
        seconds = (time.perf_counter() - began) / (evaluations - START) / len(seeds)
        for seed, outcomes in zip(seeds, found, strict=True):
            values, limits = ([part.tolist() for part in column] for column in zip(*outcomes, strict=True))
            yield {"seed": seed, "values": values, "constraints": limits, "seconds": seconds}

    return runs


def design(task: Task, seed: int) -> Array:
    """The points that every method starts from, START x d."""
    return sobol(START, task.d, torch.Generator().manual_seed(seed), (1,))[0].numpy()


def run(task: Task, method: Callable[[Task, int], Contender], seed: int, evaluations: int) -> Record:
    """One run: the outcomes in order, and the seconds per proposal."""
    contender, start = method(task, seed), design(task, seed)
    values, constraints, seconds = [], [], 0.0
    for i in range(evaluations):
        began = time.perf_counter()
        x = start[i] if i < START else contender.ask()
        seconds += time.perf_counter() - began
        outcome, limits = task.evaluate(x)
        contender.tell(x, outcome, limits)
        values.append(outcome.tolist())
        constraints.append(limits.tolist())
    proposals = max(evaluations - START, 1)
    return {"seed": seed, "values": values, "constraints": constraints, "seconds": seconds / proposals}


def runs(
    tasks: Sequence[Task], methods: dict[str, Runs], seeds: Sequence[int], evaluations: int, path: Path
) -> list[Record]:
    """Every method on every task with every seed; those that the file of results has are not run again."""
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for task in tasks:
        for name, method in methods.items():
            there = {r["seed"] for r in records if (r["task"], r["method"]) == (task.name, name)}
            if left := [seed for seed in seeds if seed not in there]:
                for record in method(task, left, evaluations):
                    records.append({"task": task.name, "method": name, **_rounded(record)})
                    with path.open("a") as file:
                        file.write(json.dumps(records[-1]) + "\n")
    return records


def _rounded(value: Any) -> Any:
    """With eight significant digits."""
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def asked_for(
    name: str,
    description: str | None,
    problems: Mapping[str, Any],
    task: Callable[[str, Any], Task],
    others: Mapping[str, Callable[[Task, int], Contender]],
    evaluations: int,
) -> dict[tuple[str, str], list[Record]]:
    """What the command line asks for, run as far as it has not been: by problem and method, those that have a run."""
    methods = ["modeseek", *others]
    parser = argparse.ArgumentParser(description=description)
    default = Path(__file__).parent / "runs" / f"{name}.jsonl"
    parser.add_argument("--out", type=Path, default=default, help="a file that runs are added to, and read from")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--device", default="cpu", help="of modeseek")
    parser.add_argument("--methods", nargs="+", default=methods, choices=methods)
    parser.add_argument("--problems", nargs="+", default=list(problems), choices=problems)
    args = parser.parse_args()
    available = {"modeseek": modeseek(args.device), **{name: one_by_one(method) for name, method in others.items()}}
    tasks = [task(name, problems[name]) for name in args.problems]
    chosen = {name: available[name] for name in args.methods}
    records = runs(tasks, chosen, args.seeds, evaluations, args.out)
    found = {
        (name, method): [r for r in records if (r["task"], r["method"]) == (name, method) and r["seed"] in args.seeds]
        for name in args.problems
        for method in args.methods
    }
    return {key: rows for key, rows in found.items() if rows}


def on_the_unit_cube(bounds: Any) -> Callable[[Array], Tensor]:
    """From the cube to the box of a test function."""
    low, high = torch.as_tensor(bounds, dtype=torch.float64)
    return lambda x: low + (high - low) * torch.from_numpy(np.asarray(x, dtype=np.float64))
