"""Lowering of ByteNet's residual block: a dilated convolution of fewer features between two linear maps."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lowering.context import LayerContext
from compiler.lowering.convolution import convolve
from compiler.lowering.norm import normalised
from compiler.operations.convolution import Convolution as ConvolutionOperation
from compiler.operations.elementwise import Relu
from compiler.operations.projection import Linear
from compiler.weights import Initializer
from specs import BottleneckConvolution


def bottleneck_convolution(x: Value, sublayer: BottleneckConvolution, context: LayerContext) -> Value:
    """Map x to `d_conv` features, convolve these over positions, and map the result back. ReLU precedes each operation.

    If the spec places norms before sub-layers, a norm precedes each ReLU (Kalchbrenner et al. 2016, figure 3).
    """
    b, width = context.builder, sublayer.d_conv or x.width // 2
    norm = context.architecture.option(sublayer, "norm")
    dilation = sublayer.dilations[context.index % len(sublayer.dilations)]

    def linear(hint: str, x: Value, outer: int) -> Value:
        bias = b.parameter(f"{hint}_bias", outer, initial=Initializer.ZERO)
        return b.node(hint, Linear(), (b.node("active", Relu(), (x,)),), b.parameter(hint, x.width, outer), bias)

    inner = b.node("active", Relu(), (normalised(linear("reduced", x, width), norm, "kernel_norm"),))
    kernel = b.parameter("kernel", sublayer.kernel, width, width)
    bias = b.parameter("bias", width, initial=Initializer.ZERO)
    convolved = convolve(inner, ConvolutionOperation, sublayer.kernel, dilation, context, kernel, bias)
    return linear("expanded", normalised(convolved, norm, "expanded_norm"), x.width)
