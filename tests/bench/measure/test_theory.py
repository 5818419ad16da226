"""Lemma 1, measured: the inequality, and that E1 falls with n, E2 with m and with a smaller t0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from modeseek.bench.measure import theory
from modeseek.bench.measure.theory import TERMS, load, measure, save, sliced_w1
from modeseek.commands import main
from modeseek.dms import Suggestion, suggest
from modeseek.errors import ConfigError
from modeseek.pseudo import spread

TASK = "styblinski-tang-2"


def test_the_inequality_holds_but_for_a_small_gap() -> None:
    for n, m in ((10, 100), (60, 100)):
        r = measure(TASK, n=n, m=m, seeds=4, S=100)
        assert (r.subopt <= r.e1 + r.e2 + 0.1).all()
        assert (r.gap >= -1e-9).all(), "the best label is not under its mean"
        assert (r.subopt > 0).all(), "no sample is as good as the best label promises, at so few observations"


def test_a_surrogate_that_knows_the_function_leaves_the_model_alone_to_blame() -> None:
    r = measure(TASK, n=160, m=200, seeds=3, S=100)
    assert (r.e1 < 0.02).all(), "f̂ and f are compared on one scale"
    assert r.subopt == pytest.approx(r.e2, abs=0.03)


def test_e1_falls_with_n() -> None:
    few, many = (measure(TASK, n=n, m=100, seeds=6, S=20).e1.mean() for n in (10, 80))
    assert many < 0.5 * few


def test_e2_falls_with_m() -> None:
    few, many = (measure(TASK, n=40, m=m, seeds=6, S=200).e2.mean() for m in (10, 400))
    assert many < few


def test_e2_grows_with_t0() -> None:
    early, late = (measure(TASK, n=40, m=100, t0=t0, seeds=4, S=100).e2.mean() for t0 in (1e-3, 0.2))
    assert late > early, "noise that is never removed"


def test_a_model_is_measured_even_where_the_pseudo_inputs_end_in_one_point(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Suggestion] = []
    monkeypatch.setattr(theory, "REFERENCE_SIZE", 64)
    monkeypatch.setattr(theory, "suggest", lambda *args: found.append(suggest(*args)) or found[-1])
    measure("levy-10", n=40, m=50, seeds=3, S=20)
    (out,) = found
    assert (spread(out.pseudo_x, out.pseudo_y) < 0.005).any(), "where the preset does without a model"
    assert not out.fell_back.any()


def test_the_sliced_distance_of_moved_points_is_how_far_they_moved() -> None:
    x = np.random.default_rng(0).random((200, 1))
    weights = np.full(200, 1 / 200)
    assert sliced_w1(x, weights, x + 0.3) == pytest.approx(0.3)
    assert sliced_w1(x, weights, x[::-1]) == pytest.approx(0)
    few = np.where(x[:, 0] < 0.5, 1.0, 0.0)
    assert sliced_w1(x, few, x[x[:, 0] < 0.5]) == pytest.approx(0), "the weights count"


def test_a_real_task_has_no_known_function() -> None:
    with pytest.raises(ConfigError, match="wine"):
        measure("wine", n=10, m=10)


def test_what_is_stored_comes_back_and_is_in_the_report(tmp_path: Path, section: Callable[[Path, str], str]) -> None:
    results = {
        "n": [measure(TASK, n=n, m=50, seeds=3, S=20) for n in (5, 10)],
        "m": [measure(TASK, n=5, m=20, seeds=3, S=20)],
    }
    save(tmp_path / "theory.json", results)
    stored = load(tmp_path / "theory.json")
    assert [(varied, [(r.n, r.m) for r in found]) for varied, found in stored.items()] == [
        ("n", [(5, 50), (10, 50)]),
        ("m", [(5, 20)]),
    ]
    for term in TERMS:
        np.testing.assert_allclose(getattr(stored["n"][1], term), getattr(results["n"][1], term), rtol=1e-5)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    text = section(tmp_path / "out", "Sub-optimality of the learned distribution").strip()
    assert "| n | 10 | 50 | 0.001 |" in text
    assert text.splitlines()[-1].endswith(" | 3 of 3 |"), "with the gap it is the triangle inequality"
    assert (tmp_path / "out" / "theory.png").read_bytes()[:4] == b"\x89PNG"
    assert load(tmp_path / "nowhere.json") == {}
