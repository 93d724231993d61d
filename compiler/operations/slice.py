"""A part of a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler.instruction import Inexpressible
from compiler.operations.operation import Line, Names, Operation, Shape, Tensors, Type, Types, require
from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.listing import Lister


@dataclass(frozen=True)
class Slice(Operation):
    """`start:stop` of one dimension. Each of the three may count from the end: -1 is the last."""

    dimension: int
    start: int = 0
    stop: int | None = None

    view = True
    alias = True

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (x,) = inputs
        require(-len(x.shape) <= self.dimension < len(x.shape), self, x)
        shape = list(x.shape)
        whole = shape[self.dimension]
        start, stop = (whole + place if place < 0 else Size.of(place) for place in (self.start, self.stop or 0))
        shape[self.dimension] = (whole if self.stop is None else stop) - start
        return Type(tuple(shape), x.kind)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,) = inputs
        places = range(x.shape[self.dimension])[self.start : self.stop]
        return x.narrow(self.dimension, places.start, len(places))

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        part = f"{self.start or ''}:{'' if self.stop is None else self.stop}"
        dots = "..., " if self.dimension == -1 else ":, " * (self.dimension % len(line.type.shape))
        return f"{inputs[0]}[{dots}{part}]"

    def native(self, lister: Lister, node: Node) -> None:
        place = lister.places.get(node.inputs[0])
        if place is None:  # of log-probabilities alone
            return
        if self.dimension != -1:
            raise Inexpressible("it has no instruction for a slice of positions")
        lister.places[node.name] = replace(place, column=place.column + self.start % lister.width(node.inputs[0]))
