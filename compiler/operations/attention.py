"""Multi-head attention (3.2), and the heads it is computed on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from compiler.operations.embedding import scaled
from compiler.operations.operation import Kind, Line, Names, Operation, Shape, Tensors, Type, Types, require
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.listing import Lister


class Kernel(StrEnum):
    """How an attention is computed."""

    EXPLICIT = "explicit"  # product, softmax, product
    FUSED = "fused"  # in one call, its weights never whole


@dataclass(frozen=True)
class Attention(Operation):
    """softmax(scale · Q Kᵀ, masked) V (3.2.1). Q [batch, h, n, d_k], K [batch, h, m, d_k], V [batch, h, m, d_v], masks

    Each mask hides keys; dropout falls on the weights after the softmax.
    """

    scale: float
    dropout: float = 0.0
    kernel: Kernel = Kernel.EXPLICIT

    calls = ("compiler.runtime.dropout", "compiler.runtime.fused_attention")
    caption = ("attention", "Attention")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        query, key, value, *masks = inputs
        _require_weights(self, query, key, *masks)
        require(value.shape[:3] == key.shape[:3], self, *inputs)
        return Type((*query.shape[:3], value.shape[3]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        query, key, value, *masks = inputs
        return _weights(query, key, masks, self.scale) @ value

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        query, key, value, *masks = inputs
        hidden = " | ".join(masks)
        if self.kernel is Kernel.FUSED:
            return f"fused_attention({query}, {key}, {value}, {hidden or None}, {self.scale!r})"
        weights = line.also("weights")
        line.before.append(f"{weights} = {scaled(query, self.scale)} @ {key}.mT")
        if hidden:
            line.before.append(f"{weights} = {weights}.masked_fill({hidden}, -math.inf)")
        line.before.append(f"{weights} = torch.softmax({weights}, dim=-1)")
        if self.dropout:
            line.before.append(f"{weights} = dropout({weights}, {self.dropout!r}, w.training)")
        return f"{weights} @ {value}"

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        query, key, value, *_ = inputs
        return 2 * product(query.shape[:3]) * key.shape[2] * (key.shape[3] + value.shape[3])

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        weights = product(inputs[0].shape[:3]) * inputs[1].shape[2]
        # The scaled query and, with dropout, its mask and the weights after it.
        return product(inputs[0].shape) + weights * (3 if self.dropout else 1)

    def moved(self, inputs: Types, result: Type, weights: Size, of_a_float: int) -> Size:
        whole = super().moved(inputs, result, weights, of_a_float)
        if self.kernel is Kernel.FUSED:
            return whole
        return whole + 2 * of_a_float * product(inputs[0].shape[:3]) * inputs[1].shape[2]  # written and read

    def detail(self, inputs: Sequence[str]) -> str:
        masks = list(filter(None, inputs[3:]))
        return f"hidden: {', '.join(masks)}" if masks else ""

    def native(self, lister: Lister, node: Node) -> None:
        lister.attention(node, self.scale)


@dataclass(frozen=True)
class AttentionWeights(Operation):
    """softmax(scale · Q Kᵀ, masked) alone, for who asks to see it: whole, and in float32 whatever comes in.

    Q [batch, h, n, d_k], K [batch, h, m, d_k], masks -> [batch, h, n, m]: rows sum to 1, and are 0 at what is hidden.
    """

    scale: float

    caption = ("attention", "Attention weights")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        query, key, *masks = inputs
        _require_weights(self, query, key, *masks)
        return Type((*query.shape[:3], key.shape[2]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        query, key, *masks = inputs
        return _weights(query, key, masks, self.scale)

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        query, key, *masks = inputs
        product = f"{scaled(query, self.scale)} @ {key}.mT"
        product = f"({product}).masked_fill({' | '.join(masks)}, -math.inf)" if masks else product
        return f"torch.softmax({product}, dim=-1, dtype=torch.float32)"

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        query, key, *_ = inputs
        return 2 * product(query.shape) * key.shape[2]

    def detail(self, inputs: Sequence[str]) -> str:
        masks = list(filter(None, inputs[2:]))
        return f"hidden: {', '.join(masks)}" if masks else ""


@dataclass(frozen=True)
class WeightedSum(Operation):
    """What an attention makes of its weights: weights [batch, h, n, m], V [batch, h, m, d_v] -> [batch, h, n, d_v]"""

    code = "{0}.to({1}.dtype) @ {1}"
    caption = ("attention", "Weighted sum")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        weights, value = inputs
        require(weights.shape[:2] == value.shape[:2] and weights.shape[3] == value.shape[2], self, *inputs)
        return Type((*weights.shape[:3], value.shape[3]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        weights, value = inputs
        return weights @ value

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        weights, value = inputs
        return 2 * product(weights.shape) * value.shape[3]


def _require_weights(operation: Operation, query: Type, key: Type, *masks: Type) -> None:
    require(query.shape[:2] == key.shape[:2] and query.shape[3] == key.shape[3], operation, query, key)
    for mask in masks:
        sizes = zip(mask.shape, (*query.shape[:3], key.shape[2]), strict=True)
        fits = all(size in (of, Size.of(1)) for size, of in sizes) and mask.shape[3] == key.shape[2]
        require(mask.kind is Kind.MASK and fits, operation, query, key, mask)


def _weights(query: Tensor, key: Tensor, masks: Tensors, scale: float) -> Tensor:
    """How much each query looks at each key."""
    products = query @ key.mT * scale
    for mask in masks:
        products = products.masked_fill(mask, -math.inf)
    return products.softmax(-1)
