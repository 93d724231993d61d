"""Operations of an update, which trains on packed rows: each has a fused kernel for GPUs (see `compiler.fused`).

The functions that they call take the seed of the step. `site` distinguishes the dropout layers of one layer.
"""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.lowering.norm import LayerNorm
from compiler.lowering.positions import PositionalEncoding
from compiler.operations.attention import HeadColumns
from compiler.operations.elementwise import Dropout
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    Shape,
    Tensors,
    ValueType,
    ValueTypes,
    require,
)
from compiler.operations.probability import ChunkedCrossEntropy
from compiler.operations.projection import Linear
from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor


class KernelOperation:
    """Base class of operations that have a kernel for GPUs instead of a reference for the interpreter.

    Tests compare programs of such operations with programs on padded batches.
    """

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no reference: interpret the graph of another purpose")


@dataclass(frozen=True)
class PackedAttention(KernelOperation, Operation):
    """Scaled dot-product attention of all heads, where each query sees the keys of its own sentence (3.2.2).

    Inputs: features with the queries [batch, n, ...], and features with keys and values [batch, m, ...]. The batch has
    one row. Then for each query the span of keys that it sees [2, n], and for each key the span of queries that see it
    [2, m]. A span is an index and the index after the last one. If `causal`, a query sees no key after its own index.
    Result: [batch, n, h·d_v]. The costs are not counted, because they depend on the lengths of the sentences.
    """

    heads: HeadColumns
    scale: float
    causal: bool

    code = "packed_attention({all}, {self.heads!r}, {self.scale!r}, {self.causal})"
    calls = ("compiler.fused.packed_attention", "compiler.operations.attention.HeadColumns")
    caption = ("attention", "Multi-head attention")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        q, kv, spans, readers = inputs
        two = Size.of(2)
        require(spans.shape == (two, q.shape[1]) and readers.shape == (two, kv.shape[1]), self, *inputs)
        return ValueType((*q.shape[:2], Size.of(self.heads.count * self.heads.d_v)))


@dataclass(frozen=True)
class ResidualNorm(KernelOperation, LayerNorm):
    """LayerNorm(x + Dropout(y + c)) (3.1, 5.4). Inputs: x, y if `residual`, and the seed if there is dropout.

    Parameters: gain, bias, and the vector c if y is a product without the bias that it has in the spec.
    """

    residual: bool = True

    dropout: float = 0.0
    site: int = 0

    calls = ("compiler.fused.residual_norm",)
    float32_parameters = True

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, y = inputs[0], inputs[1 : 1 + self.residual]
        require(all(value == x for value in y) and len(parameters) <= 2 + len(y), self, *inputs)
        return super().infer([x], parameters[:2])

    def arguments(self, inputs: Expressions, parameters: Expressions) -> str:
        """Return the arguments of a call without those of dropout."""
        y = inputs[1] if self.residual else None
        gain, bias, *c = parameters
        return f"{inputs[0]}, {y}, {c[0] if c else None}, {gain}, {bias}, {self.epsilon!r}"

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        values = self.arguments(inputs, parameters)
        if not self.dropout:
            return f"residual_norm({values})"
        return f"residual_norm({values}, {self.dropout!r}, {inputs[-1]}, w.dropout_key + {self.site}, w.training)"


@dataclass(frozen=True)
class SeededDropout(Dropout):
    """Dropout whose mask depends only on the seed of the step (5.4). Inputs: x, and the seed."""

    site: int = 0

    code = "seeded_dropout({0}, {self.dropout!r}, {1}, w.dropout_key + {self.site}, w.training)"
    calls = ("compiler.fused.seeded_dropout",)


@dataclass(frozen=True)
class LinearRelu(KernelOperation, Linear):
    """max(0, x W + b): x [..., i], W [i, o], b [o] -> [..., o] (3.3)."""

    is_relu = True
    code = "linear_relu({0}, {1}, {2})"
    calls = ("compiler.fused.linear_relu",)
    emit = Operation.emit


@dataclass(frozen=True)
class PackedPositions(PositionalEncoding):
    """Add sinusoids (3.5) from a table: x [batch, n, d], positions below n [batch, n] -> [batch, n, d]."""

    code = "{0} + packed_sinusoids({all}, {self.halves}, {self.first})"
    calls = ("compiler.fused.packed_sinusoids",)
    emit = Operation.emit


@dataclass(frozen=True)
class WholeCrossEntropy(ChunkedCrossEntropy):
    """Pre-softmax projection and cross entropy in one operation, with all logits in memory (5.4).

    Inputs and result are those of `ChunkedCrossEntropy`.
    """

    calls = ("compiler.fused.whole_loss",)
    caption = ("softmax", "Cross entropy,")

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        return super().emit(context, inputs, parameters).replace("chunked_loss", "whole_loss")
