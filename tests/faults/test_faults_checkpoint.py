"""Broken and hostile checkpoints: faults 21, 30, 43, 44 and 52 of docs/faults.md."""

import json
import os
import pickle
import re
import stat
import struct

import numpy as np
import pytest
import torch
from files import document_of, rewritten, saved, sealed, setter
from safetensors.torch import load, save

from modeseek import Categorical, CheckpointError, Optimizer, Space, minimize, storage
from shared import BOX, sphere

pytest.importorskip("resource", reason="pipes and permissions of POSIX")


class Exploit:
    def __reduce__(self):
        return os.system, ("touch exploited",)


def test_fault_21_a_checkpoint_cut_short_anywhere(tmp_path):
    path = tmp_path / "run"
    opt = saved(path, 6)
    data = path.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=re.escape(str(path))) as raised:
            Optimizer.load(path)
        assert str(path) + ".bak" in str(raised.value)
        with pytest.raises(CheckpointError):
            minimize(sphere, BOX, 9, checkpoint=path, progress=False)
        assert path.read_bytes() == data[:length]
    assert Optimizer.load(str(path) + ".bak").trials[:5] == opt.trials[:5]


def test_fault_21_not_a_checkpoint_and_nothing_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run"
    torch.save({"model": Exploit()}, tmp_path / "zip")
    hostile = [
        pickle.dumps(Exploit()),
        (tmp_path / "zip").read_bytes(),
        b"{}",
        os.urandom(1000),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        save({"weight": torch.zeros(3)}),
        save({}, metadata={"modeseek": "[" * 100_000}),
        save({}, metadata={"modeseek": "{}"}),
        save({}, metadata={"modeseek": "NaN"}),
        save({}, metadata={"modeseek": '"../../etc/passwd"'}),
        save({}, metadata={"sha256": "0" * 64}),
        sealed({}, "{}"),
        sealed({}, "[" * 100_000),
    ]
    for data in hostile:
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=re.escape(str(path))):
            Optimizer.load(path)
    assert not (tmp_path / "exploited").exists()
    with pytest.raises(CheckpointError, match=re.escape(str(tmp_path))):
        Optimizer.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setter("version", value=3), "upgrade"),
        (setter("version", value=0), "version"),
        (setter("version", value="1"), "version"),
        (setter("format", value="other"), "not one of modeseek"),
        (setter("direction", value="sideways"), "direction"),
        (setter("seed", value=-1), "seed"),
        (setter("seed", value=1.5), "seed"),
        (setter("n_initial", value=True), "n_initial"),
        (setter("config", "m", value=0), "m must be"),
        (setter("config", value={"m": 0}), "another version"),
        (setter("config", value={"__class__": "x"}), "valid"),
        (setter("config", value=[1]), "valid"),
        (setter("config", "rho", value="1"), "valid"),
        (setter("config", "hidden", value=64), "network"),
        (setter("space", value=None), "space"),
        (setter("space", "parameters", 0, "high", value=-9), "low"),
        (setter("trials", value={}), "trials"),
        (setter("trials", value=[None]), "valid"),
        (setter("trials", 0, "params", value=[9.0, 0.0]), "'x0'"),
        (setter("trials", 0, "params", value={"x0": 0.0, "x1": 0.0}), "array"),
        (setter("trials", 0, "value", value=None), "trial 0"),
        (setter("trials", 0, "value", value="1.0"), "trial 0"),
        (setter("trials", 0, "state", value="failed"), "trial 0"),
        (setter("trials", 0, "state", value="paused"), "paused"),
        (setter("trials", 0, "origin", value="../x"), "origin"),
        (lambda document: json.dumps(document).replace('"value": ', '"value": NaN, "was": ', 1), "NaN"),
        (lambda document: json.dumps(document).replace('"value": ', '"value": 1e999, "was": ', 1), "infinite"),
        (lambda document: document.pop("seed") and None, "seed"),
    ],
)
def test_fault_21_a_document_with_a_wrong_field(tmp_path, change, message):
    path = tmp_path / "run"
    saved(path)
    path.write_bytes(rewritten(path, change))
    with pytest.raises(CheckpointError, match=message) as raised:
        Optimizer.load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "tensors",
    [
        lambda t: {**t, "more": torch.zeros(1)},
        lambda t: {"noise": t["noise"]},
        lambda t: {**t, "noise": t["noise"].float()},
        lambda t: {**t, "network": t["network"].double()},
        lambda t: {**t, "network": t["network"][:, 1:].contiguous()},
        lambda t: {**t, "lengthscale": t["lengthscale"][0].contiguous()},
        lambda t: {**t, "noise": torch.tensor([float("nan")], dtype=torch.float64)},
        lambda t: {**t, "lengthscale": -t["lengthscale"]},
        lambda t: {**t, "lengthscale": t["lengthscale"] / 0},
        lambda t: {**t, "network": t["network"] * float("nan")},
    ],
)
def test_fault_21_wrong_tensors(tmp_path, tensors):
    path = tmp_path / "run"
    saved(path)
    path.write_bytes(rewritten(path, lambda document: None, dict))
    Optimizer.load(path)
    path.write_bytes(rewritten(path, lambda document: None, tensors))
    with pytest.raises(CheckpointError, match="valid"):
        Optimizer.load(path)


