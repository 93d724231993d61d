"""Inputs and results of a search, and functions that group inputs into batches and join results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast

from compiler.lazy import torch
from compiler.padded_batch import PaddedBatch
from zoo.generation.confidence import UNCERTAIN, Calibration
from zoo.text.copying import Replaced
from zoo.text.sentences import language_tokens
from zoo.text.span_kinds import Span

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor


MIN_ROW_TOKENS = 16
"""Minimum number of tokens to count for a sentence in a batch. Translations of short sentences also need memory."""
MARKS = ("unkept", "uncertain")
"""Fields of a translation that list what a user should check. They are shown only if they are not empty."""
_UNCERTAIN = -0.7
"""Mean log-probability per token below which a translation is uncertain, if the model has no calibration."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchInput:
    """Input for one search: a sentence as token IDs, or another input as features.

    Attributes:
        index: Index of the text that contains the sentence, counted from 0.
        streams: The values of each stream that the encoder reads: token IDs (including EOS if the model uses EOS), or
            features, [frames, width]. Empty if the model has no encoder.
        max_length: Maximum number of tokens in the output, excluding EOS.
        prefix: Token IDs that the output must start with.
        text: The sentence as text, for error messages.
        words: For a parser, the target token of each word in the sentence. UNK means that any word token is allowed.
        part: Index of the sentence in its text, counted from 0. It is 0 if the text was not split.
        required: Spans that the output must contain (see `SpanConstraint`).
        language: Language code of the text, given or guessed.
        replaced: The sentence with copy symbols, as the model reads it (see `zoo.text.copying`).
    """

    index: int
    streams: Mapping[str, tuple[int, ...] | Tensor]
    max_length: int
    prefix: tuple[int, ...] = ()
    text: str = ""
    words: tuple[int, ...] = ()
    part: int = 0
    required: tuple[Span, ...] = ()
    language: str = ""
    replaced: Replaced = field(default_factory=Replaced)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The token IDs of the source, for a model that reads text. Empty if the model has no encoder."""
        return cast("tuple[int, ...]", self.streams.get("source", ()))

    def __len__(self) -> int:
        return sum(map(len, self.streams.values()))


class Hypothesis(NamedTuple):
    """Result of a search: the tokens in an output, with their scores."""

    tokens: tuple[int, ...]
    """Token IDs without BOS and EOS."""
    log_probability: float
    """Natural log-probability (see `Translation`)."""
    score: float
    """`log_probability` divided by the length penalty."""

    def with_text(self, text: str) -> Translation:
        """Return a translation with the scores and tokens of this hypothesis, and the given text."""
        return Translation(text, self.score, self.log_probability, self.tokens)


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a text.

    Attributes:
        text: The translation as text.
        score: `log_probability` divided by the length penalty (paper, section 6.1).
        log_probability: Natural log-probability. It includes EOS, unless the translation was cut off at the maximum
            length.
        tokens: Token IDs without BOS and EOS.
        parts: If the text was translated in parts, each part and its translation. Otherwise empty.
        unkept: Amounts, links and similar spans in the text that the translation lacks, and numbers that it has added.
        uncertain: Sentences in the text whose translations have a low confidence or, if the model has no calibration, a
            low probability.
        confidence: Probability that the translation is good (see `zoo.generation.confidence`). For a text of several
            sentences, it is the lowest confidence. None if the model has no calibration, or if the text was copied
            instead of translated.
        confidences: If the text was translated in parts, the confidence of each part. Otherwise empty.
    """

    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: tuple[int, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()
    unkept: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = field(default=(), compare=False)
    confidence: float | None = field(default=None, compare=False)
    confidences: tuple[float | None, ...] = field(default=(), compare=False)

    def with_confidence(self, sentence: str, calibration: Calibration | None) -> Translation:
        """Return a copy of this translation with its confidence.

        Args:
            sentence: The source sentence.
            calibration: Calibration of the confidence, if the model has one.
        """
        if calibration is None:
            confidence, is_uncertain = None, self.log_probability < _UNCERTAIN * (len(self.tokens) + 1)
        else:
            confidence = calibration.confidence(sentence, self.text, self.log_probability)
            is_uncertain = confidence < UNCERTAIN
        uncertain = (sentence,) if is_uncertain else ()
        return replace(self, uncertain=uncertain, confidence=confidence, confidences=())

    @classmethod
    def joined(
        cls, text: str, translations: Sequence[Translation], parts: tuple[tuple[str, str], ...] = ()
    ) -> Translation:
        """Join several translations into one translation with the given text. The scores are added up."""
        score = sum(each.score for each in translations)
        log_probability = sum(each.log_probability for each in translations)
        tokens = tuple(token for each in translations for token in each.tokens)
        marks = {name: tuple(chain.from_iterable(getattr(each, name) for each in translations)) for name in MARKS}
        confidences = tuple(chain.from_iterable(each.confidences or (each.confidence,) for each in translations))
        lowest = min((each for each in confidences if each is not None), default=None)
        return cls(text, score, log_probability, tokens, parts, **marks, confidence=lowest, confidences=confidences)


def group_by_length(lengths: Sequence[int], max_batch_tokens: int) -> list[list[int]]:
    """Group sentences of similar length into batches, to avoid padding.

    Args:
        lengths: Number of tokens in each sentence.
        max_batch_tokens: Maximum number of tokens in a batch, including padding. A longer sentence gets its own
            batch.

    Returns:
        Batches of sentence indices, longest sentences first.
    """
    by_length = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    batches, start = list[list[int]](), 0
    while start < len(by_length):
        end = start + max(1, max_batch_tokens // max(lengths[by_length[start]], MIN_ROW_TOKENS))
        batches.append(by_length[start:end])
        start = end
    return batches


def pad_sequences(rows: Sequence[Sequence[int]], device: torch.device | str) -> Int[Tensor, "rows longest"]:
    """Combine sequences of token IDs into one tensor. Shorter rows are padded with PAD at the end."""
    return PaddedBatch.pad(rows, device).values


def concatenate(first: Tensor, second: Tensor) -> Tensor:
    """Concatenate the rows of two tensors. All other dimensions are padded with zeros to the larger size."""
    sizes = list(map(max, first.shape[1:], second.shape[1:]))
    padded = []
    for tensor in (first, second):
        missing = [size - own for size, own in zip(sizes, tensor.shape[1:], strict=True)]
        padded.append(torch.nn.functional.pad(tensor, [side for each in reversed(missing) for side in (0, each)]))
    return torch.cat(padded)


def unchanged(text: str) -> Translation:
    """Return a text as its own translation, without language tokens."""
    return Translation(text[len(language_tokens(text)) :])


def join_parts(sources: Sequence[str], parts: Sequence[Translation], gaps: Sequence[str]) -> Translation:
    """Join the translations of a text's parts into the translation of the whole text.

    Args:
        sources: The parts of the text, in order.
        parts: The translation of each part.
        gaps: The white space between each part and the next.
    """
    text = ""
    for part, gap in zip(parts, ("", *gaps), strict=True):
        if part.text:
            text += (gap if text else "") + part.text
    pairs = tuple((source, part.text) for source, part in zip(sources, parts, strict=True))
    return Translation.joined(text, parts, pairs)
