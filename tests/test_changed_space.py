"""A run that goes on in another space than it began in."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.shared import SMALLEST

from modeseek import Categorical, CheckpointError, Float, Optimizer, Space, SpaceChangedWarning, minimize

OLD = Space({"x": Float(0, 1), "kind": Categorical(["a", "b"])})
WIDER = Space({"x": Float(-1, 4), "kind": Categorical(["b", "c", "a"]), "c": Float(0, 1, when={"kind": "c"})})
SETTINGS: dict[str, Any] = dict(seed=0, config=SMALLEST, n_initial=4, progress=False)


def f(params: dict[str, Any]) -> float:
    return float(params["x"] + params.get("c", 0.0))


def test_told_trials_stay_in_a_wider_space(tmp_path: Path) -> None:
    path = tmp_path / "run"
    before = minimize(f, OLD, 5, checkpoint=path, **SETTINGS)
    with pytest.warns(SpaceChangedWarning, match="all 5 trials lie in the new one"):
        after = minimize(f, WIDER, 8, checkpoint=path, **SETTINGS)
    assert [t.params for t in after.trials[:5]] == [t.params for t in before.trials]
    assert [t.value for t in after.trials[:5]] == [t.value for t in before.trials]
    assert after.trials[0].unit != before.trials[0].unit
    assert len(after.trials) == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # from now on it is the run's own
        assert Optimizer.load(path).space == WIDER
        assert minimize(f, WIDER, 8, checkpoint=path, **SETTINGS).trials == after.trials


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space({"x": Float(0, 1), "kind": Categorical(["a", "c"])}), r"trial \d does not fit: parameter 'kind'"),
        (Space({"x": Float(0, 1e-3), "kind": Categorical(["a", "b"])}), r"trial \d does not fit: parameter 'x'"),
        (Space({"x": Float(0, 1)}), "has other parameters"),
        (
            Space({**{n: OLD[n] for n in OLD}, "z": Float(0, 1)}),
            r"trial 0 does not fit: parameter 'z' is missing.*\(nor do trials 1, 2, 3\)",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_the_file_stays(tmp_path: Path, space: Space, message: str) -> None:
    path = tmp_path / "run"
    minimize(f, OLD, 4, checkpoint=path, **SETTINGS)
    content = path.read_bytes()
    with pytest.raises(CheckpointError, match=message):
        minimize(f, space, 6, checkpoint=path, **SETTINGS)
    with pytest.raises(CheckpointError, match=message):
        Optimizer.load(path, space=space)
    assert path.read_bytes() == content
    assert len(Optimizer.load(path).trials) == 4
