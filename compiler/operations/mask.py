"""Attention masks. A mask is computed once, from lengths or positions, and all layers use it.

The shape of a mask is [batch or 1, 1, queries or 1, keys]. True hides a key from a query.
"""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from compiler.operations.operation import (
    MaskRole,
    Operation,
    Shape,
    Tensors,
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.size import ONE, Size

if TYPE_CHECKING:
    from torch import Tensor


class Mask(Operation):
    """Base class for masks. The native backend needs no masks: its buffers have no padding and no later positions."""

    shares_buffer = True


class PaddingMask(Mask):
    """Mask that hides the padding after the end of each sequence.

    Inputs: the lengths [batch], and the padded sequences [batch, keys, ...], of which only the shape is used. Result:
    [batch, 1, 1, keys].
    """

    mask_role = MaskRole.PADDING
    code = "attention.padding_mask({0}, {1})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        length, stream = inputs
        require(length == ValueType(stream.shape[:1], ValueKind.INTEGER), self, *inputs)
        return ValueType((stream.shape[0], ONE, ONE, stream.shape[1]), ValueKind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        length, stream = inputs
        key = length.new_tensor(range(stream.shape[1]))
        return (key >= length[:, None])[:, None, None, :]


class CausalMask(Mask):
    """Mask that hides keys after the query (section 3.2.3).

    Input: a value [batch, length, ...], of which only the shape is used. Result: [1, 1, length, length].
    """

    mask_role = MaskRole.CAUSAL
    code = "attention.causal_mask({0})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        length = inputs[0].shape[1]
        return ValueType((ONE, ONE, length, length), ValueKind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        length = inputs[0].shape[1]
        return inputs[0].new_ones(1, 1, length, length).triu(1).bool()


class DistanceMask(Mask):
    """Mask that hides keys more than `before` positions before the query, or more than `after` after it.

    Full attention with this mask has the same weights as restricted attention. This mask is used in compiled models
    that return attention weights to the caller.

    Inputs: a value [batch, length, ...], of which only the shape is used, and optionally a padding mask [batch, 1, 1,
    length]. Padding is also hidden, but every query sees its own position. Result: [batch, 1, length, length].
    """

    before: int
    after: int

    code = "attention.distance_mask({all}, before={self.before}, after={self.after})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        stream, *padding = inputs
        batch, length, *_ = stream.shape
        expected = ValueType((batch, ONE, ONE, length), ValueKind.MASK)
        require(all(mask == expected for mask in padding), self, *inputs)
        return ValueType((batch, ONE, length, length), ValueKind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        stream, *padding = inputs
        position = stream.new_tensor(range(stream.shape[1]))
        distance = position - position[:, None]
        hidden = ((distance < -self.before) | (distance > self.after)).expand(len(stream), 1, -1, -1)
        for mask in padding:
            hidden = hidden | (mask & (distance != 0))
        return hidden


class WindowMask(Mask):
    """Mask for a decoder step that hides all keys except the query's own and the `radius` keys before it.

    Inputs: the positions of the queries [rows, new], and the keys before the new keys [rows, h, radius, d]. Result:
    [rows, 1, new, radius + new].
    """

    radius: int

    code = "attention.window_mask({all})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        position, window = inputs
        fits = position.kind is ValueKind.INTEGER and position.shape[0] == window.shape[0]
        require(fits and window.shape[2] == Size.of(self.radius), self, *inputs)
        rows, new = position.shape
        return ValueType((rows, ONE, new, new + self.radius), ValueKind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        position, window = inputs
        query, key = position[:, None, :, None], key_positions(position, window, planned=False)[:, None, None, :]
        return (key < 0) | (key > query) | (key < query - self.radius)


class UnwrittenMask(Mask):
    """Mask that hides cache entries that are empty, or that contain the key of a position after the query.

    Inputs: the positions of the queries [rows, new], and the key cache [rows, h, n, d]. Result: [rows, 1, new,
    entries]. Rows may be at different positions. A `planned` cache is preallocated: entries = n, and the keys of a row
    are in the first entries. In a cache that grows, entries = n + new, and the keys are in the last entries.
    """

    planned: bool = False

    mask_role = MaskRole.UNWRITTEN
    code = "attention.unwritten_mask({0}, {1}, planned={self.planned})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        position, cache = inputs
        require(position.kind is ValueKind.INTEGER and position.shape[0] == cache.shape[0], self, *inputs)
        rows, new = position.shape
        return ValueType((rows, ONE, new, cache.shape[2] + (0 if self.planned else new)), ValueKind.MASK)

    def with_planned_cache(self) -> UnwrittenMask:
        return replace(self, planned=True)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        position, cache = inputs
        query, key = position[:, None, :, None], key_positions(position, cache, self.planned)[:, None, None, :]
        return (key < 0) | (key > query)


def key_positions(position: Tensor, cache: Tensor, planned: bool) -> Tensor:
    """Return the position of the key in each entry of a cache: [rows, entries]. It is negative if an entry is empty.

    Args:
        position: The positions of the queries [rows, new].
        cache: The key cache [rows, h, n, d].
        planned: Whether the cache is preallocated (see `UnwrittenMask`). If so, entries = n, and entries after the last
            query may be empty. Otherwise, entries = n + new.
    """
    if planned:
        return position.new_tensor(range(cache.shape[2])).expand(len(position), -1)
    entries = cache.shape[2] + position.shape[1]
    return position.new_tensor(range(1 - entries, 1)) + position[:, -1:]
