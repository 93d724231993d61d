"""Base class for all operations, and the types of the values that they compute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, cast, dataclass_transform

from compiler.instruction import ActivationKind, Unsupported
from compiler.lazy import torch
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.native_codegen import NativeCodeGenerator

Shape = tuple[Size, ...]
Tensors = Sequence["Tensor"]
Expressions = Sequence[str]
"""Python expressions of inputs or parameters in emitted code."""
FLOAT_BYTES = 4


class GraphError(ValueError):
    """Error for an invalid graph. The cause is a bug in lowering or in a pass, not a mistake in user input."""


class ValueKind(StrEnum):
    """Kind of the elements in a value: integers (such as token IDs), floats, attention masks, or attention biases."""

    INTEGER = "integer"
    FLOAT = "float"
    MASK = "mask"
    """True hides a key from a query."""
    BIAS = "bias"
    """A bias is added to the score of a query and a key."""


@dataclass(frozen=True)
class ValueType:
    """Type of a value: its symbolic shape and the kind of its elements."""

    shape: Shape
    kind: ValueKind = ValueKind.FLOAT

    def __str__(self) -> str:
        return f"{self.kind[0]}[{', '.join(map(str, self.shape))}]"

    def concrete(self, **sizes: int) -> tuple[int, ...]:
        """Return the shape as numbers, given a value for each symbolic size."""
        return tuple(size(**sizes) for size in self.shape)

    def bytes(self, float_bytes: int = FLOAT_BYTES) -> Size:
        """Return the size in memory, in bytes.

        Attention masks and attention biases count as 0 bytes, because they are small and all layers share them.

        Args:
            float_bytes: Bytes per floating-point number.
        """
        return product(self.shape) * {ValueKind.INTEGER: 8, ValueKind.FLOAT: float_bytes}.get(self.kind, 0)


ValueTypes = Sequence[ValueType]


def require(condition: bool, operation: object, *types: ValueType) -> None:
    """Raise GraphError unless the condition holds.

    Args:
        condition: Whether the operation accepts the types.
        operation: The operation to name in the error message.
        types: The types to list in the error message.
    """
    if not condition:
        raise GraphError(f"{operation} does not accept {', '.join(map(str, types))}")


@dataclass(frozen=True)
class ReceptiveField:
    """Input positions that an operation reads to compute one position of the result."""

    before: int | None
    """Number of earlier positions that the operation reads to compute a position of the result. None for all."""
    after: int | None
    """Number of later positions that the operation reads to compute a position of the result. None for all."""
    inputs: tuple[int, ...] = (0,)
    """Indices of the inputs with this receptive field. The operation reads other inputs at the same position only."""
    spacing: int = 1
    """Distance between neighbouring positions that the operation reads, as in a dilated convolution."""
    sequential: bool = False
    """Whether the operation is a recurrence. A recurrence computes each position from the result at its neighbour."""

    def extend(self, distances: Sequence[float], limit: int, *, ahead: bool) -> list[float]:
        """Extend paths by this operation. Return the largest distance that the extended paths of each length span.

        A recurrence adds 1 to the path length for each position that the path crosses. A dilated operation skips
        positions. It extends only paths that already reach the skipped positions.

        Args:
            distances: The largest distance, in positions, that a path of each length spans. -inf: no such path.
            limit: The distance between the first and the last position.
            ahead: Whether distances are measured to later positions instead of earlier positions.
        """
        extent, sides = self.after if ahead else self.before, 1 if 0 in (self.before, self.after) else 2
        if self.sequential and extent is None:
            crossed = accumulate([*distances, *[-inf] * limit], lambda furthest, each: max(furthest + 1, each))
            return [-inf, *crossed]
        step = limit if extent is None else extent
        return [-inf, *(each + step if each * sides + 1 >= self.spacing else each for each in distances)]


@dataclass
class EmitContext:
    """Everything that an operation needs to emit its code, apart from the expressions of inputs and parameters."""

    temporary: Callable[[str], str]
    """Returns an unused variable name that is derived from the value's name and the given suffix."""
    statements: list[str] = field(default_factory=list)
    """Statements to run before the expression of the result. Operations append to this list."""


