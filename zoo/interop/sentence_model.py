"""A SentencePiece model with other numbers: the order of its tokens is the number, their scores cut the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from specs import BOS, EOS, PAD, UNK, ZooError
from zoo.files.reading import read_bytes
from zoo.interop import wire
from zoo.interop.numbering import SPECIAL, Numbering
from zoo.text.tokenizer import SPACE, Tokenizer, damaged

# Numbers of fields in SentencePiece's `sentencepiece_model.proto`.
_PIECE, _TRAINER, _SELF_TEST = 1, 2, 4
_TEXT, _SCORE, _TYPE = 1, 2, 3
_INPUT, _MODEL_TYPE, _SIZE = 1, 3, 4
_NUMBERS = {40: UNK, 41: BOS, 42: EOS, 43: PAD}
_NAMES = {45: UNK, 46: BOS, 47: EOS, 48: PAD}
_NO_TEXT = re.compile(r"<[^<>]+>(<\d+>)?|madeupword\d+")
"""Names of tokens that stand for no text: tags, and those with which fairseq fills up a list."""
_KINDS = {1: "unigram", 2: "bpe", 3: "words", 4: "characters"}


class Type(IntEnum):
    """Of a token, as SentencePiece numbers them."""

    NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


class Entry(NamedTuple):
    """A token of a SentencePiece model."""

    name: str
    score: float
    type: Type


class SentenceModel:
    """A foreign SentencePiece model, read to be written otherwise."""

    def __init__(self, file: Path) -> None:
        """Raises ZooError where the file is missing or damaged."""
        self.file = file
        self._other: list[bytes] = []
        self._trainer = b""
        self.entries: list[Entry] = []
        try:
            self._read(read_bytes(file))
        except (ValueError, TypeError, UnicodeDecodeError):
            self.entries = []
        if not self.entries:
            raise damaged(str(file), "it is not a SentencePiece model")

    def _read(self, model: bytes) -> None:
        for field in wire.fields(model):
            if not isinstance(field.value, bytes):
                raise TypeError
            if field.number == _PIECE:
                self.entries.append(_entry(field.value))
            elif field.number == _TRAINER:
                self._trainer = field.value
            elif field.number != _SELF_TEST:
                self._other.append(field.written)

    @property
    def kind(self) -> str:
        """bpe or unigram. Raises ZooError for a model of words or characters."""
        found = wire.last(self._trainer).get(_MODEL_TYPE, 1)
        kind = _KINDS.get(int(found) if isinstance(found, int) else 0, "something else")
        if kind not in ("unigram", "bpe"):
            raise ZooError(f"`{self.file}` cuts text into {kind}, and a spec has only `bpe` and `unigram`")
        return kind

    def named(self, *types: Type) -> list[str]:
        """The names of its tokens, or of those of these types, in the order of their numbers."""
        return [each.name for each in self.entries if not types or each.type in types]

    def number(self, name: str) -> int | None:
        """Of the token of this name, if it has one."""
        return next((number for number, each in enumerate(self.entries) if each.name == name), None)

    def numbered(self, numbering: Numbering) -> Tokenizer:
        """The same model with our numbers. Tokens that it does not know stand in it unused.

        A code of a target language (`>>deu<<`) is cut off where a text begins with it. Raises ZooError where it would
        not be, and where the tokens it does not know would change how it merges.
        """
        known = {each.name: each for each in self.entries if each.type not in (Type.UNKNOWN, Type.CONTROL)}
        written = [_special(number) for number in range(EOS + 1)]
        for token in numbering.tokens[EOS + 1 :]:
            # Pairs would be merged into an unused token, and not into one of control.
            unused = Entry(token.name, 0.0, Type.CONTROL if _NO_TEXT.fullmatch(token.name) else Type.UNUSED)
            written.append(_of_a_language(token.name) if is_language(token.name) else known.get(token.name, unused))
        if self.kind == "bpe" and any(each.type is Type.UNUSED and len(each.name) > 1 for each in written):
            raise ZooError(
                f"`{self.file}` merges pairs of tokens, and would merge otherwise with the tokens of the other side",
                hint="two models of pairs that share one set of numbers cannot be imported",
            )
        tokens = Tokenizer(self._written(written), name=str(self.file))
        for number, token in enumerate(numbering.tokens):
            if is_language(token.name) and tokens.encode(f"{token.name} a") != [number, *tokens.encode("a")]:
                raise ZooError(f"`{self.file}` does not cut `{token.name}` off where a text begins with it")
        return tokens

    def _written(self, entries: Sequence[Entry]) -> bytes:
        trainer = [field.written for field in wire.fields(self._trainer) if field.number != _INPUT]
        # Of a field that stands there twice the last counts.
        trainer.append(wire.whole(_SIZE, len(entries)))
        trainer += [wire.whole(field, number) for field, number in _NUMBERS.items()]
        trainer += [wire.of_bytes(field, SPECIAL[number].encode()) for field, number in _NAMES.items()]
        tokens = (wire.of_bytes(_PIECE, _message(each)) for each in entries)
        return b"".join((*tokens, wire.of_bytes(_TRAINER, b"".join(trainer)), *self._other))


def is_language(name: str) -> bool:
    """Whether a token is the code of a target language, with which a source says into what it is to be translated."""
    return name.startswith(">>") and name.endswith("<<") and len(name) > 4


def _entry(message: bytes) -> Entry:
    found = wire.last(message)
    text, score, kind = found.get(_TEXT, b""), found.get(_SCORE, b"\0\0\0\0"), found.get(_TYPE, Type.NORMAL)
    if not isinstance(text, bytes) or not isinstance(score, bytes) or not isinstance(kind, int):
        raise TypeError
    return Entry(text.decode("utf-8"), wire.number(score), Type(kind))


def _message(entry: Entry) -> bytes:
    return b"".join(
        (wire.of_bytes(_TEXT, entry.name.encode()), wire.single(_SCORE, entry.score), wire.whole(_TYPE, entry.type))
    )


def _special(number: int) -> Entry:
    return Entry(SPECIAL[number], 0.0, Type.UNKNOWN if number == UNK else Type.CONTROL)


def _of_a_language(name: str) -> Entry:
    """With the space before it: every text begins with one."""
    return Entry(SPACE + name, 0.0, Type.USER_DEFINED)
