"""Lowering of separable convolutional sub-layers (Table 1), as in Xception."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lowering.context import LayerContext
from compiler.lowering.convolution import convolve
from compiler.operations.convolution import DepthwiseConvolution
from compiler.operations.elementwise import Relu
from compiler.operations.projection import Linear
from compiler.weights import Initializer
from specs import SeparableConvolution


def separable_convolution(x: Value, sublayer: SeparableConvolution, context: LayerContext) -> Value:
    """Convolve each feature separately over positions, then mix the features of each position by a linear map."""
    b, width = context.builder, x.width
    kernel = b.parameter("kernel", sublayer.kernel, width, initial=Initializer.KERNEL)
    bias = b.parameter("bias", width, initial=Initializer.ZERO)
    depthwise = convolve(x, DepthwiseConvolution, sublayer.kernel, 1, context, kernel, bias)
    matrix = b.parameter("pointwise", width, width)
    matrix_bias = b.parameter("pointwise_bias", width, initial=Initializer.ZERO)
    return b.node("active", Relu(), (b.node("mixed", Linear(), (depthwise,), matrix, matrix_bias),))
