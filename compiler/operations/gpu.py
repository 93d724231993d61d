"""Operations with fused GPU kernels, for training updates and beam search steps.

An update trains on packed rows (see `compiler.update`). Its operations draw dropout masks from the seed of the step,
and `site` distinguishes the dropout operations in one layer. A beam search step works on slots (see `compiler.slots`).
"""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.instruction import ActivationKind
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
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.operations.probability import ChunkedCrossEntropy
from compiler.operations.projection import Linear
from compiler.operations.views import Slice
from compiler.size import ONE, Size, product

if TYPE_CHECKING:
    from torch import Tensor


class KernelOperation:
    """Base class for operations that have a GPU kernel, but no reference implementation for the interpreter.

    A kernel computes exactly one operation, or one sequence of operations. The passes that insert kernel operations
    therefore check the classes of the operations to replace. Kernel operations occur only in graphs for packed rows
    (see `compiler.passes.pack_rows`) or slots (see `compiler.slots`). Tests compare the results of such a graph with
    the results of the equivalent graph for padded batches, which the interpreter can run.
    """

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no reference: interpret a graph with another purpose")


class PackedAttention(KernelOperation, Operation):
    """Scaled dot-product attention of all heads, where each query sees the keys of its own sentence (section 3.2.2).

    Inputs: features with the queries [batch, n, ...], and features with keys and values [batch, m, ...]. The batch has
    one row. Further inputs: the span of keys that each query sees [2, n], and the span of queries that see each key
    [2, m]. A span is a first index and an exclusive end index. If `causal`, a query sees no key after its own index.
    Result: [batch, n, h·d_v]. FLOPs are not counted, because they depend on the lengths of the sentences.
    """

    heads: HeadColumns
    scale: float
    causal: bool

    code = "cuda.attention.packed_attention({all}, {self.heads!r}, {self.scale!r}, {self.causal})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        q, kv, spans, readers = inputs
        two = Size.of(2)
        require(spans.shape == (two, q.shape[1]) and readers.shape == (two, kv.shape[1]), self, *inputs)
        return ValueType((*q.shape[:2], Size.of(self.heads.count * self.heads.d_v)))


class PackedSsru(KernelOperation, Operation):
    """Simpler simple recurrent unit (Kim et al. 2019) whose state is 0 before the first token of each sentence.

    Inputs: gate and z [batch, n, d] (see `Ssru`), and the span of each token's sentence [2, n]. The batch has one row.
    A span is a first index and an exclusive end index. Result: the states c at all positions, [batch, n, d].
    """

    code = "cuda.recurrence.packed_ssru({all})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        gate, value, spans = inputs
        require(gate == value and spans.shape == (Size.of(2), value.shape[1]), self, *inputs)
        return value


class ResidualNorm(KernelOperation, LayerNorm):
    """LayerNorm(x + Dropout(y + c)) (sections 3.1 and 5.4).

    Inputs: x, then y (only if `residual`), then the random seed (only with dropout). Parameters: gain, bias, and
    optionally c, the bias of the matrix product that computes y.
    """

    residual: bool = True

    dropout: float = 0.0
    site: int = 0

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, y = inputs[0], inputs[1 : 1 + self.residual]
        require(all(value == x for value in y) and len(parameters) <= 2 + len(y), self, *inputs)
        return super().infer([x], parameters[:2])

    def arguments(self, inputs: Expressions, parameters: Expressions) -> str:
        """Return the arguments of the kernel call in emitted code, except the dropout arguments."""
        y = inputs[1] if self.residual else None
        gain, bias, *c = parameters
        return f"{inputs[0]}, {y}, {c[0] if c else None}, {gain}, {bias}, {self.epsilon!r}"

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        values = self.arguments(inputs, parameters)
        if not self.dropout:
            return f"cuda.norms.residual_norm({values})"
        dropout = f"{self.dropout!r}, {inputs[-1]}, w.dropout_key + {self.site}, w.training"
        return f"cuda.norms.residual_norm({values}, {dropout})"


class SeededDropout(Dropout):
    """Dropout whose mask depends only on the random seed for the training step (section 5.4). Inputs: x, the seed."""

    site: int = 0

    code = "cuda.norms.seeded_dropout({0}, {self.dropout!r}, {1}, w.dropout_key + {self.site}, w.training)"


class LinearRelu(KernelOperation, Linear):
    """Linear map with ReLU, max(0, x W + b): x [..., i], W [i, o], b [o] -> [..., o] (section 3.3)."""

    activation = ActivationKind.RELU
    code = "cuda.norms.linear_relu({0}, {1}, {2})"
    emit = Operation.emit


