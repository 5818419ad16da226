"""Around the numerics: the threads that they may use, and torch's modes that must not reach into them.

Nothing that other threads of the program could notice is changed: OpenMP keeps its number of threads per calling
thread, and PyTorch's and MKL's kernels follow it; autocast and inference mode are per thread as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from threadpoolctl import ThreadpoolController

from modeseek.errors import DeviceError


@contextmanager
def computing(device: torch.device, threads: int = 1) -> Iterator[None]:
    """Compute with this many threads of the CPU, in plain precision, with errors that name the setting."""
    try:
        with (
            _openmp().limit(limits=threads, user_api="openmp"),
            torch.inference_mode(False),
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
        ):
            yield
    except torch.cuda.OutOfMemoryError as error:
        raise DeviceError(
            f"out of memory with device={str(device)!r}; use device='cpu', or a DMSConfig with smaller m and S"
        ) from error


@lru_cache(maxsize=1)
def _openmp() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, which takes a millisecond
