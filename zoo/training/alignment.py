"""Estimate word alignments from sentence pairs (IBM model 1), for guided alignment, alignment heads and shortlists.

With `training.guided_alignment`, an attention head is trained to reproduce the estimated alignments of the training
batches. For models that were trained without this loss, `find_alignment_head` selects the head that agrees best with
the estimated alignments of the dev set. `make_shortlist` lists the probable translations of each source token.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, starmap
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from compiler import EmittedProgram, Purpose, build
from specs import EOS, Spec, Translation, ZooError
from zoo.data.batches import Batch
from zoo.data.store import Store
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.outputs import EvaluationSet
from zoo.generation.alignment import AlignmentHead, SentencePair, attention_batches
from zoo.generation.translator import Translator
from zoo.models.shortlist import NAME, Shortlist
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.initial_model import prepare_corpus
from zoo.training.run import Run

ITERATIONS = 10
MAX_TRAINING_PAIRS = 50_000
"""Number of pairs from which the lexical models for training are estimated. More pairs take longer, but
change the result little."""
MAX_STATISTICS_PAIRS, MAX_ATTENTION_PAIRS = 5_000, 300
"""Maximum numbers of dev set pairs: to align statistically, and to compare with the attention heads."""
Tokens = Sequence[int] | np.ndarray


class LexicalModel:
    """IBM model 1 without the empty word: the probability of each target token, given a source token.

    Brown et al., 1993, "The mathematics of statistical machine translation".
    """

    def __init__(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> None:
        """Estimate the translation probabilities with the EM algorithm.

        Args:
            pairs: Token IDs of source and target sentences, without special tokens.
        """
        pairs = [(source, target) for source, target in pairs if len(source) and len(target)]
        sources = _joined([np.tile(source, len(target)) for source, target in pairs])
        targets = _joined([np.repeat(target, len(source)) for source, target in pairs])
        lengths = _joined([np.full(len(target), len(source)) for source, target in pairs])
        occurrence = np.repeat(np.arange(len(lengths)), lengths)
        self._targets = int(targets.max(initial=0)) + 1
        """Number of target tokens. A key is the source token times this number, plus the target token."""
        self._keys, entry = np.unique(sources * self._targets + targets, return_inverse=True)
        source_of_key = self._keys // self._targets
        self._probabilities: np.ndarray = np.ones(len(self._keys))
        for _ in range(ITERATIONS):
            share = self._probabilities[entry]
            share /= np.bincount(occurrence, share)[occurrence]
            self._counts = np.bincount(entry, share, minlength=len(self._keys))
            self._probabilities = self._counts / np.bincount(source_of_key, self._counts)[source_of_key]

    def expected_links(
        self, min_count: float
    ) -> tuple[Int64[np.ndarray, " links"], Int64[np.ndarray, " links"], Float64[np.ndarray, " links"]]:
        """Return how often each source token is expected to be aligned to each target token in the training pairs.

        Args:
            min_count: Minimum expected number of alignments. Token pairs with a smaller number are left out.

        Returns:
            Three arrays with one element per token pair: source token, target token, expected number of alignments.
        """
        kept = self._counts >= min_count
        return *np.divmod(self._keys[kept], self._targets), self._counts[kept]

    def link_probabilities(self, source: Tokens, target: Tokens) -> Float64[np.ndarray, "target source"]:
        """Return the probability that each target token in a sentence pair is aligned to each source token.

        The row of a target token contains only zeros if no training pair contains the token together with one of the
        source tokens.
        """
        sources, targets = np.asarray(source, np.int64), np.asarray(target, np.int64)
        wanted = sources[None] * self._targets + targets[:, None]
        places = np.searchsorted(self._keys, wanted).clip(max=len(self._keys) - 1)
        is_known = (self._keys[places] == wanted) & (targets[:, None] < self._targets)
        found: Float64[np.ndarray, "target source"] = np.where(is_known, self._probabilities[places], 0.0)
        total = found.sum(1, keepdims=True)
        return found / np.where(total > 0, total, 1.0)


class StatisticalAligner:
    """Aligner that links two tokens if each token is the most probable translation of the other token."""

    def __init__(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> None:
        """Estimate a lexical model for each direction. `pairs` contains token IDs without special tokens."""
        self._to_target = LexicalModel(pairs)
        self._to_source = LexicalModel([(target, source) for source, target in pairs])

    def links(self, source: Tokens, target: Tokens) -> Bool[np.ndarray, "target source"]:
        """Return a Boolean matrix: True if the target token (row) is linked to the source token (column)."""
        to_target = self._to_target.link_probabilities(source, target)
        to_source = self._to_source.link_probabilities(target, source).T
        best_source, best_target = to_target.max(1, keepdims=True), to_source.max(0, keepdims=True)
        agreed: Bool[np.ndarray, "target source"] = (to_target == best_source) & (to_source == best_target)
        return agreed & (to_target > 0) & (to_source > 0)


class BatchAligner:
    """Aligner for training batches. Its lexical models are estimated from the training text.

    The same training text gives the same alignments, so a resumed run gives the same results as an uninterrupted run.
    """

    def __init__(self, store: Store, vocabulary: Vocabulary) -> None:
        """Estimate the lexical models from sentence pairs spread evenly over the training text in `store`."""
        indices = np.linspace(0, len(store) - 1, min(len(store), MAX_TRAINING_PAIRS)).astype(int)
        self._ignored = np.array(sorted(vocabulary.control_tokens("source")))
        sources, targets = (list(map(self._words, store.rows(name, indices))) for name in ("source", "target"))
        self._statistics = StatisticalAligner(list(zip(sources, targets, strict=True)))

    def _words(self, tokens: np.ndarray) -> np.ndarray:
        return tokens[~np.isin(tokens, self._ignored)]

    def __call__(self, batch: Batch) -> Float32[Tensor, "batch target source"]:
        """Return the alignment of a batch: for each target token, equal weights for the source tokens linked to it."""
        source, target = batch.source.values.cpu().numpy(), batch.target.values[:, 1:].cpu().numpy()
        alignment = np.zeros((*target.shape, source.shape[1]), dtype=np.float32)
        for row, sources, targets in zip(alignment, source, target, strict=True):
            columns = np.flatnonzero((sources > EOS) & ~np.isin(sources, self._ignored))
            rows = np.flatnonzero((targets > EOS) & ~np.isin(targets, self._ignored))
            if len(rows) and len(columns):
                row[np.ix_(rows, columns)] = self._statistics.links(sources[columns], targets[rows])
        return torch.from_numpy(alignment / np.maximum(alignment.sum(2, keepdims=True), 1.0))


def find_alignment_head(spec: Spec, vocabulary: Vocabulary, weights: Mapping[str, Tensor]) -> AlignmentHead | None:
    """Return the attention head whose word alignments on the dev set agree best with IBM model 1.

    The alignment of a target token can come from the decoder position that predicts the token, or from the position
    that reads it. For each head, both positions are tried. With `training.guided_alignment`, return the head that was
    trained to align.

    Returns:
        The head. None if the model does not translate text, if it has no attention to the source, if the dev set is
        missing, or if sentences in the dev set are too long.
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
    except ZooError:  # the dev set is missing, or its sentences are too long for the model
        return None
    return max(agreed, key=agreed.__getitem__, default=None)


