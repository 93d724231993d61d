"""Fields of Protocol Buffers messages. SentencePiece models are such messages.

This module does not use the `protobuf` package, because some versions crash the process if Python treats
warnings as errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
_MAX_VARINT = 10  # bytes


class Field(NamedTuple):
    """Field of a protobuf message."""

    number: int
    value: int | bytes
    """An integer, or the bytes of a string, a message or a float."""
    encoded: bytes
    """The bytes of the whole field in the message, with its number and type."""


def parse_fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a serialised protobuf message. Raise ValueError if the bytes are not a valid message."""
    position = 0
    while position < len(message):
        start = position
        key, position = _parse_varint(message, position)
        wire_type = key & 7
        value: int | bytes
        if wire_type == _VARINT:
            value, position = _parse_varint(message, position)
        else:
            length = {_FIXED64: 8, FIXED32: 4}.get(wire_type)
            if wire_type == _BYTES:
                length, position = _parse_varint(message, position)
            if length is None or position + length > len(message):
                raise ValueError("the message ends within a field, or a field has an unknown wire type")
            value = message[position : position + length]
            position += length
        yield Field(key >> 3, value, message[start:position])


def encode_integer(number: int, value: int) -> bytes:
    """Encode a protobuf field that contains a non-negative integer. `number` is the field number."""
    return encode_key(number, _VARINT) + _encode_varint(value)


def encode_bytes(number: int, value: bytes) -> bytes:
    """Encode a protobuf field that contains a string or a message. `number` is the field number."""
    return encode_key(number, _BYTES) + _encode_varint(len(value)) + value


def encode_key(number: int, wire_type: int) -> bytes:
    """Encode the key of a protobuf field (its number and wire type), which precedes the value."""
    return _encode_varint(number << 3 | wire_type)


def _parse_varint(message: bytes, position: int) -> tuple[int, int]:
    """Parse the varint at a position. Return its value and the position after the varint."""
    value = 0
    for index, byte in enumerate(message[position : position + _MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ValueError("the message ends within an integer")


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
