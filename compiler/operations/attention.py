"""Attention on split heads: multi-head attention (section 3.2) and restricted self-attention (section 4)."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from compiler.instruction import Unsupported
from compiler.operations.mask import DistanceMask
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    ReceptiveField,
    Shape,
    Tensors,
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.operations.projection import scaled
from compiler.size import ONE, Size, product, rounded_up

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.native_codegen import NativeCodeGenerator
    from compiler.operations.operation import Node

MIN_BLOCK_LENGTH = 16
"""Minimum number of queries in a block of restricted attention. Matrix products with fewer rows are inefficient."""


@dataclass(frozen=True)
class HeadColumns:
    """Head counts and widths, and the column offsets of queries, keys and values in the projections' outputs."""

    count: int
    kv_count: int
    d_k: int
    d_v: int
    query: int
    key: int
    value: int

    def parts(self, q: Tensor, kv: Tensor) -> tuple[tuple[Tensor, int], ...]:
        """Return (queries, d_k), (keys, d_k) and (values, d_v). Each tensor is a slice [..., heads · width]."""
        queries = q[..., self.query : self.query + self.count * self.d_k], self.d_k
        keys = kv[..., self.key : self.key + self.kv_count * self.d_k], self.d_k
        return queries, keys, (kv[..., self.value : self.value + self.kv_count * self.d_v], self.d_v)