def _count_agreements(
    program: EmittedProgram, translator: Translator, texts: EvaluationSet
) -> Iterator[tuple[AlignmentHead, int]]:
    """Yield, for each sentence pair and head, the number of target tokens that the head aligns as IBM model 1 does."""
    vocabulary = translator.vocabulary
    for direction, rows_of_direction in texts.rows_by_direction.items():
        preprocessor = translator.preprocessor(*direction)
        examples = ((texts.sources[row], texts.references[row]) for row in rows_of_direction)
        texts_of_pairs = [pair for pair in examples if all(map(str.strip, pair))]
        pairs, ids = [], []
        for source, target in starmap(preprocessor.replaced_pair, texts_of_pairs[:MAX_STATISTICS_PAIRS]):
            tokens = vocabulary.encode(source.text), vocabulary.encode(target.text, "target")
            if all(tokens):  # a text of invisible characters has none
                pairs.append((source, target))
                ids.append(tokens)
        aligner = StatisticalAligner(ids)
        links = [aligner.links(*pair) for pair in ids[:MAX_ATTENTION_PAIRS]]
        sentences = [SentencePair(number, *pair, 0, 0) for number, pair in enumerate(pairs[: len(links)])]
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


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([*arrays, np.zeros(0, np.int64)]).astype(np.int64)


