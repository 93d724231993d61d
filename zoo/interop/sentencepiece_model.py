"""SentencePiece models with zoo's token IDs, converted from other toolkits' models or created for a list of words.

The files contain Protocol Buffers messages with the field numbers of `sentencepiece_model.proto`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from specs import BOS, EOS, PAD, UNK, ZooError
from zoo.files.reading import damaged, read_bytes
from zoo.interop.tensors import SPECIAL, Numbering
from zoo.text.protobuf import FIXED32, encode_bytes, encode_integer, encode_key, parse_fields
from zoo.text.rules import ADDED_TOKENS, TEXT_RULES, TextRules
from zoo.text.tokenizer import SPACE, Tokenizer

_TOKENS, _TRAINER, _NORMALIZER, _SELF_TEST = 1, 2, 3, 4  # fields of the model
_TEXT, _SCORE, _TYPE = 1, 2, 3  # fields of a token
_INPUT, _MODEL_TYPE, _SIZE, _SPACE_AS_SUFFIX, _BYTE_FALLBACK = 1, 3, 4, 24, 35  # fields of the trainer's settings
_ID, _NAME, _SPECIAL_FIELDS = 40, 45, (UNK, BOS, EOS, PAD)  # the first fields with IDs and names, and their order
_SPECIAL = {id: (id, name) for id, name in enumerate(SPECIAL)}
"""IDs and names of the special tokens in zoo's tokenizers."""
_NO_ID = (1 << 64) - 1  # -1, which removes a special token, as an unsigned integer
_NORMALIZER_NAME, _CHARACTER_MAP, _DUMMY_PREFIX, _REMOVE_EXTRA_SPACES, _ESCAPE_SPACES = 1, 2, 3, 4, 5
_SPACES = (_DUMMY_PREFIX, _REMOVE_EXTRA_SPACES, _ESCAPE_SPACES)
_ALGORITHMS = {1: "unigram", 2: "bpe", 3: "words", 4: "characters"}
WORD_LIST_KIND = "unigram"
"""Value of `vocabulary.kind` for a list of words: a unigram model whose tokens are whole words."""
_MAX_SHARE_OF_SPACES = 0.01
_NO_TEXT = re.compile(r"<[^<>]+>(<\d+>)?|madeupword\d+")
"""Names of tokens that represent no text: tags, and the names with which fairseq pads token lists."""


class TokenType(IntEnum):
    """Types of tokens in a SentencePiece model."""

    NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


class TokenEntry(NamedTuple):
    """Token in a SentencePiece model, with its score and type."""

    name: str
    score: float
    type: TokenType

    def encode(self) -> bytes:
        """Encode the entry as a field of the model's Protocol Buffers message."""
        score = encode_key(_SCORE, FIXED32) + struct.pack("<f", self.score)
        message = encode_bytes(_TEXT, self.name.encode()) + score + encode_integer(_TYPE, self.type)
        return encode_bytes(_TOKENS, message)

    @classmethod
    def decode(cls, message: bytes) -> TokenEntry:
        """Parse an entry. Raise ValueError, TypeError or struct.error if the bytes are not a valid entry."""
        values = _last_values(message)
        text, type_ = values.get(_TEXT, b""), values.get(_TYPE, TokenType.NORMAL)
        score = values.get(_SCORE, b"\0\0\0\0")
        if not isinstance(text, bytes) or not isinstance(score, bytes) or not isinstance(type_, int):
            raise TypeError
        return cls(text.decode("utf-8"), float(struct.unpack("<f", score)[0]), TokenType(type_))


