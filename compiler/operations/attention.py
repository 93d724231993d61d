"""Multi-head attention (3.2), and the heads it is computed on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from compiler.instruction import Inexpressible
from compiler.operations.embedding import scaled
from compiler.operations.operation import Kind, Line, Names, Operation, Reach, Shape, Tensors, Type, Types, require
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.listing import Lister


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
        require(query.shape[:2] == key.shape[:2] == value.shape[:2], self, *inputs)
        require(query.shape[3] == key.shape[3] and key.shape[2] == value.shape[2], self, *inputs)
        require(
            not parameters or (parameters == ((query.shape[1], query.shape[3]),) and self.scale == 1.0), self, query
        )
        for mask in masks:
            sizes = zip(mask.shape, (*query.shape[:3], key.shape[2]), strict=True)
            fits = all(size in (of, Size.of(1)) for size, of in sizes) and mask.shape[3] == key.shape[2]
            require(mask.kind is Kind.MASK and fits, self, *inputs)
        return Type((*query.shape[:3], value.shape[3]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        query, key, value, *masks = inputs
        weights = scores(query, key, self.scale, parameters)
        for mask in masks:
            weights = weights.masked_fill(mask, -math.inf)
        return weights.softmax(-1) @ value

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        query, key, value, *masks = inputs
        hidden = " | ".join(masks)
        if self.kernel is Kernel.FUSED:
            return f"fused_attention({query}, {key}, {value}, {hidden or None}, {self.scale!r})"
        weights = line.also("weights")
        dot = f"{scaled(query, self.scale)} @ {key}.mT"
        scores = f"additive_scores({query}, {key}, {parameters[0]})" if parameters else dot
        line.before.append(f"{weights} = {scores}")
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

    def native(self, lister: Lister, node: Node) -> None:
        if node.parameters:
            raise Inexpressible("it has no instruction for additive attention: take the backend `eager`")
        lister.attention(node, self.scale)
