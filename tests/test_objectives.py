"""Several objectives: fronts and volumes against brute force, labels against Monte Carlo, runs that find a front."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel
from gpytorch.settings import min_fixed_noise
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import modeseek as ms
from modeseek.dms import State, suggest
from modeseek.document import to_document, trials_of
from modeseek.fronts import front_of, hypervolume
from modeseek.improvement import Boxes, ImprovementGP, log_h, log_improvement
from modeseek.integrations.optuna import DMSSampler
from modeseek.map_fit import fit
from modeseek.objectives import boxes_above, improve
from modeseek.outcomes import measured, never_measures
from shared import CHEAP, SMALLEST, generator

BOX = ms.Space.box([0, 0], [1, 1])
QUIET: dict[str, Any] = {"progress": False, "config": SMALLEST, "seed": 0, "n_initial": 4}
BOTH: dict[str, Any] = {"direction": ["minimize", "maximize"], "seed": 0, "config": SMALLEST, "n_initial": 3}
values = arrays(np.float64, st.tuples(st.integers(1, 7), st.just(3)), elements=st.integers(-3, 3).map(float))


def hills(x: np.ndarray) -> list[float]:
    """Small at (0.2, 0.5), large at (0.8, 0.5): the best compromises lie on the line between."""
    return [float(np.square(x - [0.2, 0.5]).sum()), -float(np.square(x - [0.8, 0.5]).sum())]


def data(b: int = 2, n: int = 9, M: int = 3, d: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.rand(b, n, d, dtype=torch.float64, generator=generator(3))
    centres = torch.rand(M, d, dtype=torch.float64, generator=generator(4))
    return X, -(X.unsqueeze(-2) - centres).square().sum(-1)


@settings(max_examples=20, deadline=None)
@given(values)
def test_the_front_is_what_nothing_beats(Y: np.ndarray) -> None:
    signs = [1, -1, 1]
    Z = Y * signs
    beaten = [any((z >= y).all() and (z > y).any() for z in Z) for y in Z]
    first = [not any((z == y).all() for z in Z[:i]) for i, y in enumerate(Z)]
    assert front_of(Y, signs) == [i for i in range(len(Y)) if first[i] and not beaten[i]]


@settings(max_examples=10, deadline=None)
@given(values)
def test_the_hypervolume_counts_what_is_dominated(Y: np.ndarray) -> None:
    """On whole numbers, the unit cells between the reference point and some point."""
    cells = np.stack(np.meshgrid(*[np.arange(-4, 3)] * 3, indexing="ij"), -1).reshape(-1, 3) + 1
    dominated = (cells[:, None] <= Y[None]).all(-1).any(-1).sum()
    assert hypervolume(Y, [1, 1, 1], [-4, -4, -4]) == pytest.approx(dominated)
    assert hypervolume(-Y, [-1, -1, -1], [4, 4, 4]) == pytest.approx(dominated)


def test_the_boxes_hold_what_is_not_dominated() -> None:
    _, Y = data()
    reference = Y.amin(-2) - 0.1
    lower, upper, weight = boxes_above(Y, torch.ones(Y.shape[:-1], dtype=torch.bool), reference)
    top = Y.amax(-2) + 0.2
    for b in range(2):
        count = weight[b] == 0
        volume = (torch.minimum(upper[b, count], top[b]) - lower[b, count]).clamp_min(0).prod(-1).sum()
        whole = (top[b] - reference[b]).prod()
        dominated = hypervolume(Y[b].numpy(), [1, 1, 1], reference[b].numpy())
        assert float(volume) == pytest.approx(float(whole) - dominated)


def test_expected_improvement_without_underflow() -> None:
    z = torch.tensor([-40.0, -3.0, -1.0001, -0.9999, 0.0, 2.0, 9.0], dtype=torch.float64)
    direct = stats.norm.pdf(z.numpy()) + z.numpy() * stats.norm.cdf(z.numpy())
    np.testing.assert_allclose(log_h(z)[1:].numpy(), np.log(direct[1:]), rtol=1e-9)
    far = np.array([-40.0, -999.0, -1001.0, -1e6])
    np.testing.assert_allclose(
        log_h(torch.from_numpy(far)).numpy(), stats.norm.logpdf(far) - 2 * np.log(-far), rtol=1e-5
    )


def test_the_label_is_the_expected_improvement_of_the_hypervolume() -> None:
    X, Y = data()
    gp = improve(X, Y)
    x = torch.rand(2, 4, 2, dtype=torch.float64, generator=generator(5))
    mu, sigma = gp.objectives.posterior(x.expand(3, *x.shape))
    noise = torch.randn(3, 1, 1, 20_000, dtype=torch.float64, generator=generator(6))
    draws = (mu[..., None] + 3 * sigma[..., None] * noise).movedim(0, -1).unsqueeze(-2)  # b x m x S x 1 x M
    lower, upper, weight = (part[:, None, None] for part in gp.boxes)
    gained = ((torch.minimum(draws, upper) - lower).clamp_min(0).prod(-1) * weight.exp()).sum(-1)
    error = gained.std(-1) / 20_000**0.5
    value = log_improvement(mu, 3 * sigma, gp.boxes)[0]
    assert ((value.exp() - gained.mean(-1)).abs() < 5 * error + 1e-3).all()
    assert (value.exp() > 0.01).any()
    assert gp.top is not None
    above = value - gp.top[:, None]
    torch.testing.assert_close(gp.label(x, 3.0), torch.where(above > 0, above, -(-above.clamp_max(0)).log1p()))


@pytest.mark.parametrize("rho", [0.0, 1.0, 3.0])
def test_the_gradient_is_that_of_the_label(rho: float) -> None:
    X, Y = data()
    gp = improve(X, Y, constraints=torch.stack([X[..., 0] - 0.6, 0.2 - X[..., 1]], -1), pending=X[:, :1] + 0.01)
    x = torch.rand(2, 5, 2, dtype=torch.float64, generator=generator(7))
    label, grad = gp.label_and_grad(x, rho)
    torch.testing.assert_close(label, gp.label(x, rho))
    step = 1e-6 * torch.eye(2, dtype=torch.float64)
    central = torch.stack([(gp.label(x + h, rho) - gp.label(x - h, rho)) / 2e-6 for h in step], -1)
    torch.testing.assert_close(grad, central, rtol=2e-3, atol=2e-4)


def test_labels_are_finite_and_lead_back_from_anywhere() -> None:
    X = torch.rand(1, 3, 2, dtype=torch.float64, generator=generator(0))
    one = fit(X.expand(2, 1, 3, 2), torch.zeros(2, 1, 3, dtype=torch.float64))
    high = torch.full((1, 1, 2), 500.0, dtype=torch.float64)  # a front that nothing reaches
    boxes = Boxes(high, high + 1e4, torch.zeros(1, 1, dtype=torch.float64))
    gp = ImprovementGP(one, boxes, torch.ones(1, 3, dtype=torch.bool))
    label, grad = gp.label_and_grad(torch.rand(1, 8, 2, dtype=torch.float64, generator=generator(1)), 1.0)
    assert label.isfinite().all()
    assert grad.isfinite().all()
    assert (label > -50).all()


def test_problems_side_by_side_are_as_alone() -> None:
    X, Y = data(M=2)
    generators = [generator(1), generator(2)]
    both = suggest(X, Y, SMALLEST, generators, reference=torch.full((2, 2), -9.0, dtype=torch.float64))
    alone = suggest(X[1:], Y[1:], SMALLEST, [generator(2)], reference=torch.full((1, 2), -9.0, dtype=torch.float64))
    torch.testing.assert_close(both.row(1).x_next, alone.x_next, atol=1e-5, rtol=0)
    torch.testing.assert_close(both.row(1).gp.label(X[1:], 1.0), alone.gp.label(X[1:], 1.0), atol=1e-5, rtol=0)
    assert both.row(1).state.lengthscale.shape == (1, 2, 2)
    assert State.of_rows([both.row(0).state, both.row(1).state]).noise.shape == (2, 2)


def test_pending_points_are_kept_away_from() -> None:
    X, Y = data(b=1, M=2)
    free = improve(X, Y)
    x = torch.rand(1, 200, 2, dtype=torch.float64, generator=generator(8))
    top = x[:, free.label(x, 1.0).argmax()][:, None]
    taken = improve(X, Y, pending=top)
    assert int(free.label(x, 1.0).argmax()) != int(taken.label(x, 1.0).argmax())
    before, after = (
        log_improvement(*gp.objectives.posterior(top.expand(2, 1, 1, 2)), gp.boxes)[0] for gp in (free, taken)
    )
    assert float(after) < float(before) - 1


def told() -> ms.Optimizer:
    opt = ms.Optimizer(BOX, **BOTH)
    for x, value in (([0.1, 0.1], [3.0, 1.0]), ([0.9, 0.1], [1.0, 1.0]), ([0.2, 0.2], [2.0, 2.0])):
        opt.tell_params(np.array(x), value)
    return opt


def test_ask_and_tell_of_two_objectives(tmp_path: Path) -> None:
    opt = told()
    assert opt.direction == ("minimize", "maximize")
    assert [trial.values for trial in opt.front] == [(1.0, 1.0), (2.0, 2.0)]
    assert opt.trials[0].value is None
    assert opt.hypervolume([4, 0]) == pytest.approx(3 + 2)
    trial = opt.tell(opt.ask(), np.array([0.5, 3.0]))
    assert opt.front == [trial]
    opt.save(tmp_path / "run")
    again = ms.Optimizer.load(tmp_path / "run")
    opt.close()
    assert again.trials == opt.trials
    assert [t.unit for t in again.ask(2)] == [t.unit for t in opt.ask(2)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.0, "not a list of 2"),
        ([1.0], "there is 1 value for 2"),
        ([1, 2, 3], "3 values for 2"),
        ([1, np.nan], "value 1 is NaN"),
    ],
)
def test_values_that_are_not_as_many_numbers_fail_the_trial(value: Any, message: str) -> None:
    opt = told()
    with pytest.warns(ms.TrialFailedWarning, match=message):
        assert opt.tell(opt.ask(), value).state is ms.TrialState.FAILED
    assert len(opt.front) == 2


@pytest.mark.parametrize(
    ("returned", "never"),
    [([1, 2], False), ((1, 2), False), (torch.ones(2), False), (([1, 2], [0.5]), False), ((1, [2]), True), (1.0, True)],
)
def test_what_an_objective_may_return(returned: Any, never: bool) -> None:
    assert never_measures(returned, 2) is never
    if not never:
        assert len(measured(returned, 2).values) == 2


def test_what_does_not_go_together_is_said() -> None:
    opt = told()
    for call in (lambda: opt.best, opt.recommend, opt.optimum, opt.best_for):
        with pytest.raises(ms.ConfigError, match="with 2 objectives"):
            call()
    with pytest.raises(ms.ConfigError, match="one objective"):
        ms.minimize(hills, BOX, 5, directions=["minimize"] * 2, stop=ms.WhenSure(regret=0.1), **QUIET)
    for bad in ({"direction": "up"}, {"direction": []}, {"direction": ["minimize", 1]}, {"reference": [1.0]}):
        with pytest.raises(ms.ConfigError, match=r"direction must be|reference"):
            ms.Optimizer(BOX, **bad)  # type: ignore[arg-type]
    with pytest.raises(ms.ConfigError, match="5 at the most"):
        ms.Optimizer(BOX, direction=["minimize"] * 6)
    for reference in ([1.0], [1.0, np.inf], "ab"):
        with pytest.raises(ms.ConfigError, match="reference must be 2"):
            ms.Optimizer(BOX, direction=["minimize"] * 2, reference=reference)
    with pytest.raises(ms.ConfigError, match="several objectives"):
        ms.Optimizer(BOX).hypervolume()
    assert ms.Optimizer(BOX, direction=["maximize"]).direction == "maximize"


def of_different_units() -> tuple[np.ndarray, np.ndarray]:
    """Points of the square, and two objectives there: of size 1e6, and near 10 in steps of 1e-3."""
    X = np.random.default_rng(5).random((14, 2))
    return X, np.array([[2e6 + 1e6 * np.sin(3 * a), 10 + 1e-3 * (a - b) ** 2] for a, b in X])


def mixture(gp: Any, scale: torch.Tensor, objective: int, Y: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation at x by BoTorch, over all draws of the hyperparameters."""
    centre, size = Y.mean(), Y.std(ddof=1)
    moments = []
    for h in range(len(scale)):
        s = float(scale[h, objective])
        y, noise = torch.from_numpy((Y - centre) / size / s)[:, None], gp.noise[h, objective][:, None]
        kernel = MaternKernel(nu=2.5, ard_num_dims=2)
        X = gp.X[h, objective]
        with min_fixed_noise(double_value=1e-9):  # not 1e-6, which GPyTorch takes for the least
            model = SingleTaskGP(X, y, train_Yvar=noise, outcome_transform=None, covar_module=kernel)
        model.covar_module.lengthscale = gp.hyperparameters.lengthscale[h, objective]
        model.mean_module.constant.data.fill_(float(gp.mean[h, objective]))
        with torch.no_grad():
            at = model.eval().posterior(torch.from_numpy(x)[None])
        moments.append((centre + size * s * float(at.mean), size * s * float(at.variance) ** 0.5))
    mean, std = np.array(moments).T
    return float(mean.mean()), float(np.sqrt(mean.var() + np.square(std).mean()))


