"""Pickles and copies of results whose space has a function as a constraint."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.shared import SMALLEST

from modeseek import Float, Linear, Result, Space, SpaceError, minimize
from modeseek.errors import SpaceNeeded
from modeseek.packing import Missing

BOUNDS = {"x": Float(0, 1), "y": Float(0, 1)}
INSIDE, OUTSIDE = {"x": 0.2, "y": 0.3}, {"x": 0.9, "y": 0.9}


def below(params: Any) -> bool:
    return bool(params["x"] + params["y"] < 1.2)


def run(constraint: Any) -> Result:
    space = Space(BOUNDS, constraints=[Linear({"x": 1, "y": -1}, lower=-0.9), constraint])
    return minimize(lambda p: p["x"] + p["y"], space, 4, seed=0, config=SMALLEST, n_initial=3, progress=False)


def check(again: Result, result: Result) -> None:
    """Both are the same, as far as that goes without the function."""
    assert again.trials == result.trials
    assert again.best == result.best
    assert again.space == result.space
    assert str(again) == str(result)
    assert again.front == result.front


def test_a_result_with_a_lambda_is_pickled_with_it() -> None:
    result = run(lambda params: below(params))
    again = pickle.loads(pickle.dumps(result))
    check(again, result)
    assert again.space.validate(INSIDE) == INSIDE
    with pytest.raises(ValueError, match="is not feasible"):
        again.space.validate(OUTSIDE)
    assert again.optimum.modes  # which asks the function
    assert pickle.loads(pickle.dumps(again)).optimum.modes[0].params == again.optimum.modes[0].params  # it is kept


def test_a_function_of_a_module_is_itself_again() -> None:
    again = pickle.loads(pickle.dumps(run(below)))
    assert again.space.constraints[1] is below


def test_without_cloudpickle_the_result_is_whole_but_for_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    result = run(lambda params: below(params))
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(result))))
    check(again, result)
    assert isinstance(again.space.constraints[1], Missing)
    assert "not found" in repr(again.space.constraints[1])
    with pytest.raises(SpaceNeeded, match=r"^the constraint 'test_.* was not pickled.* install cloudpickle in both$"):
        again.optimum  # noqa: B018
    with pytest.raises(SpaceError, match="was not pickled"):
        again.space.validate(INSIDE)


def test_what_nothing_can_pickle_is_left_out() -> None:
    lock = threading.Lock()
    result = run(lambda params: below(params) and not lock.locked())
    check(pickle.loads(pickle.dumps(result)), result)


def test_a_function_of_a_script_is_missed_elsewhere_and_the_rest_is_there(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import pickle, modeseek as ms\n"
        "def ring(p): return p['x'] > 0.1\n"
        "space = ms.Space({'x': ms.Float(0, 1)}, constraints=[ring])\n"
        "open('space.pickle', 'wb').write(pickle.dumps(space))\n"
    )
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True, timeout=120)
    space = pickle.loads((tmp_path / "space.pickle").read_bytes())
    assert space.constraint_texts == ["ring"]
    assert isinstance(space.constraints[0], Missing)


def test_a_deep_copy_has_the_same_function() -> None:
    lock = threading.Lock()
    result = run(lambda params: below(params) and not lock.locked())
    again = copy.deepcopy(result)
    check(again, result)
    assert again.space.constraints == result.space.constraints
    assert again.trials is not result.trials
