"""Search near the best observation of many (locality.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import modeseek as ms
from modeseek import dms, locality
from modeseek.bench.campaign.replication import Work
from modeseek.bench.tasks import find_task
from modeseek.config import PRESETS, with_younger_settings
from modeseek.dms import State
from modeseek.history import APART, History
from modeseek.locality import BLOCK, LONGEST, NEAREST, SHORTEST, START, Boxes, Neighbourhood, length_after
from modeseek.optimum import surrogate_of
from modeseek.proposer import Proposer, choose, propose_all, remaining
from modeseek.settings import Settings
from modeseek.together import propose_together
from modeseek.typing import Array
from shared import BOX, SMALLEST, run, sphere

AFTER = 12
LOCAL = replace(SMALLEST, local_after=AFTER)
CUBE = ms.Space.box([0, 0], [1, 1])


def history_of(n: int, d: int = 2, seed: int = 0, **more: Any) -> History:
    X = np.random.default_rng(seed).random((n, d))
    return History.of(X, -np.square(X - 0.3).sum(1), **more)


def proposer(seed: int = 0, space: ms.Space = CUBE, config: ms.DMSConfig = LOCAL, **more: Any) -> Proposer:
    return Proposer(space, Settings.of(seed=seed, config=config, n_initial=5, **more))


def is_inside(points: Array, near: Neighbourhood) -> bool:
    return bool(((points >= near.low - 1e-12) & (points <= near.low + near.side + 1e-12)).all())


def replayed(X: Array, Y: Array, first: int) -> float:
    """The rules of `length_after`, read from its docstring, one observation at a time."""
    halvings, doublings, in_a_row = 0, 0, 0
    length, block, size = 0.8, [], max(100, X.shape[1])
    best = max(range(first), key=lambda i: Y[i])
    for i in range(first, len(Y)):
        block.append(i)
        if len(block) < size:
            continue
        recent = sorted(Y[max(0, block[0] - first) : block[0]])
        middle = (recent[(len(recent) - 1) // 2] + recent[len(recent) // 2]) / 2
        winner = max(block, key=lambda i: Y[i])
        far = sorted(max(abs(X[i] - X[best])) for i in block)
        if Y[winner] > Y[best] + 0.001 * (Y[best] - middle):
            in_a_row += 1
            if in_a_row == 3:
                length, in_a_row, doublings = min(1.6, 2 * length), 0, doublings + 1
        elif (far[(size - 1) // 2] + far[size // 2]) / 2 <= length:
            length, in_a_row, halvings = length / 2, 0, halvings + 1
            if length < 1 / 128:
                length = 0.8
        if Y[winner] > Y[best]:
            best = winner
        block = []
    return length


@given(st.integers(0, 2**30), st.integers(1, 3), st.integers(0, 12), st.sampled_from([1.0, 0.05, 0.002]))
@settings(max_examples=60, deadline=None)
def test_the_length_is_as_documented(seed: int, d: int, blocks: int, width: float) -> None:
    rng = np.random.default_rng(seed)
    n = AFTER + blocks * BLOCK + int(rng.integers(BLOCK))
    X = (0.5 + width * (rng.random((n, d)) - 0.5)).clip(0, 1)
    trend = np.repeat(rng.integers(-1, 2, blocks + 3).cumsum(), BLOCK)[:n]
    Y = 3 * trend * rng.random() + rng.random(n)
    assert length_after(X, Y, AFTER) == replayed(X, Y, AFTER)
    assert SHORTEST <= length_after(X, Y, AFTER) <= LONGEST
    assert length_after(X, 5 + 3 * Y, AFTER) == length_after(X, Y, AFTER)


def test_the_box_grows_with_success_shrinks_without_and_starts_anew() -> None:
    n = AFTER + 12 * BLOCK
    X, better = np.full((n, 2), 0.5), np.arange(n, dtype=np.float64)
    lengths = [length_after(X[:k], better[:k], AFTER) for k in range(AFTER, n + 1, BLOCK)]
    assert lengths == [START] * 3 + [LONGEST] * 10
    worse = -better
    lengths = [length_after(X[:k], worse[:k], AFTER) for k in range(AFTER, n + 1, BLOCK)]
    assert lengths[:8] == [START / 2**k for k in range(7)] + [START]  # 0.8 / 2^7 is shorter than 2^-7
    elsewhere = X + 2.0 * (np.arange(n) > 0)[:, None]  # says nothing of a box
    assert length_after(elsewhere, worse, AFTER) == START
    assert length_after(X[: AFTER + BLOCK - 1], worse[: AFTER + BLOCK - 1], AFTER) == START


def test_the_nearest_observations_come_in_their_order_with_the_best() -> None:
    history = history_of(NEAREST + 300, 3)
    near = Neighbourhood.of(history, AFTER)
    assert len(near.nearest) == NEAREST
    assert (np.diff(near.nearest) > 0).all()
    assert history.Y.argmax() in near.nearest
    distance = (np.abs(history.X - history.X[history.Y.argmax()]) / near.side).max(1)
    assert distance[near.nearest].max() <= np.delete(distance, near.nearest).min()
    within = near.within(history)
    assert within.Y.tolist() == history.Y[near.nearest].tolist()
    np.testing.assert_allclose(near.outward(within.X), history.X[near.nearest], atol=1e-12)


def test_a_surrogate_is_the_same_in_the_box_and_in_the_cube() -> None:
    suggestion = proposer().suggest(history_of(40), 40)
    boxes = Boxes.of([Neighbourhood.of(history_of(40), AFTER)], torch.device("cpu"))
    x = torch.from_numpy(np.random.default_rng(1).random((1, 5, 2)))
    for here, there in zip(
        suggestion.gp.posterior(boxes.outward(x)), boxes.gp_inward(suggestion.gp).posterior(x), strict=True
    ):
        torch.testing.assert_close(here, there, atol=1e-6, rtol=1e-6)
    near, state = boxes.state_inward(suggestion.state), suggestion.state
    assert isinstance(near, State)
    torch.testing.assert_close(near.lengthscale * boxes.side[:, 0], state.lengthscale)


@pytest.mark.parametrize("q", [1, 30])
@pytest.mark.parametrize("blocks", [0, 4])
def test_proposals_are_new_in_the_box_and_apart(q: int, blocks: int) -> None:
    n = AFTER + 1 + blocks * BLOCK
    history = history_of(n)
    if blocks:  # around the optimum, so that the box has shrunk
        X = 0.3 + 0.02 * (history.X - 0.5)
        X[0] = 0.3
        history = History.of(X, -np.square(X - 0.3).sum(1))
    near = Neighbourhood.of(history, AFTER)
    assert not blocks or near.side.tolist() == pytest.approx([START / 2**blocks] * 2)
    pending = near.outward(np.random.default_rng(3).random((4, 2)))
    history = history.with_pending(pending)
    (batch,) = propose_together([proposer()], [history], n + 4, q)
    points = np.array([proposal.point for proposal in batch])
    assert len(points) == q
    assert is_inside(points, near)
    both = near.inward(np.concatenate([points, pending]))
    distance = np.abs(both[:, None] - both[:q][None]).max(-1)
    distance[np.arange(q), np.arange(q)] = 1
    assert distance.min() >= APART * (1 - 1e-9)


def test_random_points_are_of_the_box_too() -> None:
    near = Neighbourhood.of(history_of(40), AFTER)
    points = remaining(CUBE, history_of(40).X, np.random.default_rng(0), None, near)
    assert is_inside(points, near)
    suggestion = proposer().suggest(history_of(40), 40)
    everything = np.concatenate([suggestion.x_next.numpy(), suggestion.candidates[0], suggestion.pseudo_x[0]])
    chosen = choose(
        suggestion, suggestion.gp, everything, snap=lambda points: points, others=lambda: points, tolerance=1e-9
    )
    assert is_inside(chosen, near)


@pytest.mark.parametrize("q", [1, 6])
def test_up_to_the_threshold_nothing_changes(q: int) -> None:
    def points(after: int | None, n: int) -> list[list[float]]:
        config = replace(SMALLEST, local_after=after)
        (batch,) = propose_together([proposer(config=config)], [history_of(n)], n, q)
        return [proposal.point.tolist() for proposal in batch]

    assert points(AFTER, AFTER) == points(None, AFTER)
    assert points(AFTER, AFTER + 1) != points(None, AFTER + 1)


@pytest.mark.parametrize("q", [1, 5])
def test_problems_side_by_side_get_what_they_would_alone(q: int) -> None:
    histories = [history_of(30, seed=seed, pending=[[0.31, 0.3]]) for seed in range(3)]
    together = propose_together([proposer(seed) for seed in range(3)], histories, 31, q)
    for seed, batch in enumerate(together):
        (alone,) = propose_together([proposer(seed)], [histories[seed]], 31, q)
        np.testing.assert_allclose([p.point for p in batch], [p.point for p in alone], atol=1e-4)


def test_a_resumed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    opt = run(ms.Optimizer(BOX, seed=0, config=LOCAL, n_initial=5), AFTER + 3)
    opt.ask(3)
    opt.save(tmp_path / "run")
    opt.close()
    with_more = ms.Optimizer.load(tmp_path / "run")
    for one, other in zip(opt.ask(4), with_more.ask(4), strict=True):
        assert one.unit == other.unit
    for optimizer in (opt, with_more):
        for trial in optimizer.pending:
            optimizer.tell(trial, sphere(trial.params))
    assert opt.ask().unit == with_more.ask().unit


def test_where_to_search_is_a_matter_of_what_was_told_alone() -> None:
    opt = run(ms.Optimizer(BOX, seed=0, config=LOCAL, n_initial=5), AFTER + 2)
    for trial in opt.ask(7):
        opt.tell(trial, sphere(trial.params))
    told = ms.Optimizer(BOX, seed=9, config=LOCAL, n_initial=1)
    for trial in opt.trials:
        assert trial.value is not None
        told.tell_params(trial.params, trial.value)
    told.ask(2)
    boxes = [Neighbourhood.of(o._trials.history("minimize"), AFTER) for o in (opt, told)]
    assert all(np.array_equal(*(getattr(box, name) for box in boxes)) for name in ("low", "side", "nearest"))


def test_what_was_found_is_of_the_cube() -> None:
    opt = run(ms.Optimizer(BOX, seed=0, config=LOCAL, n_initial=5), AFTER + 1)
    trial = opt.ask()
    found = opt.suggestion
    assert found is not None
    near = Neighbourhood.of(opt._trials.history("minimize"), AFTER)
    np.testing.assert_allclose(found.x_next[0], trial.unit)
    for points in (found.x_next, found.mode, found.candidates[0], found.pseudo_x[0]):
        assert is_inside(points.numpy(), near)
    observed = [opt.trials[i].unit for i in near.nearest]
    np.testing.assert_allclose(found.gp.X[0], observed, atol=1e-12)


def test_what_is_known_of_the_optimum_is_of_all_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locality, "NEAREST", 20)
    opt = run(ms.Optimizer(BOX, seed=0, config=LOCAL, n_initial=5), AFTER)
    for x in np.random.default_rng(0).uniform(-5, 5, (20, 2)):
        opt.tell_params(x, sphere(x))
    opt.ask()
    assert opt.suggestion is not None
    assert opt.suggestion.gp.X.shape[-2] == 20
    history = opt._trials.history("minimize")
    gp, _ = surrogate_of(BOX, history, opt._proposer.settings, opt._proposer.state)
    assert gp.X.shape[-2] == AFTER + 20
    assert np.abs(np.array([x for x in opt.optimum(draws=8).samples])).max() <= 5


@pytest.mark.parametrize(
    "space",
    [
        ms.Space({"x": ms.Float(0, 1), "n": ms.Int(0, 500)}),
        ms.Space({"x": ms.Float(0, 1), "c": ms.Categorical(["a", "b"])}),
        ms.Space({"x": ms.Float(0, 1), "y": ms.Float(0, 1)}, constraints=[ms.Linear({"x": 1, "y": 1}, upper=1.5)]),
    ],
    ids=["whole numbers", "choices", "constraints"],
)
def test_other_spaces_are_searched_as_before(space: ms.Space) -> None:
    history = history_of(AFTER + 5)
    if space.region() is None:
        X = space.snap(history.X)
        history = History.of(X, history.Y)
    asked = [proposer(space=space, config=config).propose(history, 17) for config in (LOCAL, SMALLEST)]
    assert asked[0].point.tolist() == asked[1].point.tolist()


def test_other_histories_are_searched_as_before() -> None:
    history = history_of(AFTER + 5)
    several = History.of(history.X, np.stack([history.Y, -history.Y], 1))
    limited = History.of(history.X, history.Y, constraints=history.X[:, :1] - 0.9)
    assert proposer().near(history) is not None
    assert proposer().near(several) is proposer().near(limited) is None
    fixing = proposer()
    with fixing.holding({"x0": 0.5}):
        assert fixing.near(history) is None


def test_failed_evaluations_and_known_errors_come_along() -> None:
    n = AFTER + 8
    lost = np.random.default_rng(4).random((NEAREST + 7, 2))
    history = history_of(n, lost=lost, sem=np.linspace(0.1, 0.2, n))
    near = Neighbourhood.of(history, AFTER)
    within = near.within(history)
    assert within.lost.shape == (NEAREST, 2)
    assert within.sem is not None
    assert history.sem is not None
    assert within.sem.tolist() == history.sem[near.nearest].tolist()
    few = history_of(n, lost=lost[:5], sem=np.linspace(0.1, 0.2, n))
    assert is_inside(proposer().propose(few, n + 5).point, near)
    exact = proposer(noise="none")
    assert is_inside(propose_all([exact], [history_of(n)], n)[0].point, near)


def test_it_finds_the_optimum_of_a_valley_that_it_is_in() -> None:
    """In six dimensions, with a box from the twentieth evaluation on."""
    space = ms.Space.box([0] * 6, [1] * 6)
    opt = ms.Optimizer(space, seed=0, config=ms.DMSConfig(train_on="nothing", local_after=20, m=100), n_initial=20)
    run(opt, 45, lambda x: sphere(x - 0.3))
    assert opt.best is not None
    assert opt.best.value is not None
    assert opt.best.value < 1e-3


def test_nothing_far_away_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    configs, suggest = [], dms.suggest

    def spied(X: Any, Y: Any, config: ms.DMSConfig, *rest: Any, **more: Any) -> Any:  # noqa: N803
        configs.append(config)
        return suggest(X, Y, config, *rest, **more)

    monkeypatch.setattr(dms, "suggest", spied)
    for n in (AFTER, AFTER + 1):
        proposer().suggest(history_of(n), n)
    assert [config.rho_far for config in configs] == [3.0, None]


def test_presets_and_older_files() -> None:
    local: Mapping[str, int | str | None] = {name: preset(3).local_after for name, preset in PRESETS.items()}
    assert local == {"default": "auto", "fast": "auto", "paper": None, "printed": None}
    assert with_younger_settings({})["local_after"] is None
    for wrong in (0, -1, 2.5, "many", True):
        with pytest.raises(ms.ConfigError, match="local_after"):
            ms.DMSConfig(local_after=wrong)  # type: ignore[arg-type]


def test_what_is_no_threshold_is_told_what_is() -> None:
    with pytest.raises(ms.ConfigError, match="a number, \"auto\" or None, not 'Auto'"):
        ms.DMSConfig(local_after="Auto")  # type: ignore[arg-type]


def test_another_point_instead_of_a_rivals_is_in_the_box() -> None:
    history = history_of(AFTER + 1)
    at = proposer()
    near = at.near(history)
    assert near is not None
    points = np.stack([at.another_point(history.proposed, number, near) for number in range(20)])
    assert is_inside(points, near)
    assert not is_inside(np.stack([at.another_point(history.proposed, number) for number in range(20)]), near)


def test_the_more_parameters_the_earlier() -> None:
    default, told = ms.DMSConfig(), ms.DMSConfig(local_after=20)
    assert [default.first_local(d, 10) for d in (1, 4, 5, 10, 20, 200)] == [1000, 1000, 800, 400, 200, 200]
    assert default.first_local(50, 500) == 1000, "not before the initial design is half of all"
    assert [config.first_local(50, 500) for config in (told, ms.DMSConfig(local_after=None))] == [20, None]
    proposer = Proposer(ms.Space.box([0] * 50, [1] * 50), Settings.of(seed=0, n_initial=120, config=default))
    rng = np.random.default_rng(0)
    near = [proposer.near(History.of(rng.random((n, 50)), rng.random(n))) for n in (240, 241)]
    assert [box is None for box in near] == [True, False]


def test_records_of_runs_that_are_shorter_stay_valid() -> None:
    for task in ("levy-10", "protein-structure", "ackley-20", "levy-50"):  # designs are half of the last two
        config = Work(task, "dms", 0).config
        assert config is not None
        assert config.local_after is None
    assert find_task("levy-10@q100").most_known == 1000
    longer = Work("levy-10@q100", "dms", 0).config
    assert longer is not None
    assert longer.local_after == 400
    early = Work("levy-10", "dms[local_after=20]", 0).config
    assert early is not None
    assert early.local_after == 20
