"""Find the attention head whose alignments agree best with a statistical word alignment of the dev set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float64
from torch import Tensor

from compiler import EmittedProgram, Purpose, build
from specs import Spec, Translation, ZooError
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.outputs import EvaluationSet
from zoo.generation.alignment import AlignmentHead, SentencePair, attention_batches
from zoo.generation.translator import Translator
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary

ITERATIONS = 10
MAX_STATISTICS_PAIRS, MAX_ATTENTION_PAIRS = 5_000, 300
"""Numbers of pairs that the statistical alignment, and the comparison with the heads, use."""
Links = Bool[np.ndarray, "target source"]


def find_alignment_head(spec: Spec, vocabulary: Vocabulary, weights: Mapping[str, Tensor]) -> AlignmentHead | None:
    """Return the attention head that aligns the dev set best.

    A token of the translation can be compared with the position of the decoder that predicts it, or with the one that
    reads it. Both are tried for each head.

    Returns:
        The head. None if the model does not translate text or has no attention to the source, or if there is no dev
        set.
    """
    if not isinstance(spec.task, Translation) or not spec.corpus.dev or spec.architecture.source.kind != "tokens":
        return None
    try:
        texts = read_split(spec, "dev", Report(), vocabulary)
    except ZooError:  # the files of the dev set are not there
        return None
    program = build(spec, [Purpose.ATTEND], weights=weights, backend="eager")
    assert isinstance(program, EmittedProgram)
    translator = Translator(program, vocabulary, spec)
    agreed: dict[AlignmentHead, int] = {}
    for head, right in _count_agreements(program, translator, texts):
        agreed[head] = agreed.get(head, 0) + right
    return max(agreed, key=agreed.__getitem__, default=None)


def _count_agreements(
    program: EmittedProgram, translator: Translator, texts: EvaluationSet
) -> Iterator[tuple[AlignmentHead, int]]:
    """Yield, for batches of the dev set and each head, how many of its links are those of the statistical alignment."""
    spec, vocabulary = translator.spec, translator.vocabulary
    for direction in dict.fromkeys(texts.directions or [spec.default_direction]):
        preprocessor = translator.preprocessor(*direction)
        pairs = [pair for pair in texts.pairs(direction) if all(map(str.strip, pair))][:MAX_STATISTICS_PAIRS]
        ids = [(vocabulary.encode(source), vocabulary.encode(target, "target")) for source, target in pairs]
        links = align_statistically(ids)[:MAX_ATTENTION_PAIRS]
        sentences = [SentencePair(index, *pair, 0, 0) for index, pair in enumerate(pairs[: len(links)])]
        rows, columns = len(preprocessor.languages.target_tokens), len(preprocessor.languages.source_tokens)
        batches = attention_batches(program, preprocessor, sentences, translator.max_batch_tokens)
        for group, layers in batches:
            for layer, weights in layers.items():
                for number, pair in enumerate(group):
                    known = links[pair.number]
                    attention = weights[number, :, rows:, columns : columns + known.shape[1]].numpy()
                    for reads in (False, True):
                        best = attention[:, reads : reads + known.shape[0]].argmax(2)  # [h, target]
                        right = known[np.arange(known.shape[0]), best].sum(1)
                        yield from ((AlignmentHead(layer, head, reads), int(n)) for head, n in enumerate(right))


def align_statistically(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Links]:
    """Return the links of sentence pairs on which two IBM models 1 agree, one for each direction.

    Model 1 (Brown et al., 1993, "The mathematics of statistical machine translation") estimates how probable each
    token is as the translation of another one, from the pairs alone. A link is True if each of its two tokens is the
    most probable origin of the other one.

    Args:
        pairs: Token IDs of sources and targets, without special tokens.
    """
    forward = model1(pairs)
    backward = model1([(target, source) for source, target in pairs])
    links = []
    for to_target, to_source in zip(forward, backward, strict=True):
        to_source = to_source.T
        best_source, best_target = to_target.max(1, keepdims=True), to_source.max(0, keepdims=True)
        links.append((to_target == best_source) & (to_source == best_target))
    return links


def model1(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Float64[np.ndarray, "target source"]]:
    """Return, for each pair, the probability that a target token comes from a source token, by IBM model 1."""
    if not pairs:
        return []
    shapes = [(len(target), len(source)) for source, target in pairs]
    sources = np.concatenate([np.tile(source, len(target)) for source, target in pairs])
    targets = np.concatenate([np.repeat(target, len(source)) for source, target in pairs])
    lengths = np.concatenate([np.full(rows, columns) for rows, columns in shapes])
    occurrence = np.repeat(np.arange(len(lengths)), lengths)
    entries, entry = np.unique(np.stack([sources, targets]), axis=1, return_inverse=True)
    source_of_entry = entries[0].astype(int)
    probability = np.ones(len(source_of_entry))
    share = np.zeros(len(occurrence))
    for _ in range(ITERATIONS):
        share = probability[entry.ravel()]
        share /= np.bincount(occurrence, share)[occurrence]
        expected = np.bincount(entry.ravel(), share)
        probability = expected / np.bincount(source_of_entry, expected)[source_of_entry]
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(share, ends[:-1]), shapes, strict=True)]
