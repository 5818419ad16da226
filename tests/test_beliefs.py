"""Beliefs where the optimum is: their words, their densities, and what they do to proposals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import modeseek as ms
from modeseek.beliefs import GRID, checked, modes, quantiles, tables
from modeseek.embedding import embedding_of
from modeseek.errors import CheckpointError, ConfigError
from modeseek.improvement import ImprovementGP
from modeseek.informed import BETA, Belief, InformedGP
from modeseek.proposer import KNOWN
from modeseek.surrogate import GP
from shared import SMALLEST, generator, hill, run

CPU = torch.device("cpu")
SPACE = ms.Space(
    {
        "lr": ms.Float(1e-5, 1e-1, log=True),
        "units": ms.Int(10, 30),
        "act": ms.Categorical(["relu", "tanh", "gelu"]),
        "x": ms.Float(-2, 6),
    }
)


def belief_of(space: ms.Space, prior: dict) -> Belief:
    return Belief(space, tables(space, checked(space, prior)), embedding_of(space, CPU), CPU)


def log_density(prior: dict, **params) -> float:
    """At parameters that are a fixed point elsewhere."""
    at = {"lr": 1e-3, "units": 20, "act": "relu", "x": 2.0} | params
    return float(belief_of(SPACE, prior).log_density(torch.from_numpy(SPACE.encode(at))))


def unbounded(value: float) -> float:
    """The sum of logarithms from the bounded one."""
    from modeseek.informed import DEEPEST

    return DEEPEST * math.log1p(value / DEEPEST)


@pytest.mark.parametrize(
    ("prior", "params", "expected"),
    [
        ({"x": ms.Normal(2, 0.8)}, {"x": 3.6}, -2.0),  # two standard deviations, in its own units
        ({"lr": ms.Normal(1e-3, 0.5)}, {"lr": 1e-2}, -2.0),  # in decades
        ({"units": ms.Normal(20, 2)}, {"units": 22}, -0.5),
        ({"x": 2.0}, {"x": 2.8}, -0.5),  # near: a tenth of the range
        ({"x": (1, 3)}, {"x": 2.9}, 0.0),
        ({"x": (1, 3)}, {"x": 4.0}, -2.0),  # a quarter of the width is one standard deviation
        ({"act": {"relu": 1, "tanh": 4, "gelu": 2}}, {"act": "relu"}, -math.log(4)),
        ({"act": "tanh"}, {"act": "gelu"}, -math.log(7)),
        ({"act": ["tanh", "gelu"]}, {"act": "gelu"}, 0.0),
        ({"x": stats.norm(2, 1)}, {"x": 4.0}, -2.0),
        ({"lr": stats.loguniform(1e-5, 1e-1)}, {"lr": 3e-5}, 0.0),  # flat in the logarithm, as the parameter is
        (
            {"units": stats.binom(40, 0.5)},
            {"units": 24},
            float(stats.binom(40, 0.5).logpmf(24) - stats.binom(40, 0.5).logpmf(20)),
        ),
        ({"x": ms.Normal(2, 0.8), "act": "tanh"}, {"x": 2.8}, -0.5 - math.log(7)),  # a product
    ],
)
def test_a_belief_has_the_density_that_its_words_say(prior, params, expected):
    assert unbounded(log_density(prior, **params)) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        ({"lrr": 1.0}, "did you mean 'lr'"),
        ({"x": 7.0}, r"'x': 7.0 is not in \[-2.0, 6.0\]"),
        ({"x": (3, 1)}, "the lower end comes first"),
        ({"x": "large"}, "no belief about a number"),
        ({"x": True}, "no belief about a number"),
        ({"act": {"relu": 1, "tanh": 2}}, r"\['gelu'\] is missing"),
        ({"act": {"relu": 0, "tanh": 0, "gelu": 0}}, "one above it"),
        ({"act": "elu"}, "'act': 'elu' is not one of"),
        ({"x": stats.uniform(10, 1)}, "leaves nothing within the bounds"),
        ({"act": stats.norm()}, "'act': a Categorical takes weights, a choice or a list of choices"),
        ({"act": []}, "'act': an empty list is no belief"),
        ([1, 2], "must be a dict"),
    ],
)
def test_what_is_no_belief_is_refused_by_name(prior, said):
    with pytest.raises(ConfigError, match=said):
        ms.Optimizer(SPACE, prior=prior)


@pytest.mark.parametrize("std", [0, -1, math.nan, "wide"])
def test_a_normal_needs_a_width(std):
    with pytest.raises(ConfigError, match="Normal: std"):
        ms.Normal(1.0, std)


def test_quantiles_are_those_of_the_density():
    """Against SciPy's truncated normal; the mode is where the density is highest."""
    table = tables(ms.Space({"x": ms.Float(0, 1)}), {"x": {"normal": [0.3, 0.2]}})
    u = np.linspace(0.01, 0.99, 50)
    exact = stats.truncnorm(-1.5, 3.5, loc=0.3, scale=0.2).ppf(u)
    np.testing.assert_allclose(quantiles(table, u[:, None])[:, 0], exact, atol=1e-4)
    assert modes(table)[0] == pytest.approx(0.3, abs=1 / GRID)


