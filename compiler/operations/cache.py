"""The keys and values of earlier positions, which a decoder's step carries on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.instruction import UnsupportedGraph
from compiler.operations.operation import Operation, Shape, Tensors, Type, Types, require
from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


@dataclass(frozen=True)
class Append(Operation):
    """The cache write: positions more. cache [rows, h, n, d], new [rows, h, new, d] -> [rows, h, n + new, d]

    Without heads both have an axis less. Positions are the last axis but one.
    """

    code = "torch.cat([{0}, {1}], dim=-2)"
    caption = ("cache", "Cache, longer by one")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        cache, new = inputs
        fits = cache.shape[:-2] == new.shape[:-2] and cache.shape[-1] == new.shape[-1]
        require(fits and len(cache.shape) in (3, 4), self, *inputs)
        return Type((*cache.shape[:-2], cache.shape[-2] + new.shape[-2], cache.shape[-1]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        cache, new = inputs
        length = cache.shape[-2]
        grown = cache.new_empty(*cache.shape[:-2], length + new.shape[-2], cache.shape[-1])
        grown[..., :length, :], grown[..., length:, :] = cache, new
        return grown

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        if len(node.type.shape) != 4:
            raise UnsupportedGraph("it has no instruction for a cache without heads: take the backend `eager`")
        codegen.append_to_cache(node)


@dataclass(frozen=True)
class Write(Operation):
    """The cache write where there is room. cache [rows, h, room, d], new [rows, h, new, d], position [rows, new]"""

    overwrites = 0
    code = "write_cache({0}, {1}, {2})"
    calls = ("compiler.runtime.write_cache",)
    caption = ("cache", "Cache write")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        cache, new, position = inputs
        fits = cache.shape[:2] == new.shape[:2] and cache.shape[3] == new.shape[3]
        require(fits and position.shape == (cache.shape[0], new.shape[2]), self, *inputs)
        return cache

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        cache, new, position = inputs
        cache = cache.clone()
        for row, places in enumerate(position.tolist()):
            for number, place in enumerate(places):
                cache[row, :, place] = new[row, :, number]
        return cache

    def moved(self, inputs: Types, result: Type, weights: Size, of_a_float: int) -> Size:
        """In place: the new positions alone."""
        return 2 * inputs[1].bytes(of_a_float)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        codegen.append_to_cache(node)
