"""Lowering of ByteNet's dynamic unfolding: a decoder position reads the encoder's output at the same position."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.builder import Value
from compiler.lowering.context import LayerContext
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    Shape,
    Tensors,
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.operations.projection import Linear
from compiler.size import ONE
from specs import AlignedMemory

if TYPE_CHECKING:
    from torch import Tensor


def aligned_memory(y: Value, sublayer: AlignedMemory, context: LayerContext) -> Value:
    """Return W z_t for each target position t, where z is the encoder output. After the end of z, return 0."""
    assert context.memory is not None
    b, memory = context.builder, context.memory
    projected = b.node("projected", Linear(), (memory.x,), b.parameter("memory", memory.x.width, y.width))
    in_step = context.position is not None
    return b.node("memory", Align(in_step), (projected, memory.padding, context.position or context.stream))


class Align(Operation):
    """Encoder output at each target position, or 0 after the end of the source (dynamic unfolding).

    Inputs: the projected encoder output [batch, m, d], its padding mask [batch, 1, 1, m], and integers [batch, n]. In a
    decoder step, the integers are the positions. Otherwise they are the target tokens, of which only the shape is used.
    Result: [batch, n, d].
    """

    in_step: bool

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        memory, mask, like = inputs
        batch, length, width = memory.shape
        require(mask == ValueType((batch, ONE, ONE, length), ValueKind.MASK), self, *inputs)
        require(like.kind is ValueKind.INTEGER and len(like.shape) == 2 and like.shape[0] == batch, self, *inputs)
        return ValueType((*like.shape, width))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        memory, mask, like = inputs
        result = memory.new_zeros(*like.shape, memory.shape[2])
        for row in range(len(memory)):
            length = int((~mask[row]).sum())
            positions = like[row].tolist() if self.in_step else range(like.shape[1])
            for index, position in enumerate(positions):
                if position < length:
                    result[row, index] = memory[row, position]
        return result

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        memory, mask, like = inputs
        if self.in_step:
            return f"layers.align({memory}, {mask}, {like})"
        return f"layers.align({memory}, {mask}, torch.arange({like}.shape[1], device={like}.device)[None])"
