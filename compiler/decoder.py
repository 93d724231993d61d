"""State of a decoder between two steps, the operations on it, and the selection of the most probable tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor
from torch.nn import functional

from compiler.graph import Graph, Graphs, Purpose
from compiler.operations.operation import ValueType
from compiler.program import TopK
from compiler.size import BEAMS, CAPACITY, PAST, SOURCE, Size
from specs import BOS, EOS, PAD

CACHE_BLOCK = 16
"""Number of positions by which a full preallocated cache grows."""


@dataclass(frozen=True)
class State:
    """State of a decoder between two steps, for a batch of sentences with one or more hypotheses (beams) each.

    In tensors with one row per hypothesis, the hypotheses for a sentence are in consecutive rows.
    """

    memory: Mapping[str, Tensor]
    """The encoder's outputs and their padding mask, with one row per sentence."""
    carried: Mapping[str, Tensor]
    """Values that a step passes to the next step, such as keys and values of earlier tokens, one row per hypothesis.

    The next step reads only the last positions of some values (see `StepState`).
    """
    read: tuple[int, ...]
    """For each sentence, the number of tokens that each of its hypotheses has read.

    The numbers are on the CPU, so that reading them does not wait for a GPU.
    """
    beams: int = 1
    """The number of hypotheses per sentence."""


class DecoderStates:
    """Base class that implements a compiled model's operations on decoder states, given the graph of a decoder step."""

    graphs: Graphs

    @property
    def _graph(self) -> Graph:
        return self.graphs[Purpose.DECODE_STEP]

    def _step_inputs(self, state: State, tokens: Int[Tensor, "rows k"]) -> dict[str, Tensor]:
        """Return the inputs of the decoder step that reads `tokens`, keyed by name."""
        (rows, new), memory = tokens.shape, state.memory
        end = max(state.read) + new
        carried = {name: self._input_positions(name, value, end) for name, value in state.carried.items()}
        if not self._has_beams and state.beams > 1:
            memory = {name: value.repeat_interleave(state.beams, 0) for name, value in memory.items()}
        position = torch.tensor(state.read).repeat_interleave(state.beams)[:, None] + torch.arange(new)
        position = position.to(tokens.device, non_blocking=True)
        shape = (len(state.read), state.beams, new) if self._has_beams else (rows, new)
        return {"token": tokens.reshape(shape), "position": position.view(shape), **memory, **carried}

    def _after(self, state: State, results: Mapping[str, Tensor], new: int) -> State:
        """Return the decoder state after a step.

        Args:
            state: The state that the step read.
            results: The outputs of the step's graph.
            new: The number of tokens that the step read.
        """
        carried, read = {name: results[name] for name in state.carried}, tuple(count + new for count in state.read)
        return replace(state, carried=carried, read=read)

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> State:
        """Return the state with only the given sentences. `parents` selects and reorders their hypotheses.

        See `StepwiseDecoder.select`.

        Args:
            state: The state to select from.
            sentences: The indices of the sentences to keep.
            parents: For each kept sentence and new beam, the index of the beam that the new beam continues.
        """
        kept = sentences.to(parents.device, non_blocking=True)
        rows = (kept[:, None] * state.beams + parents).flatten()
        memory, carried, read = state.memory, state.carried, state.read
        if sentences.shape[0] != len(read):
            read = tuple(read[sentence] for sentence in sentences.tolist())
            memory = {name: value.index_select(0, kept) for name, value in memory.items()}
            carried = {name: self._shrink_cache(name, value, max(read)) for name, value in carried.items()}
        carried = {name: value.index_select(0, rows) for name, value in carried.items()}
        return State(memory, carried, read, parents.shape[1])

    def join(self, first: State, second: State) -> State:
        """Return one state with the sentences of two states. Both states must have the same number of beams."""
        memory = {
            name: _concatenate(value, second.memory[name], _source_axis(self._graph.inputs[name]))
            for name, value in first.memory.items()
        }
        carried = {}
        for name, value in first.carried.items():
            axis, is_planned = self._graph.states[name].length_axis, self._length(name) == CAPACITY
            carried[name] = _concatenate(value, second.carried[name], axis, pad_at_end=is_planned)
        return replace(first, memory=memory, carried=carried, read=first.read + second.read)

    @cached_property
    def _has_beams(self) -> bool:
        """Whether the step's inputs have a beam axis. If so, all beams of a sentence share the encoder outputs."""
        return self._graph.inputs["token"].shape[1] == BEAMS

    def _length(self, name: str) -> Size:
        """Return how many positions of the state `name` a step reads: PAST, CAPACITY, or a number (see `StepState`)."""
        return self._graph.inputs[name].shape[self._graph.states[name].length_axis]

    def _input_positions(self, name: str, value: Tensor, end: int) -> Tensor:
        """Return the positions of a state that a step reads. Enlarge a preallocated cache if it ends before `end`."""
        axis, length = self._graph.states[name].length_axis, self._length(name)
        if length == CAPACITY:
            return value if end <= value.shape[axis] else _pad(value, axis, _in_blocks(end))
        return value if length == PAST else _last(value, axis, length.constant)

    def _shrink_cache(self, name: str, value: Tensor, read: int) -> Tensor:
        """Return a cache without unused positions. `read` is the largest number of tokens that a row has read."""
        axis, length = self._graph.states[name].length_axis, self._length(name)
        if length == CAPACITY:
            return value.narrow(axis, 0, min(value.shape[axis], max(CACHE_BLOCK, _in_blocks(read))))
        return _last(value, axis, read) if length == PAST else value


