"""Multi-head attention (3.2, Figure 2): self-attention in both stacks, cross-attention from decoder to encoder."""

from __future__ import annotations

from compiler.builder import Value
from compiler.graph import Purpose
from compiler.lower.context import LayerContext
from compiler.operations.attention import Attention, AttentionWeights, WeightedSum
from compiler.operations.cache import AppendToCache
from compiler.operations.mask import CausalMask, UnwrittenMask
from compiler.operations.projection import Linear
from compiler.operations.views import MergeHeads, SplitHeads
from compiler.size import PAST
from compiler.weights import Initializer
from specs import Architecture, CrossAttention, SelfAttention


def self_attention(x: Value, sublayer: SelfAttention, context: LayerContext) -> Value:
    """Let every position attend to all positions of its sequence or, in the decoder, to itself and those before it."""
    heads = MultiHeadAttention(context)
    query, key, value = heads.project(x, x)
    if context.position is not None:
        key, value, hidden = heads.cached(key, value, context.position)
    elif context.causal:
        hidden = context.builder.shared("causal", CausalMask(), (context.tokens,), context.tokens)
    else:
        hidden = context.padding(context.tokens)
    return heads.attend(query, key, value, hidden)


def cross_attention(y: Value, sublayer: CrossAttention, context: LayerContext) -> Value:
    """Let every target position attend to all source positions that are not padding."""
    assert context.memory is not None
    assert context.source is not None
    heads = MultiHeadAttention(context)
    return heads.attend(*heads.project(y, context.memory), context.padding(context.source))


def attention_scale(architecture: Architecture) -> float:
    """Return the factor of dot products: 1 / sqrt(d_k) in scaled dot-product attention (3.2.1), else 1."""
    return float(architecture.d_k**-0.5) if architecture.attention_score == "scaled_dot_product" else 1.0


class MultiHeadAttention:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W_O with head_i = Attention(Q W_Q, K W_K, V W_V) (3.2.2)."""

    def __init__(self, context: LayerContext) -> None:
        self.b, self.a = context.builder, context.architecture
        self.scale = attention_scale(self.a)

    def project(self, x: Value, memory: Value) -> tuple[Value, Value, Value]:
        """Return queries of x, keys and values of the memory, each split into heads: [batch, h, length, d_k or d_v]."""
        a = self.a
        projections = (("query", x, a.d_k), ("key", memory, a.d_k), ("value", memory, a.d_v))
        query, key, value = (
            self.b.node(f"{name}_heads", SplitHeads(a.h), (self._linear(name, source, a.h * width),))
            for name, source, width in projections
        )
        return query, key, value

    def attend(self, query: Value, key: Value, value: Value, hidden: Value) -> Value:
        """Return the attention of all heads, merged and projected by W_O: [batch, length, d_model].

        For the purpose ATTEND the weights become an output, named after the sub-layer.
        """
        if self.b.purpose is not Purpose.ATTEND:
            attention = Attention(self.scale, self.a.attention_dropout)
            return self.merge(self.b.node("context", attention, (query, key, value, hidden), *self.score_vector()))
        weights = self.b.node("weights", AttentionWeights(self.scale), (query, key, hidden), *self.score_vector())
        self.b.output(self.b.path, weights)
        return self.merge(self.b.node("context", WeightedSum(), (weights, value)))

    def merge(self, heads: Value) -> Value:
        """Return the concatenated heads times W_O: [batch, length, d_model]."""
        return self._linear("output", self.b.node("merged", MergeHeads(), (heads,)), self.a.d_model)

    def cached(self, key: Value, value: Value, position: Value) -> tuple[Value, Value, Value]:
        """Return keys and values of all positions so far, and the mask of cache slots that hold none of the row."""
        (keys, all_keys), (_, all_values) = self._append("keys", key), self._append("values", value)
        hidden = self.b.shared("unwritten", UnwrittenMask(), (position, keys), keys.type.shape[2])
        return all_keys, all_values, hidden

    def _append(self, name: str, new: Value) -> tuple[Value, Value]:
        """Return the cache of earlier steps, and the cache with the new positions."""
        batch, heads, _, width = new.type.shape
        before = self.b.state(name, batch, heads, PAST, width)
        grown = self.b.node(f"grown_{name}", AppendToCache(), (before, new))
        self.b.update_state(before, grown, length_axis=2)
        return before, grown

    def score_vector(self) -> list[str]:
        """Return the parameter v [h, d_k] if attention is additive."""
        additive = self.a.attention_score == "additive"
        return [self.b.parameter("score", self.a.h, self.a.d_k)] if additive else []

    def _linear(self, name: str, x: Value, width: int) -> Value:
        """Project x, without a bias as in the paper (3.2.2) or, if the spec asks for it, with one."""
        initial = Initializer.MATRIX if name == "output" else Initializer.PROJECTION
        matrix = self.b.parameter(name, x.width, width, initial=initial)
        bias = [self.b.parameter(f"{name}_bias", width, initial=Initializer.ZERO)] if self.a.projection_bias else []
        return self.b.node(name, Linear(), (x,), matrix, *bias)
