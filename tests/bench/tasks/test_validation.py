"""The validation set: optima that are attained and never exceeded, formulas written again, rotations, and facts."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import botorch.test_functions.synthetic as botorch_functions
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from modeseek.bench.tasks import Problem, find_task, task_names, validation_names
from modeseek.bench.tasks.synthetic import OnBox
from modeseek.bench.tasks.validation import Rotated, rotation
from modeseek.design import sobol
from modeseek.errors import ConfigError

Array = NDArray[np.float64]

# name: the box's edges, all evaluations, those of them that are initial, noise
FACTS: dict[str, tuple[list[float], list[float], int, int, float]] = {
    "gramacy-lee-1": ([0.5], [2.5], 30, 5, 0.0),
    "branin-2": ([-5, 0], [10, 15], 30, 7, 0.0),
    "six-hump-camel-2": ([-3, -2], [3, 2], 30, 7, 0.1),
    "drop-wave-2": ([-5.12] * 2, [5.12] * 2, 100, 7, 0.0),
    "eggholder-2": ([-512] * 2, [512] * 2, 100, 7, 1.0),
    "hartmann-3": ([0] * 3, [1] * 3, 30, 9, 0.05),
    "rotated-rastrigin-4": ([-5.12] * 4, [5.12] * 4, 100, 11, 0.0),
    "rotated-griewank-4": ([-100] * 4, [100] * 4, 100, 11, 0.1),
    "rotated-rosenbrock-5": ([-2.048] * 5, [2.048] * 5, 100, 13, 0.0),
    "hartmann-6": ([0] * 6, [1] * 6, 100, 15, 0.0),
    "zakharov-6": ([-5] * 6, [10] * 6, 100, 15, 0.1),
    "rotated-ackley-6": ([-32.768] * 6, [32.768] * 6, 100, 15, 0.1),
    "cosine-8": ([-1] * 8, [1] * 8, 100, 19, 0.05),
    "rotated-levy-8": ([-10] * 8, [10] * 8, 100, 19, 0.0),
    "dixon-price-10": ([-10] * 10, [10] * 10, 100, 23, 0.1),
    "rotated-levy-30": ([-10] * 30, [10] * 30, 100, 30, 0.0),
    "rotated-styblinski-tang-3": ([-5] * 3, [5] * 3, 100, 9, 0.1),
    "bukin-2": ([-15, -3], [-5, 3], 30, 7, 0.0),
    "holder-table-2": ([-10] * 2, [10] * 2, 30, 7, 0.1),
    "schwefel-3": ([-500] * 3, [500] * 3, 100, 9, 1.0),
    "alpine-5": ([-5] * 5, [10] * 5, 100, 13, 0.0),
    "trid-6": ([-36] * 6, [36] * 6, 30, 15, 0.1),
    "salomon-8": ([-50] * 8, [100] * 8, 100, 19, 0.05),
    "rotated-rosenbrock-12": ([-2.048] * 12, [2.048] * 12, 100, 27, 0.0),
    "rotated-levy-15": ([-10] * 15, [10] * 15, 100, 30, 0.1),
}
ROTATED = [name for name in FACTS if name.startswith("rotated")]

# The optima as BoTorch prints them, rounded; Cosine8 is to be maximized there, too.
PRINTED = {
    "branin-2": -botorch_functions.Branin().optimal_value,
    "six-hump-camel-2": -botorch_functions.SixHumpCamel().optimal_value,
    "drop-wave-2": -botorch_functions.DropWave().optimal_value,
    "eggholder-2": -botorch_functions.EggHolder().optimal_value,
    "hartmann-3": -botorch_functions.Hartmann(3).optimal_value,
    "hartmann-6": -botorch_functions.Hartmann(6).optimal_value,
    "cosine-8": botorch_functions.Cosine8().optimal_value,
    "rotated-styblinski-tang-3": -botorch_functions.StyblinskiTang(3).optimal_value,
    "bukin-2": -botorch_functions.Bukin().optimal_value,
    "holder-table-2": -botorch_functions.HolderTable().optimal_value,
}


@pytest.fixture(params=FACTS)
def problem(request: pytest.FixtureRequest) -> Problem:
    return find_task(request.param)


def points(problem: Problem, n: int) -> torch.Tensor:
    return sobol(n, problem.d, torch.Generator().manual_seed(0))


def rotated(name: str) -> Rotated:
    f = find_task(name).f
    assert isinstance(f, OnBox)
    assert isinstance(f.function, Rotated)
    return f.function


def test_facts(problem: Problem) -> None:
    low, high, total, n_initial, noise = FACTS[problem.name]
    assert problem.d == int(problem.name.rpartition("-")[2])
    assert problem.space.decode(np.zeros(problem.d)).tolist() == low
    assert problem.space.decode(np.ones(problem.d)).tolist() == high
    assert (problem.n_initial, problem.n_initial + problem.budget) == (n_initial, total)
    assert (problem.noise, problem.replications) == (noise, 10)
    assert problem.true_optimum == problem.optimum
    assert problem.config().name == "dms-paper"


def test_the_two_sets_have_no_name_in_common() -> None:
    assert validation_names() == list(FACTS)
    assert [find_task(name).name for name in FACTS] == list(FACTS)
    assert set(FACTS).isdisjoint(task_names())
    assert len(task_names()) == 16


def test_the_documentation_lists_them(problem: Problem) -> None:
    text = (Path(__file__).parents[3] / "docs" / "problems.md").read_text()
    (line,) = re.findall(rf"^\| `{problem.name}` \| (.+) \|$", text, flags=re.MULTILINE)
    d, _, optimum, noise, n, B = line.split(" | ")
    assert (int(d), float(noise), int(n), int(B)) == (problem.d, problem.noise, problem.n_initial, problem.budget)
    assert float(optimum.replace("−", "-")) == pytest.approx(problem.optimum, rel=1e-8)


def test_the_nearest_name_may_be_of_either_set() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'hartmann-6'.*\? known are .*validation"):
        find_task("Hartman_6")


def test_the_optimum_is_attained_at_the_optimizers(problem: Problem) -> None:
    assert problem.optimizers
    for x in problem.optimizers:
        assert problem.value(x) == pytest.approx(problem.optimum, rel=1e-6, abs=1e-9)
        assert 0 <= problem.regret(x) < 1e-9


@pytest.mark.parametrize("name", PRINTED)
def test_the_optimum_is_the_one_that_botorch_prints(name: str) -> None:
    assert find_task(name).optimum == pytest.approx(PRINTED[name], rel=3e-5)


def test_no_sobol_point_is_above_the_optimum(problem: Problem) -> None:
    assert problem.values is not None
    assert problem.values(points(problem, 4096)).max() < problem.optimum


def test_nothing_near_an_optimizer_is_above_it(problem: Problem) -> None:
    """SciPy climbs from beside each optimizer, in a small box around it, to the optimum and no further."""
    rng = np.random.default_rng(0)
    for x in problem.optimizers:
        u = problem.space.encode(x)
        beside = np.clip(u + 1e-3 * (rng.random(problem.d) - 0.5), 0, 1)
        bounds = np.clip([u - 1e-3, u + 1e-3], 0, 1).T
        top = -minimize(negative, beside, (problem,), jac=True, bounds=bounds).fun
        assert problem.optimum - 0.01 < top <= problem.optimum + 1e-9


def negative(u: Array, problem: Problem) -> tuple[float, Array]:
    U = torch.from_numpy(u).requires_grad_()
    assert problem.values is not None
    y = -problem.values(U)
    (gradient,) = torch.autograd.grad(y, U)
    return y.item(), gradient.nan_to_num().numpy()


def test_batched_values_equal_single_ones(problem: Problem) -> None:
    assert problem.values is not None
    U = torch.cat([points(problem, 22), torch.zeros(1, problem.d), torch.ones(1, problem.d)])
    single = [problem.value(problem.space.decode(u)) for u in U.numpy()]
    batched = problem.values(U.view(2, 3, 4, -1))
    assert batched.shape == (2, 3, 4)
    assert batched.dtype == torch.float64
    np.testing.assert_allclose(batched.flatten(), single, rtol=1e-10)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_batched_values_stay_on_their_device(problem: Problem) -> None:
    assert problem.values is not None
    U = points(problem, 8)
    here, there = problem.values(U), problem.values(U.cuda())
    assert there.device.type == "cuda"
    torch.testing.assert_close(there.cpu(), here)


def gramacy_lee(x: Array) -> float:
    return float(math.sin(10 * math.pi * x[0]) / (2 * x[0]) + (x[0] - 1) ** 4)


def zakharov(x: Array) -> float:
    weighted = sum(0.5 * i * t for i, t in enumerate(x, 1))
    return float(sum(t**2 for t in x) + weighted**2 + weighted**4)


def branin(x: Array) -> float:
    parabola = x[1] - 5.1 * x[0] ** 2 / (4 * math.pi**2) + 5 * x[0] / math.pi - 6
    return float(parabola**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10)


def cosine(x: Array) -> float:
    return float(sum(t**2 - 0.1 * math.cos(5 * math.pi * t) for t in x))


def bukin(x: Array) -> float:
    return float(100 * np.sqrt(abs(x[1] - x[0] ** 2 / 100)) + abs(x[0] + 10) / 100)


def holder_table(x: Array) -> float:
    return float(-abs(np.sin(x[0]) * np.cos(x[1])) * np.exp(abs(1 - np.hypot(x[0], x[1]) / np.pi)))


def schwefel(x: Array) -> float:
    return float(sum(418.98288727243371 - t * math.sin(math.sqrt(abs(t))) for t in x))


def alpine(x: Array) -> float:
    return float(sum(abs(t) * abs(math.sin(t) + 0.1) for t in x))


def trid(x: Array) -> float:
    """50 less than a positive definite form around the optimizer."""
    A = 2 * np.eye(6) - np.eye(6, k=1) - np.eye(6, k=-1)
    z = x - np.array([6, 10, 12, 12, 10, 6])
    return float(z @ A @ z / 2 - 50)


def salomon(x: Array) -> float:
    norm = np.sqrt(x @ x)
    return float(2 * np.sin(np.pi * norm) ** 2 + norm / 10)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gramacy-lee-1", gramacy_lee),
        ("zakharov-6", zakharov),
        ("branin-2", branin),
        ("cosine-8", cosine),
        ("bukin-2", bukin),
        ("holder-table-2", holder_table),
        ("schwefel-3", schwefel),
        ("alpine-5", alpine),
        ("trid-6", trid),
        ("salomon-8", salomon),
    ],
)
def test_values_are_the_negated_formula(name: str, formula: Callable[[Array], float]) -> None:
    problem = find_task(name)
    for u in points(problem, 64).numpy():
        x = problem.space.decode(u)
        assert problem.value(x) == pytest.approx(-formula(x), rel=1e-9, abs=1e-12)


def test_gramacy_lees_minimum_is_the_published_one() -> None:
    problem = find_task("gramacy-lee-1")
    assert problem.optimizers[0][0] == pytest.approx(0.548563, abs=1e-6)
    assert problem.optimum == pytest.approx(0.869011, abs=1e-6)


def test_alpine_has_other_optimizers() -> None:
    """Any coordinate may be one of five others, where sin x = −0.1."""
    a, problem = math.asin(0.1), find_task("alpine-5")
    others = [-math.pi + a, -a, math.pi + a, 2 * math.pi - a, 3 * math.pi + a]
    assert problem.value(np.array(others)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ROTATED)
def test_a_rotation_is_orthogonal_and_the_optimum_is_in_the_middle_of_the_box(name: str) -> None:
    problem, f = find_task(name), rotated(name)
    R = rotation(problem.d, f.seed)
    np.testing.assert_allclose(R @ R.T, np.eye(problem.d), atol=1e-12)
    assert abs(R).max() < 1, "no axis is kept"
    u = problem.space.encode(problem.optimizers[0])
    assert ((u > 0.2) & (u < 0.8)).all()
    assert u.std() > 0.01, "nor is the diagonal"


@pytest.mark.parametrize("name", ROTATED)
def test_a_rotated_function_is_the_moved_one(name: str) -> None:
    """A step from the optimum along an axis of the box is one along a column of R."""
    problem, f = find_task(name), rotated(name)
    g: Any = f.g.kind
    g = g(dim=problem.d, negate=True)
    R = torch.from_numpy(rotation(problem.d, f.seed))
    for i, axis in enumerate(np.eye(problem.d)):
        x = np.array(problem.optimizers[0]) + 0.1 * axis
        z = torch.tensor(f.z, dtype=torch.float64) + 0.1 * R[:, i]
        assert problem.value(x) == pytest.approx(g(z).item(), rel=1e-9)


def test_rotations_are_uniform() -> None:
    """The entries of a uniform orthogonal matrix have mean 0 and variance 1/d."""
    entries = np.array([rotation(3, seed) for seed in range(2000)])
    assert abs(entries.mean(axis=0)).max() < 4 * math.sqrt(1 / 3 / 2000)
    assert abs((entries**2).mean(axis=0) - 1 / 3).max() < 0.03


def test_rotations_of_tasks_differ() -> None:
    assert len({rotated(name).seed for name in ROTATED}) == len(ROTATED)


def test_problems_survive_pickling(problem: Problem) -> None:
    again = pickle.loads(pickle.dumps(problem))
    assert again.name == problem.name
    assert again.space == problem.space
    assert problem.values is not None
    U = points(problem, 3)
    assert again.values(U).equal(problem.values(U))
    x = problem.space.decode(U[0].numpy())
    assert again.value(x) == problem.value(x)