FREQUENT = 100
"""Number of the most frequent target tokens, which every sentence may contain, as Marian's documentation recommends."""
BEST = 100
"""Number of target tokens per source token, as Marian's documentation recommends."""
MAX_PAIRS = 500_000
"""Number of pairs from which a shortlist is estimated. More pairs take longer, but hardly change the result."""
_BLOCK_PAIRS = 50_000
"""Number of sentence pairs from which one lexical model is estimated. More pairs need more memory."""
_MIN_COUNT = 0.1
"""Minimum expected number of times that two tokens are aligned. Rarer translations are not in the shortlist."""
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def make_shortlist(run: Run, report: Report) -> Path:
    """Estimate a lexical shortlist from a run's training text, and write it to the run folder.

    The estimate uses sentence pairs spread evenly over the text.

    Returns:
        Path of the shortlist file.

    Raises:
        ZooError: The model is not a translation model, or its training text is not available or has changed.
    """
    spec = run.spec
    if not isinstance(spec.task, Translation):
        problem = f"the task of `{run.folder}` is `{spec.task.kind}`, but only translation models use shortlists"
        raise ZooError(problem, hint="use the run of a translation model")
    prepared, vocabulary = prepare_corpus(spec, report), Vocabulary.load(run.folder)
    if not prepared.vocabulary.has_same_tokens_as(vocabulary):
        problem = f"the corpus of `{run.folder}` has changed since training: it now produces a different vocabulary"
        raise ZooError(problem, hint="restore the original corpus, or train again")
    store = prepared.store("train")
    estimate_shortlist(vocabulary, _sample(store, report)).write(file := run.folder / NAME)
    return file


def estimate_shortlist(
    vocabulary: Vocabulary, pairs: Iterable[tuple[Tokens, Tokens]], frequent: int = FREQUENT, best: int = BEST
) -> Shortlist:
    """Estimate a lexical shortlist: for each source token, the target tokens that a translation may contain.

    Each source token gets its most frequent translations according to IBM model 1. It also gets the target token with
    the same text, so that names and numbers can be copied. A byte token gets all byte tokens.

    Args:
        vocabulary: Vocabulary of the source and target sentences.
        pairs: Token IDs of source and target sentences, without BOS and EOS.
        frequent: Number of the most frequent target tokens, which every translation may contain.
        best: Maximum number of translations per source token.
    """
    size, target_size = vocabulary.sizes
    frequencies = np.zeros(target_size, np.int64)
    links, counts = np.zeros(0, np.int64), np.array([], np.float64)
    is_text, remaining = np.ones(size, np.bool_), iter(pairs)
    is_text[[*vocabulary.control_tokens()]] = False
    while block := list(islice(remaining, _BLOCK_PAIRS)):
        frequencies += np.bincount(np.concatenate([target for _, target in block]), minlength=target_size)
        arrays = ((np.asarray(source, np.int64), target) for source, target in block)
        model = LexicalModel([(source[is_text[source]], target) for source, target in arrays])
        sources, targets, expected = model.expected_links(_MIN_COUNT)
        links, index = np.unique(np.concatenate([links, sources * target_size + targets]), return_inverse=True)
        counts = np.bincount(index, np.concatenate([counts, expected])).astype(np.float64)
    lists = [[*ids] for ids in _copies(vocabulary)]
    sources, targets = np.divmod(links, target_size)
    order = np.lexsort((-counts, sources))
    starts = np.searchsorted(sources, np.arange(size + 1))
    for source, (start, end) in enumerate(pairwise(starts)):
        lists[source] += targets[order[start : min(end, start + best)]].tolist()
    common = np.argsort(-frequencies, kind="stable")[:frequent]
    return Shortlist.from_lists(common[frequencies[common] > 0], map(np.unique, lists))


def _sample(store: Store, report: Report) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    indices = np.linspace(0, len(store) - 1, min(len(store), MAX_PAIRS)).astype(int)
    with report.progress("shortlist", len(indices), "pairs") as progress:
        for index in indices:
            yield store.row("source", index), store.row("target", index)
            progress.advance()


def _copies(vocabulary: Vocabulary) -> list[list[int]]:
    """Return, for each source token, the IDs of the target tokens that can be copies of it.

    Any byte token can be a copy of a byte token. The copy of any other token is the target token with the same text.
    """
    size, target_size = vocabulary.sizes
    source, target = vocabulary.token_strings(range(size), "source"), vocabulary.token_strings(range(target_size))
    control, ids = vocabulary.control_tokens("target"), {text: id for id, text in enumerate(target)}
    all_bytes = [id for id, text in enumerate(target) if _BYTE.fullmatch(text)]
    return [
        all_bytes if _BYTE.fullmatch(text) else [ids[text]] if ids.get(text, EOS) not in control else []
        for text in source
    ]
