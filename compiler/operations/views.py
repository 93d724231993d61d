"""Operations that change shapes: slices, attention heads, concatenation, caches, and the hypotheses for a sentence."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from compiler.instruction import Unsupported
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    PlainOperation,
    Shape,
    Tensors,
    ValueType,
    ValueTypes,
    require,
)
from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.native_codegen import NativeCodeGenerator
    from compiler.operations.operation import Node


class View(PlainOperation):
    """Base class for operations whose result is a view of the first input."""

    view = True
    shares_buffer = True


class Slice(View):
    """Slice `start:stop` along `dimension`. Negative values count from the end."""

    dimension: int
    start: int = 0
    stop: int | None = None

    def sliced_range(self) -> tuple[int, int, int | None] | None:
        return self.dimension, self.start, self.stop

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,) = inputs
        require(-len(x.shape) <= self.dimension < len(x.shape), self, x)
        shape = list(x.shape)
        size = shape[self.dimension]
        start, stop = (size + end if end < 0 else Size.of(end) for end in (self.start, self.stop or 0))
        stop = size if self.stop is None else stop
        require(bool(size.symbols) or 0 <= start.constant <= stop.constant <= size.constant, self, x)
        shape[self.dimension] = stop - start
        return ValueType(tuple(shape), x.kind)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,) = inputs
        indices = range(x.shape[self.dimension])[self.start : self.stop]
        return x.narrow(self.dimension, indices.start, len(indices))

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        part = f"{self.start or ''}:{'' if self.stop is None else self.stop}"
        if self.dimension < 0:
            return f"{inputs[0]}[..., {part}{', :' * (-1 - self.dimension)}]"
        return f"{inputs[0]}[{':, ' * self.dimension}{part}]"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        place = codegen.operands.get(node.inputs[0])
        if place is None:  # a slice of logits, which have no buffer
            return
        is_new_part = node.inputs[0] in codegen.with_state and self.sliced_range() == (1, 1, None)
        if is_new_part or node.type == codegen.graph.types[node.inputs[0]]:
            codegen.alias_input(node)
            return
        if len(node.type.shape) != 3 or self.dimension not in (-1, 2):
            raise Unsupported("it has no instruction for a slice of positions or of heads")
        column = place.column + self.start % codegen.row_length(node.inputs[0])
        codegen.operands[node.name] = replace(place, column=column)


class SplitHeads(View):
    """Split of features into h heads: [batch, n, h·d] -> [batch, h, n, d] (section 3.2.2)."""

    heads: int

    code = "{0}.unflatten(-1, ({self.heads}, -1)).transpose(1, 2)"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,) = inputs
        require(len(x.shape) == 3 and x.shape[2].constant % self.heads == 0, self, x)
        batch, length, width = x.shape
        return ValueType((batch, Size.of(self.heads), length, Size.of(width.constant // self.heads)))


class MergeHeads(PlainOperation):
    """Concatenation of the heads: [batch, h, n, d] -> [batch, n, h·d] (section 3.2.2)."""

    shares_buffer = True
    code = "{0}.transpose(1, 2).flatten(2)"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        batch, heads, length, width = inputs[0].shape
        return ValueType((batch, length, heads * width))


class Concat(PlainOperation):
    """Concatenation of features: x [..., d], y [..., e] -> [..., d + e]."""

    code = "torch.cat([{0}, {1}], dim=-1)"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, y = inputs
        require(x.shape[:-1] == y.shape[:-1] and x.kind is y.kind, self, x, y)
        return ValueType((*x.shape[:-1], x.shape[-1] + y.shape[-1]), x.kind)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        codegen.concatenate(node)


class BeamsToRows(View):
    """View that merges the axes of sentences and beams, so that each hypothesis is a row.

    [batch, beams, new, ...] -> [batch·beams, new, ...].
    """

    code = "{0}.flatten(0, 1)"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        batch, beams, *rest = inputs[0].shape
        return ValueType((batch * beams, *rest), inputs[0].kind)


class RowsToQueries(View):
    """View that merges the hypotheses for each sentence into one row, so that they read the encoder output together.

    Inputs: x [batch·beams, new, w], and another value [batch, beams, new, ...], of which only the shape is used.
    Result: [batch, beams·new, w].
    """

    code = "{0}.view({1}.shape[0], -1, {0}.shape[2])"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (rows, length, width), (batch, beams, new) = inputs[0].shape, inputs[1].shape[:3]
        require(rows == batch * beams and length == new, self, *inputs)
        return ValueType((batch, beams * new, width))


class QueriesToRows(View):
    """Inverse of `RowsToQueries`: each hypothesis becomes a separate row again.

    Inputs: x [batch, beams·new, w], and another value [batch, beams, new, ...], of which only the shape is used.
    Result: [batch·beams, new, w].
    """

    code = "{0}.view(-1, {1}.shape[2], {0}.shape[2])"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (sentences, queries, width), (batch, beams, new) = inputs[0].shape, inputs[1].shape[:3]
        require(sentences == batch and queries == beams * new, self, *inputs)
        return ValueType((batch * beams, new, width))


class AppendToCache(PlainOperation):
    """Concatenation of a cache and new positions: cache [rows, h, n, d], new [rows, h, k, d] -> [rows, h, n + k, d].

    The head axis is optional. Positions are the second-to-last axis.
    """

    appends_to_cache = True
    code = "torch.cat([{0}, {1}], dim=-2)"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        cache, new = inputs
        fits = cache.shape[:-2] == new.shape[:-2] and cache.shape[-1] == new.shape[-1]
        require(fits and len(cache.shape) in (3, 4), self, *inputs)
        return ValueType((*cache.shape[:-2], cache.shape[-2] + new.shape[-2], cache.shape[-1]))

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        if len(node.type.shape) != 4:
            raise Unsupported("it has no instruction for a cache without heads")
        codegen.append_to_cache(node)


class WriteToCache(Operation):
    """Preallocated cache into which new positions are written, in place.

    cache [rows, h, capacity, d], new [rows, h, k, d], position [rows, k] -> [rows, h, capacity, d].
    """

    overwrites = 0
    code = "attention.write_cache({0}, {1}, {2})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        cache, new, position = inputs
        fits = cache.shape[:2] == new.shape[:2] and cache.shape[3] == new.shape[3]
        require(fits and position.shape == (cache.shape[0], new.shape[2]), self, *inputs)
        return cache

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        cache, new, position = inputs
        cache = cache.clone()
        for row, positions in enumerate(position.tolist()):
            for index, entry in enumerate(positions):
                cache[row, :, entry] = new[row, :, index]
        return cache

    def memory_traffic(self, inputs: ValueTypes, result: ValueType, weight_bytes: Size, float_bytes: int) -> Size:
        """Count only the bytes of the new positions, because the rest of the cache is not accessed."""
        return 2 * inputs[1].bytes(float_bytes)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        codegen.append_to_cache(node)
