"""Saving and going on: bit for bit, in one file, held by one optimizer."""

import dataclasses
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from safetensors import safe_open

from modeseek import (
    Categorical,
    CheckpointError,
    CheckpointInUse,
    DMSConfig,
    Float,
    Int,
    Optimizer,
    Space,
    TrialState,
    checkpoint,
    minimize,
)
from shared import CHEAP

SPACE = Space({"a": Float(-5, 5), "b": Float(1e-3, 10, log=True), "c": Int(0, 9), "d": Categorical(["x", None, True])})


def f(p):
    return p["a"] ** 2 / 3 + np.log(p["b"]) + p["c"] + (p["d"] == "x")


def run(opt, n):
    for _ in range(n):
        trial = opt.ask()
        opt.tell(trial, f(trial.params))
    return opt


def test_a_loaded_optimizer_goes_on_bit_for_bit(tmp_path):
    whole = run(Optimizer(SPACE, seed=5, config=CHEAP, n_initial=4), 14)
    opt = Optimizer(SPACE, seed=5, config=CHEAP, n_initial=4)
    for _ in range(7):  # a new optimizer every two steps, in the design and in the model's phase
        run(opt, 2).save(tmp_path / "run.modeseek")
        opt = Optimizer.load(tmp_path / "run.modeseek")
    assert opt.trials == whole.trials
    assert [t.params for t in opt.trials] == [t.params for t in whole.trials]
    assert all(torch.equal(a, b) for a, b in zip(opt._proposer.state, whole._proposer.state, strict=True))
    assert opt.best == whole.best
    assert opt.recommend() == whole.recommend()


