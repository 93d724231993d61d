"""Tokenizer for source or target text. It converts text to token IDs and back, with SentencePiece (section 5.1)."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Self

import numpy as np
import sentencepiece

from specs import BOS, EOS, PAD, UNK, Vocabulary, ZooError
from zoo.files.reading import damaged
from zoo.text.copying import MAX_SYMBOLS, copy_symbols
from zoo.text.lines import clean, clean_with_positions, read_sentences, without_control
from zoo.text.modality import Modality, Options
from zoo.text.protobuf import parse_fields
from zoo.text.rules import ADDED_TOKENS, TEXT_RULES, AddedTokens, TextRules
from zoo.text.sentences import check_length

_TOKENS, _NORMALIZERS = 1, (3, 5)  # fields of the model; a denormaliser is also a normaliser
_TEXT = 1  # field of a token
_CHARACTER_MAP = 2  # field of a normaliser
_HAS_LEAF, _WIDE_OFFSET, _LEAF = 1 << 8, 1 << 9, 1 << 31  # bits of a unit of a double-array trie
_VALUE = _LEAF - 1
SPACE = "▁"
"""Character that represents a space at the beginning of a SentencePiece token."""
BYTE_TOKENS = 256
"""Number of tokens for byte fallback, one for each byte."""
_LOG_ERRORS_ONLY = 2
_SPECIAL_IDS = (PAD, UNK, BOS, EOS)
_SPECIAL_IDS_WITHOUT_EOS = (PAD, UNK, BOS, -1)  # the token exists, but the model does not append it
_MAX_LINE_BYTES = 4192
"""Maximum length of lines that SentencePiece learns from, in bytes. It silently skips longer lines.

Raising this limit in SentencePiece does not help, because words of more than 65,535 characters make it abort the
process.
"""
_MAX_BYTES_PER_CHARACTER = 4
_BYTE_FALLBACK_COVERAGE = 0.9999
"""With byte fallback, the fraction of the characters in the training text that get tokens of their own.

The remaining characters are rare. They are encoded as bytes, so that a model learns the byte tokens.
"""


def check_model(model: bytes) -> None:
    """Check the content of a SentencePiece model file.

    Raises:
        ValueError: A token contains NUL, a character map refers to positions outside the map, or a field that zoo
            has added is not at the beginning.
    """
    for index, field in enumerate(parse_fields(model)):
        if index and field.number in (ADDED_TOKENS, TEXT_RULES):
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
    """Check that a SentencePiece normaliser's character map does not refer to positions outside the map.

    A map consists of the size of a double-array trie (darts-clone), the trie, and NUL-terminated strings. The trie is
    an array of nodes. The children of a node are at the positions index ^ offset ^ byte, for any byte. A leaf contains
    the position of a string.
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
        raise ValueError("the character map refers to a position outside the map")
    values = units[children[inner & ((units & _HAS_LEAF) != 0)]] & _VALUE
    if np.any(values >= len(strings)):
        raise ValueError("the character map refers to a string outside the map")


