"""Operations between the matrix products: residual connections, layer norm (3.1), activations (3.3), dropout (5.4)."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compiler.instruction import ActivationKind, Opcode
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    Shape,
    Tensors,
    ValueType,
    ValueTypes,
    require,
)
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


@dataclass(frozen=True)
class Add(Operation):
    """Add two values of one type: the residual connection (3.1)."""

    code = "{0} + {1}"
    caption = ("add", "Add")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, y = inputs
        require(x == y, self, x, y)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0] + inputs[1]

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Leave the addition to the norm if that is its only reader."""
        reader = codegen.sole_reader(node)
        if reader and reader.operation.is_norm:
            codegen.fused.add(node.name)
        else:
            codegen.add(node, Opcode.ADD, *node.inputs)


@dataclass(frozen=True)
class Norm(Operation):
    """Layer normalisation over the last dimension: (x - mean) / sqrt(variance + epsilon) · gain + bias (3.1)."""

    epsilon: float

    is_norm = True
    calls = ("torch.nn.functional.layer_norm",)
    caption = ("add", "Norm")
    joins_boxes = ("add",)

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,) = inputs
        require(all(p == x.shape[-1:] for p in parameters) and len(parameters) == 2, self, x)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (gain, bias) = inputs, parameters
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + self.epsilon).sqrt() * gain + bias

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (x,), (gain, bias) = inputs, parameters
        return f"layer_norm({x}, ({context.type.shape[-1].constant},), {gain}, {bias}, {self.epsilon!r})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        gain, bias = node.parameters
        read = codegen.inputs(node)
        codegen.add(node, Opcode.NORM, *read, epsilon=self.epsilon, gain=gain, bias=bias)


class ActivationOperation(Operation):
    """Base of activation functions, which apply to each number separately (3.3)."""

    activation: ClassVar[ActivationKind]
    """Code of the function in native instructions."""

    is_activation = True
    joins_boxes = ("linear", "int8")

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Compute it together with the projection that left it to this operation, if there is one."""
        (x,) = node.inputs
        projection = codegen.nodes[x] if x in codegen.fused else None
        if projection:
            codegen.add(
                node, Opcode.LINEAR, *projection.inputs, activation=self.activation, matrix=projection.parameters
            )
        else:
            codegen.add(node, Opcode.ACTIVATE, x, activation=self.activation)


@dataclass(frozen=True)
class Relu(ActivationOperation):
    """max(0, x) (3.3)."""

    activation = ActivationKind.RELU
    code = "relu({0})"
    calls = ("torch.nn.functional.relu",)
    caption = ("linear", "ReLU")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0].clamp(min=0)


@dataclass(frozen=True)
class Silu(ActivationOperation):
    """x · sigmoid(x), also called swish (Elfwing et al. 2018)."""

    activation = ActivationKind.SILU
    code = "silu({0})"
    calls = ("torch.nn.functional.silu",)
    caption = ("linear", "SiLU")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0] / (1 + (-inputs[0]).exp())


@dataclass(frozen=True)
class Gelu(ActivationOperation):
    """x · Φ(x) with the normal distribution function Φ (Hendrycks & Gimpel 2016), without approximation."""

    activation = ActivationKind.GELU
    code = "gelu({0})"
    calls = ("torch.nn.functional.gelu",)
    caption = ("linear", "GELU")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0] * (1 + (inputs[0] / 2**0.5).erf()) / 2


@dataclass(frozen=True)
class Dropout(Operation):
    """Set each number to zero with this probability and scale the others up, in training only (5.4)."""

    dropout: float

    code = "dropout({0}, {self.dropout!r}, w.training)"
    calls = ("compiler.runtime.dropout",)
    caption = ("add", "Dropout")
    joins_boxes = None

    def without_dropout(self) -> None:
        """Return None, because an inactive dropout only copies its input."""

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0]

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape)  # the mask
