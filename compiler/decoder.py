"""The state of a decoder between its steps: how it begins, is handed on, and has its rows rearranged."""

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


@dataclass(frozen=True)
class State:
    """What a decoder knows of its sentences. A row is a hypothesis; those of a sentence stand together."""

    source: Int[Tensor, "sentences source"]
    memory: Mapping[str, Tensor]
    """What the encoder made of the sources, a row a sentence."""
    carried: Mapping[str, Tensor]
    """What each step hands to the next, such as keys and values of the tokens read so far, a row a hypothesis."""
    position: Int[Tensor, "sentences beams"]
    """Tokens that each hypothesis has read."""
    read: tuple[int, ...]
    """The same for each sentence, known without asking the device."""


ALLOWED = "allowed"
"""Beside the inputs of a step's graph: which tokens may be chosen."""
ROOMS = 16
"""Positions by which a planned cache grows."""


class Decoder:
    """What becomes of states, by what the graph of a step takes in and hands on; the step itself is others' to run."""

    def __init__(self, step: Graph) -> None:
        self._step = step

    def begin(self, source: Int[Tensor, "sentences source"], memory: Mapping[str, Tensor]) -> State:
        """The state before the first step, a row a sentence, from what the encoder made of the sources."""
        step, sentences = self._step, source.shape[0]
        memory = {name: value for name, value in memory.items() if name in step.inputs}
        sizes = {"batch": sentences, "source": source.shape[1], "beams": 1, "past": 0, "capacity": ROOMS}
        number = next((value.dtype for value in memory.values() if value.is_floating_point()), torch.float32)
        carried = {
            name: source.new_zeros(
                [size(**sizes) for size in type_.shape], dtype=torch.long if type_.kind is ValueKind.INTEGER else number
            )
            for name, type_ in step.inputs.items()
            if name in step.states
        }
        position = torch.zeros(sentences, 1, dtype=torch.long, device=source.device)
        return State(source, memory, carried, position, (0,) * sentences)

    def inputs(self, state: State, token: Int[Tensor, " rows"], allowed: Tensor | None = None) -> dict[str, Tensor]:
        """Of a step that reads `token`; with ALLOWED beside them where only some tokens may be chosen."""
        position, memory = state.position, {"source": state.source, **state.memory}
        carried = {name: self._with_room(name, value, max(state.read)) for name, value in state.carried.items()}
        if not self._by_sentence and position.shape[1] > 1:
            memory = {name: value.repeat_interleave(position.shape[1], 0) for name, value in memory.items()}
        shape = position.shape if self._by_sentence else (token.shape[0], 1)
        given = {"token": token.view(shape), "position": position.reshape(shape), **memory, **carried}
        if allowed is not None:
            given[ALLOWED] = allowed.expand(token.shape[0], -1).view(*shape, -1)
        return given

    def after(self, state: State, results: Mapping[str, Tensor]) -> State:
        """The state after a step that found these."""
        carried, read = {name: results[name] for name in state.carried}, tuple(each + 1 for each in state.read)
        return replace(state, carried=carried, position=state.position + 1, read=read)

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> State:
        """Some of the sentences, in order, and for each row of theirs which row of the sentence it goes on from."""
        at, carried = sentences.to(parents.device, non_blocking=True), self._step.states
        rows = (at[:, None] * state.position.shape[1] + parents).flatten()
        position = state.position.index_select(0, at)[:, :1].expand(parents.shape)
        if sentences.shape[0] == state.source.shape[0]:
            moved = {name: value.index_select(carried[name].row_axis, rows) for name, value in state.carried.items()}
            return replace(state, carried=moved, position=position)
        read = tuple(state.read[sentence] for sentence in sentences.tolist())
        memory = {name: value.index_select(0, at) for name, value in state.memory.items()}
        moved = {
            name: self._shortened(name, value, max(read)).index_select(carried[name].row_axis, rows)
            for name, value in state.carried.items()
        }
        return State(state.source.index_select(0, at), memory, moved, position, read)

    def join(self, first: State, second: State) -> State:
        """The sentences of both, which have the same number of beams. The shorter ones are padded: that is masked."""
        source = _joined(first.source, second.source, 0, 1)
        memory = {
            name: _joined(value, second.memory[name], 0, _axis(self._step.inputs[name]))
            for name, value in first.memory.items()
        }
        carried = {
            name: _joined(value, second.carried[name], each.row_axis, each.length_axis, at_end=self._is_planned(name))
            for name, value in first.carried.items()
            if (each := self._step.states[name])
        }
        return State(source, memory, carried, torch.cat([first.position, second.position]), first.read + second.read)

    @property
    def recordable(self) -> Graph | None:
        """The step with all inputs there may be, unless caches grow in each of its steps."""
        if not all(each.length_axis is None or self._is_planned(name) for name, each in self._step.states.items()):
            return None
        found = self._step.types[self._step.outputs["log_probabilities"]]
        return replace(self._step, inputs={**self._step.inputs, ALLOWED: replace(found, kind=ValueKind.MASK)})

    @cached_property
    def _by_sentence(self) -> bool:
        """Whether a step takes a row a sentence, its beams side by side."""
        return self._step.inputs["token"].shape[1] == BEAMS

    def _is_planned(self, name: str) -> bool:
        """Whether what is carried has room for more than was read; else it grows in each step, or never."""
        grows = self._step.states[name].length_axis
        return grows is not None and self._step.inputs[name].shape[grows] == CAPACITY

    def _with_room(self, name: str, value: Tensor, read: int) -> Tensor:
        """With room for another position."""
        grows = self._step.states[name].length_axis
        if grows is None or not self._is_planned(name) or read < value.shape[grows]:
            return value
        return _padded(value, grows, value.shape[grows] + ROOMS)

    def _shortened(self, name: str, value: Tensor, read: int) -> Tensor:
        """Without positions that no row has reached."""
        grows = self._step.states[name].length_axis
        if grows is None:
            return value
        if not self._is_planned(name):
            return value.narrow(grows, value.shape[grows] - read, read)
        return value.narrow(grows, 0, min(value.shape[grows], max(ROOMS, -(-read // ROOMS) * ROOMS)))


def _axis(memory: ValueType) -> int | None:
    """Of what the encoder made: where the source's positions are."""
    return next((axis for axis, size in enumerate(memory.shape) if size == SOURCE), None)


def _padded(tensor: Tensor, axis: int, length: int, *, at_end: bool = True) -> Tensor:
    """With zeros up to this many positions; of sources that is PAD."""
    more = length - tensor.shape[axis]
    sides = [0, more] if at_end else [more, 0]
    return functional.pad(tensor, [0, 0] * (tensor.ndim - 1 - axis) + sides) if more else tensor


def _joined(first: Tensor, second: Tensor, rows: int, axis: int | None, *, at_end: bool = True) -> Tensor:
    """The rows of one after those of the other; the shorter ones are padded along an axis."""
    if axis is not None:
        length = max(first.shape[axis], second.shape[axis])
        first, second = (_padded(each, axis, length, at_end=at_end) for each in (first, second))
    return torch.cat([first, second], rows)
