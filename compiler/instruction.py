"""The instructions of the native machine: what Python and C++ agree on, said once.

The header that the kernels are compiled with (`kernels/abi.py`) is written from what stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """What an instruction does."""

    EMBED = 0
    POSITION = 1
    LINEAR = 2
    ADD = 3
    NORM = 4
    ATTEND_SOURCE = 5
    KEEP = 6
    APPEND = 7
    ATTEND_CACHE = 8
    ATTEND_MEMORY = 9
    LOGITS = 10
    BEND = 11
    AVERAGE_SOURCE = 12
    AVERAGE = 13
    COPY = 14


class Curve(IntEnum):
    """What each number of a result becomes: itself, or what an activation makes of it."""

    STRAIGHT = 0
    RELU = 1
    SILU = 2
    GELU = 3


class Status(IntEnum):
    """What a call into the kernels ends with: nothing is thrown across the border."""

    DONE = 0
    NO_MEMORY = 1
    IMPOSSIBLE = 2
    """A token, a position or a row that there is none of."""
    TOO_WIDE = 3
    """A matrix of more rows than sums of its products in 32 bits can hold, or of absurd sizes."""
    UNKNOWN = 4
    """An instruction that the kernels do not have."""


MAX_INT8_ROWS = 1 << 16
"""Of a matrix in int8: sums of more products would not stay within 32 bits."""


class Inexpressible(ValueError):
    """A graph that these instructions have no words for; its text says why, and what to do."""


@dataclass(frozen=True)
class Place:
    """Columns of a buffer from `column` on, or (with column 0) a slot of the memory or of the cache."""

    buffer: int
    column: int = 0


NOWHERE = Place(-1)


@dataclass(frozen=True)
class Instruction:
    """Its fields are those of the kernels' record, in this order. Of the last four each is a parameter of the graph."""

    code: Code
    out: Place = NOWHERE
    a: Place = NOWHERE
    b: Place = NOWHERE
    c: Place = NOWHERE
    width: int = 0
    """Numbers of a row of the result."""
    heads: int = 0
    key_width: int = 0
    value_width: int = 0
    curve: Curve = Curve.STRAIGHT
    """What the numbers of the result become."""
    keys: bool = False
    """Whether a slot holds keys, which lie transposed."""
    halves: bool = False
    """Whether all sines of a position stand before its cosines."""
    backwards: bool = False
    """Whether a recurrence goes from a source's last position to its first."""
    first: int = 0
    """The number of the first position in sinusoids."""
    scale: float = 1.0
    epsilon: float = 0.0
    rows: int = 0
    """Of the table."""
    table: str | None = None
    gain: str | None = None
    bias: str | None = None
    matrix: tuple[str, ...] = ()
    """With its scales, if it is in int8, and its bias, if it has one."""