def test_predictions_are_botorchs_in_the_units_of_each_objective() -> None:
    X, Y = of_different_units()
    opt = ms.Optimizer(BOX, **BOTH)
    for x, values in zip(X, Y, strict=True):
        opt.tell_params(x, values)
    opt.ask()  # whose hyperparameters the fit starts from
    x = np.array([0.35, 0.6])
    means, stds = opt.predict(x)
    assert opt._drawn is not None
    (gp, scale), _ = opt._drawn[1]
    assert scale.shape == (16, 2)
    for j in range(2):
        sign, size = (-1.0, 1.0)[j], Y[:, j].std()  # outcomes are maximized
        mean, std = mixture(gp, scale, j, sign * Y[:, j], x)
        assert abs(means[j] - sign * mean) < 1e-4 * size
        assert stds[j] == pytest.approx(std, rel=1e-2, abs=1e-4 * size)
    listed = opt.predict([x, X[3]])
    assert [part.shape for part in listed] == [(2, 2), (2, 2)]
    np.testing.assert_allclose([part[0] for part in listed], [means, stds], rtol=1e-6)
    near, _ = opt.predict(X[3])
    assert np.abs(near - Y[3]) / Y.std(0) == pytest.approx([0, 0], abs=0.05)
    assert abs(means[0] - 2e6 - 1e6 * np.sin(3 * x[0])) < 2e5
    turned = ms.Optimizer(BOX, **{**BOTH, "direction": ["maximize", "minimize"]})
    for x_told, values in zip(X, Y, strict=True):
        turned.tell_params(x_told, values)
    np.testing.assert_allclose(turned.predict(x)[0], means, atol=0, rtol=0.05)


