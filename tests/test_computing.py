from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from modeseek import DMSConfig, Optimizer
from modeseek.computing import computing
from modeseek.errors import DeviceError
from shared import BOX, run

CPU = torch.device("cpu")
WIDE = DMSConfig(epochs=2, steps=4)  # m, S and the network are large enough for threads to share the work


def test_threads_are_limited_here_and_nowhere_else() -> None:
    """Fault 51: another thread of the program sees nothing of it."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    elsewhere = []
    try:
        with computing(CPU, threads=2):
            assert torch.get_num_threads() == 2
            other = threading.Thread(target=lambda: elsewhere.append(torch.get_num_threads()))
            other.start()
            other.join()
        assert torch.get_num_threads() == 3
        assert elsewhere == [3]
    finally:
        torch.set_num_threads(before)


def test_threads_are_as_before_after_an_error_that_names_the_setting() -> None:
    before = torch.get_num_threads()
    with pytest.raises(DeviceError, match="device='cuda'"), computing(torch.device("cuda"), threads=before + 1):
        raise torch.cuda.OutOfMemoryError
    assert torch.get_num_threads() == before


def test_modes_of_the_caller_do_not_reach_in() -> None:
    x = torch.ones(2, 2, dtype=torch.float32, device="cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        assert (x @ x).dtype == torch.bfloat16
        with computing(CPU):
            assert (x @ x).dtype == torch.float32
            assert not torch.is_inference_mode_enabled()
        assert torch.is_inference_mode_enabled()


def suggestions(n: int, threads: int = 1) -> list[list[float]]:
    """Of the model, after twelve evaluations of the design."""
    opt = run(Optimizer(BOX, seed=4, config=WIDE, n_initial=12, threads=threads), 12 + n)
    return [list(trial.unit) for trial in opt.trials[12:]]


def test_one_seed_and_one_thread_give_one_run_in_any_process() -> None:
    """To the last bit, however many threads torch has by itself: one here, three there."""
    script = f"import sys; sys.path[:0] = {sys.path!r}; from test_computing import suggestions; print(suggestions(3))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == str(suggestions(3))


def test_another_number_of_threads_changes_the_first_suggestion_by_no_more_than_rounding() -> None:
    np.testing.assert_allclose(suggestions(1, threads=2), suggestions(1), atol=1e-4)