def refused(path):
    """Loading the file is refused, and the good file before it is named, which loads."""
    with pytest.raises(CheckpointError, match=re.escape(f"{path}: ")) as raised:
        Optimizer.load(path)
    assert str(raised.value).endswith(f"{path}.bak")
    return str(raised.value)


def test_fault_30_every_flipped_bit_is_found(tmp_path):
    """Each byte of the header once, with a bit drawn at random, and as many places among the tensors."""
    path = tmp_path / "run"
    saved(path, 5)
    good = path.read_bytes()
    before = Optimizer.load(f"{path}.bak").trials
    header = 8 + storage.header_size(good)
    rng = np.random.default_rng(0)
    for at in [*range(0, header, 5), *rng.integers(header, len(good), 300)]:
        damaged = bytearray(good)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=re.escape(f"{path}: not a valid checkpoint")):
            Optimizer.load(path)
    assert "checksum" in refused(path)
    path.write_bytes(good)
    assert Optimizer.load(path).trials[:4] == before[:4]


@pytest.mark.parametrize("length", [1, 64, 4096])
def test_fault_30_a_run_of_zeros_is_found(tmp_path, length):
    path = tmp_path / "run"
    saved(path, 5)
    good = path.read_bytes()
    rng = np.random.default_rng(length)
    for at in [0, 8, *rng.integers(0, len(good) - length, 20)]:
        damaged = bytearray(good)
        damaged[at : at + length] = bytes(length)
        if damaged == good:
            continue
        path.write_bytes(damaged)
        refused(path)
        with pytest.raises(CheckpointError):
            minimize(sphere, BOX, 9, checkpoint=path, progress=False)
        assert path.read_bytes() == damaged


def test_fault_30_a_damaged_backup_is_not_recommended(tmp_path):
    path = tmp_path / "run"
    saved(path, 2)
    for name in (path, tmp_path / "run.bak"):
        name.write_bytes(name.read_bytes()[:-9])
    with pytest.raises(CheckpointError) as raised:
        Optimizer.load(path)
    assert ".bak" not in str(raised.value)


