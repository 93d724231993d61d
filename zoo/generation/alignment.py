"""Word alignment: links from the tokens in a translation to source tokens, based on the decoder's attention."""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from compiler.lazy import torch
from compiler.padded_batch import PaddedBatch
from specs import ZooError
from zoo.generation.attention import CROSS_ATTENTION, layers_of
from zoo.generation.translation import group_by_length, pad_sequences
from zoo.report import Report
from zoo.text.copying import Replaced
from zoo.text.language_codes import base_language
from zoo.text.sentences import split_sentences
from zoo.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from jaxtyping import Float32
    from torch import Tensor

    from compiler import EmittedProgram
    from zoo.generation.preprocessing import Preprocessor
    from zoo.generation.translator import Translator

Span = tuple[int, int]
_MAX_END = 0.5
"""A token is not aligned if more than this fraction of its attention is on the end of the source (EOS)."""
_HEAD = re.compile(r"(\d+)\.(\d+)\.(reads|predicts)")


class AlignedToken(NamedTuple):
    """Token in a translation, and the source token that it attends to most. Both are given as character offsets."""

    target: Span
    """Start and end of the token in the translation."""
    source: Span
    """Start and end of the source token in the source text."""
    weight: float
    """Attention of the token to the source token, from 0 to 1."""


class AlignmentHead(NamedTuple):
    """Cross-attention head that aligns words best.

    Weights files store this head as `LAYER.HEAD.reads` or `LAYER.HEAD.predicts`. The suffix specifies which row of the
    attention matrix aligns a token: the row of the decoder position that reads the token, or that predicts it.
    """

    layer: int
    """Index of the decoder layer."""
    head: int
    reads: bool
    """Whether a token is aligned by the decoder position that reads it. If false, by the position that predicts it."""

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}.{'reads' if self.reads else 'predicts'}"

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Parse a head such as `2.5.reads` (see `AlignmentHead`). Return None if `text` is None or not valid."""
        match = _HEAD.fullmatch(text or "")
        return cls(int(match[1]), int(match[2]), match[3] == "reads") if match else None


class SentencePair(NamedTuple):
    """Sentence and its translation, as the model reads them."""

    number: int
    """Number of the text that contains the sentence."""
    source: Replaced
    target: Replaced
    source_start: int
    """Position of the sentence in the text, in characters."""
    target_start: int
    """Position of the sentence's translation in the translated text, in characters."""


def align(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    source: str | None,
    target: str | None,
    report: Report,
    max_tokens: int | None = None,
    first: int = 1,
) -> list[list[AlignedToken]]:
    """Align each translation to its source (see `Translator.align`).

    Sentence pairs with `max_tokens` or more tokens on either side are not aligned. Error messages number the texts
    from `first`.
    """
    build_program = translator.require_attention()
    tokenizers = translator.vocabulary.source, translator.vocabulary.target
    if not isinstance(tokenizers[1], Tokenizer):
        raise ZooError("a parser cannot align its trees to sentences", hint="use a translation model")
    preprocessor = translator.preprocessor(source, target, split=True)
    results: list[list[AlignedToken]] = [[] for _ in sources]
    pairs = [
        pair
        for number, texts in enumerate(zip(sources, targets, strict=True), first)
        for pair in _split_pair(number, *texts, preprocessor)
        if max_tokens is None
        or max(len(tokenizers[0].encode(pair.source.text)), len(tokenizers[1].encode(pair.target.text))) < max_tokens
    ]
    rows, columns = len(preprocessor.languages.target_tokens), len(preprocessor.languages.source_tokens)
    program = build_program()
    with report.progress("align", len(pairs), "sentences") as progress:
        for group, layers in attention_batches(program, preprocessor, pairs, translator.max_batch_tokens):
            weights = _weights_of(layers, translator.alignment_head)
            for pair, row in zip(group, weights, strict=True):
                source_spans = _spans(tokenizers[0], pair.source, pair.source_start)
                target_spans = _spans(tokenizers[1], pair.target, pair.target_start)
                for token in _aligned_tokens(row[rows:, columns:], source_spans, target_spans):
                    index = pair.number - first
                    results[index] += separate_words(token, sources[index], targets[index])
            progress.advance(len(group))
    return [sorted(tokens) for tokens in results]


def separate_words(token: AlignedToken, source: str, target: str) -> list[AlignedToken]:
    """Split an aligned token that consists of several words, such as `no. 5`, into one aligned token per word.

    If its source token has a different number of words, return the token unchanged.
    """
    words = [
        [(start + word.start(), start + word.end()) for word in re.finditer(r"\S+", text[start:end])]
        for text, (start, end) in ((target, token.target), (source, token.source))
    ]
    if len(words[0]) != len(words[1]) or len(words[0]) < 2:
        return [token]
    return [AlignedToken(part, origin, token.weight) for part, origin in zip(*words, strict=True)]


