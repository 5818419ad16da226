"""`DMSNode` through Ax's Client: mixed spaces, pending and failed trials, constraints, storage, bad input."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, DerivedParameterConfig, RangeParameterConfig
from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import SearchSpaceExhausted
from ax.generation_strategy.center_generation_node import CenterGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy

from modeseek import (
    Categorical,
    ConfigError,
    DeviceError,
    Float,
    Linear,
    ModeseekError,
    Normal,
    Optimizer,
    ParameterError,
    Space,
    SpaceError,
    dms,
)
from modeseek.fronts import hypervolume
from modeseek.integrations.ax import DMSNode, _Codec
from shared import SMALLEST, TRAINED

MIXED = [
    RangeParameterConfig(name="lr", bounds=(1e-5, 1e-1), parameter_type="float", scaling="log"),
    RangeParameterConfig(name="units", bounds=(50, 200), parameter_type="int"),
    ChoiceParameterConfig(name="act", values=["relu", "tanh", "gelu"], parameter_type="str"),
]
Params = dict[str, Any]

pytestmark = pytest.mark.filterwarnings(r"ignore:::ax(\.|$)")


def node(**options: Any) -> DMSNode:
    return DMSNode(**{"seed": 0, "config": TRAINED, "n_initial": 5, **options})


def make_client(
    parameters: list[Any] = MIXED, objective: str = "-loss", constraints: list[str] | None = None, **options: Any
) -> Client:
    client = Client()
    client.configure_experiment(parameters=parameters, parameter_constraints=options.pop("parameter_constraints", None))
    client.configure_optimization(objective=objective, outcome_constraints=constraints)
    client.set_generation_strategy(GenerationStrategy(name="DMS", nodes=[node(**options)]))
    return client


def loss(params: Params) -> float:
    """Least at lr = 1e-3, 120 units, relu."""
    off = math.log10(params["lr"]) + 3
    return off**2 + ((params["units"] - 120) / 75) ** 2 + (0.0 if params["act"] == "relu" else 0.3)


def ask(client: Client) -> tuple[int, Params]:
    return next(iter(client.get_next_trials(max_trials=1).items()))


def run(client: Client, trials: int, sign: float = 1.0) -> list[Params]:
    asked = []
    for _ in range(trials):
        index, params = ask(client)
        asked.append(params)
        client.complete_trial(index, {"loss": sign * loss(params)})
    return asked


def test_it_finds_a_good_value_in_a_mixed_space() -> None:
    client = make_client()
    asked = run(client, 20)
    for params in asked:
        assert isinstance(params["units"], int)
        assert 1e-5 <= params["lr"] <= 1e-1
        assert params["act"] in ("relu", "tanh", "gelu")
    best, *_ = client.get_best_parameterization(use_model_predictions=False)
    assert best["act"] == "relu"
    assert loss(best) < 0.1
    assert len({tuple(params.values()) for params in asked}) == 20


def test_a_log_scale_spreads_the_first_points_by_their_logarithm() -> None:
    exponents = [math.log10(params["lr"]) for params in run(make_client(n_initial=16), 16)]
    assert sorted(sum(low <= e < low + 1 for e in exponents) for low in (-5, -4, -3, -2)) == [4, 4, 4, 4]


def test_both_directions() -> None:
    least, most = run(make_client(), 8), run(make_client(objective="loss"), 8, sign=-1.0)
    assert least == most


def test_seeds_reproduce() -> None:
    assert run(make_client(seed=3), 7) == run(make_client(seed=3), 7)
    assert run(make_client(seed=3), 7) != run(make_client(seed=4), 7)
    assert DMSNode().seed != DMSNode().seed


def test_several_trials_pending_at_once() -> None:
    client = make_client()
    first = client.get_next_trials(max_trials=4)
    second = client.get_next_trials(max_trials=3)
    assert len({tuple(params.values()) for params in (*first.values(), *second.values())}) == 7
    for index, params in first.items():
        client.complete_trial(index, {"loss": loss(params)})
    third = client.get_next_trials(max_trials=3)  # of the model, with three pending
    assert len({tuple(p.values()) for p in (*first.values(), *second.values(), *third.values())}) == 10


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_pending_or_failed_is_conditioned_on(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client()
    run(client, 8)
    index, params = ask(client)
    if fails:
        client.mark_trial_failed(index)
    suggest, conditioned = dms.suggest, []
    monkeypatch.setattr(
        dms, "suggest", lambda *args, **options: conditioned.append(args[5]) or suggest(*args, **options)
    )
    ask(client)
    point = _Codec(client._experiment.search_space).unit(params)
    assert point is not None
    assert [pending.tolist() for pending in conditioned] == [[[point.tolist()]]]


@pytest.mark.parametrize("how", ["failed", "abandoned", "nan", "infinite", "missing"])
def test_a_trial_without_a_value_is_no_data_and_does_not_come_again(how: str) -> None:
    client = make_client()
    asked = []
    for i in range(9):
        index, params = ask(client)
        asked.append(tuple(params.values()))
        if i not in (1, 6):
            client.complete_trial(index, {"loss": loss(params)})
        elif how == "failed":
            client.mark_trial_failed(index)
        elif how == "abandoned":
            client.mark_trial_abandoned(index)
        elif how == "missing":
            client.complete_trial(index, {"other": 1.0})
        else:
            client.complete_trial(index, {"loss": math.nan if how == "nan" else math.inf})
    assert len(set(asked)) == 9
    history = _Codec(client._experiment.search_space).read(client._experiment, client._experiment.lookup_data())
    assert len(history.Y) == 7
    assert len(history.proposed) == 9
    assert (len(history.pending), len(history.lost)) == ((2, 0) if how == "abandoned" else (0, 2))


def test_of_a_progression_the_last_value_counts() -> None:
    client = make_client()
    index, _ = ask(client)
    for step, value in ((1, 9.0), (2, 5.0)):
        client.attach_data(index, {"loss": value}, progression=step)
    codec = _Codec(client._experiment.search_space)
    history = codec.read(client._experiment, client._experiment.lookup_data())
    assert (len(history.Y), len(history.pending)) == (0, 1)
    client.mark_trial_early_stopped(index)
    history = codec.read(client._experiment, client._experiment.lookup_data())
    assert (history.Y.tolist(), len(history.pending)) == ([-5.0], 0)


def test_attached_trials_are_data_unless_they_are_outside() -> None:
    client = make_client(n_initial=2)
    for units in (60, 120, 180):
        params = {"lr": 1e-3, "units": units, "act": "relu"}
        client.complete_trial(client.attach_trial(params), {"loss": loss(params)})
    outside = {"lr": 1.0, "units": 60, "act": "relu"}
    with pytest.warns(RuntimeWarning, match="out-of-design"):
        client._experiment.attach_trial([outside])
    history = _Codec(client._experiment.search_space).read(client._experiment, client._experiment.lookup_data())
    assert (len(history.Y), len(history.proposed)) == (3, 3)
    assert ask(client)[1]["act"] in ("relu", "tanh", "gelu")


def test_a_weighted_sum_of_metrics() -> None:
    client = make_client(objective="-2*a + b", n_initial=2)
    index, _ = ask(client)
    client.complete_trial(index, {"a": 3.0, "b": 1.0})
    index, _ = ask(client)
    client.complete_trial(index, {"a": 3.0})
    history = _Codec(client._experiment.search_space).read(client._experiment, client._experiment.lookup_data())
    assert history.Y.tolist() == [-5.0]


def test_outcome_constraints_are_modelled() -> None:
    """The unconstrained optimum, 120 units, needs too much memory: at most 90 are feasible."""
    client = make_client(constraints=["memory <= 90", "speed >= -90"])
    asked = []
    for _ in range(16):
        index, params = ask(client)
        asked.append(params)
        client.complete_trial(index, {"loss": loss(params), "memory": params["units"], "speed": -params["units"]})
    history = _Codec(client._experiment.search_space).read(client._experiment, client._experiment.lookup_data())
    assert history.constraints.shape == (16, 2)
    assert history.constraints[0].tolist() == [asked[0]["units"] - 90] * 2
    assert sum(params["units"] <= 90 for params in asked[-6:]) >= 4
    assert min(loss(params) for params in asked if params["units"] <= 90) < 0.5


def test_every_kind_of_parameter() -> None:
    client = make_client(
        [
            RangeParameterConfig(name="step", bounds=(0.0, 1.0), parameter_type="float", step_size=0.25),
            RangeParameterConfig(name="layers", bounds=(1, 64), parameter_type="int", scaling="log"),
            ChoiceParameterConfig(name="size", values=[16, 32, 64], parameter_type="int", is_ordered=True),
            ChoiceParameterConfig(name="flag", values=[True, False], parameter_type="bool"),
            ChoiceParameterConfig(name="only", values=["adam"], parameter_type="str"),
            DerivedParameterConfig(name="twice", expression_str="2 * layers", parameter_type="int"),
        ],
        n_initial=3,
    )
    for _ in range(6):
        index, params = ask(client)
        assert list(params) == ["step", "layers", "size", "flag", "only", "twice"]
        assert params["step"] in (0.0, 0.25, 0.5, 0.75, 1.0)
        assert params["size"] in (16, 32, 64)
        assert isinstance(params["flag"], bool)
        assert params["only"] == "adam"
        assert params["twice"] == 2 * params["layers"]
        client.complete_trial(index, {"loss": params["step"] + params["layers"] / 64})


def test_choices_have_the_order_that_ax_says() -> None:
    numbers = ChoiceParameter("size", ParameterType.INT, [16, 32, 64], is_ordered=True, sort_values=True)
    names = ChoiceParameter("act", ParameterType.STRING, ["relu", "tanh", "gelu"], is_ordered=False, sort_values=False)
    space = _Codec(SearchSpace([numbers, names])).space
    assert space["size"] == Categorical([16, 32, 64], ordered=True)
    assert space["act"] == Categorical(["relu", "tanh", "gelu"])


def test_digits_make_a_grid() -> None:
    codec = _Codec(SearchSpace([RangeParameter("x", ParameterType.FLOAT, 0.0, 1.0, digits=1)]))
    assert codec.space.size == 11
    point = codec.unit({"x": 0.3})
    assert point is not None
    assert codec.params(point) == {"x": 0.3}


def test_a_finite_space_ends() -> None:
    client = make_client([ChoiceParameterConfig(name="act", values=["a", "b", "c", "d"], parameter_type="str")])
    seen = set()
    for i in range(4):
        index, params = ask(client)
        seen.add(params["act"])
        client.complete_trial(index, {"loss": float(i)})
    assert seen == {"a", "b", "c", "d"}
    with pytest.raises(SearchSpaceExhausted):
        ask(client)


def test_saved_and_resumed(tmp_path: Path) -> None:
    prior = {"lr": Normal(1e-3, 0.5), "units": (100, 140), "act": {"relu": 2, "tanh": 1, "gelu": 1}}
    client = make_client(name="mine", prior=prior)
    assert math.log10(run(client, 8)[0]["lr"]) == pytest.approx(-3, abs=0.01)
    file = str(tmp_path / "client.json")
    client.save_to_json_file(file)
    one, two = Client.load_from_json_file(file), Client.load_from_json_file(file)
    (loaded,) = one._generation_strategy._nodes
    assert isinstance(loaded, DMSNode)
    assert (loaded.seed, loaded.config, loaded.n_initial, loaded.name) == (0, TRAINED, 5, "mine")
    assert loaded.device.type == "cpu"
    assert loaded._prior["lr"] == {"mean": 1e-3, "std": 0.5}
    assert ask(one) == ask(two)
    assert ask(one)[0] == 9


def test_a_node_of_an_older_file_has_the_settings_that_it_was_saved_with() -> None:
    config = {name: value for name, value in vars(TRAINED).items() if name not in ("local_after", "noise_prior")}
    older = DMSNode.deserialize_init_args({"seed": 0, "config": config})["config"]
    assert (older.local_after, older.noise_prior) == (None, "log-normal")


def test_a_prior_that_is_no_dict_is_refused() -> None:
    with pytest.raises(ConfigError, match="prior must be a dict"):
        DMSNode(seed=0, prior=["lr"])  # type: ignore[arg-type]


def test_after_another_node() -> None:
    client = make_client()
    nodes = [CenterGenerationNode(next_node_name="DMS"), node(n_initial=3)]
    client.set_generation_strategy(GenerationStrategy(name="centre, then DMS", nodes=nodes))
    asked = run(client, 5)
    assert asked[0]["lr"] == pytest.approx(1e-3)
    assert len({tuple(params.values()) for params in asked}) == 5


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="seed"):
        DMSNode(seed=-1)
    with pytest.raises(ConfigError, match="n_initial"):
        DMSNode(n_initial=0)
    with pytest.raises(ConfigError, match="DMSConfig"):
        DMSNode(config={"m": 3})  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="device"):
        DMSNode(device="tpu")
    with pytest.raises(ConfigError, match="GenerationStrategy"):
        DMSNode().get_next_candidate([])


SQUARE = [RangeParameterConfig(name=name, bounds=(0, 1), parameter_type="float") for name in "xy"]


def hills(params: Params) -> dict[str, float]:
    """Cost is least at (0.2, 0.5), gain most at (0.8, 0.5); compromises lie between, weight allows those up to 0.6."""
    x, y = params["x"], params["y"]
    return {
        "cost": (x - 0.2) ** 2 + (y - 0.5) ** 2,
        "gain": -((x - 0.8) ** 2) - (y - 0.5) ** 2,
        "weight": x,
    }


def read(client: Client) -> Any:
    return _Codec(client._experiment.search_space).read(client._experiment, client._experiment.lookup_data())


def test_several_objectives_find_the_front_under_a_constraint() -> None:
    limits = ["weight <= 0.6", "cost <= 0.4", "gain >= -0.4"]
    client = make_client(SQUARE, objective="-cost, gain", constraints=limits)
    for _ in range(16):
        index, params = ask(client)
        client.complete_trial(index, hills(params))
    history = read(client)
    assert history.constraints.shape == (16, 1)
    np.testing.assert_allclose(history.reference, [-0.4, -0.4])
    front = client.get_pareto_frontier(use_model_predictions=False)  # as Ax finds it
    found = np.array([[metrics["cost"][0], metrics["gain"][0]] for _, metrics, *_ in front])
    a = np.linspace(0.2, 0.6, 1001)
    best = hypervolume(np.stack([(a - 0.2) ** 2, -((a - 0.8) ** 2)], 1), [-1, 1], [0.4, -0.4])
    assert 0.85 * best < hypervolume(found, [-1, 1], [0.4, -0.4]) <= best
    assert all(params["x"] <= 0.6 for params, *_ in front)


def test_several_objectives_are_proposed_as_by_the_optimizer() -> None:
    client = make_client(SQUARE, objective="-cost, gain", constraints=["cost <= 0.4", "gain >= -0.4"], config=SMALLEST)
    space = Space({"x": Float(0, 1), "y": Float(0, 1)})
    settings: Any = {"seed": 0, "config": SMALLEST, "n_initial": 5, "reference": [0.4, -0.4]}
    opt = Optimizer(space, direction=["minimize", "maximize"], **settings)
    for i in range(7):
        index, params = ask(client)
        trial = opt.ask()
        assert params == pytest.approx(trial.params), i
        measured = hills(params)
        client.complete_trial(index, {"cost": (measured["cost"], 0.1), "gain": measured["gain"]})
        opt.tell(trial, [measured["cost"], measured["gain"]], sem=[0.1, None])


def test_weights_thresholds_and_standard_errors_of_several_objectives() -> None:
    client = make_client(SQUARE, objective="-2*cost + other, 3*gain", constraints=["gain >= -0.4"], n_initial=2)
    index, _ = ask(client)
    client.complete_trial(index, {"cost": (3.0, 0.2), "gain": (0.5, 0.1), "other": (1.0, 0.3)})
    index, _ = ask(client)
    client.complete_trial(index, {"cost": 3.0, "gain": (0.5, 0.1), "other": 1.0})
    index, _ = ask(client)
    client.complete_trial(index, {"cost": 3.0, "other": 1.0})
    history = read(client)
    assert history.Y.tolist() == [[-5.0, 1.5]] * 2
    np.testing.assert_allclose(history.sem, [[0.5, 0.3], [np.nan, 0.3]])
    np.testing.assert_allclose(history.reference, [np.nan, -1.2])
    assert len(history.lost) == 1
    assert 0 <= ask(client)[1]["x"] <= 1  # the model's, with a reference point of which half is inferred


def test_objectives_may_change() -> None:
    client = make_client(SQUARE, objective="-cost", n_initial=2, config=SMALLEST)
    for objective in ("-cost", "-cost, gain", "gain"):
        client.configure_optimization(objective=objective)
        for _ in range(3):
            index, params = ask(client)
            client.complete_trial(index, hills(params))
    assert len(client._experiment.trials) == 9


def test_too_many_objectives() -> None:
    with pytest.raises(ConfigError, match="there are 6 objectives, and 5 at the most"):
        ask(make_client(objective="a, b, c, d, e, f"))


def test_a_threshold_relative_to_a_baseline() -> None:
    with pytest.raises(ConfigError, match="relative to a baseline"):
        ask(make_client(objective="a, -b", constraints=["a >= 0.9 * baseline"]))


def test_a_bound_relative_to_a_baseline() -> None:
    with pytest.raises(ConfigError, match="relative to a baseline"):
        ask(make_client(constraints=["memory <= 0.9 * baseline"]))


def test_fixed_parameters() -> None:
    client = make_client(n_initial=2, config=SMALLEST)
    asked = run(client, 3)
    for index, params in client.get_next_trials(max_trials=2, fixed_parameters={"units": 60, "act": "gelu"}).items():
        assert (params["units"], params["act"]) == (60, "gelu")
        client.complete_trial(index, {"loss": loss(params)})
        asked.append(params)
    assert len({tuple(params.values()) for params in asked}) == len(asked) > 3
    with pytest.raises(ParameterError, match="'unit' is unknown"):
        client.get_next_trials(max_trials=1, fixed_parameters={"unit": 60})


def test_parameter_constraints() -> None:
    parts = [RangeParameterConfig(name=name, bounds=(0, 1), parameter_type="float") for name in "abcd"]
    client = make_client(parts, parameter_constraints=["a + b + c + d <= 0.5", "a >= b"], n_initial=2, config=SMALLEST)
    for _ in range(4):
        index, params = ask(client)
        assert sum(params.values()) <= 0.5
        assert params["a"] >= params["b"]
        client.complete_trial(index, {"loss": params["a"]})


def test_equalities_and_fixed_values_in_constraints() -> None:
    space = SearchSpace(
        [RangeParameter(name, ParameterType.FLOAT, 0.0, 1.0) for name in ("a", "b", "c")],
        [ParameterConstraint(equality="a + b + 2*c == 1.5")],
    )
    assert _Codec(space).space.constraints == (Linear({"a": 1, "b": 1, "c": 2}, equals=1.5),)
    space.disable_parameters({"c": 0.25})
    assert _Codec(space).space.constraints == (Linear({"a": 1, "b": 1}, equals=1.0),)


def test_a_hierarchical_space() -> None:
    parameters = [
        ChoiceParameterConfig(
            name="model", values=["a", "b"], parameter_type="str", dependent_parameters={"a": ["x"], "b": ["y"]}
        ),
        RangeParameterConfig(name="x", bounds=(0, 1), parameter_type="float"),
        RangeParameterConfig(name="y", bounds=(0, 1), parameter_type="float"),
    ]
    with pytest.raises(SpaceError, match="hierarchical"):
        ask(make_client(parameters))


@pytest.mark.parametrize(
    ("parameter", "match"),
    [
        (RangeParameter("p", ParameterType.FLOAT, 0.1, 0.9, logit_scale=True), "'p': .* logit"),
        (RangeParameter("p", ParameterType.FLOAT, 0.1, 0.9, is_fidelity=True, target_value=0.9), "'p': .* fidelity"),
        (
            ChoiceParameter("p", ParameterType.INT, [1, 2, 3], is_ordered=True, is_task=True, target_value=1),
            "'p': .* task",
        ),
        (FixedParameter("p", ParameterType.INT, 1), r"fixed: \['p'\]"),
    ],
)
def test_parameters_that_are_not_supported(parameter: Any, match: str) -> None:
    with pytest.raises(SpaceError, match=match):
        _Codec(SearchSpace([parameter]))


def test_a_disabled_parameter_keeps_its_default() -> None:
    space = SearchSpace([RangeParameter(name, ParameterType.FLOAT, 0.0, 1.0) for name in ("a", "b")])
    space.disable_parameters({"b": 0.25})
    codec = _Codec(space)
    assert codec.space.names == ["a"]
    point = codec.unit({"a": 0.5, "b": 0.9})
    assert point is not None
    assert codec.params(point) == {"a": 0.5, "b": 0.25}


def test_without_ax_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "ax" or name.startswith("ax.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "modeseek.integrations.ax")
    with pytest.raises(ModeseekError, match=r"pip install -c constraints\.txt") as raised:
        importlib.import_module("modeseek.integrations.ax")
    assert isinstance(raised.value, ImportError)


def test_statuses_of_ax_are_all_known() -> None:
    """Every status is data, pending, or merely proposed; a new one of Ax's would want a decision."""
    assert {status.name for status in TrialStatus} == {
        *("CANDIDATE", "STAGED", "RUNNING", "ABANDONED"),
        *("COMPLETED", "EARLY_STOPPED"),
        *("FAILED", "DISPATCHED", "STALE"),
    }


def test_standard_errors_are_the_noise_of_the_objective() -> None:
    client = make_client(objective="-loss - 2 * cost")
    for loss_of, cost in (((1.0, 0.3), (2.0, 0.2)), (1.0, 2.0), ((1.0, 0.3), 2.0)):
        index, _ = ask(client)
        client.complete_trial(index, {"loss": loss_of, "cost": cost})
    (strategy,) = client._generation_strategy._nodes
    strategy.update_generator_state(client._experiment, client._experiment.lookup_data())
    sem = strategy._history.sem
    assert sem[0] == pytest.approx(0.5)
    assert math.isnan(sem[1])
    assert math.isnan(sem[2])
