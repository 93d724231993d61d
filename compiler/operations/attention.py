"""Multi-head attention (3.2), and the heads it is computed on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from compiler.instruction import UnsupportedGraph
from compiler.operations.embedding import scaled
from compiler.operations.operation import Kind, Line, Names, Operation, Reach, Shape, Tensors, Type, Types, require
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


def scores(query: Tensor, key: Tensor, scale: float, vector: Tensors) -> Tensor:
    """Of each query and each key: scale · Q Kᵀ, or v · tanh(query + key) where there is a v."""
    if not vector:
        return query @ key.mT * scale
    return (vector[0][:, None, None] * (query[:, :, :, None] + key[:, :, None]).tanh()).sum(-1)


class Kernel(StrEnum):
    """How an attention is computed."""

    EXPLICIT = "explicit"  # product, softmax, product
    FUSED = "fused"  # in one call, its weights never whole


@dataclass(frozen=True)
class Attention(Operation):
    """softmax(scale · Q Kᵀ, masked) V (3.2.1). Q [batch, h, n, d_k], K [batch, h, m, d_k], V [batch, h, m, d_v], masks

    Each mask hides keys; dropout falls on the weights after the softmax. With a parameter v [h, d_k] the score of a
    query and a key is v · tanh(query + key), additive attention, and the scale is 1.
    """

    scale: float
    dropout: float = 0.0
    kernel: Kernel = Kernel.EXPLICIT

    calls = ("compiler.runtime.additive_scores", "compiler.runtime.dropout", "compiler.runtime.fused_attention")
    caption = ("attention", "Attention")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        query, key, value, *masks = inputs
        _require_weights(self, query, key, *masks, parameters=parameters)
        require(value.shape[:3] == key.shape[:3], self, *inputs)
        return Type((*query.shape[:3], value.shape[3]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        query, key, value, *masks = inputs
        return _weights(query, key, masks, self.scale, parameters) @ value

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        query, key, value, *masks = inputs
        hidden = " | ".join(masks)
        if self.kernel is Kernel.FUSED:
            return f"fused_attention({query}, {key}, {value}, {hidden or None}, {self.scale!r})"
        weights = line.also("weights")
        dot = f"{scaled(query, self.scale)} @ {key}.mT"
        found = f"additive_scores({query}, {key}, {parameters[0]})" if parameters else dot
        line.before.append(f"{weights} = {found}")
        if hidden:
            line.before.append(f"{weights} = {weights}.masked_fill({hidden}, -math.inf)")
        line.before.append(f"{weights} = torch.softmax({weights}, dim=-1)")
        if self.dropout:
            line.before.append(f"{weights} = dropout({weights}, {self.dropout!r}, w.training)")
        return f"{weights} @ {value}"

    def over_positions(self) -> Reach:
        return Reach(None, None, across=(1, 2))

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        query, key, value, *_ = inputs
        return 2 * product(query.shape[:3]) * key.shape[2] * (key.shape[3] + value.shape[3])

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        if self.kernel is Kernel.FUSED:
            return product(inputs[0].shape[:3])  # the logarithm of a sum for each query
        weights = product(inputs[0].shape[:3]) * inputs[1].shape[2]
        # The scaled query or the tanh of an additive score and, with dropout, its mask and the weights after it.
        inner = weights * inputs[0].shape[3] if parameters else product(inputs[0].shape)
        return inner + weights * (3 if self.dropout else 1)

    def moved(self, inputs: Types, result: Type, weights: Size, of_a_float: int) -> Size:
        whole = super().moved(inputs, result, weights, of_a_float)
        if self.kernel is Kernel.FUSED:
            return whole
        return whole + 2 * of_a_float * product(inputs[0].shape[:3]) * inputs[1].shape[2]  # written and read

    def detail(self, inputs: Sequence[str]) -> str:
        masks = list(filter(None, inputs[3:]))
        return f"hidden: {', '.join(masks)}" if masks else ""

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        if node.parameters:
            raise UnsupportedGraph("it has no instruction for additive attention: take the backend `eager`")
        codegen.attention(node, self.scale)


@dataclass(frozen=True)
class AttentionWeights(Operation):
    """softmax(scale · Q Kᵀ, masked) alone, for who asks to see it: whole, and in float32 whatever comes in.

    Q [batch, h, n, d_k], K [batch, h, m, d_k], masks -> [batch, h, n, m]: rows sum to 1, and are 0 at what is hidden.
    A parameter v [h, d_k] is that of an additive score, as in Attention.
    """

    scale: float

    calls = ("compiler.runtime.additive_scores",)
    caption = ("attention", "Attention weights")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        query, key, *masks = inputs
        _require_weights(self, query, key, *masks, parameters=parameters)
        return Type((*query.shape[:3], key.shape[2]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        query, key, *masks = inputs
        return _weights(query, key, masks, self.scale, parameters)

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        query, key, *masks = inputs
        dot = f"{scaled(query, self.scale)} @ {key}.mT"
        found = f"additive_scores({query}, {key}, {parameters[0]})" if parameters else dot
        found = f"({found}).masked_fill({' | '.join(masks)}, -math.inf)" if masks else found
        return f"torch.softmax({found}, dim=-1, dtype=torch.float32)"

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


def _require_weights(
    operation: Attention | AttentionWeights, query: Type, key: Type, *masks: Type, parameters: Sequence[Shape]
) -> None:
    require(query.shape[:2] == key.shape[:2] and query.shape[3] == key.shape[3], operation, query, key)
    additive = parameters == ((query.shape[1], query.shape[3]),) and operation.scale == 1.0
    require(not parameters or additive, operation, query)
    for mask in masks:
        sizes = zip(mask.shape, (*query.shape[:3], key.shape[2]), strict=True)
        fits = all(size in (of, Size.of(1)) for size, of in sizes) and mask.shape[3] == key.shape[2]
        require(mask.kind is Kind.MASK and fits, operation, query, key, mask)


def _weights(query: Tensor, key: Tensor, masks: Tensors, scale: float, parameters: Tensors) -> Tensor:
    """How much each query looks at each key."""
    found = scores(query, key, scale, parameters)
    for mask in masks:
        found = found.masked_fill(mask, -math.inf)
    return found.softmax(-1)