class PackedPositions(PositionalEncoding):
    """Addition of sinusoidal encodings (section 3.5) from a table.

    x [batch, n, d], positions [batch, n] -> [batch, n, d]. All positions are less than n.
    """

    code = "{0} + functional.embedding({1}, layers.sinusoids({0}, halves={self.halves}, first={self.first}))"
    emit = Operation.emit


class WholeCrossEntropy(ChunkedCrossEntropy):
    """Pre-softmax projection and cross entropy in one operation, with all logits in memory (section 5.4).

    Its inputs and result are the same as in `ChunkedCrossEntropy`.
    """

    function = "cuda.losses.whole_loss"

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return product(inputs[1].shape) * parameters[0][0]  # the logits, which their gradients overwrite


class SlotEmbedding(KernelOperation, Operation):
    """Embedding of each hypothesis's last token, plus its positional encoding (sections 3.4 and 3.5).

    Input: the slots, which contain the beam search states (see `compiler.slots`). Parameters: table [V, d], and
    optionally learned positions. Result: [rows, 1, d]. If `positions` is None, no encodings are added.
    """

    rows: Size
    scale: float
    positions: PositionalEncoding | None

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        return ValueType((self.rows, ONE, parameters[0][1]))

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (slots,), (table, *learned) = inputs, parameters
        positions = learned[0] if learned else None
        if self.positions and not learned:
            options = f"{self.positions.halves}, {self.positions.first}"
            positions = f"layers.sinusoid_table({slots}.layout.capacity, {table}, {options})"
        return f"cuda.search.embed({slots}, {table}, {self.scale!r}, {positions})"


class SlotSelfAttention(KernelOperation, Operation):
    """Self-attention in a decoder step. It also writes the new keys and values to the cache, in place.

    Inputs: a tensor that contains queries, keys and values [rows, 1, ...], the cache, and the slots,
    which contain the beam search states (see `compiler.slots`). Result: [rows, 1, h·d_v].
    """

    heads: HeadColumns
    scale: float

    code = "cuda.search.attend_cache({all}, {self.heads!r}, {self.scale!r})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        return ValueType((*inputs[0].shape[:2], Size.of(self.heads.count * self.heads.d_v)))


class SlotCrossAttention(SlotSelfAttention):
    """Cross-attention in a decoder step. The slots contain its keys and values, projected from the encoder output.

    Inputs: a tensor that contains queries [rows, 1, ...], and the slots (see `compiler.slots`). Result:
    [rows, 1, h·d_v].
    """

    code = "cuda.search.attend_memory({all}, {self.heads!r}, {self.scale!r})"


class StepLinear(KernelOperation, Linear):
    """Linear map x W [+ b] in a decoder step, or max(0, x W + b) if `relu`: x [rows, 1, i] -> [rows, 1, o]."""

    relu: bool = False

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        matrix, *bias = parameters
        return f"cuda.products.step_linear({inputs[0]}, {matrix}, {bias[0] if bias else None}, {self.relu})"


class NormLinear(KernelOperation, Operation):
    """Norm in a decoder step, and the matrix product that follows it.

    The inputs are the inputs of `norm`. The parameters of `norm` come first, followed by the parameters of `product`.
    The result is the concatenation of the norm and the product: [rows, 1, i + o]. In emitted code, the result is a
    tuple, and `Part` selects from it.
    """

    norm: ResidualNorm
    product: StepLinear
    norm_parameters: int

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        normed = self.norm.infer(inputs, parameters[: self.norm_parameters])
        product = self.product.infer([normed], parameters[self.norm_parameters :])
        return ValueType((*normed.shape[:-1], normed.shape[-1] + product.shape[-1]))

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        matrix, *bias = parameters[self.norm_parameters :]
        values = self.norm.arguments(inputs, parameters[: self.norm_parameters])
        return f"cuda.products.norm_linear({values}, {matrix}, {bias[0] if bias else None}, {self.product.relu})"


class Part(Slice):
    """Norm or product from the result of a `NormLinear`."""

    index: int = 0

    def sliced_range(self) -> None:
        """Return None, because the input is a tuple in emitted code, not a tensor that can be sliced."""

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        return f"{inputs[0]}[{self.index}]"


class SlotParents(KernelOperation, Operation):
    """Row of each hypothesis's parent in the previous step: [rows].

    Input: the slots (see `compiler.slots`).
    """

    rows: Size

    code = "{0}.parents()"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        return ValueType((self.rows,), ValueKind.INTEGER)


class ReadState(KernelOperation, Operation):
    """Previous state of each hypothesis, such as a recurrent state. Inputs: the state buffer, row indices.

    The buffer has one more row than there are hypotheses. This last row is zero: the state before the first token.
    """

    code = "{0}.index_select(0, {1})"


class WriteState(KernelOperation, Operation):
    """Copy of each hypothesis's state into a buffer. Inputs: the buffer, modified in place, and the state."""

    code = "{0}[:-1].copy_({1})"
