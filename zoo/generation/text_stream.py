"""Encode the texts of a request, join the translations of split texts, and warn about unusual texts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import repeat

from specs import UNK, ZooError
from zoo.generation.preprocessing import EncodedText, Preprocessor, unknown_units
from zoo.generation.translation import SearchInput, Translation, join_parts, unchanged
from zoo.report import Report
from zoo.text.sentences import check_text, excerpt

TextWithPrefix = tuple[str, str]
"""A text, and the prefix that its translation must start with. The prefix may be an empty string."""
_MAX_EXAMPLES = 3  # texts in a warning
_MAX_UNKNOWN = 8  # characters or words in a warning


class TextStream:
    """Texts in one request, which are encoded for the search. The translations of split texts are joined again.

    Attributes:
        preprocessor: The preprocessor that encodes the texts.
        warnings: Counts of unusual texts.
    """

    def __init__(self, preprocessor: Preprocessor, report: Report, first: int = 0) -> None:
        """Start a stream of texts.

        Args:
            preprocessor: The preprocessor that encodes the texts.
            report: Receives the warnings.
            first: Index of the first text.
        """
        self.preprocessor, self.warnings = preprocessor, InputWarnings(preprocessor, report)
        self._next_index = first
        self._finished: deque[tuple[int, list[Translation]]] = deque()
        self._searched: dict[int, tuple[EncodedText, dict[int, Iterable[Translation]]]] = {}
        """Texts that are being translated, with the translations of their finished parts, keyed by text index."""
        self._error: Exception | None = None

    def read(self, chunks: Iterable[Sequence[TextWithPrefix]]) -> Iterator[list[SearchInput]]:
        """Read texts, and yield the parts of each chunk that the model must translate.

        An error ends the iteration. `join` raises this error after it has yielded all earlier texts.
        """
        inputs = list[SearchInput]()
        try:
            for chunk in chunks:
                for text, prefix in chunk:
                    inputs += self.add(text, prefix)
                yield inputs
                inputs = []
        except Exception as error:
            self._error = error
            yield inputs

    def add(self, text: str, prefix: str) -> Sequence[SearchInput]:
        """Encode the next text. Return the parts that the model must translate. Other parts stay unchanged."""
        index, preprocessor = self._next_index, self.preprocessor
        check_text(text, index + 1, preprocessor.terms.text)
        check_text(prefix, index + 1, "prefix")
        try:
            encoded = preprocessor.encode(text, prefix, index)
        except ZooError as error:
            error.locate(f"{preprocessor.terms.text} {index + 1:,}")
            raise
        self._next_index += 1
        if encoded.parts and not prefix.strip() and preprocessor.is_unchanged(encoded.text):
            self._finished.append((index, [unchanged(encoded.text)]))
            return ()
        self.warnings.count(encoded)
        if not encoded.parts:
            self._finished.append((index, [Translation("")]))
            return ()
        inputs = encoded.parts
        if len(inputs) > 1:
            inputs = tuple(part for part in inputs if not preprocessor.is_unchanged(part.text)) or inputs
        copied = set(encoded.parts).difference(inputs)
        finished: dict[int, Iterable[Translation]] = {part.part: repeat(unchanged(part.text)) for part in copied}
        self._searched[index] = encoded, finished
        return inputs

    def join(self, results: Iterable[tuple[SearchInput, list[Translation]]]) -> Iterator[tuple[int, list[Translation]]]:
        """Yield the index and the translations of each text as soon as all its parts are translated.

        Count texts for a warning if their best translation lacks numbers, links or similar parts.

        Args:
            results: The parts with their translations, best first.

        Raises:
            Exception: The error that ended `read`.
        """
        for source, translations in results:
            self._finish(source, translations)
            yield from self._take_finished()
        yield from self._take_finished()
        if self._error:
            raise self._error

    def _take_finished(self) -> Iterator[tuple[int, list[Translation]]]:
        while self._finished:
            yield self._finished.popleft()

    def _finish(self, source: SearchInput, translations: list[Translation]) -> None:
        """Store the translations of one part of a text. If all parts are finished, join their translations."""
        text, finished = self._searched[source.index]
        finished[source.part] = translations
        if len(finished) < len(text.parts):
            return
        del self._searched[source.index]
        if len(text.parts) > 1:
            ranks = zip(*(finished[part] for part in range(len(finished))), strict=False)
            sources = [part.text for part in text.parts]
            translations = [join_parts(sources, same_rank, text.gaps) for same_rank in ranks]
        self.warnings.count_unkept(text, translations[0])
        self._finished.append((source.index, translations))


class InputWarnings(AbstractContextManager["InputWarnings"]):
    """Context manager that counts unusual texts. On exit, it issues one warning for each kind of unusual text.

    Texts are unusual if they are long, have to be split, or contain unknown characters or words. Translations that lose
    or add numbers are also counted.
    """

    def __init__(self, preprocessor: Preprocessor, report: Report) -> None:
        """Start counting the texts that a preprocessor encodes. `report` receives the warnings."""
        self._preprocessor, self._report = preprocessor, report
        self._texts = self._long = self._split = self._unknown = self._spelled = self._unkept = 0
        self._longest: dict[bool, EncodedText] = {}  # by whether the text was split
        self._first_unknown: EncodedText | None = None
        self._first_spelled: EncodedText | None = None
        self._examples: list[str] = []

    def count(self, text: EncodedText) -> None:
        """Count a text. If it is unusual, such as very long, remember this for the warnings."""
        self._texts += 1
        if not text.parts:
            return
        is_split, known, terms = text.too_long, self._preprocessor.longest_in_training, self._preprocessor.terms
        self._split += is_split
        if terms.unknown_effect and any(UNK in part.tokens for part in text.parts):
            self._unknown += 1
            self._first_unknown = self._first_unknown or text
        # Characters without a token are encoded as bytes: two to four bytes for each character in another script.
        if terms.length_unit == "tokens" and text.length > 1.3 * len(text.text) + 4:
            self._spelled += 1
            self._first_spelled = self._first_spelled or text
        longest_part = max(map(self._preprocessor.source_length, text.parts))
        self._long += not is_split and known is not None and longest_part > known
        self._longest[is_split] = max(self._longest.get(is_split, text), text, key=lambda each: each.length)

    def count_unkept(self, text: EncodedText, translation: Translation) -> None:
        """Count a translation if numbers, links or similar parts of the source are missing, or if numbers are added."""
        if translation.unkept:
            self._unkept += 1
            if len(self._examples) < _MAX_EXAMPLES:
                spans = ", ".join(map(excerpt, translation.unkept))
                self._examples.append(f"text {text.index + 1:,} ({excerpt(text.text.strip())}): {spans}")

    def __exit__(self, *_: object) -> None:
        preprocessor, report = self._preprocessor, self._report
        vocabulary, terms = preprocessor.vocabulary, preprocessor.terms
        if self._long:
            report.warn(
                f"{self._long:,} of {self._texts:,} {terms.text}s are longer than any source in the training data "
                f"({preprocessor.longest_in_training:,} {terms.length_unit}), and {self._describe_longest(False)}; "
                f"each is {terms.treatment} as a whole, so quality may be lower{terms.advice}"
            )
        if self._split:
            report.warn(
                f"{self._split:,} of {self._texts:,} texts are longer than `decoding.max_source_length` "
                f"({preprocessor.max_source_length:,} tokens), and {self._describe_longest(True)}; they are split "
                "at sentence boundaries and translated in parts"
            )
        if first := self._first_unknown:
            kind = unknown_units(vocabulary, "source")
            unknown = ", ".join(map(repr, vocabulary.unknown(first.text)[:_MAX_UNKNOWN]))
            report.warn(
                f"{self._unknown:,} of {self._texts:,} texts have {kind} that the model does not know; the first is "
                f"text {first.index + 1:,} ({excerpt(first.text)}) with {unknown}; these {kind} are "
                f"{terms.unknown_effect}"
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
        longest, terms = self._longest[is_split], self._preprocessor.terms
        return (
            f"the longest is {terms.text} {longest.index + 1:,} ({excerpt(longest.text)}) with "
            f"{longest.length:,} {terms.length_unit}"
        )
