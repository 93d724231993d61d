"""Conversion between the tensors of a weights file and the parameters of a graph.

A weights file contains one tensor for each matrix that the paper names. A pass may need a different layout, such as
three matrices concatenated or a table with more rows. The pass then gives the parameter a different origin. An origin
computes the parameter from the tensors of the file, and converts it (or its optimiser state) back. The origin also
defines the shape and the initial value of the parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, ClassVar

from compiler.lazy import torch
from compiler.seeds import stream
from compiler.size import Size
from specs import Spec, ZooError
from specs.errors import nearest

if TYPE_CHECKING:
    from torch import Tensor


class Initializer(StrEnum):
    """Random distribution or constant that initialises a tensor before training."""

    MATRIX = "matrix"
    """Glorot initialisation, in the variant that the spec selects."""
    PROJECTION = "projection"
    """Like MATRIX, for W_Q, W_K and W_V. The variant `glorot_uniform_half_qkv` halves their variance."""
    EMBEDDING = "embedding"
    """Normal distribution with variance 1 / d_model."""
    KERNEL = "kernel"
    """Glorot initialisation for each feature of a depthwise kernel [k, features]."""
    EXPERTS = "experts"
    """Glorot initialisation for each matrix of a mixture of experts [experts, i, o]."""
    ONE = "one"
    ZERO = "zero"


class _Origin:
    """Base class for origins. An origin describes how to compute a parameter from the tensors of a weights file."""

    type: ClassVar[str] = "float32"
    """The data type of the parameter: float32, bfloat16 or int8."""


@dataclass(frozen=True)
class StoredTensor(_Origin):
    """Origin of a parameter that is stored in the weights file as one tensor."""

    name: str
    shape: tuple[int, ...]
    initial: Initializer

    def initial_value(self, spec: Spec) -> Tensor:
        """Return the value before training. Random values depend only on the spec's seed and the tensor's name."""
        architecture, value = spec.architecture, torch.empty(self.shape)
        generator = torch.Generator().manual_seed(stream(spec.training.seed, "weights", self.name))
        positions, sizes = self.shape[:-2], self.shape[-2:]
        match self.initial:
            case Initializer.ONE:
                return value.fill_(1.0)
            case Initializer.ZERO:
                return value.zero_()
            case Initializer.EMBEDDING:
                return value.normal_(0.0, architecture.d_model**-0.5, generator=generator)
            case Initializer.KERNEL:
                positions, sizes = self.shape[:1], (1, 1)
            case Initializer.EXPERTS:
                positions = ()
        variance = 2.0 / (prod(positions) * sum(sizes))  # 2 / (inputs + outputs)
        if architecture.initial_weights == "glorot_normal":
            return value.normal_(0.0, variance**0.5, generator=generator)
        if architecture.initial_weights == "glorot_uniform_half_qkv" and self.initial is Initializer.PROJECTION:
            variance /= 2
        bound = (3.0 * variance) ** 0.5
        return value.uniform_(-bound, bound, generator=generator)

    def stored(self) -> Iterator[StoredTensor]:
        """Yield the tensors in the weights file from which the parameter is computed."""
        yield self

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        """Compute the parameter from the tensors of a weights file."""
        return file[self.name]

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Invert `make`: convert a parameter to tensors of a weights file. Yield the name and value of each tensor."""
        yield self.name, parameter


