"""Seeds, processes and devices: faults 27, 28 and 31 of docs/faults.md."""

import contextlib
import subprocess
import sys
import textwrap

import optuna
import pytest
import torch
from botorch.models import SingleTaskGP

from modeseek import Categorical, DeviceError, Float, Int, Optimizer, Space, dms
from modeseek.integrations.botorch import dms_candidates
from modeseek.integrations.optuna import DMSSampler
from shared import CHEAP, generator, hill

PARAMETERS = {"lr": Float(1e-5, 1e-1, log=True), "units": Int(50, 200), "act": Categorical(["relu", "tanh"])}


def suggestions(names=("lr", "units", "act"), n=8, save=None):
    opt = Optimizer(Space({name: PARAMETERS[name] for name in names}), seed=11, config=CHEAP, n_initial=4)
    for i in range(n):
        if save and i == 6:
            opt.save(save)
            opt = Optimizer.load(save)
        trial = opt.ask()
        opt.tell(trial, trial.params["units"] / 100 + trial.params["lr"] * (trial.params["act"] == "relu"))
    return [tuple(sorted(trial.params.items())) for trial in opt.trials]


def test_fault_27_another_order_of_keys():
    assert suggestions(("act", "units", "lr")) == suggestions()


def test_fault_27_interrupted_and_resumed(tmp_path):
    assert suggestions(save=tmp_path / "run") == suggestions()


def test_fault_27_another_process():
    script = f"""
        import sys; sys.path[:0] = {sys.path!r}
        from test_faults_seeds_devices import suggestions
        print(suggestions(("units", "act", "lr")))
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**__import__("os").environ, "PYTHONHASHSEED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert out.strip() == str(suggestions())


def test_fault_27_global_random_state_is_neither_read_nor_changed():
    torch.manual_seed(1)
    first = suggestions()
    after = torch.rand(1).item()
    torch.manual_seed(1)
    assert torch.rand(1).item() == after
    assert suggestions() == first


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_fault_28_cuda_missing_though_asked_for(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=f"device='{device}'"):
        Optimizer(Space(PARAMETERS), device=device)
    assert Optimizer(Space(PARAMETERS), device="auto").device.type == "cpu"


@pytest.mark.parametrize("device", ["tpu", "mps", "meta", "", 3.5, None])
def test_fault_28_devices_that_are_not_offered(device):
    with pytest.raises(DeviceError, match="device="):
        Optimizer(Space(PARAMETERS), device=device)


def test_fault_28_out_of_gpu_memory_names_the_setting(monkeypatch):
    opt = Optimizer(Space(PARAMETERS), seed=0, n_initial=1, config=CHEAP)
    opt.tell(opt.ask(), 1.0)

    def full(*_, **__):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(dms, "suggest", full)
        with pytest.raises(DeviceError, match="device="):
            opt.ask()
    assert len(opt.trials) == 1  # nothing was asked
    assert opt.ask().origin == "model"


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


SURROUNDINGS = {
    "float64": lambda: default_dtype(torch.float64),
    "float16": lambda: default_dtype(torch.float16),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "meta": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
}


def run_within(path, around, begin):
    """From trial number `begin` on all within: ask, tell, save; load, ask, recommend."""
    with around() if begin == 0 else contextlib.nullcontext():
        opt = Optimizer(Space.box([-5, -5], [5, 5]), seed=0, config=CHEAP, n_initial=4)
    for i in range(7):
        with around() if i >= begin else contextlib.nullcontext():
            trial = opt.ask()
            opt.tell(trial, float((trial.params**2).sum()))
            opt.save(path)
    with around():
        again = Optimizer.load(path)
        again.ask()
        return again.trials, again.recommend()


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    return run_within(tmp_path_factory.mktemp("plain") / "run", contextlib.nullcontext, 0)


@pytest.mark.parametrize("begin", [0, 5], ids=["from the beginning", "after the first suggestion"])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_fault_31_the_callers_settings_of_torch_change_nothing(tmp_path, plain_run, name, begin):
    assert run_within(tmp_path / "run", SURROUNDINGS[name], begin) == plain_run


def study_within(around, begin):
    sampler = DMSSampler(seed=0, config=CHEAP, n_startup_trials=3)
    study = optuna.create_study(sampler=sampler)
    for i in range(6):
        with around() if i >= begin else contextlib.nullcontext():
            study.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2 + trial.suggest_int("k", 0, 9), n_trials=1)
    return [trial.params for trial in study.trials]


@pytest.fixture(scope="module")
def plain_study():
    return study_within(contextlib.nullcontext, 0)


@pytest.mark.parametrize("begin", [0, 4], ids=["from the beginning", "after the first suggestion"])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_fault_31_of_the_sampler_neither(plain_study, name, begin):
    assert study_within(SURROUNDINGS[name], begin) == plain_study


def candidates(around, within_from):
    """Two candidates of a BoTorch model, made and conditioned outside as users do, and one more beside them."""
    X, Y = (tensor[0] for tensor in hill(12, 2))
    model = SingleTaskGP(X, Y[:, None], outcome_transform=None)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64, device="cpu")
    with around() if within_from == 0 else contextlib.nullcontext():
        first = dms_candidates(model, bounds, q=2, config=CHEAP, generator=generator(1))
    with around():
        return first, dms_candidates(model, bounds, X_pending=first, config=CHEAP, generator=generator(2))


@pytest.fixture(scope="module")
def plain_candidates():
    return candidates(contextlib.nullcontext, 0)


@pytest.mark.parametrize("within_from", [0, 1], ids=["from the beginning", "after the first suggestion"])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_fault_31_of_candidates_for_botorch_neither(plain_candidates, name, within_from):
    for here, plain in zip(candidates(SURROUNDINGS[name], within_from), plain_candidates, strict=True):
        assert here.dtype == plain.dtype
        assert torch.equal(here, plain)