def test_fault_30_a_file_without_its_checksum_is_refused(tmp_path):
    path = tmp_path / "run"
    saved(path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"sha256":', b'"sha257":'))
    assert "checksum is missing" in refused(path)


def test_fault_30_a_checkpoint_of_version_1_had_no_checksum_and_loads(tmp_path):
    path = tmp_path / "run"
    opt = saved(path)
    data = path.read_bytes()
    document = document_of(data)
    document["version"] = 1
    path.write_bytes(save(load(data), metadata={"modeseek": json.dumps(document)}))
    old = Optimizer.load(path)
    assert old.trials == opt.trials
    assert old.ask() == opt.ask()
    old.save(path)
    assert Optimizer.load(path).trials == old.trials
    assert b'"sha256":"' in path.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["config"].update(m=10**8, K=0),
        setter("config", "S", value=10**8),
        setter("config", "K", value=10**6),
        setter("config", "epochs", value=10**12),
        setter("config", "batch_size", value=10**9),
        setter("config", "hidden", value=10**6),
        setter("config", "steps", value=10**9),
        lambda document: document["config"].update(epochs=10**5, m=20_000, hidden=256),
        lambda document: document["config"].update(steps=10**4, S=10**4, hidden=4096),
        lambda document: document["config"].update(K=1000, m=20_000),
        lambda document: document.update(trials=document["trials"][:1] * 50_001),
        setter("trials", value="x" * 50_001),
        setter("space", "parameters", 0, value={"name": "x0", "type": "int", "low": 0, "high": 10**400}),
    ],
)
def test_fault_44_sizes_that_take_gigabytes_or_hours(tmp_path, change):
    path = tmp_path / "run"
    saved(path, 2)
    path.write_bytes(rewritten(path, change, lambda tensors: {}))
    with pytest.raises(CheckpointError, match=re.escape(str(path))):
        Optimizer.load(path)


def test_fault_44_a_file_larger_than_any_checkpoint_is_not_read(tmp_path):
    path = tmp_path / "run"
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole, which takes no disk
    with pytest.raises(CheckpointError, match=re.escape(str(path))):
        Optimizer.load(path)


@pytest.mark.timeout(60)
def test_fault_44_loading_is_linear_in_choices_and_trials(tmp_path):
    """With one comparison for each choice and trial this would take minutes: there are 4 * 10^9 pairs."""
    path = tmp_path / "run"
    choices = [f"choice {i}" for i in range(200_000)]
    Optimizer(Space({"a": Categorical(choices)}), seed=0).save(path)
    trial = {"params": {"a": choices[-1]}, "origin": "told", "state": "complete", "value": 1.0, "error": None}
    path.write_bytes(rewritten(path, setter("trials", value=[trial] * 20_000)))
    opt = Optimizer.load(path)
    assert len(opt.trials) == 20_000
    assert opt.trials[-1].params == {"a": choices[-1]}


@pytest.mark.timeout(30)
def test_fault_43_a_pipe_or_a_folder_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, message in (("pipe", "a pipe"), ("folder", "a folder")):
        path = tmp_path / name
        for use in (Optimizer.load, Optimizer(BOX).save):
            with pytest.raises(CheckpointError, match=f"{re.escape(str(path))}.*{message}"):
                use(path)
        with pytest.raises(CheckpointError, match=message):
            minimize(sphere, BOX, 3, checkpoint=path, progress=False)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def modes_seen(monkeypatch):
    """The modes of all files of ours whenever one of them is written, synced or moved."""
    seen = []

    def watch(name):
        original = getattr(os, name)

        def watched(*args, **kwargs):
            for handle in os.listdir("/proc/self/fd"):
                target = os.readlink(f"/proc/self/fd/{handle}") if os.path.exists(f"/proc/self/fd/{handle}") else ""
                if ".tmp" in target:
                    seen.append((name, mode(f"/proc/self/fd/{handle}")))
            return original(*args, **kwargs)

        monkeypatch.setattr(os, name, watched)

    for name in ("fdopen", "fchmod", "fsync", "replace"):
        watch(name)
    return seen


@pytest.mark.parametrize("links", [True, False])
def test_fault_52_permissions_are_kept(tmp_path, monkeypatch, modes_seen, links):
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("no hard links here")))
    path = tmp_path / "run"
    opt = Optimizer(BOX, seed=0)
    umask = os.umask(0o022)
    try:
        opt.save(path)
        assert mode(path) == 0o644  # a new file: as the umask has it
        for wanted in (0o600, 0o640, 0o444, 0o600):
            path.chmod(wanted)
            modes_seen.clear()
            opt.save(path)
            opt.save(path)
            assert mode(path) == mode(tmp_path / "run.bak") == wanted
            assert modes_seen
            assert all(seen & ~(wanted | 0o600) == 0 for _, seen in modes_seen)
        path.unlink()
        opt.save(path)
        assert mode(path) == 0o600  # the backup is still there to go by
    finally:
        os.umask(umask)
