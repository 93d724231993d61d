"""Preprocessing of texts: tokenise them, check their lengths, and split texts that are too long for the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from specs import BOS, EOS, UNK, Spec, ZooError
from zoo.generation.translation import SearchInput
from zoo.text.copying import Replaced, in_capitals, replace_in_pair, replace_spans, sentence_case
from zoo.text.language_codes import UNKNOWN, base_language, guess_language
from zoo.text.languages import LanguagePair
from zoo.text.lines import INVISIBLE, without_control
from zoo.text.sentences import excerpt, language_tokens, split_sentences
from zoo.text.spans import find_spans, needs_translation
from zoo.text.vocabulary import Side, Vocabulary

_LANGUAGES_WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my", "bo")
_MAX_PAIR_TOKENS = 10_000  # on each side of a pair to score or to align


@dataclass(frozen=True, slots=True, eq=False)
class EncodedText:
    """Text, encoded as inputs for the search. An empty text has no input. If a text is split, each part is an input.

    Attributes:
        index: Index of the text, counted from 0.
        text: The text, without invisible characters.
        parts: The input for each part. A part contains one or more sentences.
        length: Number of tokens in the whole text, excluding EOS.
        gaps: The white space between each part and the next.
        too_long: Whether the text is too long for the model to translate as a whole.
    """

    index: int
    text: str
    parts: tuple[SearchInput, ...]
    length: int
    gaps: tuple[str, ...] = ()
    too_long: bool = False


@dataclass(frozen=True)
class InputTerms:
    """Task-specific words for messages and progress bars, such as the noun for an input."""

    text: str = "text"
    """Noun for an input."""
    unit: str = "sentences"
    """Plural noun for inputs in progress bars."""
    length_unit: str = "tokens"
    """Unit for the length of an input."""
    verb: str = "translate"
    """Verb for what the model does, in progress bars."""
    treatment: str = "translated"
    """Past participle for what the model does with an input."""
    unknown_effect: str | None = "omitted, or translated as something else"
    """Effect of characters or words that the model does not know. None if such text causes no warning."""
    advice: str = ""
    """Advice about long inputs, at the end of a warning."""


@dataclass(frozen=True, eq=False)
class Preprocessor:
    """Preprocessor that converts texts to inputs for the search. It has no mutable state, so all calls can share it.

    If `splits_sentences` is false, a text is only split if it is too long for the model, into as few parts as possible.

    Attributes:
        vocabulary: The source and target vocabularies.
        spec: The model's spec.
        positions: Number of learned position embeddings, which limits the length of sentences. None for no limit.
        longest_in_training: Number of tokens in the longest source in the training data. None if it is not known.
        languages: Source and target language of the texts.
        splits_sentences: Whether each sentence in a text is translated separately. Texts with a prefix are not split.
        protects: Whether translations must keep numbers, links and the like. If true, texts without letters stay as
            they are.
    """

    max_chunk: ClassVar[int] = sys.maxsize
    """Maximum number of texts to encode at a time."""

    vocabulary: Vocabulary
    spec: Spec
    positions: int | None
    longest_in_training: int | None
    languages: LanguagePair
    splits_sentences: bool = False
    protects: bool = False

    @cached_property
    def terms(self) -> InputTerms:
        """Words that messages and progress bars use for texts."""
        return InputTerms()

    @cached_property
    def max_source_length(self) -> int:
        """Maximum number of tokens in a text that is translated as a whole, excluding EOS."""
        longest = self.spec.decoding.max_source_length
        own = 1 + len(self.languages.source_tokens)  # EOS and the language token
        return longest if self.positions is None else min(longest, self.positions - own)

    def is_unchanged(self, text: str) -> bool:
        """Return whether a text is kept as is, because `protects` is true and it has no words to translate."""
        return self.protects and not needs_translation(text[len(language_tokens(text)) :])

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
        text = INVISIBLE.sub("", text)  # they would hide the end of a link or sentence
        language = self.source_language(text)
        whole = self.encode_sentence(text, index, language, prefix)
        forced = self._encode_prefix(prefix)
        if not self.source_length(whole.tokens):
            if prefix.strip():
                problem = f"an empty text has the prefix {excerpt(prefix)}"
                raise ZooError(problem, hint="pass an empty prefix for this text; prefix n belongs to text n")
            return EncodedText(index, text, (), 0)
        length = self.source_length(whole.tokens) - len(self.languages.source_tokens)
        too_long = length > self.max_source_length
        by_sentence = self.splits_sentences and not prefix.strip()
        parts, inputs = list[str](), [whole]
        if too_long or by_sentence:
            parts = list(self._split(text, 0 if by_sentence else self.max_source_length, language, prefix))
        if len(parts) > 1:
            encoded = (self.encode_sentence(part, index, language, prefix) for part in parts)
            inputs = [replace(part, part=number) for number, part in enumerate(encoded)]
        inputs[0] = replace(inputs[0], prefix=forced)
        if len(forced) > (limit := inputs[0].max_length):
            raise ZooError(
                f"the prefix {excerpt(prefix)} has {len(forced):,} tokens, but a translation of "
                f"{excerpt(inputs[0].text)} has at most {limit:,}",
                hint="shorten the prefix, or raise `decoding.extra_length` in the model's spec",
            )
        # Between sentences without a space, as in Chinese, the target language determines whether to add one.
        default_gap = "" if base_language(self.languages.target) in _LANGUAGES_WITHOUT_SPACES else " "
        # Tabs after a part remain, and other control characters become spaces.
        spaces = (part[len(part.rstrip()) :].split("\t") for part in parts[:-1])
        gaps = tuple("\t".join(map(without_control, each)) or default_gap for each in spaces)
        return EncodedText(index, text, tuple(inputs), length, gaps, too_long and not by_sentence)

    def encode_sentence(self, text: str, index: int, language: str, prefix: str = "") -> SearchInput:
        """Encode a sentence or sentence fragment for the search.

        Args:
            text: The sentence or sentence fragment.
            index: Index of the text that contains the sentence.
            language: Language code of the sentence.
            prefix: The prefix that the text's translation must start with, or an empty string.
        """
        replaced = self.replaced(text, language, prefix)
        tokens = tuple(self._encode(replaced.text, "source"))
        own = self.languages.source_tokens if self.source_length(tokens) else ()
        return SearchInput(
            index,
            {"source": (*own, *tokens)},
            self._max_target_length(self.source_length(tokens)),
            self.languages.target_tokens,
            text.strip(),
            language=language,
            replaced=replaced,
        )

    def source_language(self, text: str) -> str:
        """Return the language of a text. If the request does not specify it, guess one of the model's languages."""
        own = self.languages
        if own.source != UNKNOWN or self.spec.languages is None:
            return own.source
        return guess_language(text, [code for code in self.spec.languages.codes if code != own.target], UNKNOWN)

    def replaced(self, text: str, language: str, prefix: str = "") -> Replaced:
        """Replace numbers, links and the like with copy symbols (placeholder tokens), if the model has any.

        A sentence with a prefix stays unchanged, because the prefix may contain some of the numbers or links.
        """
        if prefix.strip() or not (symbols := self.vocabulary.copy_symbols):
            return Replaced(text)
        return replace_spans(text, symbols, language, self.languages.target, self.vocabulary.source.is_rare)

    def _encode_prefix(self, prefix: str, name: str = "prefix") -> tuple[int, ...]:
        """Return the tokens that the output must start with: its language token, if any, and the prefix (or prompt).

        Error messages call the prefix `name`.
        """
        forced = tuple(self.vocabulary.encode(prefix, "target")) if prefix.strip() else ()
        if UNK in forced:
            unknown = ", ".join(map(repr, self.vocabulary.unknown(prefix, "target")))
            unit = unknown_units(self.vocabulary, "target")
            problem = f"the {name} {excerpt(prefix)} has {unit} that the model cannot generate: {unknown}"
            hint = f"remove them from the {name}, or train a model with `vocabulary.byte_fallback: true`"
            raise ZooError(problem, hint=hint)
        if suppressed := [token for token in dict.fromkeys(forced) if token in self.spec.decoding.suppressed_tokens]:
            tokens = ", ".join(map(repr, self.vocabulary.token_strings(suppressed)))
            problem = f"the {name} {excerpt(prefix)} has tokens that `decoding.suppressed_tokens` forbids: {tokens}"
            raise ZooError(problem, hint=f"rephrase or omit the {name}")
        return (*self.languages.target_tokens, *forced)

    def _split(self, text: str, max_tokens: int, language: str, prefix: str) -> Iterator[str]:
        """Split a text, and yield each part with the white space that follows it.

        Each part has at least one sentence, and as many whole sentences as fit into `max_tokens`. If the text starts
        with language tokens, such as `>>deu<<`, they are added to the start of each part.
        """
        start = language_tokens(text)
        part, length = "", 0
        for sentence in split_sentences(text[len(start) :], base_language(language)):
            sentence_length = len(self.vocabulary.encode(self.replaced(sentence, language, prefix).text, "source"))
            self._require_positions(sentence_length + 1, sentence, "source")
            name = f"the sentence {excerpt(sentence.strip())}"
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
        if not (symbols := self.vocabulary.copy_symbols):
            return Replaced(source), Replaced(target)
        languages = self.source_language(source), self.languages.target
        if in_capitals(source) and in_capitals(target):
            source = sentence_case(source, find_spans(source, *languages), languages[0])
            target = sentence_case(target, find_spans(target, *languages[::-1]), languages[1])
        return replace_in_pair(source, target, symbols, languages, self.vocabulary.source.is_rare)

    def encode_pairs_side(
        self, texts: Sequence[str], side: Side, *, numbers: Sequence[int] | None = None
    ) -> list[list[int]]:
        """Encode the sources or the targets of sentence pairs, for scoring.

        Args:
            texts: The sources or the targets.
            side: "source" if the texts are sources, "target" if they are targets.
            numbers: Number of each text's pair in error messages. Default: 1, 2, ...

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
        """Return the number of tokens in a source, excluding EOS."""
        return len(tokens) - len(self.vocabulary.source_suffix)

    def source_tokens(self, source: Replaced) -> list[str]:
        """Return the tokens in a source as strings, without EOS. Replace copy symbols with the original spans."""
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
                f"{name} has {length:,} {self.terms.length_unit}, but the model takes at most "
                f"{self.max_source_length:,} (`decoding.max_source_length`)",
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
        """Return the maximum number of tokens in a translation, excluding EOS.

        By default, it is the number of source tokens plus 50 (paper, section 6.1).
        """
        length = int(source_length * self.spec.decoding.length_factor) + self.spec.decoding.extra_length
        length += len(self.languages.target_tokens)
        # The decoder reads BOS at the first position. It produces EOS, but never reads it.
        return length if self.positions is None else min(length, self.positions - 1)


class PromptPreprocessor(Preprocessor):
    """Preprocessor for language models. Each text is a prompt, and the output begins with this prompt."""

    terms = InputTerms(verb="generate", unknown_effect=None)  # a prompt with unknown characters is an error

    def encode(self, text: str, prefix: str, index: int) -> EncodedText:
        """Encode a prompt for the search.

        Raises:
            ZooError: A prefix is given, or the prompt is too long or has characters that the model cannot generate.
        """
        if prefix.strip():
            problem = f"the text has the prefix {excerpt(prefix)}, but a language model accepts no prefixes"
            raise ZooError(problem, hint="put the prefix at the beginning of the input text instead")
        prompt = self._encode_prefix(text, "prompt")
        self.require_length(f"the prompt {excerpt(text)}", len(prompt), "shorten the prompt")
        part = SearchInput(index, {}, self._max_target_length(len(prompt)), prompt, text.strip())
        return EncodedText(index, text, (part,), len(prompt))


def unknown_units(vocabulary: Vocabulary, side: Side) -> str:
    """Return the noun for unknown items in messages: "words" if each token is a word, otherwise "characters"."""
    return "words" if vocabulary.is_word_level(side) else "characters"