class MaskRole(StrEnum):
    """Role of an attention mask, by which compiler passes and backends recognise masks that need special treatment."""

    PADDING = "padding"
    """The mask hides padding."""
    CAUSAL = "causal"
    """The mask hides keys after the query."""
    UNWRITTEN = "unwritten"
    """The mask hides key/value cache entries that are empty or contain later positions."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Operation(ABC):
    """Base class for operations on values and parameters. The fields of an operation are plain numbers and options.

    Each subclass becomes a frozen dataclass, so that operations can be compared and printed. Compiler passes, cost
    functions and backends read the traits of an operation, such as `is_attention`, or ask for a variant of the
    operation. Therefore, they work with new operations without changes. Only passes that replace operations with a
    single kernel check the classes of operations, because a kernel computes exactly one sequence of operations (see
    `compiler.operations.gpu`).
    """

    def __init_subclass__(cls) -> None:
        """Make the subclass a frozen dataclass. Subclasses must not use the `dataclass` decorator themselves."""
        dataclass(frozen=True)(cls)

    # Traits

    view: ClassVar[bool] = False
    """Whether the result is a view of the first input, which needs no memory and moves no data."""
    shares_buffer: ClassVar[bool] = False
    """Whether native code allocates no buffer for the result, because it is a view or part of another instruction."""
    overwrites: ClassVar[int | None] = None
    """Index of the input that is overwritten with the result, if any."""
    is_embedding: ClassVar[bool] = False
    """Whether the operation looks up rows of a table [V, d]."""
    is_projection: ClassVar[bool] = False
    """Whether the operation computes x W (+ b) with a matrix [i, o]. Several projections of one input can be fused."""
    is_vocabulary_projection: ClassVar[bool] = False
    """Whether the operation computes x Eᵀ (+ b) with a table [V, d]: the pre-softmax projection (section 3.4)."""
    is_attention: ClassVar[bool] = False
    """Whether the operation is scaled dot-product attention with the inputs query, keys, values and masks."""
    is_norm: ClassVar[bool] = False
    """Whether the operation is a norm, such as layer normalisation."""
    activation: ClassVar[ActivationKind] = ActivationKind.NONE
    """The activation function that the operation computes, which can be fused with the matrix product before it."""
    depends_on_batch: ClassVar[bool] = False
    """Whether training depends on all positions of a batch together, or on random numbers other than dropout."""
    appends_to_cache: ClassVar[bool] = False
    """Whether the operation appends new positions (input 1) to a cache (input 0)."""
    mask_role: ClassVar[MaskRole | None] = None
    """The role of an attention mask, if compiler passes or backends must recognise it. None for other operations."""

    # Code

    code: ClassVar[str] = ""
    """Format string for the Python expression of the result. {0}, {1} ... are the inputs and parameters, {all} lists
    all inputs and parameters, and {self.x} is an attribute. The expression can use the modules in
    `compiler.emission.IMPORTS`."""

    # Meaning

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        """Return the type of the result. By default, it is the type of the first input.

        Raises:
            GraphError: The operation does not accept these inputs or parameters.
        """
        return inputs[0]

    @abstractmethod
    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        """Compute the result in simple, slow PyTorch, as a reference for all backends. Dropout is off."""

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        """Return the PyTorch expression that computes the result. By default, format `code` with the arguments."""
        return self.code.format(*inputs, *parameters, all=", ".join((*inputs, *parameters)), self=self)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Add the native instructions of this operation.

        Raises:
            Unsupported: The native backend has no instruction for the operation.
        """
        if not self.shares_buffer:
            raise Unsupported(f"it has no instruction for {type(self).__name__}")
        codegen.alias_input(node)

    def native_bias(self, codegen: NativeCodeGenerator, node: Node) -> Mapping[str, Any]:
        """Return the fields of the native attention instruction that define this score bias, keyed by name.

        Raises:
            Unsupported: The native backend cannot compute the bias.
        """
        raise Unsupported(f"it has no instruction for {type(self).__name__}")

    # Variants, for passes

    scale: float
    """Factor by which embeddings or attention scores are multiplied. Operations without a factor lack this field."""

    dropout: float = 0.0
    """Probability of dropout in training. Operations with dropout define it as a field."""

    def without_dropout(self) -> Operation | None:
        """Return the operation without dropout, or None if the operation would then only copy its input."""
        return replace(cast("Any", self), dropout=0.0) if self.dropout else self

    def with_one_kernel(self, parameters: Sequence[str]) -> Operation:
        """Return the variant that computes the operation in one fused PyTorch kernel, or the operation itself.

        Args:
            parameters: The parameters of the operation.
        """
        return self

    def with_planned_cache(self) -> Operation | None:
        """Return the variant of this operation for preallocated caches.

        Only operations that compute a mask or bias for cache entries have such a variant. Their inputs are the
        positions of the queries and the cache. For all other operations, return None.
        """
        return None

    def sliced_range(self) -> tuple[int, int, int | None] | None:
        """Return the dimension, start and stop if the operation is a slice, otherwise None."""
        return None

    # Costs

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        """Return the FLOPs of the matrix products. A multiply-add counts as two. Other arithmetic is not counted."""
        return Size()

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        """Return the number of elements that are saved for the backward pass, in addition to the result."""
        return Size()

    def memory_traffic(self, inputs: ValueTypes, result: ValueType, weight_bytes: Size, float_bytes: int) -> Size:
        """Return the number of bytes that the operation reads from memory and writes to memory.

        Args:
            inputs: Types of the inputs.
            result: Type of the result.
            weight_bytes: Size of the parameters in bytes.
            float_bytes: Bytes per floating-point number.
        """
        if self.view or result.kind in (ValueKind.MASK, ValueKind.BIAS):  # small, and shared by all layers
            return Size()
        return sum((each.bytes(float_bytes) for each in inputs), Size()) + weight_bytes + result.bytes(float_bytes)

    def receptive_field(self) -> ReceptiveField | None:
        """Return the receptive field, or None if the operation computes each position separately."""
        return None

    def loops_in_python(self, inputs: ValueTypes) -> bool:
        """Return whether the emitted code loops over positions in Python. torch.compile would unroll the loop."""
        return False

    def is_exportable(self, inputs: ValueTypes) -> bool:
        """Return whether `torch.export` accepts the operation with a dynamic number of positions."""
        return not self.loops_in_python(inputs)


class PlainOperation(Operation):
    """Base class for operations whose `code` calls only PyTorch. The interpreter evaluates this code."""

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        """Compute the result by evaluating `code`, the PyTorch expression of the operation."""
        names = [f"value_{index}" for index in range(len(inputs) + len(parameters))]
        values = dict(zip(names, (*inputs, *parameters), strict=True))
        return cast("Tensor", eval(self.code.format(*names, self=self), {"torch": torch, **values}))


@dataclass(frozen=True)
class Node:
    """Operation with its inputs and parameters. Its result is the value named `name`.

    `layer` is the stack and index of the layer that the node belongs to, such as "encoder.0", or "" outside layers.
    """

    name: str
    operation: Operation
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    type: ValueType
    layer: str = ""
