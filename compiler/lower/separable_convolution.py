"""Separable convolutions (Table 1), as in Xception."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lower.convolution import convolved
from compiler.lower.surroundings import Surroundings
from compiler.operations.convolution import SeparateConvolution
from compiler.operations.projection import Linear
from compiler.operations.residual import Relu
from compiler.weights import Initial
from specs import SeparableConvolution


def separable_convolution(x: Value, of: SeparableConvolution, around: Surroundings) -> Value:
    """A convolution in two: over positions each feature by itself, then over features each position by itself."""
    b, width = around.builder, x.width
    kernel = b.parameter("kernel", of.kernel, width, initial=Initial.KERNEL)
    bias = b.parameter("bias", width, initial=Initial.ZERO)
    apart = convolved(x, SeparateConvolution, of.kernel, 1, around, kernel, bias)
    matrix = b.parameter("pointwise", width, width)
    mixed = b.node("mixed", Linear(), (apart,), matrix, b.parameter("pointwise_bias", width, initial=Initial.ZERO))
    return b.node("active", Relu(), (mixed,))
