"""Records the step of a program that translates as CUDA graphs, where it stands on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch

from compiler.backends.backend import Order
from compiler.captured import Results
from compiler.emitted import EmittedProgram
from compiler.graph import Purpose


class CudaGraphs:
    """A `Recorder`, on a stream of its own; all graphs share their memory, as none runs beside another."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._latest: torch.cuda.CUDAGraph | None = None  # its memory is there for as long as a graph is

    def __call__(self, function: Callable[[], Results]) -> tuple[Results, Callable[[], object]]:
        with torch.cuda.device(self._device):
            here = torch.cuda.current_stream()
            self._stream.wait_stream(here)
            with torch.cuda.stream(self._stream):
                function()  # what is compiled, chosen or made room for on first use
                graph = torch.cuda.CUDAGraph()
                # Not torch.cuda.graph: that collects garbage and empties the allocator's cache each time.
                pool = self._latest.pool() if self._latest else None
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    results = function()
                except BaseException:
                    with suppress(RuntimeError):  # what went wrong is told, not that nothing was recorded
                        graph.capture_end()
                    raise
                graph.capture_end()
            here.wait_stream(self._stream)
            self._latest = graph
            return results, graph.replay


def captured(made: EmittedProgram, order: Order) -> EmittedProgram:
    """The program, whose steps are recorded if it only translates, and on a GPU."""
    if order.device.startswith("cuda") and {Purpose.TRAIN, Purpose.DECODE_STEP} & order.graphs.keys() == {
        Purpose.DECODE_STEP
    }:
        made.capture(CudaGraphs(made.device))
    return made