class Tokenizer(Modality):
    """Modality `text`: a tokenizer based on a SentencePiece model. `specs` defines the IDs of PAD, UNK, BOS and EOS.

    Text is first cleaned by `zoo.text.lines.clean`. The SentencePiece model does all other normalisation.

    Attributes:
        content: Content of the model file.
        model: The SentencePiece processor.
        added: The added tokens of an imported vocabulary, or None.
        rules: The text rules of an imported vocabulary that is a list of words, or None.
    """

    suffix = ".model"
    read = staticmethod(read_sentences)

    def __init__(self, content: bytes, name: str = "vocabulary.model") -> None:
        """Load a SentencePiece model.

        Args:
            content: Content of the model file.
            name: Name of the file in error messages.

        Raises:
            ZooError: The content is not a valid model.
        """
        self.content = content
        self.model = _load_model(content, name)
        self.size = int(self.model.get_piece_size())
        try:
            self.added = AddedTokens.read(content, self.size)
        except (ValueError, IndexError, RecursionError):
            raise damaged(name, "its added tokens are invalid") from None
        try:
            self.rules = TextRules.read(content)
        except (ValueError, IndexError):
            raise damaged(name, "its text rules are invalid") from None
        if self.rules and not self.is_word_level:
            raise damaged(name, "it has text rules, but is not a list of words")

    @classmethod
    def learn(
        cls, lines: Iterable[str], section: Vocabulary, stream: str, language_tokens: Sequence[str], options: Options
    ) -> Self:
        """Learn a tokenizer from lines of text (see `Modality.learn`).

        Raises:
            ZooError: The vocabulary size is larger than the number of possible tokens, or too small for the number of
                different characters.
        """
        field = "size" if stream == "source" or section.target_size is None else "target_size"
        return cls(_train_model(lines, section, field, language_tokens))

    @classmethod
    def from_content(cls, content: bytes, name: str) -> Self:
        """Load a tokenizer from the content of a model file. See the constructor."""
        return cls(content, name)

    def extended(self, extension: AddedTokens | TextRules, name: str) -> Tokenizer:
        """Return a copy of the tokenizer with added tokens or text rules."""
        return Tokenizer(extension.prepended_to(self.content), name=name)

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a token are encoded as bytes."""
        return any(self.model.is_byte(list(range(EOS + 1, self.size))))

    def id_of(self, token: str) -> int | None:
        """Return the ID of a token, or None if the vocabulary does not contain the token."""
        id = int(self.model.piece_to_id(token))
        return None if id == UNK else id

    @cached_property
    def control_tokens(self) -> frozenset[int]:
        """IDs of the tokens that do not stand for text, such as EOS and the language tokens."""
        return frozenset(id for id in range(self.size) if self.model.is_control(id) or id in self._rejected)

    @cached_property
    def _rejected(self) -> frozenset[int | None]:
        """IDs of the tokens that a text must not contain, such as language tokens."""
        added = self.added.ids if self.added else {}
        return frozenset(self.id_of(name) for name, id in added.items() if id is None)

    @cached_property
    def copy_symbols(self) -> tuple[str, ...]:
        """The copy symbols (see `zoo.text.copying`). Empty if the vocabulary has no copy symbols."""
        return tuple(takewhile(self.id_of, copy_symbols(MAX_SYMBOLS)))

    @property
    def appends_eos(self) -> bool:
        """Whether EOS is appended to source tokens. False for imported models whose sources had no EOS in training."""
        return bool(self.model.eos_id() == EOS)

    def encode(self, text: str) -> list[int]:
        """Return the token IDs of a line, without BOS and EOS.

        Raises:
            ZooError: The text is too long.
        """
        check_length(text, "the text")
        return self._encode_clean(clean(text))

    def is_rare(self, word: str) -> bool:
        """Return whether a word is rare: it is split into many tokens for its length, even in lower case.

        A rare word has at least three tokens, with at most 2.5 letters per token on average. In lower case, it has at
        least as many tokens.
        """
        count, lower = (len(self._encode_clean(each)) for each in (word, word.lower()))
        return 3 <= count <= lower and len(word) <= 2.5 * count

    def encode_all(self, raw: Sequence[str], unusable: Callable[[str], None] | None = None) -> list[list[int]]:
        """Return the token IDs of each line, without BOS and EOS. The lengths of the lines are not checked.

        Args:
            raw: The lines.
            unusable: Not used, because no line is unusable (see `Modality.encode_all`).
        """
        texts = list(map(clean, raw))
        return list(map(self._encode_clean, texts) if self.is_word_level or self.added else self.model.encode(texts))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text that the tokens encode, as one line.

        PAD, BOS, EOS and tokens that a text must not contain are skipped. UNK becomes ⁇, and byte tokens that are not
        valid UTF-8 become �.
        """
        skipped = {PAD, BOS, EOS, *self._rejected}
        text = str(self.model.decode([int(id) for id in ids if id not in skipped]))
        return without_control(self.rules.join(text.split()) if self.rules else text)

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens in a line as strings, in the order of `encode`. Unknown tokens keep their original text."""
        if self.is_word_level:
            return self._words(clean(text))
        parts = [clean(text)] if self.added is None else self.added.split(clean(text))
        encoded = ([part] if isinstance(part, int) else self.model.encode(part, out_type=str) for part in parts)
        return [
            str(self.model.id_to_piece(token) if isinstance(token, int) else token) for row in encoded for token in row
        ]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end, in characters, of each token that `encode` returns for a line.

        Spans do not include white space around a token. The span of a token that consists only of white space is empty.
        """
        cleaned, positions = clean_with_positions(text)
        spans = list(self._clean_spans(cleaned))
        for index in range(len(spans) - 2, -1, -1):  # each byte token has the span of its character
            start, end = spans[index]
            if start == end == spans[index + 1][0]:
                spans[index] = start, spans[index + 1][1]
        result = []
        for start, end in spans:
            token = cleaned[start:end]
            start += len(token) - len(token.lstrip())
            end = start + len(token.strip())
            last = positions[end - 1] + 1 if end > start else positions[start]
            result.append((positions[start], last))
        return result

    def _clean_spans(self, text: str) -> Iterator[tuple[int, int]]:
        if self.rules:
            yield from self.rules.spans(text)
            return
        if self.is_word_level and not self.added:
            yield from (match.span() for match in re.finditer("[^ ]+", text))
            return
        start = 0
        for part in [text] if self.added is None else self.added.split(text):
            if isinstance(part, int):
                names = self.added.ids if self.added else ()
                length = max(len(name) for name in names if text.startswith(name, start))
                yield start, start + length
            else:
                length = len(part)
                tokens = self.model.encode(part, out_type="immutable_proto").pieces
                yield from ((start + token.begin, start + token.end) for token in tokens)
            start += length

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return each token as a string. Words begin with `▁`, bytes look like `<0xE4>`, and UNK is `⁇`."""
        return ["⁇" if id == UNK else str(self.model.id_to_piece(int(id))) for id in ids]

    @cached_property
    def is_word_level(self) -> bool:
        """Whether all tokens are whole words. Text is then split only at spaces and by text rules.

        True for a word list that was imported without BPE codes. (BPE codes would split words into subwords.)
        """
        return all(token.startswith(SPACE) for token in self.model.id_to_piece(list(range(EOS + 1, self.size))))

    def _encode_clean(self, text: str) -> list[int]:
        if self.added:
            parts = self.added.split(text)
            return [id for part in parts for id in ([part] if isinstance(part, int) else self.model.encode(part))]
        # SentencePiece merges adjacent unknown words into one UNK. Toolkits with word lists use one UNK per word.
        words = self.is_word_level
        return list(self.model.piece_to_id(self._words(text)) if words else self.model.encode(text))

    def _words(self, text: str) -> list[str]:
        """Split a line into words. Each word begins with `▁`, as in the vocabulary of a word-level model."""
        words = self.rules.split(text) if self.rules else text.split(" ")
        return [SPACE + word for word in words if word]

    def sample(self, ids: list[int], alpha: float) -> list[int]:
        """Return a random tokenisation of the text that `ids` encodes (subword regularisation).

        Args:
            ids: Token IDs of the text. Language tokens at the beginning are kept.
            alpha: Probability of skipping a merge (BPE), or exponent of the probabilities (unigram).

        Returns:
            The sampled IDs. If the tokens are words, or if `ids` contains UNK or an added token, the text cannot be
            restored, and `ids` is returned unchanged.
        """
        if self.is_word_level or UNK in ids or (self.added and not set(ids).isdisjoint(self.added.ids.values())):
            return ids
        marks = (index for index, id in enumerate(ids) if self.model.is_control(id) or id in self._rejected)
        start = 1 + max(marks, default=-1)
        text = self.model.decode(ids[start:])
        return [*ids[:start], *self.model.encode(text, enable_sampling=True, alpha=alpha, nbest_size=-1)]


def _load_model(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    sentencepiece.set_min_log_level(_LOG_ERRORS_ONLY)
    processor = sentencepiece.SentencePieceProcessor()
    try:
        check_model(model)
        processor.load_from_serialized_proto(model)
        # Read all tokens now. Otherwise a token with invalid text would raise an error at its first use.
        processor.id_to_piece(list(range(processor.get_piece_size())))
        processor.decode([UNK])
    except (RuntimeError, ValueError, IndexError):
        raise damaged(name, "it is not a SentencePiece model") from None
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if ids not in (_SPECIAL_IDS, _SPECIAL_IDS_WITHOUT_EOS) or processor.get_piece_size() <= EOS + 1:
        raise damaged(name, f"the IDs of PAD, UNK, BOS, EOS are {ids}, not {_SPECIAL_IDS}")
    return processor


def _train_model(lines: Iterable[str], section: Vocabulary, field: str, language_tokens: Sequence[str]) -> bytes:
    """Train a SentencePiece model. `field` is the setting in `section` that contains the vocabulary size."""
    model = io.BytesIO()
    failures: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_record_failures(_split_long_lines(lines), failures),
            model_writer=model,
            model_type=section.kind,
            vocab_size=getattr(section, field),
            character_coverage=_BYTE_FALLBACK_COVERAGE if section.byte_fallback else 1.0,
            byte_fallback=section.byte_fallback,
            control_symbols=list(language_tokens),
            user_defined_symbols=list(copy_symbols(section.copy_symbols)),
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=_LOG_ERRORS_ONLY,
        )
    except RuntimeError as error:
        if not failures:
            raise _training_error(str(error), section, field) from None
    if failures:
        raise failures[0]
    return model.getvalue()


def _split_long_lines(lines: Iterable[str]) -> Iterator[str]:
    """Split all lines longer than _MAX_LINE_BYTES at spaces, or within a word that is too long. Yield all lines."""
    max_characters = _MAX_LINE_BYTES // _MAX_BYTES_PER_CHARACTER
    for line in lines:
        if len(line) <= max_characters or len(line.encode()) <= _MAX_LINE_BYTES:
            yield line
        else:
            yield from textwrap.wrap(line, max_characters, break_on_hyphens=False)


def _record_failures(lines: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """Yield the lines. Store any exception in `failures`, because SentencePiece ignores it (even KeyboardInterrupt)."""
    try:
        yield from lines
    except GeneratorExit:
        raise
    except BaseException as error:
        failures.append(error)
        raise


def _training_error(message: str, section: Vocabulary, field: str) -> ZooError:
    """Convert an error message from SentencePiece training to a ZooError."""
    name, size = f"vocabulary.{field}", getattr(section, field)
    if match := re.search(r"value <= (\d+)", message):
        max_size = int(match[1])
        problem = f"`{name}` is {size:,}, but this text yields at most {max_size:,} tokens"
        return ZooError(problem, hint=f"set `{name}` to at most {max_size}")
    if match := re.search(r"(\d+) vs (\d+)\. Increase vocab_size", message):
        min_size = int(match[2])
        reserved = len(_SPECIAL_IDS) + (BYTE_TOKENS if section.byte_fallback else 0)
        bytes = f", and byte fallback needs {BYTE_TOKENS} more" if section.byte_fallback else ""
        return ZooError(
            f"`{name}` is {size:,}, but this text has {min_size - reserved:,} different characters, "
            f"which need one token each{bytes}",
            hint=f"set `{name}` to at least {min_size}",
        )
    if "sentences_.empty()" in message:
        hint = "add text to `corpus.train`: all its lines are empty"
        return ZooError("there is no text to learn a vocabulary from", hint=hint)
    hint = "check the text of `corpus.train`, or try a different `vocabulary.size` or `vocabulary.kind`"
    return ZooError(f"SentencePiece could not learn the vocabulary: {message}", hint=hint, exit_code=1)