class SentencePieceModel:
    """SentencePiece model from another toolkit. `renumbered` converts it to a tokenizer with zoo's token IDs."""

    def __init__(self, file: Path, content: bytes | None = None) -> None:
        """Read a model. Raise ZooError if the file is missing or damaged.

        Args:
            file: The model file. If `content` is given, the path is only used in error messages.
            content: The content of the model file. By default, the file is read.
        """
        self.file = file
        self.entries: list[TokenEntry] = []
        self._trainer = b""
        self._other_fields: list[bytes] = []
        try:
            for field in parse_fields(read_bytes(file) if content is None else content):
                if not isinstance(field.value, bytes):
                    raise TypeError
                if field.number == _TOKENS:
                    self.entries.append(TokenEntry.decode(field.value))
                elif field.number == _TRAINER:
                    self._trainer = field.value
                elif field.number not in (_SELF_TEST, ADDED_TOKENS, TEXT_RULES):
                    self._other_fields.append(field.encoded)
        except (ValueError, TypeError, struct.error):
            self.entries = []
        if not self.entries:
            raise damaged(file, "it is not a SentencePiece model")

    @property
    def kind(self) -> str:
        """The algorithm, `bpe` or `unigram`. Raises ZooError if the model splits text into words or characters."""
        number = _last_values(self._trainer).get(_MODEL_TYPE, 1)
        kind = _ALGORITHMS.get(number if isinstance(number, int) else 0, "unknown units")
        if kind not in ("unigram", "bpe"):
            raise ZooError(f"`{self.file}` splits text into {kind}, but zoo supports only `bpe` and `unigram` models")
        return kind

    def require_fit(self, tokenizer: str, kind: str) -> None:
        """Check that the model splits text the way a Hugging Face Transformers tokenizer does.

        Tokenizers in transformers put one space before each text and remove extra spaces.

        Args:
            tokenizer: The name of the tokenizer.
            kind: The algorithm of the tokenizer, `bpe` or `unigram`.

        Raises:
            ZooError: The model uses a different algorithm, or handles spaces differently.
        """
        if self.kind != kind:
            raise ZooError(f"`{self.file}` is a `{self.kind}` model, but {tokenizer} requires a `{kind}` model")
        normalizer = _last_values(b"".join(self._other_fields)).get(_NORMALIZER)
        spaces = _last_values(normalizer) if isinstance(normalizer, bytes) else {}
        if not all(spaces.get(field, 1) for field in _SPACES) or _last_values(self._trainer).get(_SPACE_AS_SUFFIX):
            problem = "must put one space before each text and remove extra spaces, as Hugging Face transformers does"
            raise ZooError(f"`{self.file}` {problem}")

    def names(self, *types: TokenType) -> list[str]:
        """Return the names of all tokens with these types, in the order of their IDs. By default, return all names."""
        return [entry.name for entry in self.entries if not types or entry.type in types]

    def append(self, names: Iterable[str]) -> None:
        """Append normal tokens with the score 0 to the vocabulary."""
        self.entries.extend(TokenEntry(name, 0.0, TokenType.NORMAL) for name in names)

    def set_control(self, names: Container[str]) -> None:
        """Make the tokens with these names control tokens, and all other tokens normal tokens.

        The types of byte tokens and of the unknown token do not change.
        """
        for id, entry in enumerate(self.entries):
            if entry.type not in (TokenType.UNKNOWN, TokenType.BYTE):
                type_ = TokenType.CONTROL if entry.name in names else TokenType.NORMAL
                self.entries[id] = entry._replace(type=type_)

    def renumbered(self, numbering: Numbering, control: Collection[str] = ()) -> Tokenizer:
        """Return a tokenizer that splits text like this model, but uses zoo's token IDs.

        Tokens that the model does not contain are added as unused tokens or control tokens. A token that selects the
        target language (`>>deu<<`) at the beginning of a text is never split.

        Args:
            numbering: The tokens, in the order of zoo's token IDs.
            control: Names of tokens that never occur in text. They become control tokens, in addition to the control
                tokens of the model.

        Raises:
            ZooError: SentencePiece would split a language token, or the added tokens would change how the model merges
                pairs.
        """
        known = {entry.name: entry for entry in self.entries}
        known = {name: e for name, e in known.items() if e.type not in (TokenType.UNKNOWN, TokenType.CONTROL)}
        no_text = {*control, *self.names(TokenType.CONTROL)}
        entries = _special_entries()
        for token in numbering.tokens[len(SPECIAL) :]:
            if is_language_token(token.name):  # SentencePiece adds a space before each text
                entries.append(TokenEntry(SPACE + token.name, 0.0, TokenType.USER_DEFINED))
            elif token.name in known:
                entries.append(known[token.name])
            else:  # bpe merges pairs into unused tokens, but not into control tokens
                is_control = token.name in no_text or _NO_TEXT.fullmatch(token.name)
                entries.append(TokenEntry(token.name, 0.0, TokenType.CONTROL if is_control else TokenType.UNUSED))
        if self.kind == "bpe" and any(entry.type is TokenType.UNUSED and len(entry.name) > 1 for entry in entries):
            problem = (
                f"the vocabulary has tokens that the bpe model `{self.file}` lacks, and adding them would change how "
                "it splits text"
            )
            hint = "choose another model: zoo cannot import two different bpe models that share their token IDs"
            raise ZooError(problem, hint=hint)
        trainer = b"".join(field.encoded for field in parse_fields(self._trainer) if field.number != _INPUT)
        model = _encode_model(entries, trainer) + b"".join(self._other_fields)
        tokenizer = Tokenizer(model, name=str(self.file))
        for id, token in enumerate(numbering.tokens):
            if is_language_token(token.name) and tokenizer.encode(f"{token.name} a") != [id, *tokenizer.encode("a")]:
                raise ZooError(f"`{self.file}` does not treat `{token.name}` as one token at the beginning of a text")
        return tokenizer

    def reordered(self, order: Sequence[int], names: Mapping[int, str], special: Mapping[int, int]) -> bytes:
        """Return the content of a model file for another toolkit, with some of this model's tokens in a new order.

        Args:
            order: The tokens to write, as IDs in this model, in the order of their new IDs.
            names: The new names of tokens to rename, keyed by their IDs in this model.
            special: The new IDs of UNK, BOS, EOS and PAD, keyed by their IDs in zoo. Any of these may be omitted.
        """
        entries = [self.entries[id]._replace(name=names.get(id, self.entries[id].name)) for id in order]
        named = {id: (row, entries[row].name) for id, row in special.items()}
        return _encode_model(entries, self._trainer, named) + b"".join(self._other_fields)


