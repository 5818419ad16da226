from __future__ import annotations

import threading

import pytest
import torch

from modeseek.computing import computing
from modeseek.errors import DeviceError

CPU = torch.device("cpu")


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
