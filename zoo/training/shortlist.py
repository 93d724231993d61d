"""Estimate the shortlist of a run from its training text (`zoo shortlist`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from specs import EOS, Translation, ZooError
from zoo.data.store import Store
from zoo.models.shortlist import NAME, Shortlist
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.alignment import LexicalModel, Tokens
from zoo.training.initial_model import prepare_corpus
from zoo.training.run import Run

FREQUENT = 100
"""Number of the most frequent target tokens, which every sentence may contain, as Marian's documentation recommends."""
BEST = 100
"""Number of target tokens per source token, as Marian's documentation recommends."""
MAX_PAIRS = 500_000
"""Number of pairs from which a shortlist is estimated. More pairs take longer, but change the result little."""
_BLOCK_PAIRS = 50_000
"""Number of pairs in a lexical model. Larger models need more memory."""
_MIN_COUNT = 0.1
"""Smallest expected number of times that a source token was translated as a target token."""
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def make_shortlist(run: Run, report: Report) -> Path:
    """Write the shortlist of a run, estimated from pairs that are spread evenly over its training text.

    Returns:
        The path of the file.

    Raises:
        ZooError: The model is a parser, or its training text is not available or has changed.
    """
    spec = run.spec
    if not isinstance(spec.task, Translation):
        problem = f"the task of `{run.folder}` is `{spec.task.kind}`, and shortlists are for translation"
        raise ZooError(problem, hint="use the run of a translation model")
    prepared, vocabulary = prepare_corpus(spec, report), Vocabulary.load(run.folder)
    if not prepared.vocabulary.has_same_tokens_as(vocabulary):
        hint = "restore the original corpus, or train again"
        raise ZooError(
            f"the corpus of `{run.folder}` has changed since training: it now gives a different vocabulary", hint=hint
        )
    store = prepared.store("train")
    estimate_shortlist(vocabulary, _sample(store, report)).write(file := run.folder / NAME)
    return file


def estimate_shortlist(
    vocabulary: Vocabulary, pairs: Iterable[tuple[Tokens, Tokens]], frequent: int = FREQUENT, best: int = BEST
) -> Shortlist:
    """Estimate a shortlist from sentence pairs.

    Each source token gets the target tokens that are its most frequent translations by IBM model 1, and the target
    token with the same text, so that names and numbers can be copied. A byte token gets all byte tokens.

    Args:
        vocabulary: The vocabulary.
        pairs: Token IDs of sources and targets, without BOS and EOS.
        frequent: Number of the most frequent target tokens, which each sentence may contain.
        best: Number of target tokens per source token.
    """
    size, target_size = vocabulary.sizes
    frequencies = np.zeros(target_size, np.int64)
    links, counts = np.zeros(0, np.int64), np.array([], np.float64)
    is_text, remaining = np.ones(size, np.bool_), iter(pairs)
    is_text[[*vocabulary.control_tokens()]] = False
    while block := list(islice(remaining, _BLOCK_PAIRS)):
        frequencies += np.bincount(np.concatenate([target for _, target in block]), minlength=target_size)
        model = LexicalModel([(source[is_text[source]], target) for source, target in _as_arrays(block)])
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


def _as_arrays(pairs: Sequence[tuple[Tokens, Tokens]]) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    return ((np.asarray(source, np.int64), np.asarray(target, np.int64)) for source, target in pairs)


def _copies(vocabulary: Vocabulary) -> list[list[int]]:
    """Return for each source token the target token with the same text, or for a byte all bytes of the target."""
    size, target_size = vocabulary.sizes
    source, target = vocabulary.token_strings(range(size), "source"), vocabulary.token_strings(range(target_size))
    control, ids = vocabulary.control_tokens("target"), {text: id for id, text in enumerate(target)}
    all_bytes = [id for id, text in enumerate(target) if _BYTE.fullmatch(text)]
    return [
        all_bytes if _BYTE.fullmatch(text) else [ids[text]] if ids.get(text, EOS) not in control else []
        for text in source
    ]