CONDITIONAL = ms.Space(
    {"model": ms.Categorical(["a", "b"]), "u": ms.Float(0, 1, when={"model": "a"}), "v": ms.Float(0, 1)}
)


def test_what_does_not_exist_is_not_believed_in():
    belief = belief_of(CONDITIONAL, {"u": ms.Normal(0.9, 0.05)})
    with_u, without = (
        torch.from_numpy(CONDITIONAL.encode(p)) for p in ({"model": "a", "u": 0.1, "v": 0.5}, {"model": "b", "v": 0.5})
    )
    assert float(belief.log_density(without)) == 0 > float(belief.log_density(with_u))


def informed(b: int = 2) -> tuple[InformedGP, Belief]:
    X, Y = hill(12, 2, b)
    from modeseek.fitting import fit_surrogate

    belief = belief_of(ms.Space.box([0, 0], [1, 1]), {"x0": ms.Normal(0.7, 0.1), "x1": (0.5, 0.8)})
    return InformedGP.of(fit_surrogate(X, Y, SMALLEST), belief.after(X, Y)), belief


def test_labels_have_the_slope_that_they_say():
    """By central differences, away from the grid's points, between which the logarithm is linear."""
    gp, _ = informed()
    x = (torch.rand(2, 5, 2, dtype=torch.float64, generator=generator(1)) * GRID).floor().add(0.5) / GRID
    value, grad = gp.label_and_grad(x, 0.5)
    torch.testing.assert_close(value, gp.label(x, 0.5))
    for i in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[i] = 1e-4
        slope = (gp.label(x + step, 0.5) - gp.label(x - step, 0.5)) / 2e-4
        torch.testing.assert_close(grad[..., i], slope, rtol=1e-4, atol=1e-5)


def test_a_belief_says_nothing_where_outcomes_do_and_predictions_are_without_it():
    gp, _ = informed(1)
    plain = GP(**{name: getattr(gp, name) for name in GP.__dataclass_fields__})
    x = torch.rand(1, 6, 2, dtype=torch.float64, generator=generator(2))
    torch.testing.assert_close(gp.posterior(x), plain.posterior(x))
    difference = (gp.label(gp.X, 1.0) - plain.label(gp.X, 1.0)).abs()
    assert bool((difference <= 5 * plain.posterior(gp.X)[1]).all())
    conditioned = gp.condition(x)
    assert isinstance(conditioned, InformedGP)
    torch.testing.assert_close(conditioned.posterior(x)[0], plain.condition(x).posterior(x)[0])


def test_its_weight_falls_with_outcomes_and_goes_where_they_speak_against_it():
    space = ms.Space.box([0, 0], [1, 1])
    right, wrong = (belief_of(space, {"x0": ms.Normal(m, 0.15), "x1": ms.Normal(m, 0.15)}) for m in (0.7, 0.05))
    weights = [float(right.after(*hill(n, 2)).weight) for n in (10, 40, 160)]
    assert BETA / 10 >= weights[0] > 2 * weights[1] > 4 * weights[2] > 0
    assert float(wrong.after(*hill(40, 2)).weight) == 0
    X, Y = hill(20, 2, b=3)
    together, alone = right.after(X, Y).weight, torch.cat([right.after(X[i], Y[i]).weight[None] for i in range(3)])
    torch.testing.assert_close(together, alone)
    constant = right.after(X, torch.zeros_like(Y)).weight
    assert bool((constant > 0).all())  # says nothing for or against


def test_the_design_begins_where_the_optimum_is_believed_to_be_and_every_third_point_is_drawn_from_there():
    prior = {"x0": ms.Normal(3.0, 0.3), "x1": ms.Normal(-2.0, 0.3)}
    opt = ms.Optimizer(ms.Space.box([-5, -5], [5, 5]), seed=0, config=SMALLEST, n_initial=10, prior=prior)
    points = np.array([trial.params for trial in opt.ask(10)])
    np.testing.assert_allclose(points[0], [3.0, -2.0], atol=0.01)
    near = np.abs(points - [3.0, -2.0]).max(1) < 1.0
    assert near[::KNOWN].all()
    assert near.sum() < 6


def test_proposals_lean_towards_a_belief_that_outcomes_agree_with():
    """Outcomes that agree all over a ridge, on which only the belief is about one end."""
    prior = {"x0": ms.Normal(4.0, 0.5), "x1": ms.Normal(4.0, 0.5)}
    ends = []
    for belief in (prior, None):
        config = replace(SMALLEST, train_on="nothing", rho_far=None)
        opt = ms.Optimizer(ms.Space.box([-5, -5], [5, 5]), seed=0, config=config, n_initial=6, prior=belief)
        run(opt, 8, lambda x: float(np.square(x[0] - x[1])))
        ends.append(np.abs(np.array([trial.params for trial in opt.trials[6:]]) - 4).max())
    assert ends[0] < 2 < ends[1]


