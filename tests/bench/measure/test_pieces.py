"""Measurements as pieces: which rows of a file are a piece's, and how long one may take."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from modeseek.bench.measure import seconds, theory
from modeseek.bench.measure.measurements import read
from modeseek.bench.measure.pieces import Piece, pieces
from modeseek.bench.measure.seconds import DRAWN, PAPERS_DMS, Measurement
from modeseek.errors import ModeseekError


def row(method: str, task: str = "levy-10", device: str = "CPU (x)", threads: int = 1, **more: object) -> Measurement:
    return {"task": task, "method": method, "device": device, "threads": threads, "seconds": [2.0, 4.0]} | more


def piece_of(part: str, method: str, task: str = "levy-10", device: str = "cpu", **keys: object) -> Piece:
    (found,) = [
        piece
        for piece in pieces(device, whichever=True)
        if (piece.part, piece.method, piece.task) == (part, method, task)
        and keys.items() <= dict(piece.keys[0]).items()
    ]
    return found


def test_one_row_of_a_file_does_not_stand_for_the_others() -> None:
    """What `bench paper` once took for Tables 3 and 4 was any row of the device."""
    ours, defaults = (piece_of("Table 3", method, S=100) for method in (PAPERS_DMS, "DMS"))
    rows = [row("DMS", S=100), row("PES", S=100), row("DMS, an earlier default", S=100)]
    assert not ours.is_stored(rows)
    assert not ours.is_stored([*rows, row(PAPERS_DMS, S=200)])
    assert ours.is_stored([*rows, row(PAPERS_DMS, S=100)])
    assert not defaults.is_stored(rows), "it makes two rows"
    assert defaults.is_stored([*rows, row("DMS, sampling alone", S=100)])
    assert not piece_of("Table 4", "ei").is_stored([row("ei-botorch"), row("ei", "levy-20")])


@pytest.mark.parametrize(
    ("device", "mine", "others"), [("cpu", "CPU (x)", "NVIDIA A"), ("cuda", "NVIDIA A", "CPU (x)")]
)
def test_seconds_count_on_the_device_and_with_the_threads_that_they_are_of(device: str, mine: str, others: str) -> None:
    piece = piece_of("Table 4", "ei", device=device)
    assert piece.is_stored([row("ei", device=mine)])
    assert not piece.is_stored([row("ei", device=others)])
    assert not piece.is_stored([row("ei", device=mine, threads=2)])


def test_the_theory_is_the_same_on_every_device() -> None:
    terms = {term: [1.0] for term in theory.TERMS}
    settings = {"n": 20, "m": 500, "t0": 1e-3, "w": 0.0}
    piece = piece_of("theory", "dms-paper", "levy-10", device="cuda", **settings)
    assert piece.is_stored([row("dms-paper", **settings, **terms)])
    assert not piece.is_stored([row("dms-paper", **settings)]), "which an earlier version measured less of"
    assert not piece.is_stored([row("dms-paper", theory.TASK, **settings, **terms)])
    assert not piece.is_stored([row("dms-printed", **settings, **terms)])
    assert not piece.is_stored([row("dms-paper", **settings | {"n": 40}, **terms)])
    earlier = {"device": "A", "threads": 1} | settings | terms
    del earlier["w"]
    piece = piece_of("theory", "dms-paper", theory.TASK, **settings)
    assert piece.is_stored([earlier]), "which says neither task nor preset, and has no guidance"


def test_a_time_is_that_of_the_likest_row() -> None:
    piece = piece_of("Table 4", "ei")
    assert piece.expected([row("ts"), row("ei-botorch")]) == pytest.approx(4 * 3.0), "what there is, on this device"
    assert piece.expected([row("ts"), row("ei", device="GPU", seconds=[1.0])]) == pytest.approx(4 * 1.0)
    assert math.isnan(piece_of("theory", "dms-paper", w=1.0).expected([row("dms-paper", seconds=None)]))
    slow = piece_of("Table 4", "pes-botorch")
    assert slow.expected([row("pes-botorch", "styblinski-tang-2")]) == pytest.approx(390.2), "the paper's, once"


def test_a_piece_makes_its_rows_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seconds, "_seconds_of_draws", lambda method, *_: {name: [1.0] for name in DRAWN[method]})
    monkeypatch.setattr(seconds, "posterior_optima", lambda *_, **__: None)
    piece = piece_of("Table 3", "DMS", "styblinski-tang-2", S=200)
    assert not piece.is_stored(piece.rows(tmp_path))
    piece.run(tmp_path)
    rows = read(tmp_path / "draws.json")
    assert [(r["method"], r["S"]) for r in rows] == [("DMS", 200), ("DMS, sampling alone", 200)]
    assert piece.is_stored(piece.rows(tmp_path))
    monkeypatch.setattr(seconds, "measure_iterations", lambda *_, **__: iter(()))
    with pytest.raises(ModeseekError, match="nothing was measured"):
        piece_of("Table 4", "ei").run(tmp_path)
