"""Caches of the keys and values of earlier positions, which one decoder step passes to the next."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.instruction import UnsupportedGraph
from compiler.operations.operation import Operation, Shape, Tensors, ValueType, ValueTypes, require
from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


@dataclass(frozen=True)
class AppendToCache(Operation):
    """Append new positions to a cache: cache [rows, h, n, d], new [rows, h, k, d] -> [rows, h, n + k, d].

    Both inputs may lack the axis of the heads. Positions are the second-last axis.
    """

    appends_to_cache = True
    code = "torch.cat([{0}, {1}], dim=-2)"
    caption = ("cache", "Append to cache")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        cache, new = inputs
        fits = cache.shape[:-2] == new.shape[:-2] and cache.shape[-1] == new.shape[-1]
        require(fits and len(cache.shape) in (3, 4), self, *inputs)
        return ValueType((*cache.shape[:-2], cache.shape[-2] + new.shape[-2], cache.shape[-1]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        cache, new = inputs
        length = cache.shape[-2]
        result = cache.new_empty(*cache.shape[:-2], length + new.shape[-2], cache.shape[-1])
        result[..., :length, :], result[..., length:, :] = cache, new
        return result

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        if len(node.type.shape) != 4:
            raise UnsupportedGraph("it has no instruction for a cache without heads: use the backend `eager`")
        codegen.append_to_cache(node)

    def for_planned_cache(self) -> Operation:
        return WriteToCache()


@dataclass(frozen=True)
class WriteToCache(Operation):
    """Write new positions into a preallocated cache, in place.

    cache [rows, h, capacity, d], new [rows, h, k, d], position [rows, k] -> [rows, h, capacity, d].
    """

    overwrites = 0
    code = "write_cache({0}, {1}, {2})"
    calls = ("compiler.runtime.write_cache",)
    caption = ("cache", "Cache write")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        cache, new, position = inputs
        fits = cache.shape[:2] == new.shape[:2] and cache.shape[3] == new.shape[3]
        require(fits and position.shape == (cache.shape[0], new.shape[2]), self, *inputs)
        return cache

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        cache, new, position = inputs
        cache = cache.clone()
        for row, positions in enumerate(position.tolist()):
            for index, slot in enumerate(positions):
                cache[row, :, slot] = new[row, :, index]
        return cache

    def memory_traffic(self, inputs: ValueTypes, result: ValueType, weight_bytes: Size, float_bytes: int) -> Size:
        """Count only the bytes of the new positions, because the rest of the cache is not touched."""
        return 2 * inputs[1].bytes(float_bytes)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        codegen.append_to_cache(node)
