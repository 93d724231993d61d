"""Encoded texts, and warnings about unusual texts."""

from __future__ import annotations

from dataclasses import dataclass

from specs import UNK
from zoo.generation.translation import SearchInput, Translation
from zoo.report import Report
from zoo.text.sentences import excerpt
from zoo.text.vocabulary import Side, Vocabulary

_MAX_EXAMPLES = 3  # texts in a warning
_MAX_UNKNOWN = 8  # characters or words in a warning


@dataclass(frozen=True, slots=True, eq=False)
class EncodedText:
    """Text with its search inputs. An empty text has no input, and a text translated in parts has several inputs.

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


class InputWarnings:
    """Context manager that counts unusual texts. On exit, it issues one warning for each kind of unusual text.

    Texts are unusual if they are long, have to be split, or contain unknown characters or words. Translations that lose
    or add numbers are also counted.
    """

    def __init__(
        self,
        longest_in_training: int | None,
        max_source_length: int,
        report: Report,
        unknown_effect: str | None,
        vocabulary: Vocabulary,
    ) -> None:
        """Start counting.

        Args:
            longest_in_training: Number of tokens in the longest source in training. None if it is not known.
            max_source_length: Maximum number of tokens in a text that is translated as a whole.
            report: Receives the warnings.
            unknown_effect: Part of the warning: what happens to unknown characters or words. None: no warning.
            vocabulary: Vocabulary of the model.
        """
        self._unknown_effect, self._vocabulary = unknown_effect, vocabulary
        self._longest_in_training, self._max_source_length = longest_in_training, max_source_length
        self._report = report
        self._texts = self._long = self._split = self._unknown = self._spelled = 0
        self._longest: dict[bool, EncodedText] = {}  # by whether the text was split
        self._first_unknown: EncodedText | None = None
        self._first_spelled: EncodedText | None = None
        self._unkept = 0
        self.noun, self.unit, self.treatment, self.advice = "text", "tokens", "translated", ""
        """Words in the warnings: the noun for an input, the unit of its length, the verb for the model's action, and
        advice about long inputs."""
        self._examples: list[str] = []

    def count(self, text: EncodedText) -> None:
        """Add a text to the counts."""
        self._texts += 1
        if not text.parts:
            return
        is_split, known = text.too_long, self._longest_in_training
        self._split += is_split
        if self._unknown_effect and any(UNK in part.tokens for part in text.parts):
            self._unknown += 1
            self._first_unknown = self._first_unknown or text
        # Characters without a token are encoded as bytes: two to four bytes for each character in another script.
        if self.unit == "tokens" and text.length > 1.3 * len(text.text) + 4:
            self._spelled += 1
            self._first_spelled = self._first_spelled or text
        longest_part = max(map(len, text.parts)) - len(self._vocabulary.source_suffix)
        self._long += not is_split and known is not None and longest_part > known
        if is_split not in self._longest or self._longest[is_split].length < text.length:
            self._longest[is_split] = text

    def count_unkept(self, text: EncodedText | SearchInput, translation: Translation) -> None:
        """Count a translation if it lacks numbers, links or the like of its text, or has added numbers."""
        if translation.unkept:
            self._unkept += 1
            if len(self._examples) < _MAX_EXAMPLES:
                spans = ", ".join(map(excerpt, translation.unkept))
                self._examples.append(f"text {text.index + 1:,} ({excerpt(text.text)}): {spans}")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._long:
            self._report.warn(
                f"{self._long:,} of {self._texts:,} {self.noun}s are longer than any source in training "
                f"({self._longest_in_training:,} {self.unit}), and {self._describe_longest(False)}; they are "
                f"{self.treatment} whole, but quality may be lower{self.advice}"
            )
        if self._split:
            self._report.warn(
                f"{self._split:,} of {self._texts:,} texts are longer than `decoding.max_source_length` "
                f"({self._max_source_length:,} tokens), and {self._describe_longest(True)}; they are split between "
                "sentences and translated in parts"
            )
        if self._unknown_effect and (first := self._first_unknown):
            kind = units(self._vocabulary, "source")
            unknown = ", ".join(map(repr, self._vocabulary.unknown(first.text)[:_MAX_UNKNOWN]))
            self._report.warn(
                f"{self._unknown:,} of {self._texts:,} texts have {kind} that the model does not know; the first is "
                f"text {first.index + 1:,} ({excerpt(first.text)}) with {unknown}; these {kind} are "
                f"{self._unknown_effect}"
            )
        if first := self._first_spelled:
            self._report.warn(
                f"{self._spelled:,} of {self._texts:,} texts consist mostly of characters that the model has no tokens "
                f"for; the first is text {first.index + 1:,} ({excerpt(first.text)}); expect wrong translations"
            )
        if self._unkept:
            self._report.warn(
                f"{self._unkept:,} of {self._texts:,} translations lack numbers, links or the like of their texts, or "
                f"have added numbers ({'; '.join(self._examples)}); check these translations"
            )

    def _describe_longest(self, is_split: bool) -> str:
        longest = self._longest[is_split]
        return (
            f"the longest is {self.noun} {longest.index + 1:,} ({excerpt(longest.text)}) with {longest.length:,} "
            f"{self.unit}"
        )


def units(vocabulary: Vocabulary, side: Side) -> str:
    """Return "words" if each token is a word, otherwise "characters", for messages about unknown text."""
    return "words" if vocabulary.is_word_level(side) else "characters"