class AttentionWeights(Operation):
    """Attention weights softmax(scale · Q Kᵀ + bias, masked), for graphs that return these weights to the caller.

    Inputs: Q [batch, h, n, d_k], K [batch, kv_heads, m, d_k], masks, and, if `biased`, a bias to add to the scores.
    Result: [batch, h, n, m], always in float32. The weights of a query sum to 1, and hidden keys have weight 0. If
    there is a parameter v [h, d_k], the scores are additive (see `Attention`).
    """

    scale: float
    groups: int = field(default=1, kw_only=True)
    """Number of consecutive query heads that share one key-value head (Ainslie et al. 2023)."""
    biased: bool = field(default=False, kw_only=True)
    """Whether the last input is a bias that is added to the scores: [batch or 1, h, n or 1, m]."""

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        query, key, *added = inputs
        heads = (query.shape[0], key.shape[1] * self.groups)
        require(query.shape[:2] == heads and query.shape[0] == key.shape[0], self, query, key)
        require(query.shape[3] == key.shape[3], self, query, key)
        additive = parameters == ((query.shape[1], query.shape[3]),) and self.scale == 1.0 and self.groups == 1
        require(not parameters or additive, self, query)
        kinds = [ValueKind.MASK] * (len(added) - self.biased) + [ValueKind.BIAS] * self.biased
        for value, kind in zip(added, kinds, strict=True):
            sizes = zip(value.shape, (*query.shape[:3], key.shape[2]), strict=True)
            fits = all(size in (whole, ONE) for size, whole in sizes) and value.shape[3] == key.shape[2]
            require(value.kind is kind and fits, self, query, key, value)
        return ValueType((*query.shape[:3], key.shape[2]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        query, key, *added = inputs
        masks, bias = self._split_added(added)
        key = key.repeat_interleave(self.groups, dim=1)
        if parameters:
            weights = (parameters[0][:, None, None] * (query[:, :, :, None] + key[:, :, None]).tanh()).sum(-1)
        else:
            weights = query @ key.mT * self.scale
        weights = weights if bias is None else weights + bias
        for mask in masks:
            weights = weights.masked_fill(mask, -math.inf)
        return weights.softmax(-1)

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        query, key, *added = inputs
        masks, bias = self._split_added(added)
        scores = self._emit_scores(query, key, parameters)
        scores = f"{scores} + {bias}" if bias else scores
        scores = f"({scores}).masked_fill({' | '.join(masks)}, -math.inf)" if masks else scores
        return f"torch.softmax({scores}, dim=-1, dtype=torch.float32)"

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        query, key, *_ = inputs
        return 2 * product(query.shape) * key.shape[2]

    def _split_added(self, added: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        """Split the additional inputs into the masks and the bias, which is None if there is no bias."""
        return (added[:-1], added[-1]) if self.biased else (added, None)

    def _emit_scores(self, query: str, key: str, parameters: Expressions) -> str:
        if parameters:
            return f"attention.additive_scores({query}, {key}, {parameters[0]})"
        if self.groups > 1:
            return f"attention.grouped_product({scaled(query, self.scale)}, {key}.mT)"
        return f"{scaled(query, self.scale)} @ {key}.mT"


class Attention(AttentionWeights):
    """Scaled dot-product attention, softmax(scale · Q Kᵀ + bias, masked) V (section 3.2.1), or additive attention.

    Inputs: Q [batch, h, n, d_k], K [batch, kv_heads, m, d_k], V [batch, kv_heads, m, d_v], masks that hide keys,
    and, if `biased`, a bias to add to the scores. Result: [batch, h, n, d_v]. Dropout applies to the weights after the
    softmax. If there is a parameter v [h, d_k], the score of a query and a key is v · tanh(query + key), and the
    scale is 1.
    """

    dropout: float = 0.0
    one_kernel: bool = False
    """Whether the emitted code calls scaled_dot_product_attention, which never stores all attention weights."""

    is_attention = True

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        query, key, value, *added = inputs
        weights = super().infer([query, key, *added], parameters)
        require(value.shape[:3] == key.shape[:3], self, *inputs)
        return ValueType((*weights.shape[:3], value.shape[3]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        query, key, value, *added = inputs
        weights = super().interpret([query, key, *added], parameters)
        return weights @ value.repeat_interleave(self.groups, dim=1)

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        query, key, value, *added = inputs
        masks, bias = self._split_added(added)
        hidden = " | ".join(masks)
        if self.one_kernel:
            options = (f", bias={bias}" if bias else "") + (", grouped=True" if self.groups > 1 else "")
            return f"attention.fused_attention({query}, {key}, {value}, {hidden or None}, {self.scale!r}{options})"
        weights = context.temporary("weights")
        context.statements.append(f"{weights} = {self._emit_scores(query, key, parameters)}")
        if bias:
            context.statements.append(f"{weights} = {weights} + {bias}")
        if hidden:
            context.statements.append(f"{weights} = {weights}.masked_fill({hidden}, -math.inf)")
        # A bias that is computed from distances is float32, even if the weights of the model are bfloat16.
        converted = f".to({value}.dtype)" if bias else ""
        context.statements.append(f"{weights} = torch.softmax({weights}, dim=-1){converted}")
        if self.dropout:
            context.statements.append(f"{weights} = layers.dropout({weights}, {self.dropout!r}, w.training)")
        return f"attention.grouped_product({weights}, {value})" if self.groups > 1 else f"{weights} @ {value}"

    def with_one_kernel(self, parameters: Sequence[str]) -> Attention:
        """Return the variant with one fused kernel, or this operation if it has dropout or additive scores."""
        return self if self.dropout or parameters else replace(self, one_kernel=True)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        if node.parameters:
            raise Unsupported("it has no instruction for additive attention")
        codegen.attention(node, self.scale, biased=self.biased)

    def receptive_field(self) -> ReceptiveField:
        return ReceptiveField(None, None, inputs=(1, 2))

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        query, key, value, *_ = inputs
        return 2 * product(query.shape[:3]) * key.shape[2] * (key.shape[3] + value.shape[3])

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        if self.one_kernel:
            return product(inputs[0].shape[:3])  # the log-sum-exp of each query's scores
        weights = product(inputs[0].shape[:3]) * inputs[1].shape[2]
        # The scaled query, or the tanh of an additive score. Dropout adds its mask and the weights after dropout.
        inner = weights * inputs[0].shape[3] if parameters else product(inputs[0].shape)
        return inner + weights * (3 if self.dropout else 1)

    def memory_traffic(self, inputs: ValueTypes, result: ValueType, weight_bytes: Size, float_bytes: int) -> Size:
        total = super().memory_traffic(inputs, result, weight_bytes, float_bytes)
        if self.one_kernel:
            return total
        # The attention weights are written, then read.
        return total + 2 * float_bytes * product(inputs[0].shape[:3]) * inputs[1].shape[2]


class WeightedSum(Operation):
    """Attention output: the sum of the values, weighted by the attention weights.

    weights [batch, h, n, m], V [batch, kv_heads, m, d_v] -> [batch, h, n, d_v].
    """

    code = "attention.grouped_product({0}.to({1}.dtype), {1})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        weights, value = inputs
        heads, groups = weights.shape[1].constant, value.shape[1].constant
        fits = weights.shape[0] == value.shape[0] and heads % groups == 0 and weights.shape[3] == value.shape[2]
        require(fits, self, *inputs)
        return ValueType((*weights.shape[:3], value.shape[3]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        weights, value = inputs
        return weights @ value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        weights, value = inputs
        return 2 * product(weights.shape) * value.shape[3]


class RestrictedAttention(Operation):
    """Self-attention restricted to `before` positions before the query and `after` after it (section 4).

    Inputs: Q [batch, h, n, d], K and V [batch, kv_heads, n, d], and an optional padding mask [batch, 1, 1, n].
    Parameters: an optional vector v [h, d] for additive scores. A query always sees itself, because a query at a
    padding position might otherwise see no key. Each block of queries is multiplied by one window of keys, which
    contains all keys that the block may see. The cost estimates assume sequences longer than `before`. Shorter
    sequences get full attention, which costs no more.
    """

    before: int
    after: int
    scale: float
    dropout: float = 0.0
    groups: int = 1
    """Number of consecutive query heads that share one key-value head."""

    @property
    def block(self) -> int:
        """Number of queries that share a window of keys."""
        return max(self.before, MIN_BLOCK_LENGTH)

    @property
    def window(self) -> int:
        """Number of keys that a block of queries reads."""
        return self.block + self.before + self.after

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        query, key, value, *padding = inputs
        batch, _, length, _ = query.shape
        hidden = DistanceMask(self.before, self.after).infer([ValueType((batch, length)), *padding], [])
        return Attention(self.scale, groups=self.groups).infer([query, key, value, hidden], parameters)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        """Compute full attention with a mask that hides all keys out of reach."""
        query, key, value, *padding = inputs
        hidden = DistanceMask(self.before, self.after).interpret([query.transpose(1, 2), *padding], [])
        return Attention(self.scale, groups=self.groups).interpret([query, key, value, hidden], parameters)

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        query, key, value, *masks = inputs
        named = {"hidden": masks, "vector": parameters}
        options = "".join(f", {name}={value[0]}" for name, value in named.items() if value)
        if self.dropout:
            options += f", dropped={self.dropout!r} if w.training else 0.0"
        sizes = f"({self.before}, {self.after}), {self.block}, {self.scale!r}"
        return f"attention.restricted_attention({query}, {key}, {value}, {sizes}{options})"

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return 2 * self._weights(inputs) * (inputs[1].shape[3] + inputs[2].shape[3])

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        """Return the number of elements that are saved for the backward pass.

        These are the overlapping windows of keys and values. If there is dropout or the scores are additive, the
        attention weights are also saved. Dropout saves two more tensors of the same size as the weights. Additive
        scores save tanh(query + key).
        """
        batch, heads, length, width = inputs[0].shape
        overlap = -(-self.window // self.block)
        saved = batch * heads * rounded_up(length, self.block) * (width + inputs[2].shape[3]) * overlap
        if not (parameters or self.dropout):
            return saved
        weights = self._weights(inputs)
        return saved + weights * (3 if self.dropout else 1) + (weights * width if parameters else Size())

    def _weights(self, inputs: ValueTypes) -> Size:
        batch, heads, length, _ = inputs[0].shape
        return product((batch, heads, rounded_up(length, self.block))) * self.window

    def receptive_field(self) -> ReceptiveField:
        return ReceptiveField(self.before, self.after, inputs=(1, 2))

    def is_exportable(self, inputs: ValueTypes) -> bool:
        """Return False, because short sequences (one block of queries) and long sequences run different code."""
        return False
