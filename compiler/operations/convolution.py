"""Contiguous, dilated and separable convolutions, which the paper compares with self-attention (section 4)."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.operations.operation import (
    Operation,
    PlainOperation,
    ReceptiveField,
    Shape,
    Tensors,
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.size import ONE, Size, product

if TYPE_CHECKING:
    from torch import Tensor


class Convolution(Operation):
    """Convolution with a kernel of k positions, `dilation` apart: y_t = b + Σ_j x_(t + (j - before) · dilation) W_j.

    Inputs: x [batch, n, i]. Parameters: kernel [k, i, o], bias [o]. Result: [batch, n, o]. The kernel has
    `before` positions before the position of the result, and `after` positions after that position. x is padded with
    zeros. If `before` and `after` are 0, x already contains the (k - 1) · dilation positions before the first position
    of the result. If `stride` is s, the result contains only every s-th position.
    """

    before: int
    after: int
    dilation: int = 1
    stride: int = 1

    code = "layers.convolve({all}, ({self.before}, {self.after}), {self.dilation}, {self.stride})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,), (kernel, bias) = inputs, parameters
        fits = len(x.shape) == 3 and len(kernel) == 3 and kernel[1:] == (x.shape[2], bias[0])
        require(fits, self, x, ValueType(kernel))
        return ValueType((x.shape[0], self._length(x, kernel), kernel[2]))

    def _length(self, x: ValueType, kernel: Shape) -> Size:
        extent, padding = kernel[0].constant - 1, self.before + self.after
        require(padding in (0, extent), self, x, ValueType(kernel))
        return (x.shape[1] + (padding - extent) * self.dilation).divided(self.stride)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (kernel, bias) = inputs, parameters
        batch, n, width = x.shape
        first, padding = self.before * self.dilation, (self.before + self.after) * self.dilation
        padded = x.new_zeros(batch, n + padding, width)
        padded[:, first : first + n] = x
        length = n + padding - (len(kernel) - 1) * self.dilation
        result = bias
        for index, weights in enumerate(kernel):  # a matrix [i, o] or, in a depthwise convolution, a vector [d]
            shifted = padded[:, index * self.dilation :][:, : length : self.stride]
            result = result + (shifted * weights if weights.ndim == 1 else shifted @ weights)
        return result

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        result = self.infer(inputs, parameters)
        return 2 * product(result.shape[:2]) * product(parameters[0])

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape)  # the input with the zeros around it

    def receptive_field(self) -> ReceptiveField:
        return ReceptiveField(self.before * self.dilation, self.after * self.dilation, spacing=self.dilation)


class DepthwiseConvolution(Convolution):
    """Convolution of each feature separately: x [batch, n, d], kernel [k, d], bias [d] -> [batch, n, d].

    This is the first half of a separable convolution.
    """

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,), (kernel, bias) = inputs, parameters
        require(len(x.shape) == 3 and kernel[1:] == bias == x.shape[2:], self, x, ValueType(kernel))
        return ValueType((x.shape[0], self._length(x, kernel), x.shape[2]))


class ClearPadding(PlainOperation):
    """Features with zeros in place of padding, so that a convolution reads zeros after the end of each sentence.

    x [batch, n, d] and mask [batch, 1, 1, n] -> [batch, n, d].
    """

    code = "{0}.masked_fill({1}[:, 0, 0, :, None], 0.0)"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, mask = inputs
        require(mask == ValueType((x.shape[0], ONE, ONE, x.shape[1]), ValueKind.MASK), self, *inputs)
        return x
