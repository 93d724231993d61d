"""Convolutions over positions, as the paper compares them (4): contiguous, dilated, separable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.operations.operation import Kind, Line, Names, Operation, Reach, Shape, Tensors, Type, Types, require
from compiler.size import ONE, Size, product

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Convolution(Operation):
    """A linear map of k positions, `dilation` apart. x [batch, n, i], kernel [k, i, o], bias [o] -> [batch, n, o]

    `before` of the k lie before a position and `after` of them after it; beyond the ends are zeros. Where both are 0
    the positions before are part of x, which is longer than the result by (k - 1) · dilation.
    """

    before: int
    after: int
    dilation: int = 1

    calls = ("compiler.windows.convolve",)
    caption = ("linear", "Convolution")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (x,), (kernel, bias) = inputs, parameters
        require(len(x.shape) == 3 and len(kernel) == 3 and kernel[1:] == (x.shape[2], bias[0]), self, x, Type(kernel))
        return Type((x.shape[0], self._length(x, kernel), kernel[2]))

    def _length(self, x: Type, kernel: Shape) -> Size:
        inner, beyond = kernel[0].constant - 1, self.before + self.after
        require(beyond in (0, inner), self, x, Type(kernel))
        return x.shape[1] + (beyond - inner) * self.dilation

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        kernel, bias = parameters
        read = self._read(inputs[0], len(kernel))
        return sum((x @ matrix for x, matrix in zip(read, kernel, strict=True)), bias)

    def _read(self, x: Tensor, k: int) -> list[Tensor]:
        """Of each of the k places, what every position reads there."""
        batch, n, width = x.shape
        first, more = self.before * self.dilation, (self.before + self.after) * self.dilation
        whole = x.new_zeros(batch, n + more, width)
        whole[:, first : first + n] = x
        length = n + more - (k - 1) * self.dilation
        return [whole[:, place * self.dilation :][:, :length] for place in range(k)]

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        reach = (self.before, self.after)
        return f"convolve({inputs[0]}, {parameters[0]}, {parameters[1]}, {reach}, {self.dilation})"

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        result = self.infer(inputs, parameters)
        return 2 * product(result.shape[:2]) * product(parameters[0])

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape)  # with the zeros beyond its ends

    def over_positions(self) -> Reach:
        return Reach(self.before * self.dilation, self.after * self.dilation, apart=self.dilation)

    def detail(self, inputs: Sequence[str]) -> str:
        return f"every {self.dilation} positions" if self.dilation > 1 else ""


@dataclass(frozen=True)
class SeparateConvolution(Convolution):
    """As Convolution, each feature by itself: the first half of a separable one. x [batch, n, d], kernel [k, d]"""

    calls = ("compiler.windows.convolve_depthwise",)
    caption = ("linear", "Convolution of each feature")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (x,), (kernel, bias) = inputs, parameters
        require(len(x.shape) == 3 and kernel[1:] == bias == x.shape[2:], self, x, Type(kernel))
        return Type((x.shape[0], self._length(x, kernel), x.shape[2]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        kernel, bias = parameters
        read = self._read(inputs[0], len(kernel))
        return sum((x * each for x, each in zip(read, kernel, strict=True)), bias)

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        reach = (self.before, self.after)
        return f"convolve_depthwise({inputs[0]}, {parameters[0]}, {parameters[1]}, {reach}, {self.dilation})"


@dataclass(frozen=True)
class Unpadded(Operation):
    """Zeros where padding is: what a convolution finds there, as beyond the end. x [batch, n, d], mask -> x"""

    code = "{0}.masked_fill({1}[:, 0, 0, :, None], 0.0)"

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        x, mask = inputs
        require(mask == Type((x.shape[0], ONE, ONE, x.shape[1]), Kind.MASK), self, *inputs)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, mask = inputs
        return x * ~mask[:, 0, 0, :, None]
