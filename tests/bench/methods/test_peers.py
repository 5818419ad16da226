"""Other optimizers as methods: spaces and points to and from their kinds, and a few evaluations of each."""

from __future__ import annotations

import logging
import random
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import modeseek as ms
from modeseek.bench.methods import make_method, method_names, peer_names
from modeseek.bench.methods.peers import peer as room
from modeseek.bench.methods.peers.turbo import LENGTH, SHORTEST, TuRBO
from modeseek.errors import ConfigError, MissingExtraError
from modeseek.history import History

MIXED = ms.Space(
    {
        "x": ms.Float(-5, 5),
        "lr": ms.Float(1e-4, 1, log=True),
        "n": ms.Int(1, 7),
        "even": ms.Int(2, 64, step=2),
        "choice": ms.Categorical(["a", 2, None]),
    }
)
IN_THE_PEERS_ENVIRONMENT = find_spec("hebo") is not None
LIGHT = ("random", "cma", "tpe-multivariate", "turbo", "qlognei")  # need nothing that the extra `bench` has not


def outcome(u: np.ndarray) -> float:
    params = MIXED.decode(u)
    return (
        -((params["x"] - 1) ** 2) - (np.log10(params["lr"]) + 2) ** 2 - abs(params["n"] - 3) - (params["choice"] != 2)
    )


def run(name: str, evaluations: int) -> np.ndarray:
    """The points that a fresh method asks for after an initial design of 12."""
    method = make_method(name, MIXED, seed=2**62 + 1)
    X = list(MIXED.snap(np.random.default_rng(0).random((12, MIXED.d))))
    for left in range(evaluations, 0, -1):
        u = method(History.of(X, [outcome(x) for x in X]), left)
        assert u.shape == (MIXED.d,)
        assert ((u >= 0) & (u <= 1)).all()
        X.append(MIXED.snap(u[None])[0])
    return np.array(X[12:])


@pytest.mark.parametrize("name", peer_names())
def test_a_peer_evaluates_a_mixed_space_the_same_way_twice(name: str) -> None:
    if name not in LIGHT and not IN_THE_PEERS_ENVIRONMENT:
        pytest.skip("of another package: `make test-peers` runs it")
    np.random.seed(0)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    points = run(name, 3)
    assert len(np.unique(points, axis=0)) > 1
    np.testing.assert_allclose(run(name, 3), points, atol=1e-6)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])
    assert logging.root.manager.disable == logging.NOTSET


def test_points_survive_the_way_to_a_peer_and_back() -> None:
    kinds = room.Kinds(MIXED)
    for u in MIXED.snap(np.random.default_rng(1).random((50, MIXED.d))):
        values = kinds.of_point(u)
        np.testing.assert_allclose(kinds.to_point(values), u, atol=1e-12)
        params = MIXED.decode(u)
        assert values["x"] == pytest.approx(params["x"])
        assert values["n"] == params["n"]
        assert MIXED["choice"].choices[int(values["choice"])] == params["choice"]  # type: ignore[union-attr]
        assert 2 + 2 * int(values["even"]) == params["even"]
    assert [(kind.name, kind.kind, kind.log) for kind in kinds.kinds] == [
        ("choice", "choice", False),
        ("even", "int", False),
        ("lr", "float", True),
        ("n", "int", False),
        ("x", "float", False),
    ]
    beyond = kinds.to_point({**values, "x": 5 + 1e-9, "lr": 1e-4 * (1 - 1e-12)})
    assert beyond[4] == 1
    assert beyond[2] == 0


def test_spaces_that_peers_do_not_know_are_refused() -> None:
    with pytest.raises(ConfigError, match="constraints"):
        room.Kinds(ms.Space({"a": ms.Float(0, 1), "b": ms.Float(0, 1)}, [ms.Linear({"a": 1, "b": 1}, upper=1)]))
    with pytest.raises(ConfigError, match="conditions"):
        room.Kinds(ms.Space({"a": ms.Int(0, 1), "b": ms.Float(0, 1, when={"a": 1})}))


def test_a_missing_package_names_the_make_target() -> None:
    with pytest.raises(MissingExtraError, match="make peers"):
        room.require("a_package_that_nobody_has")
    with pytest.raises(ConfigError, match="did you mean 'hebo'"):
        make_method("heb", MIXED, seed=0)
    assert set(peer_names()).isdisjoint(method_names())


def test_turbo_halves_doubles_and_begins_again() -> None:
    cube = ms.Space.box([0, 0], [1, 1])
    turbo = TuRBO(cube, seed=0)
    X, Y = list(np.random.default_rng(0).random((6, 2))), [0.0] * 6
    turbo(History.of(X, Y))
    lengths = []
    for y in [1.0, 2.0, 3.0, *[0.0] * 32]:  # three successes, then failures only; max(4, d) = 4 halve the box
        X.append(np.array([0.5, 0.5]) + 0.01 * len(X) / 100)
        Y.append(y)
        turbo._count(np.array(Y))
        lengths.append(turbo.length)
    assert lengths[1] == LENGTH
    assert lengths[2] == 2 * LENGTH
    assert lengths[3:8] == [2 * LENGTH] * 3 + [LENGTH] * 2
    assert turbo.length == 2 * LENGTH / 2**8 < SHORTEST
    turbo._told = History.of(X, Y)
    fresh = turbo(History.of(X, Y))
    assert (turbo.begin, turbo.length) == (len(Y), LENGTH)
    assert np.abs(fresh - 0.5).max() > 0.02  # of a new design


def test_turbo_stays_in_its_box() -> None:
    cube = ms.Space.box([0] * 4, [1] * 4)
    turbo = TuRBO(cube, seed=0)
    X = np.random.default_rng(0).random((12, 4))
    Y = -np.square(X - 0.3).sum(-1)
    turbo(History.of(X, Y))
    turbo.length = 0.1
    u = turbo(History.of(X, Y))
    sides = np.abs(u - X[Y.argmax()])
    assert (sides > 0).all()
    assert np.prod(2 * sides) <= 0.1**4 * (1 + 1e-9)  # its volume
