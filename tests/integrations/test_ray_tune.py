"""Ray Tune with DMSSampler: on a real local Ray, and what a NaN result does to the study."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")
from optuna.trial import TrialState  # noqa: E402
from ray import tune  # noqa: E402
from ray.tune.search import ConcurrencyLimiter  # noqa: E402
from ray.tune.search.optuna import OptunaSearch  # noqa: E402

from modeseek import ModeseekError  # noqa: E402
from modeseek.integrations.optuna import DMSSampler  # noqa: E402
from modeseek.integrations.ray import FiniteOptunaSearch  # noqa: E402
from shared import TRAINED  # noqa: E402

SPACE = {
    "lr": tune.loguniform(1e-5, 1e-1),
    "units": tune.randint(50, 201),
    "act": tune.choice(["relu", "tanh"]),
}

pytestmark = pytest.mark.filterwarnings(r"ignore:::(ray|optuna)(\.|$)")


@pytest.fixture
def _local_ray() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def sampler() -> DMSSampler:
    return DMSSampler(seed=0, config=TRAINED, n_startup_trials=6)


def study_states(search: OptunaSearch) -> list[TrialState]:
    return [trial.state for trial in search._ot_study.trials]


@pytest.mark.usefixtures("_local_ray")
def test_twelve_trials_on_a_local_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some give NaN, some raise; the others are what the sampler learns from."""
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")

    def objective(config: dict[str, Any]) -> dict[str, float]:
        if config["lr"] < 1e-4:
            raise ArithmeticError("too small")
        off = math.log10(config["lr"]) + 3
        loss = off**2 + ((config["units"] - 120) / 75) ** 2 + (0.0 if config["act"] == "relu" else 0.3)
        return {"loss": math.nan if config["lr"] > 1e-2 else loss}

    search = OptunaSearch(sampler=sampler())
    tuner = tune.Tuner(
        objective,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            search_alg=ConcurrencyLimiter(search, max_concurrent=2),
            num_samples=12,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()

    best = results.get_best_result(filter_nan_and_inf=True)
    assert best.metrics is not None
    assert best.metrics["loss"] < 1
    trials = search._ot_study.trials
    assert len({tuple(sorted(trial.params.items())) for trial in trials}) == len(trials) == 12
    for trial in trials:
        lr = trial.params["lr"]
        # A NaN result leaves its trial running, a raised error does not.
        expected = TrialState.FAIL if lr < 1e-4 else TrialState.RUNNING if lr > 1e-2 else TrialState.COMPLETE
        assert trial.state == expected
    assert set(study_states(search)) == {TrialState.FAIL, TrialState.RUNNING, TrialState.COMPLETE}


def drive(search: OptunaSearch, outcomes: list[float | None]) -> OptunaSearch:
    """Call a searcher as Ray does, one trial after the other; None is an error."""
    search.set_search_properties("loss", "min", SPACE)
    for i, loss in enumerate(outcomes):
        search.suggest(str(i))
        if loss is None:
            search.on_trial_complete(str(i), error=True)
        else:
            result = {"loss": loss, "training_iteration": 1}
            search.on_trial_result(str(i), result)
            search.on_trial_complete(str(i), result)
    return search


def test_a_nan_result_is_a_failed_trial_where_we_can_make_it_one() -> None:
    outcomes = [1.0, math.nan, 2.0, math.inf, None]
    states = study_states(drive(FiniteOptunaSearch(sampler=sampler()), outcomes))
    fail, complete = TrialState.FAIL, TrialState.COMPLETE
    assert states == [complete, fail, complete, fail, fail]


def test_rays_own_class_leaves_it_running() -> None:
    """If this fails, Ray or Optuna has changed, and FiniteOptunaSearch may have become needless."""
    states = study_states(drive(OptunaSearch(sampler=sampler()), [1.0, math.nan, math.inf]))
    assert states == [TrialState.COMPLETE, TrialState.RUNNING, TrialState.COMPLETE]


def test_a_result_without_the_metric_is_as_in_rays_own_class() -> None:
    search = FiniteOptunaSearch(sampler=sampler())
    search.set_search_properties("loss", "min", SPACE)
    search.suggest("0")
    search.on_trial_complete("0", {"training_iteration": 1})
    assert study_states(search) == [TrialState.PRUNED]


def test_a_searcher_is_saved_and_restored(tmp_path: Path) -> None:
    outcomes = [float(i) for i in range(7)]
    search = drive(FiniteOptunaSearch(sampler=sampler()), [*outcomes])
    search.save(str(tmp_path / "searcher"))
    restored = FiniteOptunaSearch(sampler=sampler())
    restored.restore(str(tmp_path / "searcher"))
    assert len(restored._ot_study.trials) == 7
    assert restored.suggest("next") == search.suggest("next")


def test_several_metrics_are_for_rays_own_class() -> None:
    search = FiniteOptunaSearch(metric=["a", "b"], mode=["min", "min"], sampler=None)
    search.set_search_properties(None, None, SPACE)
    with pytest.raises(ModeseekError, match="one metric"):
        search.on_trial_complete("0", {"a": 1.0, "b": 2.0})


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.tune.search.optuna", None)
    monkeypatch.delitem(sys.modules, "modeseek.integrations.ray")
    with pytest.raises(ModeseekError, match=r'pip install .*"\.\[ray\]"'):
        importlib.import_module("modeseek.integrations.ray")
