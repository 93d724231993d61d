"""Lowering of norms (section 3.1), and their operations.

To add a kind of norm, add its name to `specs.parts`. Then add an operation and a line in `NORMS` here.
"""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from compiler.instruction import Opcode
from compiler.operations.elementwise import Scale
from compiler.operations.operation import Operation, Shape, Tensors, ValueType, ValueTypes, require
from compiler.weights import Initializer
from specs import Norm

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.builder import Value
    from compiler.native_codegen import NativeCodeGenerator
    from compiler.operations.operation import Node


class NormOperation(Operation):
    """Base class for norms over the last dimension."""

    epsilon: float

    vectors: ClassVar[Mapping[str, Initializer]]
    """Names of the norm's parameters, which are vectors [d], with their initial values."""
    is_norm = True

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,) = inputs
        require(all(p == x.shape[-1:] for p in parameters) and len(parameters) == len(self.vectors), self, x)
        return x

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        gain, *bias = node.parameters
        read = codegen.inputs(node)
        codegen.add(node, Opcode.NORM, *read, epsilon=self.epsilon, gain=gain, bias=next(iter(bias), None))


class LayerNorm(NormOperation):
    """Layer normalisation: (x - mean) / sqrt(variance + epsilon) · gain + bias (section 3.1; Ba et al. 2016)."""

    vectors: ClassVar = {"gain": Initializer.ONE, "bias": Initializer.ZERO}
    code = "functional.layer_norm({0}, {1}.shape, {1}, {2}, {self.epsilon!r})"

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (gain, bias) = inputs, parameters
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + self.epsilon).sqrt() * gain + bias


class RmsNorm(NormOperation):
    """RMSNorm: x / sqrt(mean of x² + epsilon) · gain (Zhang & Sennrich 2019, equation 4)."""

    vectors: ClassVar = {"gain": Initializer.ONE}
    code = "functional.rms_norm({0}, {1}.shape, {1}, {self.epsilon!r})"

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (gain,) = inputs, parameters
        return x / (x.square().mean(-1, keepdim=True) + self.epsilon).sqrt() * gain


class HalfVariance(Scale):
    """Scaling by sqrt(0.5), which keeps the variance of residual sums constant (Gehring et al. 2017, section 3.5)."""

    factor: float = 0.5**0.5


NORMS: Mapping[str, type[NormOperation]] = {"layer_norm": LayerNorm, "rms_norm": RmsNorm}
"""The operation for each kind of norm in a spec, except `half_variance` and `none`."""


def normalised(x: Value, norm: Norm, name: str = "norm") -> Value:
    """Normalise x. If `norm.kind` is `none`, return x unchanged.

    Args:
        x: Input: [..., d].
        norm: Options for the norm.
        name: Prefix of the names of the norm's parameters in the current sub-layer.
    """
    if norm.kind == "none":
        return x
    if norm.kind == "half_variance":
        return x.builder.node("normed", HalfVariance(), (x,))
    b, operation = x.builder, NORMS[norm.kind](norm.epsilon)
    vectors = [b.parameter(f"{name}_{key}", x.width, initial=initial) for key, initial in operation.vectors.items()]
    return b.node("normed", operation, (x,), *vectors)