@pytest.mark.parametrize("kind", ["constraints", "objectives", "conditional", "linear", "fixed"])
def test_a_belief_goes_with_everything_else(kind):
    space, fixed = ms.Space({"x": ms.Float(0, 1), "k": ms.Categorical(["a", "b"])}), None
    if kind == "conditional":
        space = CONDITIONAL
    elif kind == "linear":
        space = ms.Space({"x": ms.Float(0, 1), "y": ms.Float(0, 1)}, [ms.Linear({"x": 1, "y": 1}, equals=1)])
    elif kind == "fixed":
        fixed = {"k": "b"}
    name = "v" if kind == "conditional" else "x"
    several = ["minimize", "maximize"] if kind == "objectives" else "minimize"
    opt = ms.Optimizer(space, direction=several, seed=0, config=SMALLEST, n_initial=2, prior={name: 0.3})
    for _ in range(3):
        trial = opt.ask(fixed=fixed)
        v = trial.params[name]
        value = [v**2, v] if kind == "objectives" else (v - 0.25) ** 2
        opt.tell(trial, value, constraints=[0.2 - v] if kind == "constraints" else None)
        assert fixed is None or trial.params["k"] == "b"
    assert isinstance(opt.suggestion.gp, InformedGP | ImprovementGP)
    assert opt.suggestion.gp.conviction is not None


def test_many_at_once_pending_and_failed_ones():
    opt = ms.Optimizer(ms.Space.box([0], [1]), seed=0, config=SMALLEST, n_initial=2, prior={"x0": 0.3})
    run(opt, 2)
    first, second = opt.ask(2)
    opt.tell(first, failed=True)
    third = opt.ask()
    assert len({tuple(trial.params) for trial in (first, second, third)}) == 3


def test_a_file_keeps_beliefs_and_goes_on_as_if_it_had_never_stopped(tmp_path):
    prior = {
        "lr": ms.Normal(1e-3, 0.5), "x": stats.norm(2, 1), "units": (12, 20), "act": {"relu": 1, "tanh": 2, "gelu": 1}
    }  # fmt: skip
    opt = ms.Optimizer(SPACE, seed=0, config=SMALLEST, n_initial=2, prior=prior)
    run(opt, 3, lambda p: p["x"])
    opt.save(tmp_path / "run.modeseek")
    opt.close()
    loaded = ms.Optimizer.load(tmp_path / "run.modeseek")
    assert loaded.prior == opt.prior
    assert loaded.ask().params == opt.ask().params
    wider = ms.Space({**{name: SPACE[name] for name in SPACE}, "act": ms.Categorical(["elu", "relu", "tanh", "gelu"])})
    with pytest.warns(ms.SpaceChangedWarning):
        ms.Optimizer.load(tmp_path / "run.modeseek", space=wider).ask()
    with pytest.raises(CheckpointError, match=r"another belief, or none, about 'act', .*'x' than .*leave prior= out"):
        ms.minimize(lambda p: p["x"], SPACE, 4, n_initial=2, config=SMALLEST, progress=False,
                    checkpoint=tmp_path / "run.modeseek", prior={"x": 1.0})  # fmt: skip


def test_no_belief_at_all_is_as_none(tmp_path):
    opt = ms.Optimizer(SPACE, seed=0, config=SMALLEST, prior={})
    assert opt.ask().params == ms.Optimizer(SPACE, seed=0, config=SMALLEST).ask().params
    opt.save(tmp_path / "run.modeseek")
    opt.close()
    assert ms.Optimizer.load(tmp_path / "run.modeseek").ask().params == opt.ask().params


def test_the_same_belief_goes_on_where_choices_are_added_or_in_another_order(tmp_path):
    settings = dict(config=SMALLEST, progress=False, seed=0, checkpoint=tmp_path / "run.modeseek")
    prior = {"x": 1.0, "act": "tanh"}
    ms.minimize(lambda p: p["x"], SPACE, 2, prior=prior, **settings)
    wider = ms.Space({**{name: SPACE[name] for name in SPACE}, "act": ms.Categorical(["elu", "gelu", "tanh", "relu"])})
    with pytest.warns(ms.SpaceChangedWarning, match="all 2 trials lie in the new one"):
        result = ms.minimize(lambda p: p["x"], wider, 3, prior=prior, **settings)
    assert len(result.trials) == 3
    with pytest.raises(CheckpointError, match=r"another belief, or none, about 'act' than"):
        ms.minimize(lambda p: p["x"], wider, 4, prior={"x": 1.0, "act": "elu"}, **settings)


def test_a_hostile_file_names_no_other_function_of_scipy():
    with pytest.raises(ValueError, match="no distribution 'rv_histogram'"):
        tables(SPACE, {"x": {"scipy": ["rv_histogram", [], {}]}})


def test_problems_side_by_side_have_one_belief():
    gp, _ = informed(2)
    from modeseek.dms import row_of

    x = torch.rand(2, 3, 2, dtype=torch.float64, generator=generator(3))
    row = row_of(gp, 1)
    torch.testing.assert_close(row.label(x[1:], 0.3), gp.label(x, 0.3)[1:])
    assert replace(gp, conviction=None).label(x, 0.0).equal(gp.posterior(x)[0])
