"""Word tokens of one side: text to ids and back, learned by SentencePiece (paper, section 5.1)."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Self

import sentencepiece

import specs
from specs import BOS, EOS, PAD, UNK, ZooError
from zoo.text.lines import clean, without_control
from zoo.text.sentences import require_length

SPACE = "▁"
"""How SentencePiece writes a space before a token."""
_QUIET = 2
_SPECIAL = (PAD, UNK, BOS, EOS)
_ENDLESS = (PAD, UNK, BOS, -1)  # EOS is there, but unused
BYTES = 256
_LINE = 4192
"""Bytes of the longest line that SentencePiece learns from: it leaves longer ones out unsaid. Were it told to take
them, it would abort the process over a word of more than 65,535 characters."""
_UTF8 = 4  # bytes that a character takes at most
_COVERAGE = 0.9999
"""Of a text's letters and signs have tokens of their own where there are bytes: rarer ones teach a model its bytes."""


class Tokenizer:
    """Text is given as it is: it is cleaned as all text is, and the model holds the rest of its normalisation."""

    def __init__(self, content: bytes, *, name: str = "vocabulary.model") -> None:
        """From the content of a SentencePiece model. Raises ZooError, calling it `name`, where it is damaged."""
        self.content = content
        self.model = _opened(content, name)
        """SentencePiece's own."""

    @classmethod
    def learned(cls, lines: Iterable[str], section: specs.Vocabulary, size: int, field: str = "size") -> Self:
        """So many from these lines, as this field of the section says.

        Raises ZooError where they have too little variety, or too many letters.
        """
        return cls(_learned(lines, section, size, f"vocabulary.{field}"))

    @cached_property
    def size(self) -> int:
        """How many there are, the special ones included."""
        return int(self.model.get_piece_size())

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a token are spelled in bytes."""
        return bool(self.model.is_byte(EOS + 1))

    @property
    def ends(self) -> bool:
        """Whether EOS stands behind the tokens of a text; it does not where an imported model reads none."""
        return bool(self.model.eos_id() == EOS)

    def encode(self, text: str) -> list[int]:
        """The ids of a line's tokens, without BOS and EOS. Raises ZooError for one that is too long."""
        require_length(text, "the text")
        return self._encoded(clean(text))

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of many lines, on all cores."""
        if self.of_words:
            return [self._encoded(clean(text)) for text in texts]
        return list(self.model.encode(list(map(clean, texts)))) if texts else []

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens, one line. PAD, BOS and EOS are nothing; UNK is shown as ⁇, bytes that are none as �."""
        return without_control(str(self.model.decode([int(id) for id in ids if id not in (PAD, BOS, EOS)])))

    def spelled(self, text: str) -> list[str]:
        """The line's tokens, in the order of `encode`, as `named` has them; what is unknown stands as it is."""
        return _words(clean(text)) if self.of_words else list(self.model.encode(clean(text), out_type=str))

    def named(self, ids: Iterable[int]) -> list[str]:
        """Each token by itself, as SentencePiece writes it: `▁` where a word begins, a byte as <0xE4>; UNK is ⁇."""
        return ["⁇" if id == UNK else str(self.model.id_to_piece(int(id))) for id in ids]

    @cached_property
    def of_words(self) -> bool:
        """Whether each token is a whole word, so that text is cut at spaces alone: a vocabulary imported as a list."""
        return all(token.startswith(SPACE) for token in self.model.id_to_piece(list(range(EOS + 1, self.size))))

    def _encoded(self, text: str) -> list[int]:
        # Of unknown words in a row SentencePiece makes one unknown token, and the toolkits of lists one of each.
        return list(self.model.piece_to_id(_words(text)) if self.of_words else self.model.encode(text))

    def sample(self, ids: list[int], alpha: float) -> list[int]:
        """Other tokens of the same text, drawn at random; these where one of them is unknown, as the text then is."""
        if UNK in ids:
            return ids
        return list(self.model.encode(self.model.decode(ids), enable_sampling=True, alpha=alpha, nbest_size=-1))


def _words(text: str) -> list[str]:
    return [SPACE + word for word in text.split(" ") if word]


def damaged(name: str, reason: str) -> ZooError:
    """That the file `name` of a vocabulary is not as it was written."""
    return ZooError(f"`{name}` is damaged: {reason}", hint="restore it from where it came from", exit_code=1)


def _opened(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    sentencepiece.set_min_log_level(_QUIET)
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
        # What is no text in it would be found out by the sentence that needs it.
        processor.id_to_piece(list(range(processor.get_piece_size())))
        processor.decode([UNK])
    except (RuntimeError, ValueError, IndexError):
        raise damaged(name, "it is not a SentencePiece model") from None
    found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if found not in (_SPECIAL, _ENDLESS) or processor.get_piece_size() <= EOS + 1:
        raise damaged(name, f"its PAD, UNK, BOS, EOS are {found}, not {_SPECIAL}")
    return processor


def _learned(lines: Iterable[str], section: specs.Vocabulary, size: int, field: str) -> bytes:
    model = io.BytesIO()
    failures: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_watched(_broken(lines), failures),
            model_writer=model,
            model_type=section.kind,
            vocab_size=size,
            character_coverage=_COVERAGE if section.byte_fallback else 1.0,
            byte_fallback=section.byte_fallback,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=_QUIET,
        )
    except RuntimeError as error:
        if not failures:
            raise _refused(str(error), section, size, field) from None
    if failures:
        raise failures[0]
    return model.getvalue()


def _broken(lines: Iterable[str]) -> Iterator[str]:
    """The same text in lines that are learned from: longer ones broken at spaces, and in words that are longer."""
    for line in lines:
        if len(line) <= _LINE // _UTF8 or len(line.encode()) <= _LINE:
            yield line
        else:
            yield from textwrap.wrap(line, _LINE // _UTF8, break_on_hyphens=False)


def _watched(lines: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """The lines; SentencePiece swallows what is raised between them (Ctrl-C, too), so it is kept here."""
    try:
        yield from lines
    except GeneratorExit:
        raise
    except BaseException as error:
        failures.append(error)
        raise


def _refused(told: str, section: specs.Vocabulary, size: int, field: str) -> ZooError:
    """SentencePiece's refusal in our words."""
    if found := re.search(r"value <= (\d+)", told):
        most = int(found[1])
        return ZooError(
            f"`{field}` is {size:,}, and this text gives {most:,} tokens at most",
            hint=f"write `{field}={most}` or less",
        )
    if found := re.search(r"(\d+) vs (\d+)\. Increase vocab_size", told):
        least = int(found[2])
        given = len(_SPECIAL) + (BYTES if section.byte_fallback else 0)
        bytes = f", and the bytes {BYTES}" if section.byte_fallback else ""
        return ZooError(
            f"`{field}` is {size:,}, and this text has {least - given:,} "
            f"different letters and signs, which need a token each{bytes}",
            hint=f"write `{field}={least}` or more",
        )
    if "sentences_.empty()" in told:
        return ZooError("there is no text to learn a vocabulary from")
    return ZooError(f"no vocabulary could be learned: {told}", exit_code=1)
