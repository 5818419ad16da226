"""Scripts whose worker processes import them: with the guard of multiprocessing, and without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
