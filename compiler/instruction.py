"""Instruction set of the native backend. The C++ header of the kernels is generated from these definitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Opcode(IntEnum):
    """Operation that an instruction performs. "Memory" is the encoder's output, "cache" the decoder's own past."""

    EMBED = 0
    POSITION = 1
    LINEAR = 2
    ADD = 3
    NORM = 4
    ATTEND_SOURCE = 5
    STORE_MEMORY = 6
    APPEND_CACHE = 7
    ATTEND_CACHE = 8
    ATTEND_MEMORY = 9
    LOGITS = 10
    ACTIVATE = 11
    SSRU_SOURCE = 12
    SSRU_STEP = 13
    COPY = 14
    MULTIPLY = 15
    SCALE = 16
    ROTATE = 17


class ActivationKind(IntEnum):
    """Activation function that an instruction applies to its result."""

    NONE = 0
    RELU = 1
    SILU = 2
    GELU = 3
    GELU_TANH = 4


class Status(IntEnum):
    """Result of a call into the kernels, which cannot throw C++ exceptions into Python."""

    DONE = 0
    NO_MEMORY = 1
    OUT_OF_RANGE = 2
    """A token, position, row or sentence does not exist."""
    TOO_LARGE = 3
    """A matrix has too many rows for exact sums of 8-bit products in 32 bits, or impossible sizes."""
    UNKNOWN = 4
    """The kernels do not implement an instruction."""


MAX_INT8_ROWS = 1 << 16
"""The largest number of rows of an int8 matrix: sums of more products might overflow 32 bits."""


class UnsupportedGraph(ValueError):
    """Error for a graph that these instructions cannot express. Its text gives the reason and what to do."""


@dataclass(frozen=True)
class Operand:
    """Columns of a buffer, starting at `column`, or (with column 0) a slot of the memory or of the cache."""

    buffer: int
    column: int = 0


UNUSED = Operand(-1)


@dataclass(frozen=True)
class Instruction:
    """One instruction. The fields are those of the C++ struct, in the same order.

    The last four fields are names of parameters of the graph. A norm without a bias is an RMSNorm.
    """

    opcode: Opcode
    out: Operand = UNUSED
    a: Operand = UNUSED
    b: Operand = UNUSED
    c: Operand = UNUSED
    width: int = 0
    """The number of elements of a row of the result."""
    heads: int = 0
    groups: int = 1
    """The number of heads of queries for each head of keys and values in an attention."""
    key_width: int = 0
    """d_k"""
    value_width: int = 0
    """d_v"""
    activation: ActivationKind = ActivationKind.NONE
    keys: bool = False
    """Whether a memory slot contains keys, which are stored transposed."""
    halves: bool = False
    """Whether sinusoids have all sines first and then all cosines, rather than interleaved."""
    backwards: bool = False
    """Whether an SSRU runs from the last position of a source to the first."""
    first: int = 0
    """The number of the first position of sinusoids."""
    scale: float = 1.0
    """The factor; the base of the angles of a rotation."""
    epsilon: float = 0.0
    rows: int = 0
    """The number of rows of `table`. In an attention, the largest distance of its biases."""
    constants: tuple[float, ...] = ()
    """Numbers for the biases of an attention: each head's slope or, with a `table`, the row of each distance."""
    table: str | None = None
    gain: str | None = None
    bias: str | None = None
    matrix: tuple[str, ...] = ()
    """The matrix, its scales if it is int8, and its bias if it has one."""