def test_another_process_goes_on_bit_for_bit(tmp_path):
    path = tmp_path / "run.modeseek"
    whole = run(Optimizer(SPACE, seed=5, config=CHEAP, n_initial=4), 10)
    run(Optimizer(SPACE, seed=5, config=CHEAP, n_initial=4), 7).save(path)
    script = f"""
        import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})
        from modeseek import Optimizer
        from test_checkpoint import run
        run(Optimizer.load({str(path)!r}), 3).save({str(path)!r})
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120)
    assert Optimizer.load(path).trials == whole.trials


def test_everything_comes_back(tmp_path):
    opt = Optimizer(SPACE, direction="maximize", seed=2**100, config=DMSConfig.paper(4), n_initial=3)
    running, failed, complete = opt.ask(3)
    opt.tell(failed, failed=True, error="boom \ud800 'quoted'")
    opt.tell(complete, 0.1 + 0.2)
    opt.tell_params({"a": 5e-324, "b": 10, "c": 9, "d": None}, -1.7976931348623157e308)
    opt.save(tmp_path / "run")
    again = Optimizer.load(tmp_path / "run")
    for name in ("space", "direction", "seed", "config", "n_initial", "trials", "pending"):
        assert getattr(again, name) == getattr(opt, name), name
    assert again.trials[3].params == {"a": 5e-324, "b": 10.0, "c": 9, "d": None}
    assert again.pending == [running]


def test_a_box_comes_back(tmp_path):
    opt = Optimizer(Space.box([0.0] * 12, [0.1] * 12), seed=0)
    trial = opt.ask()
    opt.save(tmp_path / "run")
    again = Optimizer.load(tmp_path / "run")
    assert again.space == opt.space
    assert np.array_equal(again.trials[0].params, trial.params)
    again.tell(trial, 1.0)


def test_the_file_is_json_and_safetensors(tmp_path):
    run(Optimizer(SPACE, seed=0, config=CHEAP, n_initial=3), 5).save(tmp_path / "run")
    with safe_open(tmp_path / "run", framework="np") as file:
        document = json.loads(file.metadata()["modeseek"])
        assert set(file.keys()) == {"lengthscale", "noise", "network"}
    assert document["version"] == 2
    assert len(document["trials"]) == 5
    assert sorted(os.listdir(tmp_path)) == ["run", "run.lock"]


@pytest.mark.parametrize("change", [{"outlier": 60.0}, {"warp": None}, {"warp": True}])
def test_settings_of_another_version_are_said_so(tmp_path, monkeypatch, change):
    (name,) = change
    asdict = dataclasses.asdict

    def other(value):
        if not isinstance(value, DMSConfig):
            return asdict(value)
        settings = asdict(value) | change
        return {key: value for key, value in settings.items() if value is not None or key not in change}

    with monkeypatch.context() as older:
        older.setattr(dataclasses, "asdict", other)
        Optimizer(SPACE, seed=0, config=CHEAP).save(tmp_path / "run")
    with pytest.raises(CheckpointError, match=f"another version of modeseek.* {name}"):
        Optimizer.load(tmp_path / "run")


def test_settings_that_are_younger_than_a_file_are_as_it_ran(tmp_path, monkeypatch):
    asdict, younger = dataclasses.asdict, {"predict", "network_inputs", "round_inputs", "skip_collapsed"}

    def older(value):
        stored = asdict(value)
        return {key: stored[key] for key in stored if not isinstance(value, DMSConfig) or key not in younger}

    with monkeypatch.context() as patch:
        patch.setattr(dataclasses, "asdict", older)
        Optimizer(SPACE, seed=0, config=CHEAP).save(tmp_path / "run")
    assert Optimizer.load(tmp_path / "run").config == CHEAP


def test_the_file_before_is_kept(tmp_path):
    opt = Optimizer(SPACE, seed=0, config=CHEAP)
    for n in range(1, 4):
        run(opt, 1).save(tmp_path / "run")
        assert len(Optimizer.load(tmp_path / "run").trials) == n
        if n > 1:
            assert len(Optimizer.load(tmp_path / "run.bak").trials) == n - 1
    assert sorted(os.listdir(tmp_path)) == ["run", "run.bak", "run.lock"]


def test_without_hard_links_the_file_before_is_copied(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    opt = Optimizer(SPACE, seed=0, config=CHEAP)
    for _ in range(2):
        run(opt, 1).save(tmp_path / "run")
    assert len(Optimizer.load(tmp_path / "run.bak").trials) == 1


def test_a_link_is_followed_and_shares_the_lock(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    opt = Optimizer(SPACE, seed=0)
    opt.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "run").is_file()
    with pytest.raises(CheckpointInUse):
        Optimizer(SPACE, seed=0).save(tmp_path / "run")


def test_the_lock_ends_with_close_or_with_the_optimizer(tmp_path):
    one, two = Optimizer(SPACE, seed=0), Optimizer(SPACE, seed=1)
    one.save(tmp_path / "run")
    assert Optimizer.load(tmp_path / "run").seed == 0  # reading needs no lock
    with pytest.raises(CheckpointInUse, match="run"):
        two.save(tmp_path / "run")
    one.close()
    two.save(tmp_path / "run")
    del two
    one.save(tmp_path / "run")


def test_minimize_resumes(tmp_path):
    settings = {"seed": 3, "config": CHEAP, "n_initial": 4, "progress": False}
    whole = minimize(f, SPACE, 10, **settings)
    calls = []

    def counted(p):
        calls.append(p)
        return f(p)

    minimize(counted, SPACE, 6, checkpoint=tmp_path / "run", **settings)
    resumed = minimize(counted, SPACE, 10, checkpoint=tmp_path / "run", **settings)
    assert resumed.trials == whole.trials
    assert len(calls) == 10
    over = minimize(counted, SPACE, 10, checkpoint=tmp_path / "run", **settings)
    assert over.trials == whole.trials
    assert len(calls) == 10


def test_running_trials_are_evaluated_first(tmp_path):
    opt = Optimizer(SPACE, seed=3, config=CHEAP)
    opt.ask(3)
    opt.tell(1, 5.0)
    opt.save(tmp_path / "run")
    opt.close()
    order = []
    result = minimize(
        f, SPACE, 5, checkpoint=tmp_path / "run", progress=False, callbacks=[lambda o, t: order.append(t.number)]
    )
    assert order == [0, 2, 3, 4]
    assert [t.state for t in result.trials] == [TrialState.COMPLETE] * 5
    assert result.trials[1].value == 5.0


def test_what_was_told_from_elsewhere_is_not_of_the_budget(tmp_path):
    opt = Optimizer(SPACE, seed=3, config=CHEAP)
    for trial in Optimizer(SPACE, seed=4, config=CHEAP).ask(5):
        opt.tell_params(trial.params, f(trial.params))
    opt.save(tmp_path / "run")
    opt.close()
    result = minimize(f, SPACE, 3, checkpoint=tmp_path / "run", progress=False)
    assert [trial.origin for trial in result.trials] == ["told"] * 5 + ["initial"] * 3


def test_the_lock_is_free_after_a_run_whoever_keeps_its_optimizer(tmp_path):
    kept = []
    minimize(f, SPACE, 2, checkpoint=tmp_path / "run", progress=False, callbacks=[lambda o, t: kept.append(o)])
    Optimizer(SPACE, seed=3).save(tmp_path / "run")
    assert len(kept[0].trials) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"space": Space.box([0], [1])},
        {"seed": 4},
        {"config": DMSConfig()},
        {"n_initial": 11},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_checkpoint_of_other_settings_is_not_resumed(tmp_path, other):
    opt = Optimizer(SPACE, seed=3, config=CHEAP)
    opt.save(tmp_path / "run")
    opt.close()
    before = (tmp_path / "run").read_bytes()
    settings = {"f": f, "space": SPACE, "budget": 3, "checkpoint": tmp_path / "run", "progress": False}
    for _ in range(2):  # the lock is free again after the error
        with pytest.raises(CheckpointError, match=f"its {next(iter(other))} (is|has)"):
            minimize(**{**settings, **other})
    assert (tmp_path / "run").read_bytes() == before
    assert minimize(**settings).seed == 3  # seed and config left out: as they were


def test_a_checkpoint_of_the_other_direction_is_not_resumed(tmp_path):
    Optimizer(SPACE, seed=3, direction="maximize").save(tmp_path / "run")
    with pytest.raises(CheckpointError, match="direction"):
        minimize(f, SPACE, 3, checkpoint=tmp_path / "run", progress=False)


def test_a_missing_folder_is_named_and_not_made(tmp_path):
    with pytest.raises(CheckpointError, match="does not exist"):
        Optimizer(SPACE).save(tmp_path / "no" / "run")
    assert not (tmp_path / "no").exists()
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        Optimizer.load(tmp_path / "run")


def test_a_leftover_of_a_killed_save_is_no_obstacle(tmp_path):
    (tmp_path / "run.tmp").write_bytes(b"half")
    (tmp_path / "run.bak.tmp").write_bytes(b"half")
    opt = Optimizer(SPACE, seed=0)
    opt.save(tmp_path / "run")
    opt.save(tmp_path / "run")
    assert sorted(os.listdir(tmp_path)) == ["run", "run.bak", "run.lock"]
    assert checkpoint.read(tmp_path / "run").seed == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_moves_between_devices(tmp_path):
    run(Optimizer(SPACE, seed=5, config=CHEAP, n_initial=4, device="cuda"), 7).save(tmp_path / "run")
    for device in ("cpu", "cuda", "auto"):
        opt = Optimizer.load(tmp_path / "run", device=device)
        assert {tensor.device.type for tensor in opt._proposer.state} == {opt.device.type}
        assert run(opt, 2).best is not None
