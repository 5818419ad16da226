"""Black-box constraints from the user's side: told, kept, counted, and what is then the best."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import modeseek as ms
from modeseek.constraints import constrain, margins_of
from modeseek.dms import row_of
from modeseek.document import to_document, trials_of
from modeseek.locality import Boxes
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize
from modeseek.outcomes import measured, never_measures
from modeseek.paths import ConstrainedPaths, draw_paths
from modeseek.trials import least_violation
from shared import CHEAP, SMALLEST, TRAINED, generator, hill

BOX = ms.Space.box([0, 0], [1, 1])
QUIET: dict[str, Any] = {"progress": False, "config": SMALLEST, "seed": 0, "n_initial": 4}


def half(x: np.ndarray) -> tuple[float, list[float]]:
    """Best at (0.8, 0.8), feasible on the left half: (0.5, 0.8) is the best that is."""
    return float(np.square(x - 0.8).sum()), [float(x[0] - 0.5), float(-1 - x[1])]


def as_outcome(x: np.ndarray) -> ms.Outcome:
    value, constraints = half(x)
    return ms.Outcome(value, constraints=np.array(constraints))


def told() -> ms.Optimizer:
    opt = ms.Optimizer(BOX, seed=0, config=SMALLEST, n_initial=4)
    for x, value, limits in (([0.1, 0.1], 3.0, [-1, -1]), ([0.9, 0.1], 1.0, [0.5, -1]), ([0.2, 0.2], 2.0, [0, -2])):
        opt.tell_params(np.array(x), value, constraints=limits)
    return opt


def test_the_best_is_the_best_feasible_one() -> None:
    opt = told()
    assert [trial.constraints for trial in opt.trials] == [(-1, -1), (0.5, -1), (0, -2)]
    assert [trial.feasible for trial in opt.trials] == [True, False, True]
    assert opt.best == opt.trials[2]
    assert opt.recommend() in (opt.trials[0], opt.trials[2])
    trial = opt.tell(opt.ask(), 0.5, constraints=torch.tensor([-0.1, -0.1]))
    assert (opt.best, opt.best.value) == (trial, 0.5)  # type: ignore[union-attr]


def test_another_number_of_constraints_is_refused_and_nothing_changes() -> None:
    opt = told()
    trial = opt.ask()
    before = opt.trials
    for limits in (None, [], [1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(ms.TrialError, match="every trial needs as many"):
            opt.tell(trial, 1.0, constraints=limits)
        with pytest.raises(ms.TrialError, match="every trial needs as many"):
            opt.tell_params(np.zeros(2), 1.0, constraints=limits)
    assert opt.trials == before


def test_constraints_without_a_value_are_refused() -> None:
    opt = told()
    trial = opt.ask()
    with pytest.raises(ms.ConfigError, match="constraints without a value"):
        opt.tell(trial, constraints=[1.0, 2.0])
    with pytest.raises(ms.ConfigError, match="not both"):
        opt.tell(trial, failed=True, constraints=[1.0, 2.0])
    with pytest.raises(ms.ConfigError, match="once"):
        opt.tell(trial, ms.Outcome(1.0, [1.0, 2.0]), constraints=[1.0, 2.0])
    with pytest.raises(ms.ConfigError, match="sem"):
        opt.tell(trial, ms.Outcome(1.0, [1.0, 2.0]), sem=0.1)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ([math.nan, 0.0], "constraint 0 is NaN"),
        ([0.0, math.inf], "constraint 1 is infinite"),
        ([0.0, None], "constraint 1 is None"),
        ([0.0, True], "constraint 1 is True: a constraint is a number, feasible where it is at most 0.* violated"),
        ([np.bool_(False), 0.0], "constraint 0 is False"),
        (torch.tensor([True, True]), "constraint 0 is True"),
        ("ab", "not a list of numbers"),
        (1.0, "not a list of numbers"),
        (np.zeros((1, 2)), "not a list of numbers"),
    ],
)
def test_a_constraint_that_is_no_number_fails_the_trial(limits: Any, message: str) -> None:
    opt = told()
    with pytest.warns(ms.TrialFailedWarning, match=message):
        trial = opt.tell(opt.ask(), 0.0, constraints=limits)
    assert (trial.state, trial.values, trial.constraints) == (ms.TrialState.FAILED, None, None)
    assert opt.best == opt.trials[2]


@pytest.mark.parametrize(
    ("returned", "values", "limits"),
    [
        (2, (2.0,), ()),
        ((2.0, [1.0]), (2.0,), (1.0,)),
        ((np.float32(2), (1, -1)), (2.0,), (1.0, -1.0)),
        ((torch.tensor([2.0]), torch.tensor([1.0])), (2.0,), (1.0,)),
        (ms.Outcome(2.0), (2.0,), ()),
        (ms.Outcome(np.array(2.0), np.ones(3)), (2.0,), (1.0, 1.0, 1.0)),
    ],
)
def test_what_an_objective_may_return(returned: Any, values: Any, limits: Any) -> None:
    assert measured(returned) == (values, limits, None)
    assert not never_measures(returned)


@pytest.mark.parametrize(
    "returned", [(1.0, 2.0), [1.0, [2.0]], (1.0, [2.0], 3), (None, [1.0]), ms.Outcome("1"), {}, ()]
)
def test_what_it_may_not(returned: Any) -> None:
    with pytest.raises(ValueError, match="value is"):
        measured(returned)
    assert never_measures(returned)
    with pytest.raises(ms.ObjectiveTypeError, match=r"\(value, \[g1, g2\]\)"):
        ms.minimize(lambda x: returned, BOX, 5, **QUIET)


def test_a_run_is_the_same_however_constraints_are_returned(tmp_path: Path) -> None:
    whole = ms.minimize(half, BOX, 8, **QUIET)
    ms.minimize(as_outcome, BOX, 6, checkpoint=tmp_path / "run", **QUIET)
    resumed = ms.minimize(as_outcome, BOX, 8, checkpoint=tmp_path / "run", **QUIET)
    assert resumed.trials == whole.trials
    assert [trial.constraints for trial in resumed.trials] == [tuple(half(trial.params)[1]) for trial in whole.trials]
    assert whole.best is not None
    assert whole.best.value == min(trial.value for trial in whole.trials if trial.params[0] <= 0.5)  # type: ignore[type-var]
    assert pickle.loads(pickle.dumps(whole)).best == whole.best
    assert "constraints of the best" in str(whole)
    frame = whole.to_dataframe()
    assert frame["feasible"].tolist() == (frame["constraints_0"] <= 0).tolist()
    crosses = whole.plot().collections[1].get_offsets()
    assert len(crosses) == sum(not trial.feasible for trial in whole.trials)


def test_known_trials_have_constraints_too() -> None:
    known = [([0.2, 0.8], (0.36, [-0.3, -1.8])), ([0.9, 0.8], ms.Outcome(0.01, [0.4, -1.8]))]
    result = ms.minimize(half, BOX, 3, known=known, **QUIET)
    assert result.trials[0].constraints == (-0.3, -1.8)
    assert not result.trials[1].feasible
    with pytest.raises(ms.ObjectiveTypeError, match=r"^known= has no constraints.*returns 2 constraints"):
        ms.minimize(half, BOX, 3, known=[([0.2, 0.8], 0.36)], **QUIET)
    with pytest.raises(ms.ObjectiveTypeError, match=r"^known= has 1 constraint with.*returns no constraints"):
        ms.minimize(lambda x: 1.0, BOX, 3, known=[([0.2, 0.8], (0.36, [1.0]))], **QUIET)


@pytest.mark.parametrize("form", [lambda result: result, lambda result: result.trials])
def test_a_result_and_its_trials_are_known(form: Any, tmp_path: Path) -> None:
    values = iter([math.nan, *range(100)])
    with pytest.warns(ms.TrialFailedWarning):
        old = ms.minimize(lambda x: ms.Outcome(next(values), half(x)[1], sem=0.1), BOX, 4, **QUIET)
    for budget in (2, 3):  # the second one is resumed, and has what is known already
        new = ms.minimize(half, BOX, budget, known=form(old), checkpoint=tmp_path / "run", **QUIET)
        known = [trial for trial in new.trials if trial.origin == "told"]
        assert [(t.unit, t.values, t.constraints, t.sem) for t in known] == [
            (t.unit, t.values, t.constraints, t.sem) for t in old.trials[1:]
        ]
        assert len(new.trials) == 3 + budget


def test_a_result_of_one_objective_is_not_known_of_two() -> None:
    one = ms.minimize(lambda x: float(x[0]), ms.Space.box([0], [1]), 2, progress=False)
    with pytest.raises(ms.ConfigError, match="trial 0 of known= has 1 and this run 2 as its number of objectives"):
        ms.minimize(lambda x: [0, 1], ms.Space.box([0], [1]), 2, known=one, directions=["minimize", "maximize"])


def test_what_is_known_outside_of_the_space_is_named() -> None:
    with pytest.raises(ms.ParameterError, match=r"known= has \{'x': 3\}: parameter 'x': 3.0 is not in"):
        ms.minimize(lambda p: 0.0, ms.Space({"x": ms.Float(0, 1)}), 2, known=[({"x": 3}, 1.0)])


def test_a_result_of_several_objectives_is_known() -> None:
    goals: Any = ["minimize", "maximize"]
    old = ms.minimize(lambda x: ([x[0], x[1]], [x[0] - 0.5]), BOX, 3, directions=goals, **QUIET)
    new = ms.minimize(lambda x: ([x[0], x[1]], [x[0] - 0.5]), BOX, 1, directions=goals, known=old, **QUIET)
    assert [(t.values, t.constraints) for t in new.trials[:3]] == [(t.values, t.constraints) for t in old.trials]


def test_a_later_return_without_constraints_is_a_failed_trial() -> None:
    calls = iter(range(100))
    with pytest.warns(ms.TrialFailedWarning, match="no constraints"):
        result = ms.minimize(lambda x: half(x) if next(calls) != 2 else 1.0, BOX, 5, **QUIET)
    assert [trial.state.value for trial in result.trials] == ["complete"] * 2 + ["failed"] + ["complete"] * 2


def test_files_from_before_constraints_load(tmp_path: Path) -> None:
    opt = ms.Optimizer(BOX, seed=0)
    opt.tell(opt.ask(), 1.0)
    document = to_document(opt._snapshot())
    assert "constraints" not in json.dumps(document)
    opt.save(tmp_path / "run")
    assert ms.Optimizer.load(tmp_path / "run").trials == opt.trials


def test_damaged_constraints_are_refused() -> None:
    document = to_document(told()._snapshot())
    document["trials"][0]["constraints"] = ["1"]
    with pytest.raises(ValueError, match="list of numbers"):
        trials_of(BOX, document["trials"])


def test_fault_49_when_nothing_is_feasible_the_least_violated_is_said() -> None:
    result = ms.minimize(lambda x: (0.0, [x[0] + 0.1, 1e300 * (x[1] + 0.1)]), BOX, 6, **QUIET)
    assert result.best is None
    assert result.recommended is None
    assert len(result.trials) == 6
    units = np.array([trial.unit for trial in result.trials]) + 0.1
    nearest = int((units / np.sqrt(np.square(units).mean(0))).sum(1).argmin())
    assert f"least violated by trial {nearest}" in str(result)
    assert result.least_violated == result.trials[nearest]
    with pytest.raises(ms.TrialError, match="no trial is feasible"):
        _ = result.optimum


def test_the_least_violation_is_of_no_scale() -> None:
    rows = [[1.0, 2e9], [-5.0, 1e9], [3.0, -1.0]]
    assert least_violation(rows) == 1
    assert least_violation([[row[0], row[1] / 1e9] for row in rows]) == 1


def test_a_feasible_region_of_two_per_cent_is_found_and_searched() -> None:
    """A disk in a corner where the objective is bad; the best point of it is its nearest to the other corner."""
    centre, radius = np.array([0.85, 0.15]), math.sqrt(0.02 / math.pi)

    def f(x: np.ndarray) -> tuple[float, list[float]]:
        return float(x[0] - x[1]), [float(np.square(x - centre).sum() - radius**2)]

    result = ms.minimize(f, BOX, 25, seed=1, config=CHEAP, progress=False, n_initial=6)
    assert not any(trial.feasible for trial in result.trials[:6])
    assert result.best is not None
    assert result.best.value is not None
    assert result.best.value < 0.7 - radius / math.sqrt(2), "half way from its centre to its best"


def test_what_is_known_of_the_optimum_respects_the_constraints() -> None:
    opt = ms.Optimizer(BOX, seed=0, config=TRAINED)
    for x in torch.rand(20, 2, dtype=torch.float64, generator=generator(3)).numpy():
        opt.tell_params(x, *half(x)[:1], constraints=half(x)[1])
    optimum = opt.optimum(draws=32)
    samples = np.array(optimum.samples)
    assert np.median(np.abs(samples - [0.5, 0.8]), 0).max() < 0.05
    assert optimum.recommended[0] <= 0.5
    recommended = opt.recommend()
    assert recommended is not None
    assert recommended.feasible
    best = opt.best
    assert best is not None
    assert best.value is not None
    assert best.value - 0.09 - 0.1 < optimum.regret(0.95) < 0.5


def test_the_gradient_of_constrained_draws_is_that_of_their_values() -> None:
    X, Y = hill(8, 2)
    margins, thresholds = margins_of(X, torch.stack([X[..., 0] - 0.4, X[..., 1] - 0.6], -1))
    objective = draw_paths(fit(X, standardize(Y)), 3, generator(1))
    drawn = ConstrainedPaths(objective, draw_paths(margins, 3, generator(2)), thresholds, X[0, :, 0] <= 0.4)
    x = torch.rand(1, 3, 4, 2, dtype=torch.float64, generator=generator(4))
    value, grad = drawn.value_and_grad(x)
    step = 1e-6 * torch.eye(2, dtype=torch.float64)
    central = torch.stack([(drawn.value(x + h) - drawn.value(x - h)) / 2e-6 for h in step], -1)
    torch.testing.assert_close(grad, central, rtol=1e-4, atol=1e-4)
    same = x[:, :1].expand(1, 3, 4, 2)
    torch.testing.assert_close(drawn.everywhere(x[:, 0]), drawn.value(same))
    assert (value <= objective.value(x) + 1e-12).all()


def test_that_an_evaluation_has_an_outcome_is_the_last_constraint() -> None:
    X, Y = hill(30, 2, b=2)
    lost = X[:, :10] * torch.tensor([0.3, 1.0], dtype=torch.float64) + torch.tensor([0.7, 0.0], dtype=torch.float64)
    X = X * torch.tensor([0.6, 1.0], dtype=torch.float64)
    limits = torch.stack([X[..., 1] - 0.5, X[..., 0] - 0.4], -1)
    alone, thresholds = margins_of(X, limits)
    both, with_last = margins_of(X, limits, lost=lost)
    x = torch.rand(2, 40, 2, dtype=torch.float64, generator=generator(0))
    torch.testing.assert_close(both.posterior(x.expand(3, 2, 40, 2))[0][:2], alone.posterior(x.expand(2, 2, 40, 2))[0])
    assert with_last[:2].equal(thresholds)
    mu, sigma = both.posterior(x.expand(3, 2, 40, 2))
    met = torch.special.ndtr((mu[2] - with_last[2, :, None]) / sigma[2])
    assert (met[x[..., 0] < 0.55] > 0.8).all()
    assert (met[x[..., 0] > 0.75] < 0.2).all()
    objective = fit(X, standardize(Y))
    for gp in (constrain(objective, X, None, lost), constrain(objective, X, limits, lost)):
        label, grad = gp.label_and_grad(x, 0.5)
        torch.testing.assert_close(label, gp.label(x, 0.5))
        tracked = x.clone().requires_grad_()
        (by_autograd,) = torch.autograd.grad(gp.label(tracked, 0.5).sum(), tracked)
        torch.testing.assert_close(grad, by_autograd, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(row_of(gp, 1).label(x[1:], 0.5), label[1:])
    near = constrain(objective, X, None, lost)
    far = x[..., 0] < 0.3
    assert (objective.label(x, 0.5) - near.label(x, 0.5))[far].max() < 0.1, "as it was where nothing fails"


def test_a_surrogate_with_failures_is_the_same_in_a_box() -> None:
    X, Y = hill(12, 2)
    boxes = Boxes(torch.full((1, 1, 2), 0.2, dtype=torch.float64), torch.full((1, 1, 2), 0.5, dtype=torch.float64))
    gp = constrain(fit(X, standardize(Y)), X, None, torch.full((1, 1, 2), 0.9, dtype=torch.float64))
    x = torch.rand(1, 20, 2, dtype=torch.float64, generator=generator(0))
    torch.testing.assert_close(boxes.gp_inward(gp).label(boxes.inward(x), 1.0), gp.label(x, 1.0))
    torch.testing.assert_close(boxes.gp_outward(boxes.gp_inward(gp)).label(x, 1.0), gp.label(x, 1.0))
