"""Lemma 1, measured: the inequality, and that E1 falls with n and E2 with m."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modeseek.errors import ConfigError
from modeseek.experiments.theory import ROUNDING, draw, measure, table

TASK = "styblinski-tang-2"


def test_the_inequality_holds_and_the_gap_is_small() -> None:
    for n, m in ((10, 100), (60, 100)):
        r = measure(TASK, n=n, m=m, seeds=6, S=200)
        assert (r.subopt <= r.gap + r.e1 + r.e2 + ROUNDING).all()
        assert (r.gap >= -ROUNDING).all(), "the best label is not under its mean"
        assert (r.gap < 0.1).all()
        for term in (r.e1, r.e2, r.subopt):
            assert np.isfinite(term).all()


def test_e1_falls_with_n() -> None:
    few, many = (measure(TASK, n=n, m=100, seeds=8, S=50).e1.mean() for n in (10, 100))
    assert many < 0.5 * few


def test_e2_falls_with_m() -> None:
    few, many = (measure(TASK, n=40, m=m, seeds=6, S=300).e2.mean() for m in (20, 1000))
    assert many < few


def test_a_real_task_has_no_known_function() -> None:
    with pytest.raises(ConfigError, match="wine"):
        measure("wine", n=10, m=10)


def test_table_and_figure(tmp_path: Path) -> None:
    results = {
        "n": [measure(TASK, n=n, m=50, seeds=3, S=20) for n in (5, 10)],
        "m": [measure(TASK, n=5, m=20, seeds=3)],
    }
    assert "| n | 10 | 50 | 0.001 |" in table(results)
    draw(results, tmp_path / "theory.png")
    assert (tmp_path / "theory.png").stat().st_size > 1000
