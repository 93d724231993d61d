"""Checks of a SentencePiece model before SentencePiece reads it, because some damaged models make it end the process.

The file is a message of Protocol Buffers, with the field numbers of `sentencepiece_model.proto`.
"""

from __future__ import annotations

import numpy as np

from zoo.text import added_tokens, rules
from zoo.text.protobuf import parse_fields

_TOKENS, _NORMALIZERS = 1, (3, 5)  # fields of the model; a denormaliser is a normaliser, too
_TEXT = 1  # field of a token
_CHARACTER_MAP = 2  # field of a normaliser
_HAS_LEAF, _WIDE_OFFSET, _LEAF = 1 << 8, 1 << 9, 1 << 31  # bits of a unit of a double-array trie
_VALUE = _LEAF - 1


def check_model(model: bytes) -> None:
    """Check a model.

    Raises:
        ValueError: A token contains NUL, a character map refers to positions outside of itself, or a field of zoo is
            not the first one. It would be ignored, because it is only read at the beginning.
    """
    for index, field in enumerate(parse_fields(model)):
        if index and field.number in (added_tokens.FIELD, rules.FIELD):
            raise ValueError("added tokens or text rules are not at the beginning")
        is_token = field.number == _TOKENS
        checked = _TEXT if is_token else _CHARACTER_MAP if field.number in _NORMALIZERS else None
        if checked is None or not isinstance(field.value, bytes):
            continue
        for part in parse_fields(field.value):
            if part.number == checked and isinstance(part.value, bytes):
                if is_token and b"\0" in part.value:
                    raise ValueError("a token contains NUL")
                if not is_token and part.value:
                    _check_character_map(part.value)


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
