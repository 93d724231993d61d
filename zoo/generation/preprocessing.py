"""Preprocessing of texts: tokenise them, check their lengths, and split texts that are too long for the model."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import repeat
from typing import ClassVar

from specs import BOS, EOS, UNK, Spec, ZooError
from zoo.generation.input_warnings import EncodedText, InputWarnings, units
from zoo.generation.translation import SearchInput, Translation, join_parts, unchanged
from zoo.report import Report
from zoo.text.copying import Replaced, in_capitals, replace_in_pair, replace_spans, sentence_case
from zoo.text.language_codes import UNKNOWN, are_languages, base_language, guess_language
from zoo.text.languages import LanguagePair
from zoo.text.lines import without_control
from zoo.text.sentences import check_text, excerpt, language_tokens, split_sentences
from zoo.text.spans import find_spans, needs_translation
from zoo.text.vocabulary import Side, Vocabulary

TextWithPrefix = tuple[str, str]
"""A text, and the prefix that its translation must start with. The prefix may be an empty string."""
MAX_SENTENCE_TOKENS = 512
"""A model counts as trained on single sentences if no source in training had more than this number of tokens."""
_LANGUAGES_WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my", "bo")
_MAX_PAIR_TOKENS = 10_000  # on each side of a pair to score or to align


@dataclass(eq=False)
class Preprocessor:
    """Converts texts to inputs for the search, and counts texts that need a warning.

    If the model was trained on single sentences, each text is split into sentences (`splits_sentences`). Otherwise a
    text is only split if it is too long for the model, into as few parts as possible.

    Attributes:
        vocabulary: The vocabularies of source and target.
        spec: The model's spec.
        positions: Number of learned position embeddings, which limits the length of sentences. None: no limit.
        longest_in_training: Number of tokens in the longest source in training. None if it is not known.
        report: Receives the warnings.
        languages: Source and target language.
        split: Whether to split texts into sentences if the model was trained on single sentences.
        protect: Whether translations must keep numbers, links and the like, if source and target are natural languages.
        splits_sentences: Whether each sentence of a text is translated separately. Texts with a prefix are not split.
        max_source_length: Maximum number of tokens in a text that is translated as a whole, without EOS.
        warnings: Counts of unusual texts.
        protects: Whether `protect` is true, and source and target are natural languages. If so, texts without letters
            stay unchanged.
        unchanged_texts: Index and translation of each text that needs no search, because it is empty or unchanged.
        split_texts: Texts that are being translated in parts, by index.
        finished_parts: Translations of the finished parts of split texts, by text index and part.
        error: The error that ended `read_chunks` early, if any.
    """

    unknown_effect: ClassVar[str | None] = "omitted, or translated as something else"
    """Part of the warning: what happens to characters or words that the model does not know."""
    label = "text"
    """Word for a text in messages."""
    unit = "sentences"
    """Word for texts in progress bars."""
    length_unit = "tokens"
    """Unit of a text's length, in warnings."""
    treatment = "translated"
    """Verb for what the model does with a text, in warnings."""
    advice = ""
    """Advice about long texts, at the end of a warning."""
    max_chunk = sys.maxsize
    """Maximum number of texts to encode at a time."""

    vocabulary: Vocabulary
    spec: Spec
    positions: int | None
    longest_in_training: int | None
    report: Report
    languages: LanguagePair
    split: bool = False
    protect: bool = False

    def __post_init__(self) -> None:
        longest, languages = self.longest_in_training or self.spec.corpus.max_length, self.languages
        self.splits_sentences = self.split and longest <= MAX_SENTENCE_TOKENS
        self.protects = self.protect and are_languages(languages.source, languages.target)
        # Between sentences without a space, as in Chinese, the target language determines whether to add one.
        self._default_gap = "" if base_language(languages.target) in _LANGUAGES_WITHOUT_SPACES else " "
        self.empty_source = self.vocabulary.source_suffix
        self.symbols = self.vocabulary.copy_symbols
        self.max_source_length = self.spec.decoding.max_source_length
        if self.positions is not None:
            own = 1 + len(languages.source_tokens)  # EOS and the language token
            self.max_source_length = min(self.max_source_length, self.positions - own)
        self.warnings = InputWarnings(self)
        self.unchanged_texts: deque[tuple[int, list[Translation]]] = deque()
        self.split_texts: dict[int, EncodedText] = {}
        self.finished_parts: dict[int, dict[int, Iterable[Translation]]] = {}
        self.error: Exception | None = None

    def read_chunks(self, chunks: Iterable[Sequence[TextWithPrefix]], first: int) -> Iterator[list[SearchInput]]:
        """Encode texts, and yield the non-empty sentences of each chunk. `first` is the index of the first text.

        An error ends the iteration and is stored in `error`, so that the texts before it can still be translated.
        """
        unread = iter(chunks)
        while not self.error:
            inputs = list[SearchInput]()
            try:
                if (chunk := next(unread, None)) is None:
                    return
                for index, (text, prefix) in enumerate(chunk, first):
                    check_text(text, index + 1, self.label)
                    check_text(prefix, index + 1, "prefix")
                    inputs += self._inputs(self.encode(text, prefix, index), prefix)
                first += len(chunk)
            except Exception as error:
                self.error = error
            yield inputs

    def _inputs(self, text: EncodedText, prefix: str) -> list[SearchInput]:
        """Return the parts of a text that the model must translate. Store every other part as its own translation."""
        if not text.parts:
            self.warnings.count(text)
            self.unchanged_texts.append((text.index, [Translation("")]))
            return []
        if not prefix.strip() and self._stays(text.text):
            self.unchanged_texts.append((text.index, [unchanged(text.text)]))
            return []
        self.warnings.count(text)
        if len(text.parts) == 1:
            return [*text.parts]
        inputs = [part for part in text.parts if part.tokens != self.empty_source and not self._stays(part.text)]
        inputs = inputs or [*text.parts]
        numbers = {part.part for part in inputs}
        self.split_texts[text.index] = text
        self.finished_parts[text.index] = {
            part.part: repeat(unchanged(part.text)) for part in text.parts if part.part not in numbers
        }
        return inputs

    def _stays(self, text: str) -> bool:
        """Return whether a text stays unchanged, because it has no words to translate."""
        return self.protects and not needs_translation(text[len(language_tokens(text)) :])

    def unchanged_translations(self) -> Iterator[tuple[int, list[Translation]]]:
        """Yield the index and the translation of each text that needs no search, because it has no words."""
        while self.unchanged_texts:
            yield self.unchanged_texts.popleft()

    def join(self, source: SearchInput, translations: list[Translation]) -> list[Translation]:
        """Store the translations of one part of a text. When all parts are finished, return the text's translations.

        Count the text for a warning if its best translation lacks numbers, links or similar parts.

        Args:
            source: The part, or a text that is translated as a whole.
            translations: Translations of the part, best first.

        Returns:
            The translations of the whole text, or an empty list if other parts are not finished yet.
        """
        if split := self.split_texts.get(source.index):
            finished = self.finished_parts[source.index]
            finished[source.part] = translations
            if len(finished) < len(split.parts):
                return []
            ranks = zip(*(finished[part] for part in range(len(finished))), strict=False)
            del self.finished_parts[source.index], self.split_texts[source.index]
            sources = [part.text for part in split.parts]
            translations = [join_parts(sources, same_rank, split.gaps) for same_rank in ranks]
        self.warnings.count_unkept(split or source, translations[0])
        return translations

    def encode(self, text: str, prefix: str, index: int) -> EncodedText:
        """Encode a text for the search.

        Args:
            text: The text.
            prefix: The prefix of its translation, or an empty string.
            index: Index of the text.

        Raises:
            ZooError: A sentence is too long for the model, the prefix is longer than a translation may be, or the
                prefix has characters or tokens that the model cannot generate.
        """
        language = self.source_language(text)
        whole = self.encode_sentence(text, index, language, prefix)
        forced = self._encode_prefix(prefix, index)
        if whole.tokens == self.empty_source:
            if prefix.strip():
                raise ZooError(
                    f"an empty text has the prefix {excerpt(prefix)}",
                    hint="leave the prefixes of empty texts empty: prefix n belongs to text n",
                )
            return EncodedText(index, text, (), 0)
        length = self.source_length(whole.tokens) - len(self.languages.source_tokens)
        too_long = length > self.max_source_length
        by_sentence = self.splits_sentences and not prefix.strip()
        parts = []
        if too_long or by_sentence:
            parts = list(self._split(text, index, 0 if by_sentence else self.max_source_length, language, prefix))
        if len(parts) < 2:
            inputs = [replace(whole, prefix=forced)]
        else:
            first_tokens = [forced, *[self.languages.target_tokens] * (len(parts) - 1)]
            inputs = [
                replace(self.encode_sentence(part, index, language, prefix), prefix=first, part=number)
                for number, (part, first) in enumerate(zip(parts, first_tokens, strict=True))
            ]
        if len(forced) > (limit := inputs[0].max_length):
            raise ZooError(
                f"the prefix {excerpt(prefix)} has {len(forced):,} tokens, but a translation of "
                f"{excerpt(inputs[0].text)} has at most {limit:,}",
                hint="shorten the prefix, or raise `decoding.extra_length` in the model's spec",
            )
        gaps = tuple(_gap_after(part) or self._default_gap for part in parts[:-1])
        return EncodedText(index, text, tuple(inputs), length, gaps, too_long and not by_sentence)

    def encode_sentence(self, text: str, index: int, language: str, prefix: str = "") -> SearchInput:
        """Encode a sentence, or a fragment of it, for the search. `prefix` is the prefix of the text's translation."""
        replaced = self.replaced(text, language, prefix)
        tokens = tuple(self._encode(replaced.text, "source"))
        own = self.languages.source_tokens if tokens != self.empty_source else ()
        return SearchInput(
            index,
            {"source": (*own, *tokens)},
            self._max_target_length(self.source_length(tokens)),
            self.languages.target_tokens,
            text.strip(),
            language=language,
            copied=replaced.spans,
            capitals=replaced.capitals,
        )

    def source_language(self, text: str) -> str:
        """Return the request's source language. If it is unknown, guess it from the text and the model's languages."""
        own = self.languages
        if own.source != UNKNOWN or self.spec.languages is None:
            return own.source
        return guess_language(text, [code for code in self.spec.languages.codes if code != own.target], UNKNOWN)

    def replaced(self, text: str, language: str, prefix: str = "") -> Replaced:
        """Replace numbers, links and the like with copy symbols (placeholder tokens), if the model has any.

        A sentence with a prefix stays unchanged, because the prefix may contain some of the numbers or links.
        """
        if prefix.strip() or not self.symbols:
            return Replaced(text)
        return replace_spans(text, self.symbols, language, self.languages.target, self.vocabulary.source.is_rare)

    def _encode_prefix(self, prefix: str, index: int) -> tuple[int, ...]:
        """Return the tokens that the translation must start with: its language token, if any, and the prefix."""
        forced = tuple(self.vocabulary.encode(prefix, "target")) if prefix.strip() else ()
        if UNK in forced:
            unknown = ", ".join(map(repr, self.vocabulary.unknown(prefix, "target")))
            raise ZooError(
                f"prefix {index + 1:,} ({excerpt(prefix)}) has {units(self.vocabulary, 'target')} that the model "
                f"cannot generate: {unknown}",
                hint="remove them from the prefix, or train a model with `vocabulary.byte_fallback: true`",
            )
        if suppressed := [token for token in dict.fromkeys(forced) if token in self.spec.decoding.suppressed_tokens]:
            tokens = ", ".join(map(repr, self.vocabulary.token_strings(suppressed)))
            raise ZooError(
                f"prefix {index + 1:,} ({excerpt(prefix)}) has tokens that `decoding.suppressed_tokens` forbids: "
                f"{tokens}",
                hint="rephrase or omit the prefix",
            )
        return (*self.languages.target_tokens, *forced)

    def _split(self, text: str, index: int, max_tokens: int, language: str, prefix: str) -> Iterator[str]:
        """Split a text, and yield each part with the white space that follows it.

        Each part has at least one sentence, and as many whole sentences as fit into `max_tokens`. If the text starts
        with language tokens, such as `>>deu<<`, they are added to the start of each part.
        """
        start = language_tokens(text)
        part, length = "", 0
        for sentence in split_sentences(text[len(start) :], base_language(language)):
            replaced = self.replaced(sentence, language, prefix)
            sentence_length = len(self.vocabulary.encode(replaced.text, "source"))
            self._require_positions(sentence_length + 1, sentence, "source")
            name = f"a sentence of text {index + 1:,} ({excerpt(text)})"
            self.require_length(name, sentence_length, "split the sentence into several lines")
            if length and length + sentence_length > max_tokens:
                yield start + part
                part, length = "", 0
            part, length = part + sentence, length + sentence_length
        if length:
            yield start + part

    def replaced_pair(self, source: str, target: str) -> tuple[Replaced, Replaced]:
        """Replace numbers, links and the like with copy symbols (placeholder tokens), if the model has any.

        Only numbers, links and the like that occur in both texts are replaced.
        """
        if not self.symbols:
            return Replaced(source), Replaced(target)
        languages = self.source_language(source), self.languages.target
        if in_capitals(source) and in_capitals(target):
            source = sentence_case(source, find_spans(source, *languages), languages[0])
            target = sentence_case(target, find_spans(target, *languages[::-1]), languages[1])
        return replace_in_pair(source, target, self.symbols, languages, self.vocabulary.source.is_rare)

    def encode_pairs_side(
        self, texts: Sequence[str], side: Side, *, numbers: Sequence[int] | None = None
    ) -> list[list[int]]:
        """Encode one side of sentence pairs for scoring.

        Args:
            texts: The texts of this side.
            side: "source" or "target".
            numbers: Number of each text's pair, for error messages. Default: 1, 2, ...

        Returns:
            The token IDs of each text. Sources end with EOS if the model uses EOS there. Targets start with BOS and end
            with EOS.

        Raises:
            ZooError: A text has more than 10,000 tokens or more tokens than the model has positions, or a source has no
                tokens.
        """
        rows = []
        for number, text in zip(range(1, len(texts) + 1) if numbers is None else numbers, texts, strict=True):
            row = self._encode(text, side)
            own = self.languages.source_tokens if side == "source" else self.languages.target_tokens
            start = 1 if side == "target" else 0  # after BOS
            row[start:start] = own
            self._require_positions(len(row) - (side == "target"), text, side)  # the EOS of a target is never read
            if len(row) > _MAX_PAIR_TOKENS:  # the memory of attention grows with the square of the length
                raise ZooError(
                    f"pair {number:,} has a {side} of {len(row):,} tokens, but the maximum is {_MAX_PAIR_TOKENS:,}",
                    hint="split the line into sentences, one per line",
                )
            if row == list(own):  # attention over zero positions is not defined
                raise ZooError(
                    f"pair {number:,} has a source without tokens ({excerpt(text)}), and this model appends no EOS",
                    hint="remove the pair: the model cannot score it",
                )
            rows.append(row)
        return rows

    def source_length(self, tokens: Sized) -> int:
        """Return the number of tokens in a source, without EOS."""
        return len(tokens) - len(self.vocabulary.source_suffix)

    def source_tokens(self, source: Replaced) -> list[str]:
        """Return the tokens of a source as strings, without EOS. Replace copy symbols with the original spans."""
        tokens = self.vocabulary.source.tokenize(source.text)
        return [source.spans[token].text if token in source.spans else token for token in tokens]

    def _encode(self, text: str, side: Side) -> list[int]:
        if side == "target":
            return [BOS, *self.vocabulary.encode(text, side), EOS]
        return [*(self.vocabulary.encode(text, side) if text.strip() else ()), *self.vocabulary.source_suffix]

    def require_length(self, name: str, length: int, hint: str) -> None:
        """Raise ZooError if an input is longer than the model accepts. `name` describes the input in the message."""
        if length > self.max_source_length:
            raise ZooError(
                f"{name} has {length:,} {self.length_unit}, but the model takes at most {self.max_source_length:,} "
                "(`decoding.max_source_length`)",
                hint=hint,
            )

    def _require_positions(self, length: int, text: str, side: Side) -> None:
        if self.positions is not None and length > self.positions:
            raise ZooError(
                f"the {side} {excerpt(text)} needs {length:,} positions, but the model has "
                f"{self.positions:,} (`architecture.positions.rows`)",
                hint="split the line into sentences, or train with `positions: {kind: sinusoidal}`",
            )

    def _max_target_length(self, source_length: int) -> int:
        """Return the maximum number of tokens in a translation, without EOS.

        By default, it is the number of source tokens plus 50 (paper, section 6.1).
        """
        length = int(source_length * self.spec.decoding.length_factor) + self.spec.decoding.extra_length
        length += len(self.languages.target_tokens)
        # The decoder reads BOS at the first position. It produces EOS, but never reads it.
        return length if self.positions is None else min(length, self.positions - 1)


def _gap_after(part: str) -> str:
    """Return the white space at the end of a part. Tabs remain, and other control characters become spaces."""
    return "\t".join(map(without_control, part[len(part.rstrip()) :].split("\t")))
