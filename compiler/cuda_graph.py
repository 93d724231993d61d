"""Decoder steps recorded as CUDA graphs, one graph per combination of rounded sizes, and replayed without Python code.

A step consists of some hundreds of small kernels. A GPU finishes each of them before the host has launched the next. A
recording (a CUDA graph) runs with one launch. But it always uses the memory addresses and the sizes with which it was
recorded. Inputs are therefore copied to permanent buffers, padded to rounded sizes (buckets). The padding is masked,
and the results of padded rows are dropped. Results are copied out of the buffers, except for caches. A step writes
caches in place, and the returned caches alias the buffers. If the caller passes these caches to the next step, they
need no copy.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import NamedTuple
from weakref import ref

import torch
from torch import Tensor

from compiler.graph import Graph
from compiler.size import Size

Results = dict[str, Tensor]
Step = Callable[[Mapping[str, Tensor], int | None], Results]
"""A function that runs a decoder step. It takes the inputs of the step's graph, and a count. It returns the state for
the next step. It also returns the best `count` tokens of each row (the fields of `TopK`) or, if the count is None, all
`log_probabilities`."""
Recorder = Callable[[Callable[[], Results]], tuple[Results, Callable[[], object]]]
"""Runs and records a function. Returns its results, and a replay function, which overwrites these results in place. The
replay function reads the current contents of the same input tensors."""

MAX_RECORDINGS = 64
"""The number of recordings to keep. The least recently used one is dropped first."""
MIN_BUCKET = {"batch": 1, "source": 16, "capacity": 16}
"""The symbolic sizes that are padded to a bucket, and the smallest bucket of each."""


def bucket(size: int) -> int:
    """Return the smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24 ... that is at least `size`."""
    power = 1 << (size - 1).bit_length()
    return power * 3 // 4 if power > 2 and size <= power * 3 // 4 else power


class CudaGraphRecorder:
    """Records functions as CUDA graphs. All graphs share one memory pool, so only one of them may run at a time."""

    def __init__(self, device: torch.device) -> None:
        """Create the CUDA stream on which the graphs for a device are recorded."""
        self._device = device
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._latest: torch.cuda.CUDAGraph | None = None  # keeps the memory pool alive

    def __call__(self, function: Callable[[], Results]) -> tuple[Results, Callable[[], object]]:
        """Record a function as a CUDA graph. Return the function's results, and a callable that replays the graph."""
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                function()  # compile, autotune and allocate before recording
                graph = torch.cuda.CUDAGraph()
                # torch.cuda.graph would collect garbage and empty the allocator's cache each time.
                pool = self._latest.pool() if self._latest else None
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    results = function()
                except BaseException:
                    with suppress(RuntimeError):  # report the error of the function, not the failed recording
                        graph.capture_end()
                    raise
                graph.capture_end()
            current.wait_stream(self._stream)
            self._latest = graph
            return results, graph.replay


class _Recording(NamedTuple):
    """Recorded step: its input buffers, its result buffers, and the function that replays it."""

    inputs: Mapping[str, Tensor]
    results: Mapping[str, Tensor]
    replay: Callable[[], object]