@dataclass(frozen=True)
class Concatenated(_Origin):
    """Origin of a parameter that concatenates other parameters (`parts`) along their last dimension."""

    parts: tuple[ParameterOrigin, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return (*self.parts[0].shape[:-1], sum(part.shape[-1] for part in self.parts))

    def stored(self) -> Iterator[StoredTensor]:
        """Yield the tensors in the weights file that this parameter is computed from."""
        for part in self.parts:
            yield from part.stored()

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        """Compute the concatenated parameter from the tensors of a weights file."""
        return torch.cat([part.make(file) for part in self.parts], -1)

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Split a concatenated parameter, and convert each part back to tensors of a weights file."""
        tensors = torch.split(parameter, [part.shape[-1] for part in self.parts], -1)
        for part, tensor in zip(self.parts, tensors, strict=True):
            yield from part.undo(tensor.contiguous())


@dataclass(frozen=True)
class _Derived(_Origin):
    """Base class for the origins of parameters that are computed from one other parameter (`part`)."""

    part: ParameterOrigin

    @property
    def shape(self) -> tuple[int, ...]:
        return self.part.shape

    def stored(self) -> Iterator[StoredTensor]:
        return self.part.stored()


@dataclass(frozen=True)
class Padded(_Derived):
    """Origin of a parameter that is another parameter (`part`), padded with zeros to `rows` rows."""

    rows: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return (self.rows, *self.part.shape[1:])

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        """Compute the unpadded parameter from the tensors in a weights file, and pad it with rows of zeros."""
        part = self.part.make(file)
        result = part.new_zeros(self.shape)
        result[: part.shape[0]] = part
        return result

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Remove the padding of a parameter, and convert the result back to tensors of a weights file."""
        return self.part.undo(parameter[: self.part.shape[0]])


@dataclass(frozen=True)
class Rounded(_Derived):
    """Origin of a parameter that is another parameter (`part`), rounded to bfloat16."""

    type = "bfloat16"

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        """Compute the unrounded parameter from the tensors in a weights file, and round it to bfloat16."""
        return self.part.make(file).bfloat16()

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Convert the parameter to float32, and then to tensors of a weights file."""
        return self.part.undo(parameter.float())


@dataclass(frozen=True)
class Quantised(_Derived):
    """Origin of an int8 parameter: the parameter `part`, divided by the scales and rounded.

    There is one scale per row if `dimension` is 0, and one scale per column if `dimension` is 1.
    """

    dimension: int

    type = "int8"

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        """Compute the unquantised parameter from the tensors in a weights file, and quantise it to int8."""
        return round_to_int8(self.part.make(file).float(), 1 - self.dimension)[0]

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Raise TypeError, because quantisation cannot be undone."""
        raise TypeError("int8 weights cannot be converted back to float32: use the weights file")


@dataclass(frozen=True)
class Scales(Quantised):
    """Origin of a parameter that contains the scales of an int8 parameter.

    Each scale is the largest magnitude in a row or column, divided by 127.
    """

    type = "float32"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return (self.part.shape[self.dimension],)

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        """Compute the unquantised parameter from the tensors in a weights file, and return its int8 scales."""
        return round_to_int8(self.part.make(file).float(), 1 - self.dimension)[1].flatten()


def round_to_int8(x: Tensor, dimension: int) -> tuple[Tensor, Tensor]:
    """Quantise x to int8. Return the result and the scales: the largest magnitudes along a dimension, divided by 127.

    Numbers that are not finite become 0.
    """
    low, high = x.aminmax(dim=dimension, keepdim=True)
    largest = high.maximum(-low)
    return (x * (127 / largest)).nan_to_num_(0.0, 0.0, 0.0).round_().char(), largest / 127


ParameterOrigin = StoredTensor | Concatenated | Padded | Rounded | Quantised


@dataclass(frozen=True)
class Parameter:
    """Parameter of a graph. Its origin describes how to compute the parameter from a weights file."""

    name: str
    origin: ParameterOrigin

    @cached_property
    def shape(self) -> tuple[Size, ...]:
        """The shape of the parameter, as symbolic sizes."""
        return tuple(map(Size.of, self.origin.shape))

    @property
    def type(self) -> str:
        """The data type of the parameter: float32, bfloat16 or int8."""
        return self.origin.type

    @property
    def bytes(self) -> int:
        """The size of the parameter in memory, in bytes."""
        return self.count * {"float32": 4, "bfloat16": 2, "int8": 1}[self.type]

    @property
    def count(self) -> int:
        """The number of elements in the parameter."""
        return prod(self.origin.shape)


def check_weights(file: Mapping[str, Tensor], expected: Mapping[str, StoredTensor], spec: str) -> None:
    """Check that a weights file has exactly the tensors that a spec needs.

    Args:
        file: The tensors of the file, keyed by name.
        expected: The tensors that the spec needs, keyed by name.
        spec: Name of the spec, for the error message.

    Raises:
        ZooError: A tensor is missing, is unknown or has the wrong shape.
    """
    hint = f"the weights were not trained with the spec `{spec}`: use the spec that they were trained with"
    for name, tensor in expected.items():
        if name not in file:
            raise ZooError(f"the weights do not contain the tensor `{name}`", hint=hint)
        if tuple(file[name].shape) != tensor.shape:
            problem = f"the tensor `{name}` has the shape {list(file[name].shape)}; the spec needs {list(tensor.shape)}"
            raise ZooError(problem, hint=hint)
    for name in file:
        if name not in expected:
            near = nearest(name, list(expected))
            problem = f"the weights contain the tensor `{name}`, but the spec has no such tensor"
            raise ZooError(problem + (f" (the most similar name in the spec is `{near}`)" if near else ""), hint=hint)
