"""Vocabularies: SentencePiece files that were cut, flipped, or put together otherwise."""

from __future__ import annotations

from random import Random

from hostile import nodes, values
from hostile.judge import right
from hostile.trial import Trial
from specs import BOS, EOS, PAD, ZooError
from zoo.text.vocabulary import Vocabulary

_TEXTS = ("the old dog sees a small house", "", "   ", "\x07Ω 日本 🏳️‍🌈", "a" * 300, "siehst du die Katze?")
FILE = "vocabulary.model"


def run(draw: Random, trial: Trial) -> None:
    """Makes one, opens it, and has it encode, decode and draw tokens."""
    good = (trial.world.run / FILE).read_bytes()
    if draw.random() < 0.1:
        (trial.folder / FILE).write_bytes(good)
        trial.tell(nodes.put(draw, trial.folder / FILE))
    else:
        content = edited(draw, good) if draw.random() < 0.6 else values.damaged(draw, good)
        trial.tell(f"{len(content)} bytes of {len(good)}")
        names = (FILE,) if draw.random() < 0.8 else ("vocabulary.source.model", "vocabulary.target.model")
        for name in names[: draw.choice((1, 2, 2))]:
            (trial.folder / name).write_bytes(content)
    found = trial.answer(lambda: Vocabulary.load(trial.folder))
    if not isinstance(found, ZooError):
        _used(draw, trial, found)


def _used(draw: Random, trial: Trial, vocabulary: Vocabulary) -> None:
    rows = trial.answer(lambda: vocabulary.encode_all(_TEXTS))
    if isinstance(rows, ZooError):
        return
    for row, line in zip(rows, _TEXTS, strict=True):
        right(all(0 <= token < vocabulary.sizes[0] for token in row), f"no such tokens: {row}")
        right(trial.answer(lambda line=line: vocabulary.encode(line, "target")) is not None, "nothing")
        text = trial.answer(lambda row=row: vocabulary.decode(row))
        right(isinstance(text, str | ZooError), f"no text: {text!r}")
        if row:
            trial.answer(lambda row=row: vocabulary.sample(row, 0.1))
    ids = [token for token in range(vocabulary.sizes[1]) if token not in (PAD, BOS, EOS)]
    for tokens in (*([token] for token in ids), draw.sample(ids, len(ids))):
        text = trial.answer(lambda tokens=tokens: vocabulary.decode(tokens))
        if isinstance(text, str):
            right(not any("\ud800" <= sign <= "\udfff" for sign in text), f"half a character: {text!r}")


def edited(draw: Random, model: bytes) -> bytes:
    """The same fields in another order, some of them twice, gone, or with something else in them."""
    fields = _fields(model)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at, other = draw.randrange(len(fields)), draw.randrange(len(fields))
        number, content = fields[at]
        match draw.randrange(9):
            case 0:
                del fields[at]
            case 1:
                fields.insert(at, fields[other])
            case 2:
                fields[at], fields[other] = fields[other], fields[at]
            case 3:
                fields[at] = (draw.randrange(1, 20), content)
            case 4:
                # Of the tokens the other settings are few: the last fields.
                at = draw.randrange(max(0, len(fields) - 4), len(fields))
                fields[at] = (fields[at][0], values.damaged(draw, fields[at][1]))
            case 5:
                token = values.word(draw).encode("utf-8", "surrogatepass")[:100]
                fields[at] = (1, b"\x0a" + _varint(len(token)) + token + b"\x18" + _varint(draw.randrange(9)))
            case 6 | 7 if len(content) > 3:  # no character, in a token that is one to all who only count
                place = draw.randrange(2, len(content))
                fields[at] = (number, content[:place] + draw.randbytes(1) + content[place + 1 :])
            case _:
                fields[at] = (number, values.damaged(draw, content))
    return b"".join(_varint(number << 3 | 2) + _varint(len(content)) + content for number, content in fields)


def _fields(model: bytes) -> list[tuple[int, bytes]]:
    """The fields of a protobuf message that has none but messages."""
    fields, at = [], 0
    while at < len(model):
        tag, at = _read_varint(model, at)
        size, at = _read_varint(model, at)
        fields.append((tag >> 3, model[at : at + size]))
        at += size
    return fields


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (content[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if content[at - 1] < 128:
            return value, at


def _varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])
