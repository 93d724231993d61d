"""Encoded texts, and warnings about unusual texts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specs import UNK
from zoo.generation.translation import SearchInput, Translation
from zoo.text.sentences import excerpt
from zoo.text.vocabulary import Side, Vocabulary

if TYPE_CHECKING:
    from zoo.generation.preprocessing import Preprocessor

_MAX_EXAMPLES = 3  # texts in a warning
_MAX_UNKNOWN = 8  # characters or words in a warning


@dataclass(frozen=True, slots=True, eq=False)
class EncodedText:
    """Text, encoded as inputs for the search. An empty text has no input. If a text is split, each part is an input.

    Attributes:
        index: Position of the text, from 0.
        text: The text.
        parts: The input for each part. A part contains one or more sentences.
        length: Number of tokens in the whole text, without EOS.
        gaps: The white space between each part and the next.
        too_long: Whether the text is too long for the model to translate as a whole.
    """

    index: int
    text: str
    parts: tuple[SearchInput, ...]
    length: int
    gaps: tuple[str, ...] = ()
    too_long: bool = False


class InputWarnings(AbstractContextManager["InputWarnings"]):
    """Context manager that counts unusual texts. On exit, it issues one warning for each kind of unusual text.

    Texts are unusual if they are long, have to be split, or contain unknown characters or words. Translations that lose
    or add numbers are also counted.
    """

    def __init__(self, preprocessor: Preprocessor) -> None:
        """Start to count the texts that a preprocessor encodes."""
        self._preprocessor, self._longest_in_training = preprocessor, preprocessor.longest_in_training
        self._texts = self._long = self._split = self._unknown = self._spelled = self._unkept = 0
        self._longest: dict[bool, EncodedText] = {}  # by whether the text was split
        self._first_unknown: EncodedText | None = None
        self._first_spelled: EncodedText | None = None
        self._examples: list[str] = []

    def count(self, text: EncodedText) -> None:
        """Add a text to the counts."""
        self._texts += 1
        if not text.parts:
            return
        is_split, known = text.too_long, self._longest_in_training
        self._split += is_split
        if self._preprocessor.unknown_effect and any(UNK in part.tokens for part in text.parts):
            self._unknown += 1
            self._first_unknown = self._first_unknown or text
        # Characters without a token are encoded as bytes: two to four bytes for each character in another script.
        if self._preprocessor.length_unit == "tokens" and text.length > 1.3 * len(text.text) + 4:
            self._spelled += 1
            self._first_spelled = self._first_spelled or text
        longest_part = max(map(self._preprocessor.source_length, text.parts))
        self._long += not is_split and known is not None and longest_part > known
        self._longest[is_split] = max(self._longest.get(is_split, text), text, key=lambda each: each.length)

    def count_unkept(self, text: EncodedText | SearchInput, translation: Translation) -> None:
        """Count a translation if numbers, links or similar parts of the source are missing, or if numbers are added."""
        if translation.unkept:
            self._unkept += 1
            if len(self._examples) < _MAX_EXAMPLES:
                spans = ", ".join(map(excerpt, translation.unkept))
                self._examples.append(f"text {text.index + 1:,} ({excerpt(text.text)}): {spans}")

    def __exit__(self, *_: object) -> None:
        preprocessor = self._preprocessor
        vocabulary, report = preprocessor.vocabulary, preprocessor.report
        if self._long:
            report.warn(
                f"{self._long:,} of {self._texts:,} {preprocessor.label}s are longer than any source in training "
                f"({self._longest_in_training:,} {preprocessor.length_unit}), and {self._describe_longest(False)}; "
                f"each is {preprocessor.treatment} as a whole, so quality may be lower{preprocessor.advice}"
            )
        if self._split:
            report.warn(
                f"{self._split:,} of {self._texts:,} texts are longer than `decoding.max_source_length` "
                f"({preprocessor.max_source_length:,} tokens), and {self._describe_longest(True)}; they are split "
                "at sentence boundaries and translated in parts"
            )
        if first := self._first_unknown:
            kind = units(vocabulary, "source")
            unknown = ", ".join(map(repr, vocabulary.unknown(first.text)[:_MAX_UNKNOWN]))
            report.warn(
                f"{self._unknown:,} of {self._texts:,} texts have {kind} that the model does not know; the first is "
                f"text {first.index + 1:,} ({excerpt(first.text)}) with {unknown}; these {kind} are "
                f"{preprocessor.unknown_effect}"
            )
        if first := self._first_spelled:
            report.warn(
                f"{self._spelled:,} of {self._texts:,} texts consist mostly of characters that the model has no tokens "
                f"for; the first is text {first.index + 1:,} ({excerpt(first.text)}); expect wrong translations"
            )
        if self._unkept:
            report.warn(
                f"{self._unkept:,} of {self._texts:,} translations lack numbers, links or similar parts of their "
                f"source, or contain additional numbers ({'; '.join(self._examples)}); check these translations"
            )

    def _describe_longest(self, is_split: bool) -> str:
        longest, preprocessor = self._longest[is_split], self._preprocessor
        return (
            f"the longest is {preprocessor.label} {longest.index + 1:,} ({excerpt(longest.text)}) with "
            f"{longest.length:,} {preprocessor.length_unit}"
        )


def units(vocabulary: Vocabulary, side: Side) -> str:
    """Return the noun for unknown items in messages: "words" if each token is a word, otherwise "characters"."""
    return "words" if vocabulary.is_word_level(side) else "characters"
