"""Lowering of convolutional sub-layers (Table 1): contiguous as in ConvS2S, dilated as in ByteNet, and separable."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lowering.context import LayerContext
from compiler.lowering.norm import normalised
from compiler.operations.convolution import ClearPadding, DepthwiseConvolution
from compiler.operations.convolution import Convolution as ConvolutionOperation
from compiler.operations.elementwise import GatedLinearUnit, Relu
from compiler.operations.projection import Linear
from compiler.weights import Initializer
from specs import BottleneckConvolution, Convolution, SeparableConvolution


def convolution(x: Value, sublayer: Convolution, context: LayerContext) -> Value:
    """Compute max(0, x * W + b), where `*` is a convolution with a kernel of k positions.

    If the convolution is dilated, the positions of the kernel in layer i, counted from 0, are k^i apart. If it is
    gated, the result is (x * V + c) · sigmoid(x * W + b), where one kernel contains V and W.
    """
    b, outer = context.builder, 2 * x.width if sublayer.gated else x.width
    dilation = sublayer.kernel**context.index if sublayer.dilated else 1
    convolved = convolve(x, context, (sublayer.kernel, x.width, outer), dilation)
    return b.node("active", GatedLinearUnit() if sublayer.gated else Relu(), (convolved,))


def convolve(x: Value, context: LayerContext, shape: tuple[int, ...], dilation: int = 1) -> Value:
    """Add a convolution. In the encoder, it is centred on each position. In the decoder, it covers no later position.

    In a decoder step, a state contains the earlier positions that the kernel covers.

    Args:
        x: Input: [batch, length, d_model].
        context: Context of the sub-layer.
        shape: Shape of the kernel: [k, inputs, outputs] or, to convolve each feature separately, [k, features].
        dilation: Distance between adjacent positions of the kernel.
    """
    b, k, depthwise = context.builder, shape[0], len(shape) == 2
    operation = DepthwiseConvolution if depthwise else ConvolutionOperation
    kernel = b.parameter("kernel", *shape, initial=Initializer.KERNEL if depthwise else Initializer.MATRIX)
    parameters = (kernel, b.parameter("bias", shape[-1], initial=Initializer.ZERO))
    if context.position is not None:
        _, recent = context.recent("inputs", x, (k - 1) * dilation)
        return b.node("convolved", operation(0, 0, dilation), (recent,), *parameters)
    if context.padding is None:
        return b.node("convolved", operation(k - 1, 0, dilation), (x,), *parameters)
    x = b.node("unpadded", ClearPadding(), (x, context.padding))
    return b.node("convolved", operation((k - 1) // 2, k // 2, dilation), (x,), *parameters)


def separable_convolution(x: Value, sublayer: SeparableConvolution, context: LayerContext) -> Value:
    """Convolve each feature separately over positions, then mix the features of each position with a linear map."""
    b, width = context.builder, x.width
    depthwise = convolve(x, context, (sublayer.kernel, width))
    matrix = b.parameter("pointwise", width, width)
    matrix_bias = b.parameter("pointwise_bias", width, initial=Initializer.ZERO)
    return b.node("active", Relu(), (b.node("mixed", Linear(), (depthwise,), matrix, matrix_bias),))


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
    convolved = convolve(inner, context, (sublayer.kernel, width, width), dilation)
    return linear("expanded", normalised(convolved, norm, "expanded_norm"), x.width)
