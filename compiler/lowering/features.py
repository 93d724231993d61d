"""Source features: convolutions that shorten sequences of frames, as in speech encoders, or a linear map of patches."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence

from compiler.builder import GraphBuilder, Value
from compiler.operations.convolution import ClearPadding, Convolution
from compiler.operations.elementwise import GatedLinearUnit, Gelu
from compiler.operations.mask import PaddingMask
from compiler.operations.operation import PlainOperation, Shape, ValueKind, ValueType, ValueTypes, require
from compiler.operations.projection import Linear
from compiler.size import BATCH, SOURCE
from compiler.weights import Initializer
from specs import Features


def features(b: GraphBuilder, options: Features, d_model: int) -> tuple[Value, Value]:
    """Return the encoder's input [batch, source, d_model], and the number of positions in each sequence [batch].

    A centred convolution with stride s turns n positions into ⌈n / s⌉. It reads zeros after the end of a sequence, so
    that no result depends on padding. If the options have no convolutions, a linear map projects the features from
    their width to d_model.

    Args:
        b: The graph builder. `source` [batch, frames, width] and `source_length` [batch] are added as graph inputs.
        options: The spec of the source features.
        d_model: The width of the result.
    """
    x = b.input("source", BATCH, SOURCE * options.total_stride, options.width)
    length = b.input("source_length", BATCH, kind=ValueKind.INTEGER)
    if not options.subsampling:
        with b.sublayer("source"):
            bias = b.parameter("bias", d_model, initial=Initializer.ZERO)
            return b.node("source_features", Linear(), (x,), b.parameter("projection", x.width, d_model), bias), length
    outputs = d_model * 2 if options.activation == "glu" else d_model
    for index, convolution in enumerate(options.subsampling):
        with b.sublayer(f"source.{index}", "source_"):
            padding = b.node("frame_padding", PaddingMask(), (length, x))
            kernel = b.parameter("kernel", convolution.kernel, x.width, outputs)
            bias = b.parameter("bias", outputs, initial=Initializer.ZERO)
            side = convolution.kernel // 2
            x = b.node("frames", ClearPadding(), (x, padding))
            x = b.node("convolved", Convolution(side, side, stride=convolution.stride), (x,), kernel, bias)
            x = b.node("features", GatedLinearUnit() if options.activation == "glu" else Gelu(), (x,))
            length = b.node("subsampled_length", SubsampledLength(convolution.stride), (length,))
    return x, length


class SubsampledLength(PlainOperation):
    """Number of positions after a strided convolution, ⌈length / stride⌉: [batch] -> [batch]."""

    stride: int

    code = "({0} + {self.stride} - 1) // {self.stride}"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (length,) = inputs
        require(length.kind is ValueKind.INTEGER and len(length.shape) == 1, self, length)
        return length