def _in_blocks(positions: int) -> int:
    """Return the capacity of a preallocated cache for a number of positions: the next multiple of CACHE_BLOCK."""
    return -(-positions // CACHE_BLOCK) * CACHE_BLOCK


def _last(value: Tensor, axis: int, count: int) -> Tensor:
    length = value.shape[axis]
    return value if length == count else value.narrow(axis, length - count, count)


def _source_axis(memory: ValueType) -> int | None:
    """Return the axis of the source positions in an encoder output, or None if there is no such axis."""
    return next((axis for axis, size in enumerate(memory.shape) if size == SOURCE), None)


def _pad(tensor: Tensor, axis: int, length: int, *, at_end: bool = True) -> Tensor:
    """Return a tensor padded to `length` at one end of an axis. The padding is 0, or True (hidden) in a mask."""
    missing = length - tensor.shape[axis]
    sides = [0, missing] if at_end else [missing, 0]
    padding, value = [0, 0] * (tensor.ndim - 1 - axis) + sides, tensor.dtype == torch.bool
    return functional.pad(tensor, padding, value=value) if missing else tensor


def _concatenate(first: Tensor, second: Tensor, padded_axis: int | None, *, pad_at_end: bool = True) -> Tensor:
    """Return the concatenated rows of two tensors. If `padded_axis` is given, pad the shorter tensor along it first."""
    if padded_axis is not None:
        length = max(first.shape[padded_axis], second.shape[padded_axis])
        first, second = (_pad(tensor, padded_axis, length, at_end=pad_at_end) for tensor in (first, second))
    return torch.cat([first, second])


def top_k(
    log_probabilities: Float32[Tensor, "rows vocabulary"],
    count: int,
    allowed: Bool[Tensor, "#rows vocabulary"] | None = None,
) -> TopK:
    """Return the `count` most probable tokens in each row. If tokens are equally probable, prefer the lowest IDs.

    Tokens that are not allowed are never returned. The log-probabilities of the other tokens do not change.

    Args:
        log_probabilities: The log-probabilities of all tokens, in nats.
        count: How many tokens to return for each row. If the vocabulary has fewer tokens, all of them are returned.
        allowed: True for the tokens that may be returned. If None, all tokens may be returned.
    """
    if allowed is not None:
        log_probabilities = torch.where(allowed, log_probabilities, -torch.inf)
    vocabulary, ends = log_probabilities.shape[1], log_probabilities[:, EOS]
    # Take three more tokens. PAD and BOS may be among the first tokens, and the third additional token shows whether
    # there is a tie at the end.
    _, tokens = log_probabilities.topk(min(count + 3, vocabulary), dim=1)
    values, tokens = _sort_by_value_and_id(log_probabilities, tokens)
    if values.shape[1] <= count:
        return TopK(values, tokens, ends)
    last = values[:, count - 1]
    is_tied = (last == values[:, count]) & last.isfinite()
    values, tokens = values[:, :count], tokens[:, :count]
    # torch.topk may return any of several equal values, so choose the tokens with the lowest IDs. On a GPU, do this for
    # all rows, because testing which rows have ties would wait for the GPU.
    asynchronous = _is_asynchronous(log_probabilities)
    if asynchronous or bool(is_tied.any()):
        tied = slice(None) if asynchronous else is_tied
        rows = log_probabilities[tied]
        exact = _sort_by_value_and_id(rows, _lowest_ids(rows, last[tied].unsqueeze(1), count))
        for found, each in zip((values, tokens), exact, strict=True):
            found[tied] = torch.where(is_tied[tied].unsqueeze(1), each, found[tied])
    return TopK(values, tokens, ends)


def _lowest_ids(
    rows: Float32[Tensor, "rows vocabulary"], last: Float32[Tensor, "rows 1"], count: int
) -> Int[Tensor, "rows count"]:
    """Return the most probable tokens in each row, in any order. Among tokens as probable as `last`, prefer low IDs.

    Args:
        rows: The log-probabilities of all tokens.
        last: For each row, the log-probability of the least probable token to return.
        count: How many tokens to return.
    """
    size = rows.shape[1]
    negative_id = -torch.arange(size, dtype=torch.int32, device=rows.device)
    excluded = torch.full_like(rows, -size, dtype=torch.int32)
    priority = torch.where(rows == last, negative_id, excluded.masked_fill(rows > last, 1))
    for token in (PAD, BOS):
        priority[:, token] = -size
    return priority.topk(count, dim=1).indices


def _sort_by_value_and_id(
    log_probabilities: Float32[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows chosen"]
) -> tuple[Float32[Tensor, "rows chosen"], Int[Tensor, "rows chosen"]]:
    tokens = tokens.sort(dim=1).values
    values = log_probabilities.gather(1, tokens)
    values = values.masked_fill((tokens == PAD) | (tokens == BOS), -torch.inf)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values, tokens.gather(1, order)


def _is_asynchronous(tensor: Tensor) -> bool:
    """Return whether operations on the tensor run asynchronously, as on a GPU."""
    return tensor.is_cuda