def test_predictions_of_an_objective_that_has_not_changed() -> None:
    opt = ms.Optimizer(BOX, **BOTH)
    with pytest.raises(ms.TrialError, match="no completed trial"):
        opt.predict([0.5, 0.5])
    for x in (0.1, 0.4, 0.8):
        opt.tell_params([x, 0.5], [7.0, x])
    means, stds = opt.predict([0.4, 0.5])
    assert means[0] == pytest.approx(7)
    assert means[1] == pytest.approx(0.4, abs=0.1)
    assert np.isinf(stds[0])
    assert 0 < stds[1] < 1


def test_a_first_return_of_one_number_is_a_mistake() -> None:
    with pytest.raises(ms.ObjectiveTypeError, match="a list of 2 finite numbers"):
        ms.minimize(lambda x: 1.0, BOX, 5, directions=["minimize", "maximize"], **QUIET)


def test_a_run_finds_the_front_under_a_constraint(tmp_path: Path) -> None:
    def f(x: np.ndarray) -> ms.Outcome:
        return ms.Outcome(hills(x), constraints=[float(x[0] - 0.6)])

    run = {**QUIET, "config": CHEAP, "checkpoint": tmp_path / "run", "directions": ["minimize", "maximize"]}
    result = ms.minimize(f, BOX, 14, reference=[0.4, -0.4], **run)
    assert len(result.front) > 5
    assert all(trial.feasible for trial in result.front)
    front = np.array([trial.params for trial in result.front])
    assert np.median(np.abs(front[:, 1] - 0.5)) < 0.05
    # The feasible front is the line from (0.2, 0.5) to (0.6, 0.5).
    a = np.linspace(0.2, 0.6, 1001)
    best = hypervolume(np.stack([(a - 0.2) ** 2, -((a - 0.8) ** 2)], 1), [-1, 1], [0.4, -0.4])
    assert 0.9 * best < result.hypervolume() <= best
    assert result.best is None
    assert "front of" in str(result)
    assert pickle.loads(pickle.dumps(result)).front == result.front
    assert result.to_dataframe()[["values_0", "values_1"]].notna().to_numpy().all()
    axes = result.plot()
    assert len(axes.collections[-1].get_offsets()) == len(result.front)
    with pytest.raises(ms.CheckpointError, match="its reference is"):
        ms.minimize(f, BOX, 14, reference=[1, 1], **run)
    with pytest.raises(ms.ConfigError, match="front"):
        _ = result.optimum


