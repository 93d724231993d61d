"""The weight map: how each parameter of a graph is made from the tensors of a weights file, and back.

A weights file holds one tensor for each matrix that the paper names. A pass may want them otherwise (three matrices
side by side, a table with more rows); it then says so here, and the same words make the parameter, undo it (so that
a trained parameter, or its optimiser state, goes back into the file's layout), initialise it and check its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor


class Initial(StrEnum):
    """The value a tensor has before training."""

    MATRIX = "matrix"  # Glorot, as the spec says
    EMBEDDING = "embedding"  # normal, variance 1 / d_model
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
        for part, piece in zip(self.parts, _split(parameter, [p.shape[-1] for p in self.parts]), strict=True):
            yield from part.undo(piece.contiguous())


@dataclass(frozen=True)
class Padded:
    """More rows, all zero, below those of the part."""

    part: Origin
    rows: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, *self.part.shape[1:])

    def stored(self) -> Iterator[Stored]:
        return self.part.stored()

    def make(self, file: Mapping[str, Tensor]) -> Tensor:
        part = self.part.make(file)
        whole = part.new_zeros(self.shape)
        whole[: part.shape[0]] = part
        return whole

    def undo(self, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
        return self.part.undo(parameter[: self.part.shape[0]])


Origin = Stored | Concatenated | Padded


@dataclass(frozen=True)
class Parameter:
    """A parameter of a graph, and where it comes from."""

    name: str
    origin: Origin

    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(map(Size.of, self.origin.shape))

    @property
    def count(self) -> int:
        count = 1
        for size in self.origin.shape:
            count *= size
        return count


def _split(parameter: Tensor, widths: list[int]) -> Iterator[Tensor]:
    start = 0
    for width in widths:
        yield parameter[..., start : start + width]
        start += width
