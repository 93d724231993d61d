"""Elementwise operations: residual connections, activations, gates, scales and dropout (sections 3.1, 3.3 and 5.4)."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.instruction import ActivationKind, Opcode
from compiler.operations.operation import Operation, PlainOperation, Shape, Tensors, ValueType, ValueTypes, require
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.native_codegen import NativeCodeGenerator
    from compiler.operations.operation import Node


class BinaryOperation(PlainOperation):
    """Base class for operations on two values of the same type, which is also the type of the result."""

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, y = inputs
        require(x == y, self, x, y)
        return x


class Add(BinaryOperation):
    """Sum of two values of the same type, as in a residual connection (section 3.1)."""

    code = "{0} + {1}"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Add an ADD instruction. If only a norm reads the sum, the norm's instruction adds the values instead."""
        reader = codegen.sole_reader(node)
        if reader and reader.operation.is_norm:
            codegen.fused.add(node.name)
        else:
            codegen.add(node, Opcode.ADD, *node.inputs)


class ActivationOperation(Operation):
    """Base class for elementwise activation functions (section 3.3)."""

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Add the activation's instruction. If the projection before it is fused, one instruction computes both."""
        (x,) = node.inputs
        matrix = codegen.nodes[x].parameters if x in codegen.fused else ()
        opcode = Opcode.LINEAR if matrix else Opcode.ACTIVATE
        codegen.add(node, opcode, *codegen.inputs(node), activation=self.activation, matrix=matrix)


class Relu(ActivationOperation):
    """ReLU: max(0, x) (section 3.3)."""

    activation = ActivationKind.RELU
    code = "functional.relu({0})"

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0].clamp(min=0)


class Silu(ActivationOperation):
    """SiLU, also called swish: x · sigmoid(x) (Elfwing et al. 2018)."""

    activation = ActivationKind.SILU
    code = "functional.silu({0})"

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0] / (1 + (-inputs[0]).exp())


class Gelu(ActivationOperation):
    """Exact GELU: x · Φ(x), where Φ is the normal distribution function (Hendrycks & Gimpel 2016)."""

    activation = ActivationKind.GELU
    code = "functional.gelu({0})"

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0] * (1 + (inputs[0] / 2**0.5).erf()) / 2


class GeluTanh(ActivationOperation):
    """Approximation of GELU: x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2 (Hendrycks & Gimpel 2016)."""

    activation = ActivationKind.GELU_TANH
    code = "functional.gelu({0}, approximate='tanh')"

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x: Tensor = inputs[0]
        inner: Tensor = (2 / math.pi) ** 0.5 * (x + 0.044715 * x * x * x)
        return x * (1 + inner.tanh()) / 2


class Multiply(BinaryOperation):
    """Elementwise product of two values of the same type, as in a gated feed-forward network (Shazeer 2020)."""

    code = "{0} * {1}"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        codegen.add(node, Opcode.MULTIPLY, *node.inputs)


class GatedLinearUnit(Operation):
    """GLU: a · sigmoid(b), where a and b are halves of the features (Dauphin et al. 2016). [..., 2d] -> [..., d]."""

    code = "functional.glu({0})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,) = inputs
        width = x.shape[-1].constant
        require(width % 2 == 0, self, x)
        return ValueType((*x.shape[:-1], Size.of(width // 2)))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        half = inputs[0].shape[-1] // 2
        return inputs[0][..., :half] / (1 + (-inputs[0][..., half:]).exp())


class Scale(PlainOperation):
    """Product of a value and a constant."""

    factor: float

    code = "{0} * {self.factor!r}"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        codegen.add(node, Opcode.SCALE, *node.inputs, scale=self.factor)


class Dropout(Operation):
    """Dropout: training sets elements to 0 with the probability `dropout`, and scales up the others (section 5.4)."""

    dropout: float

    code = "layers.dropout({0}, {self.dropout!r}, w.training)"

    def without_dropout(self) -> None:
        """Return None, because without dropout this operation only copies its input."""

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0]

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape)  # the mask
