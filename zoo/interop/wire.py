"""Protocol Buffers as they are written: the fields of a message, by number.

Of the library that does this, versions end the process where warnings are errors; what is needed of it is little.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST = 10  # bytes of a whole number


class Field(NamedTuple):
    """A field of a message."""

    number: int
    value: int | bytes
    """A whole number, or bytes: text, a message, the four of a float."""
    written: bytes
    """As it stands in the message."""


def fields(message: bytes) -> Iterator[Field]:
    """In their order. Raises ValueError where it is no message."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _number(message, at)
        kind = tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = _number(message, at)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(kind)
            if kind == _BYTES:
                length, at = _number(message, at)
            if length is None or at + length > len(message):
                raise ValueError("it ends within a field, or has one of no known kind")
            value = message[at : at + length]
            at += length
        yield Field(tag >> 3, value, message[start:at])


def whole(field: int, value: int) -> bytes:
    """A field that is a whole number."""
    return _varint(field << 3 | _VARINT) + _varint(value)


def single(field: int, value: float) -> bytes:
    """A field that is a float."""
    return _varint(field << 3 | _FIXED32) + struct.pack("<f", value)


def of_bytes(field: int, value: bytes) -> bytes:
    """A field that is text or a message."""
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def last(message: bytes) -> dict[int, int | bytes]:
    """The value of each field: of one that stands there twice, the last."""
    return {field.number: field.value for field in fields(message)}


def number(four: bytes) -> float:
    """The float that a field's four bytes are."""
    (value,) = struct.unpack("<f", four)
    return float(value)


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A whole number, and where it ends."""
    value = 0
    for index, byte in enumerate(message[at : at + _LONGEST]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError("it ends within a number")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
