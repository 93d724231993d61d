"""Record a function on a GPU as a CUDA graph, which runs hundreds of kernels with one launch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

Recorder = Callable[[Callable[[], Any]], Callable[[], object]]
"""Takes a function without arguments and results, which reads and writes tensors at fixed addresses. Returns a function
that does the same."""


def run_directly(function: Callable[[], Any]) -> Callable[[], object]:
    """Return the function itself: the recorder for devices that have no graphs."""
    return function


class CudaGraphRecorder:
    """Records functions as CUDA graphs. All graphs share one memory pool, so only one of them may run at a time."""

    def __init__(self, device: torch.device) -> None:
        """Create the CUDA stream on which the graphs for a device are recorded."""
        self._device = device
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._latest: torch.cuda.CUDAGraph | None = None  # keeps the memory pool alive

    def __call__(self, function: Callable[[], Any]) -> Callable[[], object]:
        """Run a function once, to compile its kernels. Then record it, and return the replay of the recording."""
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                function()
                graph = torch.cuda.CUDAGraph()
                # torch.cuda.graph would collect garbage and empty the allocator's cache each time.
                pool = self._latest.pool() if self._latest else None
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    function()
                except BaseException:
                    with suppress(RuntimeError):  # report the error of the function, not the failed recording
                        graph.capture_end()
                    raise
                graph.capture_end()
            current.wait_stream(self._stream)
            self._latest = graph
            return graph.replay
