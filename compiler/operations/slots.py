"""Operations of a decoder step whose hypotheses are in slots: each has a kernel for GPUs (see `compiler.slots`)."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.operations.attention import HeadColumns
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    Shape,
    ValueKind,
    ValueType,
    ValueTypes,
)
from compiler.operations.packed import KernelOperation, ResidualNorm
from compiler.operations.projection import Linear
from compiler.operations.views import Slice
from compiler.size import ONE, Size

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class SlotEmbedding(KernelOperation, Operation):
    """Embed the last token of each hypothesis, and add the encoding of its position (3.4, 3.5).

    Input: the slots. Parameters: table [V, d], and the learned positions if there are any. Result: [rows, 1, d].
    `kind` is "sinusoids", "halves" (see `PositionalEncoding`), "learned" or "none".
    """

    rows: Size
    scale: float
    kind: str
    first: int = 0

    calls = ("compiler.slots.slot_embedding", "compiler.runtime.sinusoid_table")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        return ValueType((self.rows, ONE, parameters[0][1]))

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (slots,), (table, *learned) = inputs, parameters
        sinusoids = f"sinusoid_table({slots}.layout.capacity, {table}, {self.kind == 'halves'}, {self.first})"
        positions = {"learned": learned[0] if learned else None, "none": None}.get(self.kind, sinusoids)
        return f"slot_embedding({slots}, {table}, {self.scale!r}, {positions})"


@dataclass(frozen=True)
class SlotSelfAttention(KernelOperation, Operation):
    """Self-attention of a decoder step. Its keys and values are written to the cache, an input that changes in place.

    Inputs: features with queries, keys and values [rows, 1, ...], the cache, and the slots. Result: [rows, 1, h·d_v].
    """

    heads: HeadColumns
    scale: float

    code = "slot_self_attention({all}, {self.heads!r}, {self.scale!r})"
    calls = ("compiler.slots.slot_self_attention", "compiler.operations.attention.HeadColumns")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        return ValueType((*inputs[0].shape[:2], Size.of(self.heads.count * self.heads.d_v)))


class SlotCrossAttention(SlotSelfAttention):
    """Attention to the memory in a decoder step. The memory is in the slots, projected to keys and values.

    Inputs: features with queries [rows, 1, ...], and the slots. Result: [rows, 1, h·d_v].
    """

    code = "slot_cross_attention({all}, {self.heads!r}, {self.scale!r})"
    calls = ("compiler.slots.slot_cross_attention", "compiler.operations.attention.HeadColumns")


@dataclass(frozen=True)
class StepLinear(KernelOperation, Linear):
    """Product x W [+ b] of all hypotheses in a decoder step, or max(0, x W + b): x [rows, 1, i] -> [rows, 1, o]."""

    relu: bool = False

    calls = ("compiler.fused.step_linear",)

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        matrix, *bias = parameters
        return f"step_linear({inputs[0]}, {matrix}, {bias[0] if bias else None}, {self.relu})"


@dataclass(frozen=True)
class NormLinear(KernelOperation, Operation):
    """A norm of a decoder step, and the product that follows it.

    The inputs are the inputs of `norm`. The parameters are the parameters of `norm`, then those of `product`. The
    result is both next to each other, [rows, 1, i + o]. In emitted code, it is a tuple, from which `Part` selects.
    """

    norm: ResidualNorm
    product: StepLinear
    norm_parameters: int

    calls = ("compiler.fused.norm_linear",)

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        normed = self.norm.infer(inputs, parameters[: self.norm_parameters])
        product = self.product.infer([normed], parameters[self.norm_parameters :])
        return ValueType((*normed.shape[:-1], normed.shape[-1] + product.shape[-1]))

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        matrix, *bias = parameters[self.norm_parameters :]
        values = self.norm.arguments(inputs, parameters[: self.norm_parameters])
        return f"norm_linear({values}, {matrix}, {bias[0] if bias else None}, {self.product.relu})"


@dataclass(frozen=True)
class Part(Slice):
    """Select the norm or the product of a `NormLinear`."""

    index: int = 0

    def sliced_range(self) -> None:  # type: ignore[override]
        """Return None, because the emitted value is a tuple, which nothing may slice or split."""

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        return f"{inputs[0]}[{self.index}]"


@dataclass(frozen=True)
class SlotParents(KernelOperation, Operation):
    """For each hypothesis, the row of the step before that it continues. Input: the slots. Result: [rows]."""

    rows: Size

    code = "slot_parents({0})"
    calls = ("compiler.slots.slot_parents",)

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        return ValueType((self.rows,), ValueKind.INTEGER)


@dataclass(frozen=True)
class ReadState(KernelOperation, Operation):
    """State that each hypothesis continues, such as that of a recurrence. Inputs: the buffer of the state, the parents.

    The buffer has one row more than there are hypotheses. It is zero: the state before the first token.
    """

    code = "{0}.index_select(0, {1})"


@dataclass(frozen=True)
class WriteState(KernelOperation, Operation):
    """Write the state of each hypothesis to its buffer. Inputs: the buffer, which changes in place, and the state."""

    code = "{0}[:-1].copy_({1})"
