"""Self-attention restricted to a neighbourhood (4): what is far away is never multiplied at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.operations.attention import scores
from compiler.operations.operation import Kind, Line, Names, Operation, Reach, Shape, Tensors, Type, Types, require
from compiler.size import ONE, Size, product, rounded_up

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 16
"""Queries of a block, at least: products of fewer are too thin to be fast."""


@dataclass(frozen=True)
class RestrictedAttention(Operation):
    """Attention to `radius` positions on each side, or before alone. Q, K, V [batch, h, n, d] [, mask] [, v [h, d]]

    A block of queries is multiplied with the window of keys that any of them may see. The mask hides keys, [batch, 1,
    1, n]; a query always sees itself, as one in padding might see nothing else. v is that of an additive score. Costs
    are those of more positions than the radius: of fewer it is full attention, and costs no more.
    """

    radius: int
    causal: bool
    scale: float
    dropout: float = 0.0

    calls = ("compiler.windows.restricted_attention",)
    caption = ("attention", "Restricted attention")

    @property
    def block(self) -> int:
        """Queries that share a window of keys."""
        return max(self.radius, BLOCK)

    @property
    def window(self) -> int:
        """Keys that a block of queries is multiplied with."""
        return self.block + self.radius * (1 if self.causal else 2)

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        query, key, value, *masks = inputs
        require(query.shape == key.shape and value.shape[:3] == key.shape[:3] and len(masks) <= 1, self, *inputs)
        require(not parameters or parameters == ((query.shape[1], query.shape[3]),), self, query)
        hidden = (query.shape[0], ONE, ONE, query.shape[2])
        require(all(mask == Type(hidden, Kind.MASK) for mask in masks), self, *inputs)
        return Type(value.shape)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        query, key, value, *masks = inputs
        weights = scores(query, key, self.scale, parameters)
        places = query.new_tensor(range(query.shape[2]))
        away = places - places[:, None]
        far = (away < -self.radius) | (away > (0 if self.causal else self.radius))
        for mask in masks:
            far = far | (mask & (away != 0))
        return weights.masked_fill(far, -math.inf).softmax(-1) @ value

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        query, key, value, *masks = inputs
        named = {"hidden": masks, "vector": parameters}
        more = "".join(f", {name}={value[0]}" for name, value in named.items() if value)
        if self.dropout:
            more += f", dropped={self.dropout!r} if w.training else 0.0"
        sizes = f"({self.radius}, {0 if self.causal else self.radius}), {self.block}, {self.scale!r}"
        return f"restricted_attention({query}, {key}, {value}, {sizes}{more})"

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        return 2 * self._weights(inputs) * (inputs[1].shape[3] + inputs[2].shape[3])

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        """The weights, what is left of them after dropout, and the windows of keys and values, which overlap."""
        batch, heads, length, width = inputs[0].shape
        weights = self._weights(inputs)
        inner = weights * width if parameters else Size()
        overlap = -(-self.window // self.block)
        windows = batch * heads * rounded_up(length, self.block) * (width + inputs[2].shape[3]) * overlap
        return inner + windows + weights * (3 if self.dropout else 1)

    def _weights(self, inputs: Types) -> Size:
        batch, heads, length, _ = inputs[0].shape
        return product((batch, heads, rounded_up(length, self.block))) * self.window

    def over_positions(self) -> Reach:
        return Reach(self.radius, 0 if self.causal else self.radius, across=(1, 2))

    def exportable(self, inputs: Types) -> bool:
        """Not where there is one block for short sequences and several for longer ones."""
        return False

    def detail(self, inputs: Sequence[str]) -> str:
        side = "before" if self.causal else "to each side"
        return f"{self.radius} positions {side}"