def test_three_objectives_are_drawn_as_their_volume() -> None:
    known = [([0.1 * i, 0.5], [i, 5 - i, abs(i - 2)]) for i in range(5)]
    result = ms.minimize(lambda x: [*hills(x), x[1]], BOX, 1, known=known, directions=["minimize"] * 3, **QUIET)
    heights = result.plot().lines[0].get_ydata()
    assert len(heights) == 6
    assert (np.diff(heights) >= 0).all()


def test_damaged_values_are_refused() -> None:
    document = to_document(told()._snapshot())
    for bad in ([1.0], ["1", 2.0], 1.0, None):
        document["trials"][0]["values"] = bad
        with pytest.raises(ValueError, match=r"values? |numbers"):
            trials_of(BOX, document["trials"], 2)


def test_the_sampler_proposes_what_the_optimizer_does() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = DMSSampler(seed=0, config=SMALLEST, n_startup_trials=3)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    space = ms.Space({"x": ms.Float(0, 1), "y": ms.Float(0, 1)})
    opt = ms.Optimizer(space, **BOTH)
    distributions: Any = {name: optuna.distributions.FloatDistribution(0, 1) for name in "xy"}
    for i in range(6):
        if i < 3:
            study.enqueue_trial({"x": 0.1 + 0.3 * i, "y": 0.4})
        trial = study.ask(distributions)
        outcome = hills(np.array([trial.params["x"], trial.params["y"]]))
        limit = trial.params["x"] - 0.7
        if i >= 3:
            assert trial.params == pytest.approx(opt.ask().params)
            opt.tell(i, outcome, constraints=[limit])
        else:
            opt.tell_params(trial.params, outcome, constraints=[limit])
        trial.set_constraint("limit", limit)
        study.tell(trial, outcome)
    assert [trial.number for trial in opt.front] == [trial.number for trial in study.best_trials]
    with pytest.raises(ms.ConfigError, match="no optimum"):
        sampler.optimum(study)


