"""Parameters that exist only under a choice: spaces, their points, and what the surrogate sees of them."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared import CHEAP, SMALLEST, generator

from modeseek import Categorical, DMSConfig, Float, Int, Optimizer, ParameterError, Space, SpaceError, minimize
from modeseek.branches import Branches, log_h
from modeseek.conditions import ABSENT
from modeseek.domain import Domain
from modeseek.embedding import PLAIN, embedding_of
from modeseek.errors import SpaceExhausted
from modeseek.map_fit import fit, log_posterior
from modeseek.paths import draw_paths
from modeseek.priors import Hyperparameters
from modeseek.sketch import sketch
from modeseek.surrogate import GP, Given, posterior_of

CPU = torch.device("cpu")
SPACE = Space(
    {
        "model": Categorical(["svm", "forest", "constant"]),
        "C": Float(1e-3, 1e3, log=True, when={"model": "svm"}),
        "kernel": Categorical(["rbf", "poly"], when={"model": "svm"}),
        "degree": Int(2, 4, when={"kernel": "poly"}),
        "trees": Int(1, 500, log=True, when={"model": ["forest", "constant"]}),
    }
)
FINITE = Space(
    {
        "z": Int(1, 2),
        "layers": Int(1, 3),
        "act": Categorical([True, None]),
        "units2": Int(1, 4, when={"layers": (2, 3)}),
        "units3": Int(1, 2, when={"layers": 3, "act": True}),
    }
)


def points(n: int, seed: int = 0, space: Space = SPACE) -> np.ndarray:
    return np.random.default_rng(seed).random((n, space.d))


def test_params_have_what_exists_and_come_back() -> None:
    for u in points(50):
        params = SPACE.decode(u)
        assert ("C" in params) == ("kernel" in params) == (params["model"] == "svm")
        assert ("degree" in params) == (params.get("kernel") == "poly")
        assert ("trees" in params) == (params["model"] != "svm")
        assert list(params) == [name for name in SPACE.names if name in params]
        np.testing.assert_allclose(SPACE.snap(u[None])[0], SPACE.encode(params), atol=1e-12)
        assert SPACE.decode(SPACE.encode(params)) == pytest.approx(params)


def test_what_does_not_exist_leaves_no_trace_in_the_cube() -> None:
    u = points(50)
    exists = SPACE.conditions.existing(SPACE.snap(u))
    moved = np.where(exists, u, points(50, seed=1))
    np.testing.assert_array_equal(SPACE.snap(u), SPACE.snap(moved))
    assert (SPACE.snap(u)[~exists] == ABSENT).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"model": "forest", "trees": 3, "C": 1.0}, "'C' exists only where model is 'svm'"),
        ({"model": "svm", "C": 1.0}, "'kernel' is missing"),
        ({"model": "svm", "C": 1.0, "kernel": "rbf", "degree": 2}, "'degree' exists only where kernel is 'poly'"),
    ],
)
def test_params_that_do_not_fit_are_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SPACE.validate(params)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"a": Int(1, 2, when={"b": 1}), "b": Int(1, 2, when={"a": 1})}, "wait for each other"),
        ({"a": Int(1, 2, when={"a": 1})}, "wait for each other"),
        ({"a": Int(1, 2, when={"b": 1})}, "'b', which is unknown"),
        ({"a": Int(1, 2, when={"b": 3}), "b": Int(1, 2)}, "3 is not in"),
        ({"a": Int(1, 2, when={"b": "x"}), "b": Categorical(["y"])}, "'x' is not one of"),
        ({"a": Int(1, 2, when={"b": 0.5}), "b": Float(0, 1)}, "must be a Categorical"),
    ],
)
def test_conditions_that_make_no_sense(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space(parameters)


@pytest.mark.parametrize("when", [{}, "model", {"model": []}, {1: "svm"}])
def test_conditions_of_a_wrong_type(when: Any) -> None:
    with pytest.raises(SpaceError, match="when"):
        Float(0, 1, when=when)


def test_size_and_grid_against_enumeration() -> None:
    """Every combination, less what does not exist, counted by hand."""
    distinct = set()
    for z, layers, act, u2, u3 in product((1, 2), (1, 2, 3), (True, None), range(1, 5), (1, 2)):
        distinct.add((z, layers, act, u2 if layers > 1 else 0, u3 if layers == 3 and act else 0))
    grid = FINITE.grid()
    assert FINITE.size == len(grid) == len(np.unique(grid, axis=0)) == len(distinct)
    np.testing.assert_allclose(FINITE.snap(grid), grid)
    assert SPACE.size == math.inf
    assert Space({"a": Int(1, 3), "b": Categorical(["y", "z"])}).grid().shape == (6, 2)


def test_a_space_with_conditions_is_written_and_read() -> None:
    assert Space.from_dict(SPACE.to_dict()) == SPACE
    as_list = Space({"m": Categorical(["a", "b"]), "x": Int(1, 2, when={"m": ["b", "a"]})})
    other = Space({"x": Int(1, 2, when={"m": ("a", "b")}), "m": Categorical(["a", "b"])})
    assert as_list == other
    numbers = Space({"n": Int(1, 5), "x": Int(1, 2, when={"n": range(2, 4)})})
    assert numbers == Space({"n": Int(1, 5), "x": Int(1, 2, when={"n": [2, 3]})})
    assert as_list != Space({"m": Categorical(["a", "b"]), "x": Int(1, 2)})
    assert "when" not in repr(Float(0, 1))
    assert "when={'kernel': ('poly',)}" in repr(SPACE["degree"])


def f(params: dict[str, Any]) -> float:
    if params["model"] == "svm":
        return 0.2 + abs(math.log10(params["C"])) + 0.1 * params.get("degree", 1)
    return abs(math.log(params["trees"] / 50)) + (params["model"] == "constant")


def test_runs_are_resumed_and_the_result_shows_what_exists(tmp_path: Any) -> None:
    path = tmp_path / "run"
    settings: dict[str, Any] = dict(seed=0, config=SMALLEST, n_initial=6, progress=False)
    whole = minimize(f, SPACE, 8, **settings)
    minimize(f, SPACE, 7, checkpoint=path, **settings)
    resumed = minimize(f, SPACE, 8, checkpoint=path, **settings)
    assert [t.params for t in resumed.trials] == [t.params for t in whole.trials]
    assert len({t.unit for t in whole.trials}) == 8
    shown = str(resumed)
    assert all((name in shown) == (name in resumed.best.params) for name in ("trees", "kernel"))
    assert resumed.to_dataframe()["params_C"].isna().sum() == sum("C" not in t.params for t in resumed.trials)
    optimum = Optimizer.load(path).optimum(draws=8)
    assert set(optimum.interval(0.9)) == set().union(*map(set, optimum.samples))
    assert str(optimum)
    optimum.plot()


def test_a_finite_space_ends_after_each_configuration_once() -> None:
    space = Space({"a": Categorical(["x", "y"]), "b": Int(1, 3, when={"a": "x"}), "c": Int(1, 2, when={"a": "y"})})
    opt = Optimizer(space, seed=0, config=SMALLEST, n_initial=2)
    for i in range(5):
        opt.tell(opt.ask(), float(i))
    assert len({trial.unit for trial in opt.trials}) == 5
    with pytest.raises(SpaceExhausted):
        opt.ask()


def surrogate(n: int = 25) -> tuple[GP, torch.Tensor]:
    X = torch.from_numpy(SPACE.snap(points(n)))[None].expand(2, -1, -1)
    y = torch.randn(2, n, dtype=torch.float64, generator=generator(1))
    return fit(X, y, given=Given(embedding_of(SPACE, CPU))), torch.from_numpy(points(6, seed=2)).expand(2, -1, -1)


def test_kernel_of_choices_is_one_or_the_same_for_all_that_differ() -> None:
    space = Space({"a": Categorical(["p", "q", "r"]), "x": Float(0, 1)})
    embedding = embedding_of(space, CPU)
    u = torch.from_numpy(space.snap(points(20, space=space)))
    lengthscale = torch.tensor([0.7, 0.3], dtype=torch.float64)
    K, _ = embedding.alike(u, u, lengthscale)
    a, x = u.unbind(-1)
    expected = torch.exp(-0.5 * (a[:, None] != a).double() / 0.7**2 - 0.5 * (x[:, None] - x).square() / 0.3**2)
    torch.testing.assert_close(K, expected)
    assert embedding_of(Space({"x": Float(0, 1), "n": Int(1, 5)}), CPU) is PLAIN


def test_features_are_the_same_wherever_a_point_lies_that_is_one_configuration() -> None:
    u = points(40)
    embedding = embedding_of(SPACE, CPU)
    numbers = np.array([name == "C" or name == "degree" or name == "trees" for name in SPACE.coordinates])
    settled = np.where(numbers & SPACE.conditions.existing(SPACE.snap(u)), u, SPACE.snap(u))
    torch.testing.assert_close(embedding(torch.from_numpy(u)), embedding(torch.from_numpy(settled)))


def test_gradients_are_those_of_finite_differences() -> None:
    gp, x = surrogate()
    step = 1e-6
    many = sketch(gp, 10)
    paths = draw_paths(gp, 2, generator())
    for label in (gp.label_and_grad, many.label_and_grad):
        for i, e in enumerate(step * torch.eye(SPACE.d, dtype=torch.float64)):
            slope = (label(x + e, 1.0)[0] - label(x - e, 1.0)[0]) / (2 * step)
            torch.testing.assert_close(label(x, 1.0)[1][..., i], slope, atol=1e-5, rtol=1e-4)
    z = x.unsqueeze(-3).expand(2, 2, -1, -1)
    torch.testing.assert_close(paths.value(z), paths.everywhere(x))
    for i, e in enumerate(step * torch.eye(SPACE.d, dtype=torch.float64)):
        slope = (paths.value(z + e) - paths.value(z - e)) / (2 * step)
        torch.testing.assert_close(paths.value_and_grad(z)[1][..., i], slope, atol=1e-5, rtol=1e-4)
    theta = 0.3 * torch.randn(2, SPACE.d + 1, dtype=torch.float64, generator=generator(3))
    for i, e in enumerate(step * torch.eye(SPACE.d + 1, dtype=torch.float64)):
        ends = [log_posterior(gp.X, gp.y, theta + sign * e, gp.given)[0] for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step)
        torch.testing.assert_close(log_posterior(gp.X, gp.y, theta, gp.given)[1][..., i], slope, atol=1e-4, rtol=1e-4)


def test_expected_improvement_by_its_logarithm() -> None:
    z = torch.tensor([-30.0, -5.0, -1.001, -0.999, 0.0, 3.0], dtype=torch.float64)
    for value, at in zip(log_h(z).tolist(), z.tolist(), strict=True):
        # E max(z + N(0, 1), 0), by quadrature relative to the density at its border
        grid = torch.linspace(0, 40, 400_001, dtype=torch.float64)
        integral = torch.trapezoid(grid * torch.exp(-0.5 * (grid - at) ** 2 + 0.5 * at * at * (at < 0)), grid)
        expected = math.log(float(integral)) - 0.5 * math.log(2 * math.pi) - 0.5 * at * at * (at < 0)
        assert value == pytest.approx(expected, abs=1e-6)


def test_a_branch_with_more_to_gain_is_chosen() -> None:
    """One branch is known to be flat; the other has one observation, and room."""
    space = Space(
        {
            "model": Categorical(["a", "b"]),
            "x": Float(0, 1, when={"model": "a"}),
            "y": Float(0, 1, when={"model": "b"}),
        }
    )
    known = [{"model": "a", "x": i / 10} for i in range(11)] + [{"model": "b", "y": 0.5}]
    X = torch.from_numpy(np.stack([space.encode(params) for params in known]))[None]
    y = torch.tensor([[0.0] * 11 + [-0.3]], dtype=torch.float64)
    lengthscale = torch.full((1, 3), 0.2, dtype=torch.float64)
    hyperparameters = Hyperparameters(lengthscale, torch.tensor([1e-4], dtype=torch.float64))
    gp = posterior_of(X, y, hyperparameters, given=Given(embedding_of(space, CPU)))
    domain = Domain.of(space, CPU)
    assert [fork.coordinate for fork in domain.forks] == [space.coordinates.index("model")]
    mode = torch.from_numpy(space.encode({"model": "a", "x": 0.05}))[None]
    pool = torch.from_numpy(space.snap(points(64, space=space)))[None]
    params = space.decode(Branches(gp, domain.forks).choose(mode, pool, gp, domain)[0].numpy())
    assert params["model"] == "b"
    assert abs(params["y"] - 0.5) > 0.1
    only_a = pool[:, [space.decode(u)["model"] == "a" for u in pool[0].numpy()]]
    held = Domain.of(space, CPU, space.region({"model": "a"}))
    params = space.decode(Branches(gp, held.forks).choose(mode, only_a, gp, held)[0].numpy())
    assert params["model"] == "a"


def test_other_branches_are_looked_at_though_one_is_nearly_solved() -> None:
    """The branch seen first to be good has its optimum at 0.3; a steeper one, bad at first sight, goes down to 0."""
    space = Space(
        {
            "model": Categorical(["wide", "steep"]),
            "w": Float(0, 1, when={"model": "wide"}),
            "s": Float(0, 1, when={"model": "steep"}),
        }
    )

    def g(params: dict[str, Any]) -> float:
        if params["model"] == "wide":
            return float(0.3 + (params["w"] - 0.4) ** 2)
        return float(8 * (params["s"] - 0.9) ** 2)

    config = DMSConfig(m=128, K=3, S=16, epochs=1, steps=2, hidden=8, train_on="nothing")
    known = [({"model": "wide", "w": i / 8}, 0.3 + (i / 8 - 0.4) ** 2) for i in range(9)]
    known += [({"model": "steep", "s": s}, 8 * (s - 0.9) ** 2) for s in (0.1, 0.4)]
    result = minimize(g, space, 6, seed=0, config=config, known=known, progress=False)
    assert result.best is not None
    assert result.best.value < 0.05


def test_cheap_settings_run_with_several_at_once() -> None:
    opt = Optimizer(SPACE, seed=0, config=CHEAP, n_initial=4)
    for trial in opt.ask(4):
        opt.tell(trial, f(trial.params))
    for trial in opt.ask(2):
        opt.tell(trial, failed=True)
    assert SPACE.validate(opt.ask().params)


def test_fixed_values_and_functions_hold_in_branches() -> None:
    def small(params: dict[str, Any]) -> bool:
        return bool(params.get("trees", 0) < 100)

    parameters = {name: SPACE[name] for name in SPACE}
    opt = Optimizer(Space(parameters, constraints=[small]), seed=0, config=SMALLEST, n_initial=4)
    for _ in range(6):
        trial = opt.ask()
        assert small(trial.params)
        opt.tell(trial, f(trial.params))
    trial = opt.ask(fixed={"model": "svm", "C": 2.0})
    assert trial.params["model"] == "svm"
    assert trial.params["C"] == 2.0
    with pytest.raises(ParameterError, match="fix that, too"):
        opt.ask(fixed={"C": 2.0})
