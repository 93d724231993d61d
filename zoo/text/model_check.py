"""Checks of a SentencePiece model before SentencePiece reads it, because some damaged models make it end the process.

The file is a message of Protocol Buffers, with the field numbers of `sentencepiece_model.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_TOKENS, _NORMALIZERS = 1, (3, 5)  # fields of the model; a denormaliser is a normaliser, too
_TEXT = 1  # field of a token
_CHARACTER_MAP = 2  # field of a normaliser
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of Protocol Buffers
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BITS = 70
_HAS_LEAF, _WIDE_OFFSET, _LEAF = 1 << 8, 1 << 9, 1 << 31  # bits of a unit of a double-array trie
_VALUE = _LEAF - 1


def check_model(model: bytes) -> None:
    """Raise ValueError if a token contains NUL, or if a character map refers to positions outside of itself."""
    for number, start, end in _fields(model, 0, len(model)):
        checked = _TEXT if number == _TOKENS else _CHARACTER_MAP if number in _NORMALIZERS else None
        for field, first, last in _fields(model, start, end) if checked else ():
            if field == checked and number == _TOKENS and model.find(b"\0", first, last) >= 0:
                raise ValueError("a token contains NUL")
            if field == checked and number != _TOKENS and first < last:
                _check_character_map(model[first:last])


def _check_character_map(content: bytes) -> None:
    """Check a map: the size of a double-array trie (darts-clone), the trie, and strings that end with NUL.

    SentencePiece reads the unit at the offset of a unit, combined with any byte, and the string at the value of a leaf.
    """
    size = int.from_bytes(content[:4], "little")
    strings = content[4 + size :]
    if not strings.endswith(b"\0") or size % 4:
        raise ValueError("the character map is incomplete")
    units = np.frombuffer(content, "<u4", size // 4, 4)
    offsets = (units >> 10) << ((units & _WIDE_OFFSET) >> 6)
    children = np.arange(len(units), dtype=np.uint32) ^ offsets
    inner = (units & _LEAF) == 0
    if np.any((children[inner] | 0xFF) >= len(units)):
        raise ValueError("the character map refers to a position outside of itself")
    values = units[children[inner & ((units & _HAS_LEAF) != 0)]] & _VALUE
    if np.any(values >= len(strings)):
        raise ValueError("the character map refers to a string outside of itself")


def _fields(model: bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of each field of a message. Raise ValueError if the bytes are not a message."""
    while position < end:
        key, position = _varint(model, position)
        length = _FIXED_BYTES.get(key & 7, 0)
        if key & 7 in (_VARINT, _BYTES):
            value, position = _varint(model, position)
            length = value if key & 7 == _BYTES else 0
        elif not length:
            raise ValueError("a field has an unknown wire type")
        if position + length > end:
            raise ValueError("the message ends within a field")
        yield key >> 3, position, position + length
        position += length


def _varint(model: bytes, position: int) -> tuple[int, int]:
    """Return an integer and the position after it."""
    value = shift = 0
    while position < len(model) and shift < _MAX_VARINT_BITS:
        byte = model[position]
        value, shift, position = value | (byte & 0x7F) << shift, shift + 7, position + 1
        if byte < 0x80:
            return value, position
    raise ValueError("the message ends within an integer")
