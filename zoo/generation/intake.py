"""Texts as the search takes them: tokens, bounded by what the model has learned and by its spec."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from specs import BOS, EOS, PAD, UNK, Spec, ZooError
from zoo.generation.lengths import Lengths, Split
from zoo.generation.source import Source
from zoo.report import Report
from zoo.text.sentences import checked_texts, excerpt, split_sentences
from zoo.text.vocabulary import Side, Vocabulary

Pair = tuple[str, str]
"""A text, and what its translation must start with."""


class Intake:
    """`longest` is the longest source of the training, in tokens: `lengths` counts longer ones, to tell `report`.

    `positions` are the rows of a learned table, which no sentence may outgrow; None where there is no such bound.
    """

    unknown: str | None = "left out, or translated as something else"
    """What becomes of characters or words that the model does not know."""

    def __init__(
        self, vocabulary: Vocabulary, spec: Spec, positions: int | None, longest: int | None, report: Report
    ) -> None:
        self.vocabulary, self.decoding, self.positions = vocabulary, spec.decoding, positions
        self.empty = (vocabulary.source_end,)
        """The tokens of a source without a word."""
        self.most = self.decoding.max_source_length
        if positions is not None:
            self.most = min(self.most, positions - 1)  # EOS takes one
        self.lengths = Lengths(longest, self.most, report, self.unknown, _units(vocabulary, "source"))
        self.nothing: deque[int] = deque()
        """Indices of texts that were read and have no token."""
        self.split: deque[Split] = deque()
        """Texts that were read and are to be translated in parts."""
        self.failure: Exception | None = None
        """Why not all was read."""
        self.of: int | None = None
        """The index of the text that all of these are parts of."""

    def windows(self, windows: Iterable[Sequence[Pair]], first: int) -> Iterator[list[Source]]:
        """The sentences of each window that the search takes; an error in reading ends them and is kept."""
        try:
            for window in windows:
                several = self._until_an_error(window, first)
                first += len(window)
                self.nothing.extend(each.index for each in several if each.tokens == self.empty)
                self.split.extend(each for each in several if isinstance(each, Split))
                self.lengths.count(several)
                yield [each for each in several if isinstance(each, Source) and each.tokens != self.empty]
                if self.failure:
                    return
        except Exception as error:
            self.failure = error

    def _until_an_error(self, window: Sequence[Pair], first: int) -> list[Source | Split]:
        """The sentences of a window before the first that has an error, which is kept."""
        try:
            return self._read(window, first)
        except Exception as error:
            good: list[Source | Split] = []
            for index, pair in enumerate(window, start=first):
                try:
                    good += self._read([pair], index)
                except Exception as its:
                    self.failure = its
                    return good
            raise error

    def _read(self, window: Sequence[Pair], first: int) -> list[Source | Split]:
        texts = checked_texts((text for text, _ in window), first=first + 1)
        prefixes = checked_texts((prefix for _, prefix in window), first=first + 1, label="prefix")
        return self.sources(texts, prefixes, first)

    def sources(self, texts: Sequence[str], prefixes: Sequence[str], first: int) -> list[Source | Split]:
        """The sentences, of which the first has the index `first`; one of white space has no token but EOS.

        Raises ZooError where one is too long for the model, or a prefix for a translation, and where a prefix has
        characters that no translation can have.
        """
        rows = self._encoded(texts, "source")
        found: list[Source | Split] = []
        for index, (row, text, prefix) in enumerate(zip(rows, texts, prefixes, strict=True), start=first):
            parts = tuple(self._parts(text, index)) if len(row) - 1 > self.most else ()
            limit, forced = self._limit(len(row) - 1), self._forced(prefix, index)
            begun = self._limit(len(self.vocabulary.encode(parts[0], "source"))) if parts and forced else limit
            _check_prefix(forced, begun if len(row) > 1 else None, parts[0] if parts else text, prefix)
            if parts:
                found.append(Split(index, tuple(row), parts, prefix, text))
            else:
                found.append(Source(index, tuple(row), limit, forced, text, len(text.split()), of=self.of))
        return found

    def _forced(self, prefix: str, index: int) -> tuple[int, ...]:
        """The tokens of a prefix."""
        forced = tuple(self.vocabulary.encode(prefix, "target")) if prefix.strip() else ()
        if UNK in forced:
            unknown = ", ".join(map(repr, self.vocabulary.unknown(prefix, "target")))
            what = _units(self.vocabulary, "target")
            hint = "leave them out; a model that was trained with `vocabulary.byte_fallback: true` writes any"
            if what == "words":
                hint = "leave them out: the model came with a list of all words that it writes"
            raise ZooError(
                f"prefix {index + 1:,} ({excerpt(prefix)}) has {what} that the model cannot write: {unknown}", hint=hint
            )
        if suppressed := [token for token in dict.fromkeys(forced) if token in self.decoding.suppressed_tokens]:
            tokens = ", ".join(map(repr, self.vocabulary.token_strings(suppressed)))
            raise ZooError(
                f"prefix {index + 1:,} ({excerpt(prefix)}) has tokens that `decoding.suppressed_tokens` leaves out: {tokens}",
                hint="write it otherwise, or leave the prefix out",
            )
        return forced

    def _parts(self, text: str, index: int) -> Iterator[str]:
        """As few as there can be of a long text, in order, each of whole sentences."""
        part, length = "", 0
        for sentence in split_sentences(text):
            more = len(self.vocabulary.encode(sentence, "source"))
            if more > self.most:
                self._require_positions(more + 1, sentence, "source")
                raise ZooError(
                    f"text {index + 1:,} ({excerpt(text)}) has a sentence of {more:,} tokens, and the model takes "
                    f"{self.most:,} (`decoding.max_source_length`)",
                    hint="break it into lines",
                )
            if part and length + more > self.most:
                yield part
                part, length = "", 0
            part, length = f"{part} {sentence}" if part else sentence, length + more
        yield part

    def rows(self, texts: Sequence[str], side: Side, *, first: int = 1) -> list[list[int]]:
        """The tokens of each text and EOS; those of a target after BOS. The first is of the pair of that number.

        Raises ZooError where one is too long, and for a source of which nothing is read.
        """
        rows = self._encoded(texts, side)
        for number, (row, text) in enumerate(zip(rows, texts, strict=True), start=first):
            self._require_positions(len(row) - (side == "target"), text, side)  # EOS of a target is not read
            if row == [PAD]:  # attention over nothing is no number
                raise ZooError(
                    f"pair {number:,} has a source without a token, {excerpt(text)}, and this model reads no EOS",
                    hint="leave the pair out: the model says nothing of it",
                )
        return rows

    def spelled(self, text: str) -> list[str]:
        """The tokens of a source, without EOS, as they are written."""
        return self.vocabulary.source.tokenize(text)

    def _encoded(self, texts: Sequence[str], side: Side) -> list[list[int]]:
        before = [BOS] if side == "target" else []
        tokens = [self.vocabulary.encode(text, side) if text.strip() or before else () for text in texts]
        end = EOS if before else self.vocabulary.source_end
        return [[*before, *each, end] for each in tokens]

    def _require_positions(self, length: int, text: str, side: Side) -> None:
        if self.positions is not None and length > self.positions:
            raise ZooError(
                f"the {side} {excerpt(text)} takes {length:,} positions, and the model has learned "
                f"{self.positions:,} (`architecture.max_positions`)",
                hint="split the line into sentences, or train with `positional_encoding: sinusoidal`",
            )

    def _limit(self, source: int) -> int:
        """Tokens of a translation at most, EOS not counted: the source's and 50 (paper, section 6.1)."""
        limit = int(source * self.decoding.length_factor) + self.decoding.extra_length
        # BOS takes the first position; EOS is produced, but never read.
        return limit if self.positions is None else min(limit, self.positions - 1)


def _units(vocabulary: Vocabulary, side: Side) -> str:
    """What of a text may be unknown."""
    return "words" if vocabulary.is_word_level(side) else "characters"


def _check_prefix(forced: Sequence[int], limit: int | None, text: str, prefix: str) -> None:
    if not forced:
        return
    if limit is None:
        raise ZooError(
            f"an empty text is to have a translation that starts with {excerpt(prefix)}",
            hint="prefix n belongs to text n: leave it empty where the text is",
        )
    if len(forced) > limit:
        raise ZooError(
            f"the prefix {excerpt(prefix)} has {len(forced):,} tokens, and a translation of {excerpt(text)} has "
            f"{limit:,} at most",
            hint="shorten the prefix, or raise `decoding.extra_length` of the model's spec",
        )
