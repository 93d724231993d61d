"""Record a function on a GPU as a CUDA graph, which runs hundreds of kernels with one launch."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

Recorder = Callable[[Callable[[], Any]], Callable[[], object]]
"""Type of a recorder, which records a function and returns a function that replays the recording. The recorded function
takes no arguments, returns nothing, and reads and writes tensors at fixed addresses."""


def run_directly(function: Callable[[], Any]) -> Callable[[], object]:
    """Return the function unchanged. This is the recorder for devices without CUDA graphs."""
    return function


class CudaGraphRecorder:
    """Callable that records functions as CUDA graphs.

    All graphs share one memory pool, so only one graph may run at a time.
    """

    def __init__(self, device: torch.device, *, releases_memory: bool = False) -> None:
        """Create the CUDA stream on which the graphs for a device are recorded.

        Args:
            device: The GPU that runs the graphs.
            releases_memory: Whether to free the memory of the warm-up run before recording. Freeing takes time, but
                otherwise recording a function needs twice as much memory.
        """
        self._device, self._releases_memory = device, releases_memory
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._latest: torch.cuda.CUDAGraph | None = None  # keeps the memory pool alive

    def __call__(self, function: Callable[[], Any]) -> Callable[[], object]:
        """Run a function once to compile its kernels, then record it. Return a function that replays the recording."""
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                function()
                if self._releases_memory:
                    torch.cuda.empty_cache()
                graph = torch.cuda.CUDAGraph()
                # torch.cuda.graph would collect garbage and empty the allocator's cache each time.
                pool = self._latest.pool() if self._latest else None
                gc_enabled = gc.isenabled()
                gc.disable()  # freeing another graph would invalidate the recording
                try:
                    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                    function()
                    graph.capture_end()
                except BaseException:
                    with suppress(RuntimeError):  # report the first error, not the failed recording
                        graph.capture_end()
                    raise
                finally:
                    if gc_enabled:
                        gc.enable()
            current.wait_stream(self._stream)
            self._latest = graph
            return graph.replay
