"""Scripts whose worker processes import them: with the guard of multiprocessing, and without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import modeseek as ms

space = ms.Space({"x": ms.Float(0, 1)})


def f(params):
    open("evaluated", "a").write("x")
    return params["x"]


def g(params):
    inner = ms.minimize(lambda p: (p["x"] - params["x"]) ** 2, space, 3, seed=0, progress=False)
    return inner.best.value + params["x"]


"""


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(HEAD + script)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_without_the_guard_one_error_says_what_to_add_before_anything_is_evaluated(tmp_path: Path) -> None:
    done = run(tmp_path, "ms.minimize(f, space, 4, n_workers=2, progress=False, checkpoint='run')\n")
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.count("WorkerError") == 1
    last = done.stderr.strip().splitlines()[-1]
    assert 'put what it runs under `if __name__ == "__main__":`' in last
    assert "bootstrapping" not in done.stderr
    assert not (tmp_path / "evaluated").exists()
    done = run(tmp_path, "if __name__ == '__main__':\n    ms.minimize(f, space, 4, n_workers=2, checkpoint='run')\n")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "evaluated").read_text() == "xxxx"  # what was asked the first time is evaluated now


def test_a_run_before_is_not_repeated_by_the_workers(tmp_path: Path) -> None:
    script = "ms.minimize(f, space, 3, progress=False)\nms.minimize(f, space, 3, n_workers=2, progress=False)\n"
    done = run(tmp_path, script)
    assert done.stderr.count("Traceback") == 1
    assert (tmp_path / "evaluated").read_text() == "xxx"


def test_an_objective_in_a_worker_may_run_its_own(tmp_path: Path) -> None:
    script = "if __name__ == '__main__':\n    print(ms.minimize(g, space, 3, n_workers=2, progress=False))\n"
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert "3 trials (3 complete)" in done.stdout


UNDER_THE_GUARD = """
if __name__ == "__main__":
    import enum
    import sys
    from functools import partial

    class Kind(enum.Enum):
        ROUND = "round"
        FLAT = "flat"

    class Uneven(Exception):
        pass

    class Objective:
        def __init__(self, offset):
            self.offset = offset

        def __call__(self, offset, params):
            if params["kind"] is Kind.FLAT:
                raise Uneven
            return params["x"] + self.offset + offset

    kinds = ms.Space({"x": ms.Float(0, 1), "kind": ms.Categorical(list(Kind))})
    call = partial(Objective(1), 1)
    result = ms.minimize(call, kinds, 6, seed=0, n_workers=2, catch=(Uneven,), progress=False)
    print(sorted({trial.state.name for trial in result.trials}), 2 <= result.best.value <= 3)
"""


def test_fault_46_what_stands_under_the_guard_goes_to_the_workers_as_a_whole(tmp_path: Path) -> None:
    """The objective, the exceptions to catch, and choices: workers import the script, and find none of them there."""
    done = run(tmp_path, UNDER_THE_GUARD)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['COMPLETE', 'FAILED'] True\n"
    assert done.stderr == ""


@pytest.mark.parametrize("guard", ["", "if __name__ == '__main__':\n    "])
def test_fault_46_a_script_from_standard_input(guard: str) -> None:
    script = f"{HEAD}{guard}print(len(ms.minimize(lambda p: p['x'], space, 3, n_workers=2, progress=False).trials))\n"
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.parametrize(
    ("objective", "error", "message"),
    [
        (
            "lock = __import__('threading').Lock()\n    h = lambda p: lock.locked()",
            "ConfigError",
            "cannot pickle '_thr",
        ),
        (
            "made = sys.modules['made'] = types.ModuleType('made')\n    exec('def h(p): return 1.0', made.__dict__)\n"
            "    h = made.h",
            "WorkerError",
            "the objective is not found by worker processes (No module named 'made')",
        ),
        (
            "sys.modules['cloudpickle'] = None\n    def h(p):\n        return 1.0",
            "ConfigError",
            "install cloudpickle",
        ),
    ],
)
def test_fault_46_an_objective_that_no_worker_can_have_is_one_line(
    objective: str, error: str, message: str, tmp_path: Path
) -> None:
    call = "ms.minimize(h, space, 3, n_workers=2, progress=False)"
    done = run(tmp_path, f"if __name__ == '__main__':\n    import sys, types\n    {objective}\n    {call}\n")
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"modeseek.errors.{error}")
    assert message in last
    assert 'or use executor="thread"' in last
