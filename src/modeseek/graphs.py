"""CUDA graphs: one turn of a loop, recorded once and replayed.

The tensors of one optimization are so small that a GPU finishes an operation sooner than Python can ask for the next.
A turn that works on the same tensors each time can be recorded as a graph, and replaying it is one request. On a CPU
everything here is a plain call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Tree = TypeVar("Tree")  # a tensor, or a NamedTuple of trees

ENOUGH_FREE = 0.5  # of a GPU's memory
CHECK_EVERY = 4  # turns between questions to a GPU, each of which waits for everything before it


def iterate(
    turn: Callable[[Tree], Tree],
    state: Tree,
    running: Callable[[Tree], Tensor],
    *,
    most: int,
    record: bool = True,
) -> Tree:
    """turn(turn(...(state))) while any entry of `running(state)` is true, `most` times at the most.

    Args:
        turn: must not change a state in which nothing runs: a GPU is asked only every few turns.
        record: false for a turn that cannot be part of a CUDA graph, because it has to wait for its own results.
    """
    if not (record and running(state).is_cuda):
        for _ in range(most):
            if not bool(running(state).any()):
                break
            state = turn(state)
        return state
    kept = tree_map(Tensor.clone, state)  # each tensor its own, to be written in place
    replay = recorded(lambda: tree_map(Tensor.copy_, kept, turn(kept)), running(kept).device)
    for i in range(most):
        if i % CHECK_EVERY == 0 and not bool(running(kept).any()):
            break
        replay()
    return kept


def recorded(work: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """`work`, which reads and writes the same tensors each time; on a GPU, from its second call on as a CUDA graph.

    The first call sets up libraries and caches, which must not happen within a recording.
    """
    if device.type != "cuda":
        return work
    graph = torch.cuda.CUDAGraph()
    calls = 0

    def call() -> None:
        nonlocal calls
        if calls == 0:
            work()
        else:
            if calls == 1:
                _record(graph, work, device)
            graph.replay()
        calls += 1

    return call


_recording = threading.Lock()  # CUDA records one graph at a time
_streams: dict[torch.device, torch.cuda.Stream] = {}
_last: dict[tuple[torch.device, int], torch.cuda.CUDAGraph] = {}  # by device and the stream that replays it


def _record(graph: torch.cuda.CUDAGraph, work: Callable[[], object], device: torch.device) -> None:
    """Record `work` into `graph`.

    As `torch.cuda.graph`, which however gives all cached memory back to the driver first, and that takes longer than
    the recording. Here graphs that are replayed on the same stream, hence one after the other, share the memory of
    their intermediate results, and memory is given back only where it runs short: within a recording nothing can be.
    """
    with _recording:
        current = torch.cuda.current_stream(device)
        key = (current.device, current.stream_id)
        free, total = torch.cuda.mem_get_info(device)
        if free < ENOUGH_FREE * total:
            _last.pop(key, None)
            torch.cuda.empty_cache()
        if current.device not in _streams:
            _streams[current.device] = torch.cuda.Stream(current.device)
        stream = _streams[current.device]
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            graph.capture_begin(_last[key].pool() if key in _last else None, capture_error_mode="thread_local")
            try:
                work()
            except BaseException:
                with suppress(RuntimeError):  # of a recording that is broken; what broke it is what counts
                    graph.capture_end()
                raise
            graph.capture_end()
        current.wait_stream(stream)
        _last[key] = graph  # as long as one graph lives, so does the memory that they share


def release() -> None:
    """Give the memory that graphs shared back to torch."""
    with _recording:
        _last.clear()


def tree_map(function: Callable[..., Tensor], *trees: Tree) -> Tree:
    """The function of the trees' tensors, one by one, as a tree."""
    first: Any = trees[0]
    if isinstance(first, Tensor):
        return cast(Tree, function(*trees))
    branches = zip(*cast(tuple[Any, ...], trees), strict=True)
    return cast(Tree, type(first)(*(tree_map(function, *branch) for branch in branches)))
