"""What an operation says of itself. All that is known of one stands in its class, and nothing of it anywhere else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from compiler.instruction import UnsupportedGraph
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator

Shape = tuple[Size, ...]
Tensors = Sequence["Tensor"]
Names = Sequence[str]


class GraphError(ValueError):
    """A graph that breaks its own grammar: a fault of a lowering or a pass, never of the user."""


class Kind(StrEnum):
    INTEGER = "integer"
    FLOAT = "float"
    MASK = "mask"


FLOAT_BYTES = 4


@dataclass(frozen=True)
class Type:
    """What a value is: its symbolic shape, and whether it holds tokens, numbers, or what may not be looked at."""

    shape: Shape
    kind: Kind = Kind.FLOAT

    def __str__(self) -> str:
        return f"{self.kind[0]}[{', '.join(map(str, self.shape))}]"

    def bytes(self, of_a_float: int = FLOAT_BYTES) -> Size:
        """In memory. Masks count as nothing: they are small, and made once for all layers."""
        return product(self.shape) * {Kind.INTEGER: 8, Kind.FLOAT: of_a_float, Kind.MASK: 0}[self.kind]


Types = Sequence[Type]


def require(condition: bool, operation: object, *types: Type) -> None:
    if not condition:
        raise GraphError(f"{operation} cannot take {', '.join(map(str, types))}")


@dataclass(frozen=True)
class Reach:
    """What an operation does over positions: how far before and after itself each one reads; None: all of them."""

    back: int | None
    ahead: int | None
    across: tuple[int, ...] = (0,)
    """The inputs of which it reads others' positions; of the rest, as of an attention's query, its own alone."""
    apart: int = 1
    """How far the places are from one another that it reads; what lies between them is read where its input has it."""
    in_turn: bool = False
    """Whether it goes from position to position, each computed of its neighbour: what is in reach is one step away."""


@dataclass
class Line:
    """The line of emitted code that makes a value of this type: what goes before it, and how that may be called."""

    type: Type
    also: Callable[[str], str]
    """A name beside the value's own: that of this part of it."""
    before: list[str] = field(default_factory=list)


class Operation(ABC):
    """An operation on values and parameters. Its attributes are plain numbers and choices.

    What reads a graph asks only here: a new operation is a class in one file of this folder.
    """

    view: ClassVar[bool] = False
    """Whether its result is another look at numbers that are there: nothing is moved, nothing takes room."""
    alias: ClassVar[bool] = False
    """Whether, in the native machine, its result takes no place of its own: as a view's, or made with another's."""
    overwrites: ClassVar[int | None] = None
    """The input that its result takes the place of, in memory."""
    code: ClassVar[str] = ""
    """The expression of its result, with its inputs and parameters as {0}, {1} ... and its attributes as {self.x}."""
    calls: ClassVar[tuple[str, ...]] = ()
    """What that calls, each as `module.function`."""
    caption: ClassVar[tuple[str, str] | None] = None
    """In a drawing, its kind (which is its colour) and its name; None where it is not drawn."""
    dresses: ClassVar[tuple[str, ...] | None] = ()
    """The kinds of boxes that, in a drawing, it is a part of when it alone reads their result; None: of any kind."""

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        """The type of its result: its input's, unless it says otherwise. Raises GraphError for what it cannot take."""
        return inputs[0]

    @abstractmethod
    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        """Its result, slow and obviously right: what every program is tested against. Dropout does nothing here."""

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        """The expression of its result in PyTorch: `code`, unless there is more to it."""
        return self.code.format(*inputs, *parameters, self=self)

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        """FLOPs of its matrix products, a multiply-add counted as two; everything else counts nothing."""
        return Size()

    def over_positions(self) -> Reach | None:
        """What it reads of other positions of its inputs than the result's own; None: nothing."""
        return None

    def in_python(self, inputs: Types) -> bool:
        """Whether its code goes through positions in Python, which torch can compile for one number of them alone."""
        return False

    def exportable(self, inputs: Types) -> bool:
        """Whether torch can export its code for any number of positions."""
        return not self.in_python(inputs)

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        """Numbers beside the result that the backward pass needs."""
        return Size()

    def moved(self, inputs: Types, result: Type, weights: Size, of_a_float: int) -> Size:
        """Bytes that it reads and writes, where its parameters have `weights` of them."""
        if self.view:
            return Size()
        return sum((each.bytes(of_a_float) for each in inputs), Size()) + weights + result.bytes(of_a_float)

    def detail(self, inputs: Sequence[str]) -> str:
        """What a drawing says of it beside its name; of its inputs are given the details."""
        return ""

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Adds the native machine's instructions for it. Raises Inexpressible where it has none."""
        if not self.alias:
            raise UnsupportedGraph(f"it has no instruction for {type(self).__name__}: take the backend `eager`")
        codegen.alias_input(node)
