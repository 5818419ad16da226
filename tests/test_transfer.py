"""Earlier studies on related tasks: how they are read, what they count for, and that an unrelated one does not."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import modeseek as ms
from modeseek.earlier import DISTINCT, Study, read
from modeseek.errors import ConfigError, ModeseekWarning
from modeseek.fitting import fit_rest, fit_surrogate
from modeseek.informed import InformedGP
from modeseek.knowledge import Knowledge
from modeseek.stacking import Stack
from modeseek.surrogate import GP
from shared import BOX, SMALLEST, generator, run, sphere

CPU = torch.device("cpu")
SPACE = ms.Space({"a": ms.Float(0, 1), "b": ms.Float(0, 1), "k": ms.Categorical(["u", "v"])})


def wave(X: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
    return torch.sin(5 * (X[..., 0] + shift)) + torch.cos(4 * X[..., 1])


def points(n: int, seed: int, d: int = 2, b: int = 1) -> torch.Tensor:
    return torch.rand(b, n, d, dtype=torch.float64, generator=generator(seed))


def stack_of(*functions, n: int = 40) -> Stack:
    gps = []
    for i, f in enumerate(functions):
        X = points(n, 100 + i)
        gps.append(fit_surrogate(X, f(X), SMALLEST))
    return Stack(gps, [torch.ones(2, dtype=torch.bool)] * len(gps))


def unrelated(X: torch.Tensor) -> torch.Tensor:
    return torch.sin(9 * X[..., 1] + 2) * X[..., 0]


def fitted(n: int = 12, seed: int = 1, b: int = 1) -> GP:
    X = points(n, seed, b=b)
    return fit_surrogate(X, 100 + 3 * wave(X), SMALLEST)


def test_a_related_study_is_used_and_predicts_what_few_outcomes_cannot():
    gp, stack = fitted(8), stack_of(lambda X: 5 + 2 * wave(X, 0.05), unrelated)
    informed = fit_rest(gp, stack)
    assert isinstance(informed, InformedGP)
    assert float(informed.shares[0, 0]) > 0.3 > float(informed.shares[0, 1])
    assert float(informed.scale) < 0.5
    x = points(200, 7)
    truth = fit_surrogate(points(100, 8), 100 + 3 * wave(points(100, 8)), SMALLEST).posterior(x)[0]
    errors = [float((truth - model.posterior(x)[0]).std()) for model in (informed, gp)]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize("other", [unrelated, lambda X: -wave(X), lambda X: torch.zeros_like(X[..., 0])])
def test_an_unrelated_study_an_opposite_one_and_a_constant_one_say_nothing(other):
    gp = fitted(20)
    assert fit_rest(gp, stack_of(other)) is gp


def test_too_few_outcomes_decide_nothing_and_a_stalled_run_goes_on_without():
    gp = fitted(4)
    assert fit_rest(gp, stack_of(wave)) is gp
    gp = fitted(24)
    order = gp.y[0].argsort(descending=True)
    assert isinstance(
        fit_rest(fit_surrogate(gp.X[:, order.flip(0)], gp.y[:, order.flip(0)], SMALLEST), stack_of(wave)), InformedGP
    )
    stalled = fit_surrogate(gp.X[:, order], gp.y[:, order], SMALLEST)
    assert fit_rest(stalled, stack_of(wave)) is stalled


def test_moments_and_gradients_are_of_the_whole():
    """By central differences; outcomes are met where noise is small; rows are as alone."""
    gp, stack = fitted(b=2), stack_of(wave, unrelated)
    informed = fit_rest(gp, stack)
    assert isinstance(informed, InformedGP)
    torch.testing.assert_close(informed.posterior(gp.X)[0], gp.y, atol=0.1, rtol=0)
    x, rho = points(5, 3, b=2), torch.tensor([[0.5], [2.0]], dtype=torch.float64)
    value, grad = informed.label_and_grad(x, rho)
    torch.testing.assert_close(value, informed.label(x, rho))
    at = informed.moments(x)
    by = torch.full_like(at.mu, 0.7), torch.full_like(at.mu, -0.3)
    mixed = informed.grad_by(x, at, *by)
    for i in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[i] = 1e-5
        (m1, s1), (m0, s0) = informed.posterior(x + step), informed.posterior(x - step)
        torch.testing.assert_close(grad[..., i], ((m1 - m0) + rho * (s1 - s0)) / 2e-5, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mixed[..., i], (0.7 * (m1 - m0) - 0.3 * (s1 - s0)) / 2e-5, rtol=1e-4, atol=1e-5)
    alone = fit_rest(fit_surrogate(points(12, 1, b=2)[1:], 100 + 3 * wave(points(12, 1, b=2)[1:]), SMALLEST), stack)
    torch.testing.assert_close(alone.label(x[1:], 0.5), informed.label(x, 0.5)[1:], rtol=1e-3, atol=1e-3)


def test_pending_inputs_change_no_expectation():
    informed = fit_rest(fitted(), stack_of(wave))
    x, pending = points(6, 4), points(3, 5)
    conditioned = informed.condition(pending)
    assert isinstance(conditioned, InformedGP)
    torch.testing.assert_close(conditioned.posterior(x)[0], informed.posterior(x)[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(conditioned.y[:, -3:], informed.posterior(pending)[0])
    assert bool((conditioned.posterior(pending)[1] < informed.posterior(pending)[1] + 1e-9).all())


def test_every_way_of_giving_a_study_says_the_same(tmp_path):
    opt = run(ms.Optimizer(BOX, seed=0, config=SMALLEST, n_initial=6), 5)
    opt.tell(opt.ask(), failed=True)
    opt.save(tmp_path / "old.modeseek")
    opt.close()
    result = ms.minimize(sphere, BOX, 5, seed=0, config=SMALLEST, n_initial=6, progress=False)
    pairs = [(trial.params, trial.value) for trial in result.trials]
    told = [
        read(study, -1.0)
        for study in (
            *(opt, tmp_path / "old.modeseek", str(tmp_path / "old.modeseek"), result, pairs, [pairs]),
            *(opt.trials, [opt.trials], result.trials),
        )
    ]
    assert all(study == told[0] for study in told[1:])
    assert [len(study.values) for study in told[0]] == [5]
    assert max(told[0][0].values) == -result.best.value
    assert len(read([opt, pairs], -1.0)) == 2
    flipped = [({"a": 0.1}, 1.0), ({"a": 0.2}, 2.0)]
    assert read(flipped, 1.0)[0].values == [1.0, 2.0]


@pytest.mark.parametrize(
    ("transfer", "said"),
    [
        (3, "transfer must be a Result"),
        ([], "transfer must be a Result"),
        ([3], "3 is not a Result"),
        ([({"a": 0.5}, "good")] * 3, "one that is none"),
        ([({"z": 1.0}, 1.0)] * 4, r"no parameter in common with this space: its parameters are \['z'\]"),
        ([({"a": 0.5}, 1.0)], "has 1 trial in this space, and 3 are the least"),
        ([({"a": 5.0}, 1.0)] * 4, r"0 trials in this space.*parameter 'a': 5.0 is not in"),
        ([({"a": 0.5}, 1.0)] * 2, "has 2 trials in this space, and 3 are the least"),
    ],
)
def test_what_is_no_study_is_refused(transfer, said):
    with pytest.raises(ConfigError, match=said):
        ms.Optimizer(SPACE, transfer=transfer)


def test_several_objectives_are_refused():
    with pytest.raises(ConfigError, match="one objective"):
        ms.Optimizer(SPACE, direction=["minimize", "minimize"], transfer=[({"a": 0.5}, 1.0)] * 3)
    opt = ms.Optimizer(BOX, direction=["minimize", "minimize"])
    opt.tell_params([0.0, 0.0], [1.0, 2.0])
    with pytest.raises(ConfigError, match="2 objectives; it must have one"):
        ms.Optimizer(BOX, transfer=opt.trials)


def test_parameters_match_by_name_and_what_is_new_says_nothing():
    earlier = [({"b": v, "k": "u", "gone": 9}, v) for v in (0.0, 0.5, 1.0)] + [({"b": 7.0, "k": "u"}, 0.0)]
    with pytest.warns(ModeseekWarning, match="1 of 4 trials of study 1 are left out: parameter 'b': 7.0"):
        knowledge = Knowledge.of(SPACE, None, earlier, -1.0)
    (study,) = knowledge.studies
    assert dict(zip(SPACE.coordinates, study.shared.tolist(), strict=True)) == {"a": False, "b": True, "k": True}
    stack = knowledge.stack(CPU, SMALLEST)
    x = torch.tensor([[0.1, 0.3, 0.25], [0.9, 0.3, 0.25]], dtype=torch.float64)
    one, other = stack.means(x)
    assert float(one) == float(other)
    assert float(stack.grad(x[None], torch.ones(1, 1, dtype=torch.float64))[0, 0, 0]) == 0
    assert knowledge.design(generator(), 0)[0][1] == 0.0, "where b was best"


def test_the_best_points_of_a_study_are_apart_and_begin_the_design():
    X = np.array([[0.5, 0.5], [0.51, 0.5], [0.9, 0.1], [0.1, 0.9]])
    told = read([(x, v) for x, v in zip(X, (1.0, 1.1, 2.0, 3.0), strict=True)], -1.0)[0]
    study = Study.of(ms.Space.box([0, 0], [1, 1]), told)
    best = study.best(np.zeros(2))
    np.testing.assert_array_equal(best, X[[0, 2, 3]])
    assert DISTINCT > 0.01
    opt = ms.Optimizer(
        ms.Space.box([0, 0], [1, 1]), seed=0, config=SMALLEST, transfer=[[(x, 1.0 + i) for i, x in enumerate(X)]]
    )
    asked = np.array([trial.params for trial in opt.ask(5)])
    np.testing.assert_array_equal(asked[[0, 3]], X[[0, 2]])


@pytest.mark.parametrize("kind", ["constraints", "prior", "plain"])
def test_a_run_with_an_earlier_study_saves_loads_and_goes_on(tmp_path, kind):
    before = [(x, sphere(x)) for x in np.random.default_rng(0).uniform(-5, 5, (30, 2))]
    prior = {"x0": 1.0} if kind == "prior" else None
    config = replace(SMALLEST, train_on="nothing")
    opt = ms.Optimizer(BOX, seed=0, config=config, n_initial=8, transfer=before, prior=prior)
    for _ in range(9):
        trial = opt.ask()
        opt.tell(
            trial, 2 * sphere(trial.params) + 1, constraints=[trial.params[0] - 1] if kind == "constraints" else None
        )
    gp = opt.suggestion.gp.objectives if kind == "constraints" else opt.suggestion.gp
    assert gp.stack is not None
    opt.save(tmp_path / "run.modeseek")
    opt.close()
    loaded = ms.Optimizer.load(tmp_path / "run.modeseek")
    np.testing.assert_array_equal(loaded.ask().params, opt.ask().params)
    assert len(opt.ask(2)) == 2
    mean, _ = opt.predict(np.array([3.0, 3.0]))
    assert np.isfinite(mean)


def test_another_study_for_a_run_that_is_resumed_is_not_used_in_silence(tmp_path):
    path, settings = tmp_path / "run", dict(seed=0, config=SMALLEST, n_initial=4, progress=False)
    first, second = ([(np.full(2, x + i), i) for i in range(4)] for x in (-4.0, 1.0))
    ms.minimize(sphere, BOX, 4, checkpoint=path, transfer=first, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.minimize(sphere, BOX, 5, checkpoint=path, transfer=first, **settings)
        ms.minimize(sphere, BOX, 5, checkpoint=path, **settings)
    with pytest.warns(ModeseekWarning, match="transfer= is not used: a run that is resumed keeps"):
        ms.minimize(sphere, BOX, 6, checkpoint=path, transfer=second, **settings)
