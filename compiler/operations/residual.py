"""What stands between products: the residual connection, the norm, activations, dropout (3.1, 3.3, 5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compiler.instruction import ActivationKind, Opcode
from compiler.operations.operation import Line, Names, Operation, Shape, Tensors, Type, Types, require
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


@dataclass(frozen=True)
class Add(Operation):
    """The residual connection (3.1)."""

    code = "{0} + {1}"
    caption = ("add", "Add")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        x, y = inputs
        require(x == y, self, x, y)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0] + inputs[1]

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Left to the norm, where that alone reads it."""
        if codegen.sole_reader(node, Norm):
            codegen.fused.add(node.name)
        else:
            codegen.add(node, Opcode.ADD, *node.inputs)


@dataclass(frozen=True)
class Norm(Operation):
    """Layer normalisation over the last dimension, with gain and bias."""

    epsilon: float

    calls = ("torch.nn.functional.layer_norm",)
    caption = ("add", "Norm")
    dresses = ("add",)

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (x,) = inputs
        require(all(p == x.shape[-1:] for p in parameters) and len(parameters) == 2, self, x)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (gain, bias) = inputs, parameters
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + self.epsilon).sqrt() * gain + bias

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        (x,), (gain, bias) = inputs, parameters
        return f"layer_norm({x}, ({line.type.shape[-1].constant},), {gain}, {bias}, {self.epsilon!r})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        gain, bias = node.parameters
        read = codegen.inputs(node)
        codegen.add(node, Opcode.NORM, *read, epsilon=self.epsilon, gain=gain, bias=bias)


class Activation(Operation):
    """What bends each number by itself (3.3)."""

    activation: ClassVar[ActivationKind]
    """What the native machine calls it."""

    dresses = ("linear", "int8")

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """With the product that waits for it, where it alone reads that."""
        (x,) = node.inputs
        product = codegen.nodes[x] if x in codegen.fused else None
        if product:
            codegen.add(node, Opcode.LINEAR, *product.inputs, activation=self.activation, matrix=product.parameters)
        else:
            codegen.add(node, Opcode.ACTIVATE, x, activation=self.activation)


@dataclass(frozen=True)
class Relu(Activation):
    """max(0, x) (3.3)."""

    activation = ActivationKind.RELU
    code = "relu({0})"
    calls = ("torch.nn.functional.relu",)
    caption = ("linear", "ReLU")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0].clamp(min=0)


@dataclass(frozen=True)
class Silu(Activation):
    """x sigmoid(x), or swish (Elfwing et al. 2018)."""

    activation = ActivationKind.SILU
    code = "silu({0})"
    calls = ("torch.nn.functional.silu",)
    caption = ("linear", "SiLU")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0] / (1 + (-inputs[0]).exp())


@dataclass(frozen=True)
class Gelu(Activation):
    """x Phi(x), Phi being the normal distribution's (Hendrycks & Gimpel 2016), and no approximation of it."""

    activation = ActivationKind.GELU
    code = "gelu({0})"
    calls = ("torch.nn.functional.gelu",)
    caption = ("linear", "GELU")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0] * (1 + (inputs[0] / 2**0.5).erf()) / 2


@dataclass(frozen=True)
class Dropout(Operation):
    """Each number is zero with this probability while training, the others scaled up (5.4)."""

    probability: float

    code = "dropout({0}, {self.probability!r}, w.training)"
    calls = ("compiler.runtime.dropout",)
    caption = ("add", "Dropout")
    dresses = None

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0]

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape)  # its mask