def word_links(source: str, target: str, tokens: Sequence[AlignedToken]) -> list[tuple[int, int]]:
    """Return the word alignment as pairs of word indices, (source word, target word), counted from 0.

    Words are separated by spaces. Each target word is linked to the source word that is aligned to its tokens with the
    highest total weight.
    """
    starts = [[match.start() for match in re.finditer(r"\S+", text)] for text in (source, target)]
    sums = defaultdict[int, defaultdict[int, float]](lambda: defaultdict(float))
    for token in tokens:
        from_word, to_word = bisect(starts[0], token.source[0]) - 1, bisect(starts[1], token.target[0]) - 1
        sums[to_word][from_word] += token.weight
    return sorted((max(of_word, key=of_word.__getitem__), to_word) for to_word, of_word in sums.items())


def _split_pair(number: int, source: str, target: str, preprocessor: Preprocessor) -> Iterator[SentencePair]:
    """Split a text and its translation into sentence pairs. `number` is the number of the text (see `SentencePair`).

    If the text and its translation have different numbers of sentences, yield a single pair.
    """
    parts = [[source], split_sentences(target, base_language(preprocessor.languages.target))]
    if preprocessor.splits_sentences:
        parts[0] = split_sentences(source, base_language(preprocessor.source_language(source)))
    if len(parts[0]) != len(parts[1]):
        parts = [[source], [target]]
    starts = [0, 0]
    for one, other in zip(*parts, strict=True):
        if one.strip() and other.strip():
            yield SentencePair(number, *preprocessor.replaced_pair(one, other), *starts)
        starts = [starts[0] + len(one), starts[1] + len(other)]


def attention_batches(
    program: EmittedProgram, preprocessor: Preprocessor, pairs: Sequence[SentencePair], max_batch_tokens: int
) -> Iterator[tuple[list[SentencePair], dict[int, Float32[Tensor, "batch h target source"]]]]:
    """Yield batches of sentence pairs, with the cross-attention weights of each layer, keyed by layer index.

    The last columns of each attention matrix are for EOS and padding.
    """
    numbers = [pair.number for pair in pairs]
    sources = preprocessor.encode_pairs_side([pair.source.text for pair in pairs], "source", numbers=numbers)
    targets = preprocessor.encode_pairs_side([pair.target.text for pair in pairs], "target", numbers=numbers)
    lengths = [max(map(len, each)) for each in zip(sources, targets, strict=True)]
    for group in group_by_length(lengths, max_batch_tokens):
        stream = PaddedBatch.pad([sources[index] for index in group], program.device)
        with torch.no_grad():
            _, weights = program.attend(stream, pad_sequences([targets[index] for index in group], program.device))
        if not (layers := layers_of(weights, "decoder", CROSS_ATTENTION)):
            raise ZooError("this model cannot align words, because its decoder does not attend to the source")
        yield [pairs[index] for index in group], layers


def _spans(tokenizer: Tokenizer, sentence: Replaced, sentence_start: int) -> list[Span]:
    """Return the start and end of each token in a sentence, as character offsets in the original text."""
    positions = [sentence_start + position for position in sentence.original_positions()]
    return [(positions[start], positions[end]) for start, end in tokenizer.spans(sentence.text)]


def _weights_of(
    layers: dict[int, Float32[Tensor, "batch h target source"]], head: AlignmentHead | None
) -> Float32[np.ndarray, "batch target source"]:
    """Return the weights of the given head. If there is no such head, average the heads of the second-to-last layer."""
    if head is not None and head.layer in layers:
        weights = layers[head.layer][:, head.head]
        return (weights[:, 1:] if head.reads else weights[:, :-1]).numpy()
    return layers[sorted(layers)[-2:][0]].mean(1)[:, :-1].numpy()


def _aligned_tokens(
    weights: Float32[np.ndarray, "target source"], sources: Sequence[Span], targets: Sequence[Span]
) -> Iterator[AlignedToken]:
    """Yield each target token with the source token that it attends to most.

    Omit target tokens that attend mostly to EOS. In `weights`, the columns after the source tokens are for EOS
    and padding.
    """
    columns = [column for column, (start, end) in enumerate(sources) if start < end]
    if not columns:
        return
    for (start, end), row in zip(targets, weights, strict=False):
        best = max(columns, key=row.__getitem__)
        if start < end and row[: len(sources)].sum() >= _MAX_END:
            yield AlignedToken((start, end), sources[best], min(1.0, float(row[best])))