class RecordedSteps:
    """CUDA graphs of a decoder step. Sizes are rounded up to buckets, and each combination has its own graph.

    A lock lets only one thread at a time run a step.
    """

    def __init__(self, graph: Graph, recorder: Recorder) -> None:
        """Start without recordings.

        Args:
            graph: The graph of the step, with all possible inputs. The weights must not move in memory.
            recorder: Callable that records a function, such as a `CudaGraphRecorder`.
        """
        self._graph, self._recorder = graph, recorder
        self._buffers: dict[str, Tensor] = {}
        self._copied: dict[str, tuple[ref[Tensor], torch.Size]] = {}
        """For each input, the tensor that was last copied to its buffer, and the shape that the buffer had."""
        self._aliases: dict[str, ref[Tensor]] = {}
        """The caches that were returned to the caller. Each aliases a buffer."""
        self._recordings: OrderedDict[object, _Recording] = OrderedDict()
        self._can_record, self._lock = True, Lock()

    def __call__(self, step: Step, inputs: Mapping[str, Tensor], count: int | None) -> Results:
        """Run a decoder step, and return its results.

        The first step with new bucket sizes is recorded, and later steps replay this recording. The function `step` is
        called directly if it cannot be recorded, or if the buffers contain caches of another state that the caller
        still uses.

        Args:
            step: The function that runs a step.
            inputs: The inputs of the step's graph by name.
            count: The number of best tokens to return. None: return all log-probabilities.
        """
        with self._lock:
            results = None if self._is_occupied(inputs) else self._replay(step, inputs, count)
            return step(inputs, count) if results is None else results

    def _replay(self, step: Step, inputs: Mapping[str, Tensor], count: int | None) -> Results | None:
        """Return the results of a replay, or None if the step cannot be recorded."""
        with torch.inference_mode(False), torch.no_grad():
            try:
                recording = self._recording(step, inputs, count) if self._can_record else None
                if recording is None:
                    return None
                recording.replay()
                return self._copy_results(recording, inputs)
            except torch.OutOfMemoryError:
                self._clear()  # free the buffers, too
                raise

    def _is_occupied(self, inputs: Mapping[str, Tensor]) -> bool:
        """Return whether a replay would overwrite caches of a state that is still in use and not among the inputs."""
        caches = {name: alias() for name, alias in self._aliases.items()}
        return any(cache is not None and cache is not inputs[name] for name, cache in caches.items())

    def _recording(self, step: Step, inputs: Mapping[str, Tensor], count: int | None) -> _Recording | None:
        """Copy the inputs to their buffers. Return the recording for the inputs' sizes, or None if recording fails."""
        sizes = self._bucket_sizes(inputs)
        buffers = {
            name: self._buffer(name, [size(**sizes) for size in type_.shape], inputs[name])
            for name, type_ in self._graph.inputs.items()
            if name in inputs
        }
        for name, buffer in buffers.items():
            self._copy_input(name, inputs[name], buffer)
        key = (*sorted(sizes.items()), count, *buffers)
        if key not in self._recordings:
            try:
                results, replay = self._recorder(lambda: self._into_buffers(step(buffers, count), buffers))
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                warnings.warn(
                    "decoding is slower than usual (but correct), because decoder steps cannot run as CUDA graphs: "
                    f"recording one failed: {error}",
                    stacklevel=2,
                )
                self._clear()
                self._can_record = False
                return None
            self._recordings[key] = _Recording(buffers, results, replay)
            if len(self._recordings) > MAX_RECORDINGS:
                self._recordings.popitem(last=False)
        self._recordings.move_to_end(key)
        return self._recordings[key]

    def _bucket_sizes(self, inputs: Mapping[str, Tensor]) -> dict[str, int]:
        """Return the value of each symbolic size of the inputs. The sizes in MIN_BUCKET are rounded up to a bucket."""
        shapes = [(type_.shape, inputs[name].shape) for name, type_ in self._graph.inputs.items() if name in inputs]
        pairs = [pair for symbolic, actual in shapes for pair in zip(symbolic, actual, strict=True)]
        sizes = {symbol: n for size, n in pairs for symbol in size.symbols if size == Size.symbol(symbol)}
        return {name: bucket(max(n, MIN_BUCKET[name])) if name in MIN_BUCKET else n for name, n in sizes.items()}

    def _buffer(self, name: str, shape: list[int], like: Tensor) -> Tensor:
        """Return the permanent buffer of a value in the given shape. If the buffer has to grow, drop all recordings."""
        count = torch.Size(shape).numel()
        if name not in self._buffers or self._buffers[name].numel() < count:
            self._recordings.clear()
            for tensors in (self._buffers, self._copied, self._aliases):
                tensors.pop(name, None)
            self._buffers[name] = like.new_zeros(count)
        return self._buffers[name][:count].view(shape)

    def _copy_input(self, name: str, value: Tensor, buffer: Tensor) -> None:
        """Copy a value into its buffer and pad it, unless the buffer already contains the value.

        The padding is 0, or True in a mask, because True hides a position.
        """
        carried = self._graph.states.get(name)
        row_axis = carried.row_axis if carried else 0
        if carried and name in self._aliases and self._aliases[name]() is value:
            if value.narrow(row_axis, 0, 0).shape == buffer.narrow(row_axis, 0, 0).shape:
                return
            value = value.clone()
        copied = self._copied.get(name)
        if copied is not None and copied[0]() is value and copied[1] == buffer.shape:
            return
        if carried is None:  # the step does not overwrite this input
            self._copied[name] = (ref(value), buffer.shape)
        corner = buffer
        for axis, size in enumerate(value.shape):
            # Padded rows may hold any numbers, but not invalid indices.
            if size < buffer.shape[axis] and (axis != row_axis or not value.is_floating_point()):
                buffer.narrow(axis, size, buffer.shape[axis] - size).fill_(value.dtype == torch.bool)
            corner = corner.narrow(axis, 0, size)
        corner.copy_(value)

    def _into_buffers(self, results: Results, inputs: Mapping[str, Tensor]) -> Results:
        """Copy the results of a step to permanent buffers, and return these. Recordings share all other memory."""
        for name, value in results.items():
            if name in inputs and value.data_ptr() == inputs[name].data_ptr():
                results[name] = inputs[name]
            else:
                results[name] = self._buffer(f"new {name}", list(value.shape), value).copy_(value)
        return results

    def _copy_results(self, recording: _Recording, inputs: Mapping[str, Tensor]) -> Results:
        """Return the results of a recording without padded rows. All are copied, except caches written in place."""
        results = {}
        for name, buffer in recording.results.items():
            carried = self._graph.states.get(name)
            axis, rows = (
                (carried.row_axis, inputs[name].shape[carried.row_axis]) if carried else (0, inputs["token"].numel())
            )
            results[name] = buffer.narrow(axis, 0, rows)
            if recording.inputs.get(name) is buffer:
                self._aliases[name] = ref(results[name])
            else:
                results[name] = results[name].clone()
        return results

    def _clear(self) -> None:
        for entries in (self._buffers, self._copied, self._aliases, self._recordings):
            entries.clear()
