"""A SentencePiece model of words, made of a list: text comes cut into tokens already, with spaces between them.

That is how the toolkits of such lists take text themselves, so nothing is lost. What cut it (letters, words, byte
pairs of `subword-nmt`) is not in the list, and cannot be said here.
"""

from __future__ import annotations

from specs import BOS, EOS, PAD, UNK, ZooError
from zoo.interop import wire
from zoo.interop.numbering import SPECIAL, Numbering
from zoo.text.tokenizer import SPACE, Tokenizer

# Numbers in SentencePiece's `sentencepiece_model.proto`.
_PIECE, _TRAINER, _NORMALISER = 1, 2, 3
_TEXT, _SCORE, _TYPE = 1, 2, 3
_NORMAL, _UNKNOWN, _CONTROL, _UNUSED = 1, 2, 3, 5
_MODEL_TYPE, _WORDS, _SIZE = 3, 3, 4
_NUMBERS = {40: UNK, 41: BOS, 42: EOS, 43: PAD}
_NAMES = {45: UNK, 46: BOS, 47: EOS, 48: PAD}
_NAME, _DUMMY_PREFIX, _WITHOUT_EXTRA_SPACES, _ESCAPED_SPACES = 1, 3, 4, 5
_MANY = 0.01
KIND = "unigram"
"""What a spec calls it: a unigram model that has words alone."""


def word_model(numbering: Numbering, name: str) -> Tokenizer:
    """The model of these tokens. `name` is the file of the list.

    Raises ZooError for a list of tokens that begin with ▁: without the SentencePiece model that has their scores
    nobody can cut a text as the foreign model learned it.
    """
    begun = sum(token.name.startswith(SPACE) for token in numbering.tokens)
    if begun > _MANY * len(numbering.tokens):
        raise ZooError(
            f"`{name}` has tokens of SentencePiece, and the model that cuts text into them is not beside it",
            hint="put it there as `sentencepiece.model`, or `source.spm` and `target.spm`",
        )
    tokens = [
        _message(SPECIAL[number], _UNKNOWN if number == UNK else _CONTROL)
        if number <= EOS
        else _message(SPACE + token.name.replace(" ", SPACE), _NORMAL)
        for number, token in enumerate(numbering.tokens)
    ]
    trainer = [wire.whole(_MODEL_TYPE, _WORDS), wire.whole(_SIZE, len(tokens))]
    trainer += [wire.whole(field, number) for field, number in _NUMBERS.items()]
    trainer += [wire.of_bytes(field, SPECIAL[number].encode()) for field, number in _NAMES.items()]
    normaliser = [wire.of_bytes(_NAME, b"identity")]
    normaliser += [wire.whole(field, 1) for field in (_DUMMY_PREFIX, _WITHOUT_EXTRA_SPACES, _ESCAPED_SPACES)]
    sections = ((_TRAINER, trainer), (_NORMALISER, normaliser))
    written = b"".join((*tokens, *(wire.of_bytes(field, b"".join(of)) for field, of in sections)))
    return Tokenizer(written, name=name)


def _message(name: str, kind: int) -> bytes:
    of = wire.of_bytes(_TEXT, name.encode()), wire.single(_SCORE, 0.0), wire.whole(_TYPE, kind)
    return wire.of_bytes(_PIECE, b"".join(of))


def endless(tokens: Tokenizer, name: str) -> Tokenizer:
    """The same for sources behind which no EOS stands: it is there, but unused."""
    written = []
    for number, field in enumerate(wire.fields(tokens.content)):
        entry = _message(SPECIAL[EOS], _UNUSED) if (field.number, number) == (_PIECE, EOS) else field.written
        written.append(entry)
    return Tokenizer(b"".join(written), name=name)
