"""What recurrent sub-layers (Table 1) share, as the field had them: a decoder's runs forwards, an encoder's both ways.

A position of an encoder should know what comes after it as well as what came before, or its memory of a sentence's
first words would know nothing of the rest (Bahdanau et al. 2015; the first layer of GNMT, every one of RNMT+). So an
encoder has two recurrences of half the width, their outputs side by side, as OpenNMT's `brnn` has: d_model features
again, and not twice the parameters of the decoder's.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.builder import Value
from compiler.lower.surroundings import Surroundings
from compiler.operations.views import Beside

Draw = Callable[[Value, int, Surroundings, str, tuple[Value, ...]], Value]
"""From x, the width, a prefix of names, and the tokens where it runs backwards."""


def both_ways(x: Value, around: Surroundings, draw: Draw) -> Value:
    """[rows, positions, d_model] -> the same: of a decoder one recurrence, of an encoder two of half the width."""
    if around.causal:
        return draw(x, x.width, around, "", ())
    forwards = draw(x, x.width // 2, around, "forwards_", ())
    backwards = draw(x, x.width - x.width // 2, around, "backwards_", (around.tokens,))
    return around.builder.node("both_ways", Beside(), (forwards, backwards))
