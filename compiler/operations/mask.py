"""What a query may not look at. A mask is a value: made once, of tokens or positions, for all layers.

Shapes are [batch or 1, 1, queries or 1, keys]; true hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.operations.operation import Kind, Operation, Shape, Tensors, Type, Types, require
from compiler.size import ONE, Size
from specs import PAD

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


class Mask(Operation):
    """Of the native machine's rows none is padding or of a later position: it knows these masks by itself."""

    alias = True

    def moved(self, inputs: Types, result: Type, weights: Size, of_a_float: int) -> Size:
        """Next to nothing: it is made once for all layers, of tokens and shapes."""
        return Size()

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Part of the attention that takes it."""


@dataclass(frozen=True)
class PaddingMask(Mask):
    """Hides keys that stand for padding. tokens [batch, keys]"""

    code = "padding_mask({0})"
    calls = ("compiler.runtime.padding_mask",)

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (tokens,) = inputs
        require(tokens.kind is Kind.INTEGER and len(tokens.shape) == 2, self, tokens)
        return Type((tokens.shape[0], ONE, ONE, tokens.shape[1]), Kind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return (inputs[0] == PAD)[:, None, None, :]

    def detail(self, inputs: Sequence[str]) -> str:
        return f"padding of the {inputs[0]}"


@dataclass(frozen=True)
class CausalMask(Mask):
    """Hides keys after the query (3.2.3), where both are the same positions. tokens [batch, length]"""

    code = "causal_mask({0})"
    calls = ("compiler.runtime.causal_mask",)

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        length = inputs[0].shape[1]
        return Type((ONE, ONE, length, length), Kind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        length = inputs[0].shape[1]
        return (inputs[0].new_ones(1, 1, length, length)).triu(1).bool()

    def detail(self, inputs: Sequence[str]) -> str:
        return "later positions"


@dataclass(frozen=True)
class DistanceMask(Mask):
    """Hides keys that are too far from the query. tokens [batch, length]

    Where later ones are seen, padding is hidden, too, from all but itself. It is what a restricted attention never
    multiplies, for who asks for all of its weights.
    """

    before: int
    after: int

    code = "distance_mask({0}, {self.before}, {self.after})"
    calls = ("compiler.windows.distance_mask",)

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        batch, length = inputs[0].shape
        return Type((batch, ONE, length, length), Kind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (tokens,) = inputs
        hidden = ((tokens == PAD) & (self.after > 0))[:, None, None, :].repeat(1, 1, tokens.shape[1], 1)
        for query in range(tokens.shape[1]):
            hidden[:, :, query, query] = False
            hidden[:, :, query, : max(0, query - self.before)] = True
            hidden[:, :, query, query + self.after + 1 :] = True
        return hidden

    def detail(self, inputs: Sequence[str]) -> str:
        return f"more than {self.before} before, {self.after} after"


@dataclass(frozen=True)
class WindowMask(Mask):
    """Hides keys of a window that are not a query's own `radius` before it and itself. position [rows, new], window

    The window [rows, h, radius, d] holds what went before; the new ones follow it.
    """

    radius: int

    code = "window_mask({0}, {self.radius})"
    calls = ("compiler.windows.window_mask",)

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        position, window = inputs
        fits = position.kind is Kind.INTEGER and position.shape[0] == window.shape[0]
        require(fits and window.shape[2] == Size.of(self.radius), self, *inputs)
        rows, new = position.shape
        return Type((rows, ONE, new, new + self.radius), Kind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        position, _ = inputs
        rows, new = position.shape
        hidden = position.new_ones(rows, 1, new, self.radius + new).bool()
        for row in range(rows):
            for query in range(new):
                known = min(self.radius, int(position[row, query]))
                hidden[row, 0, query, self.radius + query - known : self.radius + query + 1] = False
        return hidden


@dataclass(frozen=True)
class UnwrittenMask(Mask):
    """Hides keys of a cache that are not the query's own or those before it. position [rows, new], cache [rows, ...]

    Where some rows are at earlier positions than others, their own keys are the first of a `planned` cache, which has
    room for more; they are the last of one that grows, and stands here as it is before the new ones are appended.
    """

    planned: bool = False

    code = "unwritten_mask({0}, {1}, planned={self.planned})"
    calls = ("compiler.runtime.unwritten_mask",)

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        position, cache = inputs
        require(position.kind is Kind.INTEGER and position.shape[0] == cache.shape[0], self, *inputs)
        rows, new = position.shape
        return Type((rows, ONE, new, cache.shape[2] + (0 if self.planned else new)), Kind.MASK)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        position, cache = inputs
        new = position.shape[1]
        keys = position.new_tensor(range(cache.shape[2] if self.planned else cache.shape[2] + new))
        if not self.planned:  # at which position of the row each key was appended
            keys = keys[None] - (cache.shape[2] + new - 1) + position[:, -1:]
        at = keys.expand(len(position), -1)[:, None, None, :]
        return (at < 0) | (at > position[:, None, :, None])
