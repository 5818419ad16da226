"""Algorithm 1 as a whole: settings, properties of a suggestion, batches, warm starts."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest
import torch
from torch import Tensor

from modeseek import dms
from modeseek.bench.measure.distribution import energy_distance
from modeseek.config import DMSConfig, NetworkInputs
from modeseek.dms import Suggestion, _from_network, _to_network, suggest
from modeseek.domain import Domain, Rounding
from modeseek.errors import ConfigError
from modeseek.fitting import fit_surrogate
from modeseek.outcome_transforms import BAD_OUTLIER, floor_of, most_normal_power, standardize, warp, yeo_johnson
from shared import TRAINED, generator, hill

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def run(config: DMSConfig = TRAINED, n: int = 20, d: int = 2, b: int = 1, seed: int = 0, **rest: object) -> Suggestion:
    X, Y = hill(n, d, b)
    return suggest(X, Y, config, generator(seed), **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("d", "sizes"),
    [
        (1, (500, 5, 200)),
        (2, (500, 5, 200)),
        (4, (500, 5, 200)),
        (5, (800, 5, 300)),
        (7, (800, 5, 300)),
        (8, (800, 25, 300)),
        (10, (800, 25, 300)),
        (11, (1200, 25, 400)),
        (20, (1200, 25, 400)),
        (50, (1500, 25, 400)),
    ],
)
def test_the_papers_table(d: int, sizes: tuple[int, int, int]) -> None:
    paper = DMSConfig.paper(d)
    assert (paper.m, paper.K, paper.S) == sizes
    assert paper.sizes(d) == sizes
    assert (paper.w, paper.rho, paper.p_drop, paper.polish, paper.refine) == (2.0, 1.0, 0.15, False, "point")
    assert (paper.epochs, paper.batch_size, paper.lr, paper.lr_min, paper.hold_epochs) == (100, 256, 1e-3, 1e-4, 20)
    assert (paper.weight_decay, paper.hidden, paper.beta_min, paper.beta_max) == (1e-4, 256, 0.1, 20.0)
    assert (paper.rho_far, paper.warp) == (None, "never")


def test_configurations_are_values() -> None:
    assert DMSConfig() == DMSConfig()
    assert len({DMSConfig(), DMSConfig(), DMSConfig.paper(2)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        DMSConfig().m = 3  # type: ignore[misc]
    assert DMSConfig(m=7).sizes(2) == (7, *DMSConfig().sizes(2)[1:])


@pytest.mark.parametrize(
    "bad",
    [
        {"m": 0},
        {"m": 2.5},
        {"m": True},
        {"S": 0},
        {"K": -1},
        {"epochs": 0},
        {"steps": 0},
        {"batch_size": 0},
        {"hidden": 0},
        {"rho": -1.0},
        {"rho": float("nan")},
        {"w": float("inf")},
        {"p_drop": 1.0},
        {"p_drop": 0.0, "w": 1.0},
        {"lr_min": 1.0},
        {"beta_max": 0.05},
        {"t0": 0.0},
        {"t0": 1.0},
        {"quantile": 0.0},
        {"refine": "both"},
        {"train_on": "everything"},
        {"solver": "euler"},
        {"loss_weight": "two"},
        {"rho": "1"},
        {"rho_far": -1.0},
        {"rho_far": float("nan")},
        {"warp": True},
        {"predict": "x"},
        {"network_inputs": 1},
        {"after_fall_back": "forget"},
        {"round_inputs": 1},
        {"skip_collapsed": None},
        {"polish": 1},
        {"name": 3},
    ],
)
def test_fault_19_settings_without_meaning_are_refused_by_name(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        DMSConfig(**bad)  # type: ignore[arg-type]
    assert issubclass(ConfigError, ValueError)


@pytest.mark.parametrize("least", [{"S": 1}, {"m": 1}, {"K": 0}, {"steps": 1}, {"epochs": 1}, {"w": 0.0}, {"rho": 0.0}])
def test_fault_19_the_least_settings_work(least: dict[str, int]) -> None:
    out = run(dataclasses.replace(TRAINED, **least))  # type: ignore[arg-type]
    assert ((out.x_next >= 0) & (out.x_next <= 1)).all()


@pytest.mark.parametrize("refine", ["point", "joint"])
@pytest.mark.parametrize("solver", ["ode", "sde"])
def test_a_suggestion_and_all_it_was_found_from(refine: str, solver: str) -> None:
    out = run(dataclasses.replace(TRAINED, refine=refine, solver=solver), d=3, b=2)  # type: ignore[arg-type]
    assert out.x_next.shape == (2, 3)
    assert out.candidates.shape == (2, 48, 3)
    assert out.pseudo_x.shape == (2, 96, 3)
    assert out.pseudo_y.shape == (2, 96)
    for x in (out.x_next, out.candidates, out.pseudo_x):
        assert x.dtype == torch.float64
        assert ((x >= 0) & (x <= 1)).all()
    torch.testing.assert_close(out.pseudo_y, out.gp.label(out.pseudo_x, 1.0))
    assert list(out.seconds) == ["fit", "pseudo", "train", "sample", "mode"]
    assert out.state.network.dtype == torch.float32
    assert not out.fell_back.any()


@pytest.mark.parametrize("batch", [(), (1,), (2, 3)])
def test_any_number_of_leading_batch_dimensions(batch: tuple[int, ...]) -> None:
    X = torch.rand(*batch, 12, 2, dtype=torch.float64, generator=generator())
    out = suggest(X, -(X - 0.7).square().sum(-1), TRAINED, generator(), pending=X[..., :1, :])
    again = suggest(X, -(X - 0.7).square().sum(-1), TRAINED, generator(), out.state)
    for tail, tensor in (
        ((2,), again.x_next),
        ((48, 2), again.candidates),
        ((96,), again.pseudo_y),
        ((), again.fell_back),
    ):
        assert tensor.shape == (*batch, *tail)


def test_the_same_generator_gives_the_same_suggestion_and_another_another() -> None:
    unpolished = dataclasses.replace(TRAINED, polish=False)
    assert run(unpolished).x_next.equal(run(unpolished).x_next)
    assert not run(unpolished).x_next.equal(run(unpolished, seed=1).x_next)


def test_the_candidates_gather_where_the_label_is_high() -> None:
    config = dataclasses.replace(TRAINED, epochs=400, hidden=64, m=256, steps=30)
    out = run(config, n=30)
    uniform = torch.rand(1, 500, 2, dtype=torch.float64, generator=generator(9))
    assert out.gp.label(out.candidates, 1.0).mean() > out.gp.label(uniform, 1.0).quantile(0.9)


def test_polish_climbs_from_the_mode_to_an_optimum_of_the_label() -> None:
    rough = run(dataclasses.replace(TRAINED, polish=False))
    polished = run(TRAINED)
    assert polished.mode.equal(rough.x_next)
    before = rough.gp.label(rough.x_next[:, None], 1.0)
    after, grad = polished.gp.label_and_grad(polished.x_next[:, None], 1.0)
    assert after > before
    x, slope = polished.x_next, grad[:, 0]
    held = ((x == 0) & (slope < 0)) | ((x == 1) & (slope > 0))
    assert slope.masked_fill(held, 0).abs().max() < 1e-2


def test_the_labels_have_the_weight_of_their_iteration() -> None:
    for n in (18, 19, 20):  # after 19 observations in two dimensions, 3
        out = run(n=n)
        assert out.rho == (3.0 if n == 19 else 1.0)
        torch.testing.assert_close(out.pseudo_y, out.gp.label(out.pseudo_x, out.rho))


def test_pending_points_count_as_observed_for_rho() -> None:
    pending = torch.full((1, 1, 2), 0.1, dtype=torch.float64)
    assert (run(n=18, pending=pending).rho, run(n=19, pending=pending).rho) == (3.0, 1.0)


def test_the_surrogate_sees_outcomes_as_the_settings_say() -> None:
    X, Y = hill(20, 2)
    plain = suggest(X, Y, dataclasses.replace(TRAINED, warp="never"), generator())
    torch.testing.assert_close(plain.gp.y, standardize(Y))
    always = suggest(X, Y, dataclasses.replace(TRAINED, warp="always"), generator())
    torch.testing.assert_close(always.gp.y, warp(Y))


@pytest.mark.parametrize("n", [60, 400], ids=["all observations", "some of many"])
def test_outcomes_are_shaped_where_a_gaussian_process_then_explains_them_better(n: int) -> None:
    """A draw of a Gaussian process is left as it is; its exponential is not."""
    X = torch.rand(2, n, 2, dtype=torch.float64, generator=generator(1))
    K = (-0.5 * torch.cdist(X, X).square() / 0.3**2).exp() + 1e-6 * torch.eye(n, dtype=torch.float64)
    f = (torch.linalg.cholesky(K) @ torch.randn(2, n, 1, dtype=torch.float64, generator=generator(2))).squeeze(-1)
    Y = torch.stack([f[0], -(-1.5 * f[1]).exp()])
    seen = fit_surrogate(X, Y, DMSConfig()).y
    plain = standardize(Y, BAD_OUTLIER)
    with_floor = standardize(torch.maximum(plain, floor_of(plain)))
    torch.testing.assert_close(seen[0], with_floor[0])
    torch.testing.assert_close(seen[1], warp(Y)[1])
    assert not torch.allclose(warp(Y)[0], with_floor[0]), "the shape that is most normal is another"


def test_at_most_200_observations_decide_on_the_power_transform_each_with_its_slope(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = hill(450, 2, b=2)
    plain = standardize(Y, BAD_OUTLIER)
    lam = most_normal_power(plain)
    x = plain.clone().requires_grad_()
    (slope,) = torch.autograd.grad(yeo_johnson(x, lam).sum(), x)
    shaped = yeo_johnson(plain, lam)
    some = [i * 449 // 199 for i in range(200)]
    log_slope = (slope / shaped.std(-1, keepdim=True)).log()[:, some].sum(-1)
    asked: list[tuple[Tensor, Tensor]] = []

    def decided_by_a_millionth(X: Tensor, y: Tensor, *_: object) -> Tensor:
        asked.append((X, y))
        return torch.stack([torch.zeros(2), torch.tensor([1e-6, -1e-6]) - log_slope])

    monkeypatch.setattr("modeseek.fitting.evidence", decided_by_a_millionth)
    seen = fit_surrogate(X, Y, DMSConfig()).y
    torch.testing.assert_close(asked[0][0], X[:, some])
    torch.testing.assert_close(asked[0][1], torch.stack([plain, standardize(shaped)])[..., some])
    torch.testing.assert_close(seen[0], warp(Y)[0])
    torch.testing.assert_close(seen[1], standardize(torch.maximum(plain, floor_of(plain)))[1])


@pytest.mark.parametrize("far", [0.0, 0.5])
def test_a_model_is_trained_where_the_best_pseudo_inputs_are_in_more_than_one_place(
    far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_two_places(gp: object, *, m: int, **_: object) -> tuple[Tensor, Tensor]:
        label = torch.linspace(0, 1, m, dtype=torch.float64)[None]
        x = 0.2 + 0.05 * label[..., None] + far * (torch.arange(m) % 3 == (m - 1) % 3)[:, None]
        return x.expand(1, m, 2).where(label[..., None] > 0.5, 0.9), label

    monkeypatch.setattr("modeseek.dms.pseudo_dataset", in_two_places)
    out = run(dataclasses.replace(TRAINED, one_hill=0.2, polish=False), n=20)
    assert bool(out.fell_back) == (far == 0)
    assert (out.seconds["train"] > 0) == (far > 0)


def test_the_fast_preset_is_the_default_but_for_its_model() -> None:
    changed = {
        field.name
        for field in dataclasses.fields(DMSConfig)
        if getattr(DMSConfig.fast(), field.name) != getattr(DMSConfig(), field.name)
    }
    assert changed == {"name", "train_on"}


def test_the_printed_preset_is_the_papers_but_for_seven_points() -> None:
    paper, printed = DMSConfig.paper(8), DMSConfig.printed(8)
    changed = {name: value for name, value in vars(printed).items() if value != getattr(paper, name)}
    assert changed == {
        "name": "dms-printed",
        "predict": "score",
        "loss_weight": "one",
        "solver": "sde",
        "network_inputs": "unit",
        "round_inputs": False,
        "skip_collapsed": False,
        "after_fall_back": "continue",
    }


def test_a_batch_fits_each_element_as_it_would_alone() -> None:
    X, Y = hill(20, 3, b=3)
    together = suggest(X, Y, TRAINED, generator())
    for i in range(3):
        alone = suggest(X[i : i + 1], Y[i : i + 1], TRAINED, generator())
        torch.testing.assert_close(together.state.lengthscale[i], alone.state.lengthscale[0], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(together.state.noise[i], alone.state.noise[0], rtol=1e-3, atol=1e-6)


def test_a_batch_of_one_problem_is_as_many_runs_of_it_in_distribution() -> None:
    """The candidates of 12 elements with the same data and those of 12 single runs have the same mean."""
    X, Y = hill(20, 2)
    config = dataclasses.replace(TRAINED, polish=False, epochs=30)
    batch = suggest(X.expand(12, -1, -1), Y.expand(12, -1), config, generator(1)).candidates.mean(-2)
    singles = torch.cat([suggest(X, Y, config, generator(2 + i)).candidates.mean(-2) for i in range(12)])
    error = (batch.var(0) / 12 + singles.var(0) / 12).sqrt()
    assert ((batch.mean(0) - singles.mean(0)).abs() < 4 * error).all()


def test_the_network_of_the_last_iteration_is_where_training_starts() -> None:
    """Trained on for one epoch, a network that knows the data beats a new one."""
    first = run(dataclasses.replace(TRAINED, epochs=100), n=30)
    one_epoch = dataclasses.replace(TRAINED, epochs=1)
    warm = run(one_epoch, n=30, state=first.state)
    drift = (warm.state.network - first.state.network).norm() / first.state.network.norm()
    assert 0 < drift < 0.2
    cold = run(one_epoch, n=30)
    assert (cold.state.network - first.state.network).norm() > 2 * drift * first.state.network.norm()


def test_the_ablation_without_pseudo_labels_trains_on_the_observations() -> None:
    X, Y = hill(20, 2)
    out = suggest(X, Y, dataclasses.replace(TRAINED, train_on="observed"), generator())
    assert out.pseudo_x.equal(X)
    assert out.pseudo_y.argmax() == Y.argmax()


def test_the_ablation_without_a_model_polishes_the_best_of_the_pseudo_dataset() -> None:
    X, Y = hill(20, 2)
    out = suggest(X, Y, dataclasses.replace(TRAINED, train_on="nothing"), generator())
    best = out.pseudo_x[0, out.pseudo_y.argmax()]
    torch.testing.assert_close(out.mode[0], best)
    assert out.gp.label(out.x_next[:, None], out.rho) >= out.pseudo_y.max()
    assert out.seconds["train"] == out.seconds["sample"] == 0
    assert not out.fell_back.any()


def test_a_pending_point_lowers_the_label_around_it() -> None:
    X, Y = hill(8, 2)
    alone = suggest(X, Y, TRAINED, generator())
    pending = alone.x_next[:, None]
    beside = suggest(X, Y, TRAINED, generator(), pending=pending)
    assert beside.gp.X.shape[-2] == 9
    _, sigma = alone.gp.posterior(pending)
    _, sigma_pending = beside.gp.posterior(pending)
    assert sigma_pending < sigma
    assert not alone.x_next.equal(beside.x_next)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_fault_06_the_scale_of_outcomes_does_not_matter(scale: float) -> None:
    X, Y = hill(20, 2)
    torch.testing.assert_close(
        suggest(X, Y * scale, TRAINED, generator()).x_next,
        suggest(X, Y, TRAINED, generator()).x_next,
        atol=1e-3,
        rtol=0,
    )


def distances(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """The energy distance between two sets of candidates (b x S x d) for each problem, b."""
    return torch.tensor([energy_distance(x.numpy(), y.numpy()) for x, y in zip(ours.cpu(), theirs.cpu(), strict=True)])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_gpu])])
def test_the_device_does_not_matter(device: str) -> None:
    X, Y = hill(40, 4, b=3)
    config = DMSConfig(K=1, epochs=100, polish=False)  # trained so well that seeds agree
    cpu = suggest(X, Y, config, generator(3))
    there = suggest(X.to(device), Y.to(device), config, generator(3))
    torch.testing.assert_close(there.state.lengthscale.cpu(), cpu.state.lengthscale, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(there.state.noise.cpu(), cpu.state.noise, rtol=1e-2, atol=1e-6)
    torch.testing.assert_close(there.pseudo_x.cpu(), cpu.pseudo_x, rtol=0, atol=1e-4)
    torch.testing.assert_close(there.pseudo_y.cpu(), cpu.pseudo_y, rtol=0, atol=1e-4)
    other = suggest(X.to(device), Y.to(device), config, generator(4))
    again = suggest(X, Y, config, generator(5))
    usual = torch.stack([distances(cpu.candidates, again.candidates), distances(again.candidates, other.candidates)])
    for candidates in (there.candidates, other.candidates):
        assert (distances(candidates, cpu.candidates) < 2 * usual.amax()).all(), "as another seed on the same device"
    moved = suggest(X, -(X - 0.5).square().sum(-1), config, generator(3))
    assert (distances(moved.candidates, cpu.candidates) > 2 * usual.amax()).all(), "another distribution is told apart"


def test_nothing_is_trained_where_every_pseudo_set_is_one_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_training(*_: object, **__: object) -> None:
        raise AssertionError("trained")

    X = torch.rand(2, 30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    Y = -(X - 0.4).square().sum(-1)
    monkeypatch.setattr("modeseek.dms.train", no_training)
    out = suggest(X, Y, DMSConfig(m=32, S=16, K=60, refine="point"), torch.Generator().manual_seed(0))
    assert out.fell_back.all()
    best = out.pseudo_x.gather(-2, out.pseudo_y.argmax(-1)[:, None, None].expand(2, 1, 2))
    assert out.candidates.equal(best.expand(2, 16, 2))
    assert (out.seconds["train"], out.seconds["sample"]) == (0.0, 0.0)


# Every run ends at the top of the hill.
ONE_POINT = dataclasses.replace(TRAINED, K=60, refine="point", polish=False, noise_prior="log-normal", kernel="se")


def test_a_model_of_one_point_is_trained_if_asked() -> None:
    printed = dataclasses.replace(ONE_POINT, predict="score", loss_weight="one", solver="sde", network_inputs="unit")
    out = run(dataclasses.replace(printed, skip_collapsed=False), n=30, b=2)
    assert run(printed, n=30, b=2).fell_back.all()
    assert not out.fell_back.any()
    assert out.candidates.isfinite().all()
    assert (out.candidates.std(-2) > 0).any(-1).all(), "samples of a model"
    assert out.seconds["train"] > 0


def test_samples_that_run_away_are_replaced_by_those_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = run(TRAINED, n=30, b=3)
    sound = dms.backward

    def astray(*args: object, **kwargs: object) -> torch.Tensor:
        samples = sound(*args, **kwargs)
        samples[1, ::2] = torch.nan
        samples[1, 1, 0] = torch.inf
        samples[2] = -torch.inf
        return samples

    monkeypatch.setattr(dms, "backward", astray)
    out = run(TRAINED, n=30, b=3)
    assert out.fell_back.tolist() == [False, False, True], "only where no sample is left"
    assert out.candidates[0].equal(clean.candidates[0])
    left = clean.candidates[1, 3::2]
    assert out.candidates[1].equal(left[torch.arange(len(clean.candidates[1])) % len(left)]), "by turns"


def test_weights_after_a_fall_back() -> None:
    first = run(TRAINED, n=30, b=2)
    go_on = run(dataclasses.replace(ONE_POINT, after_fall_back="continue"), n=30, b=2, state=first.state)
    anew = run(ONE_POINT, n=30, b=2, state=first.state)
    assert go_on.fell_back.all()
    assert anew.fell_back.all()
    assert go_on.state.network.equal(first.state.network)
    assert not anew.state.network.equal(first.state.network)


def test_weights_of_a_row_that_fell_back_beside_one_that_did_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modeseek.dms._is_one_point", lambda x, *_: torch.tensor([True, False]))
    start = run(TRAINED, n=30, b=2).state
    for weights in ("continue", "restart"):
        out = run(dataclasses.replace(TRAINED, after_fall_back=weights), n=30, b=2, seed=1, state=start)
        kept = [bool(row.equal(before)) for row, before in zip(out.state.network, start.network, strict=True)]
        assert kept == [weights == "continue", False]


def test_what_is_rounded() -> None:
    whole = Rounding(lambda x: x.round(), torch.tensor([True, False]))
    rounded, free = (
        run(dataclasses.replace(TRAINED, polish=False, round_inputs=before), domain=Domain(whole))
        for before in (True, False)
    )
    assert rounded.pseudo_x.equal(rounded.pseudo_x.round())
    assert not free.pseudo_x.equal(free.pseudo_x.round())


@pytest.mark.parametrize("inputs", get_args(NetworkInputs))
def test_the_network_has_its_range_and_samples_come_back_from_it(inputs: NetworkInputs) -> None:
    x = torch.rand(1, 500, 2, dtype=torch.float64, generator=generator())
    there = _to_network(x, inputs)
    assert there.min().item() == pytest.approx({"centred": -1, "unit": 0}[inputs], abs=0.02)
    assert there.max().item() == pytest.approx(1, abs=0.02)
    torch.testing.assert_close(_from_network(there, inputs), x, atol=1e-6, rtol=0)
