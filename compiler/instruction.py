"""Instruction set of the native backend. The C++ header of the kernels is generated from these definitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from specs import ZooError


class Opcode(IntEnum):
    """Operation of a native instruction.

    In the names, MEMORY means the encoder's output, and CACHE means the keys and values of earlier decoder positions.
    """

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


class MatrixType(IntEnum):
    """Type of the elements of a packed matrix."""

    FLOAT32 = 0
    BFLOAT16 = 1
    INT8 = 2


class Status(IntEnum):
    """Status code returned by a call to the kernels, which cannot throw C++ exceptions into Python."""

    DONE = 0
    NO_MEMORY = 1
    OUT_OF_RANGE = 2
    """A token, position, row or sentence does not exist."""
    TOO_LARGE = 3
    """A matrix has too many rows for exact sums of 8-bit products in 32 bits, or its sizes are invalid."""
    UNKNOWN = 4
    """The kernels do not implement an instruction."""


class SentenceState(IntEnum):
    """State of the beam search for a sentence: running, or the reason why the search ended.

    The reasons correspond to `zoo.generation.hypotheses.StopReason`. FREE is the state of a slot without a sentence
    (see `compiler.slots`).
    """

    FREE = 0
    RUNNING = 1
    EXHAUSTED = 2
    DECIDED = 3
    FULL = 4
    LENGTH = 5


MAX_INT8_ROWS = 1 << 16
"""The largest number of rows in an int8 matrix: sums of more products might overflow 32 bits."""


class Unsupported(ZooError):
    """Error for a graph that the native backend or the GPU kernels cannot run. The message gives the reason."""


def refusal(make: Callable[[], object]) -> str | None:
    """Return the reason why a function raises `Unsupported`, or None if it succeeds."""
    try:
        make()
    except Unsupported as error:
        return error.problem
    return None


@dataclass(frozen=True)
class Operand:
    """Location that an instruction reads or writes.

    The location is either the columns of a buffer, starting at `column`, or an array of the decoder state. Memory
    arrays contain encoder outputs. Cache arrays contain values of earlier positions, such as keys. For an array,
    `buffer` is the index of the array, and `column` is 0.
    """

    buffer: int
    column: int = 0


UNUSED = Operand(-1)


@dataclass(frozen=True)
class Instruction:
    """One instruction of the native backend. The C++ struct has the same fields, in the same order.

    The last four fields are names of graph parameters. A NORM without a bias is an RMSNorm.
    """

    opcode: Opcode
    out: Operand = UNUSED
    a: Operand = UNUSED
    b: Operand = UNUSED
    c: Operand = UNUSED
    width: int = 0
    """The number of elements in each row of the result."""
    heads: int = 0
    groups: int = 1
    """In attention, the number of query heads that share a key-value head."""
    key_width: int = 0
    """The dimension d_k of keys, per head."""
    value_width: int = 0
    """The dimension d_v of values, per head."""
    activation: ActivationKind = ActivationKind.NONE
    keys: bool = False
    """Whether a memory array contains keys, which are stored transposed."""
    halves: bool = False
    """Whether sinusoids consist of all sines, then all cosines, rather than interleaved pairs."""
    backwards: bool = False
    """Whether an SSRU runs from the last position of a source to the first."""
    first: int = 0
    """The position of the first token, if positions are encoded as sinusoids."""
    scale: float = 1.0
    """The factor by which values or attention scores are multiplied. In a rotation, the base of the angles."""
    epsilon: float = 0.0
    rows: int = 0
    """The number of rows in `table`. In attention, the largest distance that has a bias."""
    constants: tuple[float, ...] = ()
    """Constants of the attention biases: the slope of each head or, with a `table`, its row for each distance."""
    table: str | None = None
    gain: str | None = None
    bias: str | None = None
    matrix: tuple[str, ...] = ()
    """The matrix, its scales if it is int8, and its bias if it has one."""
