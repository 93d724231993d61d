"""Lowering of multi-head attention (section 3.2, Figure 2): self-attention (restricted or not) and cross-attention."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.builder import Value
from compiler.graph import Purpose
from compiler.lowering.context import LayerContext
from compiler.lowering.positions import distance_bias, rotated
from compiler.operations.attention import Attention, AttentionWeights, WeightedSum
from compiler.operations.attention import RestrictedAttention as RestrictedAttentionOperation
from compiler.operations.elementwise import Add
from compiler.operations.mask import CausalMask, DistanceMask, UnwrittenMask, WindowMask
from compiler.operations.operation import ValueKind
from compiler.operations.projection import Linear
from compiler.operations.views import MergeHeads, SplitHeads
from compiler.size import PAST, Size
from compiler.weights import Initializer
from specs import Architecture, CrossAttention, RestrictedAttention, SelfAttention


def self_attention(x: Value, sublayer: SelfAttention, context: LayerContext) -> Value:
    """Return the self-attention of x. In the decoder, a position sees only itself and earlier positions."""
    heads = MultiHeadAttention(context, sublayer)
    query, key, value = heads.project(x)
    cache = None
    if context.position is not None:
        cache, key, value = heads.cached(key, value, PAST)
        hidden = context.builder.shared("unwritten", UnwrittenMask(), (context.position, cache))
    elif context.padding is not None:
        hidden = context.padding
    else:
        hidden = context.builder.shared("causal", CausalMask(), (context.stream,))
    bias = distance_bias(heads.h, cache, context)
    return heads.attend(query, key, value, hidden, *([] if bias is None else [bias]))


def cross_attention(y: Value, sublayer: CrossAttention, context: LayerContext) -> Value:
    """Return the attention of the target positions y to all source positions that are not padding.

    If the spec sets `embedded_queries`, the queries are W_Q (y + g), where g are the target embeddings (Gehring et al.
    2017).
    """
    assert context.memory is not None
    if sublayer.embedded_queries:
        assert context.embedded is not None
        y = context.builder.node("embedded_query", Add(), (y, context.embedded))
    heads = MultiHeadAttention(context, sublayer)
    query, key, value = heads.project(y, context.memory.x)
    if context.guided is not None:
        context.guided.append(heads.weights(query, key, context.memory.padding))
    return heads.attend(query, key, value, context.memory.padding)


def attention_scale(architecture: Architecture, d_k: int) -> float:
    """Return the scale of dot products: 1 / sqrt(d_k) in scaled dot-product attention (section 3.2.1), otherwise 1."""
    return float(d_k**-0.5) if architecture.attention_score == "scaled_dot_product" else 1.0


class MultiHeadAttention:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W_O, head_i = Attention(Q W_Q, K W_K, V W_V) (section 3.2.2).

    If there are fewer key-value heads than query heads, h / kv_heads consecutive query heads share a key-value head.
    """

    def __init__(self, context: LayerContext, sublayer: SelfAttention | CrossAttention | RestrictedAttention) -> None:
        self.b, self.context = context.builder, context
        a = context.architecture
        names = ("h", "d_k", "d_v", "projection_bias", "attention_dropout")
        self.h, self.d_k, self.d_v, self.projection_bias, self.dropout = (a.option(sublayer, name) for name in names)
        self.kv_heads = sublayer.kv_heads or self.h
        self.d_model, self.additive = a.d_model, a.attention_score == "additive"
        self.groups: int = self.h // self.kv_heads
        """Number of query heads that share a key-value head."""
        self.scale = attention_scale(a, self.d_k)

    def project(self, x: Value, memory: Value | None = None) -> tuple[Value, Value, Value]:
        """Return the queries, which are projected from x, and the keys and values, which are projected from `memory`.

        Queries are [batch, h, length, d_k], keys [batch, kv_heads, length, d_k], values [batch, kv_heads, length, d_v].

        Args:
            x: The input of the sub-layer.
            memory: The output of the encoder. None for self-attention, in which keys and values are projected from x.
                If the spec selects rotary position embeddings, self-attention queries and keys are also rotated.
        """
        read = x if memory is None else memory
        projections = (
            ("query", x, self.h, self.d_k),
            ("key", read, self.kv_heads, self.d_k),
            ("value", read, self.kv_heads, self.d_v),
        )
        query, key, value = (
            self.b.node(f"{name}_heads", SplitHeads(heads), (self._linear(name, source, heads * width),))
            for name, source, heads, width in projections
        )
        if memory is None:
            query, key = rotated("query", query, self.context), rotated("key", key, self.context)
        return query, key, value

    def attend(self, query: Value, key: Value, value: Value, *added: Value) -> Value:
        """Return the attention of all heads, merged and projected by W_O: [batch, length, d_model].

        In a graph for the purpose ATTEND, the attention weights also become a graph output, named after the sub-layer.

        Args:
            query: The queries.
            key: The keys.
            value: The values.
            *added: A mask and, if there is one, a bias to add to the scores.
        """
        biased = added[-1].type.kind is ValueKind.BIAS
        if self.b.purpose is not Purpose.ATTEND:
            attention = Attention(self.scale, self.dropout, groups=self.groups, biased=biased)
            return self.merge(self.b.node("context", attention, (query, key, value, *added), *self.score_vector()))
        weights = self.weights(query, key, *added)
        self.b.output(self.b.path, weights)
        return self.merge(self.b.node("context", WeightedSum(), (weights, value)))

    def weights(self, query: Value, key: Value, *added: Value) -> Value:
        """Return the attention weights of all heads: [batch, h, queries, keys]. See `attend` for the arguments."""
        operation = AttentionWeights(self.scale, groups=self.groups, biased=added[-1].type.kind is ValueKind.BIAS)
        return self.b.node("weights", operation, (query, key, *added), *self.score_vector())

    def merge(self, heads: Value) -> Value:
        """Return the concatenated heads times W_O: [batch, length, d_model]."""
        return self._linear("output", self.b.node("merged", MergeHeads(), (heads,)), self.d_model)

    def cached(self, key: Value, value: Value, count: int | Size) -> tuple[Value, Value, Value]:
        """Append the new keys and values to the caches of a decoder step.

        Args:
            key: The new keys.
            value: The new values.
            count: Number of earlier positions that the caches contain, or PAST for all earlier positions.

        Returns:
            The keys of the earlier positions, the keys of the earlier and new positions, and the values of the earlier
            and new positions.
        """
        earlier, keys = self.context.recent("keys", key, count)
        _, values = self.context.recent("values", value, count)
        return earlier, keys, values

    def score_vector(self) -> Sequence[str]:
        """Return a list with the name of the parameter v [h, d_k] for additive attention, otherwise an empty list."""
        return [self.b.parameter("score", self.h, self.d_k)] if self.additive else []

    def _linear(self, name: str, x: Value, width: int) -> Value:
        """Project x to `width` features, with a bias if the spec has `projection_bias` (section 3.2.2)."""
        initial = Initializer.MATRIX if name == "output" else Initializer.PROJECTION
        matrix = self.b.parameter(name, x.width, width, initial=initial)
        bias = [self.b.parameter(f"{name}_bias", width, initial=Initializer.ZERO)] if self.projection_bias else []
        return self.b.node(name, Linear(), (x,), matrix, *bias)


def restricted_attention(x: Value, sublayer: RestrictedAttention, context: LayerContext) -> Value:
    """Return self-attention in which a position sees itself and up to `radius` positions on each side.

    In the decoder, a position does not see later positions.
    """
    heads, b, before = MultiHeadAttention(context, sublayer), context.builder, sublayer.radius
    after = 0 if context.causal else before
    query, key, value = heads.project(x)
    padding = () if context.padding is None else (context.padding,)
    if b.purpose is Purpose.ATTEND:
        hidden = b.shared("far", DistanceMask(before, after), (context.stream, *padding))
        return heads.attend(query, key, value, hidden)
    if context.position is None:
        restricted = RestrictedAttentionOperation(before, after, heads.scale, heads.dropout, heads.groups)
        return heads.merge(b.node("context", restricted, (query, key, value, *padding), *heads.score_vector()))
    # A decoder step keeps only the keys and values of the last `before` positions.
    earlier, key, value = heads.cached(key, value, before)
    hidden = b.shared("outside", WindowMask(before), (context.position, earlier))
    return heads.attend(query, key, value, hidden)
