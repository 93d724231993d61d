"""Lowering of self-attention restricted to a neighbourhood of each position (4), for long inputs."""

from __future__ import annotations

from compiler.builder import Value
from compiler.graph import Purpose
from compiler.lowering.attention import MultiHeadAttention
from compiler.lowering.context import LayerContext
from compiler.operations.attention import Attention
from compiler.operations.attention import RestrictedAttention as RestrictedAttentionOperation
from compiler.operations.mask import DistanceMask, WindowMask
from specs import RestrictedAttention


def restricted_attention(x: Value, sublayer: RestrictedAttention, context: LayerContext) -> Value:
    """Return self-attention in which a position sees itself and the positions within the radius.

    In the decoder, a position does not see later positions.
    """
    heads, b, radius = MultiHeadAttention(context, sublayer), context.builder, sublayer.radius
    query, key, value = heads.project(x, x)
    query, key = heads.rotate(query, key)
    padding = () if context.padding is None else (context.padding,)
    if b.purpose is Purpose.ATTEND:
        far = DistanceMask(radius, 0 if context.causal else radius)
        inputs, key_of_mask = (context.stream, *padding), (context.stream, sublayer)
        return heads.attend(query, key, value, b.shared("far", far, inputs, key_of_mask))
    if context.position is None:
        restricted = RestrictedAttentionOperation(radius, context.causal, heads.scale, heads.dropout, heads.groups)
        return heads.merge(b.node("context", restricted, (query, key, value, *padding), *heads.score_vector()))
    # A decoder step keeps the keys and values of the last positions, as many as the radius.
    keys, values = (context.recent(name, new, radius) for name, new in (("keys", key), ("values", value)))
    hidden = b.shared("outside", WindowMask(radius), (context.position, keys.before), sublayer)
    attention = Attention(heads.scale, dropout=heads.dropout, groups=heads.groups)
    return heads.merge(b.node("context", attention, (query, keys.all, values.all, hidden), *heads.score_vector()))
