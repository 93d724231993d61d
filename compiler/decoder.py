"""State of a decoder between steps: create it, read a step's inputs from it, and select, join or reorder its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from compiler.graph import Graph
from compiler.operations.operation import ValueKind, ValueType
from compiler.size import BEAMS, CAPACITY, SOURCE

ALLOWED = "allowed"
"""Name of the mask of allowed tokens. It is passed together with the inputs of a step's graph."""
CACHE_BLOCK = 16
"""Number of positions by which a full preallocated cache grows."""


@dataclass(frozen=True)
class State:
    """State of a decoder. Each row is a hypothesis; the hypotheses of a sentence are consecutive rows."""

    source: Int[Tensor, "sentences source"]
    memory: Mapping[str, Tensor]
    """The encoder's outputs, one row per sentence."""
    carried: Mapping[str, Tensor]
    """Values that a step passes to the next one, such as keys and values of earlier tokens, one row per hypothesis."""
    position: Int[Tensor, "sentences beams"]
    """The number of tokens that each hypothesis has read."""
    read: tuple[int, ...]
    """The number of tokens that the hypotheses of each sentence have read, on the CPU, to avoid waiting for a GPU."""


class Decoder:
    """Operations on decoder states, derived from the graph of a decoder step. The caller runs the step."""

    def __init__(self, step: Graph) -> None:
        self._step = step

    def begin(self, source: Int[Tensor, "sentences source"], memory: Mapping[str, Tensor]) -> State:
        """Return the state before the first step, with one row per sentence.

        Args:
            source: The tokens of the sources.
            memory: The encoder's outputs.
        """
        step, sentences = self._step, source.shape[0]
        memory = {name: value for name, value in memory.items() if name in step.inputs}
        sizes = {"batch": sentences, "source": source.shape[1], "beams": 1, "past": 0, "capacity": CACHE_BLOCK}
        dtype = next((value.dtype for value in memory.values() if value.is_floating_point()), torch.float32)
        carried = {
            name: source.new_zeros(
                [size(**sizes) for size in type_.shape], dtype=torch.long if type_.kind is ValueKind.INTEGER else dtype
            )
            for name, type_ in step.inputs.items()
            if name in step.states
        }
        position = torch.zeros(sentences, 1, dtype=torch.long, device=source.device)
        return State(source, memory, carried, position, (0,) * sentences)

    def inputs(self, state: State, token: Int[Tensor, " rows"], allowed: Tensor | None = None) -> dict[str, Tensor]:
        """Return the inputs of the step that reads `token`. If `allowed` is given, add it under the name ALLOWED."""
        position, memory = state.position, {"source": state.source, **state.memory}
        carried = {name: self._extend_cache(name, value, max(state.read)) for name, value in state.carried.items()}
        if not self._rows_are_sentences and position.shape[1] > 1:
            memory = {name: value.repeat_interleave(position.shape[1], 0) for name, value in memory.items()}
        shape = position.shape if self._rows_are_sentences else (token.shape[0], 1)
        inputs = {"token": token.view(shape), "position": position.reshape(shape), **memory, **carried}
        if allowed is not None:
            inputs[ALLOWED] = allowed.expand(token.shape[0], -1).view(*shape, -1)
        return inputs

    def advance(self, state: State, results: Mapping[str, Tensor]) -> State:
        """Return the state after a step.

        Args:
            state: The state that the step read.
            results: The outputs of the step's graph.
        """
        carried, read = {name: results[name] for name in state.carried}, tuple(count + 1 for count in state.read)
        return replace(state, carried=carried, position=state.position + 1, read=read)

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> State:
        """Return the state of the kept sentences, in which each beam continues the beam that `parents` names."""
        kept, carried = sentences.to(parents.device, non_blocking=True), self._step.states
        rows = (kept[:, None] * state.position.shape[1] + parents).flatten()
        position = state.position.index_select(0, kept)[:, :1].expand(parents.shape)
        if sentences.shape[0] == state.source.shape[0]:
            selected = {name: value.index_select(carried[name].row_axis, rows) for name, value in state.carried.items()}
            return replace(state, carried=selected, position=position)
        read = tuple(state.read[sentence] for sentence in sentences.tolist())
        memory = {name: value.index_select(0, kept) for name, value in state.memory.items()}
        selected = {
            name: self._shrink_cache(name, value, max(read)).index_select(carried[name].row_axis, rows)
            for name, value in state.carried.items()
        }
        return State(state.source.index_select(0, kept), memory, selected, position, read)

    def join(self, first: State, second: State) -> State:
        """Return one state with the sentences of both, which have equally many beams. Shorter tensors are padded."""
        source = _concatenate(first.source, second.source, 0, 1)
        memory = {
            name: _concatenate(value, second.memory[name], 0, _source_axis(self._step.inputs[name]))
            for name, value in first.memory.items()
        }
        carried = {
            name: _concatenate(
                value, second.carried[name], entry.row_axis, entry.length_axis, pad_at_end=self._is_preallocated(name)
            )
            for name, value in first.carried.items()
            if (entry := self._step.states[name])
        }
        return State(source, memory, carried, torch.cat([first.position, second.position]), first.read + second.read)

    @property
    def recordable(self) -> Graph | None:
        """The step's graph with the input ALLOWED, for CUDA graphs. None if a cache grows in each step.

        Then no two steps have the same sizes, so recording them is useless.
        """
        entries = self._step.states.items()
        if not all(entry.length_axis is None or self._is_preallocated(name) for name, entry in entries):
            return None
        output = self._step.types[self._step.outputs["log_probabilities"]]
        return replace(self._step, inputs={**self._step.inputs, ALLOWED: replace(output, kind=ValueKind.MASK)})

    @cached_property
    def _rows_are_sentences(self) -> bool:
        """Whether the step takes one row per sentence, with the sentence's beams as positions."""
        return self._step.inputs["token"].shape[1] == BEAMS

    def _is_preallocated(self, name: str) -> bool:
        """Return whether a state is a preallocated cache, which has spare positions for later steps."""
        axis = self._step.states[name].length_axis
        return axis is not None and self._step.inputs[name].shape[axis] == CAPACITY

    def _extend_cache(self, name: str, value: Tensor, read: int) -> Tensor:
        """Return the cache. Add positions first if it is preallocated and full after `read` positions."""
        axis = self._step.states[name].length_axis
        if axis is None or not self._is_preallocated(name) or read < value.shape[axis]:
            return value
        return _pad(value, axis, value.shape[axis] + CACHE_BLOCK)

    def _shrink_cache(self, name: str, value: Tensor, read: int) -> Tensor:
        """Return a cache without the positions that no row uses. `read` is the largest position of its rows."""
        axis = self._step.states[name].length_axis
        if axis is None:
            return value
        if not self._is_preallocated(name):
            return value.narrow(axis, value.shape[axis] - read, read)
        length = max(CACHE_BLOCK, -(-read // CACHE_BLOCK) * CACHE_BLOCK)
        return value.narrow(axis, 0, min(value.shape[axis], length))


def _source_axis(memory: ValueType) -> int | None:
    """Return the axis of an encoder output that has the length of the source; None if there is none."""
    return next((axis for axis, size in enumerate(memory.shape) if size == SOURCE), None)


def _pad(tensor: Tensor, axis: int, length: int, *, at_end: bool = True) -> Tensor:
    """Return the tensor, padded with zeros to `length` along an axis. For token IDs, 0 is PAD."""
    missing = length - tensor.shape[axis]
    sides = [0, missing] if at_end else [missing, 0]
    return functional.pad(tensor, [0, 0] * (tensor.ndim - 1 - axis) + sides) if missing else tensor


def _concatenate(
    first: Tensor, second: Tensor, row_axis: int, padded_axis: int | None, *, pad_at_end: bool = True
) -> Tensor:
    """Concatenate the rows of two tensors. The shorter one is padded along `padded_axis` first."""
    if padded_axis is not None:
        length = max(first.shape[padded_axis], second.shape[padded_axis])
        first, second = (_pad(tensor, padded_axis, length, at_end=pad_at_end) for tensor in (first, second))
    return torch.cat([first, second], row_axis)
