"""Find test sentences that are unlike the training text, and translations of single words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from tests.benchmarks.everyday_variants import Pair
from zoo.training.alignment import LexicalModel

FAR = 0.6
"""Minimum similarity of a test sentence to the nearest training sentence. Less similar sentences count as far."""
_GRAM = 4
MIN_COUNT, MIN_PROBABILITY, MIN_LETTERS = 4, 0.5, 3
"""Limits for entries of the dictionary: expected number of links, probability in each direction, and length."""
MAX_WORDS = 15
"""Maximum length of the sentences that the dictionary is estimated from."""
_TOKEN = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[^\W\d_]+")


def similarities(sentences: Sequence[str], training: Sequence[str]) -> list[float]:
    """Return the similarity of each sentence to the nearest training sentence.

    The similarity of two sentences is the Dice coefficient of their sets of character 4-grams. Case and punctuation
    are ignored.
    """
    postings: dict[str, list[int]] = defaultdict(list)
    sizes = np.zeros(len(training))
    for number, sentence in enumerate(training):
        grams = _grams(sentence)
        sizes[number] = len(grams)
        for gram in grams:
            postings[gram].append(number)
    arrays: dict[str, np.ndarray] = {}
    found = []
    for sentence in sentences:
        grams = _grams(sentence)
        for gram in grams - arrays.keys():
            arrays[gram] = np.array(postings.get(gram, []), np.int64)
        shared = np.bincount(np.concatenate([arrays[gram] for gram in grams]), minlength=len(training))
        found.append(float((2 * shared / (sizes + len(grams))).max()))
    return found


def far_lines(sentences: Sequence[str], training: Sequence[str]) -> list[int]:
    """Return the numbers, counted from 1, of the sentences whose similarity to every training sentence is below FAR."""
    return [line for line, value in enumerate(similarities(sentences, training), 1) if value < FAR]


def _grams(sentence: str) -> set[str]:
    text = f" {' '.join(_TOKEN.findall(sentence.lower()))} ".rjust(_GRAM)
    return {text[start : start + _GRAM] for start in range(len(text) - _GRAM + 1)}


def dictionary(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield words that are usually translations of each other, from the most frequent pair to the rarest.

    The pairs come from two lexical models (IBM Model 1), one per direction. Both models must give a pair at least the
    probability MIN_PROBABILITY.
    """
    short = [pair for pair in pairs if max(len(side.split()) for side in pair) <= MAX_WORDS]
    words = list(zip(*(_true_cased(column) for column in zip(*short, strict=True)), strict=True))
    names = [sorted({word for row in words for word in row[side]}) for side in (0, 1)]
    numbers = [{name: number for number, name in enumerate(column)} for column in names]
    sides = [[np.array([numbers[side][word] for word in row[side]], np.int64) for row in words] for side in (0, 1)]
    ids = list(zip(*sides, strict=True))
    forward = _links(LexicalModel(ids))
    backward = _links(LexicalModel([(second, first) for first, second in ids]))
    entries = {
        (first, second): count
        for (first, second), (count, probability) in forward.items()
        if probability >= MIN_PROBABILITY and backward.get((second, first), (0, 0.0))[1] >= MIN_PROBABILITY
    }
    for first, second in sorted(entries, key=lambda entry: (-entries[entry], entry)):
        pair = names[0][first], names[1][second]
        if min(map(len, pair)) >= MIN_LETTERS:
            yield pair


def _links(model: LexicalModel) -> dict[tuple[int, int], tuple[float, float]]:
    """Return the expected count and the probability of each frequent word link, keyed by (source ID, target ID)."""
    totals: Counter[int] = Counter()
    links = list(zip(*(column.tolist() for column in model.expected_links(0.0)), strict=True))
    for source, _, count in links:
        totals[source] += count
    return {(source, target): (count, count / totals[source]) for source, target, count in links if count >= MIN_COUNT}


def _true_cased(sentences: Sequence[str]) -> list[list[str]]:
    """Split sentences into words. Put the first word in lower case unless it is usually capitalised elsewhere."""
    rows = [_WORD.findall(sentence) for sentence in sentences]
    inner = Counter(word for row in rows for word in row[1:])
    return [[min(row[0].lower(), row[0], key=lambda word: -inner[word]), *row[1:]] if row else [] for row in rows]
