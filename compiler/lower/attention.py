"""Multi-head attention (3.2, Figure 2): of a stack's own positions, and of the decoder's to the memory."""

from __future__ import annotations

from compiler.builder import Builder, Value
from compiler.graph import Purpose
from compiler.lower.surroundings import Surroundings
from compiler.operations.attention import Attention, AttentionWeights, WeightedSum
from compiler.operations.cache import Append
from compiler.operations.mask import CausalMask, PaddingMask, UnwrittenMask
from compiler.operations.projection import Linear
from compiler.operations.views import MergeHeads, SplitHeads
from compiler.size import READ, Size
from compiler.weights import Initial
from specs import Architecture, CrossAttention, SelfAttention


def self_attention(x: Value, of: SelfAttention, around: Surroundings) -> Value:
    """Every position looks at all others, or at those before it."""
    heads = Heads(around.builder, around.architecture)
    query, key, value = heads.split(x, x)
    if around.position is not None:
        key, value, hidden = heads.carried(key, value, around.position)
    elif around.causal:
        hidden = around.builder.shared("causal", CausalMask(), (around.tokens,), around.tokens)
    else:
        hidden = padding(around.builder, around.tokens)
    return heads.joined(query, key, value, hidden)


def cross_attention(y: Value, of: CrossAttention, around: Surroundings) -> Value:
    """Every position of the target looks at the memory, but where that stands for padding."""
    assert around.memory is not None
    assert around.source is not None
    heads = Heads(around.builder, around.architecture)
    return heads.joined(*heads.split(y, around.memory), padding(around.builder, around.source))


def padding(b: Builder, tokens: Value) -> Value:
    return b.shared(f"{tokens.name}_padding", PaddingMask(), (tokens,), tokens)


def scale(a: Architecture) -> float:
    """What dot products are multiplied by (3.2.1)."""
    return float(a.d_k**-0.5) if a.attention_score == "scaled_dot_product" else 1.0


class Heads:
    """The heads of one attention."""

    def __init__(self, b: Builder, a: Architecture) -> None:
        self.b, self.a = b, a

    def split(self, x: Value, memory: Value) -> tuple[Value, Value, Value]:
        """Queries of x, keys and values of the memory, in heads."""
        a = self.a
        widths = (("query", x, a.d_k), ("key", memory, a.d_k), ("value", memory, a.d_v))
        query, key, value = (self._heads(name, of, width) for name, of, width in widths)
        return query, key, value

    def joined(self, query: Value, key: Value, value: Value, hidden: Value) -> Value:
        """Attention in each head, then W_O."""
        return self.merged(self._context(query, key, value, hidden))

    def _context(self, query: Value, key: Value, value: Value, hidden: Value) -> Value:
        """What the heads find; where their weights are asked for, those are a value, which goes out."""
        if self.b.purpose is not Purpose.ATTEND:
            attention = Attention(self.scale, self.a.attention_dropout)
            return self.b.node("context", attention, (query, key, value, hidden), *self.vector())
        weights = self.b.node("weights", AttentionWeights(self.scale), (query, key, hidden), *self.vector())
        self.b.output(self.b.place, weights)
        return self.b.node("context", WeightedSum(), (weights, value))

    def merged(self, context: Value) -> Value:
        """W_O of what the heads found."""
        return self._linear("output", self.b.node("merged", MergeHeads(), (context,)), self.a.d_model)

    @property
    def scale(self) -> float:
        return scale(self.a)

    def carried(self, key: Value, value: Value, position: Value) -> tuple[Value, Value, Value]:
        """Keys and values of all positions up to the new ones, and the mask of those that are not a row's own."""
        keys, values = self.b.state("keys", *self._before(key)), self.b.state("values", *self._before(value))
        hidden = self.b.shared("unwritten", UnwrittenMask(), (position, keys), keys.type.shape[2])
        return self._grown("keys", keys, key), self._grown("values", values, value), hidden

    def _before(self, new: Value) -> tuple[Size, ...]:
        batch, heads, _, width = new.type.shape
        return batch, heads, READ, width

    def _grown(self, name: str, before: Value, new: Value) -> Value:
        grown = self.b.node(f"grown_{name}", Append(), (before, new))
        self.b.carry(before, grown, grows=2)
        return grown

    def _heads(self, name: str, x: Value, width: int) -> Value:
        return self.b.node(f"{name}_heads", SplitHeads(self.a.h), (self._linear(name, x, self.a.h * width),))

    def vector(self) -> list[str]:
        """The weights v of an additive score, one vector a head."""
        additive = self.a.attention_score == "additive"
        return [self.b.parameter("score", self.a.h, self.a.d_k)] if additive else []

    def _linear(self, name: str, x: Value, width: int) -> Value:
        """Without a bias, as the paper has none (3.2.2), or with one."""
        initial = Initial.MATRIX if name == "output" else Initial.PROJECTION
        matrix = self.b.parameter(name, x.width, width, initial=initial)
        bias = [self.b.parameter(f"{name}_bias", width, initial=Initial.ZERO)] if self.a.projection_bias else []
        return self.b.node(name, Linear(), (x,), matrix, *bias)
