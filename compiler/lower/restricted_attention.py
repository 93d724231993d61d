"""Self-attention restricted to a neighbourhood of each position (4), for inputs that are long."""

from __future__ import annotations

from compiler.builder import Value
from compiler.graph import Purpose
from compiler.lower.attention import Heads, padding
from compiler.lower.surroundings import Surroundings
from compiler.operations.attention import Attention
from compiler.operations.mask import DistanceMask, WindowMask
from compiler.operations.restricted import RestrictedAttention
from specs import RestrictedAttention as Restricted


def restricted_attention(x: Value, of: Restricted, around: Surroundings) -> Value:
    """Every position looks at those within the radius, in the decoder at those before it alone."""
    heads, b, a = Heads(around.builder, around.architecture), around.builder, around.architecture
    query, key, value = heads.split(x, x)
    if b.purpose is Purpose.ATTEND:
        far = DistanceMask(of.radius, 0 if around.causal else of.radius)
        return heads.joined(query, key, value, b.shared("far", far, (around.tokens,), (around.tokens, of)))
    if around.position is None:
        mask = () if around.causal else (padding(b, around.tokens),)
        attention = RestrictedAttention(of.radius, around.causal, heads.scale, dropout=a.attention_dropout)
        return heads.merged(b.node("context", attention, (query, key, value, *mask), *heads.vector()))
    # A step carries the keys and values of the last positions, as many as are in reach.
    keys, values = (around.last(name, new, of.radius) for name, new in (("keys", key), ("values", value)))
    hidden = b.shared("outside", WindowMask(of.radius), (around.position, keys.before), of)
    attend = Attention(heads.scale, dropout=a.attention_dropout)
    return heads.merged(b.node("context", attend, (query, keys.all, values.all, hidden), *heads.vector()))
