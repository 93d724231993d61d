"""Convolutions (Table 1): contiguous as in ConvS2S, dilated as in ByteNet."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lower.attention import padding
from compiler.lower.surroundings import Surroundings
from compiler.operations.convolution import Convolution as Convolving
from compiler.operations.convolution import Unpadded
from compiler.operations.residual import Relu
from compiler.weights import Initial
from specs import Convolution


def convolution(x: Value, of: Convolution, around: Surroundings) -> Value:
    """max(0, x * W + b): every position reads k of them around it, in the decoder itself and those before it."""
    b, width = around.builder, x.width
    dilation = of.kernel**around.number if of.dilated else 1
    kernel = b.parameter("kernel", of.kernel, width, width)
    bias = b.parameter("bias", width, initial=Initial.ZERO)
    return b.node("active", Relu(), (convolved(x, Convolving, of.kernel, dilation, around, kernel, bias),))


def convolved(x: Value, kind: type[Convolving], k: int, dilation: int, around: Surroundings, *parameters: str) -> Value:
    """Centred where the positions after one are known, else over those before it; a step carries the last of them."""
    b = around.builder
    if around.position is not None:
        return b.node(
            "convolved", kind(0, 0, dilation), (around.last("inputs", x, (k - 1) * dilation).all,), *parameters
        )
    if around.causal:
        return b.node("convolved", kind(k - 1, 0, dilation), (x,), *parameters)
    x = b.node("unpadded", Unpadded(), (x, padding(b, around.tokens)))
    return b.node("convolved", kind((k - 1) // 2, k // 2, dilation), (x,), *parameters)
