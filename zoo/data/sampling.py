"""Subword regularisation: other tokens of the same sentence in every epoch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import sentencepiece

from zoo.data.batches import Pairs, Tokens
from zoo.text.vocabulary import Side, Vocabulary


class Sampling:
    """Draws the tokens of sentences anew: SentencePiece's sampling, by merges left out (bpe) or by probability."""

    def __init__(self, vocabulary: Vocabulary, alpha: float, most: int) -> None:
        """`alpha` is the probability to leave a merge out, or the exponent of the probabilities (unigram).

        A sentence that came out longer than `most` tokens keeps those that it has.
        """
        self._vocabulary, self._alpha, self._most = vocabulary, alpha, most

    def __call__(self, pairs: Pairs, seed: int) -> Pairs:
        """The same sentences in tokens that follow from the seed (63 bits) alone."""
        # SentencePiece seeds its random numbers once for each thread of its own: so each batch has a new one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._drawn, pairs, seed).result()

    def _drawn(self, pairs: Pairs, seed: int) -> Pairs:
        sentencepiece.set_random_generator_seed(seed % 2**32)
        return Pairs(
            [self._anew(row, "source") for row in pairs.sources], [self._anew(row, "target") for row in pairs.targets]
        )

    def _anew(self, row: Tokens, side: Side) -> Tokens:
        drawn = self._vocabulary.sample(row.tolist(), self._alpha, side)
        return np.array(drawn, np.int32) if 0 < len(drawn) <= max(self._most, len(row)) else row
