"""Samples of x* from the GP and from the diffusion model, and how far apart two sample sets are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from modeseek.bench.campaign.replication import initial_design
from modeseek.bench.measure.distribution import OptimumSamples, energy_distance, load, save, spread, take_samples
from modeseek.bench.measure.measurements import write
from modeseek.bench.methods.botorch_methods import posterior_optima
from modeseek.bench.report.distribution import draw, table
from modeseek.bench.tasks import find_task
from modeseek.errors import ConfigError
from modeseek.map_fit import fit
from modeseek.outcome_transforms import standardize


def test_energy_distance_is_scipys_in_one_dimension() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 1)), rng.normal(0.5, 2, size=(50, 1))
    assert energy_distance(x, y) == pytest.approx(stats.energy_distance(x[:, 0], y[:, 0]))
    assert energy_distance(x, x) == pytest.approx(0, abs=1e-7)


def test_two_sets_of_one_distribution_are_nearer_than_others() -> None:
    rng = np.random.default_rng(0)
    here, again, moved = (rng.normal(centre, 0.05, size=(200, 2)) for centre in (0.5, 0.5, 0.55))
    floor, middle, ceiling = (energy_distance(here, other) for other in (again, moved, rng.random((200, 2))))
    assert floor < 0.5 * middle < 0.25 * ceiling


def test_spread_of_a_gaussian() -> None:
    sample = np.random.default_rng(0).normal(0, 0.1, size=(5000, 2))
    assert spread(sample) == pytest.approx(0.1 * np.sqrt(2), rel=0.05)


def test_posterior_optima_are_distributed_as_the_maxima_of_exact_paths() -> None:
    X = torch.tensor([0.05, 0.3, 0.5, 0.8], dtype=torch.float64)[None, :, None]
    gp = fit(X, standardize(torch.tensor([[0.0, 1.0, 0.2, 0.9]], dtype=torch.float64)))
    grid = torch.linspace(0, 1, 201, dtype=torch.float64)[:, None]
    k = torch.exp(-0.5 * ((grid - torch.cat([grid, X[0]]).T) / gp.hyperparameters.lengthscale[0]) ** 2)
    covariance = k[:, :201] - k[:, 201:] @ gp.inverse[0] @ k[:, 201:].T
    values, vectors = torch.linalg.eigh(covariance)
    noise = torch.randn(201, 1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    paths = gp.posterior(grid[None])[0][0, :, None] + (vectors * values.clamp_min(0).sqrt()) @ noise
    exact = grid[paths.argmax(0)].numpy()
    sampled = posterior_optima(gp, 120, seed=0).numpy()
    uniform = np.random.default_rng(0).random((1000, 1))
    assert energy_distance(sampled, exact) < 0.5 * energy_distance(sampled, uniform)


def test_samples_of_a_replication_and_their_way_to_a_file_and_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modeseek.bench.measure.distribution.PAIRS", 16)
    problem = find_task("styblinski-tang-2")
    config = replace(problem.config(), m=40, S=12, epochs=2, steps=4, hidden=16)
    taken = take_samples((1, 3), config=config)
    assert [(s.iteration, len(s.observed)) for s in taken] == [(1, 20), (3, 22)]
    np.testing.assert_array_equal(taken[1].observed[:20], initial_design(problem, 0))
    for s in taken:
        for sample in (s.gp, s.gp_again, s.diffusion, s.learned):
            assert sample is not None
            assert sample.shape == (12, 2)
            assert ((sample >= 0) & (sample <= 1)).all()
        assert not np.array_equal(s.gp, s.gp_again)

    path = tmp_path / "distribution.json"
    for s in taken:
        save(path, s)
    stored = load(path)
    np.testing.assert_allclose(stored[1].diffusion, taken[1].diffusion, atol=1e-4)
    assert stored[1].iteration == 3
    assert stored[1].seconds > 0
    png, _ = draw(stored, tmp_path / "distribution")
    assert png.read_bytes()[:4] == b"\x89PNG"


def samples(method: str, replication: int, spread_of_model: float, **more: object) -> OptimumSamples:
    rng = np.random.default_rng([replication, int(1e6 * spread_of_model)])
    gp, again, diffusion = (rng.normal(0.5, scale, size=(100, 2)) for scale in (0.1, 0.1, spread_of_model))
    return OptimumSamples(10, gp, gp, again, diffusion, again, method, replication, **more)  # type: ignore[arg-type]


def test_a_replication_of_a_preset_takes_the_place_of_the_same_one_before(tmp_path: Path) -> None:
    path = tmp_path / "distribution.json"
    earlier = samples("dms-paper", 0, 0.3)
    sets = {name: getattr(earlier, name).tolist() for name in ("observed", "gp", "gp_again", "diffusion")}
    write(path, [{"iteration": 10, "device": "CPU", "threads": 1} | sets])
    assert [(s.method, s.replication, s.fell_back) for s in load(path)] == [("dms-paper", 0, False)], "of earlier files"
    for method, replication, spread_of_model in (
        ("dms-paper", 0, 0.2),
        ("dms-printed", 1, 0.1),
        ("dms-paper", 0, 0.01),
    ):
        save(path, samples(method, replication, spread_of_model))
    found = {(s.method, s.replication): spread(s.diffusion) for s in load(path)}
    assert list(found) == [("dms-printed", 1), ("dms-paper", 0)]
    assert found["dms-paper", 0] == pytest.approx(0.014, rel=0.2), "the last"


def test_only_dms_learns_where_the_optimum_is() -> None:
    with pytest.raises(ConfigError, match="'ei' is not"):
        take_samples((1,), method="ei")


def test_the_table_has_means_over_replications_and_counts_those_without_a_model_apart() -> None:
    taken = [samples("dms-printed", r, 0.01 * (r + 1)) for r in range(3)]
    taken += [samples("dms-printed", 3, 1e-9, fell_back=True), samples("dms-paper", 0, 0.02)]
    of = table(taken)
    assert [line[:4] for line in of.cells] == [["dms-printed", "10", "4", "1"], ["dms-paper", "10", "1", "0"]]
    spreads = [spread(s.diffusion) for s in taken[:3]]
    assert float(of.cells[0][-1].split(" ± ")[0]) == pytest.approx(np.mean(spreads), rel=1e-2), "without the fourth"
    assert float(of.cells[0][-2].split(" ± ")[0]) == pytest.approx(np.mean([spread(s.gp) for s in taken[:4]]), rel=1e-2)
    assert len(of.rows) == 5


def test_the_table_holds_the_distances_beside_floor_and_uniform_points() -> None:
    rng = np.random.default_rng(0)
    gp, again, diffusion = (rng.normal(0.5, scale, size=(100, 2)) for scale in (0.1, 0.1, 0.01))
    row = table([OptimumSamples(10, gp, gp, again, diffusion, again)]).rows[0]
    assert row["GP to a model of (x*, y*)"] == row["GP to GP (floor)"]
    assert "GP to a model of (x*, y*)" not in table([OptimumSamples(10, gp, gp, again, diffusion)]).rows[0]
    assert row["GP to diffusion"] == pytest.approx(energy_distance(gp, diffusion))
    assert row["GP to GP (floor)"] < row["GP to diffusion"]
    assert row["spread, diffusion"] < 0.2 * row["spread, GP"]