def test_choices_conditions_known_constraints_and_fixed_values_hold() -> None:
    space = ms.Space(
        {
            "kind": ms.Categorical(["a", "b"]),
            "x": ms.Float(0, 1),
            "y": ms.Float(0, 1),
            "z": ms.Float(0, 1, when={"kind": "b"}),
        },
        constraints=[ms.Linear({"x": 1, "y": 1}, upper=1)],
    )
    opt = ms.Optimizer(space, **BOTH)
    for i in range(7):
        trial = opt.ask(fixed={"kind": "b"} if i == 6 else None)
        assert trial.params["x"] + trial.params["y"] <= 1 + 1e-9
        assert ("z" in trial.params) == (trial.params["kind"] == "b")
        values = hills(np.array([trial.params["x"], trial.params.get("z", 0.1)]))
        opt.tell(trial, values, constraints=[trial.params["y"] - 0.8])
    assert trial.params["kind"] == "b"
    assert opt.trials[-1].origin == "model"


def test_a_reference_point_that_is_known_in_part_is_inferred_for_the_rest() -> None:
    X, Y = data(b=2, M=2)
    reference = torch.tensor([[-9.0, torch.nan], [torch.nan, -9.0]], dtype=torch.float64)
    given = torch.full((2, 2), -9.0, dtype=torch.float64)
    part, all_of_it, none = (improve(X, Y, reference=r).boxes.lower.amin(-2) for r in (reference, given, None))
    torch.testing.assert_close(part, torch.where(reference.isnan(), none, all_of_it))
    assert (all_of_it < none).all()


def test_a_reference_point_far_from_all_that_was_seen_counts_as_it_is() -> None:
    """The further away it is, the more the ends of the front are worth."""
    X, Y = data(b=1, M=2)
    lows = [
        improve(X, Y, reference=torch.full((1, 2), low, dtype=torch.float64)).boxes.lower.amin(-2)[0]
        for low in (-10.0, -20.0, -30.0)
    ]
    torch.testing.assert_close(lows[2] - lows[1], lows[1] - lows[0])
    assert (lows[0] < -5).all()
