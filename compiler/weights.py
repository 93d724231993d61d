"""The weight map: how each parameter of a graph is made from the tensors of a weights file, and back.

A weights file holds one tensor for each matrix that the paper names. A pass may want them otherwise (three matrices
side by side, a table with more rows); it then says so here, and the same words make the parameter, undo it (so that
a trained parameter, or its optimiser state, goes back into the file's layout), initialise it and check its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from compiler.size import Size
from specs import ZooError
from specs.errors import nearest

if TYPE_CHECKING:
    from torch import Tensor


class Initial(StrEnum):
    """The value a tensor has before training."""

    MATRIX = "matrix"  # Glorot, as the spec says
    PROJECTION = "projection"  # W_Q, W_K or W_V: as MATRIX, or narrower
    EMBEDDING = "embedding"  # normal, variance 1 / d_model
    KERNEL = "kernel"  # Glorot of each feature's own places, [k, features]
    ONE = "one"
    ZERO = "zero"


@dataclass(frozen=True)
class Stored:
    """A tensor of the weights file."""

    name: str
    shape: tuple[int, ...]
    initial: Initial

    def stored(self) -> Iterator[Stored]:
        yield self

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        return file[self.name]

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield self.name, parameter


@dataclass(frozen=True)
class Concatenated:
    """Parts side by side, along their last dimension."""

    parts: tuple[Origin, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.parts[0].shape[:-1], sum(part.shape[-1] for part in self.parts))

    def stored(self) -> Iterator[Stored]:
        for part in self.parts:
            yield from part.stored()

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        first, *others = (part.make(file) for part in self.parts)
        whole = first.new_empty(self.shape)
        for place, part in zip(_split(whole, [p.shape[-1] for p in self.parts]), (first, *others), strict=True):
            place.copy_(part)
        return whole

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        for part, token in zip(self.parts, _split(parameter, [p.shape[-1] for p in self.parts]), strict=True):
            yield from part.undo(token.contiguous())


@dataclass(frozen=True)
class _OfOne:
    """What is made of one part."""

    part: Origin

    @property
    def shape(self) -> tuple[int, ...]:
        return self.part.shape

    def stored(self) -> Iterator[Stored]:
        return self.part.stored()


@dataclass(frozen=True)
class Padded(_OfOne):
    """More rows, all zero, below those of the part."""

    rows: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, *self.part.shape[1:])

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        part = self.part.make(file)
        whole = part.new_zeros(self.shape)
        whole[: part.shape[0]] = part
        return whole

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        return self.part.undo(parameter[: self.part.shape[0]])


@dataclass(frozen=True)
class Scaled(_OfOne):
    """The part, times a factor."""

    factor: float

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        return self.part.make(file) * self.factor

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        return self.part.undo(parameter / self.factor)


@dataclass(frozen=True)
class Rounded(_OfOne):
    """The part in bfloat16."""

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        return self.part.make(file).bfloat16()

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        return self.part.undo(parameter.float())


@dataclass(frozen=True)
class Scales(_OfOne):
    """Of a matrix: for each place of `dimension` (0 or 1) what one of its 8-bit numbers is worth."""

    dimension: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.part.shape[self.dimension],)

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        return self.largest(self.part.make(file).float()).flatten() / 127

    def largest(self, part: Tensor) -> Tensor:
        """The largest magnitude at each place of the dimension: [places, 1] or [1, places]."""
        low, high = part.aminmax(dim=1 - self.dimension, keepdim=True)
        return high.maximum(-low)

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        raise TypeError("weights that were rounded to 8 bits do not come back")


@dataclass(frozen=True)
class Quantised(Scales):
    """The matrix itself in 8-bit numbers, of which `Scales` says what they are worth."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.part.shape

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        part = self.part.make(file).float()
        return (part * (127 / self.largest(part))).nan_to_num_(0.0).round_().char()


Origin = Stored | Concatenated | Padded | Scaled | Rounded | Scales


@dataclass(frozen=True)
class Parameter:
    """A parameter of a graph, and where it comes from."""

    name: str
    origin: Origin

    @cached_property
    def shape(self) -> tuple[Size, ...]:
        return tuple(map(Size.of, self.origin.shape))

    @property
    def type(self) -> str:
        """float32, bfloat16 or int8."""
        return {Rounded: "bfloat16", Quantised: "int8"}.get(type(self.origin), "float32")

    @property
    def bytes(self) -> int:
        return self.count * {"float32": 4, "bfloat16": 2, "int8": 1}[self.type]

    @property
    def count(self) -> int:
        count = 1
        for size in self.origin.shape:
            count *= size
        return count


def check(file: Mapping[str, Tensor], wanted: Mapping[str, Stored], spec: str) -> None:
    """Raises ZooError unless the tensors of a file are exactly those that the spec of this name asks for."""
    hint = f"these weights belong to another spec than `{spec}`"
    for name, tensor in wanted.items():
        if name not in file:
            raise ZooError(f"the weights have no tensor `{name}`", hint=hint)
        if tuple(file[name].shape) != tensor.shape:
            problem = f"the weights' `{name}` is {list(file[name].shape)}, not {list(tensor.shape)}"
            raise ZooError(problem, hint=hint)
    for name in file:
        if name not in wanted:
            near = nearest(name, list(wanted))
            problem = f"the weights' tensor `{name}` is not one of this spec"
            raise ZooError(problem + (f" (the nearest is `{near}`)" if near else ""), hint=hint)


def _split(parameter: Tensor, widths: list[int]) -> Iterator[Tensor]:
    start = 0
    for width in widths:
        yield parameter[..., start : start + width]
        start += width
