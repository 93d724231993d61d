"""A decoder's step that is recorded once for each bucket of sizes, and from then on replayed without its Python.

A step is some hundreds of small kernels, and a GPU is done with each before the host has started the next. What is
recorded (a CUDA graph) runs as one, but reads and writes where it did when it was recorded, and at the same sizes. So
inputs are copied to places that stay, filled up to the next sizes of a coarse scale: padding is masked, and the rows
that are filled up are nobody's. Results are the caller's own, but for caches, which a step writes in place: those are
lent to him until he hands them in again, and are then there already.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple
from weakref import ref

import torch
from torch import Tensor

from compiler.graph import Graph
from compiler.size import Size

Results = dict[str, Tensor]
Step = Callable[[Mapping[str, Tensor], int | None], Results]
"""A step from its inputs: what it carries on, and of each row in turn so many of the top_k tokens (the fields of
`TopK`), or, without a number, all `log_probabilities`. There may be fewer inputs than its graph has."""
Recorder = Callable[[Callable[[], Results]], tuple[Results, Callable[[], object]]]
"""Runs a function and records it: what it gave, and what writes that anew from what then lies where its inputs did."""

MOST = 64
"""Buckets whose records are kept, the latest ones."""
SCALED = {"batch": 1, "source": 16, "capacity": 16}
"""The sizes that are filled up, and the least that each is filled up to."""


def bucket(size: int) -> int:
    """The least of 1, 2, 3, 4, 6, 8, 12, 16, 24 ... that has room for it."""
    power = 1 << (size - 1).bit_length()
    return power * 3 // 4 if power > 2 and size <= power * 3 // 4 else power


class Record(NamedTuple):
    """Of a step: where it reads, where it writes, and what runs it."""

    inputs: Mapping[str, Tensor]
    results: Mapping[str, Tensor]
    replay: Callable[[], object]


class Captured:
    """What is recorded of one step, always the same one. Threads take turns."""

    def __init__(self, graph: Graph, record: Recorder) -> None:
        """`graph` is what the step computes, with all inputs there may be; its weights stay where they lie."""
        self._graph, self._record = graph, record
        self._places: dict[str, Tensor] = {}
        self._came: dict[str, tuple[ref[Tensor], torch.Size]] = {}
        self._lent: dict[str, ref[Tensor]] = {}
        self._records: OrderedDict[object, Record] = OrderedDict()
        self._able, self._lock = True, Lock()

    def __call__(self, step: Step, inputs: Mapping[str, Tensor], count: int | None) -> Results:
        """What the step gives; where nothing can be recorded, or lies in the way, by running it."""
        with self._lock:
            found = None if self._is_lent_elsewhere(inputs) else self._replayed(step, inputs, count)
            return step(inputs, count) if found is None else found

    def _replayed(self, step: Step, inputs: Mapping[str, Tensor], count: int | None) -> Results | None:
        with torch.inference_mode(False), torch.no_grad():
            try:
                record = self._recorded(step, inputs, count) if self._able else None
                if record is None:
                    return None
                record.replay()
                return self._handed_out(record, inputs)
            except torch.OutOfMemoryError:
                self._forget()  # all that lies here is memory, too
                raise

    def _is_lent_elsewhere(self, inputs: Mapping[str, Tensor]) -> bool:
        """Whether the caches of another state lie where this step would write."""
        held = {name: lent() for name, lent in self._lent.items()}
        return any(cache is not None and cache is not inputs[name] for name, cache in held.items())

    def _recorded(self, step: Step, inputs: Mapping[str, Tensor], count: int | None) -> Record | None:
        """The record for these inputs, which lie in its places; None where none can be made."""
        sizes = self._sizes(inputs)
        places = {
            name: self._place(name, [size(**sizes) for size in type_.shape], inputs[name])
            for name, type_ in self._graph.inputs.items()
            if name in inputs
        }
        for name, place in places.items():
            self._put(name, inputs[name], place)
        key = (*sorted(sizes.items()), count, *places)
        if key not in self._records:
            try:
                results, replay = self._record(lambda: self._in_places(step(places, count), places))
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                warnings.warn(f"a decoder's step cannot be recorded, and runs as it is: {error}", stacklevel=2)
                self._forget()
                self._able = False
                return None
            self._records[key] = Record(places, results, replay)
            if len(self._records) > MOST:
                self._records.popitem(last=False)
        self._records.move_to_end(key)
        return self._records[key]

    def _sizes(self, inputs: Mapping[str, Tensor]) -> dict[str, int]:
        """By symbol, those of the bucket."""
        shapes = [(type_.shape, inputs[name].shape) for name, type_ in self._graph.inputs.items() if name in inputs]
        pairs = [pair for shape, given in shapes for pair in zip(shape, given, strict=True)]
        sizes = {symbol: n for size, n in pairs for symbol in size.symbols if size == Size.symbol(symbol)}
        return {name: bucket(max(n, SCALED[name])) if name in SCALED else n for name, n in sizes.items()}

    def _place(self, name: str, shape: list[int], like: Tensor) -> Tensor:
        """Where values of this name lie, in all buckets. With a larger one records are void."""
        count = torch.Size(shape).numel()
        if name not in self._places or self._places[name].numel() < count:
            self._records.clear()
            for known in (self._places, self._came, self._lent):
                known.pop(name, None)
            self._places[name] = like.new_zeros(count)
        return self._places[name][:count].view(shape)

    def _put(self, name: str, value: Tensor, place: Tensor) -> None:
        """Copies a value into the corner of its place, zeros beside it, unless it is there already."""
        carried = self._graph.states.get(name)
        rows = carried.row_axis if carried else 0
        if carried and name in self._lent and self._lent[name]() is value:
            if value.narrow(rows, 0, 0).shape == place.narrow(rows, 0, 0).shape:
                return
            value = value.clone()
        came = self._came.get(name)
        if came is not None and came[0]() is value and came[1] == place.shape:
            return
        if carried is None:  # nothing writes there but this
            self._came[name] = (ref(value), place.shape)
        corner = place
        for axis, size in enumerate(value.shape):
            # Rows that are nobody's may hold any numbers, but for indices.
            if size < place.shape[axis] and (axis != rows or not value.is_floating_point()):
                place.narrow(axis, size, place.shape[axis] - size).zero_()
            corner = corner.narrow(axis, 0, size)
        corner.copy_(value)

    def _in_places(self, results: Results, places: Mapping[str, Tensor]) -> Results:
        """What a step gives lies in places, too, so that records share all memory in between."""
        for name, value in results.items():
            if name in places and value.data_ptr() == places[name].data_ptr():
                results[name] = places[name]
            else:
                results[name] = self._place(f"new {name}", list(value.shape), value).copy_(value)
        return results

    def _handed_out(self, record: Record, inputs: Mapping[str, Tensor]) -> Results:
        """Without the rows that are nobody's."""
        found = {}
        for name, result in record.results.items():
            carried = self._graph.states.get(name)
            rows = (carried.row_axis, inputs[name].shape[carried.row_axis]) if carried else (0, inputs["token"].numel())
            found[name] = result.narrow(rows[0], 0, rows[1])
            if record.inputs.get(name) is result:
                self._lent[name] = ref(found[name])
            else:
                found[name] = found[name].clone()
        return found

    def _forget(self) -> None:
        for known in (self._places, self._came, self._lent, self._records):
            known.clear()
