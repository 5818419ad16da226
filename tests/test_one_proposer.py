"""One history, one seed: the same point from the optimizer, the samplers for other tools and the campaign's engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy

from modeseek import Categorical, DMSConfig, Float, Int, Optimizer, Space
from modeseek.bench.methods import make_method, make_side_by_side
from modeseek.bench.methods.botorch_methods import botorch_model
from modeseek.history import History
from modeseek.integrations.ax import DMSNode
from modeseek.integrations.botorch import dms_candidates
from modeseek.integrations.optuna import DMSSampler
from modeseek.integrations.optuna_trials import distribution
from modeseek.proposer import Proposer
from modeseek.settings import Settings, Stream, generator
from shared import CHEAP

SEED, N = 3, 9
SPACE = Space(
    {
        "lr": Float(1e-4, 1e-1, log=True),
        "units": Int(1, 40),
        "act": Categorical(["relu", "tanh", "gelu"]),
        "depth": Int(1, 64, log=True),
    }
)
FINITE = Space({"units": Int(1, 6), "act": Categorical(["relu", "tanh"])})


def observed(space: Space, n: int = N) -> tuple[list[dict[str, Any]], list[float]]:
    """Parameters and values to be maximized."""
    points = space.snap(np.random.default_rng(0).random((n, space.d)))
    params = [space.decode(point) for point in points]
    return params, [-float(np.square(space.encode(p) - 0.4).sum()) for p in params]


def history(space: Space) -> History:
    params, values = observed(space)
    return History.of([space.encode(p) for p in params], values)


def by_proposer(space: Space) -> np.ndarray:
    settings = Settings.of(seed=SEED, config=CHEAP, n_initial=5)
    return Proposer(space, settings).propose(history(space), N).point


def by_optimizer(space: Space) -> np.ndarray:
    opt = Optimizer(space, direction="maximize", seed=SEED, config=CHEAP, n_initial=5)
    for params, value in zip(*observed(space), strict=True):
        opt.tell_params(params, value)
    return np.array(opt.ask().unit)


def by_optuna(space: Space) -> np.ndarray:
    sampler = DMSSampler(seed=SEED, config=CHEAP, n_startup_trials=5)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = {name: distribution(space[name]) for name in space}
    for params, value in zip(*observed(space), strict=True):
        study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=value))
    return space.encode(study.ask(distributions).params)


def by_ax(space: Space) -> np.ndarray:
    client = Client()
    parameters: list[Any] = []
    for name in space:
        parameter = space[name]
        if isinstance(parameter, Categorical):
            choices = list(parameter.choices)
            parameters.append(ChoiceParameterConfig(name=name, values=choices, parameter_type="str", is_ordered=False))
        else:
            kind = "int" if isinstance(parameter, Int) else "float"
            scale = "log" if parameter.log else "linear"
            bounds = (parameter.low, parameter.high)
            parameters.append(RangeParameterConfig(name=name, bounds=bounds, parameter_type=kind, scaling=scale))
    client.configure_experiment(parameters)
    client.configure_optimization("value")
    node = DMSNode(seed=SEED, config=CHEAP, n_initial=5)
    client.set_generation_strategy(GenerationStrategy(name="DMS", nodes=[node]))
    for params, value in zip(*observed(space), strict=True):
        client.complete_trial(client.attach_trial(params), {"value": value})
    (params,) = client.get_next_trials(1).values()
    return space.encode({name: params[name] for name in space})


def by_campaign(space: Space) -> np.ndarray:
    return make_method("dms", space, SEED, config=CHEAP)(history(space))


def by_batch(space: Space) -> np.ndarray:
    """In the middle of a batch whose other rows are other replications."""
    method = make_side_by_side("dms", [space] * 3, [SEED + 1, SEED, SEED + 2], config=CHEAP)
    other = History.of(np.roll(history(space).X, 1, axis=0), history(space).Y)
    return method([other, history(space), other])[1]


@pytest.mark.parametrize("space", [SPACE, FINITE], ids=["mixed", "finite"])
@pytest.mark.parametrize("other", [by_optimizer, by_optuna, by_ax, by_campaign, by_batch])
def test_the_same_point_from_each(other: Any, space: Space) -> None:
    point = by_proposer(space)
    np.testing.assert_allclose(other(space), point, rtol=0, atol=1e-5)  # rows of a batch round in another order
    assert len(np.unique(np.vstack([history(space).X, point]), axis=0)) == len(np.unique(history(space).X, axis=0)) + 1


def test_candidates_for_botorch_are_the_proposers_on_the_same_model() -> None:
    box = Space.box([0, 0, 0], [1, 1, 1])
    X = np.random.default_rng(1).random((12, 3))
    known = History.of(X, -np.square(X - 0.4).sum(1))
    config = DMSConfig(m=64, S=32, epochs=3, steps=5, hidden=16, warp="never", kernel="se")
    proposer = Proposer(box, Settings.of(seed=SEED, config=config))
    point = proposer.propose(known, 12).point
    assert proposer.suggestion is not None
    model = botorch_model(proposer.suggestion.gp)  # type: ignore[arg-type]
    bounds = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64)
    found = dms_candidates(model, bounds, config=config, generator=generator(SEED, Stream.MODEL, 12))
    np.testing.assert_allclose(found[0].numpy(), point, atol=1e-5)


def test_the_initial_design_is_the_same_too() -> None:
    none = History.of([], [], d=SPACE.d)
    settings = Settings.of(seed=SEED, config=CHEAP)
    design = [Proposer(SPACE, settings).propose(none, number).point for number in range(1, 4)]
    opt = Optimizer(SPACE, seed=SEED, config=CHEAP)
    asked = [np.array(trial.unit) for trial in opt.ask(4)[1:]]
    np.testing.assert_allclose(design, asked, atol=1e-12)
