"""The synthetic problems: their formulas, written again from the literature, their optima, and the paper's facts."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from modeseek.bench.tasks import Problem, find_task, task_names
from modeseek.design import sobol
from modeseek.errors import ConfigError, ParameterError

Array = NDArray[np.float64]


def styblinski_tang(x: Array) -> float:
    return float(sum(t**4 - 16 * t**2 + 5 * t for t in x) / 2)


def griewank(x: Array) -> float:
    product = math.prod(math.cos(t / math.sqrt(i)) for i, t in enumerate(x, 1))
    return float(1 + sum(t**2 for t in x) / 4000 - product)


def shekel(x: Array) -> float:
    C = np.array(
        [[4, 4], [1, 1], [8, 8], [6, 6], [3, 7], [2, 9], [5, 3], [8, 1], [6, 2], [7, 3.6]],
    )
    beta = [0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5]
    return -float(sum(1 / (((x - np.tile(c, 2)) ** 2).sum() + b) for c, b in zip(C, beta, strict=True)))


def rastrigin(x: Array) -> float:
    return float(sum(t**2 - 10 * math.cos(2 * math.pi * t) + 10 for t in x))


def rosenbrock(x: Array) -> float:
    return float(sum(100 * (b - a**2) ** 2 + (a - 1) ** 2 for a, b in pairwise(x)))


def ackley(x: Array) -> float:
    root, waves = math.sqrt(np.mean(x**2)), np.mean(np.cos(2 * np.pi * x))
    return float(-20 * math.exp(-0.2 * root) - math.exp(waves) + 20 + math.e)


def levy(x: Array) -> float:
    w = 1 + (x - 1) / 4
    middle = sum((v - 1) ** 2 * (1 + 10 * math.sin(math.pi * v + 1) ** 2) for v in w[:-1])
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + middle + last)


def michalewicz(x: Array) -> float:
    return -sum(math.sin(t) * math.sin(i * t**2 / math.pi) ** 20 for i, t in enumerate(x, 1))


FORMULAS = (styblinski_tang, griewank, shekel, rastrigin, rosenbrock, ackley, levy, michalewicz)

# name: the box's edges, optimum; n, B, replications; m, K, S as in Table 2
FACTS: dict[str, tuple[float, float, float, int, int, int, int, int, int]] = {
    "styblinski-tang-2": (-5, 5, 2 * 39.1661657, 20, 40, 30, 500, 5, 200),
    "griewank-3": (-600, 600, 0, 30, 50, 30, 500, 5, 200),
    "shekel-4": (0, 10, 10.5364432, 40, 60, 30, 500, 5, 200),
    "rastrigin-5": (-5.12, 5.12, 0, 50, 70, 30, 800, 5, 300),
    "rosenbrock-7": (-2.048, 2.048, 0, 70, 90, 30, 800, 5, 300),
    "ackley-8": (-32.768, 32.768, 0, 80, 100, 30, 800, 25, 300),
    "levy-10": (-10, 10, 0, 100, 120, 30, 800, 25, 300),
    "michalewicz-10": (0, math.pi, 9.6601517, 100, 120, 30, 800, 25, 300),
    "ackley-20": (-32.768, 32.768, 0, 200, 200, 10, 1200, 25, 400),
    "levy-20": (-10, 10, 0, 200, 200, 10, 1200, 25, 400),
    "ackley-50": (-32.768, 32.768, 0, 500, 500, 10, 1500, 25, 400),
    "levy-50": (-10, 10, 0, 500, 500, 10, 1500, 25, 400),
}


@pytest.fixture(params=FACTS)
def problem(request: pytest.FixtureRequest) -> Problem:
    return find_task(request.param)


def formula(problem: Problem) -> Callable[[Array], float]:
    return {f.__name__: f for f in FORMULAS}[problem.name.rpartition("-")[0].replace("-", "_")]


def points(problem: Problem, n: int) -> torch.Tensor:
    return sobol(n, problem.d, torch.Generator().manual_seed(0))


def test_facts_are_the_papers(problem: Problem) -> None:
    low, high, optimum, n, budget, replications, m, K, S = FACTS[problem.name]
    assert problem.d == int(problem.name.rpartition("-")[2])
    assert problem.space.decode(np.zeros(problem.d)).tolist() == [low] * problem.d
    assert problem.space.decode(np.ones(problem.d)).tolist() == [high] * problem.d
    assert problem.optimum == pytest.approx(optimum, abs=1e-6)
    assert problem.true_optimum == problem.optimum
    assert (problem.n_initial, problem.budget, problem.replications) == (n, budget, replications)
    assert problem.noise == 0.1
    config = problem.config()
    assert (config.name, config.m, config.K, config.S) == ("dms-paper", m, K, S)


def test_values_are_the_negated_formula(problem: Problem) -> None:
    f = formula(problem)
    for u in points(problem, 64).numpy():
        x = problem.space.decode(u)
        assert problem.value(x) == pytest.approx(-f(x), rel=1e-7, abs=1e-9)


def test_batched_values_equal_single_ones(problem: Problem) -> None:
    assert problem.values is not None
    U = points(problem, 24)
    single = [problem.value(problem.space.decode(u)) for u in U.numpy()]
    batched = problem.values(U.view(2, 3, 4, -1))
    assert batched.shape == (2, 3, 4)
    assert batched.dtype == torch.float64
    np.testing.assert_allclose(batched.flatten(), single, rtol=1e-12)
    corners = torch.stack([torch.zeros(problem.d), torch.ones(problem.d)])
    assert problem.values(corners).isfinite().all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_batched_values_stay_on_their_device(problem: Problem) -> None:
    assert problem.values is not None
    U = points(problem, 8)
    here, there = problem.values(U), problem.values(U.cuda())
    assert there.device.type == "cuda"
    torch.testing.assert_close(there.cpu(), here)


def test_the_optimum_is_attained_at_the_optimizers(problem: Problem) -> None:
    assert problem.optimizers
    for x in problem.optimizers:
        assert problem.value(x) == pytest.approx(problem.optimum, abs=1e-8)
        assert 0 <= problem.regret(x) < 1e-8


def test_the_optimum_is_never_exceeded(problem: Problem) -> None:
    """Not on Sobol points, nor where SciPy climbs to from the best of them and from beside the optimizer."""
    assert problem.values is not None
    U = points(problem, 4096)
    values = problem.values(U)
    assert values.max() < problem.optimum
    optimizer = torch.from_numpy(problem.space.encode(problem.optimizers[0]))
    beside = (optimizer + 1e-3 * (U[:2] - 0.5)).clamp(0, 1)
    climbed = torch.tensor([climb(problem, u.numpy()) for u in torch.cat([U[values.topk(4).indices], beside])])
    assert climbed.max() <= problem.optimum + 1e-9
    assert (climbed[-2:] > problem.optimum - 0.01).all()


def climb(problem: Problem, u: Array) -> float:
    return -float(minimize(negative, u, (problem,), jac=True, bounds=[(0, 1)] * problem.d).fun)


def negative(u: Array, problem: Problem) -> tuple[float, Array]:
    U = torch.from_numpy(u).requires_grad_()
    assert problem.values is not None
    y = -problem.values(U)
    (gradient,) = torch.autograd.grad(y, U)
    return y.item(), gradient.nan_to_num().numpy()


def test_observations_have_the_papers_noise(problem: Problem) -> None:
    x = problem.optimizers[0]
    rng = np.random.default_rng(0)
    noise = np.array([problem.evaluate(x, rng) for _ in range(400)]) - problem.value(x)
    assert abs(noise.mean()) < 0.02
    assert 0.09 < noise.std() < 0.11
    assert problem.evaluate(x, np.random.default_rng(3)) == problem.evaluate(x, np.random.default_rng(3))


def test_points_outside_the_box_are_refused(problem: Problem) -> None:
    _, high, *_ = FACTS[problem.name]
    for bad in ([high + 1e-3] * problem.d, [math.nan] * problem.d, [0.0] * (problem.d + 1)):
        with pytest.raises(ParameterError):
            problem.value(bad)
        with pytest.raises(ParameterError):
            problem.evaluate(bad, np.random.default_rng(0))
        with pytest.raises(ParameterError):
            problem.regret(bad)


def test_names_are_in_the_papers_order() -> None:
    assert task_names() == [*FACTS, "wine", "vehicle", "image-segmentation", "protein-structure"]
    assert [find_task(name).name for name in task_names()] == task_names()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("levi-10", "levy-10"),
        ("Levy-10", "levy-10"),
        ("styblinski_tang_2", "styblinski-tang-2"),
        ("segment", "image-segmentation"),
        ("protein", "protein-structure"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean .*'{near}'.*known are styblinski-tang-2"):
        find_task(name)


@pytest.mark.parametrize("name", ["", "nothing like it", None, 3, ["levy-10"]])
def test_what_is_no_name_gets_the_list(name: object) -> None:
    with pytest.raises(ConfigError, match=r"known are styblinski-tang-2, .*protein-structure"):
        find_task(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", task_names())
def test_problems_survive_pickling(name: str) -> None:
    problem = find_task(name)
    again = pickle.loads(pickle.dumps(problem))
    assert again.name == name
    assert again.space == problem.space
    if problem.values is not None:
        U = points(problem, 3)
        assert again.values(U).equal(problem.values(U))
