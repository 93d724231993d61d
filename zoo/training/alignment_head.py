"""Find the attention head whose alignments agree best with a statistical word alignment of the dev set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool
from torch import Tensor

from compiler import EmittedProgram, Purpose, build
from specs import Spec, Translation, ZooError
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.outputs import EvaluationSet
from zoo.generation.alignment import AlignmentHead, SentencePair, attention_batches
from zoo.generation.translator import Translator
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.lexical_model import LexicalModel, Tokens, mutual_links

MAX_STATISTICS_PAIRS, MAX_ATTENTION_PAIRS = 5_000, 300
"""Numbers of pairs that the statistical alignment, and the comparison with the heads, use."""


def find_alignment_head(spec: Spec, vocabulary: Vocabulary, weights: Mapping[str, Tensor]) -> AlignmentHead | None:
    """Return the attention head that aligns the dev set best.

    A token of the translation can be compared with the position of the decoder that predicts it, or with the one that
    reads it. Both are tried for each head. With `training.guided_alignment`, it is the head that was trained to align.

    Returns:
        The head. None if the model does not translate text or has no attention to the source, or if the dev set is
        missing or its sentences are too long.
    """
    if spec.guided_layer is not None:
        return AlignmentHead(spec.guided_layer, 0, False)
    if not isinstance(spec.task, Translation) or not spec.corpus.dev or spec.architecture.source.kind != "tokens":
        return None
    agreed = Counter[AlignmentHead]()
    try:
        texts = read_split(spec, "dev", Report(), vocabulary)
        program = build(spec, [Purpose.ATTEND], weights=weights, backend="eager")
        assert isinstance(program, EmittedProgram)
        for head, right in _count_agreements(program, Translator(program, vocabulary, spec), texts):
            agreed[head] += right
    except ZooError:  # the dev set is not there, or its sentences are too long for the model
        return None
    return max(agreed, key=agreed.__getitem__, default=None)


def _count_agreements(
    program: EmittedProgram, translator: Translator, texts: EvaluationSet
) -> Iterator[tuple[AlignmentHead, int]]:
    """Yield, for batches of the dev set and each head, how many of its links are those of the statistical alignment."""
    spec, vocabulary = translator.spec, translator.vocabulary
    for direction in dict.fromkeys(texts.directions or [spec.default_direction]):
        preprocessor = translator.preprocessor(*direction)
        pairs = [pair for pair in texts.examples(direction) if all(map(str.strip, pair))][:MAX_STATISTICS_PAIRS]
        ids = [(vocabulary.encode(source), vocabulary.encode(target, "target")) for source, target in pairs]
        links = align_statistically(ids)[:MAX_ATTENTION_PAIRS]
        sentences = [
            SentencePair(index, source, target, 0, 0) for index, (source, target) in enumerate(pairs[: len(links)])
        ]
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


def align_statistically(pairs: Sequence[tuple[Tokens, Tokens]]) -> list[Bool[np.ndarray, "target source"]]:
    """Return the links of sentence pairs on which two lexical models agree, one for each direction.

    Args:
        pairs: Token IDs of sources and targets, without special tokens.
    """
    to_target = LexicalModel(pairs)
    to_source = LexicalModel([(target, source) for source, target in pairs])
    return [
        mutual_links(to_target.link_probabilities(source, target), to_source.link_probabilities(target, source).T)
        for source, target in pairs
    ]
