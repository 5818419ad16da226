"""Lemma 1, measured: the inequality, that E1 falls with n, E2 with m and with a smaller t0, and the diffusion error."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from modeseek.bench.measure import theory
from modeseek.bench.measure.theory import BASE, SWEEPS, TERMS, Suboptimality, load, measure, save, sliced_w1, sweep
from modeseek.bench.report.claims import Evidence, table
from modeseek.commands import main
from modeseek.config import DMSConfig
from modeseek.dms import Suggestion, suggest
from modeseek.errors import ConfigError
from modeseek.pseudo import spread

TASK = "styblinski-tang-2"


@pytest.fixture(autouse=True)
def fewer_noisy_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory, "SAMPLES", 16)


def terms(seeds: int = 2, **given: list[float]) -> dict[str, np.ndarray]:
    return {term: np.array(given.get(term, [0.5] * seeds)) for term in TERMS}


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


@pytest.mark.parametrize("method", theory.METHODS)
def test_the_score_is_compared_in_the_networks_coordinates_and_for_its_label(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theory, "SAMPLES", 128)
    monkeypatch.setattr(theory, "REFERENCE_SIZE", 512)
    guided_score, errors = theory.guided_score, theory._diffusion_errors
    other = {"centred": "unit", "unit": "centred"}

    def wrong(**mutated: object) -> np.ndarray:
        for name, mutant in mutated.items():
            monkeypatch.setattr(theory, name, mutant)
        r = measure(TASK, n=30, m=300, t0=1e-2, seeds=3, S=20, method=method)
        monkeypatch.setattr(theory, "guided_score", guided_score)
        monkeypatch.setattr(theory, "_diffusion_errors", errors)
        return r.wrong

    as_it_is = wrong()
    assert (as_it_is < 0.2).all(), "of the noise, most is known"

    def reversed_labels(theta: Tensor, z: Tensor, **kw: object) -> object:
        return guided_score(theta, -z, **kw)  # type: ignore[arg-type]

    def elsewhere(out: Suggestion, config: DMSConfig, *rest: object) -> object:
        return errors(out, dataclasses.replace(config, network_inputs=other[config.network_inputs]), *rest)

    assert (as_it_is < wrong(guided_score=reversed_labels)).all()
    assert (1.5 * as_it_is < wrong(_diffusion_errors=elsewhere)).all(), "other coordinates"


def test_the_diffusion_error_grows_with_a_smaller_t0() -> None:
    late, early = (measure(TASK, n=20, m=100, t0=t0, seeds=3, S=20) for t0 in (1e-2, 1e-4))
    assert (early.diff > late.diff).all()
    assert (early.diff_a > late.diff_a).all()


def test_presets_differ_in_the_model_alone() -> None:
    paper, printed = (measure(TASK, n=20, m=50, seeds=2, S=20, method=method) for method in theory.METHODS)
    assert (paper.method, printed.method) == ("dms-paper", "dms-printed")
    np.testing.assert_array_equal(paper.gap, printed.gap)
    np.testing.assert_array_equal(paper.e1, printed.e1)
    assert (paper.e2 != printed.e2).all()
    with pytest.raises(ConfigError, match="'dms'"):
        measure(TASK, n=20, m=50, method="dms")


def test_a_model_without_finite_samples_has_no_terms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def diverging(*args: object) -> Suggestion:
        out = suggest(*args)  # type: ignore[arg-type]
        return dataclasses.replace(out, fell_back=torch.tensor([True, False, False]))

    monkeypatch.setattr(theory, "suggest", diverging)
    r = measure(TASK, n=10, m=20, seeds=3, S=20)
    for term in ("subopt", "e2", "w1", "diff", "diff_a", "wrong"):
        np.testing.assert_array_equal(np.isnan(getattr(r, term)), [True, False, False])
    assert np.isfinite([r.e1, r.gap]).all()
    assert r.diverged == 1
    path = tmp_path / "theory.json"
    save(path, r)
    assert "NaN" not in path.read_text(), "which JSON does not have"
    np.testing.assert_allclose(load(path)[0].e2, r.e2, rtol=1e-5)
    (bound, *_) = table(Evidence({}, {}, {}, tmp_path)).cells
    assert " of 2 measurements, and in 2 with the gap" in bound[5]
    assert bound[5].endswith("1 more had no finite samples")


def test_only_what_is_missing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, str, dict[str, float]]] = []

    def fake(task: str, *, method: str, seeds: int, device: str, **settings: float) -> Suboptimality:
        measured.append((task, method, settings))
        return Suboptimality(**settings, **terms(seeds), method=method)  # type: ignore[arg-type]

    monkeypatch.setattr(theory, "measure", fake)
    path = tmp_path / "theory.json"
    study = theory.study(path, TASK, "dms-printed", seeds=3)
    next(study), next(study)
    study.close()
    assert len(load(path, TASK, "dms-printed")) == 2, "stored one by one"
    every = sum(map(len, SWEEPS.values())) - 2  # BASE is in three of four sweeps
    assert len(list(theory.study(path, TASK, "dms-printed", seeds=3))) == every - 2
    assert list(theory.study(path, TASK, "dms-printed", seeds=3)) == []
    assert [settings for _, _, settings in measured].count(BASE) == 1
    assert len(list(theory.study(path, TASK, "dms-paper", seeds=3))) == every, "another preset"
    assert len(list(theory.study(path, "levy-10", "dms-printed", seeds=3))) == every, "another task"
    assert len(list(theory.study(path, TASK, "dms-printed", seeds=4))) == every, "more seeds"
    assert len(load(path, TASK, "dms-printed")) == every, "in the place of fewer"
    assert [r.n for r in sweep(load(path, TASK, "dms-printed"), "n")] == [10, 20, 40, 80, 160]


def test_rows_of_an_earlier_version_are_read_once_and_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "theory.json"
    old = {term: [1.0, 2.0] for term in ("subopt", "e1", "e2", "gap", "w1")}
    rows = [{"task": TASK, "varied": varied, **BASE, **old} for varied in ("n", "t0", "w")]
    rows.append({"task": TASK, "varied": "n", **BASE, "n": 10, **old})
    path.write_text(json.dumps(rows))
    base, other = load(path)
    assert (base.method, base.settings, other.n) == ("dms-paper", BASE, 10)
    assert base.diff.size == 0
    assert load(path, TASK, "dms-printed") == []
    monkeypatch.setattr(theory, "measure", lambda task, **kw: Suboptimality(**BASE, **terms()))
    first = next(theory.study(path, seeds=2))
    assert first.settings == BASE
    assert [len(r.diff) for r in load(path)] == [0, 2], "all three rows of one setting are replaced"


def test_what_is_stored_comes_back_and_is_in_the_report(tmp_path: Path, section: Callable[[Path, str], str]) -> None:
    path = tmp_path / "theory.json"
    results = [measure(TASK, n=n, m=500, seeds=3, S=20) for n in (5, 10)]
    results.append(measure(TASK, n=10, m=500, seeds=3, S=20, method="dms-printed"))
    for r in results:
        save(path, r)
    stored = [*load(path), *load(path, TASK, "dms-printed")]
    assert [(r.method, r.settings) for r in stored] == [(r.method, r.settings) for r in results]
    for term in TERMS:
        for r, other in zip(stored, results, strict=True):
            np.testing.assert_allclose(getattr(r, term), getattr(other, term), rtol=1e-5)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    text = section(tmp_path / "out", "Sub-optimality of the learned distribution").strip()
    assert "| dms-paper | n | 10 | 500 | 0.001 | 0 |" in text
    assert "| dms-printed | n | 10 | 500 | 0.001 | 0 |" in text
    assert text.splitlines()[-1].endswith(" | 3 of 3 |"), "with the gap it is the triangle inequality"
    assert (tmp_path / "out" / "theory.png").read_bytes()[:4] == b"\x89PNG"
    assert load(tmp_path / "nowhere.json") == []


def test_the_command_takes_presets_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SWEEPS, "n", (5, 8))
    for varied in ("m", "t0", "w"):
        monkeypatch.setitem(SWEEPS, varied, ())
    command = ["bench", "theory", "--task", TASK, "--seeds", "2", "--out", str(tmp_path), "--method", "dms-printed"]
    assert main(command) == 0
    assert capsys.readouterr().out.count("dms-printed, n = ") == 2
    assert main(command) == 0
    assert "dms-printed, n = " not in capsys.readouterr().out
    assert {row["method"] for row in json.loads((tmp_path / "theory.json").read_text())} == {"dms-printed"}
    assert main([*command[:-1], "ucb"]) == 1
    assert "dms-paper and dms-printed, not of 'ucb'" in capsys.readouterr().err