def new_model(
    kind: str, entries: Sequence[TokenEntry], character_map: bytes | None, *, byte_fallback: bool = False
) -> bytes:
    """Return the content of a new SentencePiece model file.

    The model has the default settings for spaces: it adds a space before each text, removes extra spaces and replaces
    spaces with `▁`.

    Args:
        kind: The algorithm, such as `bpe` or `unigram`.
        entries: The tokens. For a `Tokenizer`, they must begin with PAD, UNK, BOS and EOS.
        character_map: The compiled normalisation rules. If None, the model does not normalise characters.
        byte_fallback: Whether characters without a token are encoded as bytes.
    """
    number = next(number for number, algorithm in _ALGORITHMS.items() if algorithm == kind)
    trainer = encode_integer(_MODEL_TYPE, number) + encode_integer(_BYTE_FALLBACK, byte_fallback)
    normalizer = encode_bytes(_NORMALIZER_NAME, b"identity" if character_map is None else b"user_defined")
    normalizer += b"" if character_map is None else encode_bytes(_CHARACTER_MAP, character_map)
    normalizer += b"".join(encode_integer(field, 1) for field in _SPACES)
    return _encode_model(entries, trainer) + encode_bytes(_NORMALIZER, normalizer)


def is_language_token(name: str) -> bool:
    """Return whether a token selects the target language at the beginning of a source text, as `>>deu<<` does."""
    return name.startswith(">>") and name.endswith("<<") and len(name) > 4


def foreign_name(name: str) -> str:
    """Return a token's name in other toolkits: language tokens lose the leading space that zoo's tokenizers add."""
    bare = name.removeprefix(SPACE)
    return bare if is_language_token(bare) else name


def word_list_tokenizer(numbering: Numbering, name: str, rules: TextRules | None = None) -> Tokenizer:
    """Return a tokenizer whose vocabulary is a list of words.

    Args:
        numbering: The words, in the order of zoo's token IDs.
        name: The file or folder of the list, for error messages.
        rules: Rules that split raw text into words. If None, text is split at spaces, and the user must pass tokenised
            text, as in the original toolkit.

    Raises:
        ZooError: More than 1% of the tokens begin with `▁`. Such lists come from SentencePiece, and text can only be
            split with the SentencePiece model.
    """
    with_space = sum(token.name.startswith(SPACE) for token in numbering.tokens)
    if with_space > _MAX_SHARE_OF_SPACES * len(numbering.tokens):
        problem = f"`{name}` lists SentencePiece tokens, but there is no SentencePiece model next to it"
        raise ZooError(problem, hint="add the model as `sentencepiece.model`, or as `source.spm` and `target.spm`")
    words = (SPACE + token.name.replace(" ", SPACE) for token in numbering.tokens[len(SPECIAL) :])
    entries = [*_special_entries(), *(TokenEntry(word, 0.0, TokenType.NORMAL) for word in words)]
    tokenizer = Tokenizer(new_model("words", entries, None), name=name)
    return tokenizer.extended(rules, name) if rules else tokenizer


def without_source_end(tokenizer: Tokenizer, name: str) -> Tokenizer:
    """Return a copy of a tokenizer in which EOS is an unused token, for a model that reads sources without EOS."""
    eos = _special_entries()[EOS]
    unused = eos._replace(type=TokenType.UNUSED).encode()
    fields = (field.encoded for field in parse_fields(tokenizer.content))
    return Tokenizer(b"".join(unused if field == eos.encode() else field for field in fields), name=name)


def _special_entries() -> list[TokenEntry]:
    types = (TokenType.UNKNOWN if id == UNK else TokenType.CONTROL for id in range(len(SPECIAL)))
    return [TokenEntry(name, 0.0, type_) for name, type_ in zip(SPECIAL, types, strict=True)]


def _encode_model(
    entries: Sequence[TokenEntry], trainer: bytes, special: Mapping[int, tuple[int, str]] = _SPECIAL
) -> bytes:
    """Encode a SentencePiece model. The IDs and names of the `special` tokens override the settings in `trainer`."""
    listed = [special.get(id) for id in _SPECIAL_FIELDS]
    trainer += encode_integer(_SIZE, len(entries))
    trainer += b"".join(encode_integer(_ID + n, each[0] if each else _NO_ID) for n, each in enumerate(listed))
    trainer += b"".join(encode_bytes(_NAME + n, each[1].encode()) for n, each in enumerate(listed) if each)
    return b"".join(entry.encode() for entry in entries) + encode_bytes(_TRAINER, trainer)


def _last_values(message: bytes) -> dict[int, int | bytes]:
    """Return the value of each field in a Protocol Buffers message, keyed by field number.

    If a field occurs several times, use the last value.
    """
    return {field.number: field.value for field in parse_fields(message)}
